#include "ltc/engine/sequence_tracker.h"

#include <gtest/gtest.h>

#include "common/base/random.h"
#include "common/base/thread.h"

namespace nova {
namespace {

TEST(SequenceTrackerTest, StableStopsBelowTheFirstUnfinishedNumber) {
  SequenceTracker t(10);
  EXPECT_EQ(t.Take(), 11u);
  EXPECT_EQ(t.Take(), 12u);
  EXPECT_EQ(t.Take(), 13u);
  t.Finish(13);
  t.Finish(11);
  EXPECT_EQ(t.stable(), 11u);
  bool ran = false;
  t.WhenStable(13, [&] { ran = true; });
  EXPECT_FALSE(ran);
  t.Finish(12);
  EXPECT_TRUE(ran);
  EXPECT_EQ(t.stable(), 13u);
}

TEST(SequenceTrackerTest, RefusesMoreThanAWindowOfUnfinishedNumbers) {
  SequenceTracker t(0);
  for (uint64_t i = 0; i < SequenceTracker::kWindow; ++i) ASSERT_NE(t.Take(), 0u);
  EXPECT_EQ(t.Take(), 0u);
  t.Finish(1);
  EXPECT_EQ(t.Take(), SequenceTracker::kWindow + 1);
}

TEST(SequenceTrackerTest, ConcurrentTakersAndFinishersLoseNoNumberAndNoWaiter) {
  SequenceTracker t(0);
  constexpr int kThreads = 4, kEach = 50'000;
  std::atomic<int> waited{0};
  {
    std::vector<std::unique_ptr<Thread>> threads;
    for (int i = 0; i < kThreads; ++i) {
      threads.push_back(std::make_unique<Thread>("t", [&] {
        for (int k = 0; k < kEach; ++k) {
          SequenceNumber s;
          // the window is full: another thread was paused holding a number
          while ((s = t.Take()) == 0) SleepFor(kMicrosecond);
          if (k % 100 == 0) t.WhenStable(s, [&] { waited.fetch_add(1); });
          t.Finish(s);
        }
      }));
    }
  }
  EXPECT_EQ(t.stable(), static_cast<SequenceNumber>(kThreads * kEach));
  EXPECT_EQ(waited.load(), kThreads * kEach / 100);
}

}  // namespace
}  // namespace nova
