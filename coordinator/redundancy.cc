#include "coordinator/redundancy.h"

#include <algorithm>

namespace nova {
namespace {

// Adds one log group or manifest.
void Count(uint32_t there, size_t wanted, CopyCounts* counts) {
  counts->fewest = counts->all == 0 ? there : std::min(counts->fewest, there);
  counts->wanted = std::max(counts->wanted, static_cast<uint32_t>(wanted));
  counts->degraded += there < wanted;
  ++counts->all;
}

// Adds those of one range to those of others.
void Add(const CopyCounts& of_one, CopyCounts* counts) {
  if (of_one.all > 0)
    counts->fewest = counts->all == 0 ? of_one.fewest : std::min(counts->fewest, of_one.fewest);
  counts->all += of_one.all;
  counts->degraded += of_one.degraded;
  counts->wanted = std::max(counts->wanted, of_one.wanted);
}

// Null: it has not said.
const CopiesKept* CopiesKeptBy(const ClusterState& state, const std::string& ltc) {
  const auto report = state.reports.find(ltc);
  return report != state.reports.end() && report->second.copies ? &*report->second.copies : nullptr;
}

// Its owner has said what tables it has, and counted their copies by the StoCs as they are now: what it said
// before a StoC went would pass for whole.
bool OwnerWasHeard(const ClusterState& state, const ClusterState::Range& range) {
  const uint64_t counted_by = range.load.tables.stocs_version;
  return range.load.open && range.load.epoch == range.record.epoch &&
         (counted_by == 0 || counted_by == state.stocs_version);
}

// The sum over the ranges that `counts` says.
Redundancy CountOf(const ClusterState& state, bool (*counts)(const RangeRecord&)) {
  const LivingStocs living = LivingStocsOf(state);
  Redundancy out;
  for (const auto& [id, range] : state.ranges) {
    if (!counts(range.record)) continue;
    const Redundancy one = CountRedundancy(state, range, living);
    Add(one.logs, &out.logs);
    Add(one.manifests, &out.manifests);
    Add(one.tables, &out.tables);
    out.unheard += one.unheard;
    out.rebuild_bytes += one.rebuild_bytes;
    out.rebuilt_bytes += one.rebuilt_bytes;
  }
  return out;
}

}  // namespace

LivingStocs LivingStocsOf(const ClusterState& state) {
  LivingStocs living;
  for (const NodeInfo& node : state.live_stocs) living[node.stoc_id] = &node;
  return living;
}

uint32_t LivingCopies(const LogGroup& group, const LivingStocs& living) {
  const auto has_it = [&](const LogMember& m) {
    const auto it = living.find(m.stoc);
    return it != living.end() && group.Holds(m, it->second->incarnation, it->second->store);
  };
  return static_cast<uint32_t>(std::count_if(group.members.begin(), group.members.end(), has_it));
}

// A StoC id is given to one store at its format, so that an empty disk in its place has another (range
// record, N3).
uint32_t LivingCopies(const ManifestGroup& group, const LivingStocs& living) {
  return static_cast<uint32_t>(std::count_if(group.members.begin(), group.members.end(),
                                             [&](StocId stoc) { return living.contains(stoc); }));
}

CopiesKept MostCopiesKept(const ClusterState& state) {
  CopiesKept most;
  for (const auto& [name, report] : state.reports) {
    if (!report.copies) continue;
    most.log = std::max(most.log, report.copies->log);
    most.manifest = std::max(most.manifest, report.copies->manifest);
    most.table = std::max(most.table, report.copies->table);
  }
  return most;
}

CopiesKept CopiesWanted(const ClusterState& state, const ClusterState::Range& range) {
  const CopiesKept* const kept = CopiesKeptBy(state, range.record.owner);
  return kept != nullptr ? *kept : MostCopiesKept(state);
}

Redundancy CountRedundancy(const ClusterState& state, const ClusterState::Range& range,
                           const LivingStocs& living) {
  Redundancy out;
  const RangeRecord& record = range.record;
  const CopiesKept wanted = CopiesWanted(state, range);
  for (const LogGroup& group : record.log_groups) {
    Count(LivingCopies(group, living), wanted.log > 0 ? wanted.log : group.members.size(), &out.logs);
  }
  const std::vector<StocId>& copies = record.manifest.members;
  if (copies.empty()) return out;  // never opened: it has nothing yet
  Count(LivingCopies(record.manifest, living), wanted.manifest > 0 ? wanted.manifest : copies.size(),
        &out.manifests);
  if (!OwnerWasHeard(state, range)) {
    out.unheard = 1;
    return out;
  }
  const TableCopies& tables = range.load.tables;
  out.tables = {tables.tables, tables.degraded, wanted.table, tables.tables > 0 ? tables.fewest : 0};
  out.rebuild_bytes = tables.rebuild_bytes;
  out.rebuilt_bytes = tables.rebuilt_bytes;
  return out;
}

Redundancy CountRedundancy(const ClusterState& state) {
  return CountOf(state, [](const RangeRecord&) { return true; });
}

Redundancy CountRedundancyOfOpen(const ClusterState& state) {
  return CountOf(state, [](const RangeRecord& record) { return record.IsOpen(); });
}

StocCounts CountStocs(const ClusterState& state) {
  StocCounts out;
  for (const auto& [id, stoc] : state.stocs) {
    const StocRecord& r = stoc.record;
    ++(r.presence == StocPresence::kUp ? out.up : r.presence == StocPresence::kAway ? out.away : out.lost);
    out.draining += r.draining;
    out.emptied += stoc.emptied;
    ++out.by_disk[static_cast<size_t>(stoc.told_disk)];
  }
  return out;
}

}  // namespace nova
