// ScanCursor: where a scan stands between two of its pages, so that the next page need not seek again; or the
// iterator of a scan that has ended, which another one takes over (RangeIterator::Renew).
//
// It keeps a RangeIterator, and with that the rounds and tables of one view. A view that another has replaced
// is let go of at once, whether the scan goes on or not: a caller that rests in the middle of a scan keeps no
// memory, and the next page seeks in the newer view, at the same snapshot.
//
// An embedded scan or iterator has one between its pages. A scan over the wire has none: each page is a
// request of its own, and seeks. Of either, Scanner keeps the iterator that is left over for the next scan of
// its thread.
//
// Thread safety: LetGo from any thread; the others by one page at a time.
// Locks: its own, a leaf, taken under ViewHolders' by LetGo. What is let go of is destroyed under neither.
// Ownership: whoever scans. It ends before its range.
// Errors: none.
#pragma once

#include <memory>
#include <utility>

#include "common/base/mutex.h"
#include "ltc/engine/range_iterator.h"
#include "ltc/engine/round_set.h"

namespace nova {

class ScanCursor final : public ViewHolder {
 public:
  ScanCursor() = default;
  ~ScanCursor() override {
    if (rounds_ != nullptr) rounds_->view_holders().Remove(place_);
  }
  ScanCursor(const ScanCursor&) = delete;
  ScanCursor& operator=(const ScanCursor&) = delete;

  // Keeps an iterator over views of `rounds`, in the place of one that it has, unless its view is an old one
  // already. It is always the same range's. What is not kept is destroyed outside of the lock.
  void Park(RoundSet* rounds, std::unique_ptr<RangeIterator> iterator) {
    if (rounds_ == nullptr) {
      rounds_ = rounds;
      place_ = rounds->view_holders().Add(this);
    }
    MutexLock lock(&mu_);
    if (rounds->IsCurrent(iterator->generation())) parked_.swap(iterator);
  }
  // The iterator that was parked last; null: it is gone.
  std::unique_ptr<RangeIterator> Take() {
    MutexLock lock(&mu_);
    return std::move(parked_);
  }
  std::shared_ptr<const void> LetGo() override { return Take(); }

 private:
  RoundSet* rounds_ = nullptr;  // null: nothing was parked yet
  ViewHolders::Place place_;    // among their holders
  Mutex mu_;
  std::unique_ptr<RangeIterator> parked_ ABSL_GUARDED_BY(mu_);
};

}  // namespace nova
