// StoCs that are gone for good, come back, or have new disks (StoC record, N5; rebuild, S5): what they held
// is made up for, once, and nothing that is referenced is lost.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <iterator>
#include <set>
#include <utility>

#include "tests/cluster_sim/copies_world.h"

namespace nova {
namespace {

constexpr Nanos kDownAfter = 4 * kSecond;

SimClusterOptions Options() { return FiveStocs(kDownAfter); }

struct World : CopiesWorld {
  explicit World(const SimClusterOptions& options = Options()) : CopiesWorld(options) {}
};

// Each member of the manifest's group has as much of it as any other.
bool ManifestsAreAlike(World* w) {
  const ManifestGroup group = w->Record().manifest;
  std::set<std::string> contents;
  for (const StocId member : group.members) {
    const std::string path = StrCat("files/", StocFileId{group.file, 0}.ToString());
    contents.insert(w->cluster.Contents(w->StocOf(member), path)
                        .value_or(std::string(kFileHeaderBytes, 0))
                        .substr(kFileHeaderBytes));
  }
  return contents.size() == 1;
}

TEST(RebuildTest, S5ALostStocIsMadeUpForAndThenAnotherOneMayGo) {
  for (uint64_t seed = 1; seed <= 3; ++seed) {
    Simulate(seed, [] {
      World w;
      ASSERT_NO_FATAL_FAILURE(w.Write(6));
      for (const char* const stoc : {"stoc-1", "stoc-3"}) {
        w.cluster.Kill(stoc);
        ASSERT_TRUE(w.WaitWhole(kDownAfter + 30 * kSecond)) << w.last;
        w.ExpectWhatWasWritten();
      }
      EXPECT_GT(w.Copied(), 0);
      const std::string owner = w.Record().owner;  // the manifest says it, too
      w.cluster.Kill(owner);
      ASSERT_TRUE(w.WaitForOtherOwner(owner));
      w.ExpectWhatWasWritten();
      ASSERT_TRUE(w.WaitWholeAndTidy(60 * kSecond)) << w.last;
    });
  }
}

TEST(RebuildTest, S5WhatComesBackCountsAgainAndWhatIsTooMuchGoes) {
  for (uint64_t seed = 1; seed <= 3; ++seed) {
    Simulate(seed, [] {
      World w;
      ASSERT_NO_FATAL_FAILURE(w.Write(6));
      w.cluster.Kill("stoc-2");
      ASSERT_TRUE(w.WaitWhole(kDownAfter + 30 * kSecond)) << w.last;
      ASSERT_TRUE(w.cluster.Start("stoc-2").ok());
      EXPECT_GT(LookAtTables(&w.cluster).Surplus(), 0u) << "it came back without its files";
      ASSERT_TRUE(w.WaitWholeAndTidy(60 * kSecond)) << w.last;
      w.ExpectWhatWasWritten();
    });
  }
}

// By an hour, of every node, forwards and backwards, again and again: no file that is named goes (nothing is
// decided by a wall clock), and what is too much does within a minute.
TEST(RebuildTest, N4WallClocksJumpMeanwhile) {
  for (uint64_t seed = 1; seed <= 3; ++seed) {
    Simulate(seed, [] {
      World w;
      std::atomic<bool> stop{false};
      Thread jumps("jumps", [&] {
        for (int64_t hour = 3'600'000; !stop; hour = -hour) {
          for (const char* const kind : {"coordinator", "ltc", "stoc"}) {
            for (const std::string& node : w.cluster.Names(kind)) w.cluster.JumpWallClock(node, hour);
          }
          SleepFor(700 * kMillisecond);
        }
      });
      // A look takes a moment in which tables come and go: what two looks in a row miss is missing.
      std::set<std::pair<StocFileId, StocId>> missing;
      Thread watch("watch", [&] {
        for (std::set<std::pair<StocFileId, StocId>> before; !stop; SleepFor(kSecond / 10)) {
          const TableFiles look = LookAtTables(&w.cluster);
          const auto now = look.error.empty() ? look.MissingCopies() : before;
          std::set_intersection(now.begin(), now.end(), before.begin(), before.end(),
                                std::inserter(missing, missing.end()));
          before = now;
        }
      });
      ASSERT_NO_FATAL_FAILURE(w.Write(6));
      w.cluster.Kill("stoc-2");
      SleepFor(kDownAfter / 2);
      ASSERT_TRUE(w.cluster.Start("stoc-2").ok());
      SleepFor(kDownAfter);
      EXPECT_EQ(w.Copied(), 0) << "it was away for less than the limit";
      w.cluster.Kill("stoc-2");
      EXPECT_TRUE(w.WaitWhole(kDownAfter + 30 * kSecond)) << w.last;
      ASSERT_TRUE(w.cluster.Start("stoc-2").ok());
      EXPECT_TRUE(w.WaitWholeAndTidy(60 * kSecond)) << w.last;
      ASSERT_NO_FATAL_FAILURE(w.Write(2));
      EXPECT_TRUE(w.WaitWholeAndTidy(60 * kSecond)) << w.last;
      stop = true;
      jumps.Join();
      watch.Join();
      EXPECT_EQ(missing.size(), 0u) << "files that were named";
      w.ExpectWhatWasWritten();
    });
  }
}

TEST(RebuildTest, S5AStocThatIsBackBeforeItIsLostMovesNothing) {
  Simulate(1, [] {
    World w;
    ASSERT_NO_FATAL_FAILURE(w.Write(6));
    for (int i = 0; i < 3; ++i) {
      w.cluster.Kill("stoc-2");
      SleepFor(kDownAfter / 2);
      ASSERT_TRUE(w.cluster.Start("stoc-2").ok());
      SleepFor(kDownAfter);
    }
    EXPECT_EQ(w.Copied(), 0);
    EXPECT_TRUE(w.WaitWhole(10 * kSecond)) << w.last;
    w.ExpectWhatWasWritten();
  });
}

// Its name is heard again, from another store: what it held is made anew at once, and its new disk takes
// part.
TEST(RebuildTest, N5AReplacedDiskIsNotWaitedFor) {
  Simulate(1, [] {
    SimClusterOptions options = Options();
    options.coordinator.cluster.stoc_down_after_ns = 3600 * kSecond;
    options.stocs = 3;
    World w(options);
    ASSERT_NO_FATAL_FAILURE(w.Write(6));
    w.cluster.Kill("stoc-0");
    w.cluster.LoseDisk("stoc-0");
    ASSERT_TRUE(w.cluster.Start("stoc-0").ok());
    ASSERT_TRUE(w.WaitWhole(60 * kSecond)) << w.last;
    EXPECT_GT(w.Copied(), 0);
    w.ExpectWhatWasWritten();
  });
}

// Files vanish from a disk behind everybody's back: the owner compares what it lists with what it should
// have.
TEST(RebuildTest, N4WhatAStocLacksIsFoundWithoutARead) {
  Simulate(1, [] {
    World w;
    ASSERT_NO_FATAL_FAILURE(w.Write(6));
    ASSERT_TRUE(w.WaitWhole(20 * kSecond)) << w.last;
    const auto names = w.cluster.disk("stoc-2")->List("files");
    ASSERT_TRUE(names.ok());
    int deleted = 0;
    for (const std::string& name : *names) {
      if (!w.cluster.IsTable("stoc-2", "files/" + name) || deleted == 5) continue;
      ASSERT_TRUE(w.cluster.disk("stoc-2")->Delete("files/" + name).ok());
      ++deleted;
    }
    ASSERT_GT(deleted, 0);
    ASSERT_TRUE(w.cluster.disk("stoc-2")->SyncDirectory("files").ok());
    w.cluster.Kill("stoc-2");
    ASSERT_TRUE(w.cluster.Start("stoc-2").ok());
    ASSERT_TRUE(w.WaitWhole(30 * kSecond)) << w.last;
    w.ExpectWhatWasWritten();
  });
}

// A disk is set back to what it was a while ago, when its manifest was shorter and tables were other ones.
void SetBackADisk(World* w) {
  ASSERT_NO_FATAL_FAILURE(w->Write(4));
  ASSERT_TRUE(w->WaitWhole(20 * kSecond)) << w->last;
  const std::string stoc = w->StocOf(w->Record().manifest.members.at(0));
  const Uuid manifest = w->Record().manifest.file;
  std::unique_ptr<SimDisk> older = w->cluster.CopyOfDisk(stoc);
  ASSERT_NO_FATAL_FAILURE(w->Write(4));
  ASSERT_TRUE(w->WaitWhole(20 * kSecond)) << w->last;
  ASSERT_EQ(w->Record().manifest.file, manifest) << "the disk has nothing of another one";
  w->cluster.Kill(stoc);
  w->cluster.PutDisk(stoc, std::move(older));
  ASSERT_TRUE(w->cluster.Start(stoc).ok());
  EXPECT_GT(LookAtTables(&w->cluster).Missing(), 0u);
  EXPECT_FALSE(ManifestsAreAlike(w));
}

// What it lacks is found without a read; what was deleted there since goes again.
TEST(RebuildTest, N4AnOlderCopyOfADiskIsMadeGood) {
  for (uint64_t seed = 1; seed <= 3; ++seed) {
    Simulate(seed, [] {
      World w;
      ASSERT_NO_FATAL_FAILURE(SetBackADisk(&w));
      ASSERT_TRUE(w.WaitWholeAndTidy(30 * kSecond)) << w.last;
      ASSERT_TRUE(w.WaitFor(30 * kSecond, [&](const TableFiles&) { return ManifestsAreAlike(&w); }));
      w.ExpectWhatWasWritten();
    });
  }
}

TEST(RebuildTest, N4WithoutTheAuditAnOlderCopyOfADiskStaysWhatItIs) {
  Simulate(1, [] {
    SimClusterOptions options = Options();
    // Else the StoC's death may have a round flushed (group change, L4), whose edit would roll the manifest
    // (M1).
    options.ltc.hosted.log_mode = LogMode::kNone;
    options.SwitchOff({.n4_lacks = true});
    World w(options);
    ASSERT_NO_FATAL_FAILURE(SetBackADisk(&w));
    EXPECT_FALSE(w.WaitWhole(30 * kSecond));
    EXPECT_FALSE(ManifestsAreAlike(&w));
  });
}

// Written while there was one StoC for them; more come later.
TEST(RebuildTest, S5TablesThatWereWrittenShortOfCopiesGetThemLater) {
  Simulate(1, [] {
    SimClusterOptions options = Options();
    options.stocs = 3;
    options.ltc.hosted.log_replicas = 1;
    World w(options);
    w.cluster.Kill("stoc-1");
    w.cluster.Kill("stoc-2");
    ASSERT_NO_FATAL_FAILURE(w.Write(4));
    for (const char* const stoc : {"stoc-1", "stoc-2"}) ASSERT_TRUE(w.cluster.Start(stoc).ok());
    ASSERT_TRUE(w.WaitWhole(60 * kSecond)) << w.last;
    w.ExpectWhatWasWritten();
  });
}

// Owners die in the middle of it, and so does the StoC that takes a copy.
TEST(RebuildTest, S5OwnersAndTargetsThatDieMeanwhileLoseNothing) {
  for (uint64_t seed = 1; seed <= 6; ++seed) {
    Simulate(seed, [seed] {
      World w;
      Random random(seed);
      ASSERT_NO_FATAL_FAILURE(w.Write(6));
      w.cluster.Kill("stoc-0");
      SleepFor(kDownAfter + static_cast<Nanos>(random.Uniform(2'500)) * kMillisecond);
      const std::string owner = w.Record().owner, target = StrCat("stoc-", 1 + random.Uniform(4));
      w.cluster.Kill(owner);
      if (w.cluster.MayLose(target)) {
        w.cluster.Kill(target);
        SleepFor(static_cast<Nanos>(random.Uniform(3'000)) * kMillisecond);
        ASSERT_TRUE(w.cluster.Start(target).ok());
      }
      ASSERT_TRUE(w.WaitForOtherOwner(owner));
      ASSERT_TRUE(w.cluster.Start(owner).ok());
      ASSERT_NO_FATAL_FAILURE(w.Write(1));
      ASSERT_TRUE(w.WaitWholeAndTidy(90 * kSecond)) << w.last;
      w.ExpectWhatWasWritten();
    });
  }
}

}  // namespace
}  // namespace nova
