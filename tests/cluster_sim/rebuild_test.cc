// StoCs that are gone for good, come back, or have new disks (StoC record, N5; rebuild, S5): what they held is
// made up for, once, and nothing that is referenced is lost.
#include <gtest/gtest.h>

#include "ltc/engine/manifest.h"
#include "stoc/file_header.h"
#include "tests/cluster_sim/scenario.h"

namespace nova {
namespace {

constexpr Nanos kDownAfter = 4 * kSecond;

SimClusterOptions Options() {
  SimClusterOptions options = SmallCluster();
  options.stocs = 5;
  options.client.timeout_ms = 60'000;
  options.ltc.hosted.placement.replicas = 2;
  options.ltc.orphan_period_ns = 5 * kSecond;
  options.ltc.orphan_grace_ms = 1000;
  options.coordinator.cluster.stoc_down_after_ns = kDownAfter;
  return options;
}

// Where the tables of a range should be, and where their files are.
struct Copies {
  size_t parts = 0;
  size_t short_of_two = 0;  // parts with fewer than two copies on StoCs that run, as the manifest names them
  size_t missing = 0;       // copies that the manifest names and a running StoC has not
  size_t surplus = 0;       // files of tables on running StoCs that the manifest does not name there
  bool whole() const { return parts > 0 && short_of_two == 0 && missing == 0; }
  std::string ToString() const {
    return StrCat(parts, " parts, ", short_of_two, " short of two copies, ", missing, " copies missing, ",
                  surplus, " files too many");
  }
};

struct World : OneRange {
  explicit World(const SimClusterOptions& options = Options()) : OneRange(options) {}

  void Write(int rounds) {
    for (int r = 0; r < rounds; ++r) {
      for (int i = 0; i < 100; ++i) {
        const std::string value = StrCat(++written, std::string(400, 'v'));
        const Result put = client->Put(KeyOf(i * 10), value);
        ASSERT_TRUE(put.ok()) << put.message;
        values[KeyOf(i * 10)] = value;
      }
    }
  }
  void ExpectWhatWasWritten() {
    for (const auto& [key, value] : values) {
      const auto got = client->Get(key);
      EXPECT_EQ(got.value, value) << key << ": " << got.message;
    }
  }

  std::shared_ptr<const Version> VersionOf(const RangeRecord& record) {
    std::vector<Manifest::Copy> copies;
    for (const StocId member : record.manifest.members) {
      const std::string stoc = StocOf(member);
      if (stoc.empty()) continue;
      const auto file = cluster.disk(stoc)->Open(
          StrCat("files/", StocFileId{record.manifest.file, 0}.ToString()), /*writable=*/false);
      if (!file.ok()) continue;
      std::string bytes(*(*file)->Size() - kFileHeaderBytes, '\0');
      EXPECT_TRUE((*file)->Read(kFileHeaderBytes, bytes.size(), bytes.data()).ok());
      copies.push_back({stoc, std::move(bytes)});
    }
    const auto edits = Manifest::Recover(record.manifest.file, copies);
    if (!edits.ok()) return nullptr;  // renewed just now
    auto version = std::make_shared<const Version>();
    for (const VersionEdit& edit : *edits) {
      auto next = version->Apply(edit, [](const TableInfo&) {});
      EXPECT_TRUE(next.ok()) << next.status();
      version = *std::move(next);
    }
    return version;
  }
  // Takes no time: nothing changes meanwhile.
  Copies Count() {
    std::map<StocFileId, std::set<StocId>> named;
    Copies copies;
    for (const auto& [id, record] : cluster.Records()) {
      const auto version = VersionOf(record);
      if (version == nullptr) return copies;
      version->ForEachTableOnce([&](const TableInfo& table) {
        ForEachPart(table, [&](uint32_t part) {
          const auto& stocs = *CopiesOf(table, part);
          named[{table.uuid, part}].insert(stocs.begin(), stocs.end());
        });
      });
    }
    std::set<StocId> running;
    for (const std::string& stoc : cluster.Names("stoc")) {
      if (!cluster.Runs(stoc)) continue;
      const StocId id = cluster.stoc(stoc)->self().stoc_id;
      running.insert(id);
      const auto names = cluster.disk(stoc)->List("files");
      EXPECT_TRUE(names.ok());
      const std::set<std::string> there(names->begin(), names->end());
      for (const auto& [file, stocs] : named) {
        copies.missing += stocs.contains(id) && !there.contains(file.ToString());
      }
      for (const std::string& name : there) {
        if (!cluster.IsTable(stoc, "files/" + name)) continue;
        StocFileId file;
        EXPECT_TRUE(StoreDirectory::ParseName(name, &file)) << name;
        const auto at = named.find(file);
        copies.surplus += at == named.end() || !at->second.contains(id);
      }
    }
    copies.parts = named.size();
    for (const auto& [file, stocs] : named) {
      copies.short_of_two +=
          std::count_if(stocs.begin(), stocs.end(), [&](StocId stoc) { return running.contains(stoc); }) < 2;
    }
    return copies;
  }
  bool WaitFor(Nanos within, const std::function<bool(const Copies&)>& wanted) {
    for (const Nanos until = Now() + within; Now() < until; SleepFor(kSecond / 10)) {
      if (wanted(last = Count())) return true;
    }
    return false;
  }
  bool WaitWhole(Nanos within) {
    return WaitFor(within, [](const Copies& c) { return c.whole(); });
  }
  double Copied() { return cluster.Metric("stoc", "nova_stoc_copied_bytes_total"); }

