// Scrubs on a whole simulated cluster (scrub, S6): what damages disks is found though nobody reads it, told
// to the owner, and made good; whatever kind of file it is in.
#include <gtest/gtest.h>

#include "common/base/crc32c.h"
#include "tests/cluster_sim/copies_world.h"

namespace nova {
namespace {

using Kind = FileHeader::Kind;

constexpr Nanos kPeriod = 4 * kSecond;

SimClusterOptions Options() {
  SimClusterOptions options = SmallCluster();
  options.stocs = 5;
  options.client.timeout_ms = 60'000;
  options.ltc.hosted.placement.replicas = 2;
  options.ltc.hosted.log_mode = LogMode::kPersistent;
  options.ltc.orphan_period_ns = 2 * kSecond;
  options.stoc.scrub = {.period_ns = kPeriod, .bytes_per_second = 100'000'000};
  return options;
}

struct World : CopiesWorld {
  explicit World(const SimClusterOptions& options = Options()) : CopiesWorld(options), random(7) {
    OneRange::WaitFor(10 * kSecond, [](const RangeRecord& r) { return r.state == RangeState::kOpen; });
  }

  void ExpectWhatWasWritten() {
    CopiesWorld::ExpectWhatWasWritten();
    EXPECT_EQ(cluster.Metric("ltc", "nova_table_reads_without_good_copy_total"), 0);
  }

  // The files of that kind on the StoC's disk whose header can be read, and that no job is about to replace.
  std::vector<StocFileId> FilesOn(const std::string& stoc, Kind kind) {
    std::vector<StocFileId> found;
    for (const std::string& name : cluster.disk(stoc)->List("files").value_or(std::vector<std::string>())) {
      const auto header = HeaderOf(stoc, name);
      if (header.has_value() && header->kind == kind) found.push_back(header->file);
    }
    return found;
  }
  std::optional<FileHeader> HeaderOf(const std::string& stoc, const std::string& name) {
    const auto file = cluster.disk(stoc)->Open("files/" + name, /*writable=*/false);
    char bytes[kFileHeaderBytes];
    if (name.ends_with(".tmp") || !file.ok() || !(*file)->Read(0, sizeof(bytes), bytes).ok()) return {};
    const auto header = FileHeader::Decode({bytes, sizeof(bytes)});
    return header.ok() ? std::optional(*header) : std::nullopt;
  }
  // One bit, anywhere in it.
  void Flip(const std::string& stoc, const StocFileId& file) {
    const auto open = cluster.disk(stoc)->Open("files/" + file.ToString(), /*writable=*/true);
    if (!open.ok()) return;  // deleted meanwhile
    const uint64_t at = random.Uniform(*(*open)->Size());
    char byte;
    ASSERT_TRUE((*open)->Read(at, 1, &byte).ok());
    byte = static_cast<char>(byte ^ (1 << random.Uniform(8)));
    ASSERT_TRUE((*open)->Write(at, {&byte, 1}).ok() && (*open)->Sync().ok());
    ++damages;
  }
  void Lose(const std::string& stoc, const StocFileId& file) {
    damages += cluster.disk(stoc)->Delete("files/" + file.ToString()).ok();
  }
  // Of each part of a table one copy at most, on whatever disk; one copy of the manifest; one of each log.
  void DamageAllKinds() {
    std::set<StocFileId> damaged;
    int tables = 0;
    for (const std::string& stoc : cluster.Names("stoc")) {
      for (const Kind kind : {Kind::kWhole, Kind::kAppended, Kind::kLog}) {
        for (const StocFileId& file : FilesOn(stoc, kind)) {
          if (!damaged.insert(file).second) continue;
          (kind == Kind::kWhole && ++tables % 5 == 0) ? Lose(stoc, file) : Flip(stoc, file);
        }
      }
    }
  }
  // Whole files whose bytes are not those that their headers promise, or that have no readable header.
  int Bad() {
    int bad = 0;
    for (const std::string& stoc : cluster.Names("stoc")) {
      for (const std::string& name : cluster.disk(stoc)->List("files").value_or(std::vector<std::string>())) {
        const auto file = cluster.disk(stoc)->Open("files/" + name, /*writable=*/false);
        if (name.ends_with(".tmp") || !file.ok()) continue;
        std::string bytes((*file)->Size().value_or(0), '\0');
        if (!(*file)->Read(0, bytes.size(), bytes.data()).ok()) continue;
        const auto header = FileHeader::Decode(std::string_view(bytes).substr(0, kFileHeaderBytes));
        bad += !header.ok() || (header->kind == Kind::kWhole &&
                                Crc32c(std::string_view(bytes).substr(kFileHeaderBytes)) != header->data_crc);
      }
    }
    return bad;
  }
  double Damaged() { return cluster.Metric("stoc", "nova_stoc_damaged_files"); }
  double Found() { return cluster.Metric("stoc", "nova_stoc_scrub_found_total"); }
  // Nothing is damaged, missing or told as damaged.
  bool WaitHealed(Nanos within) {
    for (const Nanos until = Now() + within; Now() < until; SleepFor(kSecond / 5)) {
      const TableFiles copies = LookAtTables(&cluster);
      state = StrCat(Bad(), " bad files, ", Damaged(), " marked, ", copies.ToString(2));
      if (copies.error.empty() && Bad() == 0 && Damaged() == 0 && copies.Missing() == 0) return true;
    }
    return false;
  }

