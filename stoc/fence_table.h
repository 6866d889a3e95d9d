// FenceTable: the epoch below which each range's requests are refused (revocation, F1), and the work of each
// epoch that is under way, so that a FENCE is answered only when nothing of a lower epoch can land any more
// (manifest, M1).
//
// Thread safety: all; nothing waits. `drained` runs without the lock.
// Ownership:     none taken.
// Errors:        false: the epoch is fenced; the request is answered kNotOwner.
#pragma once

#include <map>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "common/base/ids.h"
#include "common/base/mutex.h"

namespace nova {

class FenceTable {
 public:
  // admit_all: F1 is switched off, tests only
  explicit FenceTable(bool admit_all = false) : admit_all_(admit_all) {}
  // The epoch is not below the fenced one.
  bool Admits(RangeId range, Epoch epoch) const;
  // Brackets a piece of work. Leave only after an Enter that said true.
  bool Enter(RangeId range, Epoch epoch);
  void Leave(RangeId range, Epoch epoch);
  // Refuses epochs below `epoch` from now on; false: a higher one is in force, and nothing happens. `drained`
  // runs once, as soon as no work of a lower epoch is inside: before this returns, or on the thread of the
  // last Leave.
  bool Raise(RangeId range, Epoch epoch, absl::AnyInvocable<void()> drained);
  Epoch epoch(RangeId range) const;  // below it requests are refused; 0: none was told
  // Nobody knows which epochs of the range are over: all are refused, until Learn tells. Before the first
  // request.
  void RefuseAll(RangeId range);
  // The range's record says so: after RefuseAll the epochs below are refused, and no other. Else nothing.
  void Learn(RangeId range, Epoch epoch);

  // Work between Enter and Leave.
  class Scope {
   public:
    Scope(FenceTable* table, RangeId range, Epoch epoch)
        : table_(table), range_(range), epoch_(epoch), entered_(table->Enter(range, epoch)) {}
    ~Scope() {
      if (entered_) table_->Leave(range_, epoch_);
    }
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;
    bool entered() const { return entered_; }  // false: the epoch is fenced, the work must not be done

   private:
    FenceTable* const table_;
    const RangeId range_;
    const Epoch epoch_;
    const bool entered_;
  };

 private:
  struct Waiter {  // a FENCE that is not answered yet
    Epoch epoch;
    absl::AnyInvocable<void()> drained;
  };
  struct Range {
    Epoch epoch;                  // see epoch()
    std::map<Epoch, int> inside;  // how much work of each epoch is under way
    std::vector<Waiter> waiters;
    bool DrainedBelow(Epoch e) const { return inside.empty() || inside.begin()->first >= e; }
  };

  const bool admit_all_;
  mutable Mutex mu_;
  std::map<RangeId, Range> ranges_ ABSL_GUARDED_BY(mu_);
};

}  // namespace nova
