// Files of a store whose headers its start cannot read (collection, N4; fence, R2).
#include "stoc/unreadable_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/base/crc32c.h"
#include "common/base/sim_disk.h"
#include "stoc/file_header.h"
#include "stoc/file_store.h"

namespace nova {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr RangeId kRange(7), kOther(8);
constexpr Creator kCreator{kRange, Epoch(3), 11};
const std::vector<RangeId> kAll = {kRange, kOther};

StocFileId Id(uint64_t n, uint32_t part = 0) { return {{0xabc, n}, part}; }

class UnreadableFilesTest : public testing::Test {
 protected:
  void SetUp() override { Open(); }
  void Open() {
    store_ = nullptr;
    disk_ = medium_.Mount();
    auto opened = FileStore::Open(disk_.get(), {.reserve_bytes = 0}, &metrics_);
    ASSERT_TRUE(opened.ok()) << opened.status();
    store_ = *std::move(opened);
  }
  Status Write(const StocFileId& file) { return store_->WriteFile(file, kCreator, "bytes", Crc32c("bytes")); }
  // A file of which the next start cannot tell whose it is.
  void WriteWithoutHeader(const StocFileId& file) {
    ASSERT_TRUE(Write(file).ok());
    const auto opened = disk_->Open(PathOf(file), /*writable=*/true);
    ASSERT_TRUE(opened.ok()) << opened.status();
    ASSERT_TRUE((*opened)->Write(0, "rot").ok());
    ASSERT_TRUE((*opened)->Sync().ok());
  }
  static std::string PathOf(const StocFileId& file) { return StrCat("files/", file.ToString()); }
  bool OnDisk(const StocFileId& file) { return disk_->Open(PathOf(file), /*writable=*/false).ok(); }
  UnreadableFiles* unreadable() { return store_->unreadable(); }
  std::vector<StocFileId> Listed() { return unreadable()->List(100); }

  SimDisk medium_;
  Metrics metrics_;
  std::unique_ptr<Disk> disk_;
  std::unique_ptr<FileStore> store_;
};

TEST_F(UnreadableFilesTest, N4GoWhenEveryRangeHasDroppedThem) {
  ASSERT_NO_FATAL_FAILURE(WriteWithoutHeader(Id(1)));
  ASSERT_NO_FATAL_FAILURE(WriteWithoutHeader(Id(2, 5)));
  ASSERT_TRUE(Write(Id(3)).ok());
  Open();
  EXPECT_THAT(Listed(), ElementsAre(Id(1), Id(2, 5)));
  EXPECT_THAT(unreadable()->List(1), ElementsAre(Id(1)));
  EXPECT_THAT(unreadable()->Logs(), ElementsAre(Id(1).owner)) << "a part of a table is no log";
  for (const StocFileId& file : {Id(1), Id(3)}) unreadable()->Drop(kRange, file);
  unreadable()->Drop(kOther, Id(2, 5));
  store_->DeleteUnreadable(kAll);
  store_->DeleteUnreadable({});
  EXPECT_TRUE(OnDisk(Id(1)) && OnDisk(Id(2, 5))) << "some range has not said so";
  unreadable()->Drop(kOther, Id(1));
  unreadable()->Drop(kOther, Id(3));
  store_->DeleteUnreadable(kAll);
  EXPECT_FALSE(OnDisk(Id(1)));
  EXPECT_TRUE(OnDisk(Id(2, 5)) && OnDisk(Id(3)));
  EXPECT_THAT(Listed(), ElementsAre(Id(2, 5)));
  EXPECT_THAT(unreadable()->Logs(), IsEmpty());
  EXPECT_TRUE(Write(Id(1)).ok()) << "its name is free";
}

TEST_F(UnreadableFilesTest, N4WhatWasWrittenAnewStays) {
  ASSERT_NO_FATAL_FAILURE(WriteWithoutHeader(Id(1)));
  Open();
  for (const RangeId range : kAll) unreadable()->Drop(range, Id(1));
  ASSERT_TRUE(Write(Id(1)).ok());
  EXPECT_THAT(Listed(), IsEmpty());
  store_->DeleteUnreadable(kAll);
  EXPECT_EQ(*store_->ReadFile(Id(1), 0, 100), "bytes");
  Open();
  EXPECT_EQ(*store_->ReadFile(Id(1), 0, 100), "bytes");
}

// M4: the list beside it says whose it is.
TEST_F(UnreadableFilesTest, N4WhatHasAListOfReferencesStays) {
  ASSERT_NO_FATAL_FAILURE(WriteWithoutHeader(Id(1)));
  ASSERT_TRUE(store_->references()->AddReferences(kOther, Epoch(1), {Id(1)}).ok());
  Open();
  for (const RangeId range : kAll) unreadable()->Drop(range, Id(1));
  store_->DeleteUnreadable(kAll);
  EXPECT_TRUE(OnDisk(Id(1)));
}

}  // namespace
}  // namespace nova
