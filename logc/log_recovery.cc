#include "logc/log_recovery.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "common/base/failpoint.h"
#include "common/base/log.h"
#include "common/base/thread.h"

namespace nova {
namespace {

constexpr size_t kReaders = 4;               // logs read at once
constexpr Nanos kReadOfOne = 5 * kSecond;    // a copy, before another one is read
constexpr Nanos kFenceOfOne = 10 * kSecond;  // a request
constexpr Nanos kFenceAgain = kSecond;       // after one that failed

std::string MemberText(StocClient* stocs, const LogMember& m) {
  const auto node = stocs->Find(m.stoc);
  return StrCat(node ? node->name : StrCat("stoc ", m.stoc.value()), "/", m.incarnation.value());
}

// One log, wherever there are copies of it.
struct SealedLog {
  Uuid log;
  std::optional<StocId> preferred;  // whose segments will do
  std::map<StocId, std::vector<SealedSegment>> segments;
  std::map<StocId, Incarnation> incarnations;  // that have the segments
  std::map<StocId, uint64_t> files;            // and their bytes
  std::set<StocId> members;                    // that had answered
  bool over = false;                           // nothing of it is needed, whatever its files hold
};

std::string StocText(StocClient* stocs, StocId stoc) {
  const auto node = stocs->Find(stoc);
  return node ? node->name : StrCat("stoc ", stoc.value());
}

// Reads one log, from as few copies as it takes.
class LogReader {
 public:
  LogReader(StocClient* stocs, const RangeFences& fences, const SealedLog& log, const MemTableDone& done,
            Nanos deadline_ns)
      : stocs_(stocs), fences_(fences), log_(log), deadline_ns_(deadline_ns), copies_(log.log, done) {}

  // The segments of one member hold what was acknowledged, and so does each file; but a disk may have damaged
  // a record since, so all files are read; and where that happened to memory, whatever there is, or comes.
  Status Read(RecoveredLogs* out) {
    if (log_.preferred) AddSegmentsOf(*log_.preferred);
    if (Lacking()) {
      for (const auto& [stoc, bytes] : log_.files) AddFile(stoc, bytes);
    }
    if (Lacking()) {
      for (const auto& [stoc, incarnation] : log_.incarnations) {
        if (stoc != log_.preferred) AddSegmentsOf(stoc);
      }
    }
    if (Lacking()) AddLateCopies();
    if (!any_ && log_.over) {
      NOVA_LOG(WARNING) << "log " << log_.log.ToString()
                        << " is left out: members whose memory is whole do not have it; not read: "
                        << unread_;
      return OkStatus();
    }
    if (!any_) return failed_;
    const Status s = copies_.Read(out);
    return unread_.empty() ? s : Annotate(s, StrCat("not read: ", unread_));
  }

 private:
  bool Lacking() const { return !any_ || copies_.damaged(); }
  Nanos DeadlineOfOne() const { return std::min(deadline_ns_, Now() + kReadOfOne); }

  // Of members that had not answered when the log was looked for.
  void AddLateCopies() {
    const Nanos until = std::min(deadline_ns_, Now() + RangeFences::kWaitForCopies);
    std::set<StocId> seen = log_.members;
    while (Lacking() && Now() < until) {
      const auto members = fences_.WaitUntil(
          [&](const RangeFences::Members& m) {
            return m.fenced.size() > seen.size() || (m.silent.empty() && m.failed.empty()) || !m.lost.ok();
          },
          until);
      if (members.fenced.size() == seen.size()) return;
      for (const auto& [stoc, reply] : members.fenced) {
        if (!seen.insert(stoc).second) continue;
        for (const SealedLogFile& f : reply.files) {
          if (f.log == log_.log) AddFile(stoc, f.size);
        }
        std::vector<SealedSegment> segments;
        for (const SealedSegment& s : reply.segments) {
          if (s.log == log_.log) segments.push_back(s);
        }
        if (!segments.empty()) AddSegments(stoc, reply.incarnation, std::move(segments));
      }
    }
  }

