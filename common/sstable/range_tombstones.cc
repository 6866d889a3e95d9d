#include "common/sstable/range_tombstones.h"

#include <algorithm>
#include <map>
#include <numeric>

#include "common/base/log.h"

namespace nova {

namespace {

// Calls fn(node) for each node of a segment tree over `leaves` that [first, end) is made of.
template <typename Fn>
void ForEachNode(size_t leaves, size_t first, size_t end, const Fn& fn) {
  for (first += leaves, end += leaves; first < end; first /= 2, end /= 2) {
    if (first % 2 == 1) fn(first++);
    if (end % 2 == 1) fn(--end);
  }
}

// Keys that some tombstone covers: intervals that neither overlap nor touch.
class Covered {
 public:
  bool Contains(std::string_view begin, std::string_view end) const {
    const auto behind = intervals_.upper_bound(begin);
    return behind != intervals_.begin() && std::prev(behind)->second >= end;
  }
  void Add(std::string_view begin, std::string_view end) {
    auto at = intervals_.upper_bound(begin);
    if (at != intervals_.begin() && std::prev(at)->second >= begin) --at;
    while (at != intervals_.end() && at->first <= end) {
      begin = std::min(begin, at->first);
      end = std::max(end, at->second);
      at = intervals_.erase(at);
    }
    intervals_.emplace(begin, end);
  }
  void Clear() { intervals_.clear(); }

 private:
  std::map<std::string_view, std::string_view> intervals_;  // end by begin
};

}  // namespace

RangeTombstonesRef RangeTombstones::Of(std::vector<RangeTombstoneRef> all) {
  if (all.empty()) return nullptr;
  auto list = std::make_shared<RangeTombstones>();
  std::sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return a->sequence < b->sequence; });
  std::vector<std::string_view>& places = list->places_;
  places.reserve(2 * all.size());
  for (const RangeTombstoneRef& t : all) {
    NOVA_DCHECK(t->begin < t->end);
    places.push_back(t->begin);
    places.push_back(t->end);
  }
  std::sort(places.begin(), places.end());
  places.erase(std::unique(places.begin(), places.end()), places.end());
  const size_t leaves = list->fragments();
  const auto for_each_node = [&](const RangeTombstone& t, const auto& fn) {
    const auto place = [&](std::string_view key) {
      return static_cast<size_t>(std::lower_bound(places.begin(), places.end(), key) - places.begin());
    };
    ForEachNode(leaves, place(t.begin), place(t.end), fn);
  };
  std::vector<uint32_t>& first = list->first_of_node_;
  first.resize(2 * leaves + 1);
  for (const RangeTombstoneRef& t : all) for_each_node(*t, [&](size_t node) { ++first[node + 1]; });
  std::partial_sum(first.begin(), first.end(), first.begin());
  list->numbers_.resize(first.back());
  std::vector<uint32_t> next(first.begin(), first.end() - 1);
  for (const RangeTombstoneRef& t : all)
    for_each_node(*t, [&](size_t node) { list->numbers_[next[node]++] = t->sequence; });
  list->all_ = std::move(all);
  return list;
}

RangeTombstonesRef RangeTombstones::UpTo(const RangeTombstonesRef& list, SequenceNumber at) {
  if (list == nullptr || list->all_.back()->sequence <= at) return list;
  std::vector<RangeTombstoneRef> some = list->all_;
  std::erase_if(some, [at](const RangeTombstoneRef& t) { return t->sequence > at; });
  return Of(std::move(some));
}

SequenceNumber RangeTombstones::NewestOf(size_t fragment, SequenceNumber at) const {
  SequenceNumber newest = 0;
  for (size_t node = fragment + fragments(); node > 0; node /= 2) {
    const auto begin = numbers_.begin() + first_of_node_[node],
               end = numbers_.begin() + first_of_node_[node + 1];
    const auto behind = std::upper_bound(begin, end, at);
    if (behind != begin) newest = std::max(newest, *std::prev(behind));
  }
  return newest;
}

size_t RangeTombstones::FirstBehind(std::string_view key) const {
  const auto behind = std::upper_bound(places_.begin(), places_.end(), key);
  if (behind == places_.begin()) return 0;
  return std::min(fragments(), static_cast<size_t>(behind - places_.begin()) - 1);
}

SequenceNumber RangeTombstones::Covering(std::string_view key, SequenceNumber at) const {
  const size_t f = FirstBehind(key);
  return f == fragments() || places_[f] > key ? 0 : NewestOf(f, at);
}

SequenceNumber RangeTombstones::Overlapping(const KeyInterval& keys, SequenceNumber at) const {
  SequenceNumber newest = 0;
  for (size_t f = FirstBehind(keys.first); f < fragments() && !keys.EndsBefore(places_[f]); ++f)
    newest = std::max(newest, NewestOf(f, at));
  return newest;
}

bool RangeTombstones::CoversAll(const KeyInterval& keys, SequenceNumber above, SequenceNumber at) const {
  std::string_view reached = keys.first;  // every key below it is covered
  for (size_t f = FirstBehind(keys.first);
       f < fragments() && places_[f] <= reached && NewestOf(f, at) > above; ++f) {
    reached = places_[f + 1];
    if (keys.EndsBefore(reached)) return true;
  }
  return false;
}

// Whoever reads sees every tombstone up to a snapshot, or all of them. So one is missed by nobody exactly if
// those that are newer, and not newer than the next snapshot, cover all of it: readers at later snapshots see
// these as well.
std::vector<SequenceNumber> RangeTombstones::Needless(std::span<const SequenceNumber> snapshots) const {
  std::vector<SequenceNumber> needless;
  Covered newer;
  auto snapshot = snapshots.rbegin();  // the latest below the tombstones that `newer` is made of
  for (auto t = all_.rbegin(); t != all_.rend(); ++t) {
    for (; snapshot != snapshots.rend() && *snapshot >= (*t)->sequence; ++snapshot) newer.Clear();
    if (newer.Contains((*t)->begin, (*t)->end)) {
      needless.push_back((*t)->sequence);
    } else {
      newer.Add((*t)->begin, (*t)->end);
    }
  }
  std::reverse(needless.begin(), needless.end());
  return needless;
}

}  // namespace nova
