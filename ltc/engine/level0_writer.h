// WriteLevel0: makes tables of one run of Level0 of sorted entries, of memtables or recovered logs.
//
// Where tables lie on several disks a few are stored at a time, each by a thread of its own.
//
// Thread safety: several may run side by side; each waits for the tables' store, and ends its threads.
// Ownership: arguments are the caller's.
// Errors: the store's. Then the tables written so far are in no edit, and are given to the garbage sink.
#pragma once

#include <functional>
#include <span>
#include <string>

#include "common/sstable/iterator.h"
#include "ltc/engine/overwrite_probe.h"
#include "ltc/engine/range_context.h"
#include "ltc/engine/read_points.h"
#include "ltc/engine/table_access.h"
#include "ltc/engine/write_histogram.h"
#include "ltc/engine/written_load.h"

namespace nova {

struct Level0Run {
  uint64_t job = 0;                  // number of the job (JobBook)
  Iterator* sorted = nullptr;        // entries by internal key; read once
  RoundNumber order = 0;             // place of the run in Level0: the number of its youngest round
  const DropRules* rules = nullptr;  // versions to leave out
  // Bounds of Dranges, ascending: a table ends at one if it has half of least_table_bytes.
  std::span<const std::string> cuts = {};
  WriteHistogram* load = nullptr;  // is told the bytes written of each key; null: nobody counts
  WriteCounter* writes = nullptr;  // is told of each entry passed; null: nobody counts
};
// Entries of a flush that were dealt with: the store has them, or they were left out.
struct FlushedEntries {
  uint64_t entries = 0;
  uint64_t stored = 0;        // of those
  uint64_t stored_bytes = 0;  // of those stored
};
// Who is told how far a flush is. Either may be empty.
struct FlushProgress {
  // Another 256 KB of entries, about, were passed.
  std::function<void()> on_passed;
  // So many more were dealt with since the last call. Where the store takes tables whole, once a table is
  // stored.
  std::function<void(const FlushedEntries& since)> on_written;
};

// Returns the edit that adds the tables, not committed. Leaves out versions by `rules`, and those that
// `younger` says are overwritten.
StatusOr<VersionEdit> WriteLevel0(const RangeContext& context, TableAccess* tables, const Level0Run& run,
                                  OverwriteProbe* younger, const FlushProgress& progress);

}  // namespace nova
