// Range deletions while others put, read, scan and hold snapshots, each on a thread of its own (K4, K6, K7);
// memtables are flushed and merged meanwhile.
//
// Each writer puts its keys round and round, and numbers its puts; one thread deletes all keys, again and
// again. What a moment shows of a writer is then a row of numbers without a hole: of its latest puts, one a
// key, those behind the last deletion.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <map>
#include <set>

#include "absl/strings/numbers.h"
#include "common/base/mutex.h"
#include "common/base/random.h"
#include "common/base/thread.h"
#include "ltc/embedded/db.h"
#include "tests/ltc/directory.h"

namespace nova {
namespace {

constexpr size_t kWriters = 2;
constexpr uint64_t kKeys = 50;      // of each writer
constexpr uint64_t kPuts = 10'000;  // dozens of memtables
constexpr Nanos kMostTime = 100 * kSecond;
using Puts = std::array<uint64_t, kWriters>;  // one number for each writer
using Entries = std::map<std::string, std::string>;

class ConcurrentDeletesTest : public testing::Test {
 protected:
  // A deletion as the others can know it: what it must hide, and what it may hide; and what moments showed of
  // its place among the puts.
  struct Deletion {
    Puts acknowledged_before;  // the last put acknowledged before it began
    Puts begun_by_end;         // the last put begun when it was acknowledged
    Puts behind;               // the first put shown by a moment that sees the deletion
    Puts before;               // the last put shown by one that does not
  };

  ConcurrentDeletesTest() {
    DbOptions options;
    options.memtable_bytes = 4 << 20;
    options.range.memtable_size_bytes = 128 << 10;
    options.range.compaction.table_size_bytes = 64 << 10;
    options.range.compaction.level1_bytes = 256 << 10;
    options.range.compaction.level0_runs_trigger = 4;
    auto db = Db::Open(directory_.path(), options);
    EXPECT_TRUE(db.ok()) << db.status();
    db_ = *std::move(db);
  }
  void Start(const std::string& name, std::function<void()> step) {
    threads_.push_back(std::make_unique<Thread>(name, [this, step = std::move(step)] {
      while (!stop_.load() && !testing::Test::HasFailure()) step();
    }));
  }
  void RunUntil(const std::function<bool()>& enough) {
    const Nanos deadline = Now() + kMostTime;
    while (!enough() && !testing::Test::HasFailure()) {
      SleepFor(10 * kMillisecond);
      EXPECT_LT(Now(), deadline);
    }
    stop_ = true;
    threads_.clear();
  }

