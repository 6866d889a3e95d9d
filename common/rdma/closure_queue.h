// ClosureQueue: closures that any thread submits and one thread runs.
//
// Thread safety: Add and Close from any thread; Run by the one that runs them.
// Ownership: owns the closures until they have run.
// Errors: none; what is added after Close is destroyed by the caller's thread, without being run.
#pragma once

#include <atomic>
#include <utility>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "common/base/mutex.h"

namespace nova {

class ClosureQueue {
 public:
  using Closure = absl::AnyInvocable<void()>;

  void Add(Closure fn) {
    MutexLock lock(&mu_);
    if (closed_) return;
    added_.push_back(std::move(fn));
    any_.store(true, std::memory_order_release);
  }
  // Runs what was added, in order. False: there was none.
  bool Run() {
    if (!any_.load(std::memory_order_acquire)) return false;
    {
      MutexLock lock(&mu_);
      running_.swap(added_);
      any_.store(false, std::memory_order_relaxed);
    }
    for (Closure& fn : running_) fn();
    running_.clear();
    return true;
  }
  // From here on nothing is added. Returns what was added and not run.
  std::vector<Closure> Close() {
    MutexLock lock(&mu_);
    closed_ = true;
    return std::exchange(added_, {});
  }

 private:
  Mutex mu_;
  std::vector<Closure> added_ ABSL_GUARDED_BY(mu_);
  bool closed_ ABSL_GUARDED_BY(mu_) = false;
  std::atomic<bool> any_{false};  // added_ may have some
  std::vector<Closure> running_;  // of Run's thread
};

}  // namespace nova
