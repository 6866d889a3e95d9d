// RoundSet: the rounds of a range that are in memory: opened, sealed at boundary numbers (sealing, K3a),
// merged, flushed away; and the only publisher of views.
//
// A view is published as one immutable snapshot; each request thread keeps the latest it has seen, so that
// the request path takes no lock and touches no shared counter but a pin.
//
// Thread safety: all; ViewOf, PointOf and WithReadPoint on the executor they name.
// Lock:          its own, the innermost of a range: it calls nobody back but in Publish and Claim..., whose
//                functions take no lock.
// Ownership:     views keep rounds and tables; RefreshLanes has idle request threads let go of theirs.
// Errors:        none; where there is no room for another round, false.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <set>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "common/base/executor.h"
#include "common/base/mutex.h"
#include "ltc/engine/flush_policy.h"
#include "ltc/engine/overwrite_probe.h"
#include "ltc/engine/range_context.h"
#include "ltc/engine/range_view.h"
#include "ltc/engine/read_points.h"
#include "ltc/engine/round_log.h"

namespace nova {

class RoundSet {
 public:
  RoundSet(const RangeContext* context, ReadPoints* points, RoundLog* log);

  // --- views
  // The latest one, as `on` has seen it. Valid until `on` asks again.
  const std::shared_ptr<const RangeView>& ViewOf(Executor* on);
  std::shared_ptr<const RangeView> Current() const;
  void RefreshLanes();  // every request thread lets go of an older view, soon
  // One change of the current view, in one step. `change` runs under the lock.
  void Publish(const std::function<void(RangeView*)>& change);

  // What `on` may read now, a moment (K4): the last number handed out, and a view that has all up to it
  // once that is stable.
  ReadPoint PointOf(Executor* on);
  // Calls `fn` with such a point when it is stable, on `on`.
  void WithReadPoint(Executor* on, absl::AnyInvocable<void(ReadPoint)> fn);

  // --- sealing
  // Seals the active round, if it is `round` still and holds anything. False: no room for another round.
  bool Seal(const Round* round);
  bool SealActive() { return Seal(Current()->active.get()); }
  bool SealUpTo(SequenceNumber seq);  // if the active round may hold such a number
  // Seals what no writer is in. True: nothing is in memory at all.
  bool SealForFlush();

  // --- what a flush may leave out, and which rounds go at once From now on all that is written by now gets
  // into tables, also what is replaced until then. The last number of it, which is flushed at once.
  SequenceNumber BeginFlush();
  void AddFlushBarrier();                      // the same, and not at once
  void FlushHeld();                            // rounds that are sealed by now are held back no longer
  bool FlushedUpTo(SequenceNumber seq) const;  // no memtable holds a number at or below it
  // Has `probe` look into the rounds younger than `rounds` whose versions hide older ones from all readers.
  void LookForYounger(const RoundGroup& rounds, OverwriteProbe* probe);

  // --- claims of background work
  struct FlushInput {
    FlushHistory history;
    bool may_hold_back = false;
  };
  RoundGroup ClaimFlush(const FlushInput& input);  // empty: none is to be flushed now
  // `share`: what the merged round may have of a round's memory at most, kept for it until PublishMerged.
  RoundGroup ClaimMerge(double* share);
  // Ends a claim. False: nothing was published: `merged` is null, or a checkpoint wants what `rounds` hold by
  // themselves: checkpoints (M2).
  bool PublishMerged(const RoundGroup& rounds, std::shared_ptr<Round> merged);

  // --- checkpoints (M2): of all that is written by now
  // kToRound: the flush of a round makes it. kAllInTables: nothing is in memory, and the version holds every
  // number up to `upto`, and none above. REQUIRES: no edit is under way.
  enum class Attached { kToRound, kAllInTables, kNoRoom };
  Attached AttachCheckpoint(const std::shared_ptr<PendingCheckpoint>& request, SequenceNumber* upto);
  void DetachCheckpoint(const std::shared_ptr<PendingCheckpoint>& request);

 private:
  struct alignas(64) Lane {
    std::shared_ptr<const RangeView> view;
  };

  std::shared_ptr<Round> NewRound(RoundNumber number, bool scanned);
  void PublishLocked(std::shared_ptr<const RangeView> view) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  double RoomLocked() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  bool SealLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  bool MemoryLastsLocked(double rounds, Nanos round_ns) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  SequenceNumber AddBarrierLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void DeleteReplacedLogs();

  const RangeContext* const context_;
  ReadPoints* const points_;
  RoundLog* const log_;
  std::atomic<uint64_t> next_memtable_{1};
  std::vector<Lane> lanes_;  // [i] belongs to executor i
  std::atomic<uint64_t> generation_{0};
  mutable Mutex mu_;
  std::shared_ptr<const RangeView> view_ ABSL_GUARDED_BY(mu_);
  // Rounds that held nothing acknowledged, and whose logs may go.
  std::vector<RoundNumber> replaced_ ABSL_GUARDED_BY(mu_);
  // A flush of rounds up to a barrier keeps a version even if a round above the barrier overwrites it.
  std::set<SequenceNumber> flush_barriers_ ABSL_GUARDED_BY(mu_);
  // Rounds that may hold a number up to here are flushed at once.
  SequenceNumber flush_asked_ ABSL_GUARDED_BY(mu_) = 0;
  double merging_share_ ABSL_GUARDED_BY(mu_) = 0;  // of a round's memory, kept for a merge under way
  Nanos fill_ns_ ABSL_GUARDED_BY(mu_) = 0;         // that writers took to fill the last round
};

}  // namespace nova
