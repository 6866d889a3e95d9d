// WriteController: slows writers of a range in milliseconds so that they never stop for seconds (Luo & Carey: a write rate that
// follows the rate at which the tree is drained).
//
// Below the soft limits writes pass. Above, they are admitted at the rate at which flushes have been draining, scaled down as the
// pressure rises to the hard limits. What drained since the pressure rose says what the drain can do; without pressure it only says
// what the load was, which is at least that. The caller parks a write for the nanoseconds Admit returns.
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
  double level0 = 0;     // runs between the slow-down and the stop limit: 0..1
  double memory = 0;     // of all memtables of the process over its limit
};

class WriteController {
 public:
  static constexpr double kSoft = 0.5;
  static constexpr double kMinRate = 1 << 20;  // bytes/s: a 1 KB put waits 1 ms at most for its turn
  static constexpr Nanos kWindow = 500 * kMillisecond;  // at least: rounds drain one at a time

  void SetPressure(const WritePressure& p, Nanos now_ns);
  void OnDrained(uint64_t bytes, Nanos now_ns);
  // How long to park a write of `bytes` before it may go; 0: go now. `room`: rounds that the memtables have room for, parts of one
  // included. It never quite runs out: with two rounds left writes come as fast as they drain, with one half as fast.
  Nanos Admit(uint64_t bytes, double room, Nanos now_ns);
  bool pressed() const { return pressure() > kSoft; }  // else Admit returns 0
  double pressure() const { return pressure_.load(std::memory_order_relaxed); }
  Nanos stalled_ns() const { return stalled_ns_.load(std::memory_order_relaxed); }  // sum of what Admit handed out

 private:
  std::atomic<double> pressure_{0};
  std::atomic<double> rate_{64 << 20};
  std::atomic<Nanos> next_free_ns_{0};
  std::atomic<Nanos> stalled_ns_{0};
  Mutex mu_;
  uint64_t window_bytes_ ABSL_GUARDED_BY(mu_) = 0;  // drained since
  Nanos window_start_ns_ ABSL_GUARDED_BY(mu_) = 0;
  bool first_window_ ABSL_GUARDED_BY(mu_) = true;  // since pressure rose or fell: what was known before is of another time
};

}  // namespace nova
