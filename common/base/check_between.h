// CheckBetween: checks that an option lies within its bounds.
//
// Errors: InvalidArgument: one line with the option's name, its value and the bounds.
// Thread safety: pure.
#pragma once

#include <string_view>
#include <type_traits>

#include "common/base/status.h"

namespace nova {

// Ok if value is in [low, high]; a NaN is not.
template <typename T>
Status CheckBetween(std::string_view name, T value, std::type_identity_t<T> low,
                    std::type_identity_t<T> high) {
  if (value >= low && value <= high) return OkStatus();
  return absl::InvalidArgumentError(StrCat(absl::string_view(name.data(), name.size()), " = ", value,
                                           ": must be in [", low, ", ", high, "]"));
}

// The same error for an option in a struct that is an option itself: "table.block_size_bytes = 1: ...".
inline Status InGroup(const char* group, const Status& s) {
  return s.ok() ? s : Status(s.code(), StrCat(group, ".", s.message()));
}

}  // namespace nova
