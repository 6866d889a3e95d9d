// WorkFailure: the present failure of one kind of background work of a range, its flushes or its compactions,
// for threads that wait for that work.
//
// Work that fails is tried again, ten times a second. One failure says little; several in a row over a third
// of a second are a cause that lasts, and a waiting caller is better told.
//
// Thread safety: all.
// Locks: its own, a leaf. While work succeeds nobody takes it.
// Errors: none of its own.
#pragma once

#include <atomic>

#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "common/base/outcome.h"
#include "common/base/status.h"

namespace nova {

class WorkFailure {
 public:
  static constexpr int kLastingFailures = 3;               // in a row, before the cause counts as lasting
  static constexpr Nanos kLastingNs = 300 * kMillisecond;  // and over as long a time

  // The latest attempt's outcome; kOk: it succeeded.
  Outcome outcome() const { return outcome_.load(std::memory_order_relaxed); }
  // An attempt succeeded.
  void OnDone() {
    if (outcome() == Outcome::kOk) return;
    MutexLock lock(&mu_);
    outcome_.store(Outcome::kOk, std::memory_order_relaxed);
    in_a_row_ = 0;
  }
  // An attempt failed.
  void OnFailed(const Status& why) {
    MutexLock lock(&mu_);
    outcome_.store(absl::IsResourceExhausted(why) ? Outcome::kNoSpace : Outcome::kUnavailable,
                   std::memory_order_relaxed);
    latest_ns_ = Now();
    if (in_a_row_++ == 0) first_ns_ = latest_ns_;
    why_ = CopyOf(why);
  }
  // Why the work has failed for a while, and again after `since_ns`. Ok: it has not.
  Status Lasting(Nanos since_ns) const {
    if (outcome() == Outcome::kOk) return OkStatus();
    MutexLock lock(&mu_);
    const bool lasts =
        in_a_row_ >= kLastingFailures && latest_ns_ - first_ns_ >= kLastingNs && latest_ns_ >= since_ns;
    return lasts ? CopyOf(why_) : OkStatus();
  }

 private:
  // With text of its own. A Status shares its text with its copies, and counts them in a library that
  // ThreadSanitizer does not see into: where threads share one it reports a race at the last one's end.
  static Status CopyOf(const Status& s) { return {s.code(), s.message()}; }

  std::atomic<Outcome> outcome_{Outcome::kOk};  // written under mu_, read without it
  mutable Mutex mu_;
  int in_a_row_ ABSL_GUARDED_BY(mu_) = 0;     // failures since the last success
  Nanos first_ns_ ABSL_GUARDED_BY(mu_) = 0;   // time of the first of them
  Nanos latest_ns_ ABSL_GUARDED_BY(mu_) = 0;  // time of the last
  Status why_ ABSL_GUARDED_BY(mu_);
};

}  // namespace nova
