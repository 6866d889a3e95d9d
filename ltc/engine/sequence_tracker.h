// SequenceTracker: hands out a range's sequence numbers and knows stable_seq, the largest s with every number
// <= s finished, that is inserted, or abandoned before it was posted (stable number, K4).
//
// Thread safety: all; lock-free but for waiters.   Bounds: at most kWindow numbers unfinished at once.
#pragma once

#include <array>
#include <atomic>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "common/base/ids.h"
#include "common/base/mutex.h"

namespace nova {

class SequenceTracker {
 public:
  static constexpr uint64_t kWindow = 1 << 16;

  explicit SequenceTracker(SequenceNumber last)
      : last_(last), stable_(last), finished_(new std::atomic<uint64_t>[kWindow]()) {}

  // The first of `count` consecutive numbers, taken in one step (batch, K6: last() never lies inside a
  // batch); 0 when more than kWindow would be unfinished: the caller answers Busy.
  SequenceNumber Take(uint64_t count = 1) {
    SequenceNumber last = last_.load(std::memory_order_relaxed);
    do {
      if (last + count - stable_.load(std::memory_order_acquire) > kWindow) return 0;
    } while (!last_.compare_exchange_weak(last, last + count, std::memory_order_seq_cst));
    return last + 1;
  }
  void Finish(SequenceNumber first, uint64_t count = 1);  // those of one Take

  SequenceNumber last() const { return last_.load(std::memory_order_seq_cst); }
  SequenceNumber stable() const { return stable_.load(std::memory_order_acquire); }
  // Runs `fn` once stable() >= seq: now, or on the thread that finishes the number that was missing.
  void WhenStable(SequenceNumber seq, absl::AnyInvocable<void()> fn);
  // The epoch is over, numbers may stay unfinished for ever: runs every waiter, and later ones at once.
  void Close();

 private:
  void Advance();
  void RunWaiters();

  std::atomic<SequenceNumber> last_;
  std::atomic<SequenceNumber> stable_;
  std::unique_ptr<std::atomic<uint64_t>[]> finished_;  // [n % kWindow] = n once n is finished
  std::atomic<int> waiting_{0};
  std::atomic<bool> closed_{false};
  Mutex mu_;
  std::vector<std::pair<SequenceNumber, absl::AnyInvocable<void()>>> waiters_ ABSL_GUARDED_BY(mu_);
};

}  // namespace nova
