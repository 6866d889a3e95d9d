// Plain data of a range: its options, its place in the key space, its counters. It draws in nothing of the
// engine, so that the public header of the embedded database does not either. The paper's symbols are those
// of Nova-LSM, section 4.
//
// Thread safety: plain values, not changed once a range has them.
// Errors: RangeOptions::Check: InvalidArgument, with the option's name.
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

// When sealed rounds stay in memory as long as it suffices, and are merged there if they hold the same keys
// again and again (docs/engine.md).
enum class MergeRounds {
  kNever,
  kAuto,    // where flushes wait for disks, as far as log_share lets logs stay
  kAlways,  // whatever flushes wait for
};

// How siblings of a round share the keys (docs/engine.md).
enum class MemtablePartitioning {
  kHash,    // by a hash of the key
  kDrange,  // by Dranges of the writes seen (paper section 4.1): see WrittenLoad
};

// Bounds and times of one range.
struct RangeOptions {
  size_t memtable_size_bytes = 4 << 20;  // tau: bytes of one memtable
  int active_memtables = 2;              // alpha: siblings of the active round; see also Range::Configure
  MemtablePartitioning memtable_partitioning = MemtablePartitioning::kHash;  // of the siblings
  int max_rounds = 6;         // delta / alpha: rounds in memory, the active one included
  int level0_slow_runs = 8;   // runs in Level0 from which writers are slowed down
  int level0_stop_runs = 20;  // runs at which they write as fast as flushes get on; beyond it ever less
  // Time after which a round that was held back is flushed, and after which a flush writes versions even
  // though younger rounds overwrite them. 0: at once.
  Nanos table_lag_ns = 60 * kSecond;
  MergeRounds merge_rounds = MergeRounds::kAuto;
  // Where there is a log: a bound on the logs of rounds in memory, as a multiple of the memory of max_rounds
  // full rounds. A merged round keeps the logs of all rounds that it was made of; with 1 none are merged.
  double log_share = 1;
  // Gets pass by the rounds and tables that are younger than the key's last write, for a 24th of the memory
  // of max_rounds full rounds (ltc/engine/lookup_index.h).
  bool lookup_index = false;
  uint32_t max_value_bytes = 1 << 20;  // longer values are kInvalidArgument
  // Entries of a write batch. All of them are in flight at once, so it is bounded by
  // SequenceTracker::kWindow.
  uint32_t max_batch_entries = 10'000;
  uint64_t max_batch_bytes = 16 << 20;  // keys and values of a write batch
  // Range deletions (K7) of a range; beyond that they are Busy until older ones hide nothing any more.
  uint32_t max_range_tombstones = 4096;
  // In one round, which seals when it has them; a batch has at most as many.
  uint32_t round_range_tombstones = 256;
  uint64_t scan_page_bytes = 1 << 20;        // a scan answers in pages of about this
  Nanos scan_budget_ns = 50 * kMicrosecond;  // time on its thread after which a scan lets other requests run
  CompactionOptions compaction;
  TableOptions table;  // but for the compression, which is the next option's
  // Of the tables of Level0, Level1, and so on; the last one holds for all deeper levels. Empty: none.
  std::vector<Compression> compression = {};
  // InvalidArgument: an option out of range, by name.
  Status Check() const;
};

// Which range it is, and at which epoch it is served.
struct RangeSpec {
  RangeId id;
  Epoch epoch;
  std::string lower = {};  // stored keys, [lower, upper); an empty upper is the end
  std::string upper = {};
};

// Counters for people and metrics; sums since the range was opened, or the present state.
struct RangeStats {
  uint64_t writes = 0;         // entries that were answered
  uint64_t reads = 0;          // keys that were asked for, and scans
  uint64_t scans = 0;          // of them
  uint64_t get_memtables = 0;  // that gets have looked into
  uint64_t get_tables = 0;     // the same
  // Iterators that scans have opened, over memtables and over tables; by `scans`: one scan.
  uint64_t scan_memtables = 0;
  uint64_t scan_tables = 0;
  uint64_t bytes = 0;  // of tables, parts that are used
  int level0_runs = 0;
  int dranges = 1;                        // that Level0 is cut into now
  double drange_imbalance = 0;            // see FlushedLoad
  uint64_t reorganisations = 0;           // major ones
  int memtable_dranges = 1;               // that the active round's memtables are partitioned by
  double memtable_imbalance = 0;          // see WrittenLoad
  uint64_t memtable_reorganisations = 0;  // times that the partition changed
  uint64_t damaged_maps = 0;              // Dranges in the manifest that could not be read when it was opened
  uint64_t level0_waits = 0;              // times a due column of Level0 was passed over for others' jobs
  int rounds = 0;                         // in memory, the active one included
  int active_memtables = 0;               // of the active round
  size_t tables = 0;
  size_t range_tombstones = 0;  // of the version and all rounds
  size_t memtable_bytes = 0;
  uint64_t flushed_entries = 0;      // that flushes wrote to Level0
  uint64_t flushed_runs = 0;         // that these are in
  uint64_t merges = 0;               // of rounds, in memory
  uint64_t merged_away_entries = 0;  // versions that merges left out, for none will read them
  uint64_t merged_away_bytes = 0;    // memory that merges let go
  Nanos stalled_ns = 0;              // of writers
  Nanos paused_ns = 0;               // of background work, for reads that wait for the disk
  double pressure = 0;               // see Pacer
};

}  // namespace nova
