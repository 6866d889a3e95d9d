// CheckBetween: an option inside its bounds. Else InvalidArgument: one line with its name, its value and what
// is allowed.
#pragma once

#include <string_view>
#include <type_traits>

#include "common/base/status.h"

namespace nova {

template <typename T>
Status CheckBetween(std::string_view name, T value, std::type_identity_t<T> low,
                    std::type_identity_t<T> high) {
  if (value >= low && value <= high) return OkStatus();  // not so of a NaN
  return absl::InvalidArgumentError(StrCat(absl::string_view(name.data(), name.size()), " = ", value,
                                           ": must be in [", low, ", ", high, "]"));
}

// The same error of an option in a struct that is an option itself: "table.block_size_bytes = 1: ...".
inline Status InGroup(const char* group, const Status& s) {
  return s.ok() ? s : Status(s.code(), StrCat(group, ".", s.message()));
}

}  // namespace nova
