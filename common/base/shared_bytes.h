// SharedBytes: a view, and what keeps its bytes in memory: a string, or a mapped file.
//
// Thread safety: the bytes are immutable; as std::shared_ptr.   Ownership: shared.
#pragma once

#include <memory>
#include <string>
#include <string_view>

namespace nova {

struct SharedBytes {
  std::string_view data;
  std::shared_ptr<const void> keep;

  explicit operator bool() const { return data.data() != nullptr; }
  static SharedBytes Of(std::string bytes) {
    auto owned = std::make_shared<const std::string>(std::move(bytes));
    const std::string_view view = *owned;
    return {view, std::move(owned)};
  }
};

}  // namespace nova
