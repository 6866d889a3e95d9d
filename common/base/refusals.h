// Refusals: what callers are told while something refuses them, because a disk is full, or fails.
//
// After a few refusals in a row it is asked again only now and then: an application that retries at once
// costs neither files nor memory, and a disk that is well again is noticed soon.
//
// Thread safety: all. What works pays one load a call.
#pragma once

#include <algorithm>
#include <atomic>

#include "common/base/clock.h"
#include "common/base/outcome.h"

namespace nova {

class Refusals {
 public:
  static constexpr uint32_t kAtOnce = 4;  // refusals in a row that bring no pause

  explicit Refusals(Nanos longest_pause_ns) : longest_pause_ns_(longest_pause_ns) {}

  // kOk: ask. Else what the caller is told instead: nothing was done.
  Outcome Why() const {
    if (in_a_row_.load(std::memory_order_relaxed) == 0 || Now() >= again_ns_.load(std::memory_order_relaxed))
      return Outcome::kOk;
    return told_.load(std::memory_order_relaxed);
  }
  void OnTaken() {
    if (in_a_row_.load(std::memory_order_relaxed) != 0) in_a_row_.store(0, std::memory_order_relaxed);
  }
  void OnRefused(Outcome outcome) {
    const uint32_t n = in_a_row_.fetch_add(1, std::memory_order_relaxed);
    if (n < kAtOnce) return;
    told_.store(outcome == Outcome::kNoSpace ? outcome : Outcome::kUnavailable, std::memory_order_relaxed);
    const Nanos pause = std::min(longest_pause_ns_, kMillisecond << std::min(n - kAtOnce, uint32_t{10}));
    again_ns_.store(Now() + pause, std::memory_order_relaxed);
  }

 private:
  const Nanos longest_pause_ns_;
  std::atomic<uint32_t> in_a_row_{0};
  std::atomic<Outcome> told_{Outcome::kUnavailable};
  std::atomic<Nanos> again_ns_{0};
};

}  // namespace nova
