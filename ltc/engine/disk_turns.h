// DiskTurns: shares a slow disk's time between background work that is in no hurry and reads that a caller
// waits for.
//
// A disk serves requests in order of arrival. A reader asks for a block, and for the next one when it has
// that; a compaction asks for a megabyte at a time, a flush for a quarter of one. In one queue with them
// readers would get a hundredth of the disk for as long as a compaction takes. So while reads take long,
// background work stops after some time of its own, all its threads together, and goes on after as long a
// pause. (Luo and Carey pace it by a rate; the disk's rate is unknown here.)
//
// Thread safety: all. Time is an argument, so decisions are tested without a clock.
// Ownership, errors: none.
#pragma once

#include <algorithm>
#include <atomic>

#include "common/base/clock.h"
#include "common/base/mutex.h"

namespace nova {

class DiskTurns {
 public:
  static constexpr Nanos kTurn = 40 * kMillisecond;  // of background work, at least
  static constexpr Nanos kLongPause = 2 * kTurn;     // the longest pause
  // A read of a block that took as long has waited for others.
  static constexpr Nanos kSlowRead = kMillisecond;

  // A read has taken so long.
  void OnRead(Nanos took, Nanos now_ns) {
    if (took >= kSlowRead) slow_read_ns_.store(now_ns, std::memory_order_relaxed);
  }
  // Time for which background work pauses before it reads or writes more; 0: it goes on.
  Nanos Pause(Nanos now_ns) {
    MutexLock lock(&mu_);
    // another thread's turn has ended, and so has this one's
    if (now_ns < began_ns_) return began_ns_ - now_ns;
    const Nanos length = now_ns - began_ns_;
    if (now_ns - slow_read_ns_.load(std::memory_order_relaxed) > 2 * kLongPause) {
      began_ns_ = now_ns;
      return 0;
    }
    if (length < kTurn) return 0;
    const Nanos pause = std::min(length, kLongPause);
    began_ns_ = now_ns + pause;
    paused_ns_.fetch_add(pause, std::memory_order_relaxed);
    return pause;
  }
  // Sum of all pauses; one of several threads counts once.
  Nanos paused_ns() const { return paused_ns_.load(std::memory_order_relaxed); }

 private:
  std::atomic<Nanos> slow_read_ns_{-kNever / 2};  // when the last slow read ended; at first long ago
  std::atomic<Nanos> paused_ns_{0};
  Mutex mu_;
  Nanos began_ns_ ABSL_GUARDED_BY(mu_) = 0;  // when background work's turn began; in a pause: begins
};

}  // namespace nova
