// Plain data of a range: its options, its place in the key space, its counters. It draws in nothing of the
// engine, so that the public header of the embedded database does not either.
//
// Thread safety: values.   Errors: RangeOptions::Check: InvalidArgument, with the option's name.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/base/clock.h"
#include "common/base/ids.h"
#include "common/base/status.h"
#include "common/sstable/table_options.h"
#include "ltc/engine/compaction_options.h"

namespace nova {

// Sealed rounds stay in memory as long as it lasts, and are merged there where they hold the same keys again
// and again (docs/engine.md).
enum class MergeRounds {
  kNever,
  kAuto,    // where flushes wait for one disk and there is no log, which would stay for as long as they do
  kAlways,  // of use where the log is on another disk, and has room
};

struct RangeOptions {
  size_t memtable_size_bytes = 4 << 20;  // tau
  int active_memtables = 2;              // alpha: siblings of the active round, chosen by key hash
  int max_rounds = 6;                    // delta / alpha: rounds in memory, the active one included
  int level0_slow_runs = 8;              // writers slow down from here ...
  int level0_stop_runs = 20;             // ... to half the drain rate here
  // so much later a flush takes what was held back, and what younger rounds replace again and again; 0: at
  // once
  Nanos table_lag_ns = 60 * kSecond;
  MergeRounds merge_rounds = MergeRounds::kAuto;
  uint32_t max_value_bytes = 1 << 20;
  // of a write batch; all of it is in flight at once (SequenceTracker::kWindow)
  uint32_t max_batch_entries = 10'000;
  uint64_t max_batch_bytes = 16 << 20;  // keys and values of a write batch
  // range deletions (K7): more wait until older ones hide nothing any more
  uint32_t max_range_tombstones = 4096;
  uint32_t round_range_tombstones = 256;     // a round with as many is sealed; a batch has at most as many
  uint64_t scan_page_bytes = 1 << 20;        // a scan answers in pages of about this
  Nanos scan_budget_ns = 50 * kMicrosecond;  // then it lets other requests run
  CompactionOptions compaction;
  TableOptions table;  // but for the compression:
  // of the tables written to Level0, Level1, ...; the last holds for deeper ones; empty: none
  std::vector<Compression> compression = {};
  Status Check() const;  // InvalidArgument: an option out of range, by name
};

// Which range, and by what right: what Recover needs of the range's record.
struct RangeSpec {
  RangeId id;
  Epoch epoch;
  std::string lower = {};  // stored keys, [lower, upper); an empty upper is the end
  std::string upper = {};
};

struct RangeStats {
  uint64_t writes = 0;
  uint64_t reads = 0;
  uint64_t bytes = 0;
  int level0_runs = 0;
  int rounds = 0;
  size_t tables = 0;
  size_t range_tombstones = 0;
  size_t memtable_bytes = 0;
  uint64_t merges = 0;   // of rounds, in memory
  Nanos stalled_ns = 0;  // of writers
  Nanos paused_ns = 0;   // of background work, for reads that wait for the disk
  double pressure = 0;
};

}  // namespace nova
