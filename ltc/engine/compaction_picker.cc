#include "ltc/engine/compaction_picker.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "common/sstable/compaction_job.h"

namespace nova {
namespace {

bool AnyBusy(const std::vector<TableRef>& tables, const CompactionState& state) {
  return std::any_of(tables.begin(), tables.end(),
                     [&](const TableRef& t) { return state.busy.contains(t->info().uuid); });
}

// See CompactionState::resting.
bool Rests(const CompactionPlan& plan, const CompactionState& state) {
  return state.resting.contains(plan.inputs[0]->info().uuid);
}

// Widens the hull so that it has all of `keys`; views into what they are views into.
void Include(const KeyInterval& keys, std::optional<KeyInterval>* hull) {
  if (!*hull) {
    *hull = keys;
    return;
  }
  KeyInterval& h = **hull;
  h.first = std::min(h.first, keys.first);
  if (keys.last > h.last || (keys.last == h.last && !keys.open_end)) {
    h.last = keys.last;
    h.open_end = keys.open_end;
  }
}

// From the first key of the tables to the last; views into them.
KeyInterval Hull(const std::vector<TableRef>& tables) {
  std::optional<KeyInterval> hull;
  for (const TableRef& t : tables) Include(t->keys(), &hull);
  return *hull;
}

void AddOverlaps(const Version& version, CompactionPlan* plan) {
  const KeyInterval hull = Hull(plan->inputs);
  if (const Run* below = version.LevelRun(plan->output_level)) {
    for (size_t i = below->FirstNotBefore(hull.first); i < below->tables.size(); ++i) {
      if (hull.EndsBefore(below->tables[i]->keys().first)) break;
      plan->overlaps.push_back(below->tables[i]);
    }
  }
  plan->bottom = !version.OverlapsDeeper(plan->output_level, plan->hull());
  plan->trivial_move = plan->inputs.size() == 1 && plan->overlaps.empty();
}

uint64_t BytesOf(const std::vector<TableRef>& tables) {
  uint64_t n = 0;
  for (const TableRef& t : tables) n += UsedBytes(t->info());
  return n;
}

// The keys of one Drange: [first, end), an empty end is no bound.
struct Bounds {
  std::string_view first, end;
};

Bounds BoundsOf(const Version& version, size_t column) {
  const DrangeMapRef& map = version.dranges();
  if (map == nullptr) return {};
  return {map->First(column), column + 1 < map->size() ? map->First(column + 1) : std::string_view()};
}

// Tables that follow one another in a run of Level0: those with index [begin, end).
struct Slice {
  const Run* run;
  size_t begin = 0, end = 0;
  bool empty() const { return begin == end; }
};

Slice SliceOf(const Run& run, const Bounds& bounds) {
  Slice s{&run};
  s.begin = s.end = run.FirstNotBefore(bounds.first);
  while (s.end < run.tables.size() && (bounds.end.empty() || run.tables[s.end]->keys().first < bounds.end))
    ++s.end;
  return s;
}

// What a plan takes of Level0: a slice of each run from one to another, in their order.
using Slices = std::vector<Slice>;

std::vector<TableRef> TablesOf(const Slices& slices) {
  std::vector<TableRef> tables;
  for (const Slice& s : slices) {
    const auto& all = s.run->tables;
    tables.insert(tables.end(), all.begin() + static_cast<ptrdiff_t>(s.begin),
                  all.begin() + static_cast<ptrdiff_t>(s.end));
  }
  return tables;
}

uint64_t BytesOf(const Slices& slices) {
  uint64_t n = 0;
  for (const Slice& s : slices) {
    for (size_t i = s.begin; i < s.end; ++i) n += UsedBytes(s.run->tables[i]->info());
  }
  return n;
}

// Nullopt: the slices are empty. Tables of a run are in order, so the ends of a slice tell.
std::optional<KeyInterval> Hull(const Slices& slices) {
  std::optional<KeyInterval> hull;
  for (const Slice& s : slices) {
    if (s.empty()) continue;
    Include(s.run->tables[s.begin]->keys(), &hull);
    Include(s.run->tables[s.end - 1]->keys(), &hull);
  }
  return hull;
}

// Adds the tables of the slice's run that the hull overlaps. False: it has them. They are neighbours of the
// slice, also where it is empty: it lies where the column does, and a hull has a key of the column.
bool Widen(const KeyInterval& hull, Slice* slice) {
  const auto& tables = slice->run->tables;
  const size_t before = slice->end - slice->begin;
  while (slice->begin > 0 && !tables[slice->begin - 1]->keys().EndsBefore(hull.first)) --slice->begin;
  while (slice->end < tables.size() && !hull.EndsBefore(tables[slice->end]->keys().first)) ++slice->end;
  return slice->end - slice->begin != before;
}

// compaction order (K3c): closes a plan. Of the runs of the first `closed` slices every table goes along that
// the hull of all slices overlaps; what is taken widens the hull.
void Close(size_t closed, Slices* slices) {
  for (bool widened = true; widened;) {
    widened = false;
    const auto hull = Hull(*slices);
    if (!hull) return;
    for (size_t i = 0; i < closed; ++i) widened |= Widen(*hull, &(*slices)[i]);
  }
}

// The youngest runs of a column, as many as are of about the same size, become one of the youngest one's
// order: what they held is still newer than every older run's, and older than that of every round in memory
// (recency order, K3). Nullopt: only one is, or their closure is larger than a plan may be.
std::optional<CompactionPlan> MergeWithinLevel0(const Version& version, const Bounds& bounds,
                                                const CompactionOptions& options) {
  CompactionPlan plan;
  plan.output_level = 0;
  Slices slices, closed;  // youngest first
  uint64_t bytes = 0, count = 0;
  for (const Run& run : version.runs()) {
    if (run.level != 0) break;
    const Slice slice = SliceOf(run, bounds);
    if (slice.empty() && slices.empty()) continue;
    slices.push_back(slice);
    if (slice.empty()) continue;
    const uint64_t of_run = BytesOf(Slices{slice});
    if (of_run * count > 2 * bytes) break;
    if (count++ == 0) plan.output_order = run.order;
    bytes += of_run;
    if (count < 2) continue;
    Close(slices.size(), &slices);
    if (BytesOf(slices) > options.level0_max_bytes) break;
    closed = slices;
  }
  if (closed.empty()) return std::nullopt;
  plan.inputs = TablesOf(closed);
  return plan;
}

// The plan for one column, whatever is busy. REQUIRES: Level0 has a table there.
CompactionPlan PlanColumn(const Version& version, const CompactionOptions& options, size_t column) {
  const Bounds bounds = BoundsOf(version, column);
  Slices slices, closed;  // oldest first
  bool whole = true;
  for (auto run = version.runs().rbegin(); run != version.runs().rend(); ++run) {
    if (run->level != 0) continue;
    slices.push_back(SliceOf(*run, bounds));
    if (slices.back().empty()) continue;
    Close(slices.size() - 1, &slices);
    if (!closed.empty() && BytesOf(slices) > options.level0_max_bytes) {
      whole = false;
      break;
    }
    closed = slices;
  }
  CompactionPlan plan;
  plan.inputs = TablesOf(closed);
  AddOverlaps(version, &plan);
  const auto bytes = static_cast<double>(BytesOf(plan.inputs));
  if (whole && bytes < options.level0_share * static_cast<double>(BytesOf(plan.overlaps))) {
    if (auto merge = MergeWithinLevel0(version, bounds, options)) return *std::move(merge);
  }
  return plan;
}

bool HaveKeyInCommon(const KeyInterval& a, const KeyInterval& b) {
  return !a.EndsBefore(b.first) && !b.EndsBefore(a.first);
}

// Another plan under way has a table of Level1 that this one needs, or, of Level0, a key of its hull.
bool MustWait(const CompactionPlan& plan, const CompactionState& state) {
  return AnyBusy(plan.overlaps, state) ||
         std::any_of(state.level0.begin(), state.level0.end(),
                     [&](const CompactionPlan& other) { return HaveKeyInCommon(plan.hull(), other.hull()); });
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
    if (AnyBusy(plan.inputs, state) || Rests(plan, state)) continue;
    AddOverlaps(version, &plan);
    if (AnyBusy(plan.overlaps, state)) continue;
    return plan;
  }
  return std::nullopt;
}

}  // namespace