  static std::string KeyOf(size_t writer, uint64_t put) {
    return StrCat("k", absl::Dec(put % kKeys, absl::kZeroPad3), ".", writer);
  }
  void Put(size_t writer) {
    const uint64_t number = ++begun_puts_[writer];
    ASSERT_TRUE(db_->Put(KeyOf(writer, number), StrCat(number, " ", std::string(1000, 'v'))).ok());
    acknowledged_puts_[writer] = number;
  }
  static Puts Load(const std::array<std::atomic<uint64_t>, kWriters>& puts) {
    Puts loaded;
    for (size_t w = 0; w < kWriters; ++w) loaded[w] = puts[w].load();
    return loaded;
  }
  void DeleteAll(const DbWriteOptions& options = {}) {
    {
      MutexLock lock(&mu_);
      deletions_.push_back(
          {Load(acknowledged_puts_), Puts{UINT64_MAX, UINT64_MAX}, {UINT64_MAX, UINT64_MAX}, {}});
    }
    ++begun_;
    ASSERT_TRUE(db_->DeleteRange("k", "l", options).ok());
    MutexLock lock(&mu_);
    deletions_.back().begun_by_end = Load(begun_puts_);
    ++acknowledged_;
  }
  Entries Scan(bool reverse, const DbReadOptions& options = {}) {
    Entries entries;
    const Status s = db_->Scan(
        DbScan{.reverse = reverse},
        [&](std::string_view k, std::string_view v) { return entries.emplace(k, v).second; }, options);
    EXPECT_TRUE(s.ok()) << s;
    return entries;
  }
  // `acknowledged_puts` and that many deletions (the first is 1) were acknowledged before the scan began.
  void ExpectOneMoment(const Entries& entries, const Puts& acknowledged_puts, uint64_t acknowledged) {
    std::array<std::set<uint64_t>, kWriters> shown;
    for (const auto& [key, value] : entries) {
      uint64_t put = 0;
      ASSERT_TRUE(absl::SimpleAtoi(value.substr(0, value.find(' ')), &put)) << value;
      const auto writer = static_cast<size_t>(key.back() - '0');
      ASSERT_EQ(key, KeyOf(writer, put));
      shown[writer].insert(put);
    }
    MutexLock lock(&mu_);
    uint64_t sees = acknowledged, sees_not = UINT64_MAX;  // deletions
    for (size_t w = 0; w < kWriters; ++w) {
      const auto& puts = shown[w];
      uint64_t hidden = acknowledged_puts[w];  // a put that some deletion hides; 0: none is known
      if (!puts.empty()) {
        const uint64_t first = *puts.begin(), last = *puts.rbegin();
        ASSERT_EQ(last - first + 1, puts.size())
            << "a hole in the puts of writer " << w << ", " << first << " to " << last;
        hidden = first - 1 + kKeys > last ? first - 1 : 0;
        const auto must = std::partition_point(deletions_.begin(), deletions_.end(), [&](const Deletion& d) {
          return d.acknowledged_before[w] < first;
        });
        if (must != deletions_.end())
          sees_not = std::min(sees_not, static_cast<uint64_t>(must - deletions_.begin()) + 1);
        const auto behind = std::partition_point(deletions_.begin(), deletions_.end(),
                                                 [&](const Deletion& d) { return d.begun_by_end[w] < last; });
        sees = std::max(sees, static_cast<uint64_t>(behind - deletions_.begin()));
      }
      if (hidden == 0) continue;
      const auto may = std::partition_point(deletions_.begin(), deletions_.end(),
                                            [&](const Deletion& d) { return d.begun_by_end[w] < hidden; });
      ASSERT_NE(may, deletions_.end())
          << "put " << hidden << " of writer " << w << " is gone, and no deletion is behind it";
      sees = std::max(sees, static_cast<uint64_t>(may - deletions_.begin()) + 1);
    }
    ASSERT_LT(sees, sees_not) << "deletion " << sees
                              << " is seen, or was acknowledged before, and the earlier " << sees_not
                              << " is not";
    for (size_t w = 0; w < kWriters; ++w) {
      if (shown[w].empty()) continue;
      if (sees > 0) CheckPlace(sees, w, &Deletion::behind, *shown[w].begin());
      if (sees_not <= deletions_.size()) CheckPlace(sees_not, w, &Deletion::before, *shown[w].rbegin());
    }
  }
  void CheckPlace(uint64_t number, size_t writer, Puts Deletion::*side, uint64_t put)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    Deletion& d = deletions_[number - 1];
    uint64_t& known = (d.*side)[writer];
    known = side == &Deletion::behind ? std::min(known, put) : std::max(known, put);
    EXPECT_LT(d.before[writer], d.behind[writer])
        << "a moment without deletion " << number << " shows a put of writer " << writer
        << " that is behind it";
  }

