// SilentStocs: StoCs that the coordinator calls live and that did not answer a ping a moment ago, for all
// ranges of an LTC: a process that hangs while its heartbeats go on, or that died just now. Whoever wants to
// know whether such a StoC is there asks here before it pings: a ping in vain holds a thread for a quarter of
// a second, and each of many ranges would make one.
//
// Thread safety: all.   Locks: one, a leaf.   Ownership: none taken.   Errors: none.
#pragma once

#include <map>
#include <utility>

#include "common/base/clock.h"
#include "common/base/ids.h"
#include "common/base/mutex.h"

namespace nova {

class SilentStocs {
 public:
  static constexpr Nanos kPause = 2 * kSecond;  // so long a ping in vain counts

  // That start of the StoC has not answered.
  void Note(StocId stoc, Incarnation start) {
    MutexLock lock(&mu_);
    until_[stoc] = {start, Now() + kPause};
  }
  // So it was less than kPause ago. Another start of the StoC may answer.
  bool Contains(StocId stoc, Incarnation start) const {
    MutexLock lock(&mu_);
    const auto it = until_.find(stoc);
    return it != until_.end() && it->second.first == start && Now() < it->second.second;
  }

 private:
  mutable Mutex mu_;
  std::map<StocId, std::pair<Incarnation, Nanos>> until_ ABSL_GUARDED_BY(mu_);  // of each the last note
};

}  // namespace nova
