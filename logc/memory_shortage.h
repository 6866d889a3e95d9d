// MemoryShortage: whether StoCs have no memory for further logs of this LTC, so that it is to give back what
// it can.
//
// A StoC that refuses is asked again within a second, so a shortage that lasts is told of often. What nobody
// told of for two is over.
//
// Thread safety: all; a relaxed atomic, exact to the moment of a call.
// Ownership:     none.
// Errors:        none.
#pragma once

#include <atomic>

#include "common/base/clock.h"

namespace nova {

class MemoryShortage {
 public:
  // A StoC has refused memory for a log.
  void Told() { last_ns_.store(Now(), std::memory_order_relaxed); }
  bool Lasts() const {
    const Nanos last = last_ns_.load(std::memory_order_relaxed);
    return last != 0 && Now() - last < 2 * kSecond;
  }

 private:
  std::atomic<Nanos> last_ns_{0};  // of the last Told; 0: none
};

}  // namespace nova
