// LaneCounts: counts of what request threads have done, for metrics. Each executor counts on a cache line of
// its own: an operation never waits for a line that another processor has just written.
//
// Thread safety: Of, and what it returns, on the executor that it names; Sum from any thread, which may see
// less than was added.
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
  class alignas(64) Lane {
   public:
    // Returns what there is now.
    uint64_t Add(Count what, uint64_t n) {
      const uint64_t now = counts_[what].load(std::memory_order_relaxed) + n;
      counts_[what].store(now, std::memory_order_relaxed);
      return now;
    }

   private:
    friend class LaneCounts;
    std::array<std::atomic<uint64_t>, Count::kCounts> counts_{};  // written by its executor alone
  };

  explicit LaneCounts(size_t executors) : lanes_(executors) {}

  Lane& Of(const Executor* on) {
    NOVA_DCHECK(on->IsCurrentThread());
    return lanes_[on->index()];
  }
  uint64_t Sum(Count what) const {
    uint64_t sum = 0;
    for (const Lane& lane : lanes_) sum += lane.counts_[what].load(std::memory_order_relaxed);
    return sum;
  }

 private:
  std::vector<Lane> lanes_;  // [i] belongs to executor i
};

}  // namespace nova
