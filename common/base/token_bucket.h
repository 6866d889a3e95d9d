// TokenBucket: bounds a rate, in bytes or anything else that is counted. It decides; its caller waits.
//
// In any stretch of time no more may pass than the rate's share of it, and one burst. What is taken is taken:
// a taker whose turn comes later than it can wait does not give it back.
//
// Thread safety: none; a pure function of its calls.
// Ownership:     none taken.
// Errors:        none.
// Units:         time is the caller's, in ns.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include "common/base/clock.h"

namespace nova {

class TokenBucket {
 public:
  // `per_second` is above 0. After an idle time up to `burst` passes at once.
  TokenBucket(uint64_t per_second, uint64_t burst)
      : ns_each_(static_cast<double>(kSecond) / static_cast<double>(per_second)), burst_ns_(TimeOf(burst)) {}

  // Takes `amount` at `now_ns`. Returns the time from which it may pass; a time that is over means at once.
  Nanos Take(uint64_t amount, Nanos now_ns) {
    free_at_ns_ = std::max(free_at_ns_, now_ns - burst_ns_) + TimeOf(amount);
    return free_at_ns_;
  }
  // How long `amount` takes at the rate.
  Nanos TimeOf(uint64_t amount) const {
    return static_cast<Nanos>(std::ceil(static_cast<double>(amount) * ns_each_));
  }

 private:
  const double ns_each_;
  const Nanos burst_ns_;
  // When all that was taken has passed at the rate.
  Nanos free_at_ns_ = std::numeric_limits<Nanos>::min();
};

}  // namespace nova
