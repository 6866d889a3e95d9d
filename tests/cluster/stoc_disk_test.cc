// Disks of StoCs that are processes: lost for good, full, slow and hung
// (docs/testing.md, rows 18, 20 and 26).
#include <gtest/gtest.h>
#include <sys/mount.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <set>

#include "absl/strings/match.h"
#include "absl/strings/str_join.h"
#include "client/client.h"
#include "common/base/mutex.h"
#include "stoc/file_header.h"
#include "tests/cluster/connect_client.h"
#include "tests/cluster/kill_rounds.h"
#include "tests/cluster/namespaces.h"
#include "tests/cluster/range_probe.h"
#include "tests/cluster/wait_for_stoc.h"

namespace nova {
namespace {

constexpr int kStocs = 4;
constexpr int kRanges = 16;
constexpr int kKeys = 400;

class StocDiskTest : public testing::Test {
 protected:
  static void SetUpTestSuite() { no_mounts_ = EnterOwnMounts(); }
  void Start(ProcessClusterOptions options) {
    options.stocs = kStocs;
    options.ranges = kRanges;
    options.ltc_flags.insert(options.ltc_flags.end(),
                             {"--memtable_mb=1", "--table_mb=1", "--block_cache_mb=1"});
    auto cluster = ProcessCluster::Start(options);
    if (absl::IsNotFound(cluster.status())) GTEST_SKIP() << cluster.status().message();
    ASSERT_TRUE(cluster.ok()) << cluster.status();
    cluster_ = *std::move(cluster);
    client_ = ConnectClient(cluster_->coordinators(), 10'000);
  }
  static std::string KeyOf(int i) {
    return StrCat("user", 1'000'000'000'000'000'000 + static_cast<uint64_t>(i) * 20'000'000'000'000'000,
                  ".disk");
  }
  static std::string ValueOf(int i) { return StrCat(i, std::string(8000, static_cast<char>('a' + i % 26))); }
  void Fill() {
    for (int i = 0; i < kKeys; ++i) {
      const Result r = client_->Put(KeyOf(i), ValueOf(i));
      ASSERT_TRUE(r.ok()) << r.message;
    }
  }
  // Everything is in tables, and in no cache.
  void StartLtcsAnew() {
    for (const std::string name : {"ltc-0", "ltc-1"}) {
      const auto code = cluster_->Stop(name, Now() + 60 * kSecond);
      ASSERT_TRUE(code.ok() && *code == 0) << name;
    }
    for (const std::string name : {"ltc-0", "ltc-1"}) {
      const Status back = cluster_->Restart(name);
      ASSERT_TRUE(back.ok()) << back;
    }
    const Status open = cluster_->WaitOpen(Now() + 30 * kSecond);
    ASSERT_TRUE(open.ok()) << open;
  }
  struct Answers {
    int right = 0;
    int wrong = 0;  // another value, or none
    std::vector<std::string> failed;
    Nanos took_ns = 0;
  };
  // All keys are asked for at once.
  Answers AskForAll() {
    Mutex mu;
    Answers answers;
    std::atomic<int> left{kKeys};
    Notification all;
    const Nanos begun = Now();
    for (int i = 0; i < kKeys; ++i) {
      client_->GetAsync(KeyOf(i), [&, i](GetResult r) {
        {
          MutexLock lock(&mu);
          if (r.ok() && r.value == ValueOf(i)) {
            ++answers.right;
          } else if (r.ok() || r.outcome == Outcome::kNotFound) {
            ++answers.wrong;
          } else {
            answers.failed.push_back(r.message);
          }
        }
        if (--left == 0) all.Notify();
      });
    }
    all.Wait();
    MutexLock lock(&mu);
    answers.took_ns = Now() - begun;
    return answers;
  }
  void ExpectAllRight(const std::string& when) {
    const Answers answers = AskForAll();
    EXPECT_EQ(answers.right, kKeys) << when << ": " << answers.wrong << " wrong, " << answers.failed.size()
                                    << " failed: " << (answers.failed.empty() ? "" : answers.failed[0]);
    std::printf("%s: %d keys read in %lld ms\n", when.c_str(), answers.right,
                static_cast<long long>(answers.took_ns / kMillisecond));
  }
  // status_ is what it said last.
  bool WaitForStoc(const std::string& stoc, const std::function<bool(const nlohmann::json&)>& wanted) {
    return nova::WaitForStoc(cluster_.get(), stoc, wanted, Now() + 90 * kSecond, &status_);
  }
  // Names of the files of tables that the StoC has.
  std::set<std::string> TablesOf(const std::string& stoc) const {
    std::set<std::string> tables;
    std::error_code gone;
    for (const auto& e :
         std::filesystem::directory_iterator(StrCat(cluster_->directory(), "/", stoc, "/files"), gone)) {
      char head[kFileHeaderBytes] = {};
      std::ifstream(e.path(), std::ios::binary).read(head, sizeof(head));
      const auto header = FileHeader::Decode({head, sizeof(head)});
      if (header.ok() && header->kind == FileHeader::Kind::kWhole && e.path().extension() != ".tmp")
        tables.insert(e.path().filename().string());
    }
    return tables;
  }
  void LoseForGood(const std::string& stoc) {
    cluster_->Kill(stoc);
    std::filesystem::remove_all(StrCat(cluster_->directory(), "/", stoc));
  }

  static inline std::string no_mounts_;
  std::unique_ptr<ProcessCluster> cluster_;
  std::unique_ptr<Client> client_;
  nlohmann::json status_;
};

// Row 18.
TEST_F(StocDiskTest, ALostDiskOfTwoCopiesCostsNothing) {
  Start({});
  if (client_ == nullptr) return;
  Fill();
  StartLtcsAnew();
  LoseForGood("stoc-1");
  ExpectAllRight("without stoc-1");
  // Who did not open the ranges reads them without it too.
  cluster_->Kill("ltc-0");
  ExpectAllRight("after a failover");
  RangeProbe probe(cluster_->coordinators(), kRanges);
  EXPECT_GE(probe.Round("the loss of stoc-1"), 0);
  // An empty disk under the old name is another StoC, and has nothing of the old one's.
  const Status back = cluster_->Restart("stoc-1");
  ASSERT_TRUE(back.ok()) << back;
  ASSERT_TRUE(cluster_->Restart("ltc-0").ok());
  EXPECT_GE(probe.Round("a new stoc-1"), 0);
  ExpectAllRight("with a new stoc-1");
}

// One after the other, each made up for before the next one goes (rebuild, S5): what was there in two copies
// outlives the loss of two disks of four.
TEST_F(StocDiskTest, ALostDiskIsMadeUpForAndThenAnotherOneMayGo) {
  ProcessClusterOptions options;
  options.coordinator_flags = {"--stoc_down_after=2"};
  options.ltc_flags = {"--min_replicas=2"};
  Start(options);
  if (client_ == nullptr) return;
  Fill();
  StartLtcsAnew();
  for (const std::string stoc : {"stoc-1", "stoc-2"}) {
    LoseForGood(stoc);
    nlohmann::json status;
    const auto whole = [&] {
      std::string said;
      if (cluster_->Nova({"status", "--json"}, &said) != 0) return false;
      status = nlohmann::json::parse(said, nullptr, false);
      for (const auto& s : status.value("stocs", nlohmann::json::array())) {
        if (s.value("name", "") == stoc && s.value("presence", "") != "lost") return false;
      }
      const nlohmann::json tables =
          status.value("copies", nlohmann::json::object()).value("tables", nlohmann::json::object());
      return tables.value("all", 0) > 0 && tables.value("degraded", 1) == 0 &&
             status["copies"].value("ranges_whose_tables_are_not_heard_of", 1) == 0;
    };
    const Nanos until = Now() + 90 * kSecond;
    while (!whole() && Now() < until) SleepFor(200 * kMillisecond);
    ASSERT_LT(Now(), until) << status.dump();
    EXPECT_GT(status["rebuild"].value("copied_bytes", 0), 0) << status.dump();
    EXPECT_EQ(status["rebuild"].value("to_copy_bytes", 1), 0) << status.dump();
    ExpectAllRight("without " + stoc);
  }
  StartLtcsAnew();  // the manifests say it, too
  ExpectAllRight("after a restart of the LTCs");
}

TEST_F(StocDiskTest, ALostDiskOfOneCopyCostsWhatItHeldAndNothingElse) {
  ProcessClusterOptions options;
  options.ltc_flags = {"--table_replicas=1"};
  Start(options);
  if (client_ == nullptr) return;
  Fill();
  StartLtcsAnew();
  std::string lost;  // the one that has most of the tables
  int64_t most = 0;
  for (const std::string& name : cluster_->names()) {
    if (!name.starts_with("stoc-")) continue;
    const int64_t bytes = ReadMetric(cluster_->metrics_address(name), "nova_stoc_stored_bytes");
    if (bytes > most) lost = name;
    most = std::max(most, bytes);
  }
  std::string said;
  ASSERT_EQ(cluster_->Nova({"status", "--json"}, &said), 0) << said;
  uint32_t number = 0;  // of the StoC that is lost, as messages name it
  const nlohmann::json status = nlohmann::json::parse(said, nullptr, false);
  for (const nlohmann::json& node : status["nodes"]) {
    if (node["name"] == lost) number = node["stoc"];
  }
  LoseForGood(lost);
  const Answers answers = AskForAll();
  EXPECT_EQ(answers.wrong, 0);
  EXPECT_GT(answers.right, 0) << "what other StoCs have";
  EXPECT_GT(answers.failed.size(), 0u) << "nothing was on " << lost;
  for (const std::string& why : answers.failed) {
    EXPECT_TRUE(absl::StrContains(why, "get: Unavailable (range ")) << why;
    EXPECT_TRUE(absl::StrContains(why, ": no good copy of ") &&
                absl::StrContains(why, StrCat(": stoc ", number, ": Unavailable")))
        << why;
  }
  std::printf("%d keys read, %zu not: %s\n", answers.right, answers.failed.size(),
              answers.failed.empty() ? "" : answers.failed[0].c_str());
  // The ranges take writes, of those keys too.
  for (int i = 0; i < kKeys; ++i) {
    const Result r = client_->Put(KeyOf(i), ValueOf(i));
    ASSERT_TRUE(r.ok()) << r.message;
  }
  ExpectAllRight("written anew");
}

// Row 20: first one disk, then all.
TEST_F(StocDiskTest, FullDisksServeReadsAndTakeWritesOnceThereIsRoom) {
  if (!no_mounts_.empty()) GTEST_SKIP() << no_mounts_;
  std::string disks = (std::filesystem::temp_directory_path() / "nova-disks-XXXXXX").string();
  ASSERT_NE(mkdtemp(disks.data()), nullptr);
  ProcessClusterOptions options;
  std::vector<std::string> roots;
  for (int i = 0; i < kStocs; ++i) {
    roots.push_back(StrCat(disks, "/", i));
    std::filesystem::create_directory(roots.back());
    if (mount("nova-test", roots.back().c_str(), "tmpfs", 0, "size=160m") != 0)
      GTEST_SKIP() << "no mounts: no tmpfs";
    options.node_flags[StrCat("stoc-", i)] = {StrCat("--data=", roots.back(), "/data"),
                                              "--disk_reserve_mb=16"};
  }
  Start(options);
  if (client_ == nullptr) return;
  Fill();
  const auto fill_up = [&](int stoc) {
    std::ofstream ballast(roots[static_cast<size_t>(stoc)] + "/ballast", std::ios::binary);
    const std::string piece(64 << 10, 'b');
    while (ballast.write(piece.data(), static_cast<std::streamsize>(piece.size())).flush()) {
    }
  };
  fill_up(0);
  RangeProbe probe(cluster_->coordinators(), kRanges);
  EXPECT_GE(probe.Round("a disk was full"), 0);
  for (int i = 0; i < kKeys; ++i) {
    const Result r = client_->Put(KeyOf(i), ValueOf(i));
    ASSERT_TRUE(r.ok()) << "one disk of four is full: " << r.message;
  }
  ExpectAllRight("one disk is full");

  for (int i = 1; i < kStocs; ++i) fill_up(i);
  auto writer = ConnectClient(cluster_->coordinators(), 3'000);
  ASSERT_NE(writer, nullptr);
  // It has reached the memory of StoCs and not their disks: nobody can tell whether it will be found.
  const Result refused = writer->Put(KeyOf(0), ValueOf(0));
  std::printf("all disks are full: %s\n", refused.message.c_str());
  EXPECT_EQ(refused.outcome, Outcome::kUnknown) << refused.message;
  // What comes later is told so, and was not written.
  for (int i = 1; i < 10; ++i) {
    const Result later = writer->Put(KeyOf(0), ValueOf(i));
    if (i == 1) std::printf("and then: %s\n", later.message.c_str());
    EXPECT_EQ(later.outcome, Outcome::kNoSpace) << later.message;
  }
  ExpectAllRight("all disks are full");

  for (const std::string& root : roots) std::filesystem::remove(root + "/ballast");
  const Nanos room = Now();
  EXPECT_GE(probe.Round("there was room again", 20 * kSecond), 0);
  std::printf("all ranges took writes %lld ms after there was room\n",
              static_cast<long long>((Now() - room) / kMillisecond));
  Fill();
  ExpectAllRight("there is room again");
  client_ = nullptr;
  cluster_ = nullptr;
  for (const std::string& root : roots) umount(root.c_str());
  std::filesystem::remove_all(disks);
}

// Rows 21, 22: one sync of one disk fails, and all is well again. It is emptied, stays so when its process
// starts anew, and takes part again once an operator has said so.
TEST_F(StocDiskTest, ADiskThatGaveOneErrorIsEmptiedUntilItIsForgiven) {
  Start({});
  if (client_ == nullptr) return;
  Fill();
  StartLtcsAnew();
  const auto is_failing = [](const nlohmann::json& s) { return s["disk"].value("state", "") == "failing"; };
  cluster_->Kill("stoc-2");
  ASSERT_TRUE(cluster_->Restart("stoc-2", "stoc.disk_sync=error@3").ok());
  ASSERT_TRUE(WaitForStoc("stoc-2", is_failing)) << status_.dump();
  const Nanos seen = Now();
  ASSERT_TRUE(WaitForStoc("stoc-2", [&](const nlohmann::json& s) {
    return is_failing(s) && s["disk"].value("emptied", false) && s.value("left", "?").empty();
  })) << status_.dump();
  std::printf("emptied %lld ms after it was seen to fail\n",
              static_cast<long long>((Now() - seen) / kMillisecond));
  ExpectAllRight("one disk is emptied");
  cluster_->Kill("stoc-2");
  ExpectAllRight("without it");
  ASSERT_TRUE(cluster_->Restart("stoc-2").ok());
  ASSERT_TRUE(WaitForStoc("stoc-2", [&](const nlohmann::json& s) {
    return is_failing(s) && s.value("presence", "") == "up" && s["disk"].contains("faults");
  })) << status_.dump();
  EXPECT_EQ(ReadMetric(cluster_->metrics_address("stoc-2"), "nova_stoc_disk_faults_total"), 0)
      << "its own process has seen none";
  std::string said;
  ASSERT_EQ(cluster_->Nova({"undrain", "stoc-2"}, &said), 0) << said;
  ASSERT_TRUE(WaitForStoc("stoc-2", [](const nlohmann::json& s) {
    return s["disk"].value("state", "") == "ok";
  })) << status_.dump();
  Fill();
  StartLtcsAnew();
  EXPECT_GT(ReadMetric(cluster_->metrics_address("stoc-2"), "nova_stoc_files"), 0) << "it takes no new files";
  ExpectAllRight("it takes part again");
}

// Row 26: each operation of one StoC's disk takes long, or one does not end (StoC record, N5). The status
// says so, tables go elsewhere, and it takes part again when it is well.
TEST_F(StocDiskTest, N5ASlowOrHungDiskIsShownSoAndTakesNoNewTables) {
  ProcessClusterOptions options;
  options.start_ns = 90 * kSecond;  // its disk is slow while it starts, too
  Start(options);
  if (client_ == nullptr) return;
  Fill();
  StartLtcsAnew();
  const auto disk_is = [](const char* state) {
    return [state](const nlohmann::json& s) {
      return s.value("presence", "") == "up" && s["disk"].value("state", "") == state;
    };
  };
  const std::pair<const char*, const char*> kIllnesses[] = {
      {"slow", "stoc.disk_read=delay:400;stoc.disk_write=delay:400;stoc.disk_sync=delay:400"},
      {"hung", "stoc.disk_sync=delay:60000@6"}};
  for (const auto& [state, failpoints] : kIllnesses) {
    SCOPED_TRACE(state);
    cluster_->Kill("stoc-2");
    const Status back = cluster_->Restart("stoc-2", failpoints);
    ASSERT_TRUE(back.ok()) << back;
    const Nanos begun = Now();
    ASSERT_TRUE(WaitForStoc("stoc-2", disk_is(state))) << status_.dump();
    const Nanos seen = Now();
    StartLtcsAnew();  // their first heartbeats tell them of it
    const std::set<std::string> before = TablesOf("stoc-2"), others = TablesOf("stoc-1");
    Fill();
    StartLtcsAnew();
    std::vector<std::string> placed;
    for (const std::string& table : TablesOf("stoc-2")) {
      if (!before.contains(table)) placed.push_back(table);
    }
    EXPECT_TRUE(placed.empty()) << placed.size() << " tables were placed there, " << placed.front();
    EXPECT_NE(TablesOf("stoc-1"), others);
    ExpectAllRight(state);
    std::printf("%s: shown %lld ms after its start\n", state,
                static_cast<long long>((seen - begun) / kMillisecond));
    if (std::string_view(state) == "slow") {
      cluster_->Kill("stoc-2");
      ASSERT_TRUE(cluster_->Restart("stoc-2").ok());
    }
    ASSERT_TRUE(WaitForStoc("stoc-2", disk_is("ok"))) << status_.dump();
    const std::set<std::string> ill = TablesOf("stoc-2");
    StartLtcsAnew();  // as above: an LTC hears with its next heartbeat what the status says already
    Fill();
    StartLtcsAnew();
    EXPECT_NE(TablesOf("stoc-2"), ill) << "it takes no new tables";
  }
}

// Row 26: every operation of one StoC's disk takes two seconds, or a minute.
TEST_F(StocDiskTest, ASlowOrHungDiskOfOneStocHoldsUpNobodyForLong) {
  Start({});
  if (client_ == nullptr) return;
  Fill();
  StartLtcsAnew();
  Checker checker(cluster_->coordinators(), 8, 2000, 1000);
  for (int i = 0; i < 2; ++i) checker.Next();
  for (const int ms : {2'000, 60'000}) {
    const auto at = [&](const char* step) { return StrCat(step, "=delay:", ms); };
    cluster_->Kill("stoc-2");
    const Status back =
        cluster_->Restart("stoc-2", absl::StrJoin({at("stoc.file_read"), at("stoc.file_written"),
                                                   at("stoc.append_written"), at("stoc.log_written")},
                                                  ";"));
    ASSERT_TRUE(back.ok()) << back;
    checker.SkipToNow();
    uint64_t ok = 0, failed = 0, worst = 0;
    int64_t waiting = 0;  // for its disk
    // Until somebody wants something of it, and then for five seconds.
    for (int left = 5, tries = 30; left > 0 && tries > 0; --tries) {
      const Checker::Second s = checker.Next();
      waiting = std::max(waiting, ReadMetric(cluster_->metrics_address("stoc-2"), "nova_stoc_queue_depth"));
      ok += s.ok;
      failed += s.failed;
      worst = std::max(worst, s.worst_ms);
      left -= waiting > 0;
    }
    std::printf("%d ms an operation: %d operations, longest gap of a client thread %d ms, %d requests wait\n",
                ms, static_cast<int>(ok), static_cast<int>(worst), static_cast<int>(waiting));
    EXPECT_GT(waiting, 0) << "nobody waits for its disk";
    EXPECT_GT(ok, 0u);
    EXPECT_EQ(failed, 0u);
    // A put waits the longest: an append to a log's file has 4 s, then its group changes (L5).
    EXPECT_LT(worst, 5000u);
    ExpectAllRight("one disk is slow");
  }
  // A scan of everything may take longer than it has while a disk hangs: each stretch that it reads there
  // costs a third of its deadline.
  cluster_->Kill("stoc-2");
  const Status well = cluster_->Restart("stoc-2");
  ASSERT_TRUE(well.ok()) << well;
  const std::string verdict = checker.Verify();
  EXPECT_TRUE(verdict.starts_with("verified 2000 keys")) << verdict;
  std::printf("%s\n", verdict.c_str());
}

}  // namespace
}  // namespace nova
