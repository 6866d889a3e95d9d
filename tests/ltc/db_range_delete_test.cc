// Range deletions of the embedded engine (K7): what they hide and from whom, through flushes, compactions,
// kills and reopening; and that they go in the end.
#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <map>

#include "common/base/random.h"
#include "common/base/sim_disk.h"
#include "common/base/thread.h"
#include "ltc/embedded/db.h"

namespace nova {
namespace {

class RangeDeleteTest : public testing::Test {
 protected:
  RangeDeleteTest() {
    char dir[] = "/tmp/nova-range-delete-XXXXXX";
    directory_ = mkdtemp(dir);
    options_.memtable_bytes = 4 << 20;
    options_.range.memtable_size_bytes = 128 << 10;
    options_.range.compaction.table_size_bytes = 64 << 10;
    options_.range.compaction.level1_bytes = 256 << 10;
    options_.range.compaction.level0_runs_trigger = 4;
    Open();
  }
  ~RangeDeleteTest() override {
    db_ = nullptr;
    std::filesystem::remove_all(directory_);
  }
  void Open() {
    db_ = nullptr;
    auto db = Db::Open(directory_, options_);
    ASSERT_TRUE(db.ok()) << db.status();
    db_ = *std::move(db);
  }
  static std::string KeyOf(int n) { return StrCat("k", absl::Dec(n, absl::kZeroPad6)); }
  void Fill(int from, int to, const std::string& value) {
    for (int i = from; i < to; ++i) ASSERT_TRUE(db_->Put(KeyOf(i), value).ok());
  }
  void DeleteRange(int from, int to) { ASSERT_TRUE(db_->DeleteRange(KeyOf(from), KeyOf(to)).ok()); }
  void Settle() {
    ASSERT_TRUE(db_->Flush().ok());
    ASSERT_TRUE(db_->WaitForBackgroundWork().ok());
  }
  // By a get, a multi-get and scans from both ends: these keys of [0, upto) are there, each with this value.
  void ExpectKeys(int upto, const std::map<int, std::string>& expected,
                  std::shared_ptr<const Snapshot> at = nullptr) {
    const DbReadOptions options{at};
    for (int i = 0; i < upto; ++i) {
      std::string value;
      const Status s = db_->Get(KeyOf(i), &value, options);
      const auto e = expected.find(i);
      ASSERT_EQ(s.ok(), e != expected.end()) << i << ": " << s;
      ASSERT_TRUE(e == expected.end() || value == e->second) << i;
    }
    std::vector<std::string> keys;
    for (int i = 0; i < upto; ++i) keys.push_back(KeyOf(i));
    const std::vector<std::string_view> views(keys.begin(), keys.end());
    std::vector<std::optional<std::string>> values;
    ASSERT_TRUE(db_->MultiGet(views, &values, options).ok());
    for (int i = 0; i < upto; ++i)
      ASSERT_EQ(values[static_cast<size_t>(i)].has_value(), expected.contains(i)) << i;
    for (const bool reverse : {false, true}) {
      std::map<std::string, std::string> scanned;
      ASSERT_TRUE(db_->Scan(
                         DbScan{.reverse = reverse},
                         [&](std::string_view k, std::string_view v) { return scanned.emplace(k, v).second; },
                         options)
                      .ok());
      ASSERT_EQ(scanned.size(), expected.size());
      for (const auto& [i, value] : expected)
        ASSERT_EQ(scanned[KeyOf(i)], value) << i << (reverse ? " in reverse" : "");
    }
  }
  static std::map<int, std::string> Keys(int from, int to, const std::string& value) {
    std::map<int, std::string> keys;
    for (int i = from; i < to; ++i) keys[i] = value;
    return keys;
  }

