// WriteLevel0: sorted entries of memtables, or of recovered logs, become tables of one run of Level0.
//
// Thread safety: several may run side by side; each waits for the store.   Ownership: arguments are the
//                caller's.
// Errors:        the store's; then nothing that was written is in an edit, and it is given to the garbage
//                sink.
#pragma once

#include <functional>

#include "common/sstable/iterator.h"
#include "ltc/engine/overwrite_probe.h"
#include "ltc/engine/range_context.h"
#include "ltc/engine/read_points.h"
#include "ltc/engine/table_access.h"

namespace nova {

struct Level0Run {
  uint64_t job = 0;
  Iterator* sorted = nullptr;  // by internal key
  RoundNumber order = 0;       // of the run in Level0
  const DropRules* rules = nullptr;
};
// Entries that were passed, and bytes of them that were kept, since the last call.
using FlushProgress = std::function<void(uint64_t entries, uint64_t kept_bytes)>;

// The edit that adds the tables. What `rules` and `younger` say is left out. `progress` may be empty.
StatusOr<VersionEdit> WriteLevel0(const RangeContext& context, TableAccess* tables, const Level0Run& run,
                                  OverwriteProbe* younger, const FlushProgress& progress);

}  // namespace nova
