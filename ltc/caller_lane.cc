#include "ltc/caller_lane.h"

#include "common/base/thread.h"

namespace nova {

bool CallerLane::TryTake() {
  uint32_t expected = kFree;
  if (!state_.compare_exchange_strong(expected, kHeld, std::memory_order_acquire)) return false;
  holder_.store(Thread::CurrentId(), std::memory_order_relaxed);
  return true;
}

bool CallerLane::IsCurrentThread() const { return holder_.load(std::memory_order_relaxed) == Thread::CurrentId(); }

void CallerLane::Enter() {
  if (TryTake()) return;
  MutexLock lock(&mu_);
  while (!TryTake()) {
    uint32_t held = kHeld;
    state_.compare_exchange_strong(held, kContended, std::memory_order_relaxed);
    if (held == kFree) continue;
    changed_.Wait(&mu_);
  }
}

void CallerLane::Leave() {
  holder_.store(nullptr, std::memory_order_relaxed);
  uint32_t held = kHeld;
  if (!state_.compare_exchange_strong(held, kFree, std::memory_order_release)) LeaveSlow();
}

void CallerLane::LeaveSlow() {
  MutexLock lock(&mu_);
  holder_.store(Thread::CurrentId(), std::memory_order_relaxed);
  RunQueued();
  holder_.store(nullptr, std::memory_order_relaxed);
  state_.store(kFree, std::memory_order_release);
  changed_.SignalAll();
}

void CallerLane::RunQueued() {
  while (!queue_.empty()) {
    auto fn = std::move(queue_.front());
    queue_.pop_front();
    mu_.Unlock();
    fn();
    mu_.Lock();
  }
}

void CallerLane::Submit(absl::AnyInvocable<void()> fn) {
  mu_.Lock();
  queue_.push_back(std::move(fn));
  const bool taken = TryTake();
  if (!taken) {
    uint32_t held = kHeld;
    if (!state_.compare_exchange_strong(held, kContended, std::memory_order_relaxed) && held == kFree) {
      mu_.Unlock();  // it was left just now
      Hold pass(this);
      MutexLock lock(&mu_);
      return RunQueued();
    }
    changed_.SignalAll();
  }
  mu_.Unlock();
  if (taken) LeaveSlow();
}

void CallerLane::RunAt(Nanos when_ns, absl::AnyInvocable<void()> fn) {
  MutexLock lock(&mu_);
  timers_.emplace(when_ns, std::move(fn));
}

void CallerLane::WaitFor(const bool* done) {
  MutexLock lock(&mu_);
  for (;;) {
    while (!timers_.empty() && timers_.begin()->first <= Now()) {
      queue_.push_back(std::move(timers_.begin()->second));
      timers_.erase(timers_.begin());
    }
    RunQueued();
    if (*done) return;
    if (queue_.empty()) changed_.WaitUntil(&mu_, timers_.empty() ? kNever : timers_.begin()->first);
  }
}

}  // namespace nova
