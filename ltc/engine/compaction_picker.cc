#include "ltc/engine/compaction_picker.h"

#include <algorithm>

#include "common/sstable/compaction_job.h"

namespace nova {
namespace {

bool AnyBusy(const std::vector<TableRef>& tables, const CompactionState& state) {
  return std::any_of(tables.begin(), tables.end(),
                     [&](const TableRef& t) { return state.busy.contains(t->info().uuid); });
}

// From the first key of the tables to the last; views into them.
KeyInterval Hull(const std::vector<TableRef>& tables) {
  KeyInterval hull = tables[0]->keys();
  for (const TableRef& t : tables) {
    const KeyInterval& keys = t->keys();
    hull.first = std::min(hull.first, keys.first);
    if (keys.last > hull.last || (keys.last == hull.last && !keys.open_end)) {
      hull.last = keys.last;
      hull.open_end = keys.open_end;
    }
  }
  return hull;
}

void AddOverlaps(const Version& version, CompactionPlan* plan) {
  const KeyInterval hull = Hull(plan->inputs);
  if (const Run* below = version.LevelRun(plan->output_level)) {
    for (size_t i = below->FirstNotBefore(hull.first); i < below->tables.size(); ++i) {
      if (hull.EndsBefore(below->tables[i]->keys().first)) break;
      plan->overlaps.push_back(below->tables[i]);
    }
  }
  std::vector<TableRef> all = plan->inputs;
  all.insert(all.end(), plan->overlaps.begin(), plan->overlaps.end());
  plan->bottom = !version.OverlapsDeeper(plan->output_level, Hull(all));
  plan->trivial_move = plan->inputs.size() == 1 && plan->overlaps.empty();
}

uint64_t BytesOf(const std::vector<TableRef>& tables) {
  uint64_t n = 0;
  for (const TableRef& t : tables) n += UsedBytes(t->info());
  return n;
}

// The youngest runs of Level0, as many as are of about the same size, become one of the youngest one's order:
// what they held is still younger than every other run, and older than every round in memory (recency order,
// K3). Nullopt: only one is.
std::optional<CompactionPlan> MergeWithinLevel0(const Version& version) {
  CompactionPlan plan;
  plan.output_level = 0;
  uint64_t bytes = 0, count = 0;
  for (const Run& run : version.runs()) {  // youngest first
    if (run.level != 0 || run.bytes() * count > 2 * bytes) break;
    if (count++ == 0) plan.output_order = run.order;
    bytes += run.bytes();
    plan.inputs.insert(plan.inputs.end(), run.tables.begin(), run.tables.end());
  }
  if (count < 2) return std::nullopt;
  return plan;
}

std::optional<CompactionPlan> PickLevel0(const Version& version, const CompactionOptions& options,
                                         const CompactionState& state) {
  CompactionPlan plan;
  uint64_t bytes = 0;
  bool whole = true;
  for (auto run = version.runs().rbegin(); run != version.runs().rend(); ++run) {  // oldest first
    if (run->level != 0) continue;
    if (AnyBusy(run->tables, state)) return std::nullopt;  // a Level0 job is under way
    if (!plan.inputs.empty() && bytes + run->bytes() > options.level0_max_bytes) {
      whole = false;
      break;
    }
    bytes += run->bytes();
    plan.inputs.insert(plan.inputs.end(), run->tables.begin(), run->tables.end());
  }
  AddOverlaps(version, &plan);
  if (whole &&
      static_cast<double>(bytes) < options.level0_share * static_cast<double>(BytesOf(plan.overlaps))) {
    if (auto merge = MergeWithinLevel0(version)) return merge;
  }
  if (AnyBusy(plan.overlaps, state)) return std::nullopt;
  return plan;
}

std::optional<CompactionPlan> PickDeeper(const Version& version, int level, const CompactionState& state) {
  const Run* run = version.LevelRun(level);
  const size_t n = run->tables.size();
  const std::string& cursor = state.cursor[static_cast<size_t>(level)];
  size_t first = 0;
  while (first < n && !cursor.empty() && run->tables[first]->keys().last <= cursor) ++first;
  for (size_t k = 0; k < n; ++k) {
    CompactionPlan plan;
    plan.level = level;
    plan.output_level = level + 1;
    plan.inputs.push_back(run->tables[(first + k) % n]);
    if (AnyBusy(plan.inputs, state)) continue;
    AddOverlaps(version, &plan);
    if (AnyBusy(plan.overlaps, state)) continue;
    return plan;
  }
  return std::nullopt;
}

}  // namespace

namespace {

double Level0Score(const Version& version, const CompactionOptions& options, const Level0Demand& demand) {
  constexpr double kMostWhenIdle = 3;  // bytes to write for each of Level0's
  const double by_runs = static_cast<double>(version.Level0Runs()) / options.level0_runs_trigger;
  if (version.Level0Runs() < 2 || (demand.paid_bytes == 0 && !demand.idle)) return by_runs;
  const auto plan = PickLevel0(version, options, {});
  const auto price =
      static_cast<double>(std::max<uint64_t>(BytesOf(plan->inputs) + BytesOf(plan->overlaps), 1));
  const bool cheap = price <= kMostWhenIdle * static_cast<double>(version.LevelBytes(0));
  return std::max(
      {by_runs, static_cast<double>(demand.paid_bytes) / price, demand.idle && cheap ? 1.0 : 0.0});
}

}  // namespace

std::array<double, kLevels> CompactionScores(const Version& version, const CompactionOptions& options,
                                             const Level0Demand& demand) {
  std::array<double, kLevels> scores{};
  scores[0] = Level0Score(version, options, demand);
  double target = static_cast<double>(options.level1_bytes);
  for (int level = 1; level < kLevels - 1; ++level) {
    scores[static_cast<size_t>(level)] = static_cast<double>(version.LevelBytes(level)) / target;
    target *= options.level_multiplier;
  }
  return scores;
}

std::optional<CompactionPlan> PickCompaction(const Version& version, const CompactionOptions& options,
                                             const Level0Demand& demand, CompactionState* state) {
  const auto scores = CompactionScores(version, options, demand);
  std::array<int, kLevels> order;
  for (int i = 0; i < kLevels; ++i) order[static_cast<size_t>(i)] = i;
  std::sort(order.begin(), order.end(),
            [&](int a, int b) { return scores[static_cast<size_t>(a)] > scores[static_cast<size_t>(b)]; });
  for (const int level : order) {
    const double score = scores[static_cast<size_t>(level)];
    if (score < 1) break;
    auto plan = level == 0 ? PickLevel0(version, options, *state) : PickDeeper(version, level, *state);
    if (!plan) continue;
    plan->score = score;
    for (const auto* side : {&plan->inputs, &plan->overlaps}) {
      for (const TableRef& t : *side) state->busy.insert(t->info().uuid);
    }
    if (level > 0) state->cursor[static_cast<size_t>(level)] = std::string(plan->inputs[0]->keys().last);
    return plan;
  }
  return std::nullopt;
}

bool IsHidden(const TableInfo& table, const RangeTombstones& tombstones, SequenceNumber upto) {
  return tombstones.CoversAll(UsedKeys(table), table.max_sequence, upto);
}

std::optional<CompactionPlan> PickHidden(const Version& version, SequenceNumber upto,
                                         CompactionState* state) {
  const RangeTombstones& tombstones = *version.tombstones();
  CompactionPlan plan;
  for (const Run& run : version.runs()) {
    for (const TableRef& t : run.tables) {
      if (IsHidden(t->info(), tombstones, upto) && state->busy.insert(t->info().uuid).second)
        plan.inputs.push_back(t);
    }
  }
  if (!plan.inputs.empty()) {
    plan.drop_only = true;
    return plan;
  }
  for (const Run& run : version.runs()) {
    for (const TableRef& t : run.tables) {
      if (!MayHoldHidden(t->info(), tombstones, upto) || !state->busy.insert(t->info().uuid).second) continue;
      plan.level = plan.output_level = run.level;
      plan.output_order = run.order;
      plan.inputs.push_back(t);
      return plan;
    }
  }
  return std::nullopt;
}

}  // namespace nova
