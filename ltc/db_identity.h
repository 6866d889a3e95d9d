// The file IDENTITY of an embedded database's directory: what it is, and which opening of it is the latest.
//
// Thread safety: none, one process holds the directory.   Ownership: the disk outlives the calls.
// Errors: DataLoss: damaged; FailedPrecondition: of a later format; InvalidArgument: the directory holds something else.
#pragma once

#include <string>

#include "common/base/disk.h"
#include "common/base/ids.h"

namespace nova {

// Reads and raises the epoch of the directory: each opening has its own, as each owner of a range has (C1).
StatusOr<Epoch> NextDbEpoch(Disk* disk, bool create_if_missing);
// A new file, synced.
Status WriteDbIdentity(Disk* disk, const std::string& path, Epoch epoch);

}  // namespace nova
