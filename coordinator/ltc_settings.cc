#include "coordinator/ltc_settings.h"

#include <algorithm>

#include "absl/strings/str_join.h"
#include "coordinator/text_fields.h"

namespace nova {
namespace {

constexpr LtcSettings::Kind kKinds[] = {
    {"active_memtables", &LtcSettings::active_memtables, 1, 64},
    {"dranges", &LtcSettings::dranges, 1, 1024},
    {"power_of_d", &LtcSettings::power_of_d, 1, 100},
    {"scatter_width", &LtcSettings::scatter_width, 1, 1000},
};

}  // namespace

std::span<const LtcSettings::Kind> LtcSettings::Kinds() { return kKinds; }

Status LtcSettings::Set(std::string_view name, std::optional<int> value) {
  const auto kind =
      std::find_if(std::begin(kKinds), std::end(kKinds), [&](const Kind& k) { return k.name == name; });
  if (kind == std::end(kKinds)) {
    const auto append = [](std::string* out, const Kind& k) { out->append(k.name); };
    return absl::InvalidArgumentError(
        StrCat("no setting '", std::string(name), "'; there are: ", absl::StrJoin(kKinds, ", ", append)));
  }
  if (value && (*value < kind->least || *value > kind->most)) {
    return absl::InvalidArgumentError(
        StrCat(kind->name, " = ", *value, ": must be ", kind->least, " to ", kind->most));
  }
  this->*kind->value = value;
  return OkStatus();
}

std::vector<std::pair<std::string, int>> LtcSettings::Given() const {
  std::vector<std::pair<std::string, int>> given;
  for (const Kind& kind : kKinds) {
    if (const std::optional<int> value = this->*kind.value) given.emplace_back(kind.name, *value);
  }
  return given;
}

std::string LtcSettings::ToString() const {
  const auto append = [](std::string* out, const auto& setting) {
    absl::StrAppend(out, setting.first, " = ", setting.second);
  };
  return absl::StrJoin(Given(), ", ", append);
}

std::string LtcSettings::Encode(std::string_view before) const {
  std::vector<std::string_view> known;
  for (const Kind& kind : kKinds) known.push_back(kind.name);
  std::string text = TextFields(before).Others(known);
  for (const auto& [name, value] : Given()) absl::StrAppend(&text, name, "=", value, "\n");
  return text;
}

LtcSettings LtcSettings::Decode(std::string_view text) {
  const TextFields fields(text);
  LtcSettings settings;
  for (const Kind& kind : kKinds) {
    if (int value = 0; fields.Number(kind.name, &value)) settings.Set(kind.name, value).IgnoreError();
  }
  return settings;
}

}  // namespace nova
