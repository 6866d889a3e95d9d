// What becomes of a range: it is served, on its way, or cannot be opened; why not, and what a person can do.
//
// To open, a range needs one member of each of its log groups (fence, R2) and one copy of its manifest. A
// member that is not there may come back with what it had. Files lie on a disk, and are there again when
// their StoC is started; that leaders count it as lost (StoC record, N5) says nothing of the disk. What was
// in memory is gone with its process (incarnation, N1). So `nova force-open` gives up a log group in memory
// of which no member is left, and one in files when all its StoCs count as lost: by time, or by an operator's
// drain. It gives up none that is waiting for StoCs to be started, and never a manifest.
//
// Thread safety: pure functions of a ClusterState, whose lock the caller has.
// Ownership:     RangeCopies and what it returns point into the state and the record.
// Errors:        none; texts for people.
#pragma once

#include <array>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "coordinator/cluster_state.h"

namespace nova {

enum class RangeCondition {
  kOpen = 0,
  kOpening = 1,   // it has an owner, which is to open it
  kMoving = 2,    // it is being given to an owner
  kReleased = 3,  // its owner let go of it in order
  kNoOwner = 4,
  kUnavailable = 5,  // nobody can open it: something that it needs is nowhere, or is damaged
};
inline constexpr size_t kRangeConditions = 6;
const char* RangeConditionName(RangeCondition condition);

// What a StoC that was listed still has of a log group or of a manifest.
enum class CopyState {
  kThere,  // all: it is registered, with that memory or those files
  kAway,   // files on the disk of a StoC that is not registered
  kLost,   // the same, of a StoC that counts as lost
  kGone,   // nothing: memory of a process that is not registered any more
};

// A log group, or the manifest, of which no StoC that is registered has anything.
struct RangeLack {
  const LogGroup* group = nullptr;  // null: the manifest
  std::vector<StocId> away, lost;   // whose disks have it
};

// Why the owner, by its last heartbeat, has not opened the range at its epoch; null: the range is open, or
// the owner has not tried, or says nothing.
const OpenFailure* LastFailureOf(const ClusterState& state, const ClusterState::Range& range);

class RangeCopies {
 public:
  explicit RangeCopies(const ClusterState& state);

  CopyState Of(const LogGroup& group, const LogMember& member) const;
  CopyState OfManifest(StocId stoc) const;
  // The process that was listed runs.
  bool IsRunning(const LogMember& member) const;
  // What the range would lack if it were to be opened now.
  std::vector<RangeLack> LacksOf(const RangeRecord& record) const;
  RangeCondition ConditionOf(const ClusterState::Range& range) const;
  // "start one of these StoCs: a, b(lost)": what brings it back; empty: nothing does.
  std::string Remedy(const RangeLack& lack) const;

 private:
  CopyState OfFiles(StocId stoc) const;  // of one that is not registered

  const ClusterState& s_;
  std::map<StocId, const NodeInfo*> registered_;
};

// Whether `nova force-open` may give up what is lacking.
bool MayForceOpen(const std::vector<RangeLack>& lacks);

// What `nova force-open` would do to a range: which log groups and manifest members are missing, and
// the record without the groups that are lost.
struct ForceOpenPlan {
  std::string report;             // for people: what is missing, and what would be lost
  bool possible = false;          // false: the report says why
  std::optional<RangeMove> move;  // none: nothing is missing
};
ForceOpenPlan PlanForceOpen(const ClusterOptions& options, const ClusterState& state, RangeId range,
                            Nanos now);

}  // namespace nova
