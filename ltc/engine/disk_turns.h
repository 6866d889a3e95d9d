// DiskTurns: a slow disk's time, in turns, for background work that is in no hurry and for reads that
// somebody waits for.
//
// A disk serves who comes first. A reader asks for a block, and for the next when it has that; a compaction
// asks for a megabyte at a time, a flush for a quarter of one: in a queue with them readers would get a
// hundredth of the disk, for as long as a compaction takes. So while reads take long, background work stops
// after some time of its own, all its threads together, and goes on after as long a pause. (Luo & Carey pace
// it by a rate; nobody knows the disk's here.)
//
// Thread safety: all; time is an argument, so decisions are tested without a clock.
#pragma once

#include <algorithm>
#include <atomic>

#include "common/base/clock.h"
#include "common/base/mutex.h"

namespace nova {

class DiskTurns {
 public:
  static constexpr Nanos kTurn = 40 * kMillisecond;
  static constexpr Nanos kLongPause = 2 * kTurn;
  static constexpr Nanos kSlowRead = kMillisecond;  // such a one waited for others: it is of a block

  void OnRead(Nanos took, Nanos now_ns) {
    if (took >= kSlowRead) slow_read_ns_.store(now_ns, std::memory_order_relaxed);
  }
  // How long background work pauses before it reads or writes more; 0: it goes on.
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
  Nanos paused_ns() const { return paused_ns_.load(std::memory_order_relaxed); }  // all pauses, each once

 private:
  std::atomic<Nanos> slow_read_ns_{-kNever / 2};  // the last one: long ago
  std::atomic<Nanos> paused_ns_{0};
  Mutex mu_;
  Nanos began_ns_ ABSL_GUARDED_BY(mu_) = 0;  // background work's turn; in a pause: the next one
};

}  // namespace nova
