// CompactionOptions: when levels are compacted, and how much of them at once. Sizes are bytes of table data.
//
// The defaults are an LTC's, whose flags set them (ltc/server/main.cc). An embedded database derives them
// from the memory of its memtables (DbOptions::Derived), for one range has all of it.
//
// Thread safety: a plain value, not changed once a range has it.
// Errors: Check: InvalidArgument, with the option's name.
#pragma once

#include <cstdint>

#include "common/base/status.h"

namespace nova {

// See compaction_picker.h for what they decide.
struct CompactionOptions {
  int level0_runs_trigger = 4;            // due from as many runs in Level0
  uint64_t level0_max_bytes = 256 << 20;  // of Level0 in one job, but at least one run
  // Of the bytes it overlaps in Level1: with less, Level0 is merged within itself. 0: never.
  double level0_share = 0.5;
  // Level1's target at the least; compaction_picker.h says when it is more.
  uint64_t level1_bytes = 64 << 20;
  int level_multiplier = 10;            // Level(n)'s target is level1_bytes * level_multiplier ^ (n - 1)
  uint64_t table_size_bytes = 4 << 20;  // tau: of the tables that are written
  // Of one plan, or two for each disk, if those are more; compaction threads run them side by side.
  int max_parts = 4;
  // theta: Dranges that Level0 is cut into at most (drange_map.h). 1: it is not cut. It may be another each
  // time the range is opened, and meanwhile (FlushedLoad::SetDranges).
  int dranges = 1;
  // Fewer Dranges where a flush would give each less: a table is a sync on each copy.
  uint64_t least_table_bytes = 4 << 20;
  // InvalidArgument: an option out of range, by name.
  Status Check() const;
};

}  // namespace nova
