// RoundLog: a range's log as its parts use it: records are appended, and the logs of rounds deleted. Before
// Open there is none, which deletes and fences nothing.
//
// Thread safety: as RangeLog; Open once, before the range is active.   Ownership: owns the RangeLog.
// Errors:        as RangeLog; Why: a log that refuses is not asked again and again.
#pragma once

#include <memory>
#include <utility>

#include "common/base/refusals.h"
#include "common/log/range_log.h"

namespace nova {

class RoundLog {
 public:
  void Open(std::unique_ptr<RangeLog> log) {
    log_ = std::move(log);
    sync_matters_ = log_->sync_matters();
  }
  bool Append(Executor* on, const LogRecord& record, absl::AnyInvocable<void(Outcome)> done) {
    return log_->Append(on, record, std::move(done));
  }
  // Done memtables (M3): each one of the round is named done by an acknowledged edit, or held nothing.
  void DeleteRound(RoundNumber round) {
    if (log_ != nullptr) log_->DeleteRound(round);
  }
  void Fence() {
    if (log_ != nullptr) log_->Fence();
  }
  bool keeps_records() const { return log_->keeps_records(); }
  bool sync_matters() const { return sync_matters_; }
  Refusals& refusals() { return refusals_; }
  RangeLog* get() const { return log_.get(); }

 private:
  std::unique_ptr<RangeLog> log_;
  bool sync_matters_ = false;
  Refusals refusals_{100 * kMillisecond};
};

}  // namespace nova
