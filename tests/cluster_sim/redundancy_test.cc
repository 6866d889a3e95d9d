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
