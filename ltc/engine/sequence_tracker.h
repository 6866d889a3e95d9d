// SequenceTracker: hands out a range's sequence numbers (K1) and knows the stable number (K4): the largest s
// with every number up to s finished, that is linked in a memtable, or abandoned before it was posted.
//
//   numbers    1 2 3 4 5 6 7        stable() = 3: 4 is not finished, though 5 and 6 are
//   finished   x x x . x x .        last() = 7
//
// Thread safety: all; without a lock but for waiters.
// Bounds: at most kWindow numbers unfinished at a time.
// Errors: 0 of Take: the bound is reached.
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
  static constexpr uint64_t kWindow = 1 << 16;  // bound on numbers taken and not finished

  // `last`: the number before the first to be handed out; all up to it are finished.
  explicit SequenceTracker(SequenceNumber last)
      : last_(last), stable_(last), finished_(new std::atomic<uint64_t>[kWindow]()) {}

  // The first of `count` consecutive numbers, taken in one step, so that last() never lies inside a batch
  // (K6). 0: more than kWindow would be unfinished; the caller answers Busy.
  SequenceNumber Take(uint64_t count = 1) {
    SequenceNumber last = last_.load(std::memory_order_relaxed);
    do {
      // where others have taken and finished more meanwhile stable() is above `last`: the exchange fails
      if (last + count > stable_.load(std::memory_order_acquire) + kWindow) return 0;
    } while (!last_.compare_exchange_weak(last, last + count, std::memory_order_seq_cst));
    return last + 1;
  }
  void Finish(SequenceNumber first, uint64_t count = 1);  // the numbers of one Take

  SequenceNumber last() const { return last_.load(std::memory_order_seq_cst); }  // the last number handed out
  // See the head of this file.
  SequenceNumber stable() const { return stable_.load(std::memory_order_acquire); }
  // Runs `fn` once stable() >= seq: before it returns, or on the thread that finishes the missing number.
  void WhenStable(SequenceNumber seq, absl::AnyInvocable<void()> fn);
  // The epoch is over, and numbers may stay unfinished for ever: runs every waiter, and later ones at once.
  void Close();

 private:
  void Advance();  // moves stable_ over finished numbers
  // Runs the waiters whose number is stable, outside the lock.
  void RunWaiters();

  std::atomic<SequenceNumber> last_;                   // see last()
  std::atomic<SequenceNumber> stable_;                 // see stable()
  std::unique_ptr<std::atomic<uint64_t>[]> finished_;  // [n % kWindow] = n once n is finished
  std::atomic<int> waiting_{0};                        // size of waiters_, for threads without the lock
  std::atomic<bool> closed_{false};                    // see Close
  Mutex mu_;
  std::vector<std::pair<SequenceNumber, absl::AnyInvocable<void()>>> waiters_ ABSL_GUARDED_BY(mu_);
};

}  // namespace nova
