#include "ltc/engine/read_points.h"

#include "common/base/coding.h"

namespace nova {

bool ReadPoints::IsVisible(ValueType type, std::string_view* value) const {
  if (type == ValueType::kPut) return true;
  if (type != ValueType::kPutTtl || value->size() < kExpiryBytes) return false;
  if (static_cast<int64_t>(DecodeFixed64(value->data())) <= NowMs()) return false;
  value->remove_prefix(kExpiryBytes);
  return true;
}

void ReadPoints::WhenStable(Executor* on, SequenceNumber seq, absl::AnyInvocable<void()> fn) {
  if (sequences_.stable() >= seq) return fn();
  sequences_.WhenStable(seq, [on, fn = std::move(fn)]() mutable { on->Submit(std::move(fn)); });
}

// A compaction drops by range tombstones of the manifest only: one that a crash might lose (no log, or one
// that is not synced) must not be half done. The snapshots are asked for last: one that is taken later sees
// all of the tombstones.
DropRules ReadPoints::RulesOf(const RangeView& view) {
  DropRules rules;
  rules.floor = sequences_.stable();
  rules.tombstones = view.version->tombstones();
  rules.now_ms = NowMs();
  rules.snapshots = LiveSnapshots();
  // Those of older rounds are all in the manifest, or were and are needless.
  rules.tombstones_applied = view.oldest().number - 1;
  if (!rules.snapshots.empty())
    rules.tombstones_applied = std::min(rules.tombstones_applied, rules.snapshots.front());
  return rules;
}

// Rounds reach the manifest in flush order (K3b), each with its tombstones: those of older rounds and
// its own get there no later than the tables. The older ones may not be known yet while an older round is
// written to.
DropRules ReadPoints::RulesOfFlush(const RangeView& view, const RoundGroup& rounds) {
  DropRules rules = RulesOf(view);
  const SequenceNumber boundary = rounds.back()->boundary;
  rules.tombstones = RangeTombstones::UpTo(view.tombstones, boundary);
  if (view.sealed.back() == rounds.front() && rules.snapshots.empty()) rules.tombstones_applied = boundary;
  return rules;
}

}  // namespace nova
