// Collection of files that nothing needs (N4): what died with an LTC, what was dropped while a StoC was away;
// and nothing else.
#include <gtest/gtest.h>

#include "ltc/engine/manifest.h"
#include "stoc/file_header.h"
#include "tests/cluster_sim/scenario.h"
#include "tests/cluster_sim/table_files.h"

namespace nova {
namespace {

SimClusterOptions Options() {
  SimClusterOptions options = SmallCluster();
  options.client.timeout_ms = 60'000;
  options.ltc.orphan_period_ns = 2 * kSecond;
  options.ltc.orphan_grace_ms = 1000;
  return options;
}

struct World : OneRange {
  explicit World(const SimClusterOptions& options = Options()) : OneRange(options) {}

  void Write(int rounds) {
    for (int r = 0; r < rounds; ++r) {
      for (int i = 0; i < 100; ++i) {
        const Result put = client->Put(KeyOf(i * 10), ValueOf(++written));
        ASSERT_TRUE(put.ok()) << put.message;
        values[KeyOf(i * 10)] = ValueOf(written);
      }
    }
  }
  static std::string ValueOf(int n) { return StrCat(n, std::string(400, 'v')); }
  void ExpectWhatWasWritten() {
    for (const auto& [key, value] : values) EXPECT_EQ(client->Get(key).value, value) << key;
  }

  // The tables that the range's manifest names.
  std::set<Uuid> Tables() {
    std::set<Uuid> tables;
    const ManifestGroup group = Record().manifest;
    std::vector<Manifest::Copy> copies;
    for (const StocId member : group.members) {
      const std::string stoc = StocOf(member);
      if (stoc.empty()) continue;
      const auto file = cluster.disk(stoc)->Open(StrCat("files/", StocFileId{group.file, 0}.ToString()),
                                                 /*writable=*/false);
      if (!file.ok()) continue;
      std::string bytes(*(*file)->Size() - kFileHeaderBytes, '\0');
      EXPECT_TRUE((*file)->Read(kFileHeaderBytes, bytes.size(), bytes.data()).ok());
      copies.push_back({stoc, std::move(bytes)});
    }
    const auto edits = Manifest::Recover(group.file, copies);
    EXPECT_TRUE(edits.ok()) << edits.status();
    auto version = std::make_shared<const Version>();
    for (const VersionEdit& edit : *edits) version = *version->Apply(edit, [](const TableInfo&) {});
    version->ForEachTable([&](const Run&, const TableRef& t) { tables.insert(t->info().uuid); });
    return tables;
  }
  // Files of tables on the StoC's disk that the manifest does not name.
  size_t OrphansOn(const std::string& stoc, const std::set<Uuid>& tables) {
    size_t orphans = 0;
    const auto names = cluster.disk(stoc)->List("files");
    EXPECT_TRUE(names.ok());
    for (const std::string& name : *names) {
      Uuid table;
      if (name.ends_with(StrCat(".", kMetadataPart)) && Uuid::Parse(name.substr(0, 32), &table) &&
          !tables.contains(table))
        ++orphans;
    }
    return orphans;
  }
  // Metadata files of tables on its disk.
  size_t TablesOn(const std::string& stoc) { return OrphansOn(stoc, {}); }
  std::string StocOfMostTables() {
    std::string most;
    for (const std::string& stoc : cluster.Names("stoc")) {
      if (most.empty() || TablesOn(stoc) > TablesOn(most)) most = stoc;
    }
    return most;
  }
  size_t Orphans() {
    const std::set<Uuid> tables = Tables();
    size_t orphans = 0;
    for (const std::string& stoc : cluster.Names("stoc")) orphans += OrphansOn(stoc, tables);
    return orphans;
  }
  bool WaitForNone(Nanos within) {
    for (const Nanos until = Now() + within; Orphans() > 0; SleepFor(200 * kMillisecond)) {
      if (Now() >= until) return false;
    }
    return true;
  }

