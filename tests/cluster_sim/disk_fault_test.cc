// Disks of StoCs that fail, hang, are slow or full (StoC record, N5; docs/testing.md, rows 20 to 22 and 26):
// seen and told so, passed over by what is new, and emptied where that is called for.
#include <gmock/gmock.h>

#include "common/base/fault_disk.h"
#include "tests/cluster_sim/copies_world.h"

namespace nova {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr Nanos kDownAfter = 20 * kSecond;
constexpr Nanos kSoon = 5 * kSecond;  // within which a disk is passed over

SimClusterOptions Options() {
  SimClusterOptions options = FiveStocs(kDownAfter);
  options.stoc.disk_watch.hung_after_ns = 3 * kSecond;
  options.stoc.disk_watch.well_after_ns = 3 * kSecond;
  options.stoc.disk_probe_period_ns = kSecond;
  options.coordinator.cluster.disk_well_after_ns = 5 * kSecond;
  options.wrap_disk = [](const std::string&, Disk* disk) { return std::make_unique<FaultDisk>(disk); };
  return options;
}

struct World : CopiesWorld {
  explicit World(const SimClusterOptions& options = Options()) : CopiesWorld(options) {}

  FaultDisk* Faults(const std::string& stoc) { return static_cast<FaultDisk*>(cluster.wrapped_disk(stoc)); }
  void Add(const std::string& stoc, std::initializer_list<DiskOp> ops, FaultRule rule) {
    for (const DiskOp op : ops) {
      rule.op = op;
      Faults(stoc)->Add(rule);
    }
  }
  // One error, of the next sync; of what nobody needs, unless `path` says otherwise.
  void FailOnce(const std::string& stoc, const std::string& path = "PROBE") {
    Add(stoc, {DiskOp::kSync}, {.path = path, .action = FaultAction::kEio, .count = 1});
  }
  std::string Status() { return cluster.NewCoordinatorClient().StatusText(Now() + kSecond).value_or(""); }
  bool WaitForStatus(const std::string& text, Nanos within, bool there = true) {
    for (const Nanos until = Now() + within; Now() < until; SleepFor(kSecond / 10)) {
      if ((Status().find(text) != std::string::npos) == there) return true;
    }
    return false;
  }
  StocId IdOf(const std::string& stoc) { return cluster.stoc(stoc)->self().stoc_id; }
  // Of parts of tables that manifests name there.
  size_t Named(const std::string& stoc) {
    const TableFiles copies = LookAtTables(&cluster);
    size_t n = 0;
    for (const auto& [file, stocs] : copies.named) n += stocs.contains(IdOf(stoc));
    return n;
  }
  // Neither a table nor the manifest nor a log names it.
  bool IsLeft(const std::string& stoc) {
    const RangeRecord r = Record();
    const StocId id = IdOf(stoc);
    const auto& manifest = r.manifest.members;
    bool named = std::find(manifest.begin(), manifest.end(), id) != manifest.end();
    for (const LogGroup& g : r.log_groups) {
      for (const LogMember& m : g.members) named |= m.stoc == id;
    }
    return !named && Named(stoc) == 0;
  }
  bool WaitLeft(const std::string& stoc, Nanos within) {
    for (const Nanos until = Now() + within; Now() < until; SleepFor(kSecond / 10)) {
      if (IsLeft(stoc)) return true;
    }
    return false;
  }
  // Writes until new tables are placed there.
  bool TakesNewFiles(const std::string& stoc) {
    const double before = Made(stoc);
    for (int i = 0; i < 20 && Made(stoc) == before; ++i) {
      Write(1);
      SleepFor(kSecond / 2);
    }
    return Made(stoc) > before;
  }
  // Files of tables that StoC has, by names: what was there before and what came.
  std::set<std::string> TableNames(const std::string& stoc) {
    std::set<std::string> names;
    const auto all = cluster.disk(stoc)->List("files");
    if (!all.ok()) return names;
    for (const std::string& name : *all) {
      if (cluster.IsTable(stoc, "files/" + name)) names.insert(name);
    }
    return names;
  }
  // How many tables it has had placed there, of those that WatchNew has seen.
  double Made(const std::string& stoc) {
    for (const std::string& name : TableNames(stoc)) seen[stoc].insert(name);
    return static_cast<double>(seen[stoc].size());
  }
  std::map<std::string, std::set<std::string>> seen;
  Nanos LongestPut(int n) {
    Nanos longest = 0;
    for (int i = 0; i < n; ++i) {
      const Nanos begun = Now();
      Write(1);
      longest = std::max(longest, (Now() - begun) / 100);
    }
    return longest;
  }
};

TEST(DiskFaultTest, N5ADiskThatGaveAnErrorIsEmptiedUntilAnOperatorForgivesIt) {
  for (uint64_t seed = 1; seed <= 3; ++seed) {
    Simulate(seed, [] {
      World w;
      ASSERT_NO_FATAL_FAILURE(w.Write(6));
      w.FailOnce("stoc-2");
      ASSERT_TRUE(w.WaitForStatus("disk failing since", kSoon)) << w.Status();
      ASSERT_TRUE(w.WaitLeft("stoc-2", 60 * kSecond)) << w.Status();
      ASSERT_TRUE(w.WaitWholeAndTidy(60 * kSecond)) << w.last;
      EXPECT_TRUE(w.WaitForStatus(": emptied", kSoon)) << w.Status();
      EXPECT_THAT(w.Status(), HasSubstr("disks of StoCs: 5, 1 failing"));
      EXPECT_EQ(w.cluster.Metric("coordinator", "nova_cluster_stoc_disks{state=\"failing\"}"), 1);
      // Its process starts again, and reads and writes well: nobody knows what it holds, all the same.
      w.cluster.Kill("stoc-2");
      ASSERT_TRUE(w.cluster.Start("stoc-2").ok());
      ASSERT_NO_FATAL_FAILURE(w.Write(6));
      EXPECT_TRUE(w.IsLeft("stoc-2")) << w.Status();
      w.ExpectWhatWasWritten();
      ASSERT_TRUE(w.cluster.NewCoordinatorClient().Undrain("stoc-2", Now() + kSecond).ok());
      EXPECT_TRUE(w.WaitForStatus("disk failing", kSoon, false)) << w.Status();
      EXPECT_TRUE(w.TakesNewFiles("stoc-2")) << w.Status();
    });
  }
}

// Forgiven, and it fails again: in the same process.
TEST(DiskFaultTest, N5WhatADiskDoesAfterItWasForgivenCounts) {
  Simulate(1, [] {
    World w;
    ASSERT_NO_FATAL_FAILURE(w.Write(2));
    for (int i = 0; i < 2; ++i) {
      w.FailOnce("stoc-2");
      ASSERT_TRUE(w.WaitForStatus("disk failing since", kSoon)) << w.Status();
      ASSERT_TRUE(w.cluster.NewCoordinatorClient().Undrain("stoc-2", Now() + kSecond).ok());
      ASSERT_TRUE(w.WaitForStatus("disk failing", kSoon, false)) << w.Status();
      SleepFor(5 * kSecond);
      EXPECT_THAT(w.Status(), Not(HasSubstr("disk failing")));
      EXPECT_EQ(w.cluster.Metric("stoc", "nova_stoc_disk_state"), 0) << "the StoC was not told";
    }
  });
}

// With nowhere to go its copies stay, and what is written has as many as before; a third StoC is what it
// waited for.
TEST(DiskFaultTest, N5AnEmptiedDiskKeepsWhatFindsNoOtherPlace) {
  Simulate(1, [] {
    SimClusterOptions options = Options();
    options.stocs = 3;
    options.ltc.hosted.log_replicas = 2;
    options.ltc.hosted.manifest_replicas = 2;
    World w(options);
    w.cluster.Kill("stoc-2");
    ASSERT_NO_FATAL_FAILURE(w.Write(4));
    w.FailOnce("stoc-0");
    ASSERT_TRUE(w.WaitForStatus("disk failing since", kSoon)) << w.Status();
    ASSERT_NO_FATAL_FAILURE(w.Write(6));
    SleepFor(10 * kSecond);
    EXPECT_THAT(w.Status(), HasSubstr("too few other StoCs to take all"));
    EXPECT_TRUE(w.WaitWhole(20 * kSecond)) << w.last;
    EXPECT_EQ(w.Record().manifest.members.size(), 2u);
    ASSERT_EQ(w.Record().log_groups.size(), 1u) << "one group after another";
    EXPECT_EQ(w.Record().log_groups[0].members.size(), 2u);
    ASSERT_TRUE(w.cluster.Start("stoc-2").ok());
    EXPECT_TRUE(w.WaitLeft("stoc-0", 90 * kSecond)) << w.Status();
    EXPECT_TRUE(w.WaitWhole(20 * kSecond)) << w.last;
    w.ExpectWhatWasWritten();
  });
}

// A preference is no refusal: where each disk has failed once, all are used.
TEST(DiskFaultTest, N5WhereEachDiskIsIllWritesGoOn) {
  Simulate(1, [] {
    World w;
    ASSERT_NO_FATAL_FAILURE(w.Write(2));
    for (const std::string& stoc : w.cluster.Names("stoc")) w.FailOnce(stoc, "");
    ASSERT_TRUE(w.WaitForStatus("disks of StoCs: 5, 5 failing", kSoon)) << w.Status();
    ASSERT_NO_FATAL_FAILURE(w.Write(10));
    EXPECT_TRUE(w.WaitWhole(30 * kSecond)) << w.last;
    w.ExpectWhatWasWritten();
  });
}

TEST(DiskFaultTest, N5AReadOnlyDiskIsEmptied) {
  Simulate(1, [] {
    World w;
    ASSERT_NO_FATAL_FAILURE(w.Write(4));
    ASSERT_TRUE(w.WaitWholeAndTidy(60 * kSecond)) << w.last;
    ASSERT_GT(w.Named("stoc-1"), 0u);
    w.Add("stoc-1", {DiskOp::kCreate, DiskOp::kWrite, DiskOp::kSync, DiskOp::kRename, DiskOp::kDelete},
          {.action = FaultAction::kReadOnly});
    ASSERT_TRUE(w.WaitForStatus("disk read_only since", kSoon)) << w.Status();
    // Nobody writes, so that no compaction leaves it either.
    EXPECT_TRUE(w.WaitLeft("stoc-1", 60 * kSecond)) << w.Status();
    EXPECT_TRUE(w.WaitWhole(30 * kSecond)) << w.last;
    ASSERT_NO_FATAL_FAILURE(w.Write(4));
    EXPECT_TRUE(w.IsLeft("stoc-1")) << w.Status();
    w.ExpectWhatWasWritten();
  });
}

// Its operations do not end for a minute: reads go to other copies and puts go on; it is emptied once it has
// hung for as long as a StoC may be away, and takes part again when it is well.
TEST(DiskFaultTest, N5AHungDiskHoldsUpNobodyAndIsEmptiedInTheEnd) {
  for (uint64_t seed = 1; seed <= 3; ++seed) {
    Simulate(seed, [] {
      World w;
      ASSERT_NO_FATAL_FAILURE(w.Write(6));
      w.Add("stoc-1", {DiskOp::kRead, DiskOp::kWrite, DiskOp::kSync},
            {.action = FaultAction::kDelay, .delay_ns = 60 * kSecond});
      const Nanos begun = Now();
      ASSERT_TRUE(w.WaitForStatus("disk hung since", 3 * kSecond + kSoon)) << w.Status();
      EXPECT_THAT(w.Status(), HasSubstr("1 hung"));
      ASSERT_NO_FATAL_FAILURE(w.Write(3));
      w.ExpectWhatWasWritten();
      EXPECT_LT(Now(), begun + kDownAfter) << "it held up reads and puts";
      EXPECT_THAT(w.Status(), HasSubstr(": no new files")) << "it is emptied too early";
      ASSERT_TRUE(w.WaitLeft("stoc-1", kDownAfter + 30 * kSecond)) << w.Status();
      w.Faults("stoc-1")->Clear();
      ASSERT_TRUE(w.WaitForStatus("disks of StoCs", 90 * kSecond, false)) << w.Status();
      EXPECT_TRUE(w.TakesNewFiles("stoc-1")) << w.Status();
      EXPECT_TRUE(w.WaitWholeAndTidy(60 * kSecond)) << w.last;
      w.ExpectWhatWasWritten();
    });
  }
}

TEST(DiskFaultTest, N5ASlowDiskTakesNoNewFilesAndIsNotEmptied) {
  for (uint64_t seed = 1; seed <= 3; ++seed) {
    Simulate(seed, [] {
      World w;
      ASSERT_NO_FATAL_FAILURE(w.Write(6));
      SleepFor(5 * kSecond);
      const size_t named = w.Named("stoc-1");
      ASSERT_GT(named, 0u);
      w.Add("stoc-1", {DiskOp::kRead, DiskOp::kWrite, DiskOp::kSync},
            {.action = FaultAction::kDelay, .delay_ns = 200 * kMillisecond});
      ASSERT_TRUE(w.WaitForStatus("disk slow since", kSoon)) << w.Status();
      SleepFor(2 * kSecond);  // what was placed there until then ends
      const double before = w.Made("stoc-1");
      ASSERT_NO_FATAL_FAILURE(w.Write(6));
      EXPECT_EQ(w.Made("stoc-1"), before) << "it took new files";
      w.Faults("stoc-1")->Clear();
      ASSERT_TRUE(w.WaitForStatus("disk slow", 60 * kSecond, false)) << w.Status();
      EXPECT_TRUE(w.TakesNewFiles("stoc-1")) << w.Status();
      w.ExpectWhatWasWritten();
    });
  }
}

TEST(DiskFaultTest, S2AFullDiskTakesNoNewFilesAndDoesSoAgainByItself) {
  Simulate(1, [] {
    World w;
    ASSERT_NO_FATAL_FAILURE(w.Write(6));
    w.Add("stoc-1", {DiskOp::kCreate, DiskOp::kFreeBytes}, {.action = FaultAction::kNoSpace});
    ASSERT_TRUE(w.WaitForStatus("disk full", kSoon)) << w.Status();
    SleepFor(2 * kSecond);
    const double refused = w.cluster.Metric("stoc", "nova_stoc_no_space_total");
    ASSERT_NO_FATAL_FAILURE(w.Write(6));
    EXPECT_EQ(w.cluster.Metric("stoc", "nova_stoc_no_space_total"), refused) << "it was asked all the same";
    EXPECT_TRUE(w.WaitWhole(20 * kSecond)) << w.last;
    w.Faults("stoc-1")->Clear();
    ASSERT_TRUE(w.WaitForStatus("disk full", 15 * kSecond, false)) << w.Status();
    EXPECT_TRUE(w.TakesNewFiles("stoc-1")) << w.Status();
    w.ExpectWhatWasWritten();
  });
}

}  // namespace
}  // namespace nova
