// CompactionOptions: when levels are compacted, and how much of them at once.   Plain data.
// Errors: Check: InvalidArgument, with the option's name.
#pragma once

#include <cstdint>

#include "common/base/status.h"

namespace nova {

struct CompactionOptions {
  int level0_runs_trigger = 4;
  uint64_t level0_max_bytes = 256 << 20;  // of Level0 in one job, beyond the first run
  // of the bytes it overlaps in Level1: with less it is merged within Level0; 0: never
  double level0_share = 0.5;
  uint64_t level1_bytes = 64 << 20;
  int level_multiplier = 10;
  uint64_t table_size_bytes = 4 << 20;  // tau
  int max_parts = 4;                    // of one job, run side by side by the compaction threads there are
  Status Check() const;                 // InvalidArgument: an option out of range, by name
};

}  // namespace nova
