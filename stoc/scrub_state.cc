#include "stoc/scrub_state.h"

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "common/base/crc32c.h"
#include "stoc/store_directory.h"

namespace nova {
namespace {

constexpr char kPath[] = "SCRUB";
constexpr char kNewPath[] = "SCRUB.new";
constexpr uint32_t kFormat = 1;
constexpr size_t kMaxBytes = 64 << 20;

// The value of a line "name=value".
template <typename T>
bool Value(std::string_view line, std::string_view name, T* value) {
  if (!line.starts_with(name) || line.size() <= name.size() || line[name.size()] != '=') return false;
  line.remove_prefix(name.size() + 1);
  if constexpr (std::is_same_v<T, StocFileId>) {
    return StoreDirectory::ParseName(line, value);
  } else {
    return absl::SimpleAtoi(absl::string_view(line.data(), line.size()), value);
  }
}

}  // namespace

std::string ScrubState::Encode() const {
  std::string text =
      StrCat("nova scrub\nformat=", kFormat, "\nafter=", after.ToString(), "\nended=", ended,
             "\nelapsed_ms=", elapsed_ms, "\npasses=", passes, "\nlast_pass_ms=", last_pass_ms, "\n");
  for (const StocFileId& file : damaged) text += StrCat("damaged=", file.ToString(), "\n");
  return StrCat(text, "crc=", absl::Hex(Crc32c(text), absl::kZeroPad8), "\n");
}

StatusOr<ScrubState> ScrubState::Decode(std::string_view text) {
  const std::vector<std::string> lines = absl::StrSplit(absl::string_view(text.data(), text.size()), '\n');
  uint32_t format = 0;
  if (lines.size() < 9 || lines[0] != "nova scrub" || !Value(lines[1], "format", &format))
    return absl::DataLossError("not the state of a scrub");
  if (format > kFormat)
    return absl::FailedPreconditionError(StrCat("the state of a scrub has format ", format));
  ScrubState state;
  if (!Value(lines[2], "after", &state.after) || !Value(lines[3], "ended", &state.ended) ||
      !Value(lines[4], "elapsed_ms", &state.elapsed_ms) || !Value(lines[5], "passes", &state.passes) ||
      !Value(lines[6], "last_pass_ms", &state.last_pass_ms))
    return absl::DataLossError("the state of a scrub is malformed");
  for (size_t i = 7; i + 2 < lines.size(); ++i) {
    if (!Value(lines[i], "damaged", &state.damaged.emplace_back()))
      return absl::DataLossError("the state of a scrub is malformed");
  }
  if (state.Encode() != text) return absl::DataLossError("the state of a scrub fails its checksum");
  return state;
}

StatusOr<ScrubState> ReadScrubState(Disk* disk) {
  NOVA_ASSIGN_OR_RETURN(const std::string text, ReadSmallFile(disk, kPath, kMaxBytes));
  return ScrubState::Decode(text);
}

Status WriteScrubState(Disk* disk, const ScrubState& state) {
  return ReplaceSmallFile(disk, kPath, kNewPath, state.Encode());
}

}  // namespace nova
