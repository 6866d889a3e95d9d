#include "ltc/server/placement.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <tuple>

#include "common/base/coding.h"

namespace nova {
namespace {

void Shuffle(std::vector<size_t>* v, Random* random) {
  for (size_t i = v->size(); i > 1; --i) std::swap((*v)[i - 1], (*v)[random->Uniform(i)]);
}

}  // namespace

std::vector<StocChoice> WithBestDisks(const std::vector<StocChoice>& stocs, size_t count) {
  std::vector<DiskState> disks;
  for (const StocChoice& s : stocs) disks.push_back(s.disk);
  std::sort(disks.begin(), disks.end());
  if (disks.empty() || count == 0) return stocs;
  const DiskState worst = disks[std::min(count, disks.size()) - 1];
  std::vector<StocChoice> best;
  std::copy_if(stocs.begin(), stocs.end(), std::back_inserter(best),
               [worst](const StocChoice& s) { return s.disk <= worst; });
  return best;
}

std::vector<double> Backlogs(const std::vector<StocChoice>& stocs, uint64_t request_bytes) {
  double mean = 0;
  for (const StocChoice& s : stocs) mean += s.load.others_queued / static_cast<double>(stocs.size());
  std::vector<double> backlogs;
  for (const StocChoice& s : stocs) {
    const double fresh = std::exp2(-static_cast<double>(s.load.age_ns) / kDepthHalfLife);
    const double others = mean + (s.load.others_queued - mean) * fresh;
    backlogs.push_back(static_cast<double>(s.load.bytes_in_flight) +
                       others * static_cast<double>(request_bytes));
  }
  return backlogs;
}

std::vector<double> Slowness(const std::vector<StocChoice>& stocs) {
  constexpr double kChance = 1.5, kMost = 16;
  std::vector<double> known;
  for (const StocChoice& s : stocs) {
    if (s.load.pace.ns_per_byte > 0) known.push_back(s.load.pace.ns_per_byte);
  }
  std::vector<double> slowness(stocs.size(), 1);
  if (known.empty()) return slowness;
  const auto middle = known.begin() + static_cast<ptrdiff_t>((known.size() - 1) / 2);
  std::nth_element(known.begin(), middle, known.end());
  for (size_t i = 0; i < stocs.size(); ++i) {
    const StocPace& pace = stocs[i].load.pace;
    if (pace.ns_per_byte == 0) continue;
    const double times = std::clamp(pace.ns_per_byte / *middle, 1 / kMost, kMost);
    if (times > 1 / kChance && times < kChance) continue;
    slowness[i] = std::pow(times, std::exp2(-static_cast<double>(pace.age_ns) / kPaceHalfLife));
  }
  return slowness;
}

namespace {

// Of each StoC what it has to do until `bytes` more are stored, as bytes at the pace of the median one; a
// request of others counts as `request_bytes`.
std::vector<double> WorkUntilStored(const std::vector<StocChoice>& stocs, double bytes,
                                    uint64_t request_bytes) {
  std::vector<double> work = Backlogs(stocs, request_bytes);
  const std::vector<double> slowness = Slowness(stocs);
  for (size_t i = 0; i < work.size(); ++i) work[i] = (work[i] + bytes) * slowness[i];
  return work;
}

}  // namespace

std::vector<StocId> PickStocs(const std::vector<StocChoice>& all, size_t count, uint64_t bytes, int choices,
                              Random* random, std::set<std::string> hosts) {
  const std::vector<StocChoice> stocs = WithBestDisks(all, count);
  const std::vector<double> work = WorkUntilStored(stocs, static_cast<double>(bytes), bytes);
  std::vector<size_t> sample(stocs.size());
  std::iota(sample.begin(), sample.end(), 0);
  Shuffle(&sample, random);
  // One of each other host is drawn before a second one of any: else a small sample may be of few hosts.
  std::set<std::string> drawn = hosts;
  std::vector<bool> is_second(stocs.size());
  for (const size_t i : sample) is_second[i] = !drawn.insert(stocs[i].host).second;
  std::stable_sort(sample.begin(), sample.end(), [&](size_t a, size_t b) {
    return std::pair(stocs[a].disk, +is_second[a]) < std::pair(stocs[b].disk, +is_second[b]);
  });
  sample.resize(std::min(sample.size(), count * static_cast<size_t>(std::max(1, choices))));
  std::stable_sort(sample.begin(), sample.end(), [&](size_t a, size_t b) {
    return std::tuple(stocs[a].disk, work[a]) < std::tuple(stocs[b].disk, work[b]);
  });
  std::vector<StocId> picked;
  for (const bool other_hosts_only : {true, false}) {
    for (const size_t i : sample) {
      const StocChoice& s = stocs[i];
      if (picked.size() == count) return picked;
      if (std::find(picked.begin(), picked.end(), s.id) != picked.end()) continue;
      if (other_hosts_only && hosts.contains(s.host)) continue;
      picked.push_back(s.id);
      hosts.insert(s.host);
    }
  }
  return picked;
}

namespace {

// Those that first copies may lie on.
std::vector<StocChoice> TakersOfFirsts(const std::vector<StocChoice>& stocs, const std::string& host) {
  std::vector<StocChoice> near;
  std::copy_if(stocs.begin(), stocs.end(), std::back_inserter(near),
               [&host](const StocChoice& s) { return s.host == host; });
  return near.empty() ? stocs : near;
}

// `first`, and StoCs for the other copies of what lies there: on other hosts, if those are enough.
std::vector<StocId> WithOtherCopies(StocId first, size_t copies, uint64_t bytes,
                                    const std::vector<StocChoice>& stocs, int choices, Random* random) {
  std::vector<StocId> members{first};
  if (copies == 1) return members;
  const auto at =
      std::find_if(stocs.begin(), stocs.end(), [&](const StocChoice& s) { return s.id == first; });
  std::vector<StocChoice> others = stocs;
  std::erase_if(others, [&](const StocChoice& s) { return s.host == at->host; });
  if (others.size() < copies - 1) {  // not enough other hosts: distinct StoCs have to do
    others = stocs;
    std::erase_if(others, [&](const StocChoice& s) { return s.id == first; });
  }
  for (const StocId id : PickStocs(others, copies - 1, bytes, choices, random)) members.push_back(id);
  return members;
}

// Fragments of a table, see PlacementOptions.
size_t WidthOf(const std::vector<StocChoice>& firsts, uint64_t table_bytes, const PlacementOptions& options) {
  const uint64_t least = std::max<uint64_t>(1, options.min_fragment_bytes);
  const size_t width =
      std::min({static_cast<size_t>(std::max(1, options.scatter_width)),
                static_cast<size_t>(std::max<uint64_t>(1, table_bytes / least)), firsts.size()});
  if (!options.scatter_by_load) return width;
  size_t best = 1;
  double earliest = std::numeric_limits<double>::infinity();
  for (size_t w = 1; w <= width; ++w) {
    // A file and its sync take a disk as long as the least fragment.
    const double bytes =
        static_cast<double>(table_bytes) / static_cast<double>(w) + static_cast<double>(least);
    std::vector<double> work = WorkUntilStored(firsts, bytes, least);
    const auto last = work.begin() + static_cast<ptrdiff_t>(w - 1);
    std::nth_element(work.begin(), last, work.end());
    if (*last < earliest) best = w;
    earliest = std::min(earliest, *last);
  }
  return best;
}

}  // namespace

Placement PlaceTable(const std::vector<StocChoice>& all, uint64_t table_bytes,
                     const PlacementOptions& options, Random* random) {
  const std::vector<StocChoice> stocs =
      WithBestDisks(all, static_cast<size_t>(std::max(1, options.replicas)));
  Placement placement;
  if (stocs.empty()) return placement;
  const std::vector<StocChoice> firsts = TakersOfFirsts(stocs, options.first_copies_on);
  const size_t width = WidthOf(firsts, table_bytes, options);
  const uint64_t bytes = table_bytes / width;  // of a fragment
  const size_t copies = std::min(static_cast<size_t>(std::max(1, options.replicas)), stocs.size());
  for (const StocId first : PickStocs(firsts, width, bytes, options.choices, random))
    placement.fragments.push_back(WithOtherCopies(first, copies, bytes, stocs, options.choices, random));
  const StocId metadata = PickStocs(firsts, 1, bytes, options.choices, random).front();
  placement.metadata = WithOtherCopies(metadata, copies, bytes, stocs, options.choices, random);
  return placement;
}

std::vector<Placement> PlaceTables(std::vector<StocChoice> stocs, uint64_t table_bytes, size_t count,
                                   const PlacementOptions& options, Random* random) {
  std::vector<Placement> placements;
  while (!stocs.empty() && placements.size() < count) {
    const Placement& placed = placements.emplace_back(PlaceTable(stocs, table_bytes, options, random));
    for (const std::vector<StocId>& copies : placed.fragments) {
      for (StocChoice& s : stocs) {
        const bool takes_it = std::find(copies.begin(), copies.end(), s.id) != copies.end();
        if (takes_it) s.load.bytes_in_flight += table_bytes / placed.fragments.size();
      }
    }
  }
  return placements;
}

namespace {

// Its copies are to be elsewhere, and it takes none.
bool IsLeft(StocId stoc, const StocStates& stocs) {
  return stocs.draining.contains(stoc) || stocs.emptied.contains(stoc);
}

uint64_t Rank(const Uuid& table, uint32_t part, StocId stoc) {
  std::string bytes;
  PutFixed64(&bytes, table.hi);
  PutFixed64(&bytes, table.lo);
  PutFixed32(&bytes, part);
  PutFixed32(&bytes, stoc.value());
  return XXH3_64bits(bytes.data(), bytes.size());
}

// At most `count` StoCs for new copies of a part that is on `copies`.
std::vector<StocId> PickTakers(const Uuid& table, uint32_t part, const std::vector<StocId>& copies,
                               const StocStates& stocs, size_t count) {
  std::set<std::string> hosts;  // of copies that stay
  for (const StocId stoc : copies) {
    const auto live = stocs.live.find(stoc);
    if (live != stocs.live.end() && !IsLeft(stoc, stocs)) hosts.insert(live->second);
  }
  std::map<StocId, std::string> free = stocs.live;
  std::erase_if(free, [&](const auto& f) {
    return IsLeft(f.first, stocs) || stocs.avoided.contains(f.first) ||
           std::find(copies.begin(), copies.end(), f.first) != copies.end();
  });
  std::vector<StocId> takers;
  while (takers.size() < count && !free.empty()) {
    const auto rank = [&](const auto& f) {
      return std::tuple(stocs.slow.contains(f.first), hosts.contains(f.second), Rank(table, part, f.first));
    };
    const auto best = std::min_element(free.begin(), free.end(),
                                       [&](const auto& x, const auto& y) { return rank(x) < rank(y); });
    takers.push_back(best->first);
    hosts.insert(best->second);
    free.erase(best);
  }
  return takers;
}

// A StoC that takes no new copy now may take one of this part another time.
bool MayTakeLater(const std::vector<StocId>& copies, const StocStates& stocs) {
  return std::any_of(stocs.avoided.begin(), stocs.avoided.end(), [&](StocId stoc) {
    return stocs.live.contains(stoc) && !IsLeft(stoc, stocs) &&
           std::find(copies.begin(), copies.end(), stoc) == copies.end();
  });
}

void PlanPart(const TableInfo& table, uint32_t part, const StocStates& stocs, size_t replicas,
              std::vector<PartCopy>* plan) {
  const std::vector<StocId>& copies = *CopiesOf(table, part);
  size_t staying = 0, staying_live = 0, live = 0;
  // Of them, those that are waited for first: draining ones, then emptied ones.
  std::vector<StocId> leaving;
  const auto draining_end = [&] {
    return std::find_if(leaving.begin(), leaving.end(),
                        [&](StocId stoc) { return !stocs.draining.contains(stoc); });
  };
  for (const StocId stoc : copies) {
    const bool lives = stocs.live.contains(stoc);
    live += lives;
    if (stocs.draining.contains(stoc)) {
      leaving.insert(leaving.begin(), stoc);
    } else if (stocs.emptied.contains(stoc)) {
      leaving.insert(draining_end(), stoc);
    } else if (stocs.lost.contains(stoc)) {
      leaving.push_back(stoc);
    } else {
      ++staying;
      staying_live += lives;
    }
  }
  if (live == 0) return;  // there is nothing to copy from
  auto next = leaving.begin();
  if (staying < replicas) {
    const std::vector<StocId> takers = PickTakers(table.uuid, part, copies, stocs, replicas - staying);
    for (const StocId to : takers) plan->push_back({part, next == leaving.end() ? StocId() : *next++, to});
    staying += takers.size();
    staying_live += takers.size();
  }
  for (; next != leaving.end(); ++next) {
    const bool needless = staying >= replicas;
    const bool hopeless = stocs.draining.contains(*next) && !MayTakeLater(copies, stocs);
    if ((needless || hopeless) && staying_live > 0) plan->push_back({part, *next, {}});
  }
}

}  // namespace

std::vector<PartCopy> PlanCopies(const TableInfo& table, const StocStates& stocs, int replicas) {
  std::vector<PartCopy> plan;
  ForEachPart(table, [&](uint32_t part) {
    PlanPart(table, part, stocs, static_cast<size_t>(std::max(1, replicas)), &plan);
  });
  return plan;
}

}  // namespace nova