  Random random;
  int damages = 0;    // done
  std::string state;  // that WaitHealed saw last
};

TEST(ScrubClusterTest, S6DamageToAllKindsOfFilesIsFoundAndMadeGood) {
  for (uint64_t seed = 1; seed <= 3; ++seed) {
    Simulate(seed, [] {
      World w;
      ASSERT_NO_FATAL_FAILURE(w.Write(8));
      SleepFor(2 * kPeriod);
      EXPECT_EQ(w.Found(), 0) << "of a cluster that nothing damages";
      const Uuid manifest = w.Record().manifest.file;
      const GroupId group = w.Record().last_group;
      w.DamageAllKinds();
      ASSERT_GT(w.damages, 20);
      // Nobody reads, and nobody writes.
      ASSERT_TRUE(w.WaitHealed(3 * kPeriod + 60 * kSecond)) << w.state;
      EXPECT_GT(w.Found(), 0);
      // Its damage may be found after all of the tables' is made good.
      EXPECT_TRUE(w.OneRange::WaitFor(kPeriod + 10 * kSecond, [&](const RangeRecord& r) {
        return r.manifest.file != manifest;
      })) << "a copy of it was damaged";
      EXPECT_TRUE(w.OneRange::WaitFor(kPeriod + 10 * kSecond, [&](const RangeRecord& r) {
        return r.last_group > group;
      })) << "a log was damaged";
      w.ExpectWhatWasWritten();
      // Another owner finds all of it, too.
      const std::string owner = w.Record().owner;
      w.cluster.Kill(owner);
      ASSERT_TRUE(w.WaitForOtherOwner(owner));
      w.ExpectWhatWasWritten();
    });
  }
}

TEST(ScrubClusterTest, S6DamageIsMadeGoodUnderWrites) {
  for (uint64_t seed = 1; seed <= 2; ++seed) {
    Simulate(seed, [] {
      World w;
      ASSERT_NO_FATAL_FAILURE(w.Write(3));
      for (int i = 0; i < 4; ++i) {
        w.DamageAllKinds();
        ASSERT_NO_FATAL_FAILURE(w.Write(3));
        ASSERT_TRUE(w.WaitHealed(3 * kPeriod + 60 * kSecond)) << w.state;
      }
      w.ExpectWhatWasWritten();
    });
  }
}

// What is found while nobody owns the range is kept, over restarts of the StoCs too.
TEST(ScrubClusterTest, S6FindingsWaitForTheirOwner) {
  Simulate(4, [] {
    World w;
    ASSERT_NO_FATAL_FAILURE(w.Write(4));
    for (const std::string& ltc : w.cluster.Names("ltc")) ASSERT_TRUE(w.cluster.Stop(ltc).ok());
    std::set<StocFileId> damaged;
    for (const std::string& stoc : w.cluster.Names("stoc")) {
      for (const StocFileId& file : w.FilesOn(stoc, Kind::kWhole)) {
        if (damaged.insert(file).second) w.Flip(stoc, file);
      }
    }
    ASSERT_GT(w.damages, 5);
    for (const Nanos until = Now() + 3 * kPeriod; w.Found() < w.damages && Now() < until;)
      SleepFor(kSecond / 5);
    EXPECT_EQ(w.Found(), w.damages);
    SleepFor(2 * kSecond);
    const double waiting = w.Damaged();  // a header alone a StoC makes good by itself
    ASSERT_GT(waiting, 5);
    for (const std::string& stoc : w.cluster.Names("stoc")) {
      w.cluster.Kill(stoc);
      ASSERT_TRUE(w.cluster.Start(stoc).ok());
    }
    EXPECT_EQ(w.Damaged(), waiting);
    for (const std::string& ltc : w.cluster.Names("ltc")) ASSERT_TRUE(w.cluster.Start(ltc).ok());
    ASSERT_TRUE(w.cluster.WaitOpen(1, 60 * kSecond));
    ASSERT_TRUE(w.WaitHealed(60 * kSecond)) << w.state;
    w.ExpectWhatWasWritten();
  });
}

// A StoC has no such files then. Its owner's audit misses them.
TEST(ScrubClusterTest, S6WhatCannotBeReadAtAStartIsMadeGood) {
  Simulate(6, [] {
    World w;
    ASSERT_NO_FATAL_FAILURE(w.Write(4));
    SleepFor(5 * kSecond);  // flushes and compactions end
    const ManifestGroup manifest = w.Record().manifest;
    const std::string stoc = w.StocOf(manifest.members.front());
    const StocId id = w.cluster.stoc(stoc)->self().stoc_id;
    w.cluster.Kill(stoc);
    ASSERT_TRUE(w.cluster.Start(stoc).ok());
    for (const Kind kind : {Kind::kWhole, Kind::kAppended}) {
      for (const StocFileId& file : w.FilesOn(stoc, kind)) {
        ASSERT_TRUE((*w.cluster.disk(stoc)->Open("files/" + file.ToString(), true))->Write(12, "#####").ok());
        ASSERT_TRUE((*w.cluster.disk(stoc)->Open("files/" + file.ToString(), true))->Sync().ok());
      }
    }
    w.cluster.Kill(stoc);
    ASSERT_TRUE(w.cluster.Start(stoc).ok());
    const auto healed = [&] {
      const TableFiles copies = LookAtTables(&w.cluster);
      w.state = copies.ToString(2);
      return copies.error.empty() && copies.Missing() == 0 && w.Record().manifest.file != manifest.file;
    };
    for (const Nanos until = Now() + 60 * kSecond; !healed() && Now() < until;) SleepFor(kSecond / 5);
    EXPECT_TRUE(healed()) << w.state;
    EXPECT_FALSE(LookAtTables(&w.cluster).files[id].empty());
    w.ExpectWhatWasWritten();
  });
}

// Nobody can make that good: it is told of, stays marked, and holds up nothing else.
TEST(ScrubClusterTest, S6WhatHasNoGoodCopyKeepsNothingElseFromBeingHealed) {
  Simulate(5, [] {
    World w;
    ASSERT_NO_FATAL_FAILURE(w.Write(4));
    SleepFor(5 * kSecond);  // flushes and compactions end
    const TableFiles copies = LookAtTables(&w.cluster);
    ASSERT_TRUE(copies.error.empty()) << copies.error;
    // All copies of one file; of every other one a copy.
    const StocFileId lost = copies.named.begin()->first;
    size_t marked = 0;
    for (const auto& [file, stocs] : copies.named) {
      for (const StocId stoc : stocs) {
        if (file != lost && stoc != *stocs.begin()) continue;
        const auto open = w.cluster.disk(w.StocOf(stoc))->Open("files/" + file.ToString(), true);
        ASSERT_TRUE(open.ok());
        ASSERT_TRUE((*open)->Write(kFileHeaderBytes, std::string(10, '\x5a')).ok());
        marked += file == lost;
      }
    }
    ASSERT_EQ(marked, 2u);
    ASSERT_GT(copies.named.size(), 10u);
    for (const Nanos until = Now() + 3 * 60 * kSecond; Now() < until; SleepFor(kSecond)) {
      if (w.Found() >= static_cast<double>(copies.named.size() + 1) && w.Damaged() == 2) break;
    }
    EXPECT_EQ(w.Damaged(), 2) << "of " << w.Found() << " found";
    EXPECT_EQ(w.Bad(), 2);
  });
}

}  // namespace
}  // namespace nova
