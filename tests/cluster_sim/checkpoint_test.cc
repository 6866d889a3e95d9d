// Checkpoints of a whole simulated cluster: made while clients write, kept over compactions, orphan
// collection, an LTC's death, a drained StoC and a cluster of another size; restored to the byte (faults row
// 51).
#include <gtest/gtest.h>

#include <algorithm>

#include "common/base/failpoint.h"
#include "tests/cluster_sim/scenario.h"

namespace nova {
namespace {

using Entries = std::vector<std::pair<std::string, std::string>>;
constexpr int kRanges = 4;

SimClusterOptions Options() {
  SimClusterOptions options = SmallCluster();
  options.client.timeout_ms = 60'000;
  options.ltc.orphan_period_ns = 2 * kSecond;
  options.ltc.orphan_grace_ms = 1000;
  return options;
}

struct World {
  explicit World(SimClusterOptions options = Options()) : cluster(std::move(options)) {
    cluster.StartAll();
    client = cluster.NewClient("client-0");
    EXPECT_TRUE(client->CreateRanges(SplitKeys(kRanges)).ok());
    EXPECT_TRUE(cluster.WaitOpen(kRanges, 30 * kSecond));
  }
  void Write(const std::string& value, int step) {
    for (int i = 0; i < 1000; i += step) {
      const Result r = i % 5 == 4 ? client->Delete(KeyOf(i))
                                  : client->Put(KeyOf(i), StrCat(value, " ", i, std::string(300, 'v')));
      ASSERT_TRUE(r.ok()) << r.message;
    }
  }
  Entries All() {
    const ScanResult r = client->Scan("", 100'000);
    EXPECT_TRUE(r.ok()) << r.message;
    return r.entries;
  }
  void ExpectComplete(const std::vector<std::string>& names) {
    const CheckpointsResult r = client->ListCheckpoints();
    ASSERT_TRUE(r.ok()) << r.message;
    ASSERT_EQ(r.checkpoints.size(), names.size());
    for (size_t i = 0; i < names.size(); ++i) {
      EXPECT_EQ(r.checkpoints[i].name, names[i]);
      EXPECT_EQ(r.checkpoints[i].ranges, r.ranges);
    }
  }
  SimCluster cluster;
  std::unique_ptr<Client> client;
};

TEST(CheckpointTest, M2IsRestoredToTheByteByAClusterOfAnotherSize) {
  for (uint64_t seed = 1; seed <= 2; ++seed) {
    Simulate(seed, [] {
      SimClusterOptions options = Options();
      options.ltcs = 3;
      World w(options);
      ASSERT_NO_FATAL_FAILURE(w.Write("first", 2));
      ASSERT_NO_FATAL_FAILURE(w.Write("second", 3));
      const Entries then = w.All();
      Result r = w.client->CreateCheckpoint("a");
      ASSERT_TRUE(r.ok()) << r.message;
      EXPECT_EQ(w.client->CreateCheckpoint("a").outcome, Outcome::kConditionFailed);
      for (const char* value : {"third", "fourth", "fifth"}) ASSERT_NO_FATAL_FAILURE(w.Write(value, 1));
      // A cluster of another size: of three LTCs one is left.
      for (const char* ltc : {"ltc-0", "ltc-1"}) {
        w.cluster.Kill(ltc);
        ASSERT_TRUE(w.cluster.WaitOpen(kRanges, 60 * kSecond));
      }
      ASSERT_NO_FATAL_FAILURE(w.Write("sixth", 1));
      SleepFor(20 * kSecond);  // orphans are collected meanwhile
      w.ExpectComplete({"a"});
      EXPECT_GT(w.client->ListCheckpoints().checkpoints[0].pinned_bytes, 0u);
      const Entries now = w.All();
      EXPECT_NE(now, then);
      ASSERT_TRUE(w.client->CreateCheckpoint("b").ok());
      r = w.client->RestoreCheckpoint("a");
      ASSERT_TRUE(r.ok()) << r.message;
      EXPECT_EQ(w.All(), then);
      ASSERT_NO_FATAL_FAILURE(w.Write("seventh", 7));
      EXPECT_NE(w.All(), then);
      // And forth, and back once more, through an owner that read it all from the manifest.
      ASSERT_TRUE(w.client->RestoreCheckpoint("b").ok());
      EXPECT_EQ(w.All(), now);
      ASSERT_TRUE(w.client->RestoreCheckpoint("a").ok());
      ASSERT_TRUE(w.cluster.Start("ltc-0").ok());
      w.cluster.Kill("ltc-2");
      ASSERT_TRUE(w.cluster.WaitOpen(kRanges, 60 * kSecond));
      EXPECT_EQ(w.All(), then);
      w.ExpectComplete({"a", "b"});
      for (const char* name : {"a", "b"}) ASSERT_TRUE(w.client->DeleteCheckpoint(name).ok());
      w.ExpectComplete({});
      EXPECT_EQ(w.client->DeleteCheckpoint("a").outcome, Outcome::kNotFound);
      EXPECT_EQ(w.client->RestoreCheckpoint("a").outcome, Outcome::kNotFound);
      EXPECT_EQ(w.All(), then);
    });
  }
}

// Cut where clients of another keyspace want it and at a first key of a keyspace: each range is asked once.
TEST(CheckpointTest, M2EachRangeIsAskedOnceWhereverTheyAreCut) {
  struct Case {
    uint32_t cutter, keyspace;  // of the client that cuts, of the one that makes checkpoints
    std::vector<std::string> split_keys;
  };
  for (const Case& c : {Case{0, 1, {"a", "m"}}, Case{0, 0, {"", "m"}}, Case{1, 0, {"", "m"}}}) {
    Simulate(1, [&c] {
      SimCluster cluster(Options());
      cluster.StartAll();
      const auto client_of = [&cluster](const char* name, uint32_t keyspace) {
        ClientOptions options = Options().client;
        options.keyspace = keyspace;
        return cluster.NewClient(name, options);
      };
      ASSERT_TRUE(client_of("cutter", c.cutter)->CreateRanges(c.split_keys).ok());
      ASSERT_TRUE(cluster.WaitOpen(c.split_keys.size() + 1, 30 * kSecond));
      const auto writer = client_of("writer", 0), client = client_of("client-0", c.keyspace);
      for (const char* key : {"b", "z"}) ASSERT_TRUE(writer->Put(key, "old").ok());
      Result r = client->CreateCheckpoint("a");
      ASSERT_TRUE(r.ok()) << r.message;
      const CheckpointsResult list = client->ListCheckpoints();
      ASSERT_EQ(list.checkpoints.size(), 1u);
      EXPECT_EQ(list.checkpoints[0].ranges, list.ranges);
      EXPECT_EQ(list.ranges, c.split_keys.size() + 1);
      for (const char* key : {"b", "z"}) ASSERT_TRUE(writer->Put(key, "new").ok());
      r = client->RestoreCheckpoint("a");
      ASSERT_TRUE(r.ok()) << r.message;
      for (const char* key : {"b", "z"}) EXPECT_EQ(writer->Get(key).value, "old") << key;
      EXPECT_TRUE(client->DeleteCheckpoint("a").ok());
      EXPECT_TRUE(client->ListCheckpoints().checkpoints.empty());
    });
  }
}

// An LTC dies while a checkpoint is made under load: it is there in some ranges or all, and says so; nothing
// else is lost.
TEST(CheckpointTest, M2AnLtcsDeathMeanwhileLeavesItWholeInEachRangeThatHasIt) {
  for (uint64_t seed = 1; seed <= 3; ++seed) {
    Simulate(seed, [seed] {
      World w;
      std::atomic<bool> stop{false};
      std::atomic<int> acknowledged{0};
      const auto writing = w.cluster.NewClient("client-1");
      Thread writer("writer", [&] {
        for (int i = 0; !stop.load(); ++i) {
          if (writing->Put(KeyOf(i % 1000), StrCat(i, std::string(200, 'w'))).ok()) ++acknowledged;
        }
      });
      Random random(seed);
      SleepFor(static_cast<Nanos>(50 + random.Uniform(200)) * kMillisecond);
      Thread killer("killer", [&] {
        SleepFor(static_cast<Nanos>(random.Uniform(40'000)) * kMicrosecond);
        w.cluster.Kill("ltc-0");
      });
      const Result made = w.client->CreateCheckpoint("a");  // a try that was not answered may have made it
      killer.Join();
      ASSERT_TRUE(w.cluster.WaitOpen(kRanges, 60 * kSecond));
      const CheckpointsResult list = w.client->ListCheckpoints();
      ASSERT_TRUE(list.ok()) << list.message;
      const uint64_t ranges = list.checkpoints.empty() ? 0 : list.checkpoints[0].ranges;
      if (made.ok()) {
        EXPECT_EQ(ranges, list.ranges) << "seed " << seed;
      }
      if (ranges < list.ranges) {
        EXPECT_EQ(w.client->RestoreCheckpoint("a").outcome, Outcome::kNotFound);
      }
      if (ranges > 0) {
        ASSERT_TRUE(w.client->DeleteCheckpoint("a").ok());
      }
      ASSERT_TRUE(w.client->CreateCheckpoint("a").ok());
      stop = true;
      writer.Join();
      EXPECT_GT(acknowledged.load(), 0);
      ASSERT_TRUE(w.client->RestoreCheckpoint("a").ok());
      const Entries once = w.All();
      ASSERT_NO_FATAL_FAILURE(w.Write("after", 1));
      ASSERT_TRUE(w.client->RestoreCheckpoint("a").ok());
      EXPECT_EQ(w.All(), once) << "seed " << seed;
    });
  }
}

// What only a checkpoint names leaves a StoC that drains.
TEST(CheckpointTest, M2ADrainedStocTakesNoTableOfACheckpointWithIt) {
  Simulate(1, [] {
    SimClusterOptions options = Options();
    options.stocs = 5;
    World w(options);
    ASSERT_NO_FATAL_FAILURE(w.Write("first", 1));
    const Entries then = w.All();
    ASSERT_TRUE(w.client->CreateCheckpoint("a").ok());
    for (const char* value : {"second", "third"}) ASSERT_NO_FATAL_FAILURE(w.Write(value, 1));
    std::string left = "?";
    for (const Nanos until = Now() + 120 * kSecond; !left.empty() && Now() < until;
         SleepFor(200 * kMillisecond)) {
      const Status s = w.client->Drain("stoc-0", &left);
      ASSERT_TRUE(s.ok()) << s;
    }
    EXPECT_EQ(left, "");
    w.cluster.Kill("stoc-0");
    w.cluster.Kill("ltc-0");
    ASSERT_TRUE(w.cluster.WaitOpen(kRanges, 60 * kSecond));
    const Result r = w.client->RestoreCheckpoint("a");
    ASSERT_TRUE(r.ok()) << r.message;
    EXPECT_EQ(w.All(), then);
  });
}

// StoCs write a manifest's edits and answer that they failed: whether the range was restored nobody can tell,
// so it is not done again, for that would take away what was written since.
TEST(CheckpointTest, A1ARestoreThatMayHaveBeenDoneIsNotDoneAgain) {
  Simulate(1, [] {
    World w;
    ASSERT_NO_FATAL_FAILURE(w.Write("first", 1));
    const Entries then = w.All();
    ASSERT_TRUE(w.client->CreateCheckpoint("a").ok());
    ASSERT_NO_FATAL_FAILURE(w.Write("second", 1));
    const Entries later = w.All();
    ASSERT_TRUE(w.client->CreateCheckpoint("later").ok());  // nothing is left to flush
    const auto failing = [&](const std::function<Result()>& call) {
      for (const char* step : {"stoc.append_synced", "stoc.file_synced"}) {
        ASSERT_TRUE(ArmFailPoint(step, 0, [] { return absl::UnavailableError("in doubt"); }).ok());
      }
      Thread mends("mends", [] {
        SleepFor(3 * kSecond);
        DisarmFailPoints();
      });
      const Result r = call();
      mends.Join();
      EXPECT_EQ(r.outcome, Outcome::kUnknown) << r.message;
    };
    ASSERT_NO_FATAL_FAILURE(failing([&] { return w.client->RestoreCheckpoint("a"); }));
    // Each range is as it was, or as it is restored.
    for (const auto& [key, value] : w.All()) {
      const auto is = [&, key = key, value = value](const Entries& e) {
        return std::find(e.begin(), e.end(), std::pair(key, value)) != e.end();
      };
      EXPECT_TRUE(is(then) || is(later)) << key;
    }
    ASSERT_NO_FATAL_FAILURE(w.Write("third", 1));
    const Entries newest = w.All();
    ASSERT_TRUE(w.client->CreateCheckpoint("newest").ok());
    ASSERT_NO_FATAL_FAILURE(failing([&] { return w.client->CreateCheckpoint("b"); }));
    ASSERT_NO_FATAL_FAILURE(failing([&] { return w.client->DeleteCheckpoint("a"); }));
    SleepFor(20 * kSecond);
    EXPECT_EQ(w.All(), newest);
    w.cluster.Kill("ltc-0");
    ASSERT_TRUE(w.cluster.WaitOpen(kRanges, 60 * kSecond));
    EXPECT_EQ(w.All(), newest);
    DisarmFailPoints();
  });
}

// Of the one range that was written to, tables cannot be stored, so it cannot be flushed; the others are
// restored, but for one of the same LTC that waits for it. "Not applied" would not be true of all.
TEST(CheckpointTest, ARestoreThatSomeRangesDidIsUnknown) {
  Simulate(1, [] {
    SimClusterOptions options = Options();
    options.client.timeout_ms = 10'000;
    World w(options);
    ASSERT_NO_FATAL_FAILURE(w.Write("first", 1));
    ASSERT_TRUE(w.client->CreateCheckpoint("a").ok());
    const Entries then = w.All();
    ASSERT_TRUE(w.client->Put(KeyOf(0), "second").ok());
    ASSERT_TRUE(ArmFailPoint("stoc.file_synced", 0, [] { return absl::UnavailableError("the disk"); }).ok());
    const Result r = w.client->RestoreCheckpoint("a");
    DisarmFailPoints();
    EXPECT_EQ(r.outcome, Outcome::kUnknown) << r.message;
    EXPECT_NE(r.message.find("(done in 2 of 4 ranges)"), r.message.npos) << r.message;
    ASSERT_TRUE(w.client->RestoreCheckpoint("a").ok());
    EXPECT_EQ(w.All(), then);
  });
}

// An LTC takes 64 lists at a time, and one checkpoint: the others wait for their turn.
TEST(CheckpointTest, AnLtcWithManyRangesMakesListsAndRestoresThem) {
  Simulate(1, [] {
    constexpr size_t kMany = 150;
    SimClusterOptions options = Options();
    options.ltcs = 1;
    SimCluster cluster(options);
    cluster.StartAll();
    const auto client = cluster.NewClient("client-0");
    ASSERT_TRUE(client->CreateRanges(SplitKeys(kMany)).ok());
    ASSERT_TRUE(cluster.WaitOpen(kMany, 60 * kSecond));
    ASSERT_TRUE(client->Put(KeyOf(1), "first").ok());
    const Result made = client->CreateCheckpoint("a");
    ASSERT_TRUE(made.ok()) << made.message;
    ASSERT_TRUE(client->Put(KeyOf(1), "second").ok());
    std::vector<std::unique_ptr<Thread>> callers;  // at once: more lists than ranges
    for (int i = 0; i < 4; ++i) {
      callers.push_back(std::make_unique<Thread>(StrCat("test.list.", i), [&] {
        const CheckpointsResult r = client->ListCheckpoints();
        EXPECT_TRUE(r.ok()) << r.message;
        EXPECT_TRUE(r.checkpoints.size() == 1 && r.checkpoints[0].ranges == kMany);
      }));
    }
    callers.clear();
    const Result restored = client->RestoreCheckpoint("a");
    ASSERT_TRUE(restored.ok()) << restored.message;
    EXPECT_EQ(client->Get(KeyOf(1)).value, "first");
  });
}

}  // namespace
}  // namespace nova
