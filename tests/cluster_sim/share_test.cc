// LTCs that are added, or come back from the dead, get their share of the ranges (coordinator/range_share.h),
// while clients read and write.
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/cluster_sim/scenario.h"

namespace nova {
namespace {

constexpr int kRanges = 7;

SimClusterOptions Options() {
  SimClusterOptions options = SmallCluster();
  options.ltcs = 3;
  options.client.timeout_ms = 60'000;
  options.coordinator.cluster.share_after_ns = 3 * kSecond;
  return options;
}

struct World : OneRange {
  explicit World(const SimClusterOptions& options = Options()) : OneRange(options, kRanges) {}

  // Open ranges by owner that runs; an owner without any is there, too.
  std::map<std::string, int> Counts() {
    std::map<std::string, int> counts;
    for (const std::string& ltc : cluster.Names("ltc")) {
      if (cluster.Runs(ltc)) counts[ltc] = 0;
    }
    for (const auto& [id, record] : cluster.Records()) {
      if (record.state == RangeState::kOpen && counts.contains(record.owner)) ++counts[record.owner];
    }
    return counts;
  }
  bool Even() {
    const std::map<std::string, int> counts = Counts();
    int all = 0, most = 0, fewest = kRanges;
    for (const auto& [ltc, n] : counts) {
      all += n;
      most = std::max(most, n);
      fewest = std::min(fewest, n);
    }
    return all == kRanges && most - fewest <= 1;
  }
  bool WaitEven(Nanos within) {
    for (const Nanos until = Now() + within; Now() < until; SleepFor(kSecond / 10)) {
      if (Even()) return true;
    }
    return false;
  }
  uint64_t Epochs() {
    uint64_t sum = 0;
    for (const auto& [id, record] : cluster.Records()) sum += record.epoch.value();
    return sum;
  }
};

TEST(ShareTest, AnLtcThatComesBackGetsItsShareAndThenNothingMoves) {
  Simulate(11, [] {
    World world;
    History history;
    std::string violation;
    Load load(world.client.get(), &history, LoadOptions{}, &violation);
    std::atomic<bool> stop{false};
    Thread writer("writer", [&] {
      while (!stop && !load.Violated()) load.Step();
    });
    world.cluster.Kill("ltc-1");
    ASSERT_TRUE(world.cluster.WaitOpen(kRanges, 30 * kSecond));
    ASSERT_EQ(world.Counts().size(), 2U);
    ASSERT_TRUE(world.cluster.Start("ltc-1").ok());
    EXPECT_FALSE(world.Even());
    EXPECT_TRUE(world.WaitEven(60 * kSecond)) << world.Counts()["ltc-1"];
    stop = true;
    writer.Join();
    load.Verify();
    EXPECT_EQ(violation, "");
    const uint64_t epochs = world.Epochs();
    SleepFor(60 * kSecond);
    EXPECT_EQ(world.Epochs(), epochs) << "ranges went on moving";
  });
}

TEST(ShareTest, WhatARangeHasCountedStaysWithTheLtcThatItLeaves) {
  Simulate(11, [] {
    World world;
    for (int i = 0; i < 1000; i += 5) ASSERT_TRUE(world.client->Put(KeyOf(i), "v").ok());
    for (int i = 0; i < 1000; i += 5) ASSERT_TRUE(world.client->Get(KeyOf(i)).ok());
    const double gets = world.cluster.Metric("ltc", "nova_ltc_get_memtables_total");
    ASSERT_GT(gets, 0);
    std::string left;
    for (const Nanos until = Now() + 60 * kSecond; world.Counts()["ltc-1"] > 0;) {
      ASSERT_LT(Now(), until);
      ASSERT_TRUE(world.client->Drain("ltc-1", &left).ok());
      SleepFor(kSecond / 10);
    }
    SleepFor(kSecond);  // until it has let go of the last one
    EXPECT_GE(world.cluster.Metric("ltc", "nova_ltc_get_memtables_total"), gets);
    EXPECT_GT(world.cluster.Metric("ltc-1", "nova_ltc_flushed_entries_total"), 0)
        << "what it has flushed to let go of its ranges";
  });
}

TEST(ShareTest, NothingMovesWhileAStocIsAway) {
  Simulate(12, [] {
    World world;
    world.cluster.Kill("ltc-1");
    ASSERT_TRUE(world.cluster.WaitOpen(kRanges, 30 * kSecond));
    world.cluster.Kill("stoc-2");
    SleepFor(5 * kSecond);  // until it is missed
    ASSERT_TRUE(world.cluster.Start("ltc-1").ok());
    SleepFor(30 * kSecond);
    EXPECT_EQ(world.Counts()["ltc-1"], 0);
    ASSERT_TRUE(world.cluster.Start("stoc-2").ok());
    EXPECT_TRUE(world.WaitEven(60 * kSecond)) << world.Counts()["ltc-1"];
  });
}

TEST(ShareTest, OneThatDiesInTheMiddleOfItsShareLeavesNoRangeClosed) {
  Simulate(13, [] {
    World world;
    world.cluster.Kill("ltc-1");
    ASSERT_TRUE(world.cluster.WaitOpen(kRanges, 30 * kSecond));
    for (int i = 0; i < 5; ++i) {
      ASSERT_TRUE(world.cluster.Start("ltc-1").ok());
      for (const Nanos until = Now() + 60 * kSecond; world.Counts()["ltc-1"] == 0;) {
        ASSERT_LT(Now(), until);
        SleepFor(kMillisecond * 20);
      }
      SleepFor(i * 300 * kMillisecond);
      world.cluster.Kill("ltc-1");
      ASSERT_TRUE(world.cluster.WaitOpen(kRanges, 30 * kSecond));
    }
    ASSERT_TRUE(world.cluster.Start("ltc-1").ok());
    EXPECT_TRUE(world.WaitEven(60 * kSecond));
  });
}

// Heard by the coordinator, and cut from every StoC: it cannot open anything.
TEST(ShareTest, OneThatReachesNoStocGivesBackWhatItCannotOpen) {
  Simulate(15, [] {
    World world;
    world.cluster.Kill("ltc-1");
    ASSERT_TRUE(world.cluster.WaitOpen(kRanges, 30 * kSecond));
    ASSERT_TRUE(world.cluster.Start("ltc-1").ok());
    for (const std::string& stoc : world.cluster.Names("stoc"))
      world.cluster.network()->Partition("ltc-1", stoc);
    const uint64_t epochs = world.Epochs();
    const Nanos until = Now() + 60 * kSecond;
    while (world.Epochs() < epochs + 2 && Now() < until) SleepFor(kSecond / 10);
    EXPECT_TRUE(world.cluster.WaitOpen(kRanges, 20 * kSecond)) << "the range did not come back";
    EXPECT_EQ(world.Counts()["ltc-1"], 0);
    SleepFor(120 * kSecond);
    EXPECT_EQ(world.Epochs(), epochs + 2) << "it was tried again and again";
    EXPECT_TRUE(world.cluster.WaitOpen(kRanges, kSecond));
  });
}

TEST(ShareTest, WithoutItRangesStayWhereTheyAre) {
  Simulate(14, [] {
    SimClusterOptions options = Options();
    options.coordinator.cluster.share_after_ns = 0;
    World world(options);
    world.cluster.Kill("ltc-1");
    ASSERT_TRUE(world.cluster.WaitOpen(kRanges, 30 * kSecond));
    ASSERT_TRUE(world.cluster.Start("ltc-1").ok());
    SleepFor(60 * kSecond);
    EXPECT_EQ(world.Counts()["ltc-1"], 0);
  });
}

}  // namespace
}  // namespace nova
