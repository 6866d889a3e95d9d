// RangeGroups: the log groups of one range: the one that takes records, those that were replaced, and which
// logs still hold records there (group change, L4).
//
// One change of the group at a time: Begin is asked before each, Install or an end of the epoch follows. A
// replaced group is needed until every lane opens its logs elsewhere and no log of it is left. A member that
// answers pings is replaced at most once in `change_pause_ns`, one that refuses a log a few times (deadline,
// L5).
//
// Thread safety: all, by a lock of its own, a leaf. Nothing waits.
// Ownership: none taken.
// Errors: none.
#pragma once

#include <map>
#include <optional>
#include <vector>

#include "common/base/mutex.h"
#include "coordinator/cluster_types.h"
#include "logc/log_options.h"
#include "logc/replicated_log.h"

namespace nova {

class RangeGroups {
 public:
  static constexpr int kMostRefusals = 8;  // see MayReplaceRefusing
  // `first` takes records from the beginning; `lanes`: how many threads open logs.
  RangeGroups(const LogGroup& first, size_t lanes, const LogOptions& options);

  enum class Change {
    kBegun,     // the caller has the group replaced
    kUnderWay,  // somebody else does
    kReplaced,  // it was: Current is another one
  };
  Change Begin(GroupId group);
  // As Begin of the current group; nullopt: a change is under way.
  std::optional<LogGroup> BeginAny();
  bool IsChanging(GroupId group) const;  // it takes records, and a change of it is under way
  // `next` is listed in the range's record: it takes records from here on, and the change has ended.
  void Install(const LogGroup& next);
  LogGroup Current() const;  // the group that takes records
  // Whether a member of `group` that answers pings may be replaced now. If so the pause begins.
  bool MayReplaceLiving(GroupId group);
  // The same for one that refused a log: at most kMostRefusals times in a pause. Where no StoC has memory
  // for logs left, groups would else be listed faster than they leave the record (range record, N3). While
  // the group is being replaced it may not be: where there is no other StoC that takes long, and memory comes
  // back.
  bool MayReplaceRefusing(GroupId group);

  // Records of `round` go to a log of `group`.
  void AddLog(GroupId group, const Uuid& log, RoundNumber round);
  // The log's round is flushed, or the log was never used.
  void RemoveLog(GroupId group, const Uuid& log);
  // The lane opens no log of an earlier group any more.
  void LaneMoved(size_t lane, GroupId group);

  std::vector<Uuid> Logs() const;  // those of AddLog that are not removed
  bool any_replaced() const;       // a group that was replaced is not forgotten
  // As ReplicatedLog has them; `live` are the StoCs there are.
  std::vector<GroupId> Unused() const;
  // These were unused, and are listed no more.
  void Forget(const std::vector<GroupId>& groups);
  std::vector<ExposedRound> Exposed(const std::vector<NodeInfo>& live) const;

 private:
  const Nanos change_pause_ns_;
  const RulesOff off_;

  mutable Mutex mu_;
  LogGroup current_ ABSL_GUARDED_BY(mu_);
  bool changing_ ABSL_GUARDED_BY(mu_) = false;            // between Begin and Install
  Nanos next_living_change_ns_ ABSL_GUARDED_BY(mu_) = 0;  // see MayReplaceLiving
  int refusals_ ABSL_GUARDED_BY(mu_) = 0;                 // until refusals_end_ns_, see MayReplaceRefusing
  Nanos refusals_end_ns_ ABSL_GUARDED_BY(mu_) = 0;
  std::vector<LogGroup> old_ ABSL_GUARDED_BY(mu_);         // replaced in this epoch, oldest first
  std::vector<GroupId> lane_groups_ ABSL_GUARDED_BY(mu_);  // of new logs, by lane
  // Logs that hold records, by group, and the round of each.
  std::map<GroupId, std::map<Uuid, RoundNumber>> logs_ ABSL_GUARDED_BY(mu_);
};

}  // namespace nova
