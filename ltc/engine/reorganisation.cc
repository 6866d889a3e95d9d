#include "ltc/engine/reorganisation.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>
#include <span>

namespace nova {
namespace {

using Bucket = WriteHistogram::Bucket;

// Dranges as sets of buckets: Drange i has the buckets from starts[i] on. A bucket that a cut goes through
// counts to the Drange before the cut.
struct Partition {
  std::vector<std::string> cuts;
  std::vector<size_t> starts;  // of each Drange, the first 0; and the number of buckets behind them
  size_t size() const { return starts.size() - 1; }
};

// The cut before bucket i. A bucket of one key before it ends with that key: a point [k, k] stays one.
std::string CutBefore(std::span<const Bucket> buckets, size_t i) {
  if (!buckets[i - 1].single()) return buckets[i].first;
  std::string cut = buckets[i - 1].first;
  cut.push_back('\0');
  return cut;
}

Partition PartitionOf(const DrangeMapRef& map, std::span<const Bucket> buckets) {
  Partition p;
  p.starts.push_back(0);
  if (map != nullptr) p.cuts = map->cuts();
  for (const std::string& cut : p.cuts) {
    const auto at = std::lower_bound(buckets.begin(), buckets.end(), cut,
                                     [](const Bucket& b, const std::string& key) { return b.first < key; });
    p.starts.push_back(static_cast<size_t>(at - buckets.begin()));
  }
  p.starts.push_back(buckets.size());
  return p;
}

std::vector<double> LoadsOf(const Partition& p, std::span<const Bucket> buckets) {
  std::vector<double> loads(p.size(), 0);
  for (size_t d = 0; d < p.size(); ++d) {
    for (size_t i = p.starts[d]; i < p.starts[d + 1]; ++i) loads[d] += buckets[i].load;
  }
  return loads;
}

double StandardDeviation(const std::vector<double>& shares) {
  const double mean = 1.0 / static_cast<double>(shares.size());
  double sum = 0;
  for (const double s : shares) sum += (s - mean) * (s - mean);
  return std::sqrt(sum / static_cast<double>(shares.size()));
}

// The load that each of `dranges` is to have: an equal part of what no bucket of more than that has. That may
// be next to none.
double GoalOf(std::span<const Bucket> buckets, size_t dranges) {
  std::vector<double> loads;
  for (const Bucket& b : buckets) loads.push_back(b.load);
  std::sort(loads.begin(), loads.end());
  // sums from the least on: a rest that is far below the rounding of all load is still right
  std::vector<double> sums(loads.size());
  std::partial_sum(loads.begin(), loads.end(), sums.begin());
  size_t left = dranges, n = loads.size();
  while (n > 1 && left > 1 && loads[n - 1] * static_cast<double>(left) > sums[n - 1]) {
    --n;
    --left;
  }
  return sums[n - 1] / static_cast<double>(left);
}

// All cuts anew, for Dranges of about `goal`: buckets of more are alone, and the buckets between two such are
// cut into equal parts.
Partition CutByGoal(std::span<const Bucket> buckets, double goal) {
  Partition p;
  p.starts.push_back(0);
  const auto cut_before = [&](size_t i) {
    if (i == p.starts.back() || i == buckets.size()) return;
    p.cuts.push_back(CutBefore(buckets, i));
    p.starts.push_back(i);
  };
  for (size_t begin = 0, end = 0; begin < buckets.size(); begin = end + 1) {
    double load = 0;
    for (end = begin; end < buckets.size() && buckets[end].load <= goal; ++end) load += buckets[end].load;
    const double parts = load > goal ? std::round(load / goal) : 1;
    double before = 0;  // of [begin, i)
    for (size_t i = begin, cuts = 1; i < end; ++i) {
      if (before + buckets[i].load / 2 > static_cast<double>(cuts) * load / parts && cuts < parts) {
        cut_before(i);
        ++cuts;
      }
      before += buckets[i].load;
    }
    cut_before(end);  // a bucket of more than the goal
    cut_before(end + 1 > buckets.size() ? buckets.size() : end + 1);
  }
  p.starts.push_back(buckets.size());
  return p;
}

// Puts the two neighbours together that have the least load between them.
void MergeLeast(std::span<const Bucket> buckets, Partition* p) {
  const std::vector<double> loads = LoadsOf(*p, buckets);
  size_t least = 0;
  for (size_t d = 1; d + 1 < loads.size(); ++d) {
    if (loads[d] + loads[d + 1] < loads[least] + loads[least + 1]) least = d;
  }
  p->cuts.erase(p->cuts.begin() + static_cast<ptrdiff_t>(least));
  p->starts.erase(p->starts.begin() + static_cast<ptrdiff_t>(least + 1));
}

// Parts are rounded, so a larger goal may be needed. Where it would have to be far larger, hot keys lie apart
// and have next to all load: what lies between them goes to neighbours.
Partition Major(std::span<const Bucket> buckets, size_t dranges) {
  constexpr int kSteps = 15;  // to twice the goal
  double goal = GoalOf(buckets, dranges);
  Partition p = CutByGoal(buckets, goal);
  for (int i = 0; i < kSteps && p.size() > dranges; ++i) p = CutByGoal(buckets, goal *= 1.05);
  while (p.size() > dranges) MergeLeast(buckets, &p);
  return p;
}

// The Drange with the most load over `most` of those that can be made smaller; nullopt: none.
std::optional<size_t> Overloaded(const Partition& p, const std::vector<double>& loads, double most) {
  std::optional<size_t> worst;
  for (size_t d = 0; d < p.size(); ++d) {
    if (loads[d] <= most || p.starts[d + 1] - p.starts[d] < 2) continue;
    if (!worst || loads[d] > loads[*worst]) worst = d;
  }
  return worst;
}

// Moves the bucket at an edge of Drange `from` to its neighbour, the one with less load first. False: either
// neighbour would then have as much. Each move makes the loads more equal, so they come to an end.
bool MoveEdge(std::span<const Bucket> buckets, size_t from, Partition* p, std::vector<double>* loads) {
  const bool has_left = from > 0, has_right = from + 1 < p->size();
  const bool left_first = has_left && (!has_right || (*loads)[from - 1] <= (*loads)[from + 1]);
  for (const bool left : {left_first, !left_first}) {
    if (left ? !has_left : !has_right) continue;
    const size_t to = left ? from - 1 : from + 1;
    const size_t bucket = left ? p->starts[from] : p->starts[from + 1] - 1;
    const double load = buckets[bucket].load;
    if ((*loads)[to] + load >= (*loads)[from]) continue;
    const size_t at = left ? bucket + 1 : bucket;  // where the cut between the two is now
    const size_t cut = left ? from - 1 : from;
    p->starts[cut + 1] = at;
    p->cuts[cut] = CutBefore(buckets, at);
    (*loads)[from] -= load;
    (*loads)[to] += load;
    return true;
  }
  return false;
}

// False: a Drange has more than `major` still. Loads are rounded, so the number of moves has a bound as well.
bool Minor(std::span<const Bucket> buckets, double minor, double major, Partition* p) {
  std::vector<double> loads = LoadsOf(*p, buckets);
  for (size_t moves = 0; moves < buckets.size(); ++moves) {
    const auto from = Overloaded(*p, loads, minor);
    if (!from) return true;
    if (!MoveEdge(buckets, *from, p, &loads)) return loads[*from] <= major;
  }
  return false;
}

std::vector<double> SharesOf(const Partition& p, const WriteHistogram& seen) {
  std::vector<double> shares = LoadsOf(p, seen.buckets());
  for (double& share : shares) share /= std::max(seen.load(), 1e-300);
  return shares;
}

// Other than so many Dranges are wanted: fewer or more by half, or more than `most` are there.
bool IsOtherSize(size_t now, size_t wanted, size_t most) {
  return wanted * 2 > now * 3 || now * 2 > wanted * 3 || now > most;
}

}  // namespace

std::vector<double> SharesOf(const DrangeMapRef& map, const WriteHistogram& seen) {
  return SharesOf(PartitionOf(map, seen.buckets()), seen);
}

Reorganised Reorganise(const DrangeMapRef& now, const WriteHistogram& seen, uint64_t flush_bytes,
                       const ReorganisationOptions& options) {
  Reorganised r;
  r.map = now;
  const std::span<const Bucket> buckets = seen.buckets();
  if (buckets.empty()) return r;
  const auto wanted =
      static_cast<size_t>(std::clamp<uint64_t>(flush_bytes / std::max<uint64_t>(options.least_table_bytes, 1),
                                               1, static_cast<uint64_t>(options.dranges)));
  Partition p = PartitionOf(now, buckets);
  r.imbalance = r.imbalance_before = StandardDeviation(SharesOf(now, seen));
  const double goal = GoalOf(buckets, p.size());
  const double minor = goal * (1 + options.minor_threshold), major = goal * (1 + options.major_threshold);
  if (IsOtherSize(p.size(), wanted, static_cast<size_t>(options.dranges))) {
    r.kind = Reorganised::Kind::kMajor;
  } else if (Overloaded(p, LoadsOf(p, buckets), minor)) {
    r.kind = Minor(buckets, minor, major, &p) ? Reorganised::Kind::kMinor : Reorganised::Kind::kMajor;
  }
  if (r.kind == Reorganised::Kind::kMajor) p = Major(buckets, wanted);
  if (p.cuts == (now == nullptr ? std::vector<std::string>() : now->cuts())) {
    r.kind = Reorganised::Kind::kNone;
    return r;
  }
  r.imbalance = StandardDeviation(SharesOf(p, seen));
  r.map = std::make_shared<const DrangeMap>(std::move(p.cuts), now == nullptr ? 1 : now->generation() + 1);
  return r;
}

}  // namespace nova
