// BoundedQueue: hands items from threads to threads; never grows past its capacity.
//
//   producer   if (!queue.TryPush(item)) refuse it: the queue is full or closed
//   consumer   while (auto item = queue.Pop()) handle it; ends once the queue is closed and empty
//
// Thread safety: all.
// Locks: its own, a leaf.
// Ownership: items left at destruction are destroyed.
// Errors: false, nullopt: full or closed; see each method.
#pragma once

#include <deque>
#include <optional>
#include <utility>

#include "common/base/mutex.h"

namespace nova {

template <typename T>
class BoundedQueue {
 public:
  explicit BoundedQueue(size_t capacity) : capacity_(capacity) {}

  // False: it is full or closed, and the caller keeps `item`. Does not wait.
  bool TryPush(T& item) {
    MutexLock lock(&mu_);
    if (closed_ || items_.size() >= capacity_) return false;
    items_.push_back(std::move(item));
    ready_.Signal();
    return true;
  }
  bool TryPush(T&& item) { return TryPush(item); }

  // Waits for an item. nullopt: the deadline has passed, or it is closed and empty.
  std::optional<T> Pop(Nanos deadline_ns = kNever) {
    MutexLock lock(&mu_);
    while (items_.empty()) {
      if (closed_ || (!ready_.WaitUntil(&mu_, deadline_ns) && items_.empty())) return std::nullopt;
    }
    T item = std::move(items_.front());
    items_.pop_front();
    return item;
  }

  // Takes no more items and wakes all waiting threads; items in it are still handed out.
  void Close() {
    MutexLock lock(&mu_);
    closed_ = true;
    ready_.SignalAll();
  }

  size_t size() const {
    MutexLock lock(&mu_);
    return items_.size();
  }
  bool closed() const {
    MutexLock lock(&mu_);
    return closed_;
  }

 private:
  const size_t capacity_;
  mutable Mutex mu_;
  CondVar ready_;
  std::deque<T> items_ ABSL_GUARDED_BY(mu_);
  bool closed_ ABSL_GUARDED_BY(mu_) = false;
};

}  // namespace nova
