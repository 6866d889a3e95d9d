// Mailbox: what other threads leave for a port's. Whoever puts something in wakes the port.
//
// Thread safety: Put from any thread; empty and Take by the owner, who pays one load while nothing is there.
// Ownership:     what is in it.   Errors: none.
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
  bool empty() const { return !full_.load(std::memory_order_acquire); }
  std::vector<T> Take() {
    MutexLock lock(&mu_);
    full_.store(false, std::memory_order_release);
    return std::exchange(items_, {});
  }

 private:
  Mutex mu_;
  std::vector<T> items_ ABSL_GUARDED_BY(mu_);
  std::atomic<bool> full_{false};
};

}  // namespace nova