namespace {

// The oldest run of Level0 has a table in the column.
bool HasOldestRun(const Version& version, size_t column) {
  const Run& oldest = version.runs()[static_cast<size_t>(version.Level0Runs()) - 1];
  return !SliceOf(oldest, BoundsOf(version, column)).empty();
}

// How much a column is due by its number of runs.
double RunsScore(const Version& version, const CompactionOptions& options, size_t column) {
  // A run stays until all its tables are gone. Where the load moves on, columns that are due no more would
  // keep run after run, for every get to look into: so the oldest one is taken apart.
  constexpr double kRunsOfAll = 1.5;
  const Version::Column& c = version.columns()[column];
  if (c.runs == 0) return 0;
  double by_runs = static_cast<double>(c.runs) / options.level0_runs_trigger;
  const double by_all = version.Level0Runs() / (kRunsOfAll * options.level0_runs_trigger);
  if (by_all > by_runs && HasOldestRun(version, column)) by_runs = by_all;
  return by_runs;
}

// How much a column is due.
double ColumnScore(const Version& version, const CompactionOptions& options, const Level0Demand& demand,
                   size_t column) {
  constexpr double kMostWhenIdle = 3;  // bytes to write for each of the column's
  const Version::Column& c = version.columns()[column];
  const double by_runs = RunsScore(version, options, column);
  if (c.runs < 2 || (demand.paid_bytes == 0 && !demand.idle)) return by_runs;
  const double paid = static_cast<double>(demand.paid_bytes) * static_cast<double>(c.bytes) /
                      static_cast<double>(std::max<uint64_t>(version.index().level0_bytes(), 1));
  // Of many columns a plan is not made to learn its price before it may be near.
  const bool is_far = version.columns().size() > 1 && paid < static_cast<double>(c.bytes) / 4;
  if (is_far && !demand.idle) return by_runs;
  const CompactionPlan plan = PlanColumn(version, options, column);
  const auto price =
      static_cast<double>(std::max<uint64_t>(BytesOf(plan.inputs) + BytesOf(plan.overlaps), 1));
  const bool cheap = price <= kMostWhenIdle * static_cast<double>(c.bytes);
  return std::max({by_runs, paid / price, demand.idle && cheap ? 1.0 : 0.0});
}

// The columns that are due, the most first; of equal ones the smallest, which is done soonest.
std::vector<std::pair<double, size_t>> DueColumns(const Version& version, const CompactionOptions& options,
                                                  const Level0Demand& demand) {
  std::vector<std::pair<double, size_t>> due;
  for (size_t i = 0; i < version.columns().size(); ++i) {
    if (const double score = ColumnScore(version, options, demand, i); score >= 1) due.emplace_back(score, i);
  }
  std::sort(due.begin(), due.end(), [&](const auto& a, const auto& b) {
    if (a.first != b.first) return a.first > b.first;
    return version.columns()[a.second].bytes < version.columns()[b.second].bytes;
  });
  return due;
}

std::optional<CompactionPlan> PickLevel0(const Version& version, const CompactionOptions& options,
                                         const Level0Demand& demand, CompactionState* state) {
  for (const auto& [score, column] : DueColumns(version, options, demand)) {
    CompactionPlan plan = PlanColumn(version, options, column);
    plan.score = score;
    plan.paid_for = !demand.idle && RunsScore(version, options, column) < 1;
    if (AnyBusy(plan.inputs, *state) || Rests(plan, *state)) continue;
    if (!MustWait(plan, *state)) return plan;
    ++state->waits;
  }
  return std::nullopt;
}

double Level0Score(const Version& version, const CompactionOptions& options, const Level0Demand& demand) {
  double most = 0;
  for (size_t i = 0; i < version.columns().size(); ++i)
    most = std::max(most, ColumnScore(version, options, demand, i));
  return most;
}

// Bytes that Level1 may have; see the head of compaction_picker.h.
double Level1Target(const Version& version, const CompactionOptions& options, bool level0_is_due) {
  constexpr double kLevel0Jobs = 3;
  const auto least = static_cast<double>(options.level1_bytes);
  const auto below = static_cast<double>(version.LevelBytes(2));
  const double between = std::max(least, std::sqrt(least * below));
  if (!level0_is_due) return between;
  return std::max(between, std::min(kLevel0Jobs * static_cast<double>(options.level0_max_bytes), below));
}

}  // namespace

