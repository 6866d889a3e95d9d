// KeyLatches: stripes of a range's keys, by hash, that a CompareAndSwap holds exclusively from its read to
// its insert (compare and swap, K6).
//
// The shared side is no lock: a writer is visible by the number it took until it finishes it
// (SequenceTracker). A writer takes its number, then asks Blocks; a CompareAndSwap locks its stripe, then
// reads the last number, and waits until that is stable. Both sides are sequentially consistent, so either
// the writer is waited for, or it sees the stripe held, abandons its number (it was never posted) and waits.
// A put pays one load of a line that nobody writes while no CompareAndSwap runs. A writer holds nothing while
// it waits, so batches over several stripes need no order.
//
// Nobody waits on a thread: who cannot go on leaves a closure, which runs under no lock on the thread that
// unlocks, and submits to its executor. Writers that waited get a turn: the stripe is not locked again before
// each of them has tried once more.
//
// Thread safety: all.
#pragma once

#include <array>
#include <atomic>
#include <deque>
#include <memory>
#include <utility>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "common/base/mutex.h"

namespace nova {

class KeyLatches {
 public:
  static constexpr size_t kStripes = 256;
  using Closure = absl::AnyInvocable<void()>;
  using Turn = std::shared_ptr<void>;  // dropped when the writer has tried; not after the KeyLatches
  using WriterClosure = absl::AnyInvocable<void(Turn)>;
  static size_t StripeOf(uint64_t hash) { return hash % kStripes; }

  bool any_held() const { return held_count_.load(std::memory_order_seq_cst) != 0; }
  bool held(size_t stripe) const { return held_[stripe].load(std::memory_order_seq_cst); }

  // True: the caller holds the stripe now. False: it does when `fn` runs. Then it calls Unlock.
  bool Lock(size_t stripe, Closure fn) {
    MutexLock lock(&mu_);
    if (!held(stripe) && !turns_[stripe]) {
      Hold(stripe);
      return true;
    }
    waiting_[stripe].push_back({std::move(fn), {}});
    return false;
  }
  // True: `fn` runs once the stripe was unlocked. False: it is not held any more.
  bool WaitWhileHeld(size_t stripe, WriterClosure fn) {
    MutexLock lock(&mu_);
    if (!held(stripe)) return false;
    waiting_[stripe].push_back({{}, std::move(fn)});
    return true;
  }
  // In the order of arrival: to the next that wants the stripe, or to the writers in front of it.
  void Unlock(size_t stripe) {
    std::vector<WriterClosure> writers;
    Closure next;
    {
      MutexLock lock(&mu_);
      std::deque<Waiter>& queue = waiting_[stripe];
      for (; !queue.empty() && queue.front().writer; queue.pop_front())
        writers.push_back(std::move(queue.front().writer));
      if (writers.empty() && !queue.empty()) {
        next = std::move(queue.front().locker);
        queue.pop_front();
      } else {
        held_[stripe].store(false, std::memory_order_seq_cst);
        held_count_.fetch_sub(1, std::memory_order_seq_cst);
        turns_[stripe] = !writers.empty();
      }
    }
    if (next) return next();
    if (writers.empty()) return;
    const Turn turn(this, [stripe](void* latches) { static_cast<KeyLatches*>(latches)->EndTurn(stripe); });
    for (WriterClosure& fn : writers) fn(turn);
  }

 private:
  struct Waiter {
    Closure locker;  // one of the two
    WriterClosure writer;
  };
  void EndTurn(size_t stripe) {
    Closure next;
    {
      MutexLock lock(&mu_);
      turns_[stripe] = false;
      std::deque<Waiter>& queue = waiting_[stripe];
      if (queue.empty()) return;  // its front is a locker: writers wait only while the stripe is held
      next = std::move(queue.front().locker);
      queue.pop_front();
      Hold(stripe);
    }
    next();
  }
  void Hold(size_t stripe) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    held_[stripe].store(true, std::memory_order_seq_cst);
    held_count_.fetch_add(1, std::memory_order_seq_cst);
  }

  alignas(64) std::atomic<int> held_count_{0};
  alignas(64) std::array<std::atomic<bool>, kStripes> held_{};
  Mutex mu_;
  std::array<std::deque<Waiter>, kStripes> waiting_ ABSL_GUARDED_BY(mu_);
  std::array<bool, kStripes> turns_ ABSL_GUARDED_BY(mu_) = {};  // writers are at it
};

}  // namespace nova
