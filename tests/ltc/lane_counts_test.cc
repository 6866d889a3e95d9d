#include "ltc/engine/lane_counts.h"

#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "common/base/thread.h"
#include "tests/ltc/manual_executor.h"

namespace nova {
namespace {

enum Fruit { kApples, kPears, kCounts };

TEST(LaneCountsTest, NothingThatThreadsCountIsLost) {
  constexpr size_t kThreads = 4;
  constexpr uint64_t kEach = 100'000;
  LaneCounts<Fruit> counts(kThreads);
  {
    std::vector<std::unique_ptr<Thread>> threads;
    for (size_t t = 0; t < kThreads; ++t) {
      threads.push_back(std::make_unique<Thread>("count", [&counts, t] {
        const ManualExecutor on(t);
        for (uint64_t i = 0; i < kEach; ++i) {
          counts.Of(&on).Add(kApples, 1);
          counts.Of(&on).Add(kPears, 2);
        }
      }));
    }
    for (uint64_t last = 0; last < kThreads * kEach / 2;) {  // beside them it only grows
      const uint64_t now = counts.Sum(kApples);
      ASSERT_GE(now, last);
      last = now;
    }
  }
  EXPECT_EQ(counts.Sum(kApples), kThreads * kEach);
  EXPECT_EQ(counts.Sum(kPears), 2 * kThreads * kEach);
}

}  // namespace
}  // namespace nova
