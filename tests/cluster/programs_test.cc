// What all servers do alike, by processes: log lines that outlive kill -9.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "tests/cluster/process_cluster.h"

namespace nova {
namespace {

class ProgramsTest : public testing::Test {
 protected:
  ProgramsTest() : logs_(testing::TempDir() + StrCat("nova-logs-", getpid())) {
    std::filesystem::create_directories(logs_);
  }
  ~ProgramsTest() override {
    cluster_ = nullptr;
    std::filesystem::remove_all(logs_);
  }
  // One range at one LTC.
  void Start(ProcessClusterOptions options, int stocs = 1) {
    options.ltcs = options.ranges = 1;
    options.stocs = stocs;
    if (stocs == 1) {
      const std::vector<std::string> flags = {"--log_replicas=1", "--manifest_replicas=1"};
      options.ltc_flags.insert(options.ltc_flags.end(), flags.begin(), flags.end());
    }
    auto started = ProcessCluster::Start(options);
    if (absl::IsNotFound(started.status())) GTEST_SKIP() << started.status();
    ASSERT_TRUE(started.ok()) << started.status();
    cluster_ = *std::move(started);
  }
  const std::string logs_;
  std::unique_ptr<ProcessCluster> cluster_;
};

// The coordinator says where a range goes before the range serves; that it serves is known before the kill. A
// user who tells it to keep lines back is obeyed.
TEST_F(ProgramsTest, WhatWasLoggedIsInTheFileWhenTheProcessIsKilled) {
  for (const bool told : {false, true}) {
    cluster_ = nullptr;
    const std::string directory = StrCat(logs_, "/", told);
    std::filesystem::create_directories(directory);
    ProcessClusterOptions options;
    options.coordinator_flags = {"--log_dir=" + directory};
    if (told) {
      options.coordinator_flags.push_back("--logbuflevel=0");
      options.coordinator_flags.push_back("--logbufsecs=3600");
    }
    Start(options);
    if (cluster_ == nullptr) return;
    cluster_->Kill("coordinator-0");
    std::stringstream text;
    text << std::ifstream(directory + "/nova_coordinator.INFO").rdbuf();
    EXPECT_NE(text.str().find("Log file created"), std::string::npos) << text.str();
    const bool is_there = text.str().find(" goes to ltc-0 ") != std::string::npos;
    EXPECT_EQ(is_there, !told) << text.str();
  }
}

}  // namespace
}  // namespace nova
