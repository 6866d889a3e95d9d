// ManualExecutor: a request thread that a test turns by hand, on the thread that made it.
#pragma once

#include <deque>
#include <map>

#include "common/base/executor.h"
#include "common/base/mutex.h"
#include "common/base/thread.h"

namespace nova {

class ManualExecutor : public Executor {
 public:
  explicit ManualExecutor(size_t index = 0) : index_(index), owner_(Thread::CurrentId()) {}
  void Submit(absl::AnyInvocable<void()> fn) override {
    MutexLock lock(&mu_);
    queue_.push_back(std::move(fn));
  }
  void RunAt(Nanos when_ns, absl::AnyInvocable<void()> fn) override {
    MutexLock lock(&mu_);
    timers_.emplace(when_ns, std::move(fn));
  }
  bool IsCurrentThread() const override { return owner_ == Thread::CurrentId(); }
  size_t index() const override { return index_; }

  // One closure or due timer; false: nothing to do.
  bool RunOnce() {
    absl::AnyInvocable<void()> fn;
    {
      MutexLock lock(&mu_);
      if (!queue_.empty()) {
        fn = std::move(queue_.front());
        queue_.pop_front();
      } else if (!timers_.empty() && timers_.begin()->first <= Now()) {
        fn = std::move(timers_.begin()->second);
        timers_.erase(timers_.begin());
      } else {
        return false;
      }
    }
    fn();
    return true;
  }
  template <typename Done>
  void RunUntil(const Done& done) {
    while (!done()) {
      if (!RunOnce()) SleepFor(20 * kMicrosecond);
    }
  }

 private:
  const size_t index_;
  const void* const owner_;
  Mutex mu_;
  std::deque<absl::AnyInvocable<void()>> queue_ ABSL_GUARDED_BY(mu_);
  std::multimap<Nanos, absl::AnyInvocable<void()>> timers_ ABSL_GUARDED_BY(mu_);
};

}  // namespace nova
