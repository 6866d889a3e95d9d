#include "logc/log_recovery.h"

#include <algorithm>
#include <map>
#include <optional>
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

// One log, wherever there are copies of it.
struct SealedLog {
  Uuid log;
  std::optional<StocId> preferred;  // whose segments will do
  std::map<StocId, std::vector<SealedSegment>> segments;
  std::map<StocId, uint64_t> files;  // and their bytes
};

std::string StocText(StocClient* stocs, StocId stoc) {
  const auto node = stocs->Find(stoc);
  return node ? node->name : StrCat("stoc ", stoc.value());
}

Status AddSegments(StocClient* stocs, const SealedLog& log, StocId stoc, Nanos deadline_ns, LogCopies* copies) {
  std::vector<SealedSegment> segments = log.segments.at(stoc);
  std::sort(segments.begin(), segments.end(), [](const SealedSegment& a, const SealedSegment& b) { return a.index < b.index; });
  std::vector<LogCopies::Piece> pieces;
  for (const SealedSegment& s : segments) {
    NOVA_ASSIGN_OR_RETURN(std::string bytes, stocs->ReadRemote(stoc, s.memory, deadline_ns));
    pieces.push_back({StrCat("segment ", s.index, " on ", StocText(stocs, stoc)), std::move(bytes)});
  }
  copies->Add(LogCopies::Keeps::kWritten, std::move(pieces));
  return OkStatus();
}

Status AddFile(StocClient* stocs, const SealedLog& log, StocId stoc, Nanos deadline_ns, LogCopies* copies) {
  const StocFileId file{log.log, 0};
  NOVA_ASSIGN_OR_RETURN(std::string bytes, stocs->ReadFileBlocking(stoc, file, 0, log.files.at(stoc), deadline_ns));
  const std::string where = StrCat("files/", file.ToString(), " on ", StocText(stocs, stoc));
  copies->Add(LogCopies::Keeps::kSynced, {{where, std::move(bytes)}});
  return OkStatus();
}

// The segments of one member hold what was acknowledged, and so does each file; but a disk may have damaged a record since, so all
// files are read; and where that happened to memory, whatever there is.
Status ReadLog(StocClient* stocs, const SealedLog& log, const MemTableDone& done, Nanos deadline_ns, std::vector<RecoveredRecord>* out) {
  LogCopies copies(log.log, done);
  bool any = false;
  Status failed;
  std::string unread;
  const auto add = [&](StocId stoc, const Status& s) {
    any |= s.ok();
    if (s.ok()) return;
    failed = s;
    unread += StrCat(unread.empty() ? "" : "; ", StocText(stocs, stoc), ": ", s.message());
  };
  if (log.preferred) add(*log.preferred, AddSegments(stocs, log, *log.preferred, deadline_ns, &copies));
  if (!any || copies.damaged()) {
    for (const auto& [stoc, bytes] : log.files) add(stoc, AddFile(stocs, log, stoc, deadline_ns, &copies));
  }
  if (!any || copies.damaged()) {
    for (const auto& [stoc, segments] : log.segments) {
      if (stoc != log.preferred) add(stoc, AddSegments(stocs, log, stoc, deadline_ns, &copies));
    }
  }
  if (!any) return failed;
  const Status s = copies.Read(out);
  return unread.empty() ? s : Annotate(s, StrCat("not read: ", unread));
}

}  // namespace

StatusOr<std::vector<RecoveredRecord>> RecoverLogs(StocClient* stocs, const RangeRecord& record, const MemTableDone& done,
                                                   Nanos deadline_ns) {
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
  // The logs that have segments on a chosen StoC, which has all of them then: they are of one incarnation; or a file anywhere, for a
  // StoC may have lost one.
  std::map<Uuid, SealedLog> by_log;
  for (const auto& [stoc, reply] : fenced) {
    for (const SealedLogFile& f : reply.files) by_log[f.log].files[stoc] = f.size;
    for (const SealedSegment& s : reply.segments) {
      SealedLog& log = by_log[s.log];
      log.segments[stoc].push_back(s);
      if (chosen.contains(stoc) && !log.preferred) log.preferred = stoc;
    }
  }
  std::vector<SealedLog> logs;
  for (auto& [uuid, log] : by_log) {
    log.log = uuid;
    if (log.preferred || !log.files.empty()) logs.push_back(std::move(log));
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
        const Status s = ReadLog(stocs, log, done, deadline_ns, &part);
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
