// Import: what a range starts with that takes over an interval of another one's keys without copying its
// tables (shared table, M4: split, clone).
//
// A cut is the edit that makes the new range's first version: of the other range, as it was at a checkpoint,
// the tables with keys in the interval, the two at its ends in each run with use-bounds, and the range
// tombstones, clipped. Numbers go on from the checkpoint's: they are a range's own (sequence number, K1).
//
// The tables' files belong to both ranges from then on, and go when neither references them: the new range's
// references are added before the edit that names the tables, while the other one still has its own.
// Embedded, a hard link is the reference; on StoCs it is an entry in a list (stoc/file_references.h).
//
// Thread safety: pure functions but for the stores; they wait.   Ownership: whoever gave the checkpoint keeps
//                it until the range has been imported.   Errors: the stores' (metadata of the tables at the
//                ends is read).
#pragma once

#include <memory>
#include <string_view>

#include "ltc/engine/range.h"

namespace nova {

// Stored keys in [lower, upper); empty: open. `now_ms`: the other range's (expiry, K7).
StatusOr<VersionEdit> CutCheckpoint(const Checkpoint& from, std::string_view lower, std::string_view upper,
                                    int64_t now_ms, TableStore* store);

// A new range that starts with a cut: references to all its tables' files, then Range::Recover, which writes
// the first edit. After an error, or a crash before that edit counts, the range's next owner collects the
// references (collection, N4), or imports again.
StatusOr<std::shared_ptr<Range>> ImportRange(const RangeSpec& spec, const RangeOptions& options,
                                             const RangeServices* services, ManifestStorage* storage,
                                             const VersionEdit& cut,
                                             std::shared_ptr<const void> keep = nullptr);

}  // namespace nova
