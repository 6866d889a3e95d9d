// A lane has one holder at a time; what is submitted runs, on the holder's thread or on the submitter's.
#include "ltc/embedded/caller_lane.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <atomic>
#include <memory>
#include <vector>

#include "common/base/random.h"
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

// An operation that a timer ends, as a write that waits for its turn.
void SleepOnLane(CallerLane* lane, Nanos how_long) {
  CallerLane::Hold hold(lane);
  bool done = false;
  lane->RunAt(Now() + how_long, [&done] { done = true; });
  hold.RunUntil(&done);
  EXPECT_TRUE(done);
}

// Whoever wakes finds what it waited for, or a timer that is due: sleepers of a lane do not wake each other.
TEST(CallerLane, AWaitWakesItsOwnThread) {
  constexpr int kThreads = 64, kWaits = 40;
  CallerLane lane(0);
  rusage before, after;
  getrusage(RUSAGE_SELF, &before);
  {
    std::vector<std::unique_ptr<Thread>> threads;
    for (int t = 0; t < kThreads; ++t) {
      threads.push_back(std::make_unique<Thread>("sleeper", [&] {
        for (int i = 0; i < kWaits; ++i) SleepOnLane(&lane, 5 * kMillisecond);
      }));
    }
  }
  getrusage(RUSAGE_SELF, &after);
  EXPECT_LT(after.ru_nvcsw - before.ru_nvcsw, 10 * kThreads * kWaits) << "of 64 for each wait if all woke";
}

// Timers, closures from other threads and borrowers of a lane on which others sleep: each wait ends.
TEST(CallerLane, NobodySleepsForEver) {
  CallerLane lane(0);
  std::atomic<int> ended{0};
  {
    std::vector<std::unique_ptr<Thread>> threads;
    for (uint64_t t = 0; t < 8; ++t) {
      threads.push_back(std::make_unique<Thread>("caller", [&lane, &ended, t] {
        Random random(t + 1);
        for (int i = 0; i < 1'500; ++i, ++ended) {
          const uint64_t what = random.Uniform(4);
          if (what == 0) {
            SleepOnLane(&lane, static_cast<Nanos>(random.Uniform(300)) * kMicrosecond);
          } else if (what == 1) {
            lane.Submit([] {});
          } else if (what == 2) {
            const CallerLane::Hold borrowed(&lane);
          } else {
            bool done = false;
            Thread log("log", [&] { lane.Submit([&done] { done = true; }); });
            CallerLane::Hold hold(&lane);
            hold.RunUntil(&done);
            EXPECT_TRUE(done);
          }
        }
      }));
    }
  }
  EXPECT_EQ(ended, 8 * 1'500);
}

}  // namespace
}  // namespace nova