  int written = 0;
  std::map<std::string, std::string> values;
  Copies last;  // of WaitFor
};

TEST(RebuildTest, S5ALostStocIsMadeUpForAndThenAnotherOneMayGo) {
  for (uint64_t seed = 1; seed <= 3; ++seed) {
    Simulate(seed, [] {
      World w;
      ASSERT_NO_FATAL_FAILURE(w.Write(6));
      for (const char* const stoc : {"stoc-1", "stoc-3"}) {
        w.cluster.Kill(stoc);
        ASSERT_TRUE(w.WaitWhole(kDownAfter + 30 * kSecond)) << w.last.ToString();
        w.ExpectWhatWasWritten();
      }
      EXPECT_GT(w.Copied(), 0);
      const std::string owner = w.Record().owner;  // the manifest says it, too
      w.cluster.Kill(owner);
      ASSERT_TRUE(w.WaitForOtherOwner(owner));
      w.ExpectWhatWasWritten();
      ASSERT_TRUE(w.WaitFor(60 * kSecond, [](const Copies& c) { return c.whole() && c.surplus == 0; }))
          << w.last.ToString();
    });
  }
}

TEST(RebuildTest, S5WhatComesBackCountsAgainAndWhatIsTooMuchGoes) {
  for (uint64_t seed = 1; seed <= 3; ++seed) {
    Simulate(seed, [] {
      World w;
      ASSERT_NO_FATAL_FAILURE(w.Write(6));
      w.cluster.Kill("stoc-2");
      ASSERT_TRUE(w.WaitWhole(kDownAfter + 30 * kSecond)) << w.last.ToString();
      ASSERT_TRUE(w.cluster.Start("stoc-2").ok());
      EXPECT_GT(w.Count().surplus, 0u) << "it came back without its files";
      ASSERT_TRUE(w.WaitFor(60 * kSecond, [](const Copies& c) { return c.whole() && c.surplus == 0; }))
          << w.last.ToString();
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
    EXPECT_TRUE(w.WaitWhole(10 * kSecond)) << w.last.ToString();
    w.ExpectWhatWasWritten();
  });
}

// Its name is heard again, from another store: what it held is made anew at once, and its new disk takes part.
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
    ASSERT_TRUE(w.WaitWhole(60 * kSecond)) << w.last.ToString();
    EXPECT_GT(w.Copied(), 0);
    w.ExpectWhatWasWritten();
  });
}

// Files vanish from a disk behind everybody's back: the owner compares what it lists with what it should have.
TEST(RebuildTest, N4WhatAStocLacksIsFoundWithoutARead) {
  Simulate(1, [] {
    World w;
    ASSERT_NO_FATAL_FAILURE(w.Write(6));
    ASSERT_TRUE(w.WaitWhole(20 * kSecond)) << w.last.ToString();
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
    ASSERT_TRUE(w.WaitFor(30 * kSecond, [](const Copies& c) { return c.whole(); })) << w.last.ToString();
    w.ExpectWhatWasWritten();
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
    ASSERT_TRUE(w.WaitWhole(60 * kSecond)) << w.last.ToString();
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
      ASSERT_TRUE(w.WaitFor(90 * kSecond, [](const Copies& c) { return c.whole() && c.surplus == 0; }))
          << w.last.ToString();
      w.ExpectWhatWasWritten();
    });
  }
}

}  // namespace
}  // namespace nova
