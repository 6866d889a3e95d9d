#include "logc/log_recovery.h"

#include <algorithm>
#include <map>
#include <set>

#include "common/base/failpoint.h"
#include "common/base/log.h"
#include "common/base/thread.h"

namespace nova {
namespace {

constexpr size_t kReaders = 4;  // logs read at once

std::string MemberText(StocClient* stocs, const LogMember& m) {
  const auto node = stocs->Find(m.stoc);
  return StrCat(node ? node->name : StrCat("stoc ", m.stoc.value()), "/", m.incarnation.value());
}

// Fences every listed member that answers; by StoC.
std::map<StocId, FenceReply> FenceMembers(StocClient* stocs, const RangeRecord& record, Nanos deadline_ns) {
  std::set<StocId> members;
  for (const LogGroup& g : record.log_groups) {
    for (const LogMember& m : g.members) members.insert(m.stoc);
  }
  Mutex mu;
  std::map<StocId, FenceReply> fenced;
  std::vector<std::unique_ptr<Thread>> threads;
  for (const StocId stoc : members) {
    threads.push_back(std::make_unique<Thread>("ltc.recovery", [&, stoc] {
      auto reply = stocs->Fence(stoc, record.id, record.epoch, deadline_ns);
      if (!reply.ok()) {
        NOVA_LOG(WARNING) << "range " << record.id.value() << ": fencing stoc " << stoc.value() << ": " << reply.status();
        return;
      }
      MutexLock lock(&mu);
      fenced[stoc] = *std::move(reply);
    }));
  }
  threads.clear();  // joins
  return fenced;
}

// One log: its segments on one StoC, or its file wherever there is one.
struct SealedLog {
  StocId stoc;
  Uuid log;
  std::vector<SealedSegment> segments;
  std::vector<std::pair<StocId, uint64_t>> files;  // and their bytes
};

Status Parse(const Uuid& log, std::string_view bytes, uint64_t* lsn, std::vector<RecoveredRecord>* out) {
  return ParseLogSegment(log, bytes, lsn, [out](const ParsedLogEntry& e) {
    out->push_back({e.sequence, e.entry.memtable, e.entry.type, std::string(e.entry.key), std::string(e.entry.value)});
  });
}

// The copy with the longest valid prefix: each has what was acknowledged, but a disk may have damaged a record since.
Status ReadLogFile(StocClient* stocs, const SealedLog& log, Nanos deadline_ns, std::vector<RecoveredRecord>* out) {
  Status failed;
  uint64_t longest = 0;
  for (const auto& [stoc, size] : log.files) {
    const auto bytes = stocs->ReadFileBlocking(stoc, {log.log, 0}, 0, size, deadline_ns);
    if (!bytes.ok()) {
      failed = bytes.status();
      continue;
    }
    uint64_t lsn = 1;
    std::vector<RecoveredRecord> records;
    NOVA_RETURN_IF_ERROR(Parse(log.log, *bytes, &lsn, &records));
    if (lsn > longest) {
      longest = lsn;
      *out = std::move(records);
    }
  }
  return longest > 0 ? OkStatus() : failed;
}

Status ReadLog(StocClient* stocs, SealedLog log, Nanos deadline_ns, std::vector<RecoveredRecord>* out) {
  if (log.segments.empty()) return ReadLogFile(stocs, log, deadline_ns, out);
  uint64_t lsn = 1;
  std::sort(log.segments.begin(), log.segments.end(), [](const SealedSegment& a, const SealedSegment& b) { return a.index < b.index; });
  for (const SealedSegment& s : log.segments) {
    NOVA_ASSIGN_OR_RETURN(const std::string bytes, stocs->ReadRemote(log.stoc, s.memory, deadline_ns));
    NOVA_RETURN_IF_ERROR(Parse(log.log, bytes, &lsn, out));
  }
  return OkStatus();
}

}  // namespace

StatusOr<std::vector<RecoveredRecord>> RecoverLogs(StocClient* stocs, const RangeRecord& record, Nanos deadline_ns) {
  const std::map<StocId, FenceReply> fenced = FenceMembers(stocs, record, deadline_ns);
  if (!fenced.empty()) NOVA_FP("logc.fenced");
  // Few StoCs that cover all groups: one that is already chosen first, else the first that was fenced.
  std::set<StocId> chosen;
  std::string missing;
  for (const LogGroup& g : record.log_groups) {
    const auto usable = [&](const LogMember& m) {
      const auto it = fenced.find(m.stoc);
      return it != fenced.end() && g.Holds(m, it->second.incarnation, it->second.store);
    };
    if (std::any_of(g.members.begin(), g.members.end(), [&](const LogMember& m) { return usable(m) && chosen.contains(m.stoc); })) {
      continue;
    }
    const auto it = std::find_if(g.members.begin(), g.members.end(), usable);
    if (it != g.members.end()) {
      chosen.insert(it->stoc);
      continue;
    }
    std::string names;
    for (const LogMember& m : g.members) names += (names.empty() ? "" : ", ") + MemberText(stocs, m);
    missing += StrCat(missing.empty() ? "" : "; ", "log group ", g.id.value(), " {", names, "}");
  }
  if (!missing.empty()) {
    return absl::UnavailableError(StrCat("range ", record.id.value(), ": no member answers of ", missing));
  }
  // A log that has segments there has all of them: they are of one incarnation.
  std::map<Uuid, std::vector<std::pair<StocId, uint64_t>>> file_copies;
  for (const auto& [stoc, reply] : fenced) {
    for (const SealedLogFile& f : reply.files) file_copies[f.log].push_back({stoc, f.size});
  }
  std::vector<SealedLog> logs;
  for (const StocId stoc : chosen) {
    std::map<Uuid, SealedLog> by_log;
    for (const SealedLogFile& f : fenced.at(stoc).files) by_log[f.log] = {stoc, f.log, {}, file_copies.at(f.log)};
    for (const SealedSegment& s : fenced.at(stoc).segments) {
      by_log.try_emplace(s.log, SealedLog{stoc, s.log, {}, {}}).first->second.segments.push_back(s);
    }
    for (auto& [uuid, log] : by_log) logs.push_back(std::move(log));
  }
  Mutex mu;
  size_t next = 0;
  Status status;
  std::vector<RecoveredRecord> records;
  std::vector<std::unique_ptr<Thread>> readers;
  for (size_t i = 0; i < std::min(kReaders, logs.size()); ++i) {
    readers.push_back(std::make_unique<Thread>("ltc.recovery", [&] {
      for (;;) {
        SealedLog log;
        {
          MutexLock lock(&mu);
          if (next == logs.size() || !status.ok()) return;
          log = logs[next++];
        }
        std::vector<RecoveredRecord> part;
        const Status s = ReadLog(stocs, std::move(log), deadline_ns, &part);
        MutexLock lock(&mu);
        if (!s.ok()) status = s;
        std::move(part.begin(), part.end(), std::back_inserter(records));
      }
    }));
  }
  readers.clear();
  NOVA_RETURN_IF_ERROR(status);
  if (!records.empty()) NOVA_FP("logc.recovered");
  return records;
}

}  // namespace nova
