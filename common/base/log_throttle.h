// LogThrottle: one line a period for an error that is met again and again as long as its cause lasts.
//
//   if (const uint64_t met = throttle_.Due())
//     NOVA_LOG(WARNING) << "sync failed (" << met << " times so far): " << s;
//
// Thread safety: all.
// Errors: none.
#pragma once

#include <atomic>
#include <cstdint>

#include "common/base/clock.h"

namespace nova {

class LogThrottle {
 public:
  explicit LogThrottle(Nanos period_ns = 5 * kSecond) : period_ns_(period_ns) {}
  // Counts a call. Returns how often it was called, this time included; 0: the last line is younger than the
  // period.
  uint64_t Due() {
    const uint64_t met = met_.fetch_add(1, std::memory_order_relaxed) + 1;
    const Nanos now = Now();
    Nanos due = due_ns_.load(std::memory_order_relaxed);
    return now >= due && due_ns_.compare_exchange_strong(due, now + period_ns_) ? met : 0;
  }

 private:
  const Nanos period_ns_;
  std::atomic<uint64_t> met_{0};  // calls so far
  std::atomic<Nanos> due_ns_{0};  // when the next line is due
};

}  // namespace nova
