// `nova fsck` on processes: of a cluster that runs, of one that was stopped, of one that was killed.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "tests/cluster/process_cluster.h"

namespace nova {
namespace {

constexpr int kHeaderBytes = 80;  // of a StoC's file (docs/formats.md)

class FsckTest : public testing::Test {
 protected:
  void Start() {
    ProcessClusterOptions options;
    options.ranges = 4;
    options.ltc_flags = {"--table_replicas=2", "--memtable_mb=1"};
    auto started = ProcessCluster::Start(options);
    if (absl::IsNotFound(started.status())) GTEST_SKIP() << started.status();
    ASSERT_TRUE(started.ok()) << started.status();
    cluster_ = *std::move(started);
    std::string out;
    ASSERT_EQ(cluster_->Nova({"bench", "LOAD", "--records=20000", "--threads=4", "--noprogress"}, &out), 0)
        << out;
    ASSERT_EQ(Fsck({}), 0) << out_;
    // Until nothing is compacted any more: of several single looks, none sees a table that nothing names yet.
    int quiet = 0;
    for (const Nanos until = Now() + 60 * kSecond; quiet < 4 && Now() < until;)
      quiet = Fsck({"--quick", "--settle_ms=0", "--orphan_grace_s=0"}) == 0 ? quiet + 1 : 0;
    ASSERT_EQ(quiet, 4) << out_;
  }
  // The exit code of `nova fsck`; what it says is in out_.
  int Fsck(const std::vector<std::string>& flags) {
    std::vector<std::string> all = {"--settle_ms=1500", "--orphan_grace_s=30"};
    all.insert(all.end(), flags.begin(), flags.end());
    return cluster_->Fsck(all, &out_);
  }
  std::vector<std::string> StocNames() const { return {"stoc-0", "stoc-1", "stoc-2"}; }
  std::string Directories() const {
    std::string all = "--store_dirs=";
    for (const std::string& stoc : StocNames()) all += StrCat(cluster_->directory(), "/", stoc, ",");
    return all;
  }
  // Of a part of a table with data, on that StoC.
  std::filesystem::path SomeTable(const std::string& stoc) const {
    std::filesystem::path largest;
    for (const auto& e :
         std::filesystem::directory_iterator(StrCat(cluster_->directory(), "/", stoc, "/files"))) {
      std::ifstream in(e.path(), std::ios::binary);
      char head[12] = {};
      in.read(head, sizeof(head));
      const bool whole = head[10] == 1;  // its kind
      if (whole && e.path().extension() == ".0" && (largest.empty() || e.file_size() > file_size(largest)))
        largest = e.path();
    }
    return largest;
  }
  static void Flip(const std::filesystem::path& path) {
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekg(kHeaderBytes + 100);
    const int byte = file.get();
    file.seekp(kHeaderBytes + 100);
    file.put(static_cast<char>(byte ^ 1));
    ASSERT_TRUE(file.good()) << path;
  }
  // A cluster that runs may read it, and mend it, or merge the table away before the second look.
  void ExpectFlippedBitIsFound(const std::vector<std::string>& flags) {
    std::filesystem::path table;
    int code = 0;
    for (int tries = 0; tries < 5 && code == 0; ++tries) {
      table = SomeTable("stoc-1");
      ASSERT_FALSE(table.empty());
      ASSERT_NO_FATAL_FAILURE(Flip(table));
      code = Fsck(flags);
    }
    EXPECT_EQ(code, 1) << out_;
    EXPECT_NE(out_.find("table-damaged range "), std::string::npos) << out_;
    EXPECT_NE(out_.find(StrCat(" stoc-1 files/", table.filename().string(), ": ")), std::string::npos)
        << out_;
    EXPECT_NE(out_.find("checksum mismatch"), std::string::npos) << out_;
    EXPECT_NE(out_.find("findings: 1\n"), std::string::npos) << out_;
    ASSERT_NO_FATAL_FAILURE(Flip(table));
  }
  void Stop(const std::string& node) {
    const auto code = cluster_->Stop(node, Now() + 60 * kSecond);
    ASSERT_TRUE(code.ok() && *code == 0) << node;
  }

  std::unique_ptr<ProcessCluster> cluster_;
  std::string out_;
};

TEST_F(FsckTest, ALivingClusterAndAStoppedOne) {
  ASSERT_NO_FATAL_FAILURE(Start());
  if (cluster_ == nullptr) return;
  EXPECT_NE(out_.find("\nclean\n"), std::string::npos) << out_;
  EXPECT_NE(out_.find("ranges: 4, tables: "), std::string::npos) << out_;
  ASSERT_NO_FATAL_FAILURE(ExpectFlippedBitIsFound({}));
  EXPECT_EQ(Fsck({"--quick", "--json", "--range=2"}), 0) << out_;
  EXPECT_NE(out_.find("{\"clean\":true,\"ranges\":1,"), std::string::npos) << out_;
  EXPECT_EQ(Fsck({"--range=99"}), 2) << out_;
  EXPECT_NE(out_.find("error: there is no range 99\n"), std::string::npos) << out_;
  EXPECT_EQ(Fsck({"--store_dirs=/nowhere"}), 2) << out_;
  EXPECT_EQ(Fsck({Directories()}), 0) << out_;
  EXPECT_NE(out_.find("stoc-1: a StoC runs on it, and is asked instead\n"), std::string::npos) << out_;

  for (const std::string node : {"ltc-0", "ltc-1", "stoc-0", "stoc-1", "stoc-2", "coordinator-0"})
    ASSERT_NO_FATAL_FAILURE(Stop(node));
  EXPECT_EQ(Fsck({Directories()}), 0) << out_;
  EXPECT_NE(out_.find("log groups: 0, "), std::string::npos) << "they were released: " << out_;
  ASSERT_NO_FATAL_FAILURE(ExpectFlippedBitIsFound({Directories()}));
  EXPECT_EQ(Fsck({}), 1) << "nobody answers, and no directory was given: " << out_;
  EXPECT_NE(out_.find("stoc-silent range 1 stoc-0: "), std::string::npos) << out_;
  std::string out;
  EXPECT_EQ(
      RunToEnd({NOVA_BINARY_DIR "/bin/nova_fsck", "--zookeeper=127.0.0.1:1", "--zookeeper_connect_ms=100"},
               &out),
      2);
  EXPECT_NE(out.find("error: --zookeeper=127.0.0.1:1: "), std::string::npos) << out;
}

// Logs are in files too where all StoCs share a host.
TEST_F(FsckTest, AClusterThatWasKilled) {
  ASSERT_NO_FATAL_FAILURE(Start());
  if (cluster_ == nullptr) return;
  for (const std::string& node : cluster_->names()) cluster_->Kill(node);
  // Until their sessions expire its StoCs are asked, in vain.
  for (const Nanos until = Now() + 60 * kSecond; Fsck({Directories()}) != 0 && Now() < until;) {
  }
  EXPECT_NE(out_.find("\nclean\n"), std::string::npos) << out_;
  EXPECT_NE(out_.find("log groups: 4, good copies: 12 of 12, the fewest of one: 3\n"), std::string::npos)
      << out_;
  ASSERT_NO_FATAL_FAILURE(ExpectFlippedBitIsFound({Directories()}));
}

}  // namespace
}  // namespace nova