KeyInterval CompactionPlan::hull() const {
  std::vector<TableRef> all = inputs;
  all.insert(all.end(), overlaps.begin(), overlaps.end());
  return Hull(all);
}

std::array<double, kLevels> CompactionScores(const Version& version, const CompactionOptions& options,
                                             const Level0Demand& demand) {
  std::array<double, kLevels> scores{};
  scores[0] = Level0Score(version, options, demand);
  scores[1] = static_cast<double>(version.LevelBytes(1)) / Level1Target(version, options, scores[0] >= 1);
  auto target = static_cast<double>(options.level1_bytes);
  for (int level = 2; level < kLevels - 1; ++level) {
    target *= options.level_multiplier;
    scores[static_cast<size_t>(level)] = static_cast<double>(version.LevelBytes(level)) / target;
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
    auto plan = level == 0 ? PickLevel0(version, options, demand, state) : PickDeeper(version, level, *state);
    if (!plan) continue;
    if (level > 0) plan->score = score;
    for (const auto* side : {&plan->inputs, &plan->overlaps}) {
      for (const TableRef& t : *side) state->busy.insert(t->info().uuid);
    }
    if (level == 0) state->level0.push_back(*plan);
    if (level > 0) state->cursor[static_cast<size_t>(level)] = std::string(plan->inputs[0]->keys().last);
    return plan;
  }
  return std::nullopt;
}

