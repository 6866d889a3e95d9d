// Range deletions of a Range (K7): into the list of range tombstones, and what flushes and compactions may
// leave out because of them.
#include <algorithm>

#include "common/sstable/compaction_job.h"
#include "ltc/engine/range_view.h"

namespace nova {

bool Range::HasRoomForTombstones(Executor* on, uint64_t count) {
  const RangeTombstones* list = LaneView(on).tombstones.get();
  return (list == nullptr ? 0 : list->size()) + count <= options_.max_range_tombstones;
}

// A logged write with range deletions. What one of them hides of its own batch is not linked at all, as if it
// had been written and deleted; then the rest of the batch is linked, the youngest first, then its deletions
// all at once: no get sees what the batch itself hides. All of it before the numbers are finished: who waits
// for them finds it (K4).
void Range::LinkWithTombstones(WriteContext* context) {
  const RangeTombstonesRef own = RangeTombstones::Of(context->tombstones);
  const auto link = [&](const WriteContext::Prepared& e, SequenceNumber seq) {
    if (e.entry == nullptr || own->Covering(MemTable::KeyOf(e.entry), kMaxSequenceNumber) > seq) return;
    e.memtable->Link(e.entry);
  };
  for (size_t i = context->rest.size(); i > 0; --i) link(context->rest[i - 1], context->sequence + i);
  link(context->first, context->sequence);
  context->round->tombstones.fetch_add(own->size(), std::memory_order_relaxed);
  MutexLock lock(&mu_);
  auto view = std::make_shared<View>(*view_);
  view->generation++;
  std::vector<RangeTombstoneRef> all = own->all();
  if (view->tombstones != nullptr)
    all.insert(all.end(), view->tombstones->all().begin(), view->tombstones->all().end());
  view->tombstones = RangeTombstones::Of(std::move(all));
  PublishLocked(std::move(view));
}

// Of a compaction of tables that `view` or an earlier one has. It drops by range tombstones of the manifest
// only: one that a crash might lose (no log, or one that is not synced) must not be half done. The snapshots
// are asked for last: one that is taken later sees all of the tombstones.
Range::DropRules Range::RulesOf(const View& view) {
  DropRules rules;
  rules.floor = sequences_.stable();
  rules.tombstones = view.version->tombstones();
  rules.now_ms = NowMs();
  rules.snapshots = snapshots_.Live(Now());
  // Those of older rounds are all in the manifest, or were and are needless.
  const Round& oldest = view.sealed.empty() ? *view.active : *view.sealed.back();
  rules.tombstones_applied = oldest.number - 1;
  if (!rules.snapshots.empty())
    rules.tombstones_applied = std::min(rules.tombstones_applied, rules.snapshots.front());
  return rules;
}

// Rounds reach the manifest in order (K3b), each with its tombstones: those of older rounds and its own get
// there no later than the tables. The older ones may not be known yet while an older round is written to.
Range::DropRules Range::RulesOfFlush(const RoundGroup& rounds) {
  const auto view = CurrentView();
  DropRules rules = RulesOf(*view);
  const SequenceNumber boundary = rounds.back()->boundary;
  rules.tombstones = RangeTombstones::UpTo(view->tombstones, boundary);
  if (view->sealed.back() == rounds.front() && rules.snapshots.empty()) rules.tombstones_applied = boundary;
  return rules;
}

bool Range::HoldsHidden(const View& view) {
  if (view.version->tombstones() == nullptr) return false;
  const DropRules rules = RulesOf(view);
  const auto holds = [&](const TableRef& t) {
    return MayHoldHidden(t->info(), *rules.tombstones, rules.tombstones_applied);
  };
  const auto& runs = view.version->runs();
  return std::any_of(runs.begin(), runs.end(),
                     [&](const Run& r) { return std::any_of(r.tables.begin(), r.tables.end(), holds); });
}

}  // namespace nova
