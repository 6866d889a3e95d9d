// Mailbox: items that other threads leave for a port's thread. The thread that puts one in wakes the port.
//
// Thread safety: Put from any thread; empty and Take by the owner, which pays one load while nothing is
//   there.
// Ownership: owns the items.
// Errors: none.
#pragma once

#include <atomic>
#include <utility>
#include <vector>

#include "common/base/mutex.h"

namespace nova {

template <typename T>
class Mailbox {
 public:
  void Put(T item) {
    MutexLock lock(&mu_);
    items_.push_back(std::move(item));
    full_.store(true, std::memory_order_release);
  }
  // May say false shortly before Take finds nothing.
  bool empty() const { return !full_.load(std::memory_order_acquire); }
  std::vector<T> Take() {  // all items, in order
    MutexLock lock(&mu_);
    full_.store(false, std::memory_order_release);
    return std::exchange(items_, {});
  }

 private:
  Mutex mu_;
  std::vector<T> items_ ABSL_GUARDED_BY(mu_);
  std::atomic<bool> full_{false};  // items_ may hold something
};

}  // namespace nova