  void AddSegmentsOf(StocId stoc) { AddSegments(stoc, log_.incarnations.at(stoc), log_.segments.at(stoc)); }
  void AddSegments(StocId stoc, Incarnation incarnation, std::vector<SealedSegment> segments) {
    std::sort(segments.begin(), segments.end(),
              [](const SealedSegment& a, const SealedSegment& b) { return a.index < b.index; });
    std::vector<LogCopies::Piece> pieces;
    for (const SealedSegment& s : segments) {
      auto bytes = stocs_->ReadRemote(stoc, incarnation, s.memory, DeadlineOfOne());
      if (!bytes.ok()) return Failed(stoc, bytes.status());
      pieces.push_back({StrCat("segment ", s.index, " on ", StocText(stocs_, stoc)), *std::move(bytes)});
    }
    Add(LogCopies::Keeps::kWritten, std::move(pieces));
  }

  void AddFile(StocId stoc, uint64_t size) {
    const StocFileId file{log_.log, 0};
    // It may be complete by now; how long it is then, nobody has said.
    if (size == SealedLogFile::kUnknownSize)
      return Failed(stoc, absl::DataLossError("its journal is not put back"));
    auto bytes = stocs_->ReadFileBlocking(stoc, file, 0, size, DeadlineOfOne());
    if (!bytes.ok()) return Failed(stoc, bytes.status());
    Add(LogCopies::Keeps::kSynced,
        {{StrCat("files/", file.ToString(), " on ", StocText(stocs_, stoc)), *std::move(bytes)}});
  }

  void Add(LogCopies::Keeps keeps, std::vector<LogCopies::Piece> pieces) {
    copies_.Add(keeps, std::move(pieces));
    any_ = true;
  }
  void Failed(StocId stoc, const Status& s) {
    failed_ = s;
    unread_ += StrCat(unread_.empty() ? "" : "; ", StocText(stocs_, stoc), ": ", s.message());
  }

