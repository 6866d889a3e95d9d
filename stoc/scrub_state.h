// ScrubState: how far a scrub has come, and what it has found (scrub, S6); kept in the store's directory as
// SCRUB, so that a restart neither begins anew nor forgets:
//
//   nova scrub\nformat=1\nafter=<file>\nended=<0 or 1>\nelapsed_ms=<n>\npasses=<n>\n
//   last_pass_ms=<wall clock>\ndamaged=<file>\n ... crc=<8 hex>\n
//
// <file> is 32 hex digits of the owner, a point, and the part. The crc is that of the text before it. SCRUB
// is replaced as a whole (durable name, S4).
//
// Thread safety: none.   Ownership: none taken.
// Errors:        NotFound: no scrub was here before; DataLoss: malformed; FailedPrecondition: a later format;
//                else the disk's.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/disk.h"
#include "common/base/ids.h"

namespace nova {

struct ScrubState {
  StocFileId after;           // the pass has done with all files up to this one, in their order
  uint32_t ended = 0;         // 1: the pass has ended, and its period has not
  uint64_t elapsed_ms = 0;    // that the StoC has run since the pass began
  uint64_t passes = 0;        // that have ended
  uint64_t last_pass_ms = 0;  // wall time of the last one's end; 0: none has ended
  std::vector<StocFileId> damaged;
  bool operator==(const ScrubState&) const = default;

  std::string Encode() const;
  static StatusOr<ScrubState> Decode(std::string_view text);
};

StatusOr<ScrubState> ReadScrubState(Disk* disk);
Status WriteScrubState(Disk* disk, const ScrubState& state);

}  // namespace nova
