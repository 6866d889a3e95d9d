#include "common/base/open_files.h"

#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "common/base/fault_disk.h"
#include "common/base/sim_disk.h"

namespace nova {
namespace {

// Counts what is opened, and lets a test come between an opening and what is done with it.
class OpenedDisk : public FaultDisk {
 public:
  using FaultDisk::FaultDisk;
  StatusOr<std::unique_ptr<DiskFile>> Open(const std::string& path, bool writable) override {
    ++opened;
    auto file = FaultDisk::Open(path, writable);
    if (then) std::exchange(then, nullptr)();
    return file;
  }
  int opened = 0;
  std::function<void()> then;
};

class OpenFilesTest : public testing::Test {
 protected:
  void Write(const std::string& path, std::string_view text) {
    const auto file = disk_.Create(path);
    ASSERT_TRUE(file.ok()) << file.status();
    ASSERT_TRUE((*file)->Write(0, text).ok());
  }
  std::string Read(const std::string& path) {
    const auto file = files_.Open(path);
    if (!file.ok()) return absl::StatusCodeToString(file.status().code());
    std::string text(3, '\0');
    EXPECT_TRUE((*file)->Read(0, text.size(), text.data()).ok());
    return text;
  }

  SimDisk medium_;
  const std::unique_ptr<Disk> mounted_ = medium_.Mount();
  OpenedDisk disk_{mounted_.get()};
  OpenFiles files_{&disk_, 2};
};

TEST_F(OpenFilesTest, TheLatestUsedStayOpen) {
  for (const char* name : {"one", "two", "six"}) Write(name, name);
  for (const char* name : {"one", "two", "one", "two", "one"}) EXPECT_EQ(Read(name), name);
  EXPECT_EQ(disk_.opened, 2);
  EXPECT_EQ(Read("six"), "six");  // closes two
  EXPECT_EQ(Read("one"), "one");
  EXPECT_EQ(disk_.opened, 3);
  EXPECT_EQ(Read("two"), "two");
  EXPECT_EQ(disk_.opened, 4);
}

TEST_F(OpenFilesTest, AClosedOneStaysOpenForThoseWhoHaveIt) {
  for (const char* name : {"one", "two", "six"}) Write(name, name);
  const auto one = files_.Open("one");
  ASSERT_TRUE(one.ok());
  EXPECT_EQ(Read("two") + Read("six"), "twosix");
  std::string text(3, '\0');
  EXPECT_TRUE((*one)->Read(0, 3, text.data()).ok());
  EXPECT_EQ(text, "one");
}

TEST_F(OpenFilesTest, ADeletedFileIsNotThere) {
  Write("one", "one");
  EXPECT_EQ(Read("one"), "one");
  ASSERT_TRUE(disk_.Delete("one").ok());
  files_.Drop("one");
  EXPECT_EQ(Read("one"), "NOT_FOUND");
  Write("one", "new");
  EXPECT_EQ(Read("one"), "new");
}

TEST_F(OpenFilesTest, AnErrorIsNotKept) {
  EXPECT_EQ(Read("one"), "NOT_FOUND");
  Write("one", "one");
  disk_.Add({.op = DiskOp::kOpen, .action = FaultAction::kEio, .count = 1});
  EXPECT_EQ(Read("one"), "DATA_LOSS");
  EXPECT_EQ(Read("one"), "one");
}

TEST_F(OpenFilesTest, WhatIsPutIsReadWithoutOpeningIt) {
  Write("one", "one");
  EXPECT_EQ(Read("one"), "one");
  auto better = disk_.Create("one.new");
  ASSERT_TRUE(better.ok() && (*better)->Write(0, "uno").ok() && disk_.Rename("one.new", "one").ok());
  files_.Put("one", *std::move(better));
  EXPECT_EQ(Read("one"), "uno");
  EXPECT_EQ(disk_.opened, 1);
}

// Whoever has it may read it; the next one gets what has its name now.
TEST_F(OpenFilesTest, WhatIsReplacedWhileItIsOpenedIsNotKept) {
  for (const bool deleted : {true, false}) {
    const std::string name = deleted ? "one" : "two";
    Write(name, "old");
    disk_.then = [&] {
      ASSERT_TRUE(disk_.Delete(name).ok());
      if (deleted) {
        files_.Drop(name);
      } else {
        auto better = disk_.Create(name);
        ASSERT_TRUE(better.ok() && (*better)->Write(0, "new").ok());
        files_.Put(name, *std::move(better));
      }
    };
    EXPECT_EQ(Read(name), "old");
    EXPECT_EQ(Read(name), deleted ? "NOT_FOUND" : "new");
  }
}

}  // namespace
}  // namespace nova
