#include "common/config/config_store.h"

#include <algorithm>

#include "absl/strings/numbers.h"

namespace nova {
namespace {

// Sets the counter to next(its number; 0: it is absent), and returns the number before. Nothing is written
// where both are equal. A lost reply makes it ask `next` again: it leaves a gap in the numbers, and gives no
// number twice.
StatusOr<uint64_t> Advance(ConfigStore* store, const std::string& path,
                           const std::function<StatusOr<uint64_t>(uint64_t used)>& next) {
  constexpr int kMaxTries = 1000;
  for (int i = 0; i < kMaxTries; ++i) {
    const StatusOr<Znode> node = store->Get(path);
    if (!node.ok() && !absl::IsNotFound(node.status())) return node.status();
    uint64_t used = 0;
    if (node.ok() && !absl::SimpleAtoi(node->data, &used)) {
      return absl::DataLossError(
          StrCat("counter ", path, " holds no number: '", node->data.substr(0, 40), "'"));
    }
    NOVA_ASSIGN_OR_RETURN(const uint64_t wanted, next(used));
    if (wanted == used) return used;
    const Status s =
        node.ok() ? store->Set(path, StrCat(wanted), node->version) : store->Create(path, StrCat(wanted));
    if (s.ok()) return used;
    const bool overtaken = node.ok() ? absl::IsAborted(s) || absl::IsNotFound(s) : absl::IsAlreadyExists(s);
    if (!overtaken && !absl::IsUnknown(s)) return Annotate(s, StrCat("counter ", path));
  }
  return absl::UnavailableError(StrCat("counter ", path, ": too much contention"));
}

}  // namespace

StatusOr<uint64_t> ConfigStore::Increment(const std::string& path, uint64_t n) {
  const auto next = [&](uint64_t used) -> StatusOr<uint64_t> {
    if (used > UINT64_MAX - n) return absl::DataLossError(StrCat("counter ", path, " is at its end"));
    return used + n;
  };
  NOVA_ASSIGN_OR_RETURN(const uint64_t used, Advance(this, path, next));
  return used + 1;
}

Status ConfigStore::RaiseCounter(const std::string& path, uint64_t n) {
  return Advance(this, path, [n](uint64_t used) { return std::max(used, n); }).status();
}

}  // namespace nova
