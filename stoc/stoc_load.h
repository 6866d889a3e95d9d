// StocLoad: what waits for the disk of a StoC, as far as one client of it can know.
//
//   bytes_in_flight   exact at any moment, but only of what this client writes there
//   others_queued     of everybody else, from a reply of the StoC: the older the reply, the less it says
//   pace              of what this client has written there: a disk that is slower than others takes longer
//                     for as many bytes
//
// Thread safety: a value.   Ownership, errors: none.
#pragma once

#include <cstdint>

#include "common/base/clock.h"

namespace nova {

// See WritePace.
struct StocPace {
  double ns_per_byte = 0;  // 0: not known
  Nanos age_ns = 0;        // since then nothing was on its way there; 0: something is
};

struct StocLoad {
  uint64_t bytes_in_flight = 0;  // of files that this client is writing there
  uint32_t queue_depth = 0;      // requests queued for its disk and running, as its last reply said
  uint32_t others_queued = 0;    // of those, the ones that were no writes of files of this client
  Nanos age_ns = 0;              // of that reply
  StocPace pace = {};
};

}  // namespace nova
