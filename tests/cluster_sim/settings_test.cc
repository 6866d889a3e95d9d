// What an operator sets for all LTCs while they run: ranges that are open, ranges that open later.
#include <gtest/gtest.h>

#include <algorithm>

#include "absl/strings/match.h"
#include "tests/cluster_sim/scenario.h"
#include "tests/cluster_sim/table_files.h"

namespace nova {
namespace {

void Set(SimCluster* cluster, const std::string& name, std::optional<int> value) {
  const Status s = cluster->NewCoordinatorClient().ChangeSetting(name, value, Now() + kSecond);
  ASSERT_TRUE(s.ok()) << s;
  SleepFor(kSecond);  // a heartbeat passes
}

void PutAll(OneRange* w, const std::string& value) {
  for (int i = 0; i < 900; ++i) ASSERT_TRUE(w->client->Put(KeyOf(i), value + std::string(200, 'x')).ok());
}

std::string Owner(OneRange* w) { return w->Record().owner; }
std::string StatusOf(OneRange* w) { return w->cluster.ltc(Owner(w))->StatusText(); }

// The most parts that a table has: fragments, and its metadata.
size_t Fragments(OneRange* w) {
  std::map<Uuid, size_t> parts;
  for (const auto& [file, stocs] : LookAtTables(&w->cluster).named) parts[file.owner] += 1;
  size_t most = 0;
  for (const auto& [uuid, n] : parts) most = std::max(most, n);
  return most;
}

TEST(SettingsTest, HoldForOpenRangesForTheirNextOwnersAndUntilTheyAreTakenBack) {
  Simulate(1, [&] {
    SimClusterOptions options = SmallCluster();
    options.ltc.hosted.placement.scatter_by_load = false;
    options.ltc.hosted.placement.min_fragment_bytes = 1 << 10;
    options.ltc.hosted.range.compaction.least_table_bytes = 1 << 10;
    OneRange w(options);
    const std::string before = StatusOf(&w);
    PutAll(&w, "1");
    SleepFor(3 * kSecond);
    const size_t fragments = Fragments(&w);
    Set(&w.cluster, "active_memtables", 5);
    Set(&w.cluster, "dranges", 8);
    Set(&w.cluster, "scatter_width", 3);
    PutAll(&w, "2");
    SleepFor(3 * kSecond);
    EXPECT_TRUE(absl::StrContains(StatusOf(&w), " of 5 memtables")) << StatusOf(&w);
    EXPECT_FALSE(absl::StrContains(StatusOf(&w), " in 1 Dranges")) << StatusOf(&w);
    EXPECT_GT(Fragments(&w), fragments);

    const std::string owner = Owner(&w);
    w.cluster.Kill(owner);
    ASSERT_TRUE(w.WaitForOtherOwner(owner));
    ASSERT_TRUE(w.cluster.WaitOpen(1, 20 * kSecond));
    // It has not waited for a heartbeat: the manifest's Dranges are still there.
    EXPECT_FALSE(absl::StrContains(StatusOf(&w), " in 1 Dranges")) << StatusOf(&w);
    EXPECT_TRUE(absl::StrContains(StatusOf(&w), " of 5 memtables")) << StatusOf(&w);
    PutAll(&w, "3");
    EXPECT_TRUE(absl::StrContains(StatusOf(&w), " of 5 memtables")) << "of the next owner: " << StatusOf(&w);

    Set(&w.cluster, "active_memtables", std::nullopt);
    Set(&w.cluster, "dranges", std::nullopt);
    PutAll(&w, "4");
    SleepFor(3 * kSecond);
    EXPECT_TRUE(absl::StrContains(StatusOf(&w),
                                  StrCat(" of ", options.ltc.hosted.range.active_memtables, " memtables")))
        << StatusOf(&w);
    for (int i = 0; i < 900; ++i) EXPECT_EQ(w.client->Get(KeyOf(i)).value, "4" + std::string(200, 'x')) << i;
  });
}

// The empty memtables of a round alone take more than the limit. Sealing it would free nothing.
TEST(SettingsTest, MemtablesBeyondTheMemoryLimitSealNoTinyRounds) {
  Simulate(1, [&] {
    const SimClusterOptions options = SmallCluster();
    OneRange w(options);
    Set(&w.cluster, "active_memtables", 64);
    PutAll(&w, "1");  // a round of two is full, and the next one has 64
    SleepFor(3 * kSecond);
    ASSERT_TRUE(absl::StrContains(StatusOf(&w), " of 64 memtables")) << StatusOf(&w);
    ASSERT_GT(w.cluster.Metric("ltc", "nova_ltc_memory_bytes{pool=\"memtables\"}"),
              options.ltc.memtable_limit_bytes);
    const double runs = w.cluster.Metric("ltc", "nova_ltc_flushed_runs_total");
    for (int i = 0; i < 50; ++i) {
      ASSERT_TRUE(w.client->Put(KeyOf(i), "2").ok());
      SleepFor(100 * kMillisecond);
    }
    EXPECT_LE(w.cluster.Metric("ltc", "nova_ltc_flushed_runs_total") - runs, 1);
  });
}

}  // namespace
}  // namespace nova
