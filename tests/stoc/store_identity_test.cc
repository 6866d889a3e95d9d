#include "stoc/store_identity.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/base/fault_disk.h"
#include "common/base/sim_disk.h"

namespace nova {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(StoreIdentityTest, TextIsGolden) {
  const StoreIdentity id{{0x1, 0x2}, {0x3, 0x4}, StocId(5)};
  EXPECT_EQ(id.Encode(),
            "nova stoc store\nformat=1\nstore=00000000000000010000000000000002\n"
            "cluster=00000000000000030000000000000004\nstoc=5\ncrc=4ba43764\n");
  EXPECT_EQ(*StoreIdentity::Decode(id.Encode()), id);
}

TEST(StoreIdentityTest, AFormatFromTheFutureIsNamed) {
  const Status s = StoreIdentity::Decode("nova stoc store\nformat=2\nwhatever").status();
  EXPECT_TRUE(absl::IsFailedPrecondition(s));
  EXPECT_THAT(std::string(s.message()), HasSubstr("format 2"));
}

TEST(StoreIdentityTest, DamageIsNoticed) {
  const std::string text = StoreIdentity{{0x1, 0x2}, {0x3, 0x4}, StocId(5)}.Encode();
  for (size_t i = 0; i < text.size(); ++i) {
    std::string damaged = text;
    damaged[i] = static_cast<char>(damaged[i] ^ 1);
    EXPECT_FALSE(StoreIdentity::Decode(damaged).ok()) << i;
    EXPECT_FALSE(StoreIdentity::Decode(text.substr(0, i)).ok()) << i;
  }
}

TEST(LockStoreTest, OneProcessFormatsAndHoldsIt) {
  SimDisk medium;
  auto disk = medium.Mount();
  ASSERT_FALSE(LockStore(disk.get())->has_value());
  const StoreIdentity id{{0x1, 0x2}, {0x3, 0x4}, StocId(5)};
  ASSERT_TRUE(FormatStore(disk.get(), id).ok());
  auto other = medium.Mount();
  EXPECT_TRUE(absl::IsUnavailable(LockStore(other.get()).status()));
  medium.Crash();
  auto later = medium.Mount();
  EXPECT_EQ(*LockStore(later.get()), id);
}

TEST(LockStoreTest, S6ADamagedSuperblockIsWrittenAnew) {
  SimDisk medium;
  const auto disk = medium.Mount();
  const StoreIdentity id{{0x1, 0x2}, {0x3, 0x4}, StocId(5)};
  ASSERT_TRUE(FormatStore(disk.get(), id).ok());
  EXPECT_FALSE(*HealIdentity(disk.get(), id));
  ASSERT_TRUE((*disk->Open("SUPERBLOCK", true))->Write(20, "#").ok());
  EXPECT_TRUE(*HealIdentity(disk.get(), id));
  ASSERT_TRUE(disk->Delete("SUPERBLOCK").ok());
  EXPECT_TRUE(*HealIdentity(disk.get(), id));
  EXPECT_FALSE(*HealIdentity(disk.get(), id));
  FaultDisk faults(disk.get());
  faults.Add({.op = DiskOp::kOpen, .action = FaultAction::kReadOnly});
  EXPECT_FALSE(HealIdentity(&faults, id).ok()) << "nobody knows what is there";
  medium.Crash();
  EXPECT_EQ(*LockStore(medium.Mount().get()), id);
}

TEST(LockStoreTest, ADirectoryOfSomethingElseIsLeftAsItIs) {
  SimDisk medium;
  auto disk = medium.Mount();
  ASSERT_TRUE(disk->Create("letters.txt").ok());
  const Status s = LockStore(disk.get()).status();
  EXPECT_TRUE(absl::IsInvalidArgument(s));
  EXPECT_THAT(std::string(s.message()), HasSubstr("letters.txt"));
  EXPECT_THAT(*disk->List(""), ElementsAre("letters.txt"));
}

TEST(LockStoreTest, ACrashWhileFormattingLeavesAnEmptyStore) {
  SimDisk medium;
  auto base = medium.Mount();
  FaultDisk disk(base.get());
  ASSERT_TRUE(LockStore(&disk).ok());
  disk.Add({.op = DiskOp::kRename, .action = FaultAction::kEio});
  ASSERT_FALSE(FormatStore(&disk, {{0x1, 0x2}, {0x3, 0x4}, StocId(5)}).ok());
  medium.Crash();
  auto again = medium.Mount();
  ASSERT_FALSE(LockStore(again.get())->has_value());
  EXPECT_TRUE(FormatStore(again.get(), {{0x1, 0x2}, {0x3, 0x4}, StocId(6)}).ok());
}

}  // namespace
}  // namespace nova
