// ChangeZnode: read, change and write one znode on behalf of a request, while we lead (authority, C1);
// DeleteZnode.
//
// Thread safety: all; waits for the store.
// Errors: of `change`; NotFound: there is no such znode; Aborted: another coordinator leads; Unavailable: the
//         outcome is not known, or others change the znode all the time.
#pragma once

#include <optional>
#include <string>

#include "absl/functional/function_ref.h"
#include "common/config/config_store.h"
#include "coordinator/election.h"

namespace nova {

// Until the znode is as `change` wants it, whoever wrote it so. `change` gets it as it is, and returns its
// new data; none: it is so already.
Status ChangeZnode(const Term& term, const std::string& path,
                   absl::FunctionRef<StatusOr<std::optional<std::string>>(const Znode&)> change);

// Deletes it, if it has that version. Aborted: it has another, too.
Status DeleteZnode(const Term& term, const std::string& path, int64_t version);

}  // namespace nova
