// Checks of simulated clusters: of a whole one nothing is found; of each fault that fault and nothing
// else; and nothing is found of a cluster that works, compacts and moves while it is looked at.
#include "ltc/fsck/cluster_check.h"

#include <gtest/gtest.h>

#include "stoc/file_header.h"
#include "tests/cluster_sim/scenario.h"
#include "tests/cluster_sim/sim_fsck.h"
#include "tests/cluster_sim/table_files.h"

namespace nova {
namespace {

SimClusterOptions Options(LogMode mode = LogMode::kMemory) {
  SimClusterOptions options = SmallCluster();
  options.client.timeout_ms = 60'000;
  options.ltc.hosted.placement.replicas = 2;
  options.ltc.hosted.log_mode = mode;
  options.ltc.orphan_period_ns = 3600 * kSecond;  // what tests do is not mended
  return options;
}

CheckOptions Quickly() { return {.settle_ns = kSecond, .orphan_grace_ns = 3 * kSecond}; }

struct World : OneRange {
  explicit World(const SimClusterOptions& options = Options()) : OneRange(options), fsck(&cluster) {}

  // Tables, and a few records that are in logs alone; then nobody does anything.
  void Fill(int puts = 400) {
    for (int i = 0; i < puts; ++i) Put(i);
    SleepFor(5 * kSecond);
    for (int i = 0; i < 5; ++i) Put(i);
    SleepFor(kSecond);
  }
  void Put(int i) {
    const Result put = client->Put(KeyOf(i * 7 % 1000), StrCat(i, std::string(400, 'v')));
    ASSERT_TRUE(put.ok()) << put.message;
  }
  CheckReport Check(CheckOptions options = Quickly()) {
    const auto report = fsck.AskStocs(options);
    EXPECT_TRUE(report.ok()) << report.status();
    return report.value_or(CheckReport());
  }
  CheckReport CheckDisks() {
    const auto report = fsck.ReadDisks(cluster.Names("stoc"), Quickly());
    EXPECT_TRUE(report.ok()) << report.status();
    return report.value_or(CheckReport());
  }
  // All processes die with their machines, and their sessions expire.
  void EndAll() {
    LosePower();
    SleepFor(10 * kSecond);
  }

  static std::string PathOf(const StocFileId& file) { return "files/" + file.ToString(); }
  // Inverts a bit of the file, `at` bytes behind its header.
  void Flip(StocId stoc, const StocFileId& file, uint64_t at) {
    const auto opened = cluster.disk(StocOf(stoc))->Open(PathOf(file), /*writable=*/true);
    ASSERT_TRUE(opened.ok()) << opened.status();
    char byte;
    ASSERT_TRUE((*opened)->Read(kFileHeaderBytes + at, 1, &byte).ok());
    byte = static_cast<char>(byte ^ 4);
    ASSERT_TRUE((*opened)->Write(kFileHeaderBytes + at, {&byte, 1}).ok());
    ASSERT_TRUE((*opened)->Sync().ok());
  }
  uint64_t SizeOf(StocId stoc, const StocFileId& file) {
    return *(*cluster.disk(StocOf(stoc))->Open(PathOf(file), /*writable=*/false))->Size() - kFileHeaderBytes;
  }
  // A part of a table that is there, and one of the StoCs that have it.
  std::pair<StocFileId, StocId> SomePart(bool metadata) {
    const TableFiles tables = LookAtTables(&cluster);
    EXPECT_EQ(tables.error, "");
    for (const auto& [file, stocs] : tables.named) {
      if ((file.part == kMetadataPart) == metadata) return {file, *stocs.begin()};
    }
    ADD_FAILURE() << "there is no table";
    return {};
  }
  Creator Job(uint64_t job) {
    const RangeRecord r = Record();
    return {r.id, r.epoch, job};
  }

