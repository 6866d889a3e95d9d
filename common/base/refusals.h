// Refusals: the answer for callers while something refuses them, because a disk is full or fails. After a few
// refusals in a row it is tried again only now and then. So an application that retries at once costs neither
// files nor memory, and a disk that is well again is noticed soon.
//
//   if (const Outcome why = refusals.Why(); why != Outcome::kOk) return done(why);
//   const Outcome o = Try();
//   o == Outcome::kOk ? refusals.OnTaken() : refusals.OnRefused(o);
//
// Thread safety: all. A call that works pays one load.
// Errors: the outcome that it was told last.
#pragma once

#include <algorithm>
#include <atomic>

#include "common/base/clock.h"
#include "common/base/outcome.h"

namespace nova {

class Refusals {
 public:
  static constexpr uint32_t kAtOnce = 4;  // refusals in a row that bring no pause

  // Pauses double from 1 ms to `longest_pause_ns`.
  explicit Refusals(Nanos longest_pause_ns) : longest_pause_ns_(longest_pause_ns) {}

  // kOk: try. Else the outcome to answer with; nothing is done.
  Outcome Why() const {
    if (in_a_row_.load(std::memory_order_relaxed) == 0 || Now() >= again_ns_.load(std::memory_order_relaxed))
      return Outcome::kOk;
    return told_.load(std::memory_order_relaxed);
  }
  // It was tried, and not refused.
  void OnTaken() {
    if (in_a_row_.load(std::memory_order_relaxed) != 0) in_a_row_.store(0, std::memory_order_relaxed);
  }
  // It was tried, and refused.
  void OnRefused(Outcome outcome) {
    const uint32_t n = in_a_row_.fetch_add(1, std::memory_order_relaxed);
    if (n < kAtOnce) return;
    told_.store(outcome == Outcome::kNoSpace ? outcome : Outcome::kUnavailable, std::memory_order_relaxed);
    const Nanos pause = std::min(longest_pause_ns_, kMillisecond << std::min(n - kAtOnce, uint32_t{10}));
    again_ns_.store(Now() + pause, std::memory_order_relaxed);
  }

 private:
  const Nanos longest_pause_ns_;
  std::atomic<uint32_t> in_a_row_{0};                 // refusals since the last success
  std::atomic<Outcome> told_{Outcome::kUnavailable};  // the outcome of the last one
  std::atomic<Nanos> again_ns_{0};                    // no try before this time
};

}  // namespace nova
