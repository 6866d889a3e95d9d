// What a cluster says of the copies it has, in its status and its metrics: measured by what is configured.
#include <gtest/gtest.h>

#include "tests/cluster_sim/scenario.h"

namespace nova {
namespace {

std::string StatusOf(SimCluster* cluster) {
  const auto text = cluster->NewCoordinatorClient().StatusText(Now() + 5 * kSecond);
  EXPECT_TRUE(text.ok()) << text.status();
  return text.value_or("");
}

bool Says(SimCluster* cluster, const std::string& wanted, Nanos within = 20 * kSecond) {
  for (const Nanos until = Now() + within; Now() < until; SleepFor(200 * kMillisecond)) {
    if (StatusOf(cluster).find(wanted) != std::string::npos) return true;
  }
  return false;
}

SimClusterOptions TwoCopiesOfTables(int stocs) {
  SimClusterOptions options = SmallCluster();
  options.stocs = stocs;
  options.ltc.hosted.placement.replicas = 2;
  return options;
}

void Write(OneRange* world, int keys) {
  for (int i = 0; i < keys; ++i) ASSERT_TRUE(world->client->Put(KeyOf(i), std::string(200, 'x')).ok());
}

TEST(RedundancyTest, AWholeClusterIsNotDegraded) {
  Simulate(1, [] {
    OneRange w(TwoCopiesOfTables(3));
    ASSERT_NO_FATAL_FAILURE(Write(&w, 300));
    for (const char* const line :
         {"memory log, R=3:", "copies=2, which manifests name, M=3: it survives the loss of 1 disk\n",
          "log groups: 1, degraded: 0\n", "manifests: 1, degraded: 0\n"}) {
      EXPECT_TRUE(Says(&w.cluster, line)) << line << " is not in " << StatusOf(&w.cluster);
    }
    SleepFor(3 * kSecond);  // heartbeats, and the count that they carry
    EXPECT_GT(w.cluster.Metric("coordinator", "nova_cluster_tables"), 0);
    EXPECT_EQ(w.cluster.Metric("coordinator", "nova_cluster_tables_degraded"), 0);
    EXPECT_EQ(w.cluster.Metric("coordinator", "nova_cluster_tables_copies_configured"), 2);
  });
}

// Where there is no place for what is configured, that is no excuse.
TEST(RedundancyTest, WhatIsConfiguredAndHasNoPlaceIsDegraded) {
  Simulate(2, [] {
    SimClusterOptions options = TwoCopiesOfTables(2);
    options.ltc.hosted.placement.replicas = 3;
    OneRange w(options);
    ASSERT_NO_FATAL_FAILURE(Write(&w, 300));
    for (const char* const line :
         {"memory log, R=2 of 3:",
          "copies=2 of 3, which manifests name, M=2 of 3: it survives the loss of 1 disk\n",
          "log groups: 1, degraded: 1, the fewest copies: 2 of 3\n",
          "manifests: 1, degraded: 1, the fewest copies: 2 of 3\n"}) {
      EXPECT_TRUE(Says(&w.cluster, line)) << line << " is not in " << StatusOf(&w.cluster);
    }
    SleepFor(3 * kSecond);
    EXPECT_EQ(w.cluster.Metric("coordinator", "nova_cluster_log_groups_degraded"), 1);
    EXPECT_EQ(w.cluster.Metric("coordinator", "nova_cluster_manifests_degraded"), 1);
    EXPECT_GT(w.cluster.Metric("coordinator", "nova_cluster_tables_degraded"), 0);
    EXPECT_EQ(w.cluster.Metric("coordinator", "nova_cluster_tables_degraded"),
              w.cluster.Metric("coordinator", "nova_cluster_tables"));
    for (const char* what : {"log_groups", "manifests", "tables"}) {
      const std::string of_range =
          StrCat("nova_range_", what, "_below_replicas{range=\"", w.Record().id.value(), "\"}");
      EXPECT_EQ(w.cluster.Metric("coordinator", of_range),
                w.cluster.Metric("coordinator", StrCat("nova_cluster_", what, "_degraded")))
          << of_range;
    }
  });
}

// The copies of tables on a StoC that is away do not count, and do again when it is back with its disk.
TEST(RedundancyTest, TablesAreDegradedWhileAStocIsAway) {
  Simulate(3, [] {
    OneRange w(TwoCopiesOfTables(3));
    ASSERT_NO_FATAL_FAILURE(Write(&w, 300));
    const auto degraded = [&w] { return w.cluster.Metric("coordinator", "nova_cluster_tables_degraded"); };
    SleepFor(3 * kSecond);
    ASSERT_EQ(degraded(), 0);
    w.cluster.Kill("stoc-1");
    for (const Nanos until = Now() + 20 * kSecond; degraded() == 0 && Now() < until;) SleepFor(kSecond / 10);
    EXPECT_GT(degraded(), 0);
    EXPECT_EQ(w.cluster.Metric("coordinator", "nova_cluster_tables_fewest_copies"), 1);
    EXPECT_TRUE(Says(&w.cluster, "copies=1 of 2, which manifests name"));
    ASSERT_TRUE(w.cluster.Start("stoc-1").ok());
    for (const Nanos until = Now() + 20 * kSecond; degraded() > 0 && Now() < until;) SleepFor(kSecond / 10);
    EXPECT_EQ(degraded(), 0);
  });
}

// Logs and manifests have all their copies again ten seconds after a StoC was lost, or came back, whoever
// writes meanwhile.
struct TenSecondsCase {
  const char* name;
  LogMode log_mode;
  bool written;  // all the while, else the ranges are idle
};
class TenSecondsTest : public testing::TestWithParam<TenSecondsCase> {
 protected:
  static constexpr int kRanges = 4;

