// Pacer: decides the order of writers, flushes, compactions and reads in a range. It also remembers
// failures of background work and tells them to writers that wait for that work.
//
// Writers are slowed down before memory or Level0 is full (WriteController). Flushes go before compactions
// (after Luo and Carey, "On Performance Stability in LSM-based Storage Systems"). While flushes are behind,
// compactions get a part of a slow disk's time, the larger the more runs Level0 has. On one disk, background
// work and reads take turns (DiskTurns).
//
// Thread safety: all. WaitBehindFlush and LetReadsHaveTurns wait, OnFlushing may.
// Locks: its own, held while the RoundSet's is taken.
// Ownership: none taken.
// Errors: a failure is remembered until work succeeds (WorkFailure). FailedPrecondition means that the epoch
//   is fenced, and ends the range.
#pragma once

#include <atomic>
#include <map>
#include <vector>

#include "common/base/log_throttle.h"
#include "common/base/mutex.h"
#include "ltc/engine/disk_turns.h"
#include "ltc/engine/flush_policy.h"
#include "ltc/engine/range_context.h"
#include "ltc/engine/round_set.h"
#include "ltc/engine/work_failure.h"
#include "ltc/engine/write_controller.h"

namespace nova {

class Pacer {
 public:
  Pacer(const RangeContext* context, RoundSet* rounds, const RoundLog* log)
      : context_(context), rounds_(rounds), log_(log), lanes_(context->services->executors.size()) {}

  // --- writers

  // These two are asked by every write; one that nobody slows down looks at one flag.
  //
  // How long a write of `bytes` has to wait, in ns; 0: it goes now. On the executor of the write; does not
  // wait.
  Nanos Admit(Executor* on, uint64_t bytes) {
    return controller_.pressed() ? AdmitUnderPressure(on, bytes) : 0;
  }
  // A write waits so long for a round, for all are full: counted in stalled_ns.
  void OnNoRoom(Nanos wait_ns) { controller_.AddStalled(wait_ns); }
  // Writers are slowed down for a compaction for which the disk has no space. They would wait for nothing, at
  // the least rate, and are refused instead (full disk, S2).
  bool Level0LacksSpace() const { return controller_.pressed() && SlowDownIsInVain(); }
  // The latest failure of flushes, else of compactions; kOk: none.
  Outcome WhyWorkFails() const;
  // Call after each change of rounds, Level0 or memory.
  void UpdatePressure();

  // --- flushes

  // A flush has got through `written_bytes` of memtables since the last call, by PartLeft, and kept
  // `kept_bytes` of them for tables.
  void OnFlushing(uint64_t written_bytes, uint64_t kept_bytes);
  // The flush whose oldest round is `oldest` has still to write `bytes` of memtables. To be called as it gets
  // on, and EndToWrite when it is committed or has failed.
  void SetToWrite(RoundNumber oldest, double bytes);
  void EndToWrite(RoundNumber oldest);
  // What flushes under way have to write until the oldest of them is through, and its memory comes back: all
  // of that one, and of each other as much, for they share the disks.
  double bytes_to_write() const { return to_write_.load(std::memory_order_relaxed); }
  void OnFlushed(const FlushResult& flush);  // a flush has written its tables
  FlushHistory flush_history() const;
  // Sealed rounds that wait may be merged in memory. Where flushes wait for disks, copying costs less than
  // the disks' time; but a log stays as long as its round, so where there is one log_share has to let it.
  bool MergesRounds() const;
  // Sealed rounds may stay in memory for that: they may be merged, and all tables lie on one disk.
  bool HoldsRoundsBack() const;
  RoundSet::FlushInput FlushInput() const { return {flush_history(), HoldsRoundsBack()}; }

  // --- compactions

  // A flush runs and half of the room for rounds is taken: compactions wait (writers wait for memory, and
  // memory for a flush). False while flushes fail, which may be for want of the space that a compaction
  // frees.
  bool FlushIsBehind() const;
  // Called by a compaction before it reads `bytes`: waits while FlushIsBehind. With many runs in Level0 it
  // waits only until flushes have granted it some bytes, 0.5 s at most.
  void WaitBehindFlush(uint64_t bytes);
  // Jobs of Level0 have read `runs` runs more, or parts of them. These count as gone, so that the pressure
  // falls while a long job runs. Whoever tells it takes it back (negative) once the version has the runs that
  // are left.
  void ConsumeLevel0(double runs);

  // Called before background work reads or writes more: pauses for reads if all is on one disk, unless
  // writers are slowed down.
  void LetReadsHaveTurns();
  DiskTurns& disk_turns() { return disk_turns_; }

  // --- failures
  void FlushFailed(const Status& s) { Failed("flush", s, &flush_failure_); }
  void FlushDone() { flush_failure_.OnDone(); }
  void CompactionFailed(const Status& s) { Failed("compaction", s, &compaction_failure_); }
  void CompactionDone() { compaction_failure_.OnDone(); }
  // The latest flush's outcome; kOk: it succeeded.
  Outcome flush_failure() const { return flush_failure_.outcome(); }
  // Why flushes (compactions) have failed for a while and again after `since_ns`; Ok: they have not.
  Status LastingFlushFailure(Nanos since_ns) const { return flush_failure_.Lasting(since_ns); }
  Status LastingCompactionFailure(Nanos since_ns) const { return compaction_failure_.Lasting(since_ns); }

  Nanos stalled_ns() const { return controller_.stalled_ns(); }  // sum of writers' waits
  Nanos paused_ns() const { return disk_turns_.paused_ns(); }    // sum of pauses for reads
  // See WriteController; above 0.5 writers are slowed down.
  double pressure() const { return controller_.pressure(); }

 private:
  struct alignas(64) Lane {
    uint64_t credit = 0;  // see WriteController::Admit
  };

  // Admit, and Level0LacksSpace, of a range whose writers are slowed down.
  Nanos AdmitUnderPressure(Executor* on, uint64_t bytes);
  bool SlowDownIsInVain() const;
  // As MergesRounds and HoldsRoundsBack.
  bool MergesRoundsLocked() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  bool HoldsRoundsBackLocked() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // 0: as many runs as slow writers down; 1: at the stop limit.
  double Level0Excess(const RangeView& view) const;
  // Sets to_write_ by to_write_of_.
  void SumUpToWrite() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Remembers and logs a failure; ends the range if its epoch is fenced.
  void Failed(const char* what, const Status& s, WorkFailure* failure);

  const RangeContext* const context_;
  RoundSet* const rounds_;
  const RoundLog* const log_;
  WriteController controller_;
  std::vector<Lane> lanes_;  // [i] belongs to executor i
  DiskTurns disk_turns_;
  WorkFailure flush_failure_;                    // told to writes that no memtable has room for
  WorkFailure compaction_failure_;               // told to writes that are slowed down for the want of it
  LogThrottle errors_;                           // one line in 5 s at most
  std::atomic<double> level0_runs_consumed_{0};  // by all Level0 jobs under way; see ConsumeLevel0
  std::atomic<double> to_write_{0};              // see bytes_to_write
  std::atomic<int64_t> compaction_grant_{0};     // bytes that compactions may move while a flush is behind
  // Held also while the controller is told of the view, so that the last to tell has the latest.
  mutable Mutex mu_;
  FlushHistory history_ ABSL_GUARDED_BY(mu_);  // of the flushes so far
  // By their oldest rounds, what flushes under way have to write.
  std::map<RoundNumber, double> to_write_of_ ABSL_GUARDED_BY(mu_);
};

}  // namespace nova
