#include "ltc/engine/range_index.h"

#include <utility>

namespace nova {
namespace {

// The first and the last Drange that a table has keys of.
std::pair<size_t, size_t> DrangesOf(const KeyInterval& keys, const DrangeMap* map) {
  if (map == nullptr) return {0, 0};
  const size_t first = map->Of(keys.first), last = map->Of(keys.last);
  const bool ends_before = last > first && keys.EndsBefore(map->First(last));
  return {first, ends_before ? last - 1 : last};
}

}  // namespace

RangeIndex::RangeIndex(const std::vector<Run>& runs, DrangeMapRef map) : map_(std::move(map)) {
  const size_t dranges = map_ == nullptr ? 1 : map_->size();
  columns_.resize(dranges);
  std::vector<std::vector<uint32_t>> by_drange(dranges);
  for (uint32_t place = 0; place < runs.size(); ++place) {
    if (runs[place].level > 0) {
      for (auto& places : by_drange) places.push_back(place);
      continue;
    }
    for (const TableRef& t : runs[place].tables) {
      level0_bytes_ += UsedBytes(t->info());
      const auto [first, last] = DrangesOf(t->keys(), map_.get());
      for (size_t d = first; d <= last; ++d) {
        columns_[d].bytes += UsedBytes(t->info()) / (last - first + 1);
        if (!by_drange[d].empty() && by_drange[d].back() == place) continue;  // for another table
        ++columns_[d].runs;
        by_drange[d].push_back(place);
      }
    }
  }
  for (const auto& places : by_drange) {
    begins_.push_back(static_cast<uint32_t>(places_.size()));
    places_.insert(places_.end(), places.begin(), places.end());
  }
  begins_.push_back(static_cast<uint32_t>(places_.size()));
}

}  // namespace nova
