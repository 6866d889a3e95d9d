// SharedBytes: a view together with the owner of its bytes: a string, or a mapped file.
//
// It is passed by value. The view stays valid as long as any copy of `keep` lives.
//
// Thread safety: the bytes are immutable; otherwise as std::shared_ptr.
// Ownership: shared.
// Errors: none; bytes of a mapped file whose disk fails end the process.
#pragma once

#include <memory>
#include <string>
#include <string_view>

namespace nova {

struct SharedBytes {
  std::string_view data;             // null: none
  std::shared_ptr<const void> keep;  // owns the bytes

  explicit operator bool() const { return data.data() != nullptr; }
  // Bytes with an owner of their own.
  static SharedBytes Of(std::string bytes) {
    auto owned = std::make_shared<const std::string>(std::move(bytes));
    const std::string_view view = *owned;
    return {view, std::move(owned)};
  }
};

}  // namespace nova
