// YCSB's own client through the binding: workloads a to f against 16 ranges, small and large records; no
// operation fails.
#include <gtest/gtest.h>

#include <filesystem>

#include "absl/strings/str_split.h"
#include "tests/cluster/process_cluster.h"

namespace nova {
namespace {

class YcsbTest : public testing::Test {
 protected:
  void SetUp() override {
    if (!std::filesystem::exists(NOVA_SOURCE_DIR "/client/ycsb/target/nova-binding-0.17.0.jar")) {
      GTEST_SKIP() << "the binding is not built: (cd client/ycsb && mvn package)";
    }
    ProcessClusterOptions options;
    options.ltc_flags = {"--table_replicas=2", "--memtable_mb=1"};
    auto cluster = ProcessCluster::Start(options);
    if (absl::IsNotFound(cluster.status())) GTEST_SKIP() << cluster.status().message();
    ASSERT_TRUE(cluster.ok()) << cluster.status();
    cluster_ = *std::move(cluster);
  }
  // Runs one phase to its end; the exit code of deploy/ycsb.sh.
  int RunScript(const std::string& phase, char workload, int records, int operations, std::string* output,
                const std::string& more = "") {
    const std::string command =
        StrCat(NOVA_SOURCE_DIR "/deploy/ycsb.sh ", phase, " ", std::string(1, workload),
               " --build=" NOVA_BINARY_DIR " --coordinators=", cluster_->coordinators(),
               " --records=", records, " --operations=", operations, " --threads=16 ", more, " 2>&1");
    return RunToEnd({"/bin/bash", "-c", command}, output);
  }
  // Runs one phase; every operation must have returned OK.
  void Run(const std::string& phase, char workload, int records, int operations,
           const std::string& more = "") {
    std::string output;
    ASSERT_EQ(RunScript(phase, workload, records, operations, &output, more), 0) << output;
    uint64_t ok = 0;
    for (const std::string& line : std::vector<std::string>(absl::StrSplit(output, '\n'))) {
      const size_t at = line.find("], Return=");
      if (at == std::string::npos) continue;
      const std::vector<std::string> words = absl::StrSplit(line.substr(at + 10), ", ");
      ASSERT_EQ(words[0], "OK") << "workload " << workload << ": " << line;
      ok += std::stoull(words[1]);
    }
    EXPECT_GE(ok, static_cast<uint64_t>(phase == "load" ? records : operations)) << output;
  }
  std::unique_ptr<ProcessCluster> cluster_;
};

TEST_F(YcsbTest, WorkloadsAToFRunWithoutAFailedOperation) {
  ASSERT_NO_FATAL_FAILURE(Run("load", 'a', 5000, 0));
  for (const char workload : {'a', 'b', 'c', 'f', 'd', 'e'}) {
    ASSERT_NO_FATAL_FAILURE(Run("run", workload, 5000, workload == 'e' ? 2000 : 10000)) << workload;
  }
}

TEST_F(YcsbTest, RecordsOfAlmostAMegabyteLoadReadAndScan) {
  const std::string large = "-p fieldcount=1 -p fieldlength=1000000 -p maxscanlength=5";
  ASSERT_NO_FATAL_FAILURE(Run("load", 'e', 100, 0, large));
  ASSERT_NO_FATAL_FAILURE(Run("run", 'e', 100, 200, large));
  ASSERT_NO_FATAL_FAILURE(Run("run", 'a', 100, 200, large));
}

// Their keys lie between each other's, and are none of each other's.
TEST_F(YcsbTest, BenchAndYcsbShareAClusterWithoutAFailedOperation) {
  ASSERT_NO_FATAL_FAILURE(Run("load", 'a', 2000, 0));
  std::string output;
  for (const char* workload : {"LOAD", "SW50"}) {
    ASSERT_EQ(
        cluster_->Nova({"bench", workload, "--records=2000", "--operations=2000", "--noprogress"}, &output),
        0)
        << output;
    EXPECT_NE(output.find("not found 0 "), std::string::npos) << output;
  }
  for (const char workload : {'a', 'e'})
    ASSERT_NO_FATAL_FAILURE(Run("run", workload, 2000, 2000)) << workload;
}

TEST_F(YcsbTest, AForeignRecordIsAnErrorAndARunThatFailsIsNoResult) {
  ASSERT_NO_FATAL_FAILURE(Run("load", 'e', 100, 0));
  std::string output;
  ASSERT_EQ(cluster_->Nova({"scan", "user", "1000"}, &output), 0);
  const std::vector<std::string> lines = absl::StrSplit(output, '\n');
  for (const std::string& line : lines) {
    const std::string key(line.substr(0, line.find('\t')));
    if (key.size() < 5 || !key.starts_with("user") || key.find_first_not_of("0123456789", 4) != key.npos)
      continue;
    ASSERT_EQ(cluster_->Nova({"put", key, "no record"}, &output), 0) << output;
  }
  EXPECT_EQ(RunScript("run", 'e', 100, 200, &output), 1) << output;
  EXPECT_NE(output.find("[SCAN], Return=ERROR, "), std::string::npos) << output;
  EXPECT_NE(output.find("operations failed"), std::string::npos) << output;
  EXPECT_EQ(RunScript("run", 'c', 100, 200, &output), 1) << output;
  EXPECT_NE(output.find("[READ], Return=ERROR, "), std::string::npos) << output;
  EXPECT_EQ(RunScript("run", 'c', 100, 200, &output, "-p nova.coordinators=127.0.0.1:1"), 1) << output;
  EXPECT_NE(output.find("error: the run had no throughput"), std::string::npos) << output;
  EXPECT_EQ(output.find("SIGSEGV"), std::string::npos)
      << "a thread used the client that could not be opened: " << output;
}

}  // namespace
}  // namespace nova
