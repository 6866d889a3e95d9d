// RoundLog: a range's log as its parts use it: they append records and delete the logs of rounds. Before Open
// there is no log; then DeleteRound and Fence do nothing, and all others must not be called: whoever calls
// them has seen the range active.
//
// Thread safety: as RangeLog. Open once, before the range is active.
// Ownership: owns the RangeLog.
// Errors: as RangeLog. A log that refused is not asked again at once: see refusals().
#pragma once

#include <memory>
#include <utility>

#include "common/base/refusals.h"
#include "common/log/range_log.h"

namespace nova {

class RoundLog {
 public:
  // Takes the log of this opening.
  void Open(std::unique_ptr<RangeLog> log) {
    log_ = std::move(log);
    sync_matters_ = log_->sync_matters();
  }
  // See RangeLog::Append.
  Outcome Append(Executor* on, const LogRecord& record, absl::AnyInvocable<void(Outcome)> done) {
    return log_->Append(on, record, std::move(done));
  }
  // Deletes the logs of a round. Call once each memtable of the round is named done by an acknowledged edit
  // (done memtables, M3), or holds nothing.
  void DeleteRound(RoundNumber round) {
    if (log_ != nullptr) log_->DeleteRound(round);
  }
  // See RangeLog::Fence.
  void Fence() {
    if (log_ != nullptr) log_->Fence();
  }
  bool keeps_records() const { return log_->keeps_records(); }  // false: log mode none
  // A record that is not synced may be lost where a synced one is not.
  bool sync_matters() const { return sync_matters_; }
  // The answer to writes while the log refuses; it is asked again within 0.1 s.
  Refusals& refusals() { return refusals_; }
  RangeLog* get() const { return log_.get(); }  // null before Open

 private:
  std::unique_ptr<RangeLog> log_;  // null before Open
  bool sync_matters_ = false;      // as the log says; constant once it is open
  Refusals refusals_{100 * kMillisecond};
};

}  // namespace nova
