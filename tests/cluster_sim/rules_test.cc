// Rules of protocol.md on a whole simulated cluster, each by the shortest run that would show it broken.
#include <gtest/gtest.h>

#include <algorithm>

#include "common/base/limited_disk.h"
#include "tests/cluster_sim/scenario.h"

namespace nova {
namespace {

void Simulate(uint64_t seed, const std::function<void()>& body) {
  Simulation sim(seed);
  SetUpSimLog(&sim, seed);
  sim.Run(body);
}

// A cluster with one open range.
struct World {
  explicit World(const SimClusterOptions& options) : cluster(options) {
    cluster.StartAll();
    client = cluster.NewClient("client-0");
    EXPECT_TRUE(client->CreateRanges({}).ok());
    EXPECT_TRUE(cluster.WaitOpen(1, 30 * kSecond));
  }
  RangeRecord Record() { return cluster.Records().begin()->second; }
  bool WaitFor(Nanos within, const std::function<bool(const RangeRecord&)>& wanted) {
    for (const Nanos until = Now() + within; Now() < until; SleepFor(20 * kMillisecond)) {
      if (wanted(Record())) return true;
    }
    return false;
  }
  bool WaitForOtherOwner(const std::string& than) {
    return WaitFor(30 * kSecond, [&](const RangeRecord& r) { return r.state == RangeState::kOpen && r.owner != than; });
  }
  std::string StocOf(StocId id) {
    for (const std::string& name : cluster.Names("stoc")) {
      if (cluster.Runs(name) && cluster.stoc(name)->self().stoc_id == id) return name;
    }
    return "";
  }
  SimCluster cluster;
  std::unique_ptr<Client> client;
};

// H1, H2: a put that a zombie takes after its range was opened elsewhere is not acknowledged, or is there.
TEST(RulesTest, F1AZombiesPutIsNotAcknowledgedAndLost) {
  for (uint64_t seed = 1; seed <= 10; ++seed) {
    Simulate(seed, [seed] {
      SimClusterOptions options = SmallCluster();
      options.client.timeout_ms = 30'000;
      World w(options);
      ASSERT_TRUE(w.client->Put("k", "old").ok());
      const std::string owner = w.Record().owner;
      w.cluster.Pause(owner);
      Result late;
      Notification answered;
      w.client->PutAsync("k", "late", [&](Result r) {
        late = std::move(r);
        answered.Notify();
      });
      ASSERT_TRUE(w.WaitForOtherOwner(owner));
      w.cluster.Resume(owner);
      answered.Wait();
      const auto fresh = w.cluster.NewClient("client-1");
      const std::string found = fresh->Get("k").value;
      if (late.ok()) {
        EXPECT_EQ(found, "late") << "seed " << seed;
      } else {
        EXPECT_EQ(found, "old") << "seed " << seed;
      }
    });
  }
}

// H19: an owner that is cut off from the coordinator answers no read once its lease is over, whatever its clients believe.
TEST(RulesTest, C3AnOwnerWithoutALeaseAnswersNoReads) {
  Simulate(1, [] {
    World w(SmallCluster());
    ASSERT_TRUE(w.client->Put("k", "old").ok());
    const std::string owner = w.Record().owner;
    w.cluster.CutControl(owner, true);
    ASSERT_TRUE(w.WaitForOtherOwner(owner));
    const auto fresh = w.cluster.NewClient("client-1");
    ASSERT_TRUE(fresh->Put("k", "new").ok());
    EXPECT_EQ(w.client->Get("k").value, "new");
    const ScanResult scan = w.client->Scan("", 10);
    ASSERT_EQ(scan.entries.size(), 1u);
    EXPECT_EQ(scan.entries[0].second, "new");
  });
}

// L3: nothing is acknowledged while a listed member has not the record.
TEST(RulesTest, L3NoAcknowledgementBeforeEveryMemberHasTheRecord) {
  for (size_t paused = 0; paused < 3; ++paused) {
    Simulate(3, [paused] {
      SimClusterOptions options = SmallCluster();
      options.stocs = 3;
      World w(options);
      ASSERT_TRUE(w.client->Put("k", "old").ok());  // its log is open on all
      ASSERT_EQ(w.Record().log_groups.back().members.size(), 3u);
      const std::string stoc = w.StocOf(w.Record().log_groups.back().members[paused].stoc);
      w.cluster.Pause(stoc);
      std::atomic<bool> acknowledged{false};
      Notification answered;
      w.client->PutAsync("k", "new", [&](Result r) {
        acknowledged = r.ok();
        answered.Notify();
      });
      SleepFor(100 * kMillisecond);  // less than the deadline after which the member is replaced (L4)
      EXPECT_FALSE(answered.HasBeenNotified());
      answered.Wait();
      EXPECT_TRUE(acknowledged.load());  // in a group without it
      const LogGroup group = w.Record().log_groups.back();
      EXPECT_EQ(group.members.size(), 2u);
      w.cluster.Resume(stoc);
    });
  }
}

// L4: a group that lost a member returns to R, its rounds are flushed, and groups that nothing needs leave the record.
TEST(RulesTest, L4ADegradedGroupReturnsToRAndOldGroupsLeaveTheRecord) {
  Simulate(4, [] {
    SimClusterOptions options = SmallCluster();
    options.stocs = 3;
    World w(options);
    ASSERT_TRUE(w.client->Put("a", "1").ok());
    w.cluster.Kill("stoc-1");
    ASSERT_TRUE(w.client->Put("b", "2").ok());
    EXPECT_EQ(w.Record().log_groups.back().members.size(), 2u);
    ASSERT_TRUE(w.cluster.Start("stoc-1").ok());
    EXPECT_TRUE(w.WaitFor(20 * kSecond, [](const RangeRecord& r) {
      return r.log_groups.size() == 1 && r.log_groups[0].members.size() == 3;
    }));
    // The dead incarnation is not relied on any more: any two members may go.
    w.cluster.Kill("stoc-0");
    w.cluster.Kill("ltc-0");
    w.cluster.Kill("ltc-1");
    ASSERT_TRUE(w.cluster.Start("ltc-0").ok());
    ASSERT_TRUE(w.cluster.Start("stoc-0").ok());
    ASSERT_TRUE(w.cluster.WaitOpen(1, 30 * kSecond));
    EXPECT_EQ(w.client->Get("a").value, "1");
    EXPECT_EQ(w.client->Get("b").value, "2");
  });
}

// H6: what one recovery has shown, every later one shows, whoever of the first group is left.
TEST(RulesTest, R4WhatARecoveryHasShownStays) {
  for (uint64_t seed = 1; seed <= 10; ++seed) {
    Simulate(seed, [seed] {
      SimClusterOptions options = SmallCluster();
      options.stocs = 3;
      options.ltcs = 1;
      World w(options);
      ASSERT_TRUE(w.client->Put("k", "old").ok());
      const std::vector<LogMember> members = w.Record().log_groups.back().members;
      // The record reaches one member, and nobody is told.
      for (size_t i = 1; i < members.size(); ++i) w.cluster.Pause(w.StocOf(members[i].stoc));
      std::atomic<bool> done{false};
      w.client->PutAsync("k", "new", [&](Result) { done = true; });
      SleepFor(20 * kMillisecond);
      w.cluster.Kill("ltc-0");
      w.cluster.HealAll();
      ASSERT_TRUE(w.cluster.Start("ltc-0").ok());
      ASSERT_TRUE(w.cluster.WaitOpen(1, 30 * kSecond));
      const std::string shown = w.client->Get("k").value;
      w.cluster.Kill(w.StocOf(members[seed % members.size()].stoc));
      w.cluster.Kill("ltc-0");
      for (const std::string& stoc : w.cluster.Names("stoc")) {
        if (!w.cluster.Runs(stoc)) {
          ASSERT_TRUE(w.cluster.Start(stoc).ok());
        }
      }
      ASSERT_TRUE(w.cluster.Start("ltc-0").ok());
      ASSERT_TRUE(w.cluster.WaitOpen(1, 30 * kSecond));
      EXPECT_EQ(w.client->Get("k").value, shown) << "seed " << seed;
      while (!done.load()) SleepFor(kMillisecond);
    });
  }
}

// R4's certificate: a range that was let go in order lists no logs, and waits for no lease.
TEST(RulesTest, AReleasedRangeListsNoLogsAndKeepsEverything) {
  Simulate(5, [] {
    World w(SmallCluster());
    for (int i = 0; i < 50; ++i) ASSERT_TRUE(w.client->Put(KeyOf(i), std::string(200, 'x')).ok());
    const std::string owner = w.Record().owner;
    const Epoch epoch = w.Record().epoch;
    bool certified = false;
    Notification stop;
    {
      Thread watcher("watcher", [&] {
        while (!stop.WaitUntil(Now() + kMillisecond)) {
          const RangeRecord r = w.Record();
          if (!r.released) continue;
          certified = true;
          EXPECT_TRUE(r.log_groups.empty());
          EXPECT_EQ(r.owner, "");
        }
      });
      EXPECT_TRUE(w.cluster.Stop(owner).ok());
      EXPECT_TRUE(w.WaitForOtherOwner(owner));
      stop.Notify();
    }
    EXPECT_TRUE(certified);
    EXPECT_GT(w.Record().epoch, epoch);
    EXPECT_EQ(w.client->Scan("", 1000).entries.size(), 50u);
  });
}

// M1: one member of the manifest group is enough to open the range.
TEST(RulesTest, M1ARangeOpensWithOneMemberOfItsManifestLeft) {
  Simulate(6, [] {
    SimClusterOptions options = SmallCluster();
    options.ltc.hosted.placement.replicas = 3;
    World w(options);
    for (int i = 0; i < 200; ++i) ASSERT_TRUE(w.client->Put(KeyOf(i), std::string(200, 'x')).ok());
    const RangeRecord record = w.Record();
    ASSERT_EQ(record.manifest.members.size(), 3u);
    w.cluster.Kill(record.owner);
    for (size_t i = 0; i + 1 < record.manifest.members.size(); ++i) w.cluster.Kill(w.StocOf(record.manifest.members[i]));
    EXPECT_TRUE(w.WaitForOtherOwner(record.owner));
    EXPECT_EQ(w.client->Scan("", 1000).entries.size(), 200u);
  });
}

// K4: a scan over many pages sees every key that was there before it began, while rounds flush and tables compact under it.
TEST(RulesTest, AScanOfManyPagesRunsWhileTheRangeFlushesAndCompacts) {
  Simulate(7, [] {
    SimClusterOptions options = SmallCluster();
    options.ltc.hosted.range.scan_page_bytes = 1000;
    World w(options);
    for (int i = 0; i < 300; ++i) ASSERT_TRUE(w.client->Put(KeyOf(i), std::string(200, 'a')).ok());
    Notification stop;
    Thread writer("writer", [&] {
      const auto other = w.cluster.NewClient("client-1");
      for (int i = 0; !stop.HasBeenNotified(); ++i) EXPECT_TRUE(other->Put(KeyOf(i % 300), std::string(200, 'b')).ok());
    });
    for (int scans = 0; scans < 20; ++scans) {
      const ScanResult r = w.client->Scan("", 1000);
      ASSERT_TRUE(r.ok()) << r.message;
      ASSERT_EQ(r.entries.size(), 300u);
      for (int i = 0; i < 300; ++i) ASSERT_EQ(r.entries[static_cast<size_t>(i)].first, KeyOf(i));
    }
    stop.Notify();
    writer.Join();
  });
}

// Write control: a slow disk slows puts down, it never stops them for a whole second.
TEST(RulesTest, PutsNeverStopForASecondWhileASlowDiskMoves) {
  Simulate(8, [] {
    SimClusterOptions options = SmallCluster();
    options.wrap_disk = [](Disk* disk) {
      return std::make_unique<LimitedDisk>(disk, LimitedDiskOptions{.bytes_per_second = 200 << 10, .burst_bytes = 16 << 10});
    };
    options.ltc.hosted.range.memtable_size_bytes = 32 << 10;
    World w(options);
    Nanos worst = 0;
    uint64_t puts = 0;
    const Nanos until = Now() + 30 * kSecond;
    for (Nanos before = Now(); before < until; ++puts) {
      ASSERT_TRUE(w.client->Put(KeyOf(static_cast<int>(puts % 1000)), std::string(1000, 'x')).ok());
      const Nanos now = Now();
      worst = std::max(worst, now - before);
      before = now;
    }
    EXPECT_LT(worst, kSecond) << puts << " puts";
    EXPECT_GT(puts, 300u);
  });
}

}  // namespace
}  // namespace nova
