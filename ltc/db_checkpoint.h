// Writes a frozen version of an embedded database as another database.
//
// Into `name`.tmp: the manifest, the tables (hard links, or copies), CURRENT, and last IDENTITY, without which the directory is not
// opened; all synced; then the rename to `name`. A crash or a full disk on the way leaves `name`.tmp at most.
//
// Thread safety: any, for different names.   Ownership: the disks outlive the call; `frozen` keeps its tables' files.
// Errors: AlreadyExists: `name` is there, or `name`.tmp, and it is not what such a call left; the disks'.
#pragma once

#include <string>

#include "common/base/disk.h"
#include "ltc/version.h"

namespace nova {

// `now_ms`: what had expired by then may be gone (K7).   `from`: the database's directory.   `to`: the parent of the new one.
Status WriteDbCheckpoint(const Checkpoint& frozen, int64_t now_ms, Disk* from, Disk* to, const std::string& name);

}  // namespace nova
