// WriteController: slows writers of a range by milliseconds so that they never stop for seconds (after Luo
// and Carey: a write rate that follows the rate at which the tree is drained).
//
// Below the soft limit writes pass. Above it they are admitted at the rate at which flushes get on, measured
// while memtables wait for a flush, and scaled down as the pressure rises. That rate is known long before a
// flush ends, so a disk that has become slow is noticed at once. Level0 scales the rate down by its runs,
// further with each run beyond the stop limit, so that the runs stay where compactions keep up. The caller
// parks a write for as long as Admit says.
//
//   pressure   the largest of: waiting rounds, Level0 runs, memory of the process; 1 = at the limit
//   rate       flush rate * min(scale, room). scale is the least of two: of Level0, which falls from 2 to 1
//              up to the stop limit, and beyond; of memory, which falls from 2 at the soft limit to 0.5
//   room       memory for more rounds, in relation to what is still to be written before there is more of it
//   wait       until the writes admitted before are through at that rate; a quarter of a second at most
//   credit     who waits pays for some of the next writes too, for a wait costs the processor more than a
//              put; where writes are fast, for thousands
//
// Thread safety: all. Time is an argument, so decisions are tested without a clock.
// Units: bytes of memtables, nanoseconds.
// Errors: none.
#pragma once

#include <algorithm>
#include <atomic>

#include "common/base/clock.h"
#include "common/base/mutex.h"

namespace nova {

// How close the range is to its bounds; the largest of the first three is the pressure.
struct WritePressure {
  double memtables = 0;  // sealed rounds over the most there may be: 1 = no room
  double level0 = 0;     // runs: 0.5 at the slow-down limit, 1 at the stop limit, more beyond
  // Of all memtables of the process over their limit, both without what no flush frees, less a quarter
  // (Pacer::UpdatePressure): 0.5, where writes are slowed down, at three quarters of it.
  double memory = 0;
  // No flush is under way: rounds wait in memory that nobody else needs. Such time is not waiting time, by
  // which the flush rate is measured.
  bool held = false;
};

class WriteController {
 public:
  static constexpr double kSoft = 0.5;  // pressure above which writes are slowed down
  // bytes/s: where there is room flushes are taken to get on so fast at least
  static constexpr double kMinRate = 1 << 20;
  // The flush rate is measured over as much waiting time. Half of it is enough to see that the rate has
  // fallen to less than one part in kFall.
  static constexpr Nanos kWindow = 100 * kMillisecond;
  static constexpr Nanos kHalfLife = 200 * kMillisecond;  // of what was measured before, waiting time again

  // Sets the pressure and notes whether memtables wait for a flush.
  void SetPressure(const WritePressure& p, Nanos now_ns);
  // `bytes` of memtables were dealt with since the last call: written to a table or left out.
  void OnFlushed(uint64_t bytes, Nanos now_ns);
  // How long to park a write of `bytes` before it may go; 0: go now. Reserves its place behind the writes
  // before it. `room`: rounds for which memory is left, over those (one at least) that are still to be
  // written until there is more. Where it is 1 writes come as fast as they drain, where it is 0.5 half as
  // fast: it is never quite used up.
  // `credit`: bytes of the caller's next writes that are paid for, and go at once; 0 at first. Its own.
  Nanos Admit(uint64_t bytes, double room, Nanos now_ns, uint64_t* credit);
  bool pressed() const { return pressure() > kSoft; }  // else Admit returns 0
  // At which flushes get on, bytes/s.
  double rate() const { return rate_.load(std::memory_order_relaxed); }
  // The largest of the pressures set last.
  double pressure() const { return pressure_.load(std::memory_order_relaxed); }
  // A writer waits besides.
  void AddStalled(Nanos ns) { stalled_ns_.fetch_add(ns, std::memory_order_relaxed); }
  // Sum of all that Admit returned, and of what was added.
  Nanos stalled_ns() const { return stalled_ns_.load(std::memory_order_relaxed); }

 private:
  static constexpr double kFirstRate = 64 << 20;  // bytes/s, while nothing is known

  // A disk that is not slower may still give a window an eighth of the rate, while a compaction has it.
  static constexpr double kFall = 16;

  // The rate of this window, once it is long enough. The longer it was the less the mean has of those before,
  // and nothing where the rate has fallen by kFall: a disk has become slow in an instant. By the mean writers
  // would fill the memory within a few windows, and then stand for as long as that disk takes.
  void MeasureRate(Nanos now_ns) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  std::atomic<double> pressure_{0};       // the largest of the pressures set last
  std::atomic<double> scale_{1};          // factor on rate_, for Level0 and the memory of the process
  std::atomic<double> rate_{kFirstRate};  // bytes/s at which flushes get on; a running mean
  std::atomic<Nanos> next_free_ns_{0};    // when the last write admitted is through
  std::atomic<Nanos> stalled_ns_{0};      // see stalled_ns()
  Mutex mu_;
  bool waiting_ ABSL_GUARDED_BY(mu_) = false;        // memtables wait for a flush
  Nanos waiting_since_ns_ ABSL_GUARDED_BY(mu_) = 0;  // since when, or since the last window
  Nanos window_ns_ ABSL_GUARDED_BY(mu_) = 0;         // waiting time of this window before that
  uint64_t window_bytes_ ABSL_GUARDED_BY(mu_) = 0;   // bytes flushed in this window
  // The most that lately were told at once: so many may have been flushed since.
  uint64_t step_bytes_ ABSL_GUARDED_BY(mu_) = 0;
};

}  // namespace nova
