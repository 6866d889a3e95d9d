// IdReaper: destroys connection ids of librdmacm on a thread of its own, for that may wait, and no port's
// thread may. Internal to the verbs fabric.
//
// Thread safety: all. Finish waits; the destructor waits for what was given to it.
// Ownership: takes the ids.
// Errors: none.
#pragma once

#include <rdma/rdma_cma.h>

#include <deque>

#include "common/base/mutex.h"
#include "common/base/thread.h"

namespace nova {

class IdReaper {
 public:
  IdReaper() : thread_("rdma.reaper.0", [this] { Run(); }) {}
  ~IdReaper() {
    MutexLock lock(&mu_);
    stopping_ = true;
    changed_.SignalAll();
  }  // then the thread is joined

  void Discard(rdma_cm_id* id) {
    MutexLock lock(&mu_);
    discarded_.push_back(id);
    ++discards_;
    changed_.SignalAll();
  }
  // Returns once all that was discarded before is destroyed.
  void Finish() {
    MutexLock lock(&mu_);
    const uint64_t until = discards_;
    while (destroyed_ < until) changed_.Wait(&mu_);
  }

 private:
  void Run() {
    for (;;) {
      rdma_cm_id* id = nullptr;
      {
        MutexLock lock(&mu_);
        while (discarded_.empty()) {
          if (stopping_) return;
          changed_.Wait(&mu_);
        }
        id = discarded_.front();
        discarded_.pop_front();
      }
      rdma_destroy_id(id);
      MutexLock lock(&mu_);
      ++destroyed_;
      changed_.SignalAll();
    }
  }

  Mutex mu_;
  CondVar changed_;  // signalled with each of the following; with mu_
  std::deque<rdma_cm_id*> discarded_ ABSL_GUARDED_BY(mu_);
  uint64_t discards_ ABSL_GUARDED_BY(mu_) = 0;   // ever
  uint64_t destroyed_ ABSL_GUARDED_BY(mu_) = 0;  // ever
  bool stopping_ ABSL_GUARDED_BY(mu_) = false;
  Thread thread_;
};

}  // namespace nova
