// Rounds that wait for slow disks are merged in memory, and keep their logs meanwhile, on a whole simulated
// cluster (done memtables, M3): what the logs then take of the StoCs' memory, and what is left when all that
// was in the LTC's is gone.
#include <gtest/gtest.h>

#include "tests/cluster_sim/scenario.h"

namespace nova {
namespace {

constexpr uint64_t kKeys = 60;
constexpr double kMoreThanMemtables = 1.2;

// One LTC whose memtables have 1.5 MB, above three StoCs of slow disks. Segments are small beside a round, so
// that logs take about what they hold.
SimClusterOptions SlowDisks(double log_share) {
  SimClusterOptions o = SmallCluster();
  o.stocs = 3;
  o.ltcs = 1;
  o.disk.latency_ns = 3 * kMillisecond;
  o.ltc.background.flush_threads = 2;
  RangeOptions& r = o.ltc.hosted.range;
  r.memtable_size_bytes = 128 << 10;
  r.log_share = log_share;
  const size_t memtables =
      r.memtable_size_bytes * static_cast<size_t>(r.active_memtables) * static_cast<size_t>(r.max_rounds);
  o.ltc.log.segment_bytes = o.stoc.segment_bytes = 4 << 10;
  o.stoc.log_memory_bytes =
      static_cast<uint64_t>(kMoreThanMemtables * log_share * static_cast<double>(memtables));
  return o;
}

std::string ValueOf(uint64_t put) { return StrCat(put, " ", std::string(1000, 'v')); }

double MergedAway(OneRange* w) { return w->cluster.Metric("ltc", "nova_ltc_merged_away_entries_total"); }

// Writes the same keys again and again.
void WriteKeys(Client* client, uint64_t from, uint64_t to) {
  for (uint64_t put = from; put < to; ++put) {
    const Nanos begin = Now();
    ASSERT_TRUE(client->Put(KeyOf(static_cast<int>(put % kKeys)), ValueOf(put)).ok()) << put;
    ASSERT_LT(Now() - begin, kSecond) << put;
  }
}

void ExpectKeys(Client* client, uint64_t puts) {
  for (uint64_t put = puts - kKeys; put < puts; ++put) {
    EXPECT_EQ(client->Get(KeyOf(static_cast<int>(put % kKeys))).value, ValueOf(put));
  }
}

// With log memory for little more than log_share says no put waits for long, and no log group has to change,
// however long rounds may be held back and merged.
TEST(MergedLogsTest, M3TheirLogsStayWithinTheShareThatTheyMayHave) {
  for (const double log_share : {1.0, 2.0, 4.0}) {
    Simulate(2, [log_share] {
      SimClusterOptions options = SlowDisks(log_share);
      options.ltc.hosted.range.merge_rounds = MergeRounds::kAlways;
      options.ltc.hosted.range.table_lag_ns = 3600 * kSecond;
      OneRange w(options);
      const std::vector<LogGroup> groups = w.Record().log_groups;
      WriteKeys(w.client.get(), 0, 6000);
      EXPECT_EQ(MergedAway(&w) > 0, log_share > 1) << log_share;
      EXPECT_EQ(w.Record().log_groups, groups) << "a log found no memory with " << log_share;
      ExpectKeys(w.client.get(), 6000);
    });
  }
}

// What the LTC had merged and not flushed is replayed from all the logs that it came from.
TEST(MergedLogsTest, M3AreReplayedFromTheLogsOfWhatTheyWereMadeOf) {
  for (uint64_t seed = 1; seed <= 4; ++seed) {
    Simulate(seed, [seed] {
      SimClusterOptions options = SlowDisks(/*log_share=*/4);
      options.ltcs = 2;
      OneRange w(options);
      const uint64_t puts = 2200 + 700 * seed;
      WriteKeys(w.client.get(), 0, puts);
      EXPECT_GT(MergedAway(&w), 0);
      w.cluster.Kill(w.Record().owner);
      ASSERT_TRUE(w.cluster.WaitOpen(1, 60 * kSecond));
      ExpectKeys(w.client.get(), puts);
    });
  }
}

}  // namespace
}  // namespace nova
