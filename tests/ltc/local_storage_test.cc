#include "ltc/embedded/local_storage.h"

#include "common/base/disk.h"
#include "common/base/fault_disk.h"
#include "common/base/limited_disk.h"
#include "gtest/gtest.h"
#include "ltc/engine/manifest.h"
#include "tests/ltc/directory.h"

namespace nova {
namespace {

size_t StepBytes(Disk* disk, bool map, TableLife life) {
  return NewLocalTableStore(disk, {.map = map})->StartTable(Uuid::Generate(), life)->step_bytes();
}

// In one write that a disk serves as a whole all else would wait for two megabytes.
TEST(LocalTableStoreTest, OnlyTablesThatStayAndAreMappedAreWrittenInHugeSteps) {
  const Directory directory;
  const auto disk = *OpenPosixDisk(directory.path());
  LimitedDisk limited(disk.get(), LimitedDiskOptions());
  EXPECT_EQ(StepBytes(disk.get(), true, TableLife::kLong), TableSink::kHugeStepBytes);
  EXPECT_EQ(StepBytes(disk.get(), true, TableLife::kShort), TableSink::kStepBytes);
  EXPECT_EQ(StepBytes(disk.get(), false, TableLife::kLong), TableSink::kStepBytes);
  EXPECT_EQ(StepBytes(&limited, true, TableLife::kLong), TableSink::kStepBytes) << "it maps nothing";
}

// Neither it nor a file that is to follow could be written: the next edit goes into one that follows, for a
// recovery could take for damage what lies behind it here.
TEST(LocalManifestStorageTest, S1AFileWithALeftoverTakesNoMore) {
  const Directory directory;
  const auto posix = *OpenPosixDisk(directory.path());
  FaultDisk disk(posix.get());
  LocalManifestStorage storage(&disk);
  Manifest manifest(&storage);
  const auto snapshot = [] { return VersionEdit(); };
  ASSERT_TRUE(manifest.Start({}).ok());
  ASSERT_TRUE(storage.Install(manifest.group()).ok());
  const Uuid first = manifest.group().file;
  disk.Add({.path = "manifest-", .op = DiskOp::kSync, .action = FaultAction::kEio});
  disk.Add({.path = "manifest-", .op = DiskOp::kCreate, .action = FaultAction::kEio});
  VersionEdit edit;
  for (int i = 0; i < 100; ++i) edit.unpins.push_back(StrCat("checkpoint ", i));
  EXPECT_FALSE(manifest.Append(edit, snapshot).ok());
  EXPECT_EQ(manifest.group().file, first);
  disk.Clear();
  edit = {};
  edit.seq_reserved = 7;
  ASSERT_TRUE(manifest.Append(edit, [&] { return edit; }).ok());
  EXPECT_NE(manifest.group().file, first);
  const auto edits = storage.ReadInstalled();
  ASSERT_TRUE(edits.ok()) << edits.status();
  EXPECT_EQ(edits->back().seq_reserved, 7u);
}

}  // namespace
}  // namespace nova
