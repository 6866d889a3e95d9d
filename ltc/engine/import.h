// Import: makes a range that starts with an interval of another range's keys, without copying its tables
// (shared table, M4: split, clone).
//
// A cut is the edit that makes the new range's first version. Of the other range, as it was at a checkpoint,
// it has the tables with keys in the interval, with use-bounds on the tables at its ends, and the range
// tombstones, clipped. Numbers go on from the checkpoint's, for numbers are a range's own (sequence number,
// K1).
//
// From then on the tables' files belong to both ranges, and go when neither references them. The new range's
// references are added before the edit that names the tables, while the other range still has its own. In an
// embedded database a hard link is the reference; on StoCs it is an entry in a list (stoc/file_references.h).
//
// Thread safety: functions of their arguments and the stores; they wait.
// Ownership: the caller keeps the checkpoint until the range has been imported.
// Errors: the stores'; metadata of the tables at the interval's ends is read.
#pragma once

#include <memory>
#include <string_view>

#include "ltc/engine/range.h"

namespace nova {

// Cuts the stored keys in [lower, upper) out of a checkpoint; an empty bound is open. `now_ms`: the other
// range's published clock (expiry, K7).
StatusOr<VersionEdit> CutCheckpoint(const Checkpoint& from, std::string_view lower, std::string_view upper,
                                    int64_t now_ms, TableStore* store);

// Makes a new range that starts with a cut: adds references to all its tables' files, then Range::Recover,
// which writes the first edit. After an error, or a crash before that edit counts, the range's next owner
// collects the references (collection, N4), or imports again. No range splits yet: for tests.
StatusOr<std::shared_ptr<Range>> ImportRange(const RangeSpec& spec, const RangeOptions& options,
                                             const RangeServices* services, ManifestStorage* storage,
                                             const VersionEdit& cut,
                                             std::shared_ptr<const void> keep = nullptr);

}  // namespace nova
