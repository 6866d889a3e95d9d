#include "coordinator/text_fields.h"

#include <algorithm>

#include "absl/strings/str_split.h"

namespace nova {

TextFields::TextFields(std::string_view data) {
  for (const absl::string_view line : absl::StrSplit(absl::string_view(data.data(), data.size()), '\n')) {
    std::pair<std::string, std::string> field = absl::StrSplit(line, absl::MaxSplits('=', 1));
    if (!field.first.empty() && !Has(field.first)) fields_.push_back(std::move(field));
  }
}

const std::string* TextFields::Find(std::string_view key) const {
  const auto it = std::find_if(fields_.begin(), fields_.end(), [&](const auto& f) { return f.first == key; });
  return it == fields_.end() ? nullptr : &it->second;
}

std::string TextFields::Text(std::string_view key) const {
  const std::string* const text = Find(key);
  return text == nullptr ? "" : *text;
}

bool TextFields::ReadUuid(std::string_view key, Uuid* out) const {
  const std::string* const text = Find(key);
  return text != nullptr && Uuid::Parse(*text, out);
}

std::string TextFields::Others(std::span<const std::string_view> known) const {
  std::string out;
  for (const auto& [key, value] : fields_) {
    if (std::find(known.begin(), known.end(), key) == known.end())
      absl::StrAppend(&out, key, "=", value, "\n");
  }
  return out;
}

}  // namespace nova
