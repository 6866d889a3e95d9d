// ScrubPace: how long a scrub waits after each file: what it has left to read is spread evenly over what is
// left of its period (scrub, S6). A file itself is read as fast as a bounded rate allows. It decides; its
// caller waits.
//
// A file costs its bytes, and as much again as a disk could read while it looks for the file: many small
// files are no cheaper than they are.
//
// Thread safety: pure functions.   Ownership: none taken.   Errors: none.   Units: ns; cost in bytes.
#pragma once

#include <algorithm>
#include <cstdint>

#include "common/base/clock.h"

namespace nova {

class ScrubPace {
 public:
  static constexpr uint64_t kCostOfFile = 64 << 10;  // of finding it, in bytes

  // All is to be read once in `period_ns`, at most at `bytes_per_second`. Both are above 0.
  ScrubPace(Nanos period_ns, uint64_t bytes_per_second)
      : period_ns_(period_ns), bytes_per_second_(bytes_per_second) {}

  static uint64_t CostOf(uint64_t files, uint64_t bytes) { return files * kCostOfFile + bytes; }

  // How long it takes at the bounded rate.
  Nanos TimeOf(uint64_t cost) const {
    return static_cast<Nanos>(static_cast<double>(cost) * static_cast<double>(kSecond) /
                              static_cast<double>(bytes_per_second_));
  }
  // From the beginning of a file that costs so much to that of the next, when `left` is still to be read
  // behind it and `elapsed_ns` of the period had passed at its beginning. After the last one it lasts to the
  // period's end.
  Nanos Between(uint64_t cost, uint64_t left, Nanos elapsed_ns) const {
    if (cost == 0) return 0;
    const auto left_ns = static_cast<double>(std::max<Nanos>(0, period_ns_ - elapsed_ns));
    const auto share = static_cast<double>(cost);
    const double even = left_ns * share / (share + static_cast<double>(left));
    return std::max(TimeOf(cost), static_cast<Nanos>(even));
  }

 private:
  const Nanos period_ns_;
  const uint64_t bytes_per_second_;
};

}  // namespace nova