  SimFsck fsck;
};

void ExpectOnly(const CheckReport& report, FindingKind kind, StocId stoc, const StocFileId& file) {
  ASSERT_EQ(report.findings.size(), 1u) << RenderReport(report);
  const Finding& f = report.findings[0];
  EXPECT_EQ(std::string(FindingName(f.kind)), FindingName(kind)) << RenderReport(report);
  EXPECT_EQ(f.stoc, stoc) << RenderReport(report);
  EXPECT_EQ(f.file, file) << RenderReport(report);
  EXPECT_EQ(f.range, RangeId(1)) << RenderReport(report);
}
void ExpectClean(const CheckReport& report) { EXPECT_TRUE(report.findings.empty()) << RenderReport(report); }

TEST(ClusterCheckTest, AWholeClusterIsClean) {
  for (const LogMode mode : {LogMode::kMemory, LogMode::kPersistent, LogMode::kMemoryAndPersistent}) {
    Simulate(1, [mode] {
      World w(Options(mode));
      ASSERT_NO_FATAL_FAILURE(w.Fill());
      const CheckReport report = w.Check();
      ExpectClean(report);
      EXPECT_EQ(report.ranges, 1u);
      EXPECT_GT(report.tables, 1u);
      EXPECT_GT(report.blocks, report.table_parts.copies) << "a block a copy at least";
      EXPECT_EQ(report.log_groups.fewest(), 3u);
      EXPECT_EQ(report.manifests.fewest(), 3u);
      EXPECT_EQ(report.table_parts.fewest(), 2u);
      EXPECT_EQ(report.table_parts.all, LookAtTables(&w.cluster).named.size());
      EXPECT_EQ(report.table_parts.good, report.table_parts.copies);
      CheckOptions quick = Quickly();
      quick.quick = true;
      const CheckReport of_sizes = w.Check(quick);
      ExpectClean(of_sizes);
      EXPECT_EQ(of_sizes.blocks, 0u);
      EXPECT_LT(of_sizes.bytes, report.bytes);
      EXPECT_EQ(of_sizes.table_parts.good, report.table_parts.good);
    });
  }
}

TEST(ClusterCheckTest, ARangeThatIsNotThereAndAClusterThatIsNotThereAreErrors) {
  Simulate(1, [] {
    World w;
    CheckOptions other = Quickly();
    other.range = RangeId(77);
    EXPECT_TRUE(absl::IsNotFound(w.fsck.AskStocs(other).status()));
    MemoryConfig empty{MemoryConfigOptions()};
    StocReader reader(nullptr, {}, 0);
    EXPECT_TRUE(absl::IsNotFound(CheckCluster(empty.NewSession().get(), &reader, Quickly()).status()));
  });
}

TEST(ClusterCheckTest, AFlippedBitOfATableIsFoundInThatCopyAlone) {
  Simulate(2, [] {
    World w;
    ASSERT_NO_FATAL_FAILURE(w.Fill());
    for (const bool metadata : {false, true}) {
      const auto [file, stoc] = w.SomePart(metadata);
      const uint64_t size = w.SizeOf(stoc, file);
      for (const uint64_t at : {uint64_t{0}, size / 2, size - 1}) {
        ASSERT_NO_FATAL_FAILURE(w.Flip(stoc, file, at));
        const CheckReport report = w.Check();
        ExpectOnly(report, FindingKind::kTableDamaged, stoc, file);
        EXPECT_EQ(report.table_parts.fewest(), 1u);
        EXPECT_EQ(report.table_parts.copies - report.table_parts.good, 1u);
        CheckOptions quick = Quickly();
        quick.quick = true;
        ExpectClean(w.Check(quick));
        ASSERT_NO_FATAL_FAILURE(w.Flip(stoc, file, at));
      }
    }
    ExpectClean(w.Check());
  });
}

TEST(ClusterCheckTest, ADamagedManifestCopyIsFound) {
  Simulate(3, [] {
    World w;
    ASSERT_NO_FATAL_FAILURE(w.Fill());
    const ManifestGroup group = w.Record().manifest;
    const StocFileId file{group.file, 0};
    for (const uint64_t at : {uint64_t{0}, w.SizeOf(group.members[1], file) - 1}) {
      ASSERT_NO_FATAL_FAILURE(w.Flip(group.members[1], file, at));
      const CheckReport report = w.Check();
      ExpectOnly(report, FindingKind::kManifestCopy, group.members[1], file);
      EXPECT_EQ(report.manifests.fewest(), 2u);
      ASSERT_NO_FATAL_FAILURE(w.Flip(group.members[1], file, at));
    }
    for (const StocId stoc : group.members) ASSERT_NO_FATAL_FAILURE(w.Flip(stoc, file, 10));
    const CheckReport report = w.Check();
    EXPECT_EQ(report.manifests.fewest(), 0u);
    EXPECT_TRUE(std::any_of(report.findings.begin(), report.findings.end(), [](const Finding& f) {
      return f.kind == FindingKind::kManifest;
    })) << RenderReport(report);
  });
}

// The file of a log on a member has a record that is damaged; the records behind it say that it was synced.
TEST(ClusterCheckTest, AGapInAMembersFileOfALogIsFound) {
  Simulate(4, [] {
    World w(Options(LogMode::kPersistent));
    ASSERT_NO_FATAL_FAILURE(w.Fill());
    const StocId stoc = w.Record().log_groups.back().members[0].stoc;
    StocFileId damaged;
    w.fsck.client()->UpdateStocs({w.cluster.stoc(w.StocOf(stoc))->self()});
    const auto files =
        w.fsck.client()->ListFiles(stoc, RangeId(1), Epoch(UINT64_MAX), {}, Now() + 5 * kSecond);
    ASSERT_TRUE(files.ok()) << files.status();
    for (const FileSummary& f : *files) {
      if (f.creator.job == 0 && f.file.owner != w.Record().manifest.file && f.size > 1000) damaged = f.file;
    }
    ASSERT_NE(damaged, StocFileId()) << "a log with records";
    ASSERT_NO_FATAL_FAILURE(w.Flip(stoc, damaged, 20));
    ExpectOnly(w.Check(), FindingKind::kLogCopy, stoc, damaged);
  });
}

TEST(ClusterCheckTest, AFileThatIsGoneAndAReferenceThatIsGoneAreTwoThings) {
  Simulate(5, [] {
    World w;
    ASSERT_NO_FATAL_FAILURE(w.Fill());
    const auto [file, stoc] = w.SomePart(false);
    w.fsck.client()->UpdateStocs({w.cluster.stoc(w.StocOf(stoc))->self()});
    const Epoch epoch = w.Record().epoch;
    const Nanos deadline = Now() + 5 * kSecond;
    ASSERT_TRUE(w.fsck.client()->AddReferences(stoc, RangeId(99), Epoch(1), {file}, deadline).ok());
    ExpectClean(w.Check());
    ASSERT_TRUE(w.fsck.client()->DropReferences(stoc, RangeId(1), epoch, {file}, Now() + 5 * kSecond).ok());
    ExpectOnly(w.Check(), FindingKind::kReference, stoc, file);
    ASSERT_TRUE(
        w.fsck.client()->DropReferences(stoc, RangeId(99), Epoch(1), {file}, Now() + 5 * kSecond).ok());
    const CheckReport report = w.Check();
    ExpectOnly(report, FindingKind::kTableMissing, stoc, file);
    EXPECT_EQ(report.table_parts.fewest(), 1u);
  });
}

TEST(ClusterCheckTest, AnOrphanIsOneOnceItsOwnerHasLeftItForTheGrace) {
  Simulate(6, [] {
    World w;
    ASSERT_NO_FATAL_FAILURE(w.Fill());
    const StocFileId file{{0xabc, 1}, 0};
    const NodeInfo stoc = w.cluster.stoc("stoc-1")->self();
    w.fsck.client()->UpdateStocs({stoc});
    const Creator creator = w.Job(1'000'000);
    ASSERT_TRUE(w.fsck.client()->WriteFile(stoc.stoc_id, file, creator, "bytes", Now() + 5 * kSecond).ok());
    ExpectOnly(w.Check(), FindingKind::kOrphan, stoc.stoc_id, file);
    // It goes while it is looked at.
    Thread collector("collector", [&] {
      SleepFor(kSecond);
      ASSERT_TRUE(w.fsck.client()
                      ->DropReferences(stoc.stoc_id, RangeId(1), creator.epoch, {file}, Now() + 5 * kSecond)
                      .ok());
    });
    ExpectClean(w.Check());
    collector.Join();
    // Nobody is there to collect it.
    ASSERT_TRUE(w.fsck.client()->WriteFile(stoc.stoc_id, file, creator, "bytes", Now() + 5 * kSecond).ok());
    for (const std::string& ltc : w.cluster.Names("ltc")) w.cluster.Kill(ltc);
    SleepFor(10 * kSecond);
    const CheckReport report = w.Check();
    ExpectClean(report);
    EXPECT_EQ(report.left_over, 1u);
    EXPECT_EQ(report.left_over_bytes, 5u);
  });
}

// Its connections stand still, and it is registered.
TEST(ClusterCheckTest, AStocThatStandsStillIsOneFindingARange) {
  Simulate(7, [] {
    SimClusterOptions options = Options();
    options.stocs = 3;  // nobody takes its place
    World w(options);
    ASSERT_NO_FATAL_FAILURE(w.Fill());
    const StocId stoc = w.cluster.stoc("stoc-2")->self().stoc_id;
    w.cluster.Hang("stoc-2");
    const Nanos before = Now();
    const CheckReport report = w.Check();
    EXPECT_LT(Now() - before, 30 * kSecond) << "one deadline a look, not one a file";
    std::set<FindingKind> kinds;
    for (const Finding& f : report.findings) {
      EXPECT_EQ(f.stoc, stoc) << RenderReport(report);
      kinds.insert(f.kind);
    }
    EXPECT_EQ(kinds, (std::set{FindingKind::kStocSilent, FindingKind::kLogMember})) << RenderReport(report);
    EXPECT_EQ(report.table_parts.fewest(), 1u);
    EXPECT_EQ(report.manifests.fewest(), 2u);
    w.cluster.HealAll();
  });
}

// --- from the disks of a cluster that lost power

TEST(ClusterCheckTest, TheDisksOfAClusterThatLostPowerAreClean) {
  for (uint64_t seed = 1; seed <= 3; ++seed) {
    Simulate(seed, [] {
      World w(Options(LogMode::kPersistent));
      Notification stop;
      Thread writer("writer", [&] {
        for (int i = 0; !stop.HasBeenNotified(); ++i, SleepFor(2 * kMillisecond))
          w.client->Put(KeyOf(i % 1000), std::string(400, 'v'));
      });
      SleepFor(kSecond);
      w.LosePower();
      stop.Notify();
      writer.Join();
      SleepFor(10 * kSecond);
      const CheckReport report = w.CheckDisks();
      ExpectClean(report);
      EXPECT_EQ(report.log_groups.fewest(), 3u);
      EXPECT_GT(report.blocks, 0u);
    });
  }
}

TEST(ClusterCheckTest, AMemoryLogThatWentWithItsProcessesIsFound) {
  Simulate(1, [] {
    World w;
    ASSERT_NO_FATAL_FAILURE(w.Fill());
    w.EndAll();
    const CheckReport report = w.CheckDisks();
    EXPECT_EQ(report.findings.size(), 3u) << RenderReport(report);
    for (const Finding& f : report.findings) EXPECT_EQ(f.kind, FindingKind::kLogMember);
    EXPECT_EQ(report.log_groups.fewest(), 0u);
    EXPECT_EQ(report.manifests.fewest(), 3u);
  });
}

TEST(ClusterCheckTest, OnDisksAShortManifestAHeaderAndADirectoryThatIsNotGivenAreFound) {
  Simulate(2, [] {
    World w(Options(LogMode::kPersistent));
    ASSERT_NO_FATAL_FAILURE(w.Fill());
    const ManifestGroup group = w.Record().manifest;
    const StocFileId manifest{group.file, 0};
    const auto [part, stoc] = w.SomePart(false);
    const std::string with_part = w.StocOf(stoc), with_manifest = w.StocOf(group.members[2]);
    w.EndAll();
    ExpectClean(w.CheckDisks());

    const std::unique_ptr<Disk> disk = w.cluster.MountOfStopped(with_manifest);
    std::string bytes = w.cluster.CopyOfDisk(with_manifest)->Contents(World::PathOf(manifest)).value();
    const auto write = [&](const std::string& path, const std::string& content) {
      ASSERT_TRUE(disk->Delete(path).ok());
      const auto file = disk->Create(path);
      ASSERT_TRUE(file.ok() && (*file)->Write(0, content).ok() && (*file)->Sync().ok());
    };
    const std::string whole = bytes;
    bytes.resize(kFileHeaderBytes + (bytes.size() - kFileHeaderBytes) / 2);
    ASSERT_NO_FATAL_FAILURE(write(World::PathOf(manifest), bytes));
    ExpectOnly(w.CheckDisks(), FindingKind::kManifestCopy, group.members[2], manifest);
    ASSERT_NO_FATAL_FAILURE(write(World::PathOf(manifest), whole));
    ExpectClean(w.CheckDisks());

    const std::unique_ptr<Disk> other = w.cluster.MountOfStopped(with_part);
    const auto file = other->Open(World::PathOf(part), /*writable=*/true);
    ASSERT_TRUE(file.ok() && (*file)->Write(10, "?").ok());
    ExpectOnly(w.CheckDisks(), FindingKind::kTableDamaged, stoc, part);
    ASSERT_TRUE(other->Delete(World::PathOf(part)).ok());
    ExpectOnly(w.CheckDisks(), FindingKind::kTableMissing, stoc, part);

    std::vector<std::string> rest = w.cluster.Names("stoc");
    std::erase(rest, with_part);
    const auto without = w.fsck.ReadDisks(rest, Quickly());
    ASSERT_TRUE(without.ok());
    EXPECT_TRUE(std::any_of(without->findings.begin(), without->findings.end(), [&, s = stoc](const auto& f) {
      return f.kind == FindingKind::kStocSilent && f.stoc == s;
    })) << RenderReport(*without);
    EXPECT_EQ(without->table_parts.fewest(), 1u);
  });
}

// --- of a cluster that works

struct Busy : World {
  static SimClusterOptions BusyOptions(LogMode mode) {
    SimClusterOptions options = Options(mode);
    options.stocs = 5;
    options.ltcs = 3;
    options.ltc.orphan_period_ns = 2 * kSecond;
    options.ltc.orphan_grace_ms = 1000;
    return options;
  }
  explicit Busy(LogMode mode) : World(BusyOptions(mode)) {}

