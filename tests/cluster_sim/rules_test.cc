// Rules of protocol.md on a whole simulated cluster, each by the shortest run that would show it broken.
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>

#include "absl/strings/match.h"
#include "common/base/crc32c.h"
#include "common/base/failpoint.h"
#include "common/base/limited_disk.h"
#include "common/base/log.h"
#include "stoc/file_header.h"
#include "tests/cluster_sim/scenario.h"

namespace nova {
namespace {

// Within 10 s the status says so.
bool StatusComesToSay(OneRange* w, const std::string& what) {
  for (const Nanos until = Now() + 10 * kSecond; Now() < until; SleepFor(kSecond / 10)) {
    const auto status = w->cluster.NewCoordinatorClient().StatusText(Now() + kSecond);
    if (status.ok() && absl::StrContains(*status, what)) return true;
  }
  return false;
}

// H1, H2: a put that a zombie takes after its range was opened elsewhere is not acknowledged, or is there.
TEST(RulesTest, F1AZombiesPutIsNotAcknowledgedAndLost) {
  for (uint64_t seed = 1; seed <= 10; ++seed) {
    Simulate(seed, [seed] {
      SimClusterOptions options = SmallCluster();
      options.client.timeout_ms = 30'000;
      OneRange w(options);
      ASSERT_TRUE(w.client->Put("k", "old").ok());
      const std::string owner = w.Record().owner;
      // The client hears of no other owner, and so waits for what this one says.
      w.cluster.CutClient("client-0");
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

// H19: an owner that is cut off from the coordinator answers no read once its lease is over, whatever its
// clients believe.
TEST(RulesTest, C3AnOwnerWithoutALeaseAnswersNoReads) {
  Simulate(1, [] {
    OneRange w(SmallCluster());
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
      OneRange w(options);
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

// L4: a group that lost a member returns to R, its rounds are flushed, and groups that nothing needs leave
// the record.
TEST(RulesTest, L4ADegradedGroupReturnsToRAndOldGroupsLeaveTheRecord) {
  Simulate(4, [] {
    SimClusterOptions options = SmallCluster();
    options.stocs = 3;
    OneRange w(options);
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
      OneRange w(options);
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

// C3: an open that failed gives its range back; late, when the next try of that LTC serves it, it leaves it
// alone: the range would be opened elsewhere at once, and be read here under the LTC's lease all the same.
TEST(RulesTest, C3AGiveBackThatComesLateLeavesTheOpenRangeAlone) {
  for (uint64_t seed = 1; seed <= 12; ++seed) {
    Simulate(seed, [seed] {
      SimClusterOptions options = SmallCluster();
      options.stocs = 3;
      options.config.max_delay_ns = 100 * kMillisecond;
      OneRange w(options);
      for (int i = 0; i < 20; ++i) ASSERT_TRUE(w.client->Put(KeyOf(i), "v").ok());
      w.cluster.Kill(w.Record().owner);
      ASSERT_TRUE(w.WaitFor(60 * kSecond, [](const RangeRecord& r) { return r.epoch > Epoch(1); }));
      w.cluster.Kill("stoc-0");  // opens fail until it is back
      SleepFor(static_cast<Nanos>(seed) * 150 * kMillisecond);
      w.Restart();
      ASSERT_TRUE(w.WaitFor(60 * kSecond, [](const RangeRecord& r) {
        return r.state == RangeState::kOpen && r.epoch > Epoch(1);
      }));
      const Epoch epoch = w.Record().epoch;
      SleepFor(5 * kSecond);
      EXPECT_EQ(w.Record().epoch, epoch) << "seed " << seed;
      EXPECT_TRUE(w.cluster.WaitOpen(1, kMillisecond)) << "seed " << seed;
    });
  }
}

// R4's certificate: a range that was let go in order lists no logs, and waits for no lease.
TEST(RulesTest, AReleasedRangeListsNoLogsAndKeepsEverything) {
  int certified = 0;  // runs that saw the record between its release and its new owner, which may be a moment
  for (uint64_t seed = 5; seed < 13; ++seed)
    Simulate(seed, [&certified] {
      OneRange w(SmallCluster());
      for (int i = 0; i < 50; ++i) ASSERT_TRUE(w.client->Put(KeyOf(i), std::string(200, 'x')).ok());
      const std::string owner = w.Record().owner;
      const Epoch epoch = w.Record().epoch;
      bool seen = false;
      Notification stop;
      {
        Thread watcher("watcher", [&] {
          while (!stop.WaitUntil(Now() + kMillisecond)) {
            const RangeRecord r = w.Record();
            if (!r.released) continue;
            seen = true;
            EXPECT_TRUE(r.log_groups.empty());
            EXPECT_EQ(r.owner, "");
          }
        });
        EXPECT_TRUE(w.cluster.Stop(owner).ok());
        EXPECT_TRUE(w.WaitForOtherOwner(owner));
        stop.Notify();
      }
      certified += seen;
      EXPECT_GT(w.Record().epoch, epoch);
      EXPECT_EQ(w.client->Scan("", 1000).entries.size(), 50u);
    });
  EXPECT_GT(certified, 0);
}

// R5 (release): reads end before the record says released. The owner never hears that it was changed, has a
// lease, and is asked by a client that knows no other: what it knows is old.
TEST(RulesTest, R5AnOwnerThatLetGoAnswersNoReads) {
  for (uint64_t seed = 1; seed <= 5; ++seed) {
    Simulate(seed, [seed] {
      OneRange w(SmallCluster());
      ASSERT_TRUE(w.client->Put("k", "old").ok());
      const std::string owner = w.Record().owner;
      w.cluster.LoseConfigReplies(owner, 1);
      std::string left;
      ASSERT_TRUE(w.cluster.NewCoordinatorClient().Drain(owner, Now() + 5 * kSecond, &left).ok());
      while (w.Record().owner == owner) SleepFor(kMillisecond);
      w.cluster.CutConfig(owner, true);
      w.cluster.CutControl(owner, true);  // nor is it told so with a heartbeat
      const Nanos cut = Now();
      ASSERT_TRUE(w.WaitForOtherOwner(owner));
      const auto fresh = w.cluster.NewClient("client-1");
      ASSERT_TRUE(fresh->Put("k", "new").ok());
      ASSERT_LT(Now(), cut + kSecond) << "its lease is over";
      EXPECT_EQ(w.client->Get("k").value, "new") << "seed " << seed;
      const ScanResult scan = w.client->Scan("", 10);
      ASSERT_EQ(scan.entries.size(), 1u);
      EXPECT_EQ(scan.entries[0].second, "new") << "seed " << seed;
      w.cluster.HealAll();
    });
  }
}

// R5 (release): what is in doubt for long is cancelled, from the same version, and the range is served on:
// here the requests are lost for a while, so the cancelling one is the first to arrive. It is asked to let go
// again, and does.
TEST(RulesTest, R5AReleaseInDoubtIsCancelledAndTheRangeIsServedOn) {
  Simulate(2, [] {
    OneRange w(SmallCluster());
    ASSERT_TRUE(w.client->Put("k", "1").ok());
    const RangeRecord before = w.Record();
    w.cluster.LoseConfigRequests(before.owner, 150);
    std::optional<RangeRecord> cancelled;  // before anybody can ask again
    NOVA_CHECK(ArmFailPoint("ltc.record_released", 1, [&] {
                 cancelled = w.Record();
                 return OkStatus();
               }).ok());
    std::string left;
    ASSERT_TRUE(w.cluster.NewCoordinatorClient().Drain(before.owner, Now() + 5 * kSecond, &left).ok());
    w.WaitFor(20 * kSecond, [&](const RangeRecord&) { return cancelled.has_value(); });
    DisarmFailPoints();
    ASSERT_TRUE(cancelled.has_value());
    EXPECT_EQ(cancelled->version, before.version + 1);
    EXPECT_EQ(cancelled->owner, before.owner);
    EXPECT_EQ(cancelled->epoch, before.epoch);
    EXPECT_FALSE(cancelled->released);
    EXPECT_TRUE(w.client->Put("k", "2").ok());
    ASSERT_TRUE(w.WaitForOtherOwner(before.owner));
    EXPECT_EQ(w.client->Get("k").value, "2");
  });
}

// R5 (release): while the store does not answer no release begins, and reads and writes go on.
TEST(RulesTest, R5NoReleaseBeginsWhileTheStoreDoesNotAnswer) {
  Simulate(3, [] {
    SimClusterOptions options = SmallCluster();
    options.config.session_timeout_ns = 20 * kSecond;
    options.client.timeout_ms = 1000;
    OneRange w(options);
    ASSERT_TRUE(w.client->Put("k", "1").ok());
    const std::string owner = w.Record().owner;
    w.cluster.CutConfig(owner, true);
    std::string left;
    ASSERT_TRUE(w.cluster.NewCoordinatorClient().Drain(owner, Now() + 5 * kSecond, &left).ok());
    for (const Nanos until = Now() + 5 * kSecond; Now() < until; SleepFor(100 * kMillisecond)) {
      ASSERT_TRUE(w.client->Put("k", "2").ok());
      ASSERT_EQ(w.client->Get("k").value, "2");
    }
    w.cluster.CutConfig(owner, false);
    ASSERT_TRUE(w.WaitForOtherOwner(owner));
    EXPECT_EQ(w.client->Get("k").value, "2");
  });
}

// How long it takes to have all of four ranges open after an LTC died, a StoC that their logs list standing
// still, or dead.
Nanos FailoverTime(uint64_t seed, bool hung) {
  Nanos took = 0;
  Simulate(seed, [&] {
    SimClusterOptions options = SmallCluster();
    options.stocs = 3;
    OneRange w(options, 4);
    for (int i = 0; i < 1000; i += 10) {
      ASSERT_TRUE(w.client->Put(KeyOf(i), "v").ok());  // both LTCs know all StoCs
    }
    hung ? w.cluster.Pause("stoc-1") : w.cluster.Kill("stoc-1");
    w.cluster.Kill("ltc-0");
    const Nanos died = Now();
    ASSERT_TRUE(w.cluster.WaitOpen(4, 200 * kSecond));
    took = Now() - died;
    w.cluster.HealAll();
    ASSERT_EQ(w.client->Scan("", 1000).entries.size(), 100u);
  });
  return took;
}

// R2: one good member of each group is enough; nobody waits for one that stands still for longer than for one
// that is dead, but for the second in which it might have answered.
TEST(RulesTest, R2AMemberThatStandsStillHoldsUpAFailoverNoLongerThanADeadOne) {
  for (uint64_t seed = 1; seed <= 3; ++seed) {
    const Nanos dead = FailoverTime(seed, false);
    const Nanos hung = FailoverTime(seed, true);
    EXPECT_LT(dead, 6 * kSecond) << "seed " << seed;
    EXPECT_LT(hung, dead + 2 * kSecond) << "seed " << seed;
  }
}

// R2, L3: and that is safe: what the old owner still brings to the member that stood still, and was not
// fenced, is not acknowledged, for the one that was fenced has it not; or it is there.
TEST(RulesTest, R2AZombiesPutIsNotAcknowledgedByMembersThatWereNotFenced) {
  for (uint64_t seed = 1; seed <= 10; ++seed) {
    Simulate(seed, [seed] {
      SimClusterOptions options = SmallCluster();
      options.stocs = 3;
      options.client.timeout_ms = 30'000;
      OneRange w(options, 4);
      for (int i = 0; i < 1000; i += 10) ASSERT_TRUE(w.client->Put(KeyOf(i), "old").ok());
      const std::string stoc = StrCat("stoc-", seed % 3);
      w.cluster.Pause(stoc);
      w.cluster.Pause("ltc-0");
      std::atomic<int> waiting{100};
      std::vector<std::string> late(100);  // what was acknowledged, or nothing
      for (int i = 0; i < 100; ++i) {
        w.client->PutAsync(KeyOf(10 * i), StrCat("late", i), [&, i](Result r) {
          if (r.ok()) late[static_cast<size_t>(i)] = StrCat("late", i);
          --waiting;
        });
      }
      const auto moved = [&w] {
        const auto records = w.cluster.Records();
        return std::all_of(records.begin(), records.end(), [](const auto& r) {
          return r.second.owner != "ltc-0" && r.second.state == RangeState::kOpen;
        });
      };
      for (const Nanos until = Now() + 60 * kSecond; !moved(); SleepFor(20 * kMillisecond)) {
        ASSERT_LT(Now(), until);
      }
      w.cluster.HealAll();
      while (waiting.load() > 0) SleepFor(kMillisecond);
      const auto fresh = w.cluster.NewClient("client-1");
      for (int i = 0; i < 100; ++i) {
        const std::string found = fresh->Get(KeyOf(10 * i)).value;
        const std::string& acknowledged = late[static_cast<size_t>(i)];
        EXPECT_TRUE(found == acknowledged ||
                    (acknowledged.empty() && (found == "old" || found == StrCat("late", i))))
            << "seed " << seed << ": " << found << " instead of " << acknowledged;
      }
    });
  }
}

// M1: one member of the manifest group is enough to open the range.
TEST(RulesTest, M1ARangeOpensWithOneMemberOfItsManifestLeft) {
  Simulate(6, [] {
    SimClusterOptions options = SmallCluster();
    options.ltc.hosted.placement.replicas = 3;
    OneRange w(options);
    for (int i = 0; i < 200; ++i) ASSERT_TRUE(w.client->Put(KeyOf(i), std::string(200, 'x')).ok());
    const RangeRecord record = w.Record();
    ASSERT_EQ(record.manifest.members.size(), 3u);
    w.cluster.Kill(record.owner);
    for (size_t i = 0; i + 1 < record.manifest.members.size(); ++i)
      w.cluster.Kill(w.StocOf(record.manifest.members[i]));
    EXPECT_TRUE(w.WaitForOtherOwner(record.owner));
    EXPECT_EQ(w.client->Scan("", 1000).entries.size(), 200u);
  });
}

// K4: a scan over many pages sees every key that was there before it began, while rounds flush and tables
// compact under it.
TEST(RulesTest, AScanOfManyPagesRunsWhileTheRangeFlushesAndCompacts) {
  Simulate(7, [] {
    SimClusterOptions options = SmallCluster();
    options.ltc.hosted.range.scan_page_bytes = 1000;
    OneRange w(options);
    for (int i = 0; i < 300; ++i) ASSERT_TRUE(w.client->Put(KeyOf(i), std::string(200, 'a')).ok());
    Notification stop;
    Thread writer("writer", [&] {
      const auto other = w.cluster.NewClient("client-1");
      for (int i = 0; !stop.HasBeenNotified(); ++i)
        EXPECT_TRUE(other->Put(KeyOf(i % 300), std::string(200, 'b')).ok());
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
    options.wrap_disk = [](const std::string&, Disk* disk) {
      return std::make_unique<LimitedDisk>(
          disk, LimitedDiskOptions{.bytes_per_second = 200 << 10, .burst_bytes = 16 << 10});
    };
    options.ltc.hosted.range.memtable_size_bytes = 32 << 10;
    OneRange w(options);
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

// --- what disks do to what was written

struct FileOnDisk {
  std::string path;
  FileHeader header;
  std::string bytes;
  bool whole() const { return header.kind == FileHeader::Kind::kWhole; }
  bool rotten() const { return whole() && Crc32c(bytes) != header.data_crc; }
};
std::vector<FileOnDisk> FilesOn(Disk* disk) {
  std::vector<FileOnDisk> files;
  const auto names = disk->List("files");
  for (const std::string& name : names.ok() ? *names : std::vector<std::string>()) {
    const auto file = disk->Open("files/" + name, /*writable=*/false);
    if (!file.ok() || name.ends_with(".tmp")) continue;
    std::string bytes((*file)->Size().value_or(0), '\0');
    if (!(*file)->Read(0, bytes.size(), bytes.data()).ok()) continue;
    const auto header = FileHeader::Decode(bytes.substr(0, kFileHeaderBytes));
    if (header.ok()) files.push_back({"files/" + name, *header, bytes.substr(kFileHeaderBytes)});
  }
  return files;
}
void Flip(Disk* disk, const FileOnDisk& file, size_t at) {
  const auto opened = disk->Open(file.path, /*writable=*/true);
  if (absl::IsNotFound(opened.status())) return;  // compacted away meanwhile
  ASSERT_TRUE(opened.ok()) << opened.status();
  const char byte = static_cast<char>(file.bytes[at] ^ 1);
  ASSERT_TRUE((*opened)->Write(kFileHeaderBytes + at, {&byte, 1}).ok());
  ASSERT_TRUE((*opened)->Sync().ok());
}
// Every block of every table file has a wrong bit.
void Rot(Disk* disk) {
  for (const FileOnDisk& file : FilesOn(disk)) {
    for (size_t at = 7; file.whole() && !file.rotten() && at < file.bytes.size(); at += 200)
      Flip(disk, file, at);
  }
}
size_t RottenOn(Disk* disk) {
  const auto files = FilesOn(disk);
  return static_cast<size_t>(
      std::count_if(files.begin(), files.end(), [](const FileOnDisk& f) { return f.rotten(); }));
}

// S3, row 25: what has rotted on one disk is read from the others, by gets, scans, compactions and whoever
// loads metadata; then it is healed.
TEST(RulesTest, S3RotOnOneDiskIsReadAroundAndHealed) {
  Simulate(9, [] {
    SimClusterOptions options = SmallCluster();
    options.ltc.hosted.placement.replicas = 2;
    options.ltc.block_cache_bytes = 1 << 10;
    OneRange w(options);
    for (int i = 0; i < 300; ++i) ASSERT_TRUE(w.client->Put(KeyOf(i), std::string(200, 'x')).ok());
    Disk* const disk = w.cluster.disk("stoc-0");
    Rot(disk);
    ASSERT_GE(RottenOn(disk), 3u);
    const std::string owner = w.Record().owner;
    const auto expect_all = [&](char value) {
      const ScanResult scan = w.client->Scan("", 1000);
      ASSERT_TRUE(scan.ok()) << scan.message;
      ASSERT_EQ(scan.entries.size(), 300u);
      for (int i = 0; i < 300; i += 7) {
        const GetResult got = w.client->Get(KeyOf(i));
        ASSERT_TRUE(got.ok()) << got.message;
        ASSERT_EQ(got.value, std::string(200, value));
      }
    };
    ASSERT_NO_FATAL_FAILURE(expect_all('x'));
    EXPECT_GT(w.cluster.Metric("ltc", "nova_table_blocks_damaged_total"), 0);
    EXPECT_GT(w.cluster.Metric("ltc", "nova_table_reads_from_other_copy_total"), 0);
    w.cluster.Kill(owner);  // the next owner has no metadata in memory
    Rot(disk);
    ASSERT_TRUE(w.WaitForOtherOwner(owner));
    // What reads come across is healed, with all that is wrong with its table, until they come across nothing
    // more.
    const size_t rotten = RottenOn(disk);
    double damaged = -1;
    for (const Nanos until = Now() + 60 * kSecond; Now() < until; SleepFor(kSecond)) {
      const double before =
          std::exchange(damaged, w.cluster.Metric("ltc", "nova_table_blocks_damaged_total"));
      if (before == damaged) break;
      for (int i = 0; i < 4; ++i) ASSERT_NO_FATAL_FAILURE(expect_all('x'));
    }
    EXPECT_EQ(w.cluster.Metric("ltc", "nova_table_blocks_damaged_total"), damaged) << "not healed";
    EXPECT_LT(RottenOn(disk), rotten);
    EXPECT_GT(w.cluster.Metric("ltc", "nova_table_copies_repaired_total"), 0);
    Rot(disk);
    // flushes and compactions
    for (int i = 0; i < 300; ++i) ASSERT_TRUE(w.client->Put(KeyOf(i), std::string(200, 'y')).ok());
    ASSERT_NO_FATAL_FAILURE(expect_all('y'));
    EXPECT_EQ(w.cluster.Metric("ltc", "nova_table_reads_without_good_copy_total"), 0);
  });
}

// S3: where there is no other copy the keys of the damaged blocks, and no others, are Corruption.
TEST(RulesTest, S3WithoutAnotherCopyOnlyWhatIsDamagedIsCorruption) {
  Simulate(10, [] {
    SimClusterOptions options = SmallCluster();
    options.ltc.block_cache_bytes = 1 << 10;
    OneRange w(options);
    for (int i = 0; i < 300; ++i) ASSERT_TRUE(w.client->Put(KeyOf(i), std::string(200, 'x')).ok());
    Rot(w.cluster.disk("stoc-0"));
    int good = 0, corrupt = 0;
    for (int i = 0; i < 300; ++i) {
      const GetResult got = w.client->Get(KeyOf(i));
      ASSERT_TRUE(got.ok() || got.outcome == Outcome::kCorruption) << got.message;
      ++(got.ok() ? good : corrupt);
      if (got.ok()) {
        ASSERT_EQ(got.value, std::string(200, 'x'));
      }
    }
    EXPECT_GT(good, 50);
    EXPECT_GT(corrupt, 10);
    EXPECT_EQ(w.client->Scan("", 1000).outcome, Outcome::kCorruption);
  });
}

// M1: what is damaged in one copy of the manifest is taken from another, wherever each of them is damaged;
// what is damaged in all of them keeps the range closed until a copy that is whole is back.
TEST(RulesTest, M1DamagedManifestsLoseNothingAndAreNeverPassedOver) {
  for (const bool same_place : {false, true}) {
    Simulate(11, [same_place] {
      SimClusterOptions options = SmallCluster();
      options.stocs = 3;
      options.ltc.hosted.placement.replicas = 3;
      OneRange w(options);
      for (int i = 0; i < 300; ++i) ASSERT_TRUE(w.client->Put(KeyOf(i), std::string(200, 'x')).ok());
      const std::string owner = w.Record().owner;
      w.cluster.Kill(owner);
      const std::string path = "files/" + StocFileId{w.Record().manifest.file, 0}.ToString();
      int damaged = 0;
      const auto flip = [&](const std::string& stoc) {
        for (const FileOnDisk& f : FilesOn(w.cluster.disk(stoc))) {
          if (f.path != path) continue;
          const size_t part = same_place ? 2 : static_cast<size_t>(damaged) + 1;
          Flip(w.cluster.disk(stoc), f, f.bytes.size() * part / 4);
          ++damaged;
        }
      };
      for (const std::string& stoc : w.cluster.Names("stoc")) flip(stoc);
      ASSERT_EQ(damaged, 3);
      if (same_place) {
        EXPECT_FALSE(w.WaitForOtherOwner(owner)) << "opened without what was acknowledged";
        EXPECT_GT(w.cluster.Metric("ltc", "nova_ltc_opens_refused_for_data_loss_total"), 0);
        EXPECT_TRUE(StatusComesToSay(&w, "range 1 is UNAVAILABLE: DATA LOSS: "));
        flip("stoc-1");  // whole again
      }
      ASSERT_TRUE(w.WaitFor(30 * kSecond, [&](const RangeRecord& r) {
        return r.state == RangeState::kOpen && r.owner != owner;
      }));
      EXPECT_EQ(w.client->Scan("", 1000).entries.size(), 300u);
    });
  }
}

// The same of a log in files, all of whose processes died: what one copy lacks is taken from another; what
// all lack keeps the range closed, though every copy has a valid prefix, and until one is whole again.
TEST(RulesTest, L3DamagedLogsLoseNothingAndAreNeverPassedOver) {
  for (const bool same_place : {false, true}) {
    Simulate(11, [same_place] {
      SimClusterOptions options = SmallCluster();
      options.stocs = 3;
      options.ltc.hosted.log_mode = LogMode::kPersistent;
      OneRange w(options);
      for (int i = 0; i < 20; ++i) ASSERT_TRUE(w.client->Put(KeyOf(i), std::string(200, 'x')).ok());
      const std::string owner = w.Record().owner;
      w.cluster.Kill(owner);
      int damaged = 0;
      const auto flip = [&](const std::string& stoc) {
        const size_t part = same_place ? 1 : 1 + static_cast<size_t>(stoc.back() - '0');
        for (const FileOnDisk& f : FilesOn(w.cluster.disk(stoc))) {
          if (f.header.kind != FileHeader::Kind::kLog || f.bytes.empty()) continue;
          Flip(w.cluster.disk(stoc), f, f.bytes.size() * part / 8);
          ++damaged;
        }
      };
      for (const std::string& stoc : w.cluster.Names("stoc")) flip(stoc);
      ASSERT_GE(damaged, 3);
      if (same_place) {
        EXPECT_FALSE(w.WaitForOtherOwner(owner)) << "opened without what was acknowledged";
        EXPECT_GT(w.cluster.Metric("ltc", "nova_ltc_opens_refused_for_data_loss_total"), 0);
        EXPECT_TRUE(StatusComesToSay(&w, "range 1 is UNAVAILABLE: DATA LOSS: "));
        flip("stoc-1");  // whole again
      }
      ASSERT_TRUE(w.WaitFor(30 * kSecond, [&](const RangeRecord& r) {
        return r.state == RangeState::kOpen && r.owner != owner;
      }));
      EXPECT_EQ(w.client->Scan("", 1000).entries.size(), 20u);
    });
  }
}

// R2: a log that lacks an acknowledged record in the copies at hand waits for the member that stands still:
// it has it.
TEST(RulesTest, R2ADamagedLogWaitsForTheMembersThatAreSilent) {
  Simulate(11, [] {
    SimClusterOptions options = SmallCluster();
    options.stocs = 3;
    options.ltc.hosted.log_mode = LogMode::kPersistent;
    OneRange w(options);
    for (int i = 0; i < 20; ++i) ASSERT_TRUE(w.client->Put(KeyOf(i), std::string(200, 'x')).ok());
    const std::string owner = w.Record().owner;
    w.cluster.Kill(owner);
    int damaged = 0;
    for (const char* const stoc : {"stoc-0", "stoc-1"}) {
      for (const FileOnDisk& f : FilesOn(w.cluster.disk(stoc))) {
        if (f.header.kind != FileHeader::Kind::kLog || f.bytes.empty()) continue;
        Flip(w.cluster.disk(stoc), f, f.bytes.size() / 8);
        ++damaged;
      }
    }
    ASSERT_GE(damaged, 2);
    w.cluster.Pause("stoc-2");
    SleepFor(5 * kSecond);  // the lease of the owner is over, and the open has begun
    EXPECT_NE(w.Record().state, RangeState::kOpen);
    w.cluster.Resume("stoc-2");
    ASSERT_TRUE(w.WaitFor(30 * kSecond, [&](const RangeRecord& r) {
      return r.state == RangeState::kOpen && r.owner != owner;
    }));
    EXPECT_EQ(w.client->Scan("", 1000).entries.size(), 20u);
    EXPECT_EQ(w.cluster.Metric("ltc", "nova_ltc_opens_refused_for_data_loss_total"), 0);
  });
}

// --- StoCs that are not there

// Row 6, with the StoCs dead: every put ends, none is acknowledged, memory stays bounded; all of it resumes.
TEST(RulesTest, WithoutAnyStocPutsEndAndMemoryIsBoundedAndAllResumes) {
  for (const bool flushes_first : {false, true}) {
    Simulate(12, [flushes_first] {
      SimClusterOptions options = SmallCluster();
      options.client.timeout_ms = 3000;
      options.ltc.memtable_limit_bytes = 4 << 20;
      OneRange w(options);
      const int before = flushes_first ? 300 : 20;
      for (int i = 0; i < before; ++i) ASSERT_TRUE(w.client->Put(KeyOf(i), std::string(200, 'x')).ok());
      const Epoch epoch = w.Record().epoch;
      for (const std::string& stoc : w.cluster.Names("stoc")) w.cluster.Kill(stoc);
      for (int round = 0; round < 2; ++round) {
        constexpr int kPuts = 100;  // 400 KB: more than the range's memtables hold
        std::atomic<int> ended{0}, acknowledged{0}, wrong{0};
        const Nanos begin = Now();
        for (int i = 0; i < kPuts; ++i) {
          w.client->PutAsync(KeyOf(300 + i), std::string(4000, 'z'), [&](Result r) {
            acknowledged += r.ok();
            const bool fits = r.outcome == Outcome::kUnknown || r.outcome == Outcome::kBusy ||
                              r.outcome == Outcome::kUnavailable || r.outcome == Outcome::kDeadlineExceeded;
            wrong += !fits && !r.ok();
            ++ended;
          });
        }
        while (ended.load() < kPuts && Now() < begin + 30 * kSecond) SleepFor(10 * kMillisecond);
        EXPECT_EQ(ended.load(), kPuts);
        EXPECT_LT(Now() - begin, 5 * kSecond) << "a put outlived its deadline";
        EXPECT_EQ(acknowledged.load(), 0);
        EXPECT_EQ(wrong.load(), 0);
        EXPECT_LE(w.cluster.Metric("ltc", "nova_ltc_memory_bytes{pool=\"memtables\"}"),
                  options.ltc.memtable_limit_bytes);
        EXPECT_GT(w.cluster.Metric("ltc", "nova_ltc_memory_bytes{pool=\"memtables\"}"), 0);
      }
      // Reads of what is in memory go on.
      EXPECT_TRUE(flushes_first || w.client->Get(KeyOf(3)).ok());
      for (const std::string& stoc : w.cluster.Names("stoc")) ASSERT_TRUE(w.cluster.Start(stoc).ok());
      Result put;
      for (const Nanos until = Now() + 30 * kSecond; !put.ok() && Now() < until;)
        put = w.client->Put("again", "1");
      EXPECT_TRUE(put.ok()) << put.message;
      EXPECT_EQ(w.Record().epoch, epoch) << "the range had to move";
      for (int i = 0; i < before; ++i) ASSERT_EQ(w.client->Get(KeyOf(i)).value, std::string(200, 'x')) << i;
      // flushes
      for (int i = 0; i < 200; ++i) ASSERT_TRUE(w.client->Put(KeyOf(i), std::string(200, 'y')).ok());
      EXPECT_TRUE(w.WaitFor(20 * kSecond, [](const RangeRecord& r) { return r.log_groups.size() == 1; }));
    });
  }
}

// L4: --min_replicas: with fewer members writes wait.
TEST(RulesTest, L4WritesWaitForMinReplicas) {
  struct Case {
    int min_replicas;
    int stocs_left;
    bool goes_on;
  };
  for (const Case& c :
       {Case{0, 2, true}, Case{0, 1, false}, Case{3, 2, false}, Case{2, 2, true}, Case{1, 1, true}}) {
    Simulate(13, [&c] {
      SimClusterOptions options = SmallCluster();
      options.stocs = 3;
      options.ltc.hosted.min_replicas = c.min_replicas;
      options.client.timeout_ms = 20'000;
      OneRange w(options);
      ASSERT_TRUE(w.client->Put("k", "old").ok());
      for (int i = c.stocs_left; i < 3; ++i) w.cluster.Kill(StrCat("stoc-", i));
      Result put;
      Notification answered;
      w.client->PutAsync("k", "new", [&](Result r) {
        put = std::move(r);
        answered.Notify();
      });
      EXPECT_EQ(answered.WaitUntil(Now() + 8 * kSecond), c.goes_on)
          << c.min_replicas << " with " << c.stocs_left;
      for (int i = c.stocs_left; i < 3; ++i) ASSERT_TRUE(w.cluster.Start(StrCat("stoc-", i)).ok());
      answered.Wait();
      EXPECT_TRUE(put.ok()) << put.message << ": min_replicas " << c.min_replicas << " with " << c.stocs_left;
      EXPECT_TRUE(w.WaitFor(20 * kSecond,
                            [](const RangeRecord& r) { return r.log_groups.back().members.size() == 3; }));
    });
  }
}

// L4: so does that of a range to which nobody writes any more: StoCs that start again one after another leave
// it what it has.
TEST(RulesTest, L4TheGroupOfAnIdleRangeReturnsToR) {
  Simulate(16, [] {
    SimClusterOptions options = SmallCluster();
    options.stocs = 3;
    OneRange w(options);
    ASSERT_TRUE(w.client->Put("k", "v").ok());
    for (const std::string& stoc : w.cluster.Names("stoc")) {
      w.cluster.Kill(stoc);
      ASSERT_TRUE(w.cluster.Start(stoc).ok());
      const NodeInfo& self = w.cluster.stoc(stoc)->self();
      EXPECT_TRUE(w.WaitFor(30 * kSecond, [&](const RangeRecord& r) {
        const auto& members = r.log_groups.back().members;
        return r.log_groups.size() == 1 && members.size() == 3 &&
               std::any_of(members.begin(), members.end(), [&](const LogMember& m) {
                 return m.stoc == self.stoc_id && m.incarnation == self.incarnation;
               });
      })) << stoc;
    }
    const std::string owner = w.Record().owner;
    w.cluster.Kill(owner);
    ASSERT_TRUE(w.WaitForOtherOwner(owner));
    EXPECT_EQ(w.client->Get("k").value, "v");
  });
}

// Gets that wait for tables whose StoCs are away do not keep their LTC from ending.
TEST(RulesTest, AnLtcWhoseStocsAreAwayEndsSoon) {
  Simulate(1, [] {
    SimClusterOptions options = SmallCluster();
    options.client.timeout_ms = 60'000;
    OneRange w(options);
    for (int round = 0; round < 8; ++round) {
      for (int i = 0; i < 200; ++i)
        ASSERT_TRUE(w.client->Put(KeyOf(i), StrCat(round, std::string(300, 'v'))).ok());
      ASSERT_TRUE(w.client->CreateCheckpoint(StrCat("c", round)).ok());
    }
    const std::string former = w.Record().owner;
    w.cluster.Kill(former);
    ASSERT_TRUE(w.WaitForOtherOwner(former));
    for (const std::string& stoc : w.cluster.Names("stoc")) w.cluster.Kill(stoc);
    for (int i = 0; i < 200; ++i) w.client->GetAsync(KeyOf(i), [](const GetResult&) {});
    SleepFor(kSecond);
    const Nanos begin = Now();
    w.cluster.Stop(w.Record().owner).IgnoreError();
    EXPECT_LT(Now() - begin, 60 * kSecond);  // half of it is for the release, which does not succeed
  });
}

// An open that waits for the store holds the session, and the end of the LTC waits for the open.
TEST(RulesTest, AnLtcThatOpensWhileTheStoreIsAwayEndsSoon) {
  Simulate(1, [] {
    OneRange w(SmallCluster());
    const std::string former = w.Record().owner;
    w.cluster.Kill(former);
    ASSERT_TRUE(w.WaitFor(30 * kSecond, [&](const RangeRecord& r) { return r.owner != former; }));
    const std::string next = w.Record().owner;
    ASSERT_EQ(w.Record().state, RangeState::kSealing);
    w.cluster.CutConfig(next, true);  // it learns of its range with the next heartbeat
    SleepFor(3 * kSecond);
    ASSERT_EQ(w.Record().state, RangeState::kSealing) << "it is open, and nothing is shown";
    Notification ended;
    Thread stop("stop", [&] {
      w.cluster.Stop(next).IgnoreError();
      ended.Notify();
    });
    NOVA_CHECK(ended.WaitUntil(Now() + 120 * kSecond)) << "it does not end: nor would this test";
  });
}

// L4: a recovery needs a member of every group that is listed, also of one that nothing was written to. So
// what the coordinator said of StoCs some time ago is not enough to list them.
TEST(RulesTest, L4AGroupListsOnlyMembersThatAnswer) {
  for (uint64_t seed = 1; seed <= 5; ++seed) {
    Simulate(seed, [seed] {
      SimClusterOptions options = SmallCluster();
      options.stocs = 5;
      OneRange w(options);
      ASSERT_TRUE(w.client->Put("k", "old").ok());
      const std::vector<LogMember> members = w.Record().log_groups.back().members;
      const auto is_member = [&](StocId stoc) {
        return std::any_of(members.begin(), members.end(),
                           [&](const LogMember& m) { return m.stoc == stoc; });
      };
      w.cluster.CutControl(w.Record().owner, true);
      for (const std::string& stoc : w.cluster.Names("stoc")) {
        if (!is_member(w.cluster.stoc(stoc)->self().stoc_id)) w.cluster.Kill(stoc);
      }
      w.cluster.Kill(w.StocOf(members[seed % members.size()].stoc));
      ASSERT_TRUE(w.client->Put("k", "new").ok());
      const RangeRecord record = w.Record();
      ASSERT_GT(record.log_groups.back().id, GroupId(1));
      for (const LogGroup& g : record.log_groups) {
        for (const LogMember& m : g.members) {
          EXPECT_TRUE(g.id == GroupId(1) || !w.StocOf(m.stoc).empty())
              << "group " << g.id.value() << " lists stoc " << m.stoc.value();
        }
      }
    });
  }
}

// L4: a StoC that drains takes no new logs: its being there is no reason to look for a larger group again and
// again.
TEST(RulesTest, L4ADrainingStocIsNoReasonForNewGroups) {
  Simulate(14, [] {
    SimClusterOptions options = SmallCluster();
    options.stocs = 3;
    OneRange w(options);
    ASSERT_TRUE(w.client->Put("k", "1").ok());
    w.cluster.Kill("stoc-1");
    ASSERT_TRUE(w.client->Put("k", "2").ok());
    ASSERT_EQ(w.Record().log_groups.back().members.size(), 2u);
    ASSERT_TRUE(w.cluster.Start("stoc-1").ok());
    std::string left;
    ASSERT_TRUE(w.cluster.NewCoordinatorClient().Drain("stoc-1", Now() + 5 * kSecond, &left, true).ok());
    SleepFor(3 * kSecond);
    ASSERT_EQ(w.Record().log_groups.back().members.size(), 2u) << "it was taken before it was told to drain";
    const GroupId before = w.Record().last_group;
    SleepFor(20 * kSecond);
    EXPECT_LE(w.Record().last_group.value() - before.value(), 1u);
  });
}

}  // namespace
}  // namespace nova
