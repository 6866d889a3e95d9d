// OpenFailures: why ranges that this LTC was given are not open, as heartbeats tell the coordinator, and that
// tells people.
//
// Thread safety: all; nothing waits.   Ownership: a value.   Errors: none.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "common/base/mutex.h"
#include "common/base/status.h"
#include "coordinator/coordinator_client.h"

namespace nova {

class OpenFailures {
 public:
  // A heartbeat tells of no more; the log has all, and the whole of each text.
  static constexpr size_t kMostTold = 100, kMostBytes = 500;

  // An Open at that epoch ended with `why`. It is tried again while the range is assigned to us.
  void Failed(RangeId id, Epoch epoch, const Status& why) {
    MutexLock lock(&mu_);
    failed_[id] = {id, epoch, absl::IsDataLoss(why), std::string(why.message().substr(0, kMostBytes))};
  }
  // The range is open, or is another's: nobody need know any more why it was not open at `up_to`.
  void Forget(RangeId id, Epoch up_to) {
    MutexLock lock(&mu_);
    const auto failure = failed_.find(id);
    if (failure != failed_.end() && failure->second.epoch <= up_to) failed_.erase(failure);
  }
  std::vector<OpenFailure> Told() const {
    MutexLock lock(&mu_);
    std::vector<OpenFailure> all;
    for (const auto& [id, failure] : failed_) {
      if (all.size() < kMostTold) all.push_back(failure);
    }
    return all;
  }

 private:
  mutable Mutex mu_;
  std::map<RangeId, OpenFailure> failed_ ABSL_GUARDED_BY(mu_);  // the last of each range
};

}  // namespace nova
