// An embedded database whose Level0 is cut into Dranges: over reopenings, with and without them.
#include <gtest/gtest.h>

#include "common/base/random.h"
#include "ltc/embedded/db.h"
#include "tests/ltc/directory.h"

namespace nova {
namespace {

DbOptions Columns(int dranges) {
  DbOptions o;
  o.memtable_bytes = 2 << 20;
  o.range.memtable_size_bytes = 128 << 10;
  o.range.compaction.table_size_bytes = 64 << 10;
  o.range.compaction.level1_bytes = 256 << 10;
  o.range.compaction.level0_runs_trigger = 3;
  o.range.compaction.least_table_bytes = 4 << 10;
  o.range.compaction.dranges = dranges;
  return o;
}

// Writes over all keys, the value says by whom; then all are read.
void WriteAndCheck(Db* db, const std::string& value) {
  constexpr uint64_t kKeys = 5'000;
  Random random(1);
  const auto key = [](uint64_t i) { return StrCat("key", 10'000 + i); };
  for (uint64_t i = 0; i < 4 * kKeys; ++i)
    ASSERT_TRUE(db->Put(key(random.Uniform(kKeys)), StrCat("before ", value, std::string(100, '.'))).ok());
  for (uint64_t i = 0; i < kKeys; ++i) ASSERT_TRUE(db->Put(key(i), value).ok());
  ASSERT_TRUE(db->WaitForBackgroundWork().ok());
  std::string got;
  for (uint64_t i = 0; i < kKeys; ++i) {
    ASSERT_TRUE(db->Get(key(i), &got).ok()) << i;
    ASSERT_EQ(got, value) << i;
  }
}

TEST(DbColumnsTest, DrangesOutliveTheProcessAndGoWhereOneIsWanted) {
  const Directory directory;
  const auto open = [&](int dranges) {
    auto db = Db::Open(directory.path(), Columns(dranges));
    EXPECT_TRUE(db.ok()) << db.status();
    return *std::move(db);
  };
  auto db = open(16);
  EXPECT_EQ(db->stats().dranges, 1) << "nothing was written";
  WriteAndCheck(db.get(), "a");
  const int dranges = db->stats().dranges;
  EXPECT_GE(dranges, 8);
  EXPECT_GE(db->stats().reorganisations, 1u);
  db = nullptr;
  db = open(16);
  EXPECT_EQ(db->stats().dranges, dranges) << "of the manifest";
  db = nullptr;
  db = open(1);
  EXPECT_EQ(db->stats().dranges, 1);
  WriteAndCheck(db.get(), "b");
  db = nullptr;
  db = open(4);
  EXPECT_EQ(db->stats().dranges, 1) << "the manifest has none any more";
  WriteAndCheck(db.get(), "c");
  EXPECT_GE(db->stats().dranges, 3);
  EXPECT_LE(db->stats().dranges, 4);
}

}  // namespace
}  // namespace nova
