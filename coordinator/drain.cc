#include "coordinator/drain.h"

#include <algorithm>
#include <set>

#include "absl/strings/numbers.h"
#include "absl/strings/str_join.h"
#include "coordinator/redundancy.h"

namespace nova {
namespace {

std::string Count(uint64_t n, const char* what) { return StrCat(n, " ", what, n == 1 ? "" : "s"); }

}  // namespace

DrainTarget FindDrainTarget(const ClusterState& state, const std::string& word) {
  DrainTarget target;
  const auto node = state.nodes.find(word);
  if (node != state.nodes.end()) {
    if (node->second.role == Role::kLtc) target.ltc = word;
    if (node->second.role == Role::kStoc) target.stocs = {node->second.stoc_id};
    return target;
  }
  std::vector<StocId> up;
  for (const auto& [id, stoc] : state.stocs) {
    if (stoc.record.name != word) continue;
    target.stocs.push_back(id);
    if (stoc.record.presence == StocPresence::kUp) up.push_back(id);
  }
  if (!up.empty()) target.stocs = std::move(up);
  uint32_t number = 0;
  if (target.empty() && absl::SimpleAtoi(word, &number) && state.stocs.contains(StocId(number))) {
    target.stocs = {StocId(number)};
  }
  return target;
}

Status CheckMayDrain(const ClusterState& state, const std::vector<StocId>& stocs, bool force) {
  const auto takes = [&](const NodeInfo& n) {
    return std::find(stocs.begin(), stocs.end(), n.stoc_id) == stocs.end() && !AsTold(state, n).IsLeft();
  };
  const auto others =
      static_cast<uint64_t>(std::count_if(state.live_stocs.begin(), state.live_stocs.end(), takes));
  const std::string name = stocs.empty() ? "" : StocName(state, stocs.front());
  if (others == 0) {
    return absl::FailedPreconditionError(StrCat(name, ": no other StoC is there to take what it holds"));
  }
  const CopiesKept most = MostCopiesKept(state);
  const uint32_t wanted = std::max({most.log, most.manifest, most.table});
  if (force || others >= wanted) return OkStatus();
  return absl::FailedPreconditionError(
      StrCat(name, ": ", Count(others, "StoC"), " would be left to place on, too few for the ", wanted,
             " copies that are configured: add a StoC first, or drain with --force"));
}

// It may take none at the moment, for it has no lease; the drain waits for it then.
Status CheckMayDrain(const ClusterState& state, const std::string& ltc) {
  const bool others = std::any_of(state.nodes.begin(), state.nodes.end(), [&](const auto& entry) {
    return entry.second.role == Role::kLtc && entry.first != ltc && !entry.second.draining;
  });
  if (others || state.ranges.empty()) return OkStatus();
  return absl::FailedPreconditionError(StrCat(ltc, ": no other LTC is there to take its ranges"));
}

Status CheckMayForget(const ClusterState& state, StocId stoc) {
  const auto known = state.stocs.find(stoc);
  if (known == state.stocs.end()) return absl::NotFoundError(StrCat("StoC ", stoc.value(), " has no record"));
  const StocRecord& record = known->second.record;
  const std::string name = StrCat("StoC ", stoc.value(), " (", record.name, ")");
  if (record.presence != StocPresence::kLost)
    return absl::FailedPreconditionError(
        StrCat(name, " is ", PresenceName(record.presence), ", and not lost"));
  const std::string left = DrainLeft(state, stoc);
  return left.empty() ? OkStatus() : absl::FailedPreconditionError(StrCat(name, ": ", left, " left"));
}

std::string DrainLeft(const ClusterState& state, const NodeInfo& node) {
  if (node.role != Role::kLtc) return DrainLeft(state, node.stoc_id);
  const auto owned = state.owned.find(node.incarnation);
  return owned == state.owned.end() ? "" : Count(owned->second.size(), "range");
}

std::string DrainLeft(const ClusterState& state, StocId stoc) {
  uint64_t tables = 0, groups = 0, manifests = 0, unheard = 0;
  std::set<std::pair<RangeId, Epoch>> heard;  // whose tables are counted
  for (const auto& [name, report] : state.reports) {
    const auto on_stoc = report.draining.find(stoc);
    if (on_stoc == report.draining.end()) continue;
    tables += on_stoc->second;
    for (const RangeLoad& load : report.ranges) {
      if (load.open) heard.emplace(load.range, load.epoch);
    }
  }
  for (const auto& [id, range] : state.ranges) {
    const RangeRecord& r = range.record;
    for (const LogGroup& g : r.log_groups) {
      groups +=
          std::any_of(g.members.begin(), g.members.end(), [&](const LogMember& m) { return m.stoc == stoc; });
    }
    const auto& members = r.manifest.members;
    manifests += std::find(members.begin(), members.end(), stoc) != members.end();
    unheard += !members.empty() && !heard.contains({id, r.epoch});  // without a manifest it was never opened
  }
  std::vector<std::string> left;
  if (tables > 0) left.push_back(Count(tables, "table"));
  if (groups > 0) left.push_back(Count(groups, "log group"));
  if (manifests > 0) left.push_back(Count(manifests, "manifest"));
  if (unheard > 0) left.push_back(Count(unheard, "range") + " not heard from");
  return absl::StrJoin(left, ", ");
}

}  // namespace nova
