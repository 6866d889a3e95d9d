#include "common/config/config_store.h"

#include "absl/strings/numbers.h"

namespace nova {

StatusOr<uint64_t> ConfigStore::Increment(const std::string& path, uint64_t n) {
  // A lost reply leaves a gap in the numbers, never a number twice: the loop draws again.
  constexpr int kMaxTries = 1000;
  for (int i = 0; i < kMaxTries; ++i) {
    StatusOr<Znode> node = Get(path);
    if (!node.ok() && !absl::IsNotFound(node.status())) return node.status();
    if (!node.ok()) {
      const Status s = Create(path, StrCat(n));
      if (s.ok()) return uint64_t{1};
      if (absl::IsAlreadyExists(s) || absl::IsUnknown(s)) continue;
      return Annotate(s, StrCat("counter ", path));
    }
    uint64_t used = 0;
    if (!absl::SimpleAtoi(node->data, &used) || used > UINT64_MAX - n) {
      return absl::DataLossError(
          StrCat("counter ", path, " holds no number: '", node->data.substr(0, 40), "'"));
    }
    const Status s = Set(path, StrCat(used + n), node->version);
    if (s.ok()) return used + 1;
    if (!absl::IsAborted(s) && !absl::IsUnknown(s) && !absl::IsNotFound(s))
      return Annotate(s, StrCat("counter ", path));
  }
  return absl::UnavailableError(StrCat("counter ", path, ": too much contention"));
}

}  // namespace nova
