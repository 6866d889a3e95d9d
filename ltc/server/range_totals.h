// RangeTotals: the counters of all ranges that an LTC has held since it started. They never fall: what a
// range has counted stays when it leaves.
//
// Thread safety: all.
// Locks: its own, held while a range leaves the ledger, whose lock is taken under it, and while ranges are
//   asked what they have counted. Nobody takes it under a lock of a range or of the ledger.
// Ownership: none taken; ledger and metrics outlive it.
// Errors: none.
#pragma once

#include "common/base/metrics.h"
#include "common/base/mutex.h"
#include "ltc/server/hosted_range.h"
#include "ltc/server/range_ledger.h"

namespace nova {

class RangeTotals {
 public:
  explicit RangeTotals(RangeLedger<HostedRange>* ranges) : ranges_(ranges) {}

  // RangeLedger::Drop; what the range has counted goes on counting.
  void Drop(RangeId id, Epoch up_to);
  // Each counter, by name. Callbacks of `metrics` use this.
  void AddMetrics(Metrics* metrics);

 private:
  // Of the ranges that are held, and of those that have left.
  uint64_t Sum(uint64_t RangeStats::*counter) const;
  Nanos StalledNs() const;  // likewise, of writers

  RangeLedger<HostedRange>* const ranges_;
  mutable Mutex mu_;
  RangeStats left_ ABSL_GUARDED_BY(mu_);  // the counters of ranges that have left; nothing else is set
};

}  // namespace nova
