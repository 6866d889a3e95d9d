// The file IDENTITY of an embedded database's directory: its format, and the epoch of its latest opening.
//
// Thread safety: none; one process holds the directory.
// Ownership: the disk outlives the calls.
// Errors: DataLoss: the file is damaged. FailedPrecondition: it is of a later format. InvalidArgument: the
//   directory holds something else.
#pragma once

#include <optional>
#include <string>

#include "common/base/disk.h"
#include "common/base/ids.h"

namespace nova {

// The epoch of the directory's latest opening; none: it holds no database. NotFound: it holds none and
// `create_if_missing` is off. A creation that did not end left files without content and no IDENTITY, which
// comes last: they are deleted.
StatusOr<std::optional<Epoch>> ReadDbIdentity(Disk* disk, bool create_if_missing);
// Records an opening. Each has an epoch of its own, as each owner of a range has (authority, C1). Durable as
// a whole or not at all.
Status InstallDbIdentity(Disk* disk, Epoch epoch);
// Writes a new file `path`, and syncs it.
Status WriteDbIdentity(Disk* disk, const std::string& path, Epoch epoch);

}  // namespace nova
