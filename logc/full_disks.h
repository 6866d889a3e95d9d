// FullDisks: whether the records of a range's log wait for members whose disks are full, so that others need
// not join them.
//
// Members are asked again and again, so a disk that is still full is told of often. What nobody told of for a
// while is over: nothing waits any more.
//
// Thread safety: all; relaxed atomics, exact to the moment of a call.
// Ownership:     none.
// Errors:        none.
#pragma once

#include <atomic>

#include "common/base/clock.h"

namespace nova {

class FullDisks {
 public:
  // `pause_ns`: how long records wait before it counts.
  explicit FullDisks(Nanos pause_ns) : pause_ns_(pause_ns) {}

  // A member said that its disk is full, and a record waits for it.
  void Told() {
    const Nanos now = Now();
    if (IsOver(now)) since_ns_.store(now, std::memory_order_relaxed);
    last_ns_.store(now, std::memory_order_relaxed);
  }
  // Every member has a record: there is room.
  void Acknowledged() {
    if (last_ns_.load(std::memory_order_relaxed) != 0) last_ns_.store(0, std::memory_order_relaxed);
  }
  // Records have been waiting for longer than the pause.
  bool Last() const {
    if (last_ns_.load(std::memory_order_relaxed) == 0) return false;
    const Nanos now = Now();
    return !IsOver(now) && now - since_ns_.load(std::memory_order_relaxed) > pause_ns_;
  }

 private:
  // Nobody has told of a full disk for twice the pause.
  bool IsOver(Nanos now) const {
    const Nanos last = last_ns_.load(std::memory_order_relaxed);
    return last == 0 || now - last > 2 * pause_ns_;
  }

  const Nanos pause_ns_;
  std::atomic<Nanos> since_ns_{0};  // of what Told says; of no meaning while last_ns_ is 0
  std::atomic<Nanos> last_ns_{0};   // of the last Told; 0: none since the last acknowledgement
};

}  // namespace nova
