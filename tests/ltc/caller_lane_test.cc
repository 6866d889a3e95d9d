// A lane has one holder at a time; what is submitted runs, on the holder's thread or on the submitter's.
#include "ltc/embedded/caller_lane.h"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <vector>

#include "common/base/thread.h"

namespace nova {
namespace {

TEST(CallerLane, OneHolderAtATime) {
  CallerLane lane(0);
  int inside = 0, entered = 0;
  {
    std::vector<std::unique_ptr<Thread>> threads;
    for (int t = 0; t < 4; ++t) {
      threads.push_back(std::make_unique<Thread>("caller", [&] {
        for (int i = 0; i < 20'000; ++i) {
          CallerLane::Hold hold(&lane);
          EXPECT_TRUE(lane.IsCurrentThread());
          EXPECT_EQ(++inside, 1);
          ++entered;
          --inside;
        }
      }));
    }
  }
  EXPECT_EQ(entered, 80'000);
}

TEST(CallerLane, SubmittedToAFreeLaneRunsAtOnce) {
  CallerLane lane(0);
  bool ran = false;
  lane.Submit([&] {
    EXPECT_TRUE(lane.IsCurrentThread());
    ran = true;
  });
  EXPECT_TRUE(ran);
  EXPECT_FALSE(lane.IsCurrentThread());
}

TEST(CallerLane, SubmittedFromAnotherThreadEndsAWait) {
  CallerLane lane(0);
  for (int i = 0; i < 2'000; ++i) {
    bool done = false;
    Thread other("other", [&] { lane.Submit([&] { done = true; }); });
    CallerLane::Hold hold(&lane);
    hold.RunUntil(&done);
    EXPECT_TRUE(done);
  }
}

TEST(CallerLane, NothingSubmittedIsLostWhileHoldersComeAndGo) {
  CallerLane lane(0);
  std::atomic<int> ran{0};
  {
    Thread holder("holder", [&] {
      for (int i = 0; i < 50'000; ++i) CallerLane::Hold hold(&lane);
    });
    Thread first("first", [&] {
      for (int i = 0; i < 20'000; ++i) lane.Submit([&] { ++ran; });
    });
    Thread second("second", [&] {
      for (int i = 0; i < 20'000; ++i) lane.Submit([&] { ++ran; });
    });
  }
  CallerLane::Hold hold(&lane);
  EXPECT_EQ(ran, 40'000);
}

TEST(CallerLane, TimersRunInTheWaitOfTheHolder) {
  CallerLane lane(0);
  CallerLane::Hold hold(&lane);
  std::vector<int> order;
  bool done = false;
  const Nanos start = Now();
  lane.RunAt(start + 4 * kMillisecond, [&] {
    order.push_back(2);
    done = true;
  });
  lane.RunAt(start + 2 * kMillisecond, [&] { order.push_back(1); });
  hold.RunUntil(&done);
  EXPECT_EQ(order, (std::vector<int>{1, 2}));
  EXPECT_GE(Now() - start, 4 * kMillisecond);
}

}  // namespace
}  // namespace nova
