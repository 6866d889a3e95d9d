// WorkFailure: what ails a kind of background work of a range, its flushes or its compactions: told to who
// waits for it.
//
// Work that fails is tried again, ten times a second. So one failure says little; a few in a row, over a
// third of a second, are a cause that lasts, and whoever waits is better told.
//
// Thread safety: all.
#pragma once

#include <atomic>

#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "common/base/outcome.h"
#include "common/base/status.h"

namespace nova {

class WorkFailure {
 public:
  static constexpr int kLastingFailures = 3;
  static constexpr Nanos kLastingNs = 300 * kMillisecond;

  Outcome outcome() const { return outcome_.load(std::memory_order_relaxed); }  // of the latest attempt
  void OnDone() {
    if (outcome() == Outcome::kOk) return;
    MutexLock lock(&mu_);
    outcome_.store(Outcome::kOk, std::memory_order_relaxed);
    in_a_row_ = 0;
  }
  void OnFailed(const Status& why) {
    MutexLock lock(&mu_);
    outcome_.store(absl::IsResourceExhausted(why) ? Outcome::kNoSpace : Outcome::kUnavailable,
                   std::memory_order_relaxed);
    latest_ns_ = Now();
    if (in_a_row_++ == 0) first_ns_ = latest_ns_;
    why_ = why;
  }
  // Why the work has failed for a while, and again since `since_ns`; Ok: it has not.
  Status Lasting(Nanos since_ns) const {
    if (outcome() == Outcome::kOk) return OkStatus();
    MutexLock lock(&mu_);
    const bool lasts =
        in_a_row_ >= kLastingFailures && latest_ns_ - first_ns_ >= kLastingNs && latest_ns_ >= since_ns;
    return lasts ? why_ : OkStatus();
  }

 private:
  std::atomic<Outcome> outcome_{Outcome::kOk};
  mutable Mutex mu_;
  int in_a_row_ ABSL_GUARDED_BY(mu_) = 0;
  Nanos first_ns_ ABSL_GUARDED_BY(mu_) = 0;  // of those in a row
  Nanos latest_ns_ ABSL_GUARDED_BY(mu_) = 0;
  Status why_ ABSL_GUARDED_BY(mu_);
};

}  // namespace nova
