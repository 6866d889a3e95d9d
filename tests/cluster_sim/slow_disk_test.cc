// Writers that are faster than the disks of the StoCs, on a whole simulated cluster: they are slowed down,
// all of the time by about as much, and none of them stops for seconds.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "common/base/coding.h"
#include "common/base/limited_disk.h"
#include "tests/cluster_sim/scenario.h"

namespace nova {
namespace {

// A cluster whose two StoCs have disks that take seconds for what fills an LTC's memtables, and random puts
// of 1 KB from a few writers.
class SlowDisks {
 public:
  explicit SlowDisks(int ranges) : cluster_(Options(ranges), ranges) {}

  // Puts for so long. Returns their number.
  uint64_t Run(Nanos run_ns) {
    constexpr int kWriters = 4;
    const Nanos end = Now() + run_ns;
    uint64_t puts = 0;
    longest_ns_ = 0;
    std::vector<std::unique_ptr<Thread>> writers;
    for (int i = 0; i < kWriters; ++i) {
      writers.push_back(std::make_unique<Thread>("writer", [this, &puts, end] {
        const int id = ++clients_;
        const auto client = cluster_.cluster.NewClient(StrCat("writer-", id), 60'000);
        Random random(static_cast<uint64_t>(id));  // others have other keys
        for (Nanos now = Now(); now < end; ++puts) {
          const Nanos begin = now;
          const std::string key = KeyOf(static_cast<int>(random.Uniform(1000))) + StrCat(random.Next());
          std::string value;
          while (value.size() < 1000) PutFixed64(&value, random.Next());  // cannot be compressed
          ASSERT_TRUE(client->Put(key, value).ok());
          now = Now();
          longest_ns_ = std::max(longest_ns_, now - begin);
        }
      }));
    }
    for (const auto& t : writers) t->Join();
    return puts;
  }
  std::unique_ptr<Client> NewClient(int64_t timeout_ms) {
    return cluster_.cluster.NewClient("client", timeout_ms);
  }
  Nanos longest_ns() const { return longest_ns_; }  // put of the last run
  // ns a byte that the LTC writes to the first StoC, by its metrics.
  double Pace() const {
    return cluster_.cluster.Metric("ltc", "nova_ltc_stoc_write_ns_per_byte{stoc=\"stoc-0\"}");
  }
  // Disks are as fast as simulated ones are, or slow again.
  void SetSlow(bool slow) {
    for (const auto& disk : *disks_) disk->SetLimited(slow);
  }

 private:
  SimClusterOptions Options(int ranges) {
    SimClusterOptions o = SmallCluster();
    o.stocs = 2;
    o.ltcs = 1;
    o.wrap_disk = [disks = disks_](const std::string&, Disk* disk) {
      disks->push_back(std::make_shared<DiskBandwidth>(
          LimitedDiskOptions{.bytes_per_second = 256 << 10, .burst_bytes = 16 << 10}));
      return std::make_unique<LimitedDisk>(disk, disks->back());
    };
    o.ltc.background.flush_threads = o.ltc.background.compaction_threads = 2;
    o.ltc.memtable_limit_bytes = (ranges == 1 ? 32 : 10) << 20;
    RangeOptions& r = o.ltc.hosted.range;
    r.memtable_size_bytes = 64 << 10;
    r.active_memtables = 2;
    r.max_rounds = 64;
    r.log_share = 1;
    r.level0_slow_runs = 6;  // from three on rounds are flushed in groups
    r.level0_stop_runs = 16;
    r.compaction.level0_runs_trigger = 4;
    r.compaction.table_size_bytes = 64 << 10;
    r.compaction.level1_bytes = 16 << 20;
    return o;
  }

  const std::shared_ptr<std::vector<std::shared_ptr<DiskBandwidth>>> disks_ =
      std::make_shared<std::vector<std::shared_ptr<DiskBandwidth>>>();
  OneRange cluster_;
  int clients_ = 0;
  Nanos longest_ns_ = 0;
};

// Memory comes back in lumps: when a group of rounds is in tables, half of all there may be.
TEST(SlowDiskTest, WritersAreSlowedDownAndNoneStopsForSeconds) {
  for (uint64_t seed = 1; seed <= 2; ++seed) {
    Simulate(seed, [seed] {
      SlowDisks w(/*ranges=*/1);
      w.Run(60 * kSecond);
      const uint64_t puts = w.Run(60 * kSecond);
      EXPECT_LT(puts, 60 * 600u) << "disks do not bound it: the test tests nothing";
      EXPECT_GT(puts, 60 * 200u);
      EXPECT_LT(w.longest_ns(), 2 * kSecond) << seed;
      EXPECT_GT(w.Pace(), 3500) << "256 KiB a second";
      EXPECT_LT(w.Pace(), 35'000);
      SleepFor(1200 * kSecond);  // until nothing is merged any more
      EXPECT_EQ(w.Pace(), 0) << "nothing was written for a minute: what is known is old";
    });
  }
}

// All of them have memory for a quarter of the rounds that each may have.
TEST(SlowDiskTest, NorWhereRangesShareTheMemory) {
  Simulate(1, [] {
    SlowDisks w(/*ranges=*/5);
    w.Run(60 * kSecond);
    EXPECT_LT(w.Run(60 * kSecond), 60 * 600u) << "disks do not bound it: the test tests nothing";
    EXPECT_LT(w.longest_ns(), 2 * kSecond);
  });
}

// Disks whose credits are spent: from one moment to the next they are a hundredth of what they were.
TEST(SlowDiskTest, NorWhereDisksBecomeSlowInAnInstant) {
  for (uint64_t seed = 1; seed <= 2; ++seed) {
    Simulate(seed, [seed] {
      SlowDisks w(/*ranges=*/1);
      w.SetSlow(false);
      const uint64_t fast = w.Run(kSecond);
      w.SetSlow(true);
      EXPECT_LT(w.Run(15 * kSecond), fast) << "the test tests nothing";
      EXPECT_LT(w.longest_ns(), kSecond) << seed;
    });
  }
}

// The two StoCs have memory for 16 logs, and no other StoC is there: memory comes back with rounds that are
// flushed, within a second.
TEST(SlowDiskTest, NorWhereStocsLackMemoryForTheLogsOfAllRanges) {
  for (uint64_t seed = 1; seed <= 2; ++seed) {
    Simulate(seed, [seed] {
      SlowDisks w(/*ranges=*/128);
      w.Run(20 * kSecond);
      EXPECT_LT(w.longest_ns(), 2 * kSecond) << seed;
    });
  }
}

// Deletions, which a snapshot keeps, take the disks longer than the client's time for an operation. That
// begins anew with each answer.
TEST(SlowDiskTest, AScanGetsThroughWhatWasDeletedHoweverLongThatTakes) {
  Simulate(1, [] {
    SlowDisks w(/*ranges=*/1);
    w.SetSlow(false);
    const auto client = w.NewClient(5'000);
    const std::string padding(1000, 'k');
    const auto key = [&padding](int i) { return StrCat("key-", 10'000 + i, padding); };
    for (int i = 0; i <= 4000; ++i) ASSERT_TRUE(client->Put(key(i), "seen").ok());
    const SnapshotResult before = client->TakeSnapshot();
    ASSERT_TRUE(before.ok()) << before.message;
    for (int i = 1; i < 4000; ++i) ASSERT_TRUE(client->Delete(key(i)).ok());
    SleepFor(10 * kSecond);
    w.SetSlow(true);
    for (const bool reverse : {false, true}) {
      const Nanos begin = Now();
      const auto it = client->NewIterator({});
      reverse ? it->SeekToLast() : it->SeekToFirst();
      ASSERT_TRUE(it->Valid()) << it->result().message;
      reverse ? it->Prev() : it->Next();
      ASSERT_TRUE(it->Valid()) << it->result().message;
      EXPECT_EQ(it->key(), key(reverse ? 0 : 4000));
      EXPECT_GT(Now() - begin, 5 * kSecond) << "the test tests nothing";
    }
    const ScanResult all = client->Scan("", 10);
    ASSERT_TRUE(all.ok()) << all.message;
    EXPECT_EQ(all.entries.size(), 2u);
  });
}

TEST(SlowDiskTest, WhenDisksAreFastAgainWritersAre) {
  Simulate(1, [] {
    SlowDisks w(/*ranges=*/1);
    w.Run(60 * kSecond);
    const uint64_t slow = w.Run(2 * kSecond);
    w.SetSlow(false);
    w.Run(kSecond);
    EXPECT_GT(w.Run(2 * kSecond), 10 * slow);
  });
}

}  // namespace
}  // namespace nova
