// ViewHolders: those, beside a range's request threads, that keep a view between two requests. They are asked
// to let go of it when there is a newer one, for a view keeps memory, and files that were deleted.
//
// Thread safety: all.
// Locks: its own, held while each holder's LetGo is called, which takes the holder's lock.
// Ownership: none; a holder removes itself before it ends.
// Errors: none.
#pragma once

#include <list>
#include <memory>
#include <vector>

#include "common/base/mutex.h"

namespace nova {

class ViewHolder {
 public:
  // Gives up what it keeps, from any thread. Whoever asks destroys that, outside of all locks of the list and
  // of the holder; null: it keeps nothing.
  virtual std::shared_ptr<const void> LetGo() = 0;

 protected:
  virtual ~ViewHolder() = default;
};

class ViewHolders {
 public:
  using Place = std::list<ViewHolder*>::iterator;

  Place Add(ViewHolder* holder) {
    MutexLock lock(&mu_);
    return holders_.insert(holders_.end(), holder);
  }
  // Waits while LetGoAll asks.
  void Remove(Place place) {
    MutexLock lock(&mu_);
    holders_.erase(place);
  }
  void LetGoAll() {
    std::vector<std::shared_ptr<const void>> kept;  // destroyed after the lock was let go of
    MutexLock lock(&mu_);
    for (ViewHolder* const holder : holders_) kept.push_back(holder->LetGo());
  }

 private:
  Mutex mu_;
  std::list<ViewHolder*> holders_ ABSL_GUARDED_BY(mu_);
};

}  // namespace nova
