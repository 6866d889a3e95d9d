// WriteController: slows writers of a range in milliseconds so that they never stop for seconds (Luo & Carey:
// a write rate that follows the rate at which the tree is drained).
//
// Below the soft limits writes pass. Above, they are admitted at the rate at which flushes get on, measured
// while memtables wait for one, scaled down as the pressure rises. That rate is known long before a flush
// ends: a disk that has become slow is slow now. Level0 scales it down by its runs, further with each one
// beyond the stop limit: so the runs stay where compactions keep up. The caller parks a write for the
// nanoseconds Admit returns.
//
// Thread safety: all; time is an argument, so decisions are tested without a clock.
#pragma once

#include <algorithm>
#include <atomic>

#include "common/base/clock.h"
#include "common/base/mutex.h"

namespace nova {

struct WritePressure {
  double memtables = 0;  // rounds that wait for a flush over what may wait: 1 = at the limit
  double level0 = 0;     // runs: 0.5 at the slow-down limit, 1 at the stop limit, more beyond
  double memory = 0;     // of all memtables of the process over its limit
  bool held = false;     // the rounds wait for no flush yet, but in memory that nobody else needs
};

class WriteController {
 public:
  static constexpr double kSoft = 0.5;
  static constexpr double kMinRate = 1 << 20;  // bytes/s, of flushes
  static constexpr Nanos kWindow = 200 * kMillisecond;

  void SetPressure(const WritePressure& p, Nanos now_ns);
  // of memtables, since the last call: they are in a table, or left out of it
  void OnFlushed(uint64_t bytes, Nanos now_ns);
  // How long to park a write of `bytes` before it may go; 0: go now. `room`: rounds that the memtables have
  // room for, parts of one included. It never quite runs out: with one round left writes come as fast as they
  // drain, with half of one half as fast.
  Nanos Admit(uint64_t bytes, double room, Nanos now_ns);
  bool pressed() const { return pressure() > kSoft; }  // else Admit returns 0
  double pressure() const { return pressure_.load(std::memory_order_relaxed); }
  // sum of what Admit handed out
  Nanos stalled_ns() const { return stalled_ns_.load(std::memory_order_relaxed); }

 private:
  std::atomic<double> pressure_{0};
  std::atomic<double> scale_{1};  // of the rate, for the sake of Level0 and of the process's memory
  std::atomic<double> rate_{64 << 20};
  std::atomic<Nanos> next_free_ns_{0};
  std::atomic<Nanos> stalled_ns_{0};
  Mutex mu_;
  bool waiting_ ABSL_GUARDED_BY(mu_) = false;  // memtables, for a flush
  Nanos waiting_since_ns_ ABSL_GUARDED_BY(mu_) = 0;
  Nanos window_ns_ ABSL_GUARDED_BY(mu_) = 0;  // of this window, before that
  uint64_t window_bytes_ ABSL_GUARDED_BY(mu_) = 0;
};

}  // namespace nova
