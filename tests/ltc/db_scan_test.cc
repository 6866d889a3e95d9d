// Db::Scan where values are large: pages refer to those in mapped tables instead of holding copies of them.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <map>
#include <set>

#include "common/base/random.h"
#include "common/base/thread.h"
#include "ltc/embedded/db.h"
#include "tests/ltc/directory.h"
#include "tests/ltc/small_options.h"

namespace nova {
namespace {

std::string KeyOf(uint64_t i) { return "key" + std::to_string(100'000 + i); }

std::set<std::string> TablesIn(const std::string& directory) {
  std::set<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(directory)) {
    if (entry.path().extension() == ".sst") names.insert(entry.path().filename().string());
  }
  return names;
}

// All tables are replaced in the middle of a page: what the callback is given stays what it was, and the
// files go when the scan has ended.
TEST(DbScanTest, ValuesOutliveTheirTablesForTheTimeOfACallback) {
  constexpr uint64_t kKeys = 500;
  const Directory directory;
  DbOptions options = SmallOptions();
  options.range.compaction.level0_runs_trigger = 1;  // all goes down to Level1 ...
  options.range.compaction.level0_share = 0;         // ... nothing stays above ...
  options.range.compaction.level1_bytes = 64 << 20;  // ... and nothing goes deeper
  auto db = Db::Open(directory.path(), options);
  ASSERT_TRUE(db.ok()) << db.status();
  const auto write_all = [&](char value) {
    for (uint64_t i = 0; i < kKeys; ++i) ASSERT_TRUE((*db)->Put(KeyOf(i), std::string(1000 + i, value)).ok());
    ASSERT_TRUE((*db)->Flush().ok());
    ASSERT_TRUE((*db)->WaitForBackgroundWork().ok());
  };
  write_all('a');
  const std::set<std::string> before = TablesIn(directory.path());
  uint64_t seen = 0;
  const Status s = (*db)->Scan({.limit = kKeys}, [&](std::string_view key, std::string_view value) {
    EXPECT_EQ(key, KeyOf(seen));
    EXPECT_EQ(value, std::string(1000 + seen, 'a'));
    if (seen == 3) write_all('b');
    ++seen;
    return true;
  });
  EXPECT_TRUE(s.ok()) << s;
  EXPECT_EQ(seen, kKeys);
  for (int i = 0; i < 5000; ++i) {
    const std::set<std::string> now = TablesIn(directory.path());
    if (std::none_of(before.begin(), before.end(), [&](const auto& name) { return now.contains(name); }))
      break;
    SleepFor(kMillisecond);
  }
  for (const std::string& name : TablesIn(directory.path())) EXPECT_FALSE(before.contains(name)) << name;
}

// A scan takes over the iterators of the one before: each kind of change between two of them is seen.
TEST(DbScanTest, AScanSeesWhatCameSinceTheOneBefore) {
  for (const bool map_tables : {true, false}) {
    SCOPED_TRACE(map_tables);
    const Directory directory;
    DbOptions options = SmallOptions();
    options.map_tables = map_tables;
    auto db = Db::Open(directory.path(), options);
    ASSERT_TRUE(db.ok()) << db.status();
    std::map<std::string, std::string> model;
    const auto check = [&](const char* after) {
      SCOPED_TRACE(after);
      for (const uint64_t from : {uint64_t{0}, uint64_t{7}, uint64_t{3}}) {
        std::map<std::string, std::string> seen;
        const auto add = [&](std::string_view k, std::string_view v) { return seen.emplace(k, v).second; };
        ASSERT_TRUE((*db)->Scan({.from = KeyOf(from), .limit = 100}, add).ok());
        EXPECT_EQ(seen, (std::map<std::string, std::string>(model.lower_bound(KeyOf(from)), model.end())));
      }
    };
    const auto put = [&](uint64_t i, const std::string& value) {
      ASSERT_TRUE((*db)->Put(KeyOf(i), value).ok());
      model[KeyOf(i)] = value;
    };
    check("opening");
    put(5, "the first entry of a memtable that a scan has passed over");
    check("the first entry");
    put(1, "one more");
    put(5, "newer");
    check("more entries");
    ASSERT_TRUE((*db)->Flush().ok());
    check("a flush");
    for (uint64_t i = 0; i < 20; ++i) put(i, std::string(500, static_cast<char>('a' + i)));
    check("entries over tables");
    ASSERT_TRUE((*db)->Flush().ok());
    ASSERT_TRUE((*db)->WaitForBackgroundWork().ok());
    check("a second flush");
    ASSERT_TRUE((*db)->DeleteRange(KeyOf(2), KeyOf(4)).ok());
    model.erase(model.find(KeyOf(2)), model.find(KeyOf(4)));
    check("a range deletion");
    ASSERT_TRUE((*db)->Delete(KeyOf(9)).ok());
    model.erase(KeyOf(9));
    check("a deletion");
    put(3, "again");
    check("a put into a range that was deleted");
  }
}

// Against a model: values around the size from which they are referred to, with and without a time to live,
//   in memory, in tables and in compressed ones, mapped or read through the cache.
TEST(DbScanTest, ValuesOfAllSizesFromAllPlaces) {
  for (uint64_t seed = 1; seed <= 6; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    const Directory directory;
    DbOptions options = SmallOptions();
    options.map_tables = seed % 3 != 0;
    if (seed % 2 == 0) options.range.compression = {Compression::kNone, Compression::kZstd};
    auto db = Db::Open(directory.path(), options);
    ASSERT_TRUE(db.ok()) << db.status();
    std::map<std::string, std::string> model;
    for (int step = 0; step < 6000; ++step) {
      const std::string key = KeyOf(random.Uniform(900));
      if (random.OneIn(8)) {
        ASSERT_TRUE((*db)->Delete(key).ok());
        model.erase(key);
      } else {
        std::string value(random.OneIn(3) ? 250 + random.Uniform(12) : random.Uniform(1500), 'v');
        value += std::to_string(step);
        ASSERT_TRUE((random.OneIn(4) ? (*db)->PutTtl(key, value, 3'600'000) : (*db)->Put(key, value)).ok());
        model[key] = std::move(value);
      }
      if (!random.OneIn(60)) continue;
      const bool reverse = random.OneIn(3);
      std::vector<std::pair<std::string, std::string>> wanted, found;
      const std::string from = KeyOf(random.Uniform(900));
      const uint64_t limit = random.OneIn(3) ? UINT64_MAX : 1 + random.Uniform(900);
      for (auto it = model.lower_bound(from); it != model.end(); ++it) wanted.emplace_back(*it);
      if (reverse) std::reverse(wanted.begin(), wanted.end());
      if (wanted.size() > limit) wanted.resize(limit);
      const DbScan scan{.from = from, .limit = limit, .reverse = reverse};
      const Status s = (*db)->Scan(scan, [&](std::string_view k, std::string_view v) {
        found.emplace_back(k, v);
        return true;
      });
      ASSERT_TRUE(s.ok()) << s;
      ASSERT_EQ(found, wanted);
    }
  }
}

// A limit that is meant, and entries that no page holds: the first page is read at no snapshot, and once more
// at one, for the others have to be of its moment.
TEST(DbScanTest, K4AllPagesAreOfOneMomentWhereTheFirstHadNoSnapshot) {
  constexpr int kKeys = 24;
  const Directory directory;
  DbOptions options;
  options.log = DbLog::kNone;
  auto db = Db::Open(directory.path(), options);
  ASSERT_TRUE(db.ok()) << db.status();
  std::atomic<bool> ending{false};
  const auto write = [&](int tag) {
    WriteBatch batch;
    const std::string value = std::to_string(tag) + std::string(100'000, 'v');
    for (int i = 0; i < kKeys; ++i) batch.Put(KeyOf(static_cast<uint64_t>(i)), value);
    ASSERT_TRUE((*db)->Write(batch).ok());
  };
  write(0);
  Thread writer("writer", [&] {
    for (int tag = 1; !ending.load(); ++tag) write(tag);
  });
  for (int n = 0; n < 60; ++n) {
    for (const bool reverse : {false, true}) {
      std::set<std::string> tags;
      int seen = 0;
      const Status s =
          (*db)->Scan({.limit = kKeys, .reverse = reverse}, [&](std::string_view, std::string_view value) {
            tags.emplace(value.substr(0, value.find('v')));
            ++seen;
            return true;
          });
      EXPECT_TRUE(s.ok()) << s;
      EXPECT_EQ(seen, kKeys);
      EXPECT_EQ(tags.size(), 1u) << "a batch is seen whole or not at all";
    }
  }
  ending.store(true);
}

TEST(DbScanTest, AnIdleDatabaseMergesLevel0Down) {
  const Directory directory;
  DbOptions options = SmallOptions();
  options.range.compaction.level0_runs_trigger = 16;
  auto db = Db::Open(directory.path(), options);
  ASSERT_TRUE(db.ok()) << db.status();
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE((*db)->Put("key", "value").ok());
    ASSERT_TRUE((*db)->Flush().ok());
  }
  EXPECT_GT((*db)->stats().level0_runs, 1) << "the test tests nothing";
  for (int i = 0; i < 30'000 && (*db)->stats().level0_runs > 1; ++i) SleepFor(kMillisecond);
  EXPECT_LE((*db)->stats().level0_runs, 1);
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE((*db)->Put("key", "value").ok());
    ASSERT_TRUE((*db)->Flush().ok());
  }
  ASSERT_TRUE((*db)->WaitForBackgroundWork().ok());
  EXPECT_LE((*db)->stats().level0_runs, 1) << "whoever waits for the work waits for that too";
}

}  // namespace
}  // namespace nova
