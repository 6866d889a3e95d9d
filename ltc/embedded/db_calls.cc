#include "ltc/embedded/db_calls.h"

#include <algorithm>

#include "common/base/write_batch.h"

namespace nova {

Status CheckKey(std::string_view key) {
  if (key.empty()) return absl::InvalidArgumentError("an empty key");
  if (key.size() > kMaxUserKeyBytes)
    return absl::InvalidArgumentError(StrCat("a key of ", key.size(), " bytes: over ", kMaxUserKeyBytes));
  return OkStatus();
}

Status CheckTtl(ValueType type, int64_t ttl_ms) {
  if (type != ValueType::kPutTtl || (ttl_ms > 0 && ttl_ms <= kMaxTtlMs)) return OkStatus();
  return absl::InvalidArgumentError(
      StrCat("a time to live of ", ttl_ms, " ms: must be in [1, ", kMaxTtlMs, "]"));
}

Status CheckKeyRange(std::string_view begin, std::string_view end) {
  if (std::max(begin.size(), end.size()) > kMaxUserKeyBytes)
    return CheckKey(begin.size() > end.size() ? begin : end);
  if (end.empty() || begin < end) return OkStatus();
  return absl::InvalidArgumentError("a range of keys that ends where it begins, or before");
}

Status CheckScanBounds(std::string_view from, std::string_view to) {
  if (std::max(from.size(), to.size()) <= kMaxUserKeyBytes) return OkStatus();
  return absl::InvalidArgumentError(StrCat("a bound of a scan with more than ", kMaxUserKeyBytes, " bytes"));
}

namespace {

const Status& NotFound() {
  static const auto* status = new Status(absl::NotFoundError("no such key"));
  return *status;
}

}  // namespace

Status StatusOf(Outcome outcome, std::string_view what, std::string_view failure) {
  switch (outcome) {
    case Outcome::kOk:
      return OkStatus();
    case Outcome::kNotFound:
      return NotFound();
    case Outcome::kNotOwner:
      return Annotate(absl::FailedPreconditionError("the database is closed, or can no longer be written"),
                      what);
    default:
      return failure.empty() ? ToStatus(outcome, what)
                             : ToStatus(outcome, std::string(what) + ": " + std::string(failure));
  }
}

}  // namespace nova
