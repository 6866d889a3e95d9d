#include "coordinator/range_share.h"

#include <algorithm>

namespace nova {
namespace {

// Every range is served, and stays where it is.
bool RangesRest(const ClusterState& state) {
  return std::all_of(state.ranges.begin(), state.ranges.end(), [](const auto& entry) {
    const ClusterState::Range& range = entry.second;
    return !range.moving && range.record.IsOpen();
  });
}

// No StoC is missed: one that holds logs or tables would hold up who lets go, and who opens.
bool StocsRest(const ClusterState& state) {
  return std::all_of(state.stocs.begin(), state.stocs.end(), [&state](const auto& entry) {
    const StocRecord& record = entry.second.record;
    if (record.presence == StocPresence::kLost) return true;
    return record.presence == StocPresence::kUp &&
           std::any_of(state.live_stocs.begin(), state.live_stocs.end(),
                       [&record](const NodeInfo& node) { return node.stoc_id == record.id; });
  });
}

uint64_t Requests(const ClusterState& state, RangeId id) {
  const RangeLoad& load = state.ranges.at(id).load;
  return load.writes + load.reads;
}

}  // namespace

std::optional<ClusterState::Share> NextShare(const ClusterOptions& options, const ClusterState& state,
                                             Nanos now) {
  if (options.share_after_ns == 0 || !RangesRest(state) || !StocsRest(state)) return std::nullopt;
  const std::set<RangeId> none;
  const std::set<RangeId>* most = nullptr;
  const std::set<RangeId>* fewest = nullptr;
  Incarnation from;
  for (const auto& [name, node] : state.nodes) {
    const auto lease = state.leases.find(node.incarnation);
    if (node.role != Role::kLtc || node.draining || lease == state.leases.end()) continue;
    const ClusterState::Lease& l = lease->second;
    if (l.heard_ns + options.lease_ns <= now || l.heard_since_ns + options.share_after_ns > now) continue;
    if (l.unfit_until_ns > now || l.stopping) continue;
    const auto owned = state.owned.find(node.incarnation);
    const std::set<RangeId>* ranges = owned == state.owned.end() ? &none : &owned->second;
    if (fewest == nullptr || ranges->size() < fewest->size()) fewest = ranges;
    if (most == nullptr || ranges->size() > most->size()) {
      most = ranges;
      from = node.incarnation;
    }
  }
  if (most == nullptr || most->size() < fewest->size() + 2) return std::nullopt;
  const RangeId range = *std::min_element(most->begin(), most->end(), [&state](RangeId a, RangeId b) {
    return Requests(state, a) < Requests(state, b);
  });
  return ClusterState::Share{from, range, state.ranges.at(range).record.epoch};
}

}  // namespace nova
