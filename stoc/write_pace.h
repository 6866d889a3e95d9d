// WritePace: how long a StoC takes for a byte of what one client writes there. That is the time in which
// something was on its way, over the bytes that were stored in it, of the last seconds of such time, or the
// last tens of megabytes. What is older counts less.
//
// Whatever makes a StoC slow is in it: its disk, the requests of others, the network. One that hangs becomes
// slower and slower for as long as something is on its way there.
//
// Thread safety: all. Time is an argument, so it is tested without a clock.
// Units: bytes of files, nanoseconds.   Ownership: none taken.   Errors: none.
#pragma once

#include <cstdint>

#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "stoc/stoc_load.h"

namespace nova {

class WritePace {
 public:
  // A smaller file tells of a sync, and not of bytes: it is not to be counted.
  static constexpr uint64_t kLeastBytes = 64 << 10;
  // What is older by so much time with something on its way counts half, and by so many bytes too.
  static constexpr Nanos kHalfLife = 2 * kSecond;
  static constexpr uint64_t kHalfLifeBytes = 16 << 20;

  // A file is on its way from now on.
  void Begin(Nanos now_ns);
  // A file is on its way no longer. `stored_bytes`: of it; 0: it is not stored, as far as is known.
  void End(uint64_t stored_bytes, Nanos now_ns);
  StocPace Get(Nanos now_ns);

 private:
  // Counts the time since it was called last.
  void Advance(Nanos now_ns) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  Mutex mu_;
  int files_ ABSL_GUARDED_BY(mu_) = 0;       // on their way
  Nanos until_ns_ ABSL_GUARDED_BY(mu_) = 0;  // when something was on its way last, as far as it is counted
  double busy_ns_ ABSL_GUARDED_BY(mu_) = 0;  // time with something on its way, by its age
  double bytes_ ABSL_GUARDED_BY(mu_) = 0;    // stored in that time
};

}  // namespace nova
