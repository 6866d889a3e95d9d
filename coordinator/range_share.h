// RangeShare: which range an LTC is to let go of, so that all LTCs own about as many: after one was added, or
// came back from the dead, with none.
//
// Ranges are counted, not weighed. They go one at a time, in order (release, R5), from the LTC that owns the
// most to the one that owns the fewest, until no two differ by more than one. Of the owner's ranges the one
// that had the fewest requests goes first: the pause of a range that hands over is felt least there.
//
// Nothing is shared while anything else is under way: a range without an owner, or being opened; a StoC
// that is away, or not heard. An LTC takes part when it has been heard for `share_after_ns` without a gap,
// so one that starts again and again is given nothing and does not hold up the others.
//
// One that did not open a range in time is given none for a while.
//
// Thread safety: pure functions.   Errors: none.
#pragma once

#include <optional>

#include "coordinator/cluster_state.h"

namespace nova {

// The range to be let go of now; none: they are shared, or it is not the time.
std::optional<ClusterState::Share> NextShare(const ClusterOptions& options, const ClusterState& state,
                                             Nanos now);

}  // namespace nova
