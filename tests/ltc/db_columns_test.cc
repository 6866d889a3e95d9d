// An embedded database whose Level0 is cut into Dranges: over reopenings, with and without them; what scans
// open there; iterators over the bounds of Dranges while these move.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>

#include "common/base/random.h"
#include "ltc/embedded/db.h"
#include "ltc/embedded/db_iterator.h"
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

// Writes over all keys, the value says by whom; then all are read. Values are as long as flushes want for so
// many Dranges.
void WriteAndCheck(Db* db, const std::string& by) {
  const std::string value = by + std::string(100, '.');
  constexpr uint64_t kKeys = 5'000;
  Random random(1);
  const auto key = [](uint64_t i) { return StrCat("key", 10'000 + i); };
  for (uint64_t i = 0; i < 4 * kKeys; ++i)
    ASSERT_TRUE(db->Put(key(random.Uniform(kKeys)), StrCat("before ", value)).ok());
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

TEST(DbColumnsTest, DrangesBecomeMoreAndFewerWhileItIsOpen) {
  const Directory directory;
  auto db = *Db::Open(directory.path(), Columns(1));
  WriteAndCheck(db.get(), "a");
  EXPECT_EQ(db->stats().dranges, 1);
  ASSERT_TRUE(db->SetDranges(16).ok());
  EXPECT_EQ(db->stats().dranges, 1) << "they come with the next flush";
  WriteAndCheck(db.get(), "b");
  EXPECT_GE(db->stats().dranges, 8);
  const int before = db->stats().dranges;
  ASSERT_TRUE(db->SetDranges(before - 1).ok());
  WriteAndCheck(db.get(), "c");
  EXPECT_LT(db->stats().dranges, before) << "at most so many, though they are nearly as many";
  ASSERT_TRUE(db->SetDranges(1).ok());
  WriteAndCheck(db.get(), "d");
  EXPECT_EQ(db->stats().dranges, 1);
  for (const int wrong : {-1, 0, 1'025}) EXPECT_TRUE(absl::IsInvalidArgument(db->SetDranges(wrong))) << wrong;
  ASSERT_TRUE(db->SetDranges(1'024).ok());
  WriteAndCheck(db.get(), "e");
  EXPECT_GE(db->stats().dranges, 8);
  EXPECT_EQ(db->stats().damaged_maps, 0u);
  ASSERT_TRUE(db->Close().ok());
  EXPECT_TRUE(absl::IsFailedPrecondition(db->SetDranges(4)));
  db = nullptr;
  db = *Db::Open(directory.path(), Columns(1));
  EXPECT_EQ(db->stats().dranges, 1) << "the option counts anew";
  EXPECT_EQ(db->stats().damaged_maps, 0u);
}

std::string Key(uint64_t i) { return StrCat("key", absl::Dec(i, absl::kZeroPad6)); }

// Tables that one scan opened, on average of those that `scans` makes.
double TablesOpenedBy(Db* db, const std::function<void()>& scans) {
  const RangeStats before = db->stats();
  scans();
  const RangeStats after = db->stats();
  return static_cast<double>(after.scan_tables - before.scan_tables) /
         static_cast<double>(after.scans - before.scans);
}

// Sixteen runs of Level0, each of its own stretch of the keys, and no compaction.
TEST(DbColumnsTest, AScanOpensNoRunThatHasNoTableAtItsKeys) {
  constexpr uint64_t kRuns = 16, kKeysOfRun = 1'000;
  for (const bool mapped : {true, false}) {
    const Directory directory;
    DbOptions options = Columns(/*dranges=*/1);
    options.map_tables = mapped;
    options.range.compaction.level0_runs_trigger = 1'000;
    options.range.level0_slow_runs = 1'000;
    options.range.level0_stop_runs = 2'000;
    const auto db = *Db::Open(directory.path(), options);
    for (uint64_t run = 0; run < kRuns; ++run) {
      for (uint64_t i = 0; i < kKeysOfRun; ++i) ASSERT_TRUE(db->Put(Key(run * kKeysOfRun + i), "value").ok());
      ASSERT_TRUE(db->Flush().ok());
    }
    ASSERT_GE(db->stats().level0_runs, static_cast<int>(kRuns));
    Random random(1);
    const auto scans = [&](bool reverse) {
      return [&, reverse] {
        for (int i = 0; i < 1'000; ++i) {
          const std::string from = Key(random.Uniform(kRuns * kKeysOfRun - 10));
          const DbScan scan = reverse ? DbScan{{}, from, 10, true} : DbScan{from, {}, 10};
          ASSERT_TRUE(db->Scan(scan, [](std::string_view, std::string_view) { return true; }).ok());
        }
      };
    };
    // one in a hundred goes on from one run into the next
    EXPECT_LT(TablesOpenedBy(db.get(), scans(false)), 1.1);
    EXPECT_LT(TablesOpenedBy(db.get(), scans(true)), 1.1);
    const auto empty = [&] {
      const DbScan scan{Key(1'500) + "a", Key(1'500) + "b"};
      ASSERT_TRUE(db->Scan(scan, [](std::string_view, std::string_view) { return true; }).ok());
    };
    EXPECT_EQ(TablesOpenedBy(db.get(), empty), 1);
    const auto behind_all = [&] {
      ASSERT_TRUE(db->Scan(Key(999'999), 10, [](std::string_view, std::string_view) { return true; }).ok());
    };
    EXPECT_EQ(TablesOpenedBy(db.get(), behind_all), 0);
  }
}

// Iterators of several moments step in both directions while the load moves, so that the Dranges are cut anew
// under them, keys are deleted by ranges, and what they stand on is compacted.
TEST(DbColumnsTest, IteratorsPassTheBoundsOfDrangesWhileTheseMove) {
  constexpr uint64_t kKeys = 3'000;
  using Model = std::map<std::string, std::string>;
  struct Walk {
    std::unique_ptr<DbIterator> it;
    Model model;
  };
  const Directory directory;
  DbOptions options = Columns(/*dranges=*/64);
  options.range.compaction.least_table_bytes = 1 << 10;
  options.range.scan_page_bytes = 4 << 10;
  const auto db = *Db::Open(directory.path(), options);
  Model model;
  std::vector<Walk> walks;
  Random random(7);
  uint64_t steps = 0;
  int most_dranges = 0;
  for (int round = 0; round < 60 && !HasFatalFailure(); ++round) {
    const uint64_t spot = random.Uniform(kKeys - 300);
    for (int i = 0; i < 1'500; ++i) {
      const std::string key = Key(random.OneIn(10) ? random.Uniform(kKeys) : spot + random.Uniform(300));
      if (random.OneIn(300)) {
        const std::string end = key + (random.OneIn(2) ? "~" : "");
        const std::string begin = key.substr(0, key.size() - 1);
        ASSERT_TRUE(db->DeleteRange(begin, end).ok());
        model.erase(model.lower_bound(begin), model.lower_bound(end));
      } else {
        const std::string value = StrCat(round, "/", i, std::string(random.Uniform(200), '.'));
        ASSERT_TRUE(db->Put(key, value).ok());
        model[key] = value;
      }
    }
    if (random.OneIn(4)) {
      ASSERT_TRUE(db->Flush().ok());
    }
    if (walks.size() < 6) {
      auto it = db->NewIterator();
      ASSERT_TRUE(it.ok()) << it.status();
      walks.push_back({*std::move(it), model});
    } else {
      walks.erase(walks.begin() + static_cast<ptrdiff_t>(random.Uniform(walks.size())));
    }
    for (Walk& walk : walks) {
      const std::string key = Key(random.Uniform(kKeys));
      const bool backward = random.OneIn(2);
      auto at = walk.model.lower_bound(key);
      backward ? walk.it->SeekForPrev(key) : walk.it->Seek(key);
      if (backward && (at == walk.model.end() || at->first != key)) {
        at = at == walk.model.begin() ? walk.model.end() : std::prev(at);
      }
      for (int i = 0; i < 400 && at != walk.model.end(); ++i, ++steps) {
        ASSERT_TRUE(walk.it->Valid()) << walk.it->status();
        ASSERT_EQ(walk.it->key(), at->first);
        ASSERT_EQ(walk.it->value(), at->second);
        if (backward) {
          walk.it->Prev();
          at = at == walk.model.begin() ? walk.model.end() : std::prev(at);
        } else {
          walk.it->Next();
          ++at;
        }
      }
      ASSERT_EQ(walk.it->Valid(), at != walk.model.end());
    }
    most_dranges = std::max(most_dranges, db->stats().dranges);
    if (round % 10 == 9) {
      ASSERT_TRUE(db->SetDranges(round % 20 == 9 ? 2 : 64).ok());
    }
  }
  EXPECT_GT(steps, 20'000u);
  EXPECT_GT(db->stats().reorganisations, 3u) << "the Dranges hardly moved: the test tests little";
  EXPECT_GT(most_dranges, 8);
}

}  // namespace
}  // namespace nova
