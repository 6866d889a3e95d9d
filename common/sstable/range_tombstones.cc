#include "common/sstable/range_tombstones.h"

#include <algorithm>
#include <functional>
#include <set>

#include "common/base/log.h"

namespace nova {

RangeTombstonesRef RangeTombstones::Of(std::vector<RangeTombstoneRef> all) {
  if (all.empty()) return nullptr;
  auto list = std::make_shared<RangeTombstones>();
  std::sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return a->sequence < b->sequence; });
  // Where a tombstone begins or ends. Between two neighbouring places the same ones cover all keys.
  struct Place {
    std::string_view key;
    SequenceNumber sequence;
    bool begins;
  };
  std::vector<Place> places;
  places.reserve(2 * all.size());
  for (const RangeTombstoneRef& t : all) {
    NOVA_DCHECK(t->begin < t->end);
    places.push_back({t->begin, t->sequence, true});
    places.push_back({t->end, t->sequence, false});
  }
  std::sort(places.begin(), places.end(), [](const Place& a, const Place& b) { return a.key < b.key; });
  std::set<SequenceNumber, std::greater<>> covering;
  for (size_t i = 0; i < places.size(); ++i) {
    if (!covering.empty() && places[i].key != places[i - 1].key) {
      list->fragments_.push_back({places[i - 1].key, places[i].key, list->numbers_.size(), covering.size()});
      list->numbers_.insert(list->numbers_.end(), covering.begin(), covering.end());
    }
    if (places[i].begins) {
      covering.insert(places[i].sequence);
    } else {
      covering.erase(places[i].sequence);
    }
  }
  list->all_ = std::move(all);
  return list;
}

RangeTombstonesRef RangeTombstones::UpTo(const RangeTombstonesRef& list, SequenceNumber at) {
  if (list == nullptr || list->all_.back()->sequence <= at) return list;
  std::vector<RangeTombstoneRef> some = list->all_;
  std::erase_if(some, [at](const RangeTombstoneRef& t) { return t->sequence > at; });
  return Of(std::move(some));
}

SequenceNumber RangeTombstones::NewestOf(const Fragment& f, SequenceNumber at) const {
  const auto numbers = NumbersOf(f);
  const auto newest = std::lower_bound(numbers.begin(), numbers.end(), at, std::greater<>());
  return newest == numbers.end() ? 0 : *newest;
}

std::vector<RangeTombstones::Fragment>::const_iterator RangeTombstones::FirstBehind(std::string_view key) const {
  return std::partition_point(fragments_.begin(), fragments_.end(), [key](const Fragment& f) { return f.end <= key; });
}

SequenceNumber RangeTombstones::Covering(std::string_view key, SequenceNumber at) const {
  const auto f = FirstBehind(key);
  return f == fragments_.end() || f->begin > key ? 0 : NewestOf(*f, at);
}

SequenceNumber RangeTombstones::Overlapping(const KeyInterval& keys, SequenceNumber at) const {
  SequenceNumber newest = 0;
  for (auto f = FirstBehind(keys.first); f != fragments_.end() && !keys.EndsBefore(f->begin); ++f) newest = std::max(newest, NewestOf(*f, at));
  return newest;
}

bool RangeTombstones::CoversAll(const KeyInterval& keys, SequenceNumber above, SequenceNumber at) const {
  std::string_view reached = keys.first;  // every key below it is covered
  for (auto f = FirstBehind(keys.first); f != fragments_.end() && f->begin <= reached && NewestOf(*f, at) > above; ++f) {
    reached = f->end;
    if (keys.EndsBefore(reached)) return true;
  }
  return false;
}

std::vector<SequenceNumber> RangeTombstones::Needless(std::span<const SequenceNumber> snapshots) const {
  std::set<SequenceNumber> needed;
  for (const Fragment& f : fragments_) {
    SequenceNumber newer = kMaxSequenceNumber;
    for (const SequenceNumber n : NumbersOf(f)) {
      // Readers that see this one and not the newer one: snapshots in [n, newer), or those of now.
      const auto snapshot = std::lower_bound(snapshots.begin(), snapshots.end(), n);
      if (newer == kMaxSequenceNumber || (snapshot != snapshots.end() && *snapshot < newer)) needed.insert(n);
      newer = n;
    }
  }
  std::vector<SequenceNumber> needless;
  for (const RangeTombstoneRef& t : all_) {
    if (!needed.contains(t->sequence)) needless.push_back(t->sequence);
  }
  return needless;
}

}  // namespace nova
