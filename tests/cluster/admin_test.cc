// What an administrator does to a cluster under load: draining nodes, opening a range whose log is lost.
#include <signal.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <regex>

#include "absl/strings/match.h"
#include "client/exit_codes.h"
#include "tests/cluster/kill_rounds.h"
#include "tests/cluster/wait_for_stoc.h"

namespace nova {
namespace {

class AdminTest : public testing::Test {
 protected:
  void Start(const ProcessClusterOptions& options) {
    auto cluster = ProcessCluster::Start(options);
    if (absl::IsNotFound(cluster.status())) GTEST_SKIP() << cluster.status().message();
    ASSERT_TRUE(cluster.ok()) << cluster.status();
    cluster_ = *std::move(cluster);
  }
  int Nova(const std::vector<std::string>& arguments) { return cluster_->Nova(arguments, &said_); }
  std::string Status() {
    EXPECT_EQ(Nova({"status"}), 0) << said_;
    return said_;
  }
  // `nova drain`, which shows what is left, falling, until nothing is.
  void Drain(const std::string& node) {
    EXPECT_EQ(Nova({"drain", node}), 0) << said_;
    EXPECT_TRUE(absl::StrContains(said_, StrCat(node, ": "))) << said_;
    EXPECT_TRUE(absl::EndsWith(said_, " left\n" + node + " is drained: it can stop\n")) << said_;
    std::printf("%s", said_.c_str());
    EXPECT_TRUE(absl::StrContains(Status(), ", drained")) << said_;
  }
  void Configure() {
    EXPECT_EQ(Nova({"configure", "dranges", "many"}), 2);
    EXPECT_EQ(said_, "error: 'many' is neither a number nor 'default'\n");
    EXPECT_EQ(Nova({"configure", "dranges", "0"}), 2);
    EXPECT_EQ(said_, "error: dranges = 0: must be 1 to 1024\n");
    EXPECT_EQ(Nova({"configure", "thetas", "5"}), 2);
    EXPECT_TRUE(absl::StrContains(said_, "no setting 'thetas'; there are: active_memtables, ")) << said_;
    EXPECT_EQ(Nova({"configure", "dranges", "4"}), 0) << said_;
    EXPECT_EQ(Nova({"configure", "active_memtables", "3"}), 0) << said_;
    EXPECT_TRUE(absl::StrContains(Status(), "set for all LTCs: active_memtables = 3, dranges = 4\n"))
        << said_;
    EXPECT_EQ(Nova({"configure", "dranges", "default"}), 0) << said_;
    EXPECT_TRUE(absl::StrContains(Status(), "set for all LTCs: active_memtables = 3\n")) << said_;
  }
  void StopDrained(const std::string& node) {
    const auto code = cluster_->Stop(node, Now() + 30 * kSecond);
    ASSERT_TRUE(code.ok()) << node << ": " << code.status();
    EXPECT_EQ(*code, 0) << node;
  }

