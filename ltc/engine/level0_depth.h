// Level0Depth: how deep Level0 is, as writers and background work feel it: the runs of its deepest column
// (drange_map.h). Level0 as a whole may have more runs, each of which a column has left. They are no reason
// to slow writers down: a column with fewer runs than start a compaction is not due, so nothing would speed
// the writers up again. As it is, whatever is deep enough to slow them down is due.
//
// Thread safety: pure.   Ownership, errors: none.
#pragma once

#include <algorithm>

#include "ltc/engine/version.h"

namespace nova {

inline int Level0Depth(const Version& version) {
  int runs = 0;
  for (const Version::Column& c : version.columns()) runs = std::max(runs, c.runs);
  return runs;
}

}  // namespace nova
