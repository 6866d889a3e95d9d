// RoundSet: the rounds of a range that are in memory: opened, sealed at boundary numbers (sealing, K3a),
// merged, flushed away. It is the only publisher of views.
//
// A view is published as one immutable snapshot with a generation. Each request thread keeps the view that it
// saw last and compares the generation, so the request path takes no lock and touches no shared counter but a
// round's pin.
//
// Thread safety: all methods; ViewOf, PointOf and WithReadPoint on the executor they name.
// Locks: its own, which is taken after all others of a range's parts but leaves. Under it run `change` of
//   Publish, and when a round is sealed RangeHost::WorkDue, WrittenLoad and the arena pool, which take locks
//   of their own and call nobody back.
// Ownership: views keep rounds and tables; RefreshLanes has whoever keeps an older view let go of it.
// Errors: none; where there is no room for another round, false.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
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
#include "ltc/engine/view_holders.h"
#include "ltc/engine/written_load.h"

namespace nova {

class RoundSet {
 public:
  RoundSet(const RangeContext* context, ReadPoints* points, RoundLog* log, const WrittenLoad* written);
  ~RoundSet();

  // --- views

  // The latest view. The reference is valid until `on` calls this again.
  const std::shared_ptr<const RangeView>& ViewOf(Executor* on);
  // The latest view, from any thread; takes the lock.
  std::shared_ptr<const RangeView> Current() const;
  // Every request thread, and every holder of a view, lets go of an older one, soon; does not wait.
  void RefreshLanes();
  // Those that keep a view between requests. RefreshLanes asks them.
  ViewHolders& view_holders() { return view_holders_; }
  LookupIndex* lookup_index() const { return lookup_index_.get(); }  // null: the option is off
  // There is no view newer than the one of this generation.
  bool IsCurrent(uint64_t generation) const {
    return generation == generation_.load(std::memory_order_seq_cst);
  }
  // Makes the next view of the current one. `change` edits a copy, runs under the lock, and must take none.
  void Publish(const std::function<void(RangeView*)>& change);

  // A moment that `on` may read at (snapshot, moment, stable number, K4): the last number handed out, and a
  // view that holds every version up to it once that number is stable.
  ReadPoint PointOf(Executor* on);
  // Calls `fn` on `on` with such a moment once its number is stable; at once if it is.
  void WithReadPoint(Executor* on, absl::AnyInvocable<void(ReadPoint)> fn);
  // Such a moment whose number is stable, which it is unless others write just now; none: it is not.
  std::optional<ReadPoint> StablePoint(Executor* on);

  // --- sealing

  // Seals the active round if it is `round` still and holds anything. False: there is no room for another
  // round. True: it is sealed, was before, or is empty.
  bool Seal(const Round* round);
  bool SealActive() { return Seal(Current()->active.get()); }
  // As Seal, if the active round may hold a number at or below `seq`.
  bool SealUpTo(SequenceNumber seq);
  // Seals the active round if no writer is in it. True: no entry is in memory at all, so nothing is left to
  // flush. The caller asks again until then.
  bool SealForFlush();

  // --- versions that a flush must keep, and rounds that are flushed at once

  // Sets a flush barrier: every write acknowledged before this call gets into a table, even if it is
  // overwritten later. Rounds of numbers up to the last one handed out, which is returned, are flushed as
  // soon as they are sealed (SealUpTo); FlushedUpTo tells when that is done.
  SequenceNumber BeginFlush();
  // The barrier alone: nothing is flushed earlier for it.
  void AddFlushBarrier();
  // Rounds sealed by now are flushed without waiting to form a larger group.
  void FlushHeld();
  // No memtable holds a number at or below `seq`.
  bool FlushedUpTo(SequenceNumber seq) const;
  // Gives `probe` the rounds younger than `rounds` whose versions hide older ones from every reader from now
  // on: with numbers that are stable (K4) and at or below the next flush barrier. Left out are rounds with
  // records that were not synced, which a loss of power may take while the older version was promised.
  void LookForYounger(const RoundGroup& rounds, OverwriteProbe* probe);

  // --- claims of background work: a claimed round is no other thread's until the claim ends. A claim of
  // ClaimFlush ends with the commit, whose publication takes the rounds out of the view; or Round::flushing
  // is set back. One of ClaimMerge ends with PublishMerged.

