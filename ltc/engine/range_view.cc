#include "ltc/engine/range_view.h"

#include <algorithm>

namespace nova {

MemTableId RangeView::DoneBelow(const RoundGroup* flushed) const {
  MemTableId done_below = active->siblings[0]->id();
  for (const auto& r : sealed) {
    const bool done = flushed != nullptr && std::find(flushed->begin(), flushed->end(), r) != flushed->end();
    if (!done) done_below = std::min(done_below, r->sources[0].memtables[0]);
  }
  return done_below;
}

RangeTombstonesRef RangeView::TombstonesAfter(const RangeTombstonesRef& before, const VersionEdit& edit) {
  if (edit.tombstones.empty() && edit.dropped_tombstones.empty()) return before;
  std::map<SequenceNumber, RangeTombstoneRef> by_number;
  for (const RangeTombstoneRef& t : edit.tombstones) by_number[t->sequence] = t;
  if (before != nullptr) {
    for (const RangeTombstoneRef& t : before->all()) by_number[t->sequence] = t;
  }
  for (const SequenceNumber n : edit.dropped_tombstones) by_number.erase(n);
  std::vector<RangeTombstoneRef> all;
  for (const auto& [number, t] : by_number) all.push_back(t);
  return RangeTombstones::Of(std::move(all));
}

}  // namespace nova
