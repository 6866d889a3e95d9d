// WriteController: slows writers of a range in milliseconds so that they never stop for seconds (Luo & Carey: a write rate that
// follows the rate at which the tree is drained).
//
// Below the soft limits writes pass. Above, they are admitted at the rate at which flushes and compactions have been draining,
// scaled down as the pressure rises to the hard limits. The caller parks a write for the nanoseconds Admit returns.
//
// Thread safety: all; time is an argument, so decisions are tested without a clock.
#pragma once

#include <algorithm>
#include <atomic>

#include "common/base/clock.h"
#include "common/base/mutex.h"

namespace nova {

struct WritePressure {
  double memtables = 0;  // immutable bytes over what may wait for a flush: 1 = at the limit
  double level0 = 0;     // runs between the slow-down and the stop limit: 0..1
  double memory = 0;     // of all memtables of the process over its limit
};

class WriteController {
 public:
  static constexpr double kSoft = 0.5;
  static constexpr double kMinRate = 1 << 20;  // bytes/s: a 1 KB put waits 1 ms at most for its turn

  void SetPressure(const WritePressure& p);
  void OnDrained(uint64_t bytes, Nanos now_ns);
  // How long to park a write of `bytes` before it may go; 0: go now.
  Nanos Admit(uint64_t bytes, Nanos now_ns);
  double pressure() const { return pressure_.load(std::memory_order_relaxed); }
  Nanos stalled_ns() const { return stalled_ns_.load(std::memory_order_relaxed); }  // sum of what Admit handed out

 private:
  std::atomic<double> pressure_{0};
  std::atomic<double> rate_{64 << 20};
  std::atomic<Nanos> next_free_ns_{0};
  std::atomic<Nanos> stalled_ns_{0};
  Mutex mu_;
  uint64_t window_bytes_ ABSL_GUARDED_BY(mu_) = 0;
  Nanos window_start_ns_ ABSL_GUARDED_BY(mu_) = 0;
};

}  // namespace nova
