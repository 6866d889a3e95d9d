// WaitGroup: waits for several things that happen on other threads.
//
// Each is a Part, made before the wait and ended, once, where the thing ends. A part that is destroyed undone
// (the thread that had it has stopped) counts too: Wait says that all is over, not that all was done.
//
// Thread safety: all.   Ownership: the parts share the group.   Errors: none.
#pragma once

#include <memory>
#include <utility>

#include "common/base/mutex.h"

namespace nova {

class WaitGroup {
 public:
  class Part {
   public:
    explicit Part(std::shared_ptr<WaitGroup> group) : group_(std::move(group)) { group_->Add(); }
    Part(Part&&) = default;
    Part& operator=(Part&&) = delete;
    ~Part() {
      if (group_ != nullptr) End();
    }
    void End() { std::exchange(group_, nullptr)->Remove(); }

   private:
    std::shared_ptr<WaitGroup> group_;
  };

  // Until every part that was made has ended.
  void Wait() {
    MutexLock lock(&mu_);
    while (parts_ > 0) ended_.Wait(&mu_);
  }

 private:
  void Add() {
    MutexLock lock(&mu_);
    ++parts_;
  }
  void Remove() {
    MutexLock lock(&mu_);
    if (--parts_ == 0) ended_.SignalAll();
  }

  Mutex mu_;
  CondVar ended_;
  int parts_ ABSL_GUARDED_BY(mu_) = 0;
};

}  // namespace nova
