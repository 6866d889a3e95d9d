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

void RangeView::ApplyTombstones(const VersionEdit& edit) {
  if (edit.tombstones.empty() && edit.dropped_tombstones.empty()) return;
  std::map<SequenceNumber, RangeTombstoneRef> by_number;
  for (const RangeTombstoneRef& t : edit.tombstones) by_number[t->sequence] = t;
  if (tombstones != nullptr) {
    for (const RangeTombstoneRef& t : tombstones->all()) by_number[t->sequence] = t;
  }
  for (const SequenceNumber n : edit.dropped_tombstones) by_number.erase(n);
  std::vector<RangeTombstoneRef> all;
  for (const auto& [number, t] : by_number) all.push_back(t);
  tombstones = RangeTombstones::Of(std::move(all));
  tombstones_dropped += edit.dropped_tombstones.empty() ? 0 : 1;
}

}  // namespace nova
