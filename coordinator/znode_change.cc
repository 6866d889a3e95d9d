#include "coordinator/znode_change.h"

#include "coordinator/range_movers.h"

namespace nova {
namespace {

constexpr int kTries = 100;

}  // namespace

Status ChangeZnode(const Term& term, const std::string& path,
                   absl::FunctionRef<StatusOr<std::optional<std::string>>(const Znode&)> change) {
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

Status DeleteZnode(const Term& term, const std::string& path, int64_t version) {
  const std::vector<ConfigOp> ops = {ConfigOp::Check(kCoordPath, term.coord_version),
                                     ConfigOp::Delete(path, version)};
  for (int i = 0; i < kTries; ++i) {
    const Status s = term.store->Multi(ops);
    if (s.ok() || (i > 0 && absl::IsNotFound(s))) return OkStatus();  // by a try whose answer was lost
    if (!absl::IsUnknown(s)) return s;
    if (term.store->session_state() == SessionState::kExpired) break;
  }
  return absl::UnavailableError(StrCat(path, ": the outcome of its deletion is not known"));
}

}  // namespace nova
