// DiskPace: which StoCs' disks are slow, as the leading coordinator judges it: by what their heartbeats say
// of the last seconds, each beside the others'.
//
// A disk is an outlier if an operation on it takes more than `least_ns` and more than `times` the median of
// the other StoCs': where all are slow, for the load is high, none is. It is well below half of either bound.
// Between the two it is unclear, and stays what it was taken for. Reads and syncs are judged each by itself,
// and the worse counts: reads of what is cached say nothing of a disk.
//
// Thread safety: pure functions of plain values.   Errors: none.
// Units:         ns of one operation, on average; 0: nothing was heard of any.
#pragma once

#include <map>

#include "common/base/clock.h"
#include "common/base/ids.h"

namespace nova {

// See the head of this file.
struct DiskPaceLimits {
  Nanos least_ns = 50 * kMillisecond;
  int times = 5;
};

struct DiskTimes {  // of one StoC's disk
  Nanos read_ns = 0;
  Nanos sync_ns = 0;
};

enum class DiskPace { kWell, kUnclear, kOutlier };

// Of each StoC that is given. One alone is compared with nobody, and is unclear where it takes long.
std::map<StocId, DiskPace> JudgePaces(const DiskPaceLimits& limits, const std::map<StocId, DiskTimes>& stocs);

}  // namespace nova