  // Writes, and moves the range and the copies of its tables, until `stop`.
  void Work(Notification* stop) {
    Thread writer("writer", [this, stop] {
      for (int i = 0; !stop->HasBeenNotified(); ++i, SleepFor(30 * kMillisecond)) {
        if (client->Put(KeyOf(i * 7 % 1000), StrCat(i, std::string(400, 'v'))).ok()) ++puts;
      }
    });
    CoordinatorClient admin = cluster.NewCoordinatorClient();
    for (int i = 0; !stop->HasBeenNotified(); ++i) {
      const std::string owner = Record().owner;
      if (i % 3 == 0) Drain(&admin, owner, *stop);
      if (i % 3 == 1) Drain(&admin, StrCat("stoc-", i / 3 % 5), *stop);
      if (i % 3 == 2 && !owner.empty() && cluster.Runs(owner)) {
        cluster.Kill(owner);
        SleepFor(3 * kSecond);
        EXPECT_TRUE(cluster.Start(owner).ok());
        ++killed;
      }
    }
    writer.Join();
  }

  // Until it is empty, or for 8 s; then it takes part again.
  void Drain(CoordinatorClient* admin, const std::string& node, const Notification& stop) {
    if (node.empty()) return;
    std::string left;
    for (const Nanos until = Now() + 8 * kSecond; Now() < until && !stop.HasBeenNotified();) {
      admin->Drain(node, Now() + 2 * kSecond, &left).IgnoreError();
      if (left.empty()) break;
      SleepFor(kSecond / 2);
    }
    drained += left.empty();
    while (!admin->Undrain(node, Now() + 2 * kSecond).ok()) SleepFor(kSecond / 2);
  }