  const Directory directory_;
  std::unique_ptr<Db> db_;
  std::atomic<bool> stop_{false};
  std::array<std::atomic<uint64_t>, kWriters> begun_puts_{}, acknowledged_puts_{};
  std::atomic<uint64_t> begun_{0}, acknowledged_{0};  // deletions
  Mutex mu_;
  std::vector<Deletion> deletions_ ABSL_GUARDED_BY(mu_);
  std::vector<std::unique_ptr<Thread>> threads_;
};

// K6, K7: a deletion hides every put that was acknowledged before it began, from its acknowledgement on, and
// none that begins after.
TEST_F(ConcurrentDeletesTest, K6APutBehindADeletionSurvivesAndOneBeforeItDoesNot) {
  std::atomic<uint64_t> found{0}, gone{0};
  for (size_t w = 0; w < kWriters; ++w) {
    Start(StrCat("writer.", w), [&, w] {
      const uint64_t acknowledged_before_put = acknowledged_.load();
      ASSERT_NO_FATAL_FAILURE(Put(w));
      const uint64_t begun_by_acknowledgement = begun_.load();
      const std::string key = KeyOf(w, begun_puts_[w].load());
      for (int i = 0; i < 2; ++i) {  // by a get and by a scan
        const uint64_t acknowledged = acknowledged_.load();
        std::string value;
        bool is_there = false;
        if (i == 0) {
          is_there = db_->Get(key, &value).ok();
        } else {
          ASSERT_TRUE(db_->Scan(DbScan{key, key + '\0'},
                                [&](std::string_view, std::string_view) { return is_there = true; })
                          .ok());
        }
        if (is_there) {
          ASSERT_LE(acknowledged, begun_by_acknowledgement)
              << "a deletion that began behind the put, and was acknowledged, does not hide it";
          ++found;
        } else {
          ASSERT_GT(begun_.load(), acknowledged_before_put)
              << "no deletion but those acknowledged before the put, and it is gone";
          ++gone;
        }
      }
    });
  }
  Start("deleter", [&] {
    ASSERT_NO_FATAL_FAILURE(DeleteAll());
    SleepFor(200 * kMicrosecond);
  });
  RunUntil([&] {
    return acknowledged_puts_[0] + acknowledged_puts_[1] > kPuts && found.load() > 1'000 && gone.load() > 20;
  });
}

// K4: a scan sees each deletion whole or not at all, with all that was acknowledged before it; a snapshot
// taken before a deletion shows what that hides.
TEST_F(ConcurrentDeletesTest, K4ScansAndSnapshotsSeeADeletionWholeOrNotAtAll) {
  std::atomic<uint64_t> scans{0}, held{0};
  for (size_t w = 0; w < kWriters; ++w) {
    Start(StrCat("writer.", w), [this, w] { ASSERT_NO_FATAL_FAILURE(Put(w)); });
  }
  Start("deleter", [this, random = Random(1)]() mutable {
    // one that is synced takes a while: moments come in between
    ASSERT_NO_FATAL_FAILURE(DeleteAll({.sync = random.OneIn(2)}));
    SleepFor(static_cast<Nanos>(random.Uniform(5'000)) * kMicrosecond);
  });
  Start("scanner", [&, reverse = false]() mutable {
    const Puts puts = Load(acknowledged_puts_);
    const uint64_t acknowledged = acknowledged_.load();
    const Entries entries = Scan(reverse = !reverse);
    ASSERT_NO_FATAL_FAILURE(ExpectOneMoment(entries, puts, acknowledged));
    if (!entries.empty()) ++scans;
  });
  Start("holder", [&] {
    const Puts puts = Load(acknowledged_puts_);
    const uint64_t acknowledged = acknowledged_.load();
    const auto snapshot = db_->TakeSnapshot();
    ASSERT_TRUE(snapshot.ok()) << snapshot.status();
    const uint64_t begun = begun_.load();
    const DbReadOptions options{*snapshot};
    const Entries entries = Scan(false, options);
    ASSERT_NO_FATAL_FAILURE(ExpectOneMoment(entries, puts, acknowledged));
    // Two that the snapshot does not see, and rounds that are flushed.
    while (acknowledged_.load() < begun + 2 && !stop_.load()) SleepFor(kMillisecond);
    ASSERT_EQ(Scan(true, options), entries);
    for (const auto& [key, expected] : entries) {
      std::string value;
      ASSERT_TRUE(db_->Get(key, &value, options).ok()) << key;
      ASSERT_EQ(value, expected);
    }
    if (!entries.empty()) ++held;
  });
  RunUntil([&] {
    return acknowledged_puts_[0] + acknowledged_puts_[1] > kPuts && scans.load() > 200 && held.load() > 30;
  });
}

}  // namespace
}  // namespace nova
