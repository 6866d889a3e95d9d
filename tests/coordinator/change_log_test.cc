#include "coordinator/change_log.h"

#include <gtest/gtest.h>

#include <set>

#include "common/base/random.h"

namespace nova {
namespace {

TEST(ChangeLogTest, AReaderGetsEachChangedKeyOnce) {
  ChangeLog<int> log;
  log.Clear(10);
  log.Note(1, 11, true);
  log.Note(2, 12, true);
  log.Note(1, 13, true);
  log.Note(2, 14, false);
  EXPECT_FALSE(log.Covers(9));
  EXPECT_TRUE(log.Covers(10));
  EXPECT_EQ(log.Since(10).changed, std::vector<int>{1});
  EXPECT_EQ(log.Since(10).gone, std::vector<int>{2});
  EXPECT_TRUE(log.Since(13).changed.empty());
  EXPECT_EQ(log.Since(13).gone, std::vector<int>{2});
  EXPECT_TRUE(log.Since(14).gone.empty());
}

TEST(ChangeLogTest, DeltasLeadWhereTheWholeDoesAndMemoryIsBounded) {
  Random random(1);
  ChangeLog<uint64_t> log;
  std::set<uint64_t> truth;
  std::set<uint64_t> reader;
  uint64_t read_at = 0;
  log.Clear(0);
  size_t fulls = 0;
  for (uint64_t version = 1; version <= 20'000; ++version) {
    const uint64_t key = random.Uniform(5000);
    const bool exists = random.OneIn(3);
    truth.erase(key);
    if (exists) truth.insert(key);
    log.Note(key, version, exists);
    if (!random.OneIn(700)) continue;
    if (log.Covers(read_at)) {
      const auto changes = log.Since(read_at);
      reader.insert(changes.changed.begin(), changes.changed.end());
      for (const uint64_t gone : changes.gone) reader.erase(gone);
    } else {
      reader = truth;
      ++fulls;
    }
    read_at = version;
    ASSERT_EQ(reader, truth);
  }
  EXPECT_LE(log.Since(0).gone.size(), 1100u);
  EXPECT_LT(fulls, 20u);
}

}  // namespace
}  // namespace nova
