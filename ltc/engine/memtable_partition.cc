#include "ltc/engine/memtable_partition.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "ltc/engine/reorganisation.h"

namespace nova {
namespace {

constexpr double kInexact = 1e-6;  // sums of loads

// Siblings that a bucket is due beyond the one that its Drange has: whole equal parts of the load that its
// first key has.
uint32_t ExtraOf(const WriteHistogram::Bucket& bucket, double load, uint32_t siblings) {
  const auto parts = static_cast<uint32_t>(bucket.first_key / load * siblings + kInexact);
  return std::clamp(parts, 1u, MemtablePartition::kMostCopies) - 1;
}

// Of each Drange: one, and what its hot keys are due.
std::vector<uint32_t> CopiesFor(const DrangeMapRef& map, const WriteHistogram& seen, uint32_t siblings) {
  std::vector<uint32_t> copies(map == nullptr ? 1 : map->size(), 1);
  for (const WriteHistogram::Bucket& b : seen.buckets()) {
    const uint32_t extra = ExtraOf(b, seen.load(), siblings);
    if (extra > 0) copies[map == nullptr ? 0 : map->Of(b.first)] += extra;
  }
  return copies;
}

}  // namespace

MemtablePartition::MemtablePartition(DrangeMapRef map, const std::vector<uint32_t>& copies)
    : map_(std::move(map)) {
  starts_.push_back(0);
  for (const uint32_t n : copies) starts_.push_back(starts_.back() + n);
}

double MemtablePartition::ImbalanceOf(const WriteHistogram& seen) const {
  const std::vector<double> shares = SharesOf(map_, seen);
  const auto n = static_cast<double>(siblings());
  double sum = 0;
  for (size_t i = 0; i < shares.size(); ++i) {
    const double copies = OfDrange(i).count, off = shares[i] / copies - 1 / n;
    sum += copies * off * off;
  }
  return std::sqrt(sum / n);
}

// The Dranges get what hot keys leave of the siblings: the parts of a hot key are whole ones, so the key
// leaves at least one for its own Drange, and the sum is at most `siblings`.
MemtablePartitionRef PartitionFor(const MemtablePartitionRef& now, const WriteHistogram& seen,
                                  uint32_t siblings) {
  if (seen.load() <= 0) return now;
  uint32_t extra = 0;
  for (const WriteHistogram::Bucket& b : seen.buckets()) extra += ExtraOf(b, seen.load(), siblings);
  ReorganisationOptions options;
  options.dranges = static_cast<int>(siblings - extra);
  options.least_table_bytes = 1;  // a memtable of few keys costs little
  const DrangeMapRef before = now == nullptr ? nullptr : now->map();
  const Reorganised r = Reorganise(before, seen, std::numeric_limits<uint64_t>::max(), options);
  const std::vector<uint32_t> copies = CopiesFor(r.map, seen, siblings);
  auto next = std::make_shared<const MemtablePartition>(r.map, copies);
  if (now == nullptr || r.map != before) return next;
  for (size_t i = 0; i < copies.size(); ++i) {
    if (copies[i] != now->OfDrange(i).count) return next;
  }
  return now;
}

}  // namespace nova
