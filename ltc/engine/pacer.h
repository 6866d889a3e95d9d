// Pacer: who goes first in a range: writers, flushes, compactions or reads; and what ails its background
// work, told to whoever waits for that.
//
// Writers are slowed down before memory or Level0 runs out (WriteController). Flushes go before compactions
// (Luo & Carey), which get a part of a slow disk's time beside them, the larger the more runs Level0 has. On
// one disk, background work and reads take turns (DiskTurns).
//
// Thread safety: all. WaitBehindFlush and LetReadsHaveTurns wait.
// Ownership:     none taken.   Errors: a failure of background work is remembered (WorkFailure), and a failed
//                precondition ends the range: its epoch is fenced.
#pragma once

#include <atomic>

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
      : context_(context), rounds_(rounds), log_(log) {}

  // --- writers
  Nanos Admit(Executor* on, uint64_t bytes);  // how long a write has to wait; 0: it goes
  // Writers are slowed down for the sake of a compaction that the disk has no room for: they would wait for
  // nothing, at the least rate.
  bool Level0LacksSpace() const;
  Outcome WhyWorkFails() const;  // of flushes, else of compactions; kOk: it does not
  void UpdatePressure();         // after each change of rounds, Level0 or memory

  // --- flushes
  // A flush is through with `written_bytes` of memtables, and has kept `kept_bytes` of them.
  void OnFlushing(uint64_t written_bytes, uint64_t kept_bytes);
  void OnFlushed(const FlushResult& flush);
  FlushHistory flush_history() const;
  // Sealed rounds may stay in memory and be merged there. Where flushes wait for a disk, memory costs less
  // than what they write; but a log would stay for as long as they are put off.
  bool HoldsRoundsBack() const;
  RoundSet::FlushInput FlushInput() const { return {flush_history(), HoldsRoundsBack()}; }

  // --- compactions
  // Writers wait for memory, and memory for a flush; a compaction has time until writers would be slowed down
  // for its sake. What it puts off it does at less cost: more runs in one merge.
  bool FlushIsBehind() const;
  // Before a compaction reads so much: it waits for its part, but for no flush that stands still.
  void WaitBehindFlush(uint64_t bytes);
  // A Level0 job has read a `part` of its input, of `runs` runs.
  void ConsumeLevel0(int runs, double part);
  void EndLevel0() { level0_runs_consumed_.store(0); }

  // Before background work reads or writes more, unless writers wait for it.
  void LetReadsHaveTurns();
  DiskTurns& disk_turns() { return disk_turns_; }

  // --- failures
  void FlushFailed(const Status& s) { Failed("flush", s, &flush_failure_); }
  void FlushDone() { flush_failure_.OnDone(); }
  void CompactionFailed(const Status& s) { Failed("compaction", s, &compaction_failure_); }
  void CompactionDone() { compaction_failure_.OnDone(); }
  Outcome flush_failure() const { return flush_failure_.outcome(); }  // of the latest attempt
  // Why they have failed for a while, and again since then; Ok: they have not.
  Status LastingFlushFailure(Nanos since_ns) const { return flush_failure_.Lasting(since_ns); }
  Status LastingCompactionFailure(Nanos since_ns) const { return compaction_failure_.Lasting(since_ns); }

  Nanos stalled_ns() const { return controller_.stalled_ns(); }
  Nanos paused_ns() const { return disk_turns_.paused_ns(); }
  double pressure() const { return controller_.pressure(); }

 private:
  double Level0Excess(const RangeView& view) const;
  void Failed(const char* what, const Status& s, WorkFailure* failure);

  const RangeContext* const context_;
  RoundSet* const rounds_;
  const RoundLog* const log_;
  WriteController controller_;
  DiskTurns disk_turns_;
  WorkFailure flush_failure_;       // told to writes that no memtable has room for
  WorkFailure compaction_failure_;  // told to writes that are slowed down for the want of it
  LogThrottle errors_;
  std::atomic<double> level0_runs_consumed_{0};  // by the Level0 job under way
  std::atomic<int64_t> compaction_grant_{0};     // bytes that compactions may move while a flush is behind
  Mutex pressure_mu_;                            // held while the controller is told of the view
  mutable Mutex history_mu_;
  FlushHistory history_ ABSL_GUARDED_BY(history_mu_);
};

}  // namespace nova