  int written = 0;
  std::map<std::string, std::string> values;
};

// What a flush or compaction had placed and not listed, and drops that were not sent yet, die with their LTC.
TEST(OrphanTest, N4WhatAnLtcLeftBehindIsCollectedByItsSuccessor) {
  size_t left = 0;
  for (uint64_t seed = 1; seed <= 3; ++seed) {
    Simulate(seed, [&left] {
      World w;
      for (int i = 0; i < 3; ++i) {
        ASSERT_NO_FATAL_FAILURE(w.Write(4));
        const std::string owner = w.Record().owner;
        w.cluster.Kill(owner);
        ASSERT_TRUE(w.WaitForOtherOwner(owner));
        left += w.Orphans();
        ASSERT_TRUE(w.cluster.Start(owner).ok());
      }
      EXPECT_TRUE(w.WaitForNone(60 * kSecond)) << w.Orphans();
      w.ExpectWhatWasWritten();
    });
  }
  EXPECT_GT(left, 0u) << "nothing was there to be collected";
}

// The owner stays: its epoch is the files'.
TEST(OrphanTest, N4WhatWasDroppedWhileAStocWasAwayIsCollectedWhenItIsBack) {
  size_t left = 0;
  for (const bool hung : {false, true}) {
    Simulate(2, [hung, &left] {
      World w;
      ASSERT_NO_FATAL_FAILURE(w.Write(3));
      const Epoch epoch = w.Record().epoch;
      const std::string stoc = w.StocOfMostTables();
      ASSERT_GT(w.TablesOn(stoc), 0u);
      hung ? w.cluster.Pause(stoc) : w.cluster.Kill(stoc);
      ASSERT_NO_FATAL_FAILURE(w.Write(6));
      SleepFor(15 * kSecond);  // what drops is asked of the StoC has ended
      if (hung) {
        w.cluster.Resume(stoc);
      } else {
        ASSERT_TRUE(w.cluster.Start(stoc).ok());
      }
      left += w.OrphansOn(stoc, w.Tables());
      EXPECT_TRUE(w.WaitForNone(60 * kSecond)) << w.Orphans();
      EXPECT_EQ(w.Record().epoch, epoch) << "another owner collected it";
      w.ExpectWhatWasWritten();
    });
  }
  EXPECT_GT(left, 0u) << "nothing was there to be collected";
}

// Of files whose headers a start of the StoC cannot read, those that a manifest names are written anew, and
// those that nothing needs go: one of a table, one of a manifest, one of a log.
TEST(OrphanTest, N4AFileWithoutAHeaderGoesWhereNoRangeNeedsIt) {
  for (uint64_t seed = 1; seed <= 3; ++seed) {
    Simulate(seed, [] {
      SimClusterOptions options = Options();
      options.ltc.hosted.placement.replicas = 2;
      options.ltc.hosted.log_mode = LogMode::kMemoryAndPersistent;
      World w(options);
      ASSERT_NO_FATAL_FAILURE(w.Write(6));
      const std::string stoc = w.StocOfMostTables();
      const std::set<Uuid> tables = w.Tables();
      Disk* const disk = w.cluster.disk(stoc);
      const auto names = disk->List("files");
      ASSERT_TRUE(names.ok());
      // What is left behind for ever: of another table, a manifest and a log of long ago.
      const std::vector<std::string> needless = {StocFileId{{9, 1}, kMetadataPart}.ToString(),
                                                 StocFileId{{9, 2}, 0}.ToString()};
      for (const std::string& name : needless) {
        const auto file = disk->Create("files/" + name);
        ASSERT_TRUE(file.ok() && (*file)->Write(0, "rot").ok() && (*file)->Sync().ok());
      }
      for (const std::string& name : *names) {
        const auto file = disk->Open("files/" + name, /*writable=*/true);
        if (!file.ok()) continue;  // it has gone meanwhile
        ASSERT_TRUE((*file)->Write(0, "rot").ok() && (*file)->Sync().ok());
      }
      ASSERT_TRUE(disk->SyncDirectory("files").ok());
      w.cluster.Kill(stoc);
      ASSERT_TRUE(w.cluster.Start(stoc).ok());
      const auto left = [&] { return w.cluster.Metric(stoc, "nova_stoc_unreadable_files"); };
      EXPECT_GE(left(), static_cast<double>(names->size()));
      for (const Nanos until = Now() + 60 * kSecond; left() > 0 && Now() < until;) SleepFor(kSecond / 10);
      EXPECT_EQ(left(), 0);
      for (const std::string& name : needless)
        EXPECT_FALSE(w.cluster.Contents(stoc, "files/" + name)) << name;
      w.ExpectWhatWasWritten();
      // Nothing else may have it: what is named there is there.
      const std::string owner = w.Record().owner;
      w.cluster.Kill(owner);
      ASSERT_TRUE(w.WaitForOtherOwner(owner));
      w.ExpectWhatWasWritten();
      const TableFiles files = LookAtTables(&w.cluster);
      EXPECT_EQ(files.error, "");
      EXPECT_EQ(files.Missing(), 0u);
      EXPECT_EQ(files.named.empty(), tables.empty());
    });
  }
}

// Listed as often as can be while flushes and compactions place tables and edits are slow: what is on its way
// into the manifest stays.
TEST(OrphanTest, N4WhatAJobUnderWayHasPlacedStays) {
  for (uint64_t seed = 1; seed <= 2; ++seed) {
    Simulate(seed, [] {
      SimClusterOptions options = Options();
      options.ltc.orphan_period_ns = kMillisecond;
      options.disk.latency_ns = 2 * kMillisecond;
      World w(options);
      ASSERT_NO_FATAL_FAILURE(w.Write(6));
      w.ExpectWhatWasWritten();
      const std::string owner = w.Record().owner;
      w.cluster.Kill(owner);
      ASSERT_TRUE(w.WaitForOtherOwner(owner));
      w.ExpectWhatWasWritten();
      for (const Uuid& table : w.Tables()) {
        size_t copies = 0;
        for (const std::string& stoc : w.cluster.Names("stoc")) {
          copies += w.cluster.disk(stoc)
                        ->Open(StrCat("files/", StocFileId{table, kMetadataPart}.ToString()), false)
                        .ok();
        }
        EXPECT_GT(copies, 0u) << table.ToString();
      }
    });
  }
}

}  // namespace
}  // namespace nova