  StocClient* const stocs_;
  const RangeFences& fences_;
  const SealedLog& log_;
  const Nanos deadline_ns_;
  LogCopies copies_;
  bool any_ = false;
  Status failed_;
  std::string unread_;
};

// Which StoCs are read.
struct Cover {
  std::set<StocId> chosen;  // a member of each group
  std::string missing;      // the groups of which no member will do
};

// Few StoCs that cover all groups, those that have a group's segments before those that have only its files.
Cover CoverGroups(StocClient* stocs, const RangeRecord& record, const std::map<StocId, FenceReply>& fenced,
                  const RulesOff& off) {
  Cover cover;
  for (const LogGroup& g : record.log_groups) {
    const auto rank = [&](const LogMember& m) {  // 0: of no use
      const auto it = fenced.find(m.stoc);
      if (it == fenced.end()) return 0;
      if (!off.n1_incarnation && !g.Holds(m, it->second.incarnation, it->second.store)) return 0;
      const bool same_start = m.incarnation == it->second.incarnation;
      // What it cannot read was there when it started: it may be a log of the group's, if that is older.
      if (!same_start && !it->second.unreadable.empty()) return 0;
      const bool memory = HasMemory(g.media) && same_start;
      return 1 + (memory ? 2 : 0) + (cover.chosen.contains(m.stoc) ? 1 : 0);
    };
    const auto best =
        std::max_element(g.members.begin(), g.members.end(),
                         [&](const LogMember& a, const LogMember& b) { return rank(a) < rank(b); });
    if (best != g.members.end() && rank(*best) > 0) {
      cover.chosen.insert(best->stoc);
      continue;
    }
    std::string names;
    for (const LogMember& m : g.members) {
      names += (names.empty() ? "" : ", ") + MemberText(stocs, m);
      const auto it = fenced.find(m.stoc);
      if (it == fenced.end() || it->second.unreadable.empty() ||
          !g.Holds(m, it->second.incarnation, it->second.store))
        continue;
      names += StrCat(
          " (cannot read the header of files/", StocFileId{it->second.unreadable[0], 0}.ToString(),
          it->second.unreadable.size() == 1 ? ""
                                            : StrCat(" and of ", it->second.unreadable.size() - 1, " more"),
          ", which may be its log)");
    }
    cover.missing += StrCat(cover.missing.empty() ? "" : "; ", "log group ", g.id.value(), " {", names, "}");
  }
  return cover;
}

// Files of a log are left of which no member's memory has anything, and each group that it may be of has
// another member that was listed with memory and has had it ever since. There it would be, had anything of it
// been acknowledged (write-all, L3) that is in no table (done memtables, M3): memory loses no single log. A
// member's file may be gone by itself, and proves nothing.
bool IsOver(const RangeRecord& record, const std::map<StocId, FenceReply>& fenced, const SealedLog& log) {
  if (!log.segments.empty()) return false;
  const auto has_file = [&](const LogMember& m) { return log.files.contains(m.stoc); };
  const auto has_memory = [&](const LogMember& m) {
    const auto it = fenced.find(m.stoc);
    return it != fenced.end() && it->second.incarnation == m.incarnation;
  };
  return std::all_of(record.log_groups.begin(), record.log_groups.end(), [&](const LogGroup& g) {
    return std::none_of(g.members.begin(), g.members.end(), has_file) ||
           (HasMemory(g.media) && std::any_of(g.members.begin(), g.members.end(), has_memory));
  });
}

// The logs that have segments on a chosen StoC, which has all of them then: they are of one incarnation; or a
// file anywhere, for a StoC may have lost one.
std::vector<SealedLog> FindLogs(const RangeRecord& record, const std::map<StocId, FenceReply>& fenced,
                                const std::set<StocId>& chosen) {
  std::map<Uuid, SealedLog> by_log;
  std::set<StocId> members;
  for (const auto& [stoc, reply] : fenced) {
    members.insert(stoc);
    for (const SealedLogFile& f : reply.files) by_log[f.log].files[stoc] = f.size;
    for (const SealedSegment& s : reply.segments) {
      SealedLog& log = by_log[s.log];
      log.segments[stoc].push_back(s);
      log.incarnations[stoc] = reply.incarnation;
      if (chosen.contains(stoc) && !log.preferred) log.preferred = stoc;
    }
  }
  std::vector<SealedLog> logs;
  for (auto& [uuid, log] : by_log) {
    log.log = uuid;
    log.members = members;
    log.over = IsOver(record, fenced, log);
    if (log.preferred || !log.files.empty()) logs.push_back(std::move(log));
  }
  return logs;
}

}  // namespace

// --- fencing

// Ends with an answer, or by being destroyed: then its xchg thread has stopped, and so does the asking.
struct RangeFences::Request {
  Request(std::shared_ptr<RangeFences> f, StocId s) : fences(std::move(f)), stoc(s) {}
  Request(Request&&) = default;
  ~Request() {
    if (fences != nullptr) fences->Answered(stoc, absl::CancelledError("the process ends"));
  }
  std::shared_ptr<RangeFences> fences;
  StocId stoc;
};

std::shared_ptr<RangeFences> RangeFences::Start(StocClient* stocs, const RangeRecord& record) {
  std::shared_ptr<RangeFences> fences(new RangeFences(stocs, record.id, record.epoch));
  std::set<StocId> members(record.manifest.members.begin(), record.manifest.members.end());
  for (const LogGroup& g : record.log_groups) {
    for (const LogMember& m : g.members) members.insert(m.stoc);
  }
  {
    MutexLock lock(&fences->mu_);
    fences->members_.silent = members;
  }
  for (const StocId stoc : members) fences->Ask(stoc, 0);
  return fences;
}

void RangeFences::Ask(StocId stoc, Nanos start_ns) {
  stocs_->StartFence(stoc, range_, epoch_, start_ns, std::max(start_ns, Now()) + kFenceOfOne,
                     [request = Request(shared_from_this(), stoc)](StatusOr<FenceReply> reply) mutable {
                       std::exchange(request.fences, nullptr)->Answered(request.stoc, std::move(reply));
                     });
}

void RangeFences::Answered(StocId stoc, StatusOr<FenceReply> reply) {
  bool again = false;
  {
    MutexLock lock(&mu_);
    const bool first = members_.silent.erase(stoc) > 0;
    if (reply.ok()) {
      members_.failed.erase(stoc);
      members_.fenced[stoc] = *std::move(reply);
    } else if (absl::IsFailedPrecondition(reply.status())) {
      members_.lost = reply.status();
    } else {
      if (first) {
        NOVA_LOG(WARNING) << "range " << range_.value() << ": fencing stoc " << stoc.value() << ": "
                          << reply.status();
      }
      members_.failed.insert(stoc);
      again = members_.lost.ok() && !absl::IsCancelled(reply.status()) && Now() < started_ns_ + kFenceFor;
    }
    changed_.SignalAll();
  }
  if (again) Ask(stoc, Now() + kFenceAgain);
}

RangeFences::Members RangeFences::WaitUntil(const std::function<bool(const Members&)>& enough,
                                            Nanos deadline_ns) const {
  MutexLock lock(&mu_);
  while (!enough(members_) && Now() < deadline_ns) changed_.WaitUntil(&mu_, deadline_ns);
  return members_;
}

RangeFences::Members RangeFences::WaitForMost(const std::function<bool(const Members&)>& enough,
                                              Nanos deadline_ns) const {
  WaitUntil([&](const Members& m) { return !m.lost.ok() || m.silent.empty() || enough(m); }, deadline_ns);
  return WaitUntil([](const Members& m) { return !m.lost.ok() || m.silent.empty(); },
                   std::min(deadline_ns, started_ns_ + kStragglers));
}

// --- recovery

StatusOr<RecoveredLogs> RecoverLogs(StocClient* stocs, const RangeRecord& record, const MemTableDone& done,
                                    Nanos deadline_ns) {
  return RecoverLogs(stocs, record, *RangeFences::Start(stocs, record), done, deadline_ns);
}

StatusOr<RecoveredLogs> RecoverLogs(StocClient* stocs, const RangeRecord& record, const RangeFences& fences,
                                    const MemTableDone& done, Nanos deadline_ns, const RulesOff& off) {
  const auto members = fences.WaitForMost(
      [&](const RangeFences::Members& m) {
        return CoverGroups(stocs, record, m.fenced, off).missing.empty();
      },
      deadline_ns);
  NOVA_RETURN_IF_ERROR(members.lost);
  if (!members.fenced.empty()) NOVA_FP("logc.fenced");
  const Cover cover = CoverGroups(stocs, record, members.fenced, off);
  if (!cover.missing.empty()) {
    return absl::UnavailableError(
        StrCat("range ", record.id.value(), ": no member answers, with all its logs, of ", cover.missing));
  }
  const std::vector<SealedLog> logs = FindLogs(record, members.fenced, cover.chosen);
  Mutex mu;
  size_t next = 0;
  Status status;
  RecoveredLogs records;
  std::vector<std::unique_ptr<Thread>> readers;
  for (size_t i = 0; i < std::min(kReaders, logs.size()); ++i) {
    readers.push_back(std::make_unique<Thread>("ltc.recovery", [&] {
      for (;;) {
        size_t index = 0;
        {
          MutexLock lock(&mu);
          if (next == logs.size() || !status.ok()) return;
          index = next++;
        }
        RecoveredLogs part;
        const Status s = LogReader(stocs, fences, logs[index], done, deadline_ns).Read(&part);
        MutexLock lock(&mu);
        if (!s.ok()) status = s;
        records.Append(part);
      }
    }));
  }
  readers.clear();
  NOVA_RETURN_IF_ERROR(status);
  if (!records.empty()) NOVA_FP("logc.recovered");
  return records;
}

}  // namespace nova