  // Runs `body` in a cluster of that many StoCs, four times: when it is that heartbeats, leases and looks of
  // the ranges' owners fall differs.
  void WithStocs(int stocs, const std::function<void(OneRange*)>& body) {
    for (uint64_t seed = 1; seed <= 4; ++seed) WithStocs(seed, stocs, body);
  }
  void WithStocs(uint64_t seed, int stocs, const std::function<void(OneRange*)>& body) {
    SCOPED_TRACE(StrCat("seed ", seed));
    Simulate(seed, [&] {
      SimClusterOptions options = TwoCopiesOfTables(stocs);
      options.client.timeout_ms = 60'000;
      options.ltc.hosted.log_mode = GetParam().log_mode;
      OneRange w(options, kRanges);
      ASSERT_NO_FATAL_FAILURE(Write(&w, 300));
      ASSERT_LT(Short(&w, 20 * kSecond), 20 * kSecond) << StatusOf(&w.cluster);
      bool stop = false;
      Thread writer("writer", [&] {
        for (int i = 0; GetParam().written && !stop; ++i) {
          EXPECT_TRUE(w.client->Put(KeyOf(i * 37 % 1000), std::string(200, 'y')).ok());
          SleepFor(20 * kMillisecond);
        }
      });
      body(&w);
      stop = true;
      writer.Join();
    });
  }
  // How long it takes until none is degraded and stays so for as long as a lease; `within` at most.
  static Nanos Short(OneRange* w, Nanos within) {
    const Nanos begin = Now();
    Nanos whole_since = 0;
    while (Now() < begin + within) {
      const auto metric = [w](const std::string& what) {
        return w->cluster.Metric("coordinator", "nova_cluster_" + what);
      };
      const bool whole = metric("log_groups_degraded") + metric("manifests_degraded") == 0 &&
                         metric("log_groups") >= kRanges && metric("manifests") == kRanges;
      if (!whole) whole_since = 0;
      if (whole && whole_since == 0) whole_since = Now();
      if (whole && Now() > whole_since + 2 * kSecond) return whole_since - begin;
      SleepFor(kSecond / 10);
    }
    return within;
  }
};

TEST_P(TenSecondsTest, AfterALoss) {
  WithStocs(5, [](OneRange* w) {
    w->cluster.Kill("stoc-2");
    SleepFor(3 * kSecond);  // until it is missed
    EXPECT_LE(Short(w, 60 * kSecond), 7 * kSecond) << StatusOf(&w->cluster);
  });
}

TEST_P(TenSecondsTest, AfterAReturnThatWasMissed) {
  WithStocs(3, [](OneRange* w) {
    w->cluster.Kill("stoc-2");
    SleepFor(40 * kSecond);
    ASSERT_TRUE(w->cluster.Start("stoc-2").ok());
    EXPECT_LE(Short(w, 60 * kSecond), 10 * kSecond) << StatusOf(&w->cluster);
  });
}

TEST_P(TenSecondsTest, AfterARollingRestart) {
  WithStocs(3, [](OneRange* w) {
    for (const std::string& stoc : w->cluster.Names("stoc")) {
      w->cluster.Kill(stoc);
      SleepFor(kSecond);
      ASSERT_TRUE(w->cluster.Start(stoc).ok());
      SleepFor(8 * kSecond);
    }
    EXPECT_LE(Short(w, 60 * kSecond), 2 * kSecond) << StatusOf(&w->cluster);
  });
}

// Its heartbeats go on: it is called live all the while, and no start of it tells that it is there again.
TEST_P(TenSecondsTest, AfterAHangThatNobodyWasToldOf) {
  WithStocs(3, [](OneRange* w) {
    w->cluster.Hang("stoc-2");
    SleepFor(40 * kSecond);
    w->cluster.Resume("stoc-2");
    EXPECT_LE(Short(w, 60 * kSecond), 10 * kSecond) << StatusOf(&w->cluster);
  });
}

INSTANTIATE_TEST_SUITE_P(All, TenSecondsTest,
                         testing::Values(TenSecondsCase{"MemoryIdle", LogMode::kMemory, false},
                                         TenSecondsCase{"MemoryWritten", LogMode::kMemory, true},
                                         TenSecondsCase{"FilesIdle", LogMode::kPersistent, false},
                                         TenSecondsCase{"FilesWritten", LogMode::kPersistent, true}),
                         [](const auto& of) { return of.param.name; });

TEST(RedundancyTest, EveryProcessTellsOfItsFabricAndTheCoordinatorOfAllOfThem) {
  Simulate(4, [] {
    OneRange w(TwoCopiesOfTables(3));
    ASSERT_NO_FATAL_FAILURE(Write(&w, 300));
    SleepFor(2 * kSecond);
    double sent = 0;
    for (const char* const kind : {"ltc", "stoc"}) {
      EXPECT_GT(w.cluster.Metric(kind, "nova_fabric_connections"), 0) << kind;
      EXPECT_GT(w.cluster.Metric(kind, "nova_fabric_bytes_sent_total"), 0) << kind;
      EXPECT_EQ(w.cluster.Metric(kind, "nova_fabric_verbs"), 0) << kind;
      sent += w.cluster.Metric(kind, "nova_fabric_bytes_sent_total");
    }
    EXPECT_GT(w.cluster.Metric("stoc", "nova_fabric_regions"), 0);
    EXPECT_GT(w.cluster.Metric("ltc", "nova_fabric_bytes_written_total"), 0) << "of the log";
    SleepFor(2 * kSecond);
    EXPECT_GE(w.cluster.Metric("coordinator", "nova_cluster_fabric_bytes_sent_total"), sent);
    EXPECT_GT(w.cluster.Metric("coordinator", "nova_cluster_fabric_connections"), 0);
  });
}

}  // namespace
}  // namespace nova
