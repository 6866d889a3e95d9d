#include "common/config/file_store.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace nova {
namespace {

class FileConfigTest : public testing::Test {
 protected:
  FileConfigTest() {
    directory_ = (std::filesystem::temp_directory_path() / "nova-config-XXXXXX").string();
    EXPECT_NE(mkdtemp(directory_.data()), nullptr);
  }
  ~FileConfigTest() override { std::filesystem::remove_all(directory_); }
  std::string directory_;
};

TEST_F(FileConfigTest, WhatWasAnsweredIsThereAfterReopening) {
  {
    auto config = std::move(FileConfig::Open(directory_)).value();
    auto store = config->NewSession();
    ASSERT_TRUE(store->Create("/a", "1").ok());
    ASSERT_TRUE(store->Set("/a", "2", 0).ok());
    ASSERT_TRUE(store->Create("/gone", "", true).ok());
  }
  std::ofstream(directory_ + "/config.tmp") << "half a write";  // of a process that died
  auto config = std::move(FileConfig::Open(directory_)).value();
  auto store = config->NewSession();
  EXPECT_EQ(store->Get("/a")->data, "2");
  EXPECT_EQ(store->Get("/a")->version, 1);
  EXPECT_TRUE(absl::IsNotFound(store->Get("/gone").status()));
}

TEST_F(FileConfigTest, SurvivesKill9BetweenAnyTwoAnswers) {
  int answered[2];
  ASSERT_EQ(pipe(answered), 0);
  const pid_t child = fork();
  if (child == 0) {
    auto config = std::move(FileConfig::Open(directory_)).value();
    auto store = config->NewSession();
    for (uint64_t i = 1;; ++i) {
      const StatusOr<uint64_t> n = store->Increment("/n");
      if (!n.ok() || write(answered[1], &i, sizeof(i)) != sizeof(i)) _exit(1);
    }
  }
  close(answered[1]);
  uint64_t last = 0;
  while (last < 20) ASSERT_EQ(read(answered[0], &last, sizeof(last)), static_cast<ssize_t>(sizeof(last)));
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  while (read(answered[0], &last, sizeof(last)) == static_cast<ssize_t>(sizeof(last))) {
  }
  close(answered[0]);
  auto config = std::move(FileConfig::Open(directory_)).value();
  const StatusOr<uint64_t> next = config->NewSession()->Increment("/n");
  ASSERT_TRUE(next.ok());
  EXPECT_GE(*next, last + 1);
  EXPECT_LE(*next, last + 2);  // one may have been written and not answered
}

TEST_F(FileConfigTest, TheDirectoryBelongsToOneAtATime) {
  auto config = std::move(FileConfig::Open(directory_)).value();
  const auto second = FileConfig::Open(directory_);
  EXPECT_TRUE(absl::IsFailedPrecondition(second.status())) << second.status();
  config.reset();
  EXPECT_TRUE(FileConfig::Open(directory_).ok());
}

TEST_F(FileConfigTest, ADamagedFileIsRefusedWithItsName) {
  {
    auto config = std::move(FileConfig::Open(directory_)).value();
    ASSERT_TRUE(config->NewSession()->Create("/a", "1").ok());
  }
  std::filesystem::resize_file(directory_ + "/config",
                               std::filesystem::file_size(directory_ + "/config") - 1);
  const auto config = FileConfig::Open(directory_);
  EXPECT_TRUE(absl::IsDataLoss(config.status()));
  EXPECT_NE(std::string(config.status().message()).find("/config"), std::string::npos);
}

TEST_F(FileConfigTest, AChangeThatCannotBeWrittenIsNotSeen) {
  auto config = std::move(FileConfig::Open(directory_)).value();
  auto store = config->NewSession();
  ASSERT_TRUE(store->Create("/a", "1").ok());
  std::filesystem::create_directory(directory_ + "/config.tmp");
  EXPECT_TRUE(absl::IsInternal(store->Set("/a", "2", -1)));
  EXPECT_EQ(store->Get("/a")->data, "1");
  std::filesystem::remove(directory_ + "/config.tmp");
  EXPECT_TRUE(store->Set("/a", "2", 0).ok());
}

}  // namespace
}  // namespace nova
