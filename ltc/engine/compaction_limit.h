// CompactionLimit: how many compactions, or parts of one, a process works on at a time.
//
// A compaction reads from a few disks and writes to one, and waits for each: one for each disk leaves half of
// the disks idle. So there may be two for each, as long as they leave half of the processors to requests.
// What one takes of a processor is measured: next to nothing where disks are slow, nearly all of it where
// they are fast.
//
// Thread safety: all.
// Ownership, errors: none.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <utility>

#include "common/base/clock.h"
#include "common/base/mutex.h"

namespace nova {

class CompactionLimit {
 public:
  // Between `least` and `most`, whatever there is of disks and processors.
  CompactionLimit(int least, int most, int processors)
      : least_(least), most_(std::max(least, most)), processors_(processors) {}

  // Tables lie on so many disks. False: it was known.
  bool SetDisks(size_t disks) {
    MutexLock lock(&mu_);
    return std::exchange(disks_, disks) != disks;
  }
  // A compaction took `took`, of which a thread ran, or wanted to, for `busy`.
  void OnWork(Nanos took, Nanos busy) {
    MutexLock lock(&mu_);
    took_ += static_cast<double>(took);
    busy_ += static_cast<double>(busy);
    if (took_ < kRemembered) return;
    took_ /= 2;
    busy_ /= 2;
  }
  int value() const {
    MutexLock lock(&mu_);
    const double by_disks = 2 * static_cast<double>(disks_);
    const double by_processors = processors_ / 2.0 * took_ / std::max(busy_, 1.0);
    return static_cast<int>(
        std::lround(std::clamp(std::min(by_disks, by_processors), 1.0 * least_, 1.0 * most_)));
  }

 private:
  static constexpr double kRemembered = 20 * kSecond;  // of work; older work counts half
  const int least_, most_, processors_;                // see the constructor
  mutable Mutex mu_;
  size_t disks_ ABSL_GUARDED_BY(mu_) = 1;
  // Of work lately. At first as of one that never waited.
  double took_ ABSL_GUARDED_BY(mu_) = 100 * kMillisecond;
  double busy_ ABSL_GUARDED_BY(mu_) = 100 * kMillisecond;
};

}  // namespace nova
