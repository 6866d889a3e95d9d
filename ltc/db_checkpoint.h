// Writes a frozen version of an embedded database, or an interval of it, as another database.
//
// Into `name`.tmp: the manifest, the tables (hard links, or copies), CURRENT, and last IDENTITY, without which the directory is not
// opened; all synced; then the rename to `name`. A crash or a full disk on the way leaves `name`.tmp at most.
//
// Thread safety: any, for different names.   Ownership: the disks outlive the call; whoever cut it keeps its tables' files.
// Errors: AlreadyExists: `name` is there, or `name`.tmp, and it is not what such a call left; the disks'.
#pragma once

#include <string>

#include "common/base/disk.h"
#include "ltc/version.h"

namespace nova {

// `cut`: ltc/import.h.   `from`: the database's directory.   `to`: the parent of the new one.
Status WriteDbCheckpoint(const VersionEdit& cut, Disk* from, Disk* to, const std::string& name);

}  // namespace nova