  std::string directory_;
  DbOptions options_;
  std::unique_ptr<Db> db_;
};

TEST_F(RangeDeleteTest, HidesWhatIsOlderAndNothingElse) {
  Fill(0, 100, "old");
  DeleteRange(20, 80);
  Fill(50, 60, "new");
  auto expected = Keys(0, 20, "old");
  expected.merge(Keys(50, 60, "new"));
  expected.merge(Keys(80, 100, "old"));
  ExpectKeys(100, expected);
  Settle();
  ExpectKeys(100, expected);
  EXPECT_EQ(db_->stats().range_tombstones, 0u);
  Open();
  ExpectKeys(100, expected);
}

TEST_F(RangeDeleteTest, WithoutBeginOrEndItReachesTheFirstOrTheLastKey) {
  Fill(0, 10, "x");
  ASSERT_TRUE(db_->DeleteRange("", KeyOf(3)).ok());
  ASSERT_TRUE(db_->DeleteRange(KeyOf(7), "").ok());
  ExpectKeys(10, Keys(3, 7, "x"));
  ASSERT_TRUE(db_->DeleteRange("", "").ok());
  ExpectKeys(10, {});
}

TEST_F(RangeDeleteTest, ARangeThatIsEmptyOrTooLongIsNamed) {
  for (const auto& [begin, end] : {std::pair("b", "b"), std::pair("b", "a")}) {
    EXPECT_TRUE(absl::IsInvalidArgument(db_->DeleteRange(begin, end)));
    WriteBatch batch;
    batch.Put("key", "value");
    batch.DeleteRange(begin, end);
    EXPECT_TRUE(absl::IsInvalidArgument(db_->Write(batch)));
  }
  EXPECT_TRUE(absl::IsInvalidArgument(db_->DeleteRange("a", std::string(kMaxUserKeyBytes + 1, 'b'))));
  WriteBatch many;
  for (uint32_t i = 0; i <= options_.range.round_range_tombstones; ++i) many.DeleteRange("a", "b");
  EXPECT_TRUE(absl::IsInvalidArgument(db_->Write(many)));
  std::string value;
  EXPECT_TRUE(absl::IsNotFound(db_->Get("key", &value)));
}

TEST_F(RangeDeleteTest, K4ASnapshotSeesWhatWasThereThroughFlushesAndCompactions) {
  Fill(0, 100, "old");
  const auto before = *db_->TakeSnapshot();
  DeleteRange(0, 50);
  const auto between = *db_->TakeSnapshot();
  Fill(10, 20, "new");
  DeleteRange(15, 18);
  auto now = Keys(10, 15, "new");
  now.merge(Keys(18, 20, "new"));
  now.merge(Keys(50, 100, "old"));
  for (int round = 0; round < 3; ++round) {
    ExpectKeys(100, Keys(0, 100, "old"), before);
    ExpectKeys(100, Keys(50, 100, "old"), between);
    ExpectKeys(100, now);
    Fill(200, 2'000, std::string(200, 'x'));  // makes rounds and runs
    Settle();
    db_->DeleteRange(KeyOf(200), KeyOf(2'000)).IgnoreError();
  }
  EXPECT_GT(db_->stats().range_tombstones, 0u);  // `before` needs what they hide
}

TEST_F(RangeDeleteTest, ItIsRetiredWhenNoTableHoldsWhatItHidesAndNoSnapshotNeedsIt) {
  Fill(0, 3'000, std::string(500, 'x'));
  Settle();
  const uint64_t bytes = db_->stats().bytes;
  auto snapshot = *db_->TakeSnapshot();
  DeleteRange(100, 2'900);
  Settle();
  EXPECT_EQ(db_->stats().range_tombstones, 1u);
  ExpectKeys(3'000, Keys(0, 3'000, std::string(500, 'x')), snapshot);
  snapshot = nullptr;
  ASSERT_TRUE(db_->WaitForBackgroundWork().ok());
  EXPECT_EQ(db_->stats().range_tombstones, 0u);
  EXPECT_LT(db_->stats().bytes, bytes / 4);  // the space is back
  auto expected = Keys(0, 100, std::string(500, 'x'));
  expected.merge(Keys(2'900, 3'000, std::string(500, 'x')));
  ExpectKeys(3'000, expected);
  Open();
  EXPECT_EQ(db_->stats().range_tombstones, 0u);  // from the manifest too
  ExpectKeys(3'000, expected);
}

// What a version in a higher level hid must not come back when that one is dropped first.
TEST_F(RangeDeleteTest, VersionsInManyLevelsStayHidden) {
  options_.range.compaction.level0_runs_trigger = 1;
  Open();
  for (int round = 0; round < 6; ++round) {
    Fill(0, 1'500, StrCat(round, std::string(300, 'v')));
    Settle();
    ASSERT_TRUE(db_->Delete(KeyOf(700)).ok());
  }
  DeleteRange(300, 1'200);
  auto expected = Keys(0, 300, StrCat(5, std::string(300, 'v')));
  expected.merge(Keys(1'200, 1'500, StrCat(5, std::string(300, 'v'))));
  ExpectKeys(1'500, expected);
  Settle();
  ExpectKeys(1'500, expected);
  EXPECT_EQ(db_->stats().range_tombstones, 0u);
}

TEST_F(RangeDeleteTest, ManyPrefixesCutOffOneAfterTheOtherStayFew) {
  const auto held = *db_->TakeSnapshot();  // so that none is retired for want of what it hides
  Fill(0, 2'000, "x");
  for (int i = 1; i <= 2'000; ++i) DeleteRange(0, i);
  Settle();
  EXPECT_LE(db_->stats().range_tombstones, 2u);  // newer ones hide all that older ones do
  ExpectKeys(2'000, {});
}

TEST_F(RangeDeleteTest, K6ABatchHidesItsOwnEarlierEntriesAndNotItsLaterOnes) {
  Fill(0, 10, "old");
  WriteBatch batch;
  batch.Put(KeyOf(1), "hidden");
  batch.Put(KeyOf(20), "hidden");
  batch.DeleteRange(KeyOf(0), KeyOf(30));
  batch.Put(KeyOf(2), "new");
  batch.DeleteRange(KeyOf(25), KeyOf(27));
  batch.Put(KeyOf(26), "new");
  ASSERT_TRUE(db_->Write(batch).ok());
  const std::map<int, std::string> expected{{2, "new"}, {26, "new"}};
  ExpectKeys(30, expected);
  Open();  // from the log
  ExpectKeys(30, expected);
  Settle();
  ExpectKeys(30, expected);
}

TEST_F(RangeDeleteTest, ACheckpointHoldsTheDeletionsOfItsMoment) {
  Fill(0, 100, "old");
  const auto snapshot = *db_->TakeSnapshot();  // keeps what is hidden, and so the deletion
  DeleteRange(20, 80);
  std::string copy = directory_ + "-copy";
  ASSERT_TRUE(db_->Checkpoint(copy).ok());
  Fill(30, 40, "new");
  EXPECT_EQ(db_->stats().range_tombstones, 1u);
  std::swap(directory_, copy);  // `copy` is the original now
  Open();
  auto expected = Keys(0, 20, "old");
  expected.merge(Keys(80, 100, "old"));
  ExpectKeys(100, expected);
  Settle();
  ExpectKeys(100, expected);
  db_ = nullptr;
  std::filesystem::remove_all(copy);
}

TEST_F(RangeDeleteTest, CompareAndSwapComparesWithWhatItLeft) {
  Fill(0, 10, "x");
  DeleteRange(0, 5);
  EXPECT_FALSE(*db_->CompareAndSwap(KeyOf(1), "x", "y"));
  EXPECT_TRUE(*db_->CompareAndSwap(KeyOf(1), std::nullopt, "y"));
  EXPECT_TRUE(*db_->CompareAndSwap(KeyOf(7), "x", "y"));
  ExpectKeys(10, {{1, "y"}, {5, "x"}, {6, "x"}, {7, "y"}, {8, "x"}, {9, "x"}});
}

// A swap adds one to a counter that a range deletion resets: between reading and writing none may come, or
// the counter would go on from a value that was deleted. Each value is written once in the life of a counter.
TEST_F(RangeDeleteTest, K6NoRangeDeletionComesBetweenAComparisonAndItsSwap) {
  std::atomic<bool> stop{false};
  std::atomic<int> swaps{0};
  std::vector<std::unique_ptr<Thread>> threads;
  for (int t = 0; t < 2; ++t) {
    threads.push_back(std::make_unique<Thread>(StrCat("swap.", t), [&, t] {
      const std::string key = StrCat("counter", t);
      int mine = 0;  // nobody else writes the counter: what is there is this, or it was deleted
      while (!stop.load()) {
        const auto expected = mine == 0 ? std::nullopt : std::optional<std::string>(StrCat(mine));
        const auto swapped = db_->CompareAndSwap(key, expected, StrCat(mine + 1));
        ASSERT_TRUE(swapped.ok()) << swapped.status();
        std::string value;
        const Status s = db_->Get(key, &value);
        if (*swapped) {
          ASSERT_TRUE(absl::IsNotFound(s) || value == StrCat(mine + 1)) << value;
          ++swaps;
        } else {
          ASSERT_TRUE(absl::IsNotFound(s)) << "refused, and the value is " << value << ", mine " << mine;
        }
        mine = s.ok() ? mine + 1 : 0;
      }
    }));
  }
  for (int i = 0; i < 400; ++i) {
    ASSERT_TRUE(db_->DeleteRange("counter", "countes").ok());
    if (i % 10 == 0) SleepFor(kMillisecond);
  }
  stop = true;
  threads.clear();
  EXPECT_GT(swaps.load(), 100);
}

// Writers go on while ranges are deleted: what was put after a deletion is there, a scan sees all of it or
// nothing.
TEST_F(RangeDeleteTest, K4AScanSeesADeletionWholeOrNotAtAll) {
  std::atomic<bool> stop{false};
  constexpr int kKeys = 40;
  Thread writer("writer", [&] {
    for (int n = 0; !stop.load(); ++n) {
      WriteBatch batch;
      for (int i = 0; i < kKeys; ++i) batch.Put(KeyOf(i), StrCat(n));
      EXPECT_TRUE(db_->Write(batch).ok());
      EXPECT_TRUE(db_->DeleteRange(KeyOf(0), KeyOf(kKeys)).ok());
    }
  });
  int full = 0, empty = 0;
  for (const Nanos until = Now() + 2 * kSecond; Now() < until;) {
    std::vector<std::string> values;
    ASSERT_TRUE(db_->Scan(DbScan{.to = KeyOf(kKeys), .reverse = (full + empty) % 2 == 0},
                          [&](std::string_view, std::string_view v) {
                            values.emplace_back(v);
                            return true;
                          })
                    .ok());
    ASSERT_TRUE(values.empty() || values.size() == kKeys) << values.size();
    for (const std::string& v : values) ASSERT_EQ(v, values[0]);
    values.empty() ? ++empty : ++full;
    std::vector<std::string> keys;
    for (int i = 0; i < kKeys; ++i) keys.push_back(KeyOf(i));
    const std::vector<std::string_view> views(keys.begin(), keys.end());
    std::vector<std::optional<std::string>> all;
    ASSERT_TRUE(db_->MultiGet(views, &all).ok());
    for (const auto& v : all) ASSERT_EQ(v, all[0]);
  }
  stop = true;
  writer.Join();
  EXPECT_GT(full, 0);
  EXPECT_GT(empty, 0);
}

// Killed at any time: a deletion that was acknowledged holds, one that was not is there whole or not at all.
TEST_F(RangeDeleteTest, AKilledProcessLeavesDeletionsWhole) {
  constexpr int kKeys = 200;
  for (int round = 0; round < 6; ++round) {
    int fds[2];
    ASSERT_EQ(pipe(fds), 0);
    db_ = nullptr;
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      close(fds[0]);
      auto db = Db::Open(directory_, options_);
      if (!db.ok()) _exit(1);
      for (int n = 1;; ++n) {  // n, then nothing, then n + 1 ...
        for (int i = 0; i < kKeys; ++i) {
          if (!(*db)->Put(KeyOf(i), StrCat(n, std::string(100, 'v'))).ok()) _exit(2);
        }
        if (!(*db)->DeleteRange(KeyOf(0), KeyOf(kKeys)).ok()) _exit(3);
        if (write(fds[1], &n, sizeof(n)) != sizeof(n)) _exit(4);
      }
    }
    close(fds[1]);
    int deleted = 0;
    for (int n; deleted < 5 + 7 * round && read(fds[0], &n, sizeof(n)) == sizeof(n);) deleted = n;
    kill(child, SIGKILL);
    for (int n; read(fds[0], &n, sizeof(n)) == sizeof(n);) deleted = n;
    close(fds[0]);
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFSIGNALED(status)) << "the child ended by itself: " << WEXITSTATUS(status);
    ASSERT_GT(deleted, 0);
    Open();
    int expected = 0, count = 0;
    ASSERT_TRUE(db_->Scan("", UINT64_MAX,
                          [&](std::string_view key, std::string_view value) {
                            EXPECT_EQ(key, KeyOf(expected)) << "a hole";
                            EXPECT_GE(std::stoi(std::string(value)), deleted + 1)
                                << "what was deleted is back: " << key;
                            ++expected;
                            ++count;
                            return true;
                          })
                    .ok());
    EXPECT_LE(count, kKeys);
    ASSERT_TRUE(db_->DeleteRange("", "").ok());
  }
}

// Nothing of a deletion that was lost is done: compactions drop by deletions of the manifest only.
TEST_F(RangeDeleteTest, ALossOfPowerUndoesADeletionWholeOrNotAtAll) {
  options_.range.compaction.level0_runs_trigger = 1;
  for (uint64_t seed = 1; seed <= 12; ++seed) {
    Random random(seed);
    SimDisk medium;
    const bool synced = random.OneIn(2);
    {
      const auto disk = medium.Mount();
      options_.disk = disk.get();
      Open();
      for (int i = 0; i < 500; ++i) ASSERT_TRUE(db_->Put(KeyOf(i), std::string(300, 'x'), {i == 499}).ok());
      ASSERT_TRUE(db_->DeleteRange(KeyOf(100), KeyOf(400), {synced}).ok());
      if (random.OneIn(2)) Fill(500, 1'500, std::string(300, 'y'));  // rounds are flushed, this one's too
      ASSERT_TRUE(db_->WaitForBackgroundWork().ok());
      random.OneIn(2) ? medium.Crash(&random) : medium.Crash();
      db_ = nullptr;
    }
    const auto disk = medium.Mount();
    options_.disk = disk.get();
    Open();
    int hidden = 0, others = 0;
    ASSERT_TRUE(db_->Scan({.to = KeyOf(500)},
                          [&](std::string_view key, std::string_view) {
                            (key >= KeyOf(100) && key < KeyOf(400) ? hidden : others)++;
                            return true;
                          })
                    .ok());
    EXPECT_EQ(others, 200) << "seed " << seed;
    EXPECT_TRUE(hidden == 0 || (hidden == 300 && !synced)) << "seed " << seed << ": " << hidden;
    db_ = nullptr;
  }
}

}  // namespace
}  // namespace nova
