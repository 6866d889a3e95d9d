#include "logc/log_recovery.h"

#include <algorithm>
#include <map>
#include <set>

#include "common/base/log.h"
#include "common/base/thread.h"

namespace nova {
namespace {

constexpr size_t kReaders = 4;  // segments read at once

std::string MemberText(StocClient* stocs, const LogMember& m) {
  const auto node = stocs->Find(m.stoc);
  return StrCat(node ? node->name : StrCat("stoc ", m.stoc.value()), "/", m.incarnation.value());
}

// Fences every listed member that answers; by StoC, the replies of the right incarnation.
std::map<StocId, FenceReply> FenceMembers(StocClient* stocs, const RangeRecord& record, Nanos deadline_ns) {
  std::set<StocId> members;
  std::set<std::pair<StocId, Incarnation>> listed;
  for (const LogGroup& g : record.log_groups) {
    for (const LogMember& m : g.members) {
      members.insert(m.stoc);
      listed.insert({m.stoc, m.incarnation});
    }
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
      if (listed.contains({stoc, reply->incarnation})) fenced[stoc] = *std::move(reply);
    }));
  }
  threads.clear();  // joins
  return fenced;
}

struct Segment {
  StocId stoc;
  SealedSegment sealed;
};

// All segments of one log, read from one StoC, parsed in order.
Status ReadLog(StocClient* stocs, std::vector<Segment> segments, Nanos deadline_ns, std::vector<RecoveredRecord>* out) {
  std::sort(segments.begin(), segments.end(),
            [](const Segment& a, const Segment& b) { return a.sealed.index < b.sealed.index; });
  uint64_t lsn = 1;
  for (const Segment& s : segments) {
    NOVA_ASSIGN_OR_RETURN(const std::string bytes, stocs->ReadRemote(s.stoc, s.sealed.memory, deadline_ns));
    NOVA_RETURN_IF_ERROR(ParseLogSegment(s.sealed.log, bytes, &lsn, [out](const ParsedLogEntry& e) {
      out->push_back({e.sequence, e.entry.memtable, e.entry.type, std::string(e.entry.key), std::string(e.entry.value)});
    }));
  }
  return OkStatus();
}

}  // namespace

StatusOr<std::vector<RecoveredRecord>> RecoverLogs(StocClient* stocs, const RangeRecord& record, Nanos deadline_ns) {
  const std::map<StocId, FenceReply> fenced = FenceMembers(stocs, record, deadline_ns);
  // Few StoCs that cover all groups: one that is already chosen first, else the first that was fenced.
  std::set<StocId> chosen;
  std::string missing;
  for (const LogGroup& g : record.log_groups) {
    const auto usable = [&](const LogMember& m) {
      const auto it = fenced.find(m.stoc);
      return it != fenced.end() && it->second.incarnation == m.incarnation;
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
  std::vector<std::vector<Segment>> logs;
  for (const StocId stoc : chosen) {
    std::map<Uuid, std::vector<Segment>> by_log;
    for (const SealedSegment& s : fenced.at(stoc).segments) by_log[s.log].push_back({stoc, s});
    for (auto& [uuid, segments] : by_log) logs.push_back(std::move(segments));
  }
  Mutex mu;
  size_t next = 0;
  Status status;
  std::vector<RecoveredRecord> records;
  std::vector<std::unique_ptr<Thread>> readers;
  for (size_t i = 0; i < std::min(kReaders, logs.size()); ++i) {
    readers.push_back(std::make_unique<Thread>("ltc.recovery", [&] {
      for (;;) {
        std::vector<Segment> segments;
        {
          MutexLock lock(&mu);
          if (next == logs.size() || !status.ok()) return;
          segments = logs[next++];
        }
        std::vector<RecoveredRecord> part;
        const Status s = ReadLog(stocs, std::move(segments), deadline_ns, &part);
        MutexLock lock(&mu);
        if (!s.ok()) status = s;
        std::move(part.begin(), part.end(), std::back_inserter(records));
      }
    }));
  }
  readers.clear();
  NOVA_RETURN_IF_ERROR(status);
  return records;
}

}  // namespace nova
