#include "common/base/histogram.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace nova {

size_t Histogram::BucketOf(uint64_t value) {
  if (value < (1u << kSubBits)) return value;
  const int shift = 63 - std::countl_zero(value) - kSubBits;
  return (static_cast<size_t>(shift + 1) << kSubBits) + ((value >> shift) & ((1u << kSubBits) - 1));
}

uint64_t Histogram::UpperBoundOf(size_t bucket) {
  if (bucket < (1u << kSubBits)) return bucket;
  const int shift = static_cast<int>(bucket >> kSubBits) - 1;
  const uint64_t low = ((uint64_t{1} << kSubBits) + (bucket & ((1u << kSubBits) - 1))) << shift;
  return low + (uint64_t{1} << shift) - 1;
}

void Histogram::Add(uint64_t value) {
  buckets_[BucketOf(value)].fetch_add(1, std::memory_order_relaxed);
  sum_.fetch_add(value, std::memory_order_relaxed);
  uint64_t m = max_.load(std::memory_order_relaxed);
  while (value > m && !max_.compare_exchange_weak(m, value, std::memory_order_relaxed)) {
  }
}

void Histogram::Merge(const Histogram& other) {
  for (size_t i = 0; i < kBuckets; ++i) {
    const uint64_t n = other.buckets_[i].load(std::memory_order_relaxed);
    if (n != 0) buckets_[i].fetch_add(n, std::memory_order_relaxed);
  }
  sum_.fetch_add(other.sum(), std::memory_order_relaxed);
  const uint64_t theirs = other.max();
  uint64_t m = max_.load(std::memory_order_relaxed);
  while (theirs > m && !max_.compare_exchange_weak(m, theirs, std::memory_order_relaxed)) {
  }
}

void Histogram::Clear() {
  for (auto& b : buckets_) b.store(0, std::memory_order_relaxed);
  sum_.store(0, std::memory_order_relaxed);
  max_.store(0, std::memory_order_relaxed);
}

uint64_t Histogram::count() const {
  uint64_t n = 0;
  for (const auto& b : buckets_) n += b.load(std::memory_order_relaxed);
  return n;
}

double Histogram::Mean() const {
  const uint64_t n = count();
  return n == 0 ? 0 : static_cast<double>(sum()) / static_cast<double>(n);
}

uint64_t Histogram::Percentile(double p) const {
  const uint64_t n = count();
  if (n == 0) return 0;
  const auto rank = std::max<uint64_t>(1, static_cast<uint64_t>(std::ceil(p / 100 * static_cast<double>(n))));
  uint64_t seen = 0;
  for (size_t i = 0; i < kBuckets; ++i) {
    seen += buckets_[i].load(std::memory_order_relaxed);
    if (seen >= rank) return std::min(UpperBoundOf(i), max());
  }
  return max();
}

}  // namespace nova
