// The log on the disks of StoCs, on a whole simulated cluster (protocol.md D): what a loss of power leaves,
// what a log leaves behind.
#include <gtest/gtest.h>

#include "common/base/log.h"
#include "stoc/file_header.h"
#include "tests/cluster_sim/scenario.h"

namespace nova {
namespace {

// Files of logs on the disks of all StoCs.
size_t LogFilesOf(SimCluster* cluster) {
  size_t n = 0;
  for (const std::string& name : cluster->Names("stoc")) {
    const auto files = cluster->disk(name)->List("files");
    NOVA_CHECK(files.ok()) << files.status();
    for (const std::string& f : *files) {
      const auto file = cluster->disk(name)->Open("files/" + f, /*writable=*/false);
      char header[kFileHeaderBytes];
      if (!file.ok() || !(*file)->Read(0, sizeof(header), header).ok()) continue;
      const auto decoded = FileHeader::Decode({header, sizeof(header)});
      n += decoded.ok() && decoded->kind == FileHeader::Kind::kLog;
    }
  }
  return n;
}

// D: what was acknowledged survives the loss of power of everything, where the log is on disks; a StoC's disk
// forgets what it did not sync, and keeps torn parts of it.
TEST(PersistentLogTest, DAPersistentLogSurvivesTheLossOfPowerOfEverything) {
  for (const LogMode mode : {LogMode::kPersistent, LogMode::kMemoryAndPersistent, LogMode::kAuto}) {
    for (uint64_t seed = 1; seed <= 6; ++seed) {
      Simulate(seed, [seed, mode] {
        SimClusterOptions options = SmallCluster();
        options.stocs = 3 + static_cast<int>(seed % 2);
        options.stoc.host = "laptop";
        options.ltc.hosted.log_mode = mode;
        OneRange w(options);
        const LogMedia media = w.Record().log_groups.back().media;
        EXPECT_EQ(media, mode == LogMode::kPersistent ? LogMedia::kFiles : LogMedia::kMemoryAndFiles);
        std::map<std::string, std::string> acknowledged;
        int puts = 0;
        // Once with everything in the log, once after flushes, each time in the middle of puts.
        for (const int count : {7, 300}) {
          Notification stop;
          Thread writer("writer", [&] {
            for (; !stop.HasBeenNotified(); ++puts) {
              const std::string value = StrCat("value-", puts, std::string(seed % 5 * 40, 'x'));
              if (w.client->Put(KeyOf(puts), value).ok()) acknowledged[KeyOf(puts)] = value;
            }
          });
          while (puts < count) SleepFor(kMillisecond);
          w.LosePower();
          stop.Notify();
          writer.Join();
          w.Restart();
          ASSERT_TRUE(w.cluster.WaitOpen(1, 60 * kSecond)) << "seed " << seed;
          for (const auto& [key, value] : acknowledged) {
            const GetResult found = w.client->Get(key);
            ASSERT_EQ(found.value, value)
                << key << ", seed " << seed << ", " << acknowledged.size() << " acknowledged";
          }
        }
        EXPECT_GE(acknowledged.size(), 250u);
      });
    }
  }
}

// More ranges than the StoCs' memory for logs is for: each log that finds none there has its group changed, a
// few times in a pause (deadline, L5), and had made a file at each member each time. None of these stays, nor
// its group in the record.
TEST(PersistentLogTest, L5LogsThatFoundNoMemoryLeaveNothingBehind) {
  Simulate(1, [] {
    constexpr int kRanges = 8;
    SimClusterOptions options = SmallCluster();
    options.stocs = 3;
    options.client.timeout_ms = 120'000;
    options.ltc.hosted.log_mode = LogMode::kMemoryAndPersistent;
    options.stoc.spare_segments = 0;
    options.stoc.log_memory_bytes = 4 * options.stoc.segment_bytes;
    OneRange w(options, kRanges);
    std::atomic<int> put{0};
    for (int i = 0; i < 100; ++i)
      w.client->PutAsync(KeyOf(i * 10), "v", [&put](const Result& r) { put += r.ok() ? 1 : 0; });
    SleepFor(100 * kSecond);
    EXPECT_EQ(put.load(), 100);
    EXPECT_GT(w.cluster.Metric("stoc", "nova_stoc_segments_refused_total"), 10);
    for (const auto& [id, record] : w.cluster.Records()) {
      EXPECT_LE(record.log_groups.size(), 4u) << "range " << id.value();
    }
    EXPECT_LE(LogFilesOf(&w.cluster), 3u * kRanges * 8);
    std::printf("%d of 100 puts, %d files of logs\n", put.load(), static_cast<int>(LogFilesOf(&w.cluster)));
  });
}

// Ranges that are written once and then left alone hold a segment of each member for what that was, and
// another one for the next round. Where StoCs have no more they give it back to whoever wants to write.
TEST(PersistentLogTest, L5IdleRangesGiveTheMemoryOfTheirLogsBack) {
  Simulate(1, [] {
    constexpr int kRanges = 8;
    SimClusterOptions options = SmallCluster();
    options.stocs = 3;
    options.stoc.spare_segments = 0;
    options.stoc.log_memory_bytes = 3 * options.stoc.segment_bytes;
    OneRange w(options, kRanges);
    Nanos longest = 0;
    for (int i = 0; i < 40; ++i) {  // one of each range after another
      const Nanos begin = Now();
      EXPECT_TRUE(w.client->Put(KeyOf(i * 125 % 1000 + i), "v").ok()) << i;
      longest = std::max(longest, Now() - begin);
    }
    EXPECT_LT(longest, 5 * kSecond);
    EXPECT_GT(w.cluster.Metric("stoc", "nova_stoc_segments_refused_total"), 0);
    for (int i = 0; i < 40; ++i) EXPECT_EQ(w.client->Get(KeyOf(i * 125 % 1000 + i)).value, "v");
    std::printf("longest put %d ms\n", static_cast<int>(longest / kMillisecond));
  });
}

// The mode decides: the same end, with the log in memory, makes the range unavailable, and says so.
TEST(PersistentLogTest, DAMemoryLogDoesNotSurviveTheLossOfEveryMember) {
  Simulate(1, [] {
    SimClusterOptions options = SmallCluster();
    options.stocs = 3;
    OneRange w(options);
    ASSERT_TRUE(w.client->Put("k", "v").ok());
    w.LosePower();
    w.Restart();
    EXPECT_TRUE(
        w.WaitFor(20 * kSecond, [](const RangeRecord& r) { return r.state == RangeState::kSealing; }));
    EXPECT_FALSE(w.cluster.WaitOpen(1, 20 * kSecond));
  });
}

// The files of a log go with it: what flushed and what recovered leaves none but those of the open log.
TEST(PersistentLogTest, R6LogFilesAreDeletedWithTheirRoundAndWithTheirEpoch) {
  Simulate(2, [] {
    SimClusterOptions options = SmallCluster();
    options.stocs = 3;
    options.ltcs = 1;
    options.ltc.hosted.log_mode = LogMode::kPersistent;
    OneRange w(options);
    const auto log_files = [&] { return LogFilesOf(&w.cluster); };
    const auto settles = [&] {  // the log of the open round, that of the next, of each member
      for (const Nanos until = Now() + 20 * kSecond; Now() < until && log_files() > 6;)
        SleepFor(100 * kMillisecond);
      return log_files();
    };
    for (int i = 0; i < 400; ++i) ASSERT_TRUE(w.client->Put(KeyOf(i), std::string(200, 'x')).ok());
    EXPECT_LE(settles(), 6u);
    w.cluster.Kill("ltc-0");
    ASSERT_TRUE(w.cluster.Start("ltc-0").ok());
    ASSERT_TRUE(w.cluster.WaitOpen(1, 60 * kSecond));
    for (int i = 0; i < 10; ++i) ASSERT_TRUE(w.client->Put(KeyOf(i), "y").ok());
    EXPECT_LE(settles(), 6u);
  });
}

// D: sync=false costs no sync, whatever kind of write, and survives the death of the LTC; a write that asks
// for one is synced then.
TEST(PersistentLogTest, DAWriteWithoutSyncIsWrittenAndNotSynced) {
  Simulate(3, [] {
    SimClusterOptions options = SmallCluster();
    options.ltc.hosted.log_mode = LogMode::kPersistent;
    OneRange w(options);
    const auto syncs = [&] { return w.cluster.Metric("stoc", "nova_stoc_log_syncs_total"); };
    ASSERT_TRUE(w.client->Put("deleted", "1").ok());
    ASSERT_TRUE(w.client->Put("in a range", "1").ok());
    const double before = syncs();
    EXPECT_GE(before, 2);
    const WriteOptions no_sync{.sync = false};
    WriteBatch batch;
    batch.Put("batch", "1");
    batch.PutTtl("batch with ttl", "1", 3'600'000);
    ASSERT_TRUE(w.client->Put("put", "1", no_sync).ok());
    ASSERT_TRUE(w.client->Put("put with ttl", "1", {.ttl_ms = 3'600'000, .sync = false}).ok());
    ASSERT_TRUE(w.client->Delete("deleted", no_sync).ok());
    ASSERT_TRUE(w.client->DeleteRange("in", "io", no_sync).ok());
    ASSERT_TRUE(w.client->Write(batch, no_sync).ok());
    ASSERT_TRUE(w.client->CompareAndSwap("swapped", std::nullopt, "1", no_sync).ok());
    EXPECT_EQ(syncs(), before);
    w.cluster.Kill("ltc-0");
    w.cluster.Kill("ltc-1");
    w.Restart();
    ASSERT_TRUE(w.cluster.WaitOpen(1, 60 * kSecond));
    const ScanResult found = w.client->Scan("", 100);
    ASSERT_TRUE(found.ok()) << found.message;
    std::vector<std::string> keys;
    for (const auto& [key, value] : found.entries) keys.push_back(key);
    EXPECT_EQ(keys, (std::vector<std::string>{"batch", "batch with ttl", "put", "put with ttl", "swapped"}));
    const double again = syncs();
    ASSERT_TRUE(w.client->Delete("put").ok());
    ASSERT_TRUE(w.client->Write(batch).ok());
    ASSERT_TRUE(w.client->CompareAndSwap("swapped", "1", "2").ok());
    EXPECT_GE(syncs(), again + 3);
  });
}

}  // namespace
}  // namespace nova
