// Histogram: counts of values from 0 to 2^63 in log-linear buckets, 32 for each power of two, which
// is within 3.2 %.
//
// Thread safety: Add from any thread (relaxed atomics, no lock); readers may lag by a few values. Clear and
//   Merge may lose values that are added meanwhile.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>

namespace nova {

class Histogram {
 public:
  void Add(uint64_t value);
  void Merge(const Histogram& other);  // adds the counts of `other`
  void Clear();
  uint64_t count() const;
  uint64_t sum() const { return sum_.load(std::memory_order_relaxed); }
  uint64_t max() const { return max_.load(std::memory_order_relaxed); }
  double Mean() const;
  // Upper bound of the value's bucket; p in (0, 100]; 0: empty.
  uint64_t Percentile(double p) const;

 private:
  static constexpr int kSubBits = 5;  // log2 of the buckets for each power of two
  static constexpr size_t kBuckets = (64 - kSubBits + 1) << kSubBits;
  static size_t BucketOf(uint64_t value);
  static uint64_t UpperBoundOf(size_t bucket);  // the largest value in it

  std::array<std::atomic<uint64_t>, kBuckets> buckets_{};
  std::atomic<uint64_t> sum_{0};
  std::atomic<uint64_t> max_{0};
};

}  // namespace nova
