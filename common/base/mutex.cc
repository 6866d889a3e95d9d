#include "common/base/mutex.h"

#include <cerrno>
#include <ctime>

#include "common/base/log.h"
#include "common/base/simulation.h"

namespace nova {

Mutex::Mutex() { pthread_mutex_init(&mu_, nullptr); }
Mutex::~Mutex() { pthread_mutex_destroy(&mu_); }

void Mutex::Lock() {
  if (Simulation* sim = Simulation::Current()) {
    sim->MaybeYield();
    while (held_) sim->Block(this, kNever);
    held_ = true;
    return;
  }
  pthread_mutex_lock(&mu_);
}

void Mutex::Unlock() {
  if (Simulation* sim = Simulation::Current()) {
    NOVA_CHECK(held_) << "unlock of a free mutex";
    held_ = false;
    sim->WakeOne(this);
    return;
  }
  pthread_mutex_unlock(&mu_);
}

CondVar::CondVar() {
  pthread_condattr_t attr;
  pthread_condattr_init(&attr);
  pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
  pthread_cond_init(&cv_, &attr);
  pthread_condattr_destroy(&attr);
}
CondVar::~CondVar() { pthread_cond_destroy(&cv_); }

bool CondVar::WaitUntil(Mutex* mu, Nanos deadline_ns) {
  if (Simulation* sim = Simulation::Current()) {
    mu->held_ = false;
    sim->WakeOne(mu);
    const bool woken = sim->Block(this, deadline_ns);
    while (mu->held_) sim->Block(mu, kNever);
    mu->held_ = true;
    return woken;
  }
  if (deadline_ns == kNever) {
    pthread_cond_wait(&cv_, &mu->mu_);
    return true;
  }
  const Nanos left = deadline_ns - Now();
  if (left <= 0) return false;
  timespec ts;
  clock_gettime(CLOCK_MONOTONIC, &ts);
  // A wait longer than a day is cut to a day: callers loop, and the sum must not overflow.
  const Nanos until = ts.tv_nsec + (left < 86'400 * kSecond ? left : 86'400 * kSecond);
  ts.tv_sec += until / kSecond;
  ts.tv_nsec = until % kSecond;
  return pthread_cond_timedwait(&cv_, &mu->mu_, &ts) != ETIMEDOUT;
}

void CondVar::Signal() {
  if (Simulation* sim = Simulation::Current()) return sim->WakeOne(this);
  pthread_cond_signal(&cv_);
}

void CondVar::SignalAll() {
  if (Simulation* sim = Simulation::Current()) return sim->WakeAll(this);
  pthread_cond_broadcast(&cv_);
}

void Notification::Notify() {
  MutexLock lock(&mu_);
  set_ = true;
  cv_.SignalAll();
}

bool Notification::HasBeenNotified() const {
  MutexLock lock(&mu_);
  return set_;
}

bool Notification::WaitUntil(Nanos deadline_ns) const {
  MutexLock lock(&mu_);
  while (!set_) {
    if (!cv_.WaitUntil(&mu_, deadline_ns) && !set_ && Now() >= deadline_ns) return false;
  }
  return true;
}

}  // namespace nova
