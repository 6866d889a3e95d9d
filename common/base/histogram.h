// Histogram: counts of values in log-linear buckets (32 per power of two: within 3.2 %), from 0 to 2^63.
//
// Thread safety: Add from any thread (relaxed atomics, no lock); readers see a count that may lag by a few
//                adds.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>

namespace nova {

class Histogram {
 public:
  void Add(uint64_t value);
  void Merge(const Histogram& other);
  void Clear();
  uint64_t count() const;
  uint64_t sum() const { return sum_.load(std::memory_order_relaxed); }
  uint64_t max() const { return max_.load(std::memory_order_relaxed); }
  double Mean() const;
  uint64_t Percentile(double p) const;  // p in (0, 100]; 0 when empty

 private:
  static constexpr int kSubBits = 5;
  static constexpr size_t kBuckets = (64 - kSubBits + 1) << kSubBits;
  static size_t BucketOf(uint64_t value);
  static uint64_t UpperBoundOf(size_t bucket);

  std::array<std::atomic<uint64_t>, kBuckets> buckets_{};
  std::atomic<uint64_t> sum_{0};
  std::atomic<uint64_t> max_{0};
};

}  // namespace nova
