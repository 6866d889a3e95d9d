// LaneCounts: counts of what request threads have done, for metrics. Each executor counts on a cache line of
// its own: an operation never waits for a line that another processor has just written.
//
// Thread safety: Add on the executor that it names; Sum from any thread, which may see less than was added.
// Ownership: none.   Errors: none.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "common/base/executor.h"
#include "common/base/log.h"

namespace nova {

// `Count`: an enum of what is counted, from 0 on; its last one, kCounts, says how many there are.
template <typename Count>
class LaneCounts {
 public:
  explicit LaneCounts(size_t executors) : lanes_(executors) {}

  void Add(const Executor* on, Count what, uint64_t n) {
    NOVA_DCHECK(on->IsCurrentThread());
    std::atomic<uint64_t>& count = lanes_[on->index()].counts[what];
    count.store(count.load(std::memory_order_relaxed) + n, std::memory_order_relaxed);
  }
  uint64_t Sum(Count what) const {
    uint64_t sum = 0;
    for (const Lane& lane : lanes_) sum += lane.counts[what].load(std::memory_order_relaxed);
    return sum;
  }

 private:
  struct alignas(64) Lane {
    std::array<std::atomic<uint64_t>, Count::kCounts> counts{};  // written by its executor alone
  };

  std::vector<Lane> lanes_;  // [i] belongs to executor i
};

}  // namespace nova
