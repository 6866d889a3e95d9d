#include "coordinator/znode_change.h"

#include "coordinator/range_movers.h"

namespace nova {

Status ChangeZnode(const Term& term, const std::string& path,
                   absl::FunctionRef<StatusOr<std::optional<std::string>>(const Znode&)> change) {
  constexpr int kTries = 100;
  std::optional<int64_t> refused;
  for (int i = 0; i < kTries; ++i) {
    NOVA_ASSIGN_OR_RETURN(const Znode node, term.store->Get(path));
    NOVA_ASSIGN_OR_RETURN(const std::optional<std::string> data, change(node));
    if (!data) return OkStatus();
    const Status s = RangeMovers::Replace(term, path, *data, node.version).status();
    // Refused twice at one version: not because of somebody's change of it; another one leads.
    if (!absl::IsAborted(s) || refused == node.version) return s;
    refused = node.version;
    NOVA_RETURN_IF_ERROR(term.store->Sync());
  }
  return absl::UnavailableError(StrCat(path, " is changed by others all the time"));
}

}  // namespace nova
