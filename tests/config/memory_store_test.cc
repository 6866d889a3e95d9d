#include "common/config/memory_store.h"

#include <gtest/gtest.h>

#include "common/base/simulation.h"

namespace nova {
namespace {

TEST(MemoryConfigTest, ASessionCutOffForItsTimeoutExpiresAndLearnsItOnItsReturn) {
  Simulation sim(1);
  sim.Run([] {
    MemoryConfig config({.session_timeout_ns = 2 * kSecond});
    auto a = config.NewSession();
    auto b = config.NewSession();
    ASSERT_TRUE(a->Create("/leader", "a", true).ok());
    Nanos gone = 0;
    b->Watch("/leader", [&] { gone = Now(); });
    a->SetReachable(false);
    const Nanos cut = Now();
    EXPECT_TRUE(absl::IsDeadlineExceeded(a->Get("/leader").status()));
    EXPECT_EQ(a->session_state(), SessionState::kConnecting);
    SleepFor(kMillisecond);
    EXPECT_EQ(gone, cut + 2 * kSecond);
    EXPECT_TRUE(absl::IsNotFound(b->Get("/leader").status()));
    a->SetReachable(true);
    EXPECT_EQ(a->session_state(), SessionState::kExpired);
    EXPECT_TRUE(absl::IsUnavailable(a->Set("/x", "", -1)));
  });
}

TEST(MemoryConfigTest, ASessionCutOffForLessGoesOn) {
  Simulation sim(2);
  sim.Run([] {
    MemoryConfig config({.session_timeout_ns = 2 * kSecond});
    auto a = config.NewSession();
    ASSERT_TRUE(a->Create("/leader", "a", true).ok());
    const Nanos answered = a->last_answered_send_ns();
    a->SetReachable(false);
    Thread back("back", [&] {
      SleepFor(1900 * kMillisecond);
      a->SetReachable(true);
    });
    EXPECT_TRUE(a->Get("/leader").ok());
    EXPECT_EQ(a->session_state(), SessionState::kConnected);
    // it was sent at the beginning of the cut, in the same instant
    EXPECT_EQ(a->last_answered_send_ns(), answered);
    EXPECT_TRUE(a->Get("/leader")->mine);
    EXPECT_GT(a->last_answered_send_ns(), answered);
  });
}

TEST(MemoryConfigTest, ExpiryOnCommandFiresItsOwnWatchesToo) {
  Simulation sim(3);
  sim.Run([] {
    MemoryConfig config;
    auto a = config.NewSession();
    bool fired = false;
    a->Watch("/x", [&] { fired = true; });
    a->Expire();
    SleepFor(kMillisecond);
    EXPECT_TRUE(fired);
    EXPECT_EQ(a->session_state(), SessionState::kExpired);
  });
}

// Row 38: the outcome is decided by reading.
TEST(MemoryConfigTest, ALostReplyIsUnknownWhetherTheWriteWasAppliedOrNot) {
  Simulation sim(4);
  sim.Run([] {
    MemoryConfig config;
    auto a = config.NewSession();
    a->LoseReplies(1);
    EXPECT_TRUE(absl::IsUnknown(a->Create("/applied", "")));
    EXPECT_TRUE(a->Get("/applied").ok());
    a->LoseRequests(1);
    EXPECT_TRUE(absl::IsUnknown(a->Create("/lost", "")));
    EXPECT_TRUE(absl::IsNotFound(a->Get("/lost").status()));
  });
}

TEST(MemoryConfigTest, IncrementSurvivesLostRepliesWithoutGivingANumberTwice) {
  Simulation sim(5);
  sim.Run([] {
    MemoryConfig config({.max_delay_ns = kMillisecond, .lost_reply_one_in = 3});
    auto a = config.NewSession();
    uint64_t last = 0;
    for (int i = 0; i < 100; ++i) {
      const StatusOr<uint64_t> n = a->Increment("/n");
      ASSERT_TRUE(n.ok());
      EXPECT_GT(*n, last);
      last = *n;
    }
    EXPECT_GT(last, 100u);  // some answers were lost
  });
}

TEST(MemoryConfigTest, SameSeedSameTrace) {
  const auto run = [](uint64_t seed) {
    Simulation sim(seed);
    sim.Run([] {
      MemoryConfig config({.max_delay_ns = kMillisecond, .lost_reply_one_in = 4});
      auto a = config.NewSession();
      auto b = config.NewSession();
      Thread t("other", [&] {
        for (int i = 0; i < 20; ++i) b->Increment("/n").IgnoreError();
      });
      for (int i = 0; i < 20; ++i) a->Increment("/n").IgnoreError();
    });
    return sim.trace_hash();
  };
  EXPECT_EQ(run(7), run(7));
  EXPECT_NE(run(7), run(8));
}

}  // namespace
}  // namespace nova
