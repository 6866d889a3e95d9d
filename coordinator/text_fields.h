// TextFields: the "key=value" lines of a text record in the configuration store (znodes.h, stoc_record.h).
//
// Of two lines with one key the first counts. Keys that a reader does not know are no error: a newer version
// may add some.
//
// Thread safety: const methods from any thread.   Ownership: a value.
// Errors:        false: the key is not there, or its value is not of that kind.
#pragma once

#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "common/base/ids.h"

namespace nova {

class TextFields {
 public:
  explicit TextFields(std::string_view data);

  bool Has(std::string_view key) const { return Find(key) != nullptr; }
  std::string Text(std::string_view key) const;  // empty also where it is not there
  bool ReadUuid(std::string_view key, Uuid* out) const;
  template <typename T>
  bool Number(std::string_view key, T* out) const {
    const std::string* const text = Find(key);
    return text != nullptr && absl::SimpleAtoi(*text, out);
  }
  // The lines with other keys, as they were, each ended by a newline.
  std::string Others(std::span<const std::string_view> known) const;
  std::string Others(std::initializer_list<std::string_view> known) const {
    return Others(std::span(known.begin(), known.size()));
  }

 private:
  const std::string* Find(std::string_view key) const;  // the value; null: not there

  std::vector<std::pair<std::string, std::string>> fields_;  // in the record's order
};

}  // namespace nova
