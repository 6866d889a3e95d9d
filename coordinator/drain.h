// What an operator's drain comes to: which node is meant, whether it may be drained, what is left on it; when
// it may be forgotten.
//
// The mark of a StoC is in its record (StoC record, N5), so that neither a restart nor its death forgets
// it; that of an LTC is in its registration, which ends with its process.
//
// Thread safety: pure functions.
// Errors: of CheckMayDrain and CheckMayForget: FailedPrecondition, one line for the operator; NotFound: there
//         is no such StoC.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "coordinator/cluster_state.h"

namespace nova {

// Both empty: there is no such node.
struct DrainTarget {
  std::string ltc;
  std::vector<StocId> stocs;  // more than one: stores that had one name, none of which is up
  bool empty() const { return ltc.empty() && stocs.empty(); }
};

// `word` is a node's name, or the number of a StoC. Of several stores that had the name the one that is
// up, else all of them.
DrainTarget FindDrainTarget(const ClusterState& state, const std::string& word);

// Whether the other StoCs can take what these hold: one at least; and unless `force`, no fewer than the most
// copies that an LTC is configured to keep.
Status CheckMayDrain(const ClusterState& state, const std::vector<StocId>& stocs, bool force);

// Whether another LTC, one that does not drain, is there to take the ranges.
Status CheckMayDrain(const ClusterState& state, const std::string& ltc);

// Whether the StoC's record says nothing that anybody needs: it is lost, and no range needs what it had.
Status CheckMayForget(const ClusterState& state, StocId stoc);

// What is still on a draining node, for people; empty: nothing, it can stop. A range of an LTC until it was
// given to another; of a StoC the log groups and manifests that name it, and tables, which only the owners of
// open ranges know.
std::string DrainLeft(const ClusterState& state, const NodeInfo& node);
std::string DrainLeft(const ClusterState& state, StocId stoc);  // also of one that is away or lost

}  // namespace nova
