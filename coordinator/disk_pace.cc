#include "coordinator/disk_pace.h"

#include <algorithm>
#include <vector>

namespace nova {
namespace {

using TimesOf = Nanos DiskTimes::*;

// Of the StoCs but `without`; 0: none of them has said.
Nanos MedianOfOthers(const std::map<StocId, DiskTimes>& stocs, StocId without, TimesOf kind) {
  std::vector<Nanos> times;
  for (const auto& [id, t] : stocs) {
    if (id != without && t.*kind > 0) times.push_back(t.*kind);
  }
  if (times.empty()) return 0;
  const auto middle = times.begin() + static_cast<ptrdiff_t>((times.size() - 1) / 2);
  std::nth_element(times.begin(), middle, times.end());
  return *middle;
}

DiskPace Judge(const DiskPaceLimits& limits, Nanos time_ns, Nanos median_ns) {
  if (time_ns <= limits.least_ns / 2) return DiskPace::kWell;
  if (median_ns == 0) return DiskPace::kUnclear;
  if (time_ns <= median_ns * limits.times / 2) return DiskPace::kWell;
  return time_ns > limits.least_ns && time_ns > median_ns * limits.times ? DiskPace::kOutlier
                                                                         : DiskPace::kUnclear;
}

}  // namespace

std::map<StocId, DiskPace> JudgePaces(const DiskPaceLimits& limits,
                                      const std::map<StocId, DiskTimes>& stocs) {
  std::map<StocId, DiskPace> paces;
  for (const auto& [id, times] : stocs) {
    DiskPace worst = DiskPace::kWell;
    for (const TimesOf kind : {&DiskTimes::read_ns, &DiskTimes::sync_ns})
      worst = std::max(worst, Judge(limits, times.*kind, MedianOfOthers(stocs, id, kind)));
    paces[id] = worst;
  }
  return paces;
}

}  // namespace nova
