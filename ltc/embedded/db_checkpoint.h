// WriteDbCheckpoint: writes a frozen version of an embedded database, or an interval of it, as another
// database.
//
// It is built in `name`.unfinished, in this order: a mark, which its maker holds locked; the manifest, the
// tables (hard links or copies), CURRENT, and last IDENTITY, without which the directory is not opened; all
// synced. Then it is renamed to `name`, and the mark goes. A crash on the way leaves at most
// `name`.unfinished, which the next call of that name replaces.
//
// Thread safety: any. Of two calls of one name, in whatever processes, one makes it.
// Ownership: the disks outlive the call. The caller keeps the cut's tables.
// Errors: AlreadyExists: `name` is there, or a `name`.unfinished that no such call left. Unavailable: another
//   call is making it. Else the disks'.
#pragma once

#include <string>

#include "common/base/disk.h"
#include "ltc/engine/version.h"

namespace nova {

// The mark of a checkpoint that is being made; in a finished database, left by a crash.
inline constexpr char kUnfinishedCheckpoint[] = "UNFINISHED";

// `cut`: see ltc/engine/import.h. `from`: the database's directory. `to`: the parent of the new one. Waits.
Status WriteDbCheckpoint(const VersionEdit& cut, Disk* from, Disk* to, const std::string& name);

}  // namespace nova