  std::unique_ptr<ProcessCluster> cluster_;
  std::string said_;
};

// The number after `name` on a node's metrics page; -1: none.
int64_t Metric(const ProcessCluster& cluster, const std::string& node, const std::string& name) {
  for (const auto& line : absl::StrSplit(HttpGet(cluster.metrics_address(node), "/metrics"), '\n')) {
    const std::vector<std::string> words = absl::StrSplit(line, ' ');
    double value;
    if (words.size() == 2 && words[0] == name && absl::SimpleAtod(words[1], &value))
      return static_cast<int64_t>(value);
  }
  return -1;
}

TEST_F(AdminTest, DrainedNodesStopWithNothingFailedAndNothingLost) {
  ProcessClusterOptions options;
  options.stocs = 4;
  options.ranges = 8;
  // the only copies have to move
  options.ltc_flags = {"--table_replicas=1", "--memtable_mb=1", "--table_mb=1", "--level1_mb=4"};
  Start(options);
  if (cluster_ == nullptr) return;
  Checker checker(cluster_->coordinators(), 4, 4000, 4000);
  for (int i = 0; i < 3; ++i) checker.Next();
  Configure();
  // A range's next round has what was set; how soon that begins is the load's affair.
  std::string page;
  for (int i = 0; i < 60 && !absl::StrContains(page, " of 3 memtables"); ++i) {
    checker.Next();
    page = HttpGet(cluster_->metrics_address("ltc-0"), "/");
  }
  EXPECT_TRUE(absl::StrContains(page, " of 3 memtables")) << page;
  Drain("stoc-0");
  EXPECT_EQ(Nova({"drain", "stoc-9"}), 1) << said_;
  const int64_t changes = Metric(*cluster_, "ltc-0", "nova_logc_group_changes_total");
  StopDrained("stoc-0");
  for (int i = 0; i < 3; ++i) checker.Next();
  EXPECT_EQ(Metric(*cluster_, "ltc-0", "nova_logc_group_changes_total"), changes)
      << "a log still had the drained StoC";
  Drain("ltc-0");
  EXPECT_TRUE(absl::StrContains(said_, "0 ranges, drained")) << said_;
  StopDrained("ltc-0");
  for (int i = 0; i < 3; ++i) checker.Next();
  const std::string verdict = checker.Verify();
  EXPECT_TRUE(verdict.starts_with("verified 4000 keys")) << verdict;
  EXPECT_TRUE(absl::StrContains(verdict, ", 0 failed, 0 unknown")) << verdict;
  std::printf("%s\n", verdict.c_str());
  // Both may come back. The LTC takes part again, the StoC when it is told so.
  ASSERT_TRUE(cluster_->Restart("stoc-0").ok());
  ASSERT_TRUE(cluster_->Restart("ltc-0").ok());
  nlohmann::json status;
  ASSERT_TRUE(WaitForStoc(
      cluster_.get(), "stoc-0", [](const nlohmann::json& s) { return s.value("presence", "") == "up"; },
      Now() + 30 * kSecond, &status))
      << status.dump();
  EXPECT_TRUE(absl::StrContains(Status(), ", drain")) << said_;
  EXPECT_EQ(Nova({"drain", "stoc-1"}), 1) << said_;
  EXPECT_TRUE(absl::StrContains(said_, "stoc-1: 2 StoCs would be left to place on, too few for the 3 copies"))
      << said_;
  EXPECT_EQ(Nova({"undrain", "stoc-9"}), 1) << said_;
  EXPECT_EQ(Nova({"undrain", "stoc-0"}), 0) << said_;
  EXPECT_EQ(said_, "stoc-0 takes part again\n");
  EXPECT_FALSE(absl::StrContains(Status(), "drain")) << said_;
}

TEST_F(AdminTest, EachMetricOfEachProcessIsExplained) {
  ProcessClusterOptions options;
  options.ltcs = 1;
  options.stocs = 2;
  options.ltc_flags = {"--log_replicas=2"};
  Start(options);
  if (cluster_ == nullptr) return;
  ASSERT_EQ(Nova({"put", "key", "1"}), 0) << said_;
  for (const std::string& node : cluster_->names()) {
    const std::string page = HttpGet(cluster_->metrics_address(node), "/metrics");
    int families = 0;
    const std::vector<std::string> lines = absl::StrSplit(page, '\n');
    for (const std::string& line : lines) {
      if (!line.starts_with("# TYPE ")) continue;
      const std::string family = line.substr(7, line.find(' ', 7) - 7);
      EXPECT_NE(page.find(StrCat("# HELP ", family, " ")), std::string::npos) << node << ": " << family;
      ++families;
    }
    EXPECT_GT(families, 5) << node;
  }
}

TEST_F(AdminTest, ARangeThatLostItsLogIsUnavailableUntilForcedOpen) {
  ProcessClusterOptions options;
  options.ltcs = 1;
  options.stocs = 4;
  options.ranges = 1;
  // restarted, its members hold nothing
  options.ltc_flags = {"--log_mode=memory", "--log_replicas=2", "--table_replicas=2"};
  Start(options);
  if (cluster_ == nullptr) return;
  for (int i = 0; i < 20; ++i) ASSERT_EQ(Nova({"put", StrCat("flushed", i), "1"}), 0) << said_;
  StopDrained("ltc-0");  // what it holds goes to tables
  ASSERT_TRUE(cluster_->Restart("ltc-0").ok());
  ASSERT_TRUE(cluster_->WaitOpen(Now() + 30 * kSecond).ok());
  for (int i = 0; i < 20; ++i) ASSERT_EQ(Nova({"put", StrCat("logged", i), "2"}), 0) << said_;

  const std::string before = Status();  // "... 7{stoc-1,stoc-3}"
  const size_t open = before.find('{'), close = before.find('}');
  ASSERT_TRUE(open != std::string::npos && close != std::string::npos) << before;
  const std::vector<std::string> group = absl::StrSplit(before.substr(open + 1, close - open - 1), ',');
  ASSERT_EQ(group.size(), 2u) << before;
  for (const std::string& stoc : group) cluster_->Kill(stoc);
  cluster_->Kill("ltc-0");
  // empty memory, the same disk (N1)
  for (const std::string& stoc : group) ASSERT_TRUE(cluster_->Restart(stoc).ok());
  ASSERT_TRUE(cluster_->Restart("ltc-0").ok());

  const Nanos until = Now() + 15 * kSecond;
  while (!absl::StrContains(Status(), "range 1 is UNAVAILABLE: all members of log group ") && Now() < until)
    SleepFor(200 * kMillisecond);
  EXPECT_TRUE(absl::StrContains(said_, "range 1 is UNAVAILABLE: all members of log group ")) << said_;
  EXPECT_EQ(Nova({"--timeout_ms=1000", "get", "flushed1"}), 1);
  EXPECT_FALSE(absl::StrContains(said_, "NotFound")) << said_;
  EXPECT_EQ(Nova({"--timeout_ms=1000", "put", "new", "1"}), 1) << said_;
  EXPECT_EQ(Nova({"force-open", "1"}), 1);
  EXPECT_TRUE(absl::StrContains(said_, " is LOST: ")) << said_;
  EXPECT_TRUE(absl::StrContains(said_, "writes acknowledged there are gone")) << said_;
  SleepFor(3 * kSecond);
  EXPECT_TRUE(absl::StrContains(Status(), "UNAVAILABLE")) << "it opened by itself: " << said_;

  EXPECT_EQ(Nova({"force-open", "1", "--accept-data-loss"}), 0) << said_;
  EXPECT_TRUE(absl::StrContains(said_, " is LOST: ")) << said_;
  ASSERT_TRUE(cluster_->WaitOpen(Now() + 30 * kSecond).ok());
  EXPECT_FALSE(absl::StrContains(Status(), "UNAVAILABLE")) << said_;
  for (int i = 0; i < 20; ++i) {
    EXPECT_EQ(Nova({"get", StrCat("flushed", i)}), 0) << said_;
    EXPECT_EQ(said_, "1\n");
    EXPECT_EQ(Nova({"get", StrCat("logged", i)}), kExitNotFound);
    EXPECT_EQ(said_, "get: NotFound\n");
  }
  EXPECT_EQ(Nova({"put", "logged0", "3"}), 0) << said_;
  EXPECT_EQ(Nova({"get", "logged0"}), 0);
  EXPECT_EQ(said_, "3\n");
}

// L3: what docs/durability.md tells a person to do.
TEST_F(AdminTest, ALogDamagedOnEveryStocIsOpenedAsFarAsItIsCut) {
  ProcessClusterOptions options;
  options.ltcs = 1;
  options.ranges = 1;
  options.ltc_flags = {"--log_mode=persistent", "--xchg_threads=1"};  // one log
  Start(options);
  if (cluster_ == nullptr) return;
  const auto key = [](int i) { return StrCat("key", 100 + i); };
  for (int i = 0; i < 20; ++i) ASSERT_EQ(Nova({"put", key(i), "1"}), 0) << said_;
  const std::vector<std::string> stocs = {"stoc-0", "stoc-1", "stoc-2"};
  const auto kill_all = [&] {
    cluster_->Kill("ltc-0");
    for (const std::string& stoc : stocs) cluster_->Kill(stoc);
  };
  const auto start_all = [&] {
    for (const std::string& stoc : stocs) ASSERT_TRUE(cluster_->Restart(stoc).ok());
    ASSERT_TRUE(cluster_->Restart("ltc-0").ok());
  };
  kill_all();
  // or a journal would mend what follows
  for (const std::string& stoc : stocs) ASSERT_TRUE(cluster_->Restart(stoc).ok());
  for (const std::string& stoc : stocs) cluster_->Kill(stoc);
  int damaged = 0;
  for (const std::string& stoc : stocs) {
    for (const auto& file :
         std::filesystem::directory_iterator(StrCat(cluster_->directory(), "/", stoc, "/files"))) {
      std::fstream bytes(file.path(), std::ios::in | std::ios::out | std::ios::binary);
      const std::string all{std::istreambuf_iterator<char>(bytes), {}};
      const size_t at = all.find(key(12));
      if (at == std::string::npos) continue;
      bytes.seekp(static_cast<std::streamoff>(at));
      bytes.put('K');
      ++damaged;
    }
  }
  ASSERT_EQ(damaged, 3) << "copies of the log";
  start_all();

  std::string text;
  for (const Nanos until = Now() + 20 * kSecond; Now() < until && text.empty();
       SleepFor(100 * kMillisecond)) {
    std::ifstream log(StrCat(cluster_->directory(), "/ltc-0.log"));
    for (std::string line; text.empty() && std::getline(log, line);) {
      if (absl::StrContains(line, "is damaged: record ")) text = line;
    }
  }
  EXPECT_TRUE(
      absl::StrContains(text, "is damaged: record 13, which was acknowledged, is not whole in files/"))
      << text;
  EXPECT_EQ(Nova({"--timeout_ms=1000", "get", key(0)}), 1);
  EXPECT_FALSE(absl::StrContains(said_, "NotFound")) << said_;
  kill_all();
  for (const std::string& stoc : stocs) {
    const std::regex place(StrCat("(files/[0-9a-f.]+) on ", stoc, "[^,;]* from offset ([0-9]+)"));
    std::smatch found;
    ASSERT_TRUE(std::regex_search(text, found, place)) << text;
    std::filesystem::resize_file(StrCat(cluster_->directory(), "/", stoc, "/", found[1].str()),
                                 80 + std::stoull(found[2].str()));
  }
  start_all();
  ASSERT_TRUE(cluster_->WaitOpen(Now() + 30 * kSecond).ok());
  for (int i = 0; i < 20; ++i) {
    EXPECT_EQ(Nova({"get", key(i)}), i < 12 ? 0 : kExitNotFound);
    EXPECT_EQ(said_, i < 12 ? "1\n" : "get: NotFound\n") << i;
  }
  EXPECT_EQ(Nova({"put", key(12), "2"}), 0) << said_;
  EXPECT_EQ(Nova({"get", key(12)}), 0);
  EXPECT_EQ(said_, "2\n");
}

}  // namespace
}  // namespace nova