void EndCompaction(const CompactionPlan& plan, CompactionState* state) {
  for (const auto* side : {&plan.inputs, &plan.overlaps}) {
    for (const TableRef& t : *side) state->busy.erase(t->info().uuid);
  }
  std::erase_if(state->level0, [&](const CompactionPlan& p) {
    return !plan.inputs.empty() && p.inputs[0] == plan.inputs[0];
  });
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
  return std::nullopt;
}

std::optional<CompactionPlan> PickPartlyHidden(const Version& version, SequenceNumber upto,
                                               CompactionState* state) {
  const RangeTombstones& tombstones = *version.tombstones();
  CompactionPlan plan;
  for (const Run& run : version.runs()) {
    for (const TableRef& t : run.tables) {
      if (state->resting.contains(t->info().uuid)) continue;
      if (!MayHoldHidden(t->info(), tombstones, upto) || !state->busy.insert(t->info().uuid).second) continue;
      plan.level = plan.output_level = run.level;
      plan.output_order = run.order;
      plan.inputs.push_back(t);
      return plan;
    }
  }
  return std::nullopt;
}

namespace {

bool HasExpired(const Version& version, const Run& run, const TableHandle& table, int64_t now_ms,
                SequenceNumber floor) {
  return run.level > 0 && table.expires_by_ms() <= now_ms && table.info().max_sequence <= floor &&
         !version.OverlapsDeeper(run.level, table.keys());
}

}  // namespace

bool HoldsExpired(const Version& version, int64_t now_ms, SequenceNumber floor) {
  if (version.first_expired_ms() > now_ms) return false;
  const auto& runs = version.runs();
  return std::any_of(runs.begin(), runs.end(), [&](const Run& run) {
    return std::any_of(run.tables.begin(), run.tables.end(),
                       [&](const TableRef& t) { return HasExpired(version, run, *t, now_ms, floor); });
  });
}

std::optional<CompactionPlan> PickExpired(const Version& version, int64_t now_ms, SequenceNumber floor,
                                          CompactionState* state) {
  if (version.first_expired_ms() > now_ms) return std::nullopt;
  CompactionPlan plan;
  plan.drop_only = true;
  for (const Run& run : version.runs()) {
    for (const TableRef& t : run.tables) {
      if (!HasExpired(version, run, *t, now_ms, floor) || !state->busy.insert(t->info().uuid).second)
        continue;
      plan.inputs.push_back(t);
      plan.expired_by_ms = std::max(plan.expired_by_ms, t->expires_by_ms());
    }
  }
  return plan.inputs.empty() ? std::nullopt : std::optional(std::move(plan));
}

}  // namespace nova
