#include "ltc/embedded/local_storage.h"

#include "common/base/disk.h"
#include "common/base/limited_disk.h"
#include "gtest/gtest.h"
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

}  // namespace
}  // namespace nova
