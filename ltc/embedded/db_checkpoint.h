// Writes a frozen version of an embedded database, or an interval of it, as another database.
//
// Into `name`.unfinished: a mark, which who makes it holds locked; the manifest, the tables (hard links, or
// copies), CURRENT, and last IDENTITY, without which the directory is not opened; all synced; then the rename
// to `name`, and the mark goes. A crash on the way leaves `name`.unfinished at most, and the next call of
// that name replaces it.
//
// Thread safety: any; of two calls of one name, in whatever processes, one makes it.   Ownership: the disks
//                outlive the call; whoever cut it keeps its tables' files.
// Errors: AlreadyExists: `name` is there, or `name`.unfinished, and it is not what such a call left;
//         Unavailable: another call is making it; the disks'.
#pragma once

#include <string>

#include "common/base/disk.h"
#include "ltc/engine/version.h"

namespace nova {

// The mark of a checkpoint that is being made; in a database, what a crash left of it.
inline constexpr char kUnfinishedCheckpoint[] = "UNFINISHED";

// `cut`: ltc/engine/import.h.   `from`: the database's directory.   `to`: the parent of the new one.
Status WriteDbCheckpoint(const VersionEdit& cut, Disk* from, Disk* to, const std::string& name);

}  // namespace nova
