// KeyLatches: stripes of a range's keys, by hash. A CompareAndSwap holds the stripe of its key exclusively
// from its read to its insert (compare and swap, K6).
//
// The shared side is no lock: a writer is known by the number it took, until it finishes that number
// (SequenceTracker). A writer takes its number, then looks whether its stripe is held. A CompareAndSwap locks
// its stripe, then reads the last number handed out, and waits until that is stable. Both sides are
// sequentially consistent, so either the writer is waited for, or it sees the stripe held, abandons its
// number, which was never posted, and waits. A put pays one load of a cache line that nobody writes while no
// CompareAndSwap runs. A writer holds nothing while it waits, so batches over several stripes need no order.
//
//   a writer                                 a CompareAndSwap
//   1. take the number n                     1. lock the stripe
//   2. is its stripe held? then finish n,    2. read the last number handed out, m
//      which was never posted, and wait      3. wait until m is stable: writers up to m are visible
//   3. log, link, finish n                   4. compare, take a number, log, link, finish
//                                            5. unlock: writers that wait try again
//
// No thread waits. A caller that cannot go on leaves a closure, which runs under no lock on the thread that
// unlocks; it should submit to its own executor. Writers that waited get a turn: the stripe is not locked
// again before each of them has tried once more.
//
// Thread safety: all.
// Ownership: outlives every Turn.
// Errors: none.
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
  static constexpr size_t kStripes = 256;  // enough that two keys in use seldom share one
  using Closure = absl::AnyInvocable<void()>;
  using Turn = std::shared_ptr<void>;  // held by a writer while it tries again; dropped when it has
  using WriterClosure = absl::AnyInvocable<void(Turn)>;
  // The stripe of a key with this hash.
  static size_t StripeOf(uint64_t hash) { return hash % kStripes; }

  // Some stripe is held: the one load that a put pays.
  bool any_held() const { return held_count_.load(std::memory_order_seq_cst) != 0; }
  // The stripe is held by a CompareAndSwap.
  bool held(size_t stripe) const { return held_[stripe].load(std::memory_order_seq_cst); }

  // True: the caller holds the stripe from now on. False: it will when `fn` runs. Either way it must call
  // Unlock.
  bool Lock(size_t stripe, Closure fn) {
    MutexLock lock(&mu_);
    if (!held(stripe) && !turns_[stripe]) {
      Hold(stripe);
      return true;
    }
    waiting_[stripe].push_back({std::move(fn), {}});
    return false;
  }
  // True: `fn` runs after the stripe was unlocked. False: it is not held any more, and `fn` is not kept.
  bool WaitWhileHeld(size_t stripe, WriterClosure fn) {
    MutexLock lock(&mu_);
    if (!held(stripe)) return false;
    waiting_[stripe].push_back({{}, std::move(fn)});
    return true;
  }
  // Passes the stripe on in order of arrival: to the next locker, or, if writers are at the front, gives them
  // their turn first. Runs their closures before it returns.
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
  // One of the two closures is set.
  struct Waiter {
    Closure locker;  // one of the two
    WriterClosure writer;
  };
  // All writers of a turn have tried: the next locker gets the stripe.
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
  void Hold(size_t stripe) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {  // counts the stripe as held
    held_[stripe].store(true, std::memory_order_seq_cst);
    held_count_.fetch_add(1, std::memory_order_seq_cst);
  }

  alignas(64) std::atomic<int> held_count_{0};  // stripes held
  // By stripe; written under mu_, read without it.
  alignas(64) std::array<std::atomic<bool>, kStripes> held_{};
  Mutex mu_;
  std::array<std::deque<Waiter>, kStripes> waiting_ ABSL_GUARDED_BY(mu_);  // by stripe, in order of arrival
  // By stripe: writers have their turn, so it is not locked.
  std::array<bool, kStripes> turns_ ABSL_GUARDED_BY(mu_) = {};
};

}  // namespace nova
