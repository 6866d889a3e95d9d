#include "ltc/engine/sequence_tracker.h"

namespace nova {

void SequenceTracker::Finish(SequenceNumber first, uint64_t count) {
  for (SequenceNumber s = first; s < first + count; ++s)
    finished_[s % kWindow].store(s, std::memory_order_seq_cst);
  Advance();
  if (waiting_.load(std::memory_order_seq_cst) > 0) RunWaiters();
}

void SequenceTracker::Advance() {
  SequenceNumber s = stable_.load(std::memory_order_seq_cst);
  while (finished_[(s + 1) % kWindow].load(std::memory_order_seq_cst) == s + 1) {
    if (stable_.compare_exchange_weak(s, s + 1, std::memory_order_seq_cst)) ++s;
  }
}

void SequenceTracker::WhenStable(SequenceNumber seq, absl::AnyInvocable<void()> fn) {
  if (stable() >= seq || closed_.load(std::memory_order_seq_cst)) return fn();
  {
    MutexLock lock(&mu_);
    waiting_.fetch_add(1, std::memory_order_seq_cst);
    waiters_.emplace_back(seq, std::move(fn));
  }
  RunWaiters();  // it may have become stable before anybody could see that we wait
}

void SequenceTracker::Close() {
  closed_.store(true, std::memory_order_seq_cst);
  RunWaiters();
}

void SequenceTracker::RunWaiters() {
  std::vector<absl::AnyInvocable<void()>> ready;
  {
    MutexLock lock(&mu_);
    const SequenceNumber s = closed_.load(std::memory_order_seq_cst) ? kMaxSequenceNumber : stable();
    std::erase_if(waiters_, [&](auto& w) {
      if (w.first > s) return false;
      ready.push_back(std::move(w.second));
      return true;
    });
    waiting_.fetch_sub(static_cast<int>(ready.size()), std::memory_order_seq_cst);
  }
  for (auto& fn : ready) fn();
}

}  // namespace nova
