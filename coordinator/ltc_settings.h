// LtcSettings: what an operator sets for all LTCs while they run (`nova configure`), each in the place of the
// flag of that name. One that is not given is as the flag of each LTC says.
//
// The znode /settings has them as text (text_fields.h), a line each: "dranges=64\n". The leader tells them
// with every answer to an LTC's heartbeat; they hold for ranges that are open and for those opened later,
// also after a restart.
//
// Thread safety: plain values.
// Errors: Set: InvalidArgument: no setting has that name, or the value is out of its bounds.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/base/status.h"

namespace nova {

struct LtcSettings {
  std::optional<int> active_memtables;  // alpha: of a range, from its next round on
  std::optional<int> dranges;           // theta: of a range, from its next flush on
  std::optional<int> power_of_d;        // d: StoCs looked at for each one picked, of the next table
  std::optional<int> scatter_width;     // rho: fragments of a table at most, of the next table

  // One of them.
  struct Kind {
    const char* name;  // of the setting and of the flag
    std::optional<int> LtcSettings::*value;
    int least, most;  // that it may be
  };
  static std::span<const Kind> Kinds();  // ascending names

  bool operator==(const LtcSettings&) const = default;
  // nullopt: it is as the flags say again.
  Status Set(std::string_view name, std::optional<int> value);
  std::vector<std::pair<std::string, int>> Given() const;  // ascending names

  std::string ToString() const;  // for people: "dranges = 64, scatter_width = 3"; empty: none is given

  // Lines of `before`, a former text, whose names are no settings are kept: a newer version may know them.
  std::string Encode(std::string_view before = "") const;
  // Without what is no setting, or out of its bounds.
  static LtcSettings Decode(std::string_view text);
};

}  // namespace nova
