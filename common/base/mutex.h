// Mutex, MutexLock, CondVar: the blocking primitives. In production they are pthreads'; in a simulation they
// block fibers of its scheduler.
//
// Thread safety: all. Annotated for clang's analysis (the `clang` preset). Not recursive.
#pragma once

#include <pthread.h>

#include "absl/base/thread_annotations.h"
#include "common/base/clock.h"

namespace nova {

class ABSL_LOCKABLE Mutex {
 public:
  Mutex();
  ~Mutex();
  Mutex(const Mutex&) = delete;
  Mutex& operator=(const Mutex&) = delete;
  void Lock() ABSL_EXCLUSIVE_LOCK_FUNCTION();
  void Unlock() ABSL_UNLOCK_FUNCTION();
  // Tells clang's analysis that the lock is held; no check.
  void AssertHeld() const ABSL_ASSERT_EXCLUSIVE_LOCK() {}

 private:
  friend class CondVar;
  pthread_mutex_t mu_;
  bool held_ = false;  // in a simulation only
};

class ABSL_SCOPED_LOCKABLE MutexLock {
 public:
  explicit MutexLock(Mutex* mu) ABSL_EXCLUSIVE_LOCK_FUNCTION(mu) : mu_(mu) { mu_->Lock(); }
  ~MutexLock() ABSL_UNLOCK_FUNCTION() { mu_->Unlock(); }
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

 private:
  Mutex* const mu_;
};

class CondVar {
 public:
  CondVar();
  ~CondVar();
  CondVar(const CondVar&) = delete;
  CondVar& operator=(const CondVar&) = delete;
  void Wait(Mutex* mu) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu) { WaitUntil(mu, kNever); }
  // Waits for a signal or the deadline. False: the deadline has passed. As with any condition variable, the
  // caller loops on its condition.
  bool WaitUntil(Mutex* mu, Nanos deadline_ns) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu);
  void Signal();  // wakes one waiter
  void SignalAll();

 private:
  pthread_cond_t cv_;
};

// A flag that is set once and waited for. Not reset.
class Notification {
 public:
  void Notify();  // sets the flag; again is fine
  bool HasBeenNotified() const;
  bool WaitUntil(Nanos deadline_ns) const;  // false: the deadline has passed
  void Wait() const { WaitUntil(kNever); }

 private:
  mutable Mutex mu_;
  mutable CondVar cv_;
  bool set_ ABSL_GUARDED_BY(mu_) = false;
};

}  // namespace nova