  // What ClaimFlush decides by, beside the rounds themselves (ltc/engine/flush_policy.h).
  struct FlushInput {
    FlushHistory history;        // earlier flushes
    bool may_hold_back = false;  // see Pacer::HoldsRoundsBack
  };
  // Oldest first; empty: no round is to be flushed now.
  RoundGroup ClaimFlush(const FlushInput& input);
  // What a sealed round takes of the room for rounds, in full rounds: its memory, or the part of log_share
  // that its logs take, if that is more. `written_bytes`: of memtables as clients wrote them, which stands
  // for the bytes of its logs.
  double ShareOf(uint64_t bytes, uint64_t written_bytes) const;
  // Oldest first; empty: nothing is to be merged now. *share: the most memory the merged round may take, in
  // rounds; kept free for it until PublishMerged.
  RoundGroup ClaimMerge(double* share);
  // Ends a claim of ClaimMerge and puts `merged` in the place of `rounds`. False: the rounds stay. Either
  // `merged` is null (the merge was in vain), or a checkpoint was attached to one of `rounds` meanwhile, and
  // wants their entries by themselves (checkpoint, M2).
  bool PublishMerged(const RoundGroup& rounds, std::shared_ptr<Round> merged);

  // --- checkpoints (edit first, checkpoint, M2): of everything that is written by now

  // The outcome of AttachCheckpoint. kToRound: the flush of a round will make the checkpoint. kAllInTables:
  // nothing is in memory, and the version holds every number up to *upto and none above. kNoRoom: no room to
  // seal the active round.
  enum class Attached { kToRound, kAllInTables, kNoRoom };
  // Attaches a checkpoint to the youngest round, which it seals. REQUIRES: the caller holds the lock of edits
  // (VersionSet), so that no edit is under way.
  Attached AttachCheckpoint(const std::shared_ptr<PendingCheckpoint>& request, SequenceNumber* upto);
  // Undoes AttachCheckpoint if the round is not flushed yet. REQUIRES: as AttachCheckpoint.
  void DetachCheckpoint(const std::shared_ptr<PendingCheckpoint>& request);

 private:
  // The view as one request thread saw it last.
  struct alignas(64) Lane {
    std::shared_ptr<const RangeView> view;
  };

  // Adds to a point whose number is stable the range deletions below that number which its view lacks. False:
  // one was dropped since, and the caller takes another point.
  bool CompleteDeletions(Executor* on, ReadPoint* point);
  // Counts the memory of the round while it is empty as fixed (ArenaPool); `sign` -1: no longer.
  void CountFixed(const Round& round, int sign);
  // An empty round, the next active one; not published. `scanned`: its memtables expect scans, as the last
  // round saw some.
  std::shared_ptr<Round> NewRound(RoundNumber number, bool scanned);
  // Makes `view` the current one. REQUIRES: its generation is the next.
  void PublishLocked(std::shared_ptr<const RangeView> view) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Rounds that may still be opened beside the active one and all that there are; a fraction where merged
  // rounds are small.
  double RoomLocked() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Seals the active round, if it holds anything, and opens its successor (K3a). A full round that holds
  // nothing, for its log refused its records, is replaced instead. False: no room.
  bool SealLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Writers take longer to fill the memory that is left than flushes take to write `rounds` rounds, at
  // `round_ns` each.
  bool MemoryLastsLocked(double rounds, Nanos round_ns) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Adds a barrier at the last number handed out, and returns that.
  SequenceNumber AddBarrierLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Deletes the logs of replaced_; takes the lock itself.
  void DeleteReplacedLogs();

  const RangeContext* const context_;
  ReadPoints* const points_;
  RoundLog* const log_;
  const WrittenLoad* const written_;
  const std::unique_ptr<LookupIndex> lookup_index_;  // null: the option is off
  std::atomic<uint64_t> next_memtable_{1};           // the counter in the next memtable's id
  std::vector<Lane> lanes_;                          // [i] belongs to executor i
  ViewHolders view_holders_;                         // has a lock of its own
  std::atomic<uint64_t> generation_{0};              // of view_; compared by request threads without the lock
  mutable Mutex mu_;
  std::shared_ptr<const RangeView> view_ ABSL_GUARDED_BY(mu_);  // the current view; replaced, never changed
  // Numbers of rounds that held nothing acknowledged and were replaced; their logs are to be deleted.
  std::vector<RoundNumber> replaced_ ABSL_GUARDED_BY(mu_);
  // Flush barriers. A flush of rounds up to a barrier keeps a version even if a round above the barrier
  // overwrites it.
  std::set<SequenceNumber> flush_barriers_ ABSL_GUARDED_BY(mu_);
  // Rounds that may hold a number at or below this are flushed at once.
  SequenceNumber flush_asked_ ABSL_GUARDED_BY(mu_) = 0;
  // In rounds: memory kept free for the merge under way; 0: none is.
  double merging_share_ ABSL_GUARDED_BY(mu_) = 0;
  Nanos fill_ns_ ABSL_GUARDED_BY(mu_) = 0;  // time in which writers filled the round that was sealed last
};

}  // namespace nova