  int puts = 0;
  int drained = 0;
  int killed = 0;
};

TEST(ClusterCheckTest, NothingIsFoundOfAClusterThatWorksCompactsAndMoves) {
  for (const LogMode mode : {LogMode::kMemory, LogMode::kPersistent}) {
    for (uint64_t seed = 1; seed <= 2; ++seed)
      Simulate(seed, [mode] {
        Busy w(mode);
        Notification stop;
        Thread work("work", [&] { w.Work(&stop); });
        SleepFor(3 * kSecond);
        const Nanos until = Now() + 60 * kSecond;
        int checks = 0;
        uint64_t at_first = 0;
        for (; Now() < until; ++checks) {
          ExpectClean(w.Check({.settle_ns = kSecond, .orphan_grace_ns = 10 * kSecond}));
          at_first += w.Check({.settle_ns = 0, .orphan_grace_ns = 0}).findings.size();
        }
        stop.Notify();
        work.Join();
        EXPECT_GT(checks, 1);
        EXPECT_GT(at_first, 0u) << "one look would have done";
        EXPECT_GT(w.puts, 300);
        EXPECT_GT(w.drained, 1);
        EXPECT_GT(w.killed, 0);
        EXPECT_GT(w.cluster.Metric("stoc", "nova_stoc_copied_bytes_total"), 0);
      });
  }
}

// What was not read of it in the first look is read in the second.
CheckReport CheckWhileStoc1StartsAnew(World* w) {
  bool read = false;
  Thread restart("restart", [&] {
    SleepFor(kSecond / 2);
    EXPECT_FALSE(read) << "it is over before";
    w->cluster.Kill("stoc-1");
    SleepFor(kSecond);
    EXPECT_TRUE(w->cluster.Start("stoc-1").ok());
  });
  CheckOptions options = Quickly();
  options.settle_ns = 20 * kSecond;
  options.orphan_grace_ns = 20 * kSecond;
  int silent = 0;
  options.say = [&silent](const std::string& line) {
    silent += line.find("are looked at again") != line.npos;
  };
  const auto report = w->fsck.AskStocs(options, /*bytes_per_second=*/100'000);
  read = true;
  restart.Join();
  EXPECT_TRUE(report.ok()) << report.status();
  EXPECT_GT(silent, 0) << "it was not missed";
  return report.value_or(CheckReport());
}

TEST(ClusterCheckTest, AStocThatStartsAnewWhileItIsReadIsNoFinding) {
  Simulate(9, [] {
    World w;
    ASSERT_NO_FATAL_FAILURE(w.Fill());
    const CheckReport report = CheckWhileStoc1StartsAnew(&w);
    ExpectClean(report);
    EXPECT_EQ(report.table_parts.good, report.table_parts.copies);
  });
}

TEST(ClusterCheckTest, WhatIsDamagedThereIsFoundAllTheSame) {
  Simulate(9, [] {
    World w;
    ASSERT_NO_FATAL_FAILURE(w.Fill());
    const TableFiles tables = LookAtTables(&w.cluster);
    ASSERT_EQ(tables.error, "");
    size_t damaged = 0;
    for (const auto& [file, stocs] : tables.named) {
      for (const StocId stoc : stocs) {
        if (w.StocOf(stoc) != "stoc-1") continue;
        ASSERT_NO_FATAL_FAILURE(w.Flip(stoc, file, w.SizeOf(stoc, file) / 2));
        ++damaged;
      }
    }
    ASSERT_GT(damaged, 3u);
    const CheckReport report = CheckWhileStoc1StartsAnew(&w);
    EXPECT_EQ(report.findings.size(), damaged) << RenderReport(report);
    for (const Finding& f : report.findings)
      EXPECT_EQ(f.kind, FindingKind::kTableDamaged) << RenderReport(report);
    EXPECT_EQ(report.table_parts.copies - report.table_parts.good, damaged);
  });
}

TEST(ClusterCheckTest, RecordsThatDoNotDecodeAreFound) {
  Simulate(10, [] {
    World w;
    const std::unique_ptr<ConfigStore> store = w.cluster.config()->NewSession();
    ASSERT_TRUE(store->Create("/ranges/9", "no record").ok());
    ASSERT_TRUE(store->Create("/stocs/99", "no record").ok());
    const CheckReport report = w.Check();
    ASSERT_EQ(report.findings.size(), 2u) << RenderReport(report);
    EXPECT_EQ(report.findings[0].kind, FindingKind::kRecord);
    EXPECT_EQ(report.findings[0].stoc, StocId(99));
    EXPECT_EQ(report.findings[1].kind, FindingKind::kRecord);
    EXPECT_EQ(report.findings[1].range, RangeId(9));
    EXPECT_EQ(report.ranges, 2u);
  });
}

TEST(ClusterCheckTest, NoMoreIsReadThanTheBound) {
  Simulate(8, [] {
    World w;
    for (int i = 0; i < 60; ++i) ASSERT_TRUE(w.client->Put(KeyOf(i), std::string(40'000, 'v')).ok());
    SleepFor(5 * kSecond);
    constexpr uint64_t kRate = 500'000;
    const Nanos before = Now();
    const auto report = w.fsck.AskStocs(Quickly(), kRate);
    ASSERT_TRUE(report.ok()) << report.status();
    ExpectClean(*report);
    ASSERT_GT(report->bytes, 3'000'000u);
    EXPECT_GE(Now() - before,
              static_cast<Nanos>((report->bytes - StocReader::kPieceBytes) * kSecond / kRate));
  });
}

}  // namespace
}  // namespace nova
