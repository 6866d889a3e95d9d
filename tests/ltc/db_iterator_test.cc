// DbIterator: against a std::map on random walks; at one moment while everything below it is replaced; in
// bounded memory; over failing disks.
#include "ltc/embedded/db_iterator.h"

#include <gtest/gtest.h>

#include <atomic>
#include <map>

#include "common/base/fault_disk.h"
#include "common/base/random.h"
#include "common/base/thread.h"
#include "ltc/embedded/db.h"
#include "tests/ltc/directory.h"
#include "tests/ltc/small_options.h"

namespace nova {
namespace {

using Model = std::map<std::string, std::string>;

std::string KeyOf(uint64_t i) { return "key" + std::to_string(i * 2654435761 % 1'000'003); }

std::unique_ptr<DbIterator> NewIterator(Db* db, const DbIteratorOptions& options = {}) {
  auto it = db->NewIterator(options);
  EXPECT_TRUE(it.ok()) << it.status();
  return it.ok() ? *std::move(it) : nullptr;
}

// A walk over a model, beside the iterator's over the database.
class Walk {
 public:
  Walk(std::unique_ptr<DbIterator> it, const Model& model, const DbIteratorOptions& bounds)
      : it_(std::move(it)) {
    for (const auto& [key, value] : model) {
      if (key >= bounds.lower && (bounds.upper.empty() || key < bounds.upper)) entries_.emplace(key, value);
    }
    at_ = entries_.end();
  }
  void Step(Random* random, const std::string& some_key) {
    const bool valid = at_ != entries_.end();
    switch (random->Uniform(valid ? 20 : 4)) {
      case 0:
        it_->SeekToFirst();
        at_ = entries_.begin();
        break;
      case 1:
        it_->SeekToLast();
        at_ = Before(entries_.end());
        break;
      case 2:
        it_->Seek(some_key);
        at_ = entries_.lower_bound(some_key);
        break;
      case 3:
        it_->SeekForPrev(some_key);
        at_ = Before(entries_.upper_bound(some_key));
        break;
      default: {
        // A run in one direction, long enough to leave the page now and then.
        const bool forward = random->OneIn(2);
        for (size_t n = 1 + random->Uniform(random->OneIn(4) ? 60 : 6); n > 0 && at_ != entries_.end(); --n) {
          forward ? it_->Next() : it_->Prev();
          at_ = forward ? std::next(at_) : Before(at_);
          Check();
        }
      }
    }
    Check();
  }
  void Check() {
    ASSERT_EQ(it_->Valid(), at_ != entries_.end()) << it_->status();
    if (!it_->Valid()) {
      ASSERT_TRUE(it_->status().ok()) << it_->status();
      return;
    }
    ASSERT_EQ(it_->key(), at_->first);
    ASSERT_EQ(it_->value(), at_->second);
  }

 private:
  Model::iterator Before(Model::iterator at) {
    return at == entries_.begin() ? entries_.end() : std::prev(at);
  }

  std::unique_ptr<DbIterator> it_;
  Model entries_;  // within the bounds
  Model::iterator at_;
};

TEST(DbIterator, WalksAsOverAMapWhileTheDatabaseChanges) {
  for (uint64_t seed = 1; seed <= 6; ++seed) {
    SCOPED_TRACE(StrCat("seed ", seed));
    Random random(seed);
    Directory dir;
    DbOptions options = SmallOptions();
    options.log = DbLog::kNone;
    options.range.table.block_size_bytes = 512 << random.Uniform(4);
    options.map_tables = random.OneIn(2);
    options.range.scan_page_bytes = uint64_t{1} << random.Uniform(21);
    auto db = Db::Open(dir.path(), options);
    ASSERT_TRUE(db.ok()) << db.status();
    Model model;
    const auto write = [&](int n) {
      for (int i = 0; i < n; ++i) {
        const std::string key = KeyOf(random.Uniform(2'000));
        if (random.OneIn(4)) {
          ASSERT_TRUE((*db)->Delete(key).ok());
          model.erase(key);
        } else if (random.OneIn(200)) {
          const std::string end = key + "5";
          ASSERT_TRUE((*db)->DeleteRange(key, end).ok());
          model.erase(model.lower_bound(key), model.lower_bound(end));
        } else {
          model[key] = std::string(random.Uniform(400), static_cast<char>('a' + random.Uniform(26)));
          ASSERT_TRUE((*db)->Put(key, model[key]).ok());
        }
      }
    };
    write(4'000);
    for (int round = 0; round < 12; ++round) {
      DbIteratorOptions bounds;
      if (random.OneIn(2)) bounds.lower = KeyOf(random.Uniform(2'000));
      if (random.OneIn(2)) bounds.upper = KeyOf(random.Uniform(2'000));
      const Model at_this_moment = model;
      if (random.OneIn(2)) {
        auto snapshot = (*db)->TakeSnapshot();
        ASSERT_TRUE(snapshot.ok()) << snapshot.status();
        bounds.snapshot = *snapshot;
        write(200);
      }
      Walk walk(NewIterator(db->get(), bounds), at_this_moment, bounds);
      for (int step = 0; step < 60; ++step) {
        walk.Step(&random, KeyOf(random.Uniform(2'100)));
        if (testing::Test::HasFatalFailure()) return;
        if (random.OneIn(8)) write(300);
        if (random.OneIn(30)) {
          ASSERT_TRUE((*db)->Flush().ok());
        }
      }
    }
  }
}

// An iterator that rests keeps neither the memory nor the tables of its moment, only the versions: four times
// the memory of all memtables is written beside it. Its moment stays.
TEST(DbIterator, ThatRestsHoldsUpNoWriter) {
  for (const bool reverse : {false, true}) {
    Directory dir;
    DbOptions options = SmallOptions();
    options.log = DbLog::kNone;
    auto db = Db::Open(dir.path(), options);
    ASSERT_TRUE(db.ok()) << db.status();
    const int keys = 2'000;
    const auto key = [](int i) { return "key" + std::to_string(100'000 + i); };
    for (int i = 0; i < keys; ++i) ASSERT_TRUE((*db)->Put(key(i), "first").ok());
    std::vector<std::unique_ptr<DbIterator>> resting;
    for (int i = 0; i < 20; ++i) {
      resting.push_back(NewIterator(db->get()));
      reverse ? resting[i]->SeekToLast() : resting[i]->SeekToFirst();
    }
    const std::string large(4'000, 'l');
    for (int i = 0; i < 8'000; ++i) ASSERT_TRUE((*db)->Put(key(i % keys), large).ok());
    ASSERT_TRUE((*db)->Flush().ok());
    // The round that takes writes next may be there already.
    EXPECT_LT((*db)->memory_use().memtables, size_t{2} << 20);
    for (const auto& it : resting) {
      int n = 0;
      for (; it->Valid(); reverse ? it->Prev() : it->Next(), ++n) {
        ASSERT_EQ(it->key(), key(reverse ? keys - 1 - n : n));
        ASSERT_EQ(it->value(), "first");
      }
      ASSERT_TRUE(it->status().ok()) << it->status();
      EXPECT_EQ(n, keys);
    }
  }
}

TEST(DbIterator, OfManyThreadsBesideWritersSeeOneMomentEach) {
  Directory dir;
  DbOptions options = SmallOptions();
  options.log = DbLog::kNone;
  auto opened = Db::Open(dir.path(), options);
  ASSERT_TRUE(opened.ok()) << opened.status();
  Db* const db = opened->get();
  // All keys have the same value, in one batch each time.
  constexpr int kKeys = 500;
  const auto write_all = [&](int value) {
    WriteBatch batch;
    for (int i = 0; i < kKeys; ++i)
      batch.Put(KeyOf(i), std::string(200, static_cast<char>('a' + value % 26)));
    EXPECT_TRUE(db->Write(batch).ok());
  };
  write_all(0);
  std::atomic<bool> stop{false};
  std::vector<std::unique_ptr<Thread>> threads;
  threads.push_back(std::make_unique<Thread>("writer", [&] {
    for (int i = 1; !stop; ++i) write_all(i);
  }));
  for (int t = 0; t < 3; ++t) {
    threads.push_back(std::make_unique<Thread>("reader", [&, t] {
      for (int round = 0; round < 40; ++round) {
        const auto it = NewIterator(db);
        std::string value;
        int n = 0;
        for (t == 0 ? it->SeekToLast() : it->SeekToFirst(); it->Valid();
             t == 0 ? it->Prev() : it->Next(), ++n) {
          if (n == 0) value = it->value();
          ASSERT_EQ(it->value(), value) << it->key();
        }
        ASSERT_TRUE(it->status().ok()) << it->status();
        ASSERT_EQ(n, kKeys);
      }
    }));
  }
  for (size_t t = 1; t < threads.size(); ++t) threads[t] = nullptr;
  stop = true;
  threads.clear();
}

TEST(DbIterator, SaysWhyItCannotReadAndTriesAgain) {
  Directory dir;
  const auto base = OpenPosixDisk(dir.path());
  ASSERT_TRUE(base.ok());
  FaultDisk disk(base->get());
  DbOptions options = SmallOptions();
  options.disk = &disk;
  options.map_tables = false;
  options.warm_tables = false;
  auto db = Db::Open(dir.path(), options);
  ASSERT_TRUE(db.ok()) << db.status();
  for (int i = 0; i < 2'000; ++i) ASSERT_TRUE((*db)->Put(KeyOf(i), std::string(2'000, 'v')).ok());
  ASSERT_TRUE((*db)->Flush().ok());
  ASSERT_TRUE((*db)->WaitForBackgroundWork().ok());
  const auto it = NewIterator(db->get());
  it->SeekToFirst();
  ASSERT_TRUE(it->Valid()) << it->status();
  const std::string first(it->key());
  disk.Add({.path = ".sst", .op = DiskOp::kRead});
  int n = 0;
  for (; it->Valid(); it->Next()) ++n;
  EXPECT_LT(n, 2'000);
  EXPECT_FALSE(it->status().ok());
  disk.Clear();
  n = 0;
  for (it->Seek(first); it->Valid(); it->Next()) ++n;
  EXPECT_TRUE(it->status().ok()) << it->status();
  EXPECT_EQ(n, 2'000);
}

TEST(DbIterator, RefusesWhatAScanRefuses) {
  Directory dir, other;
  auto db = Db::Open(dir.path(), SmallOptions()), second = Db::Open(other.path(), SmallOptions());
  ASSERT_TRUE(db.ok() && second.ok());
  ASSERT_TRUE((*db)->Put("a", "1").ok());
  const auto snapshot = (*second)->TakeSnapshot();
  ASSERT_TRUE(snapshot.ok());
  EXPECT_TRUE(absl::IsInvalidArgument((*db)->NewIterator({.snapshot = *snapshot}).status()));
  EXPECT_TRUE(absl::IsInvalidArgument((*db)->NewIterator({.lower = std::string(5'000, 'k')}).status()));
  const auto it = NewIterator(db->get());
  EXPECT_FALSE(it->Valid());
  EXPECT_TRUE(it->status().ok());
  const auto empty = NewIterator(db->get(), {.lower = "c", .upper = "b"});
  empty->SeekToFirst();
  EXPECT_FALSE(empty->Valid());
  empty->SeekToLast();
  EXPECT_FALSE(empty->Valid());
  it->SeekForPrev(std::string(10'000, 'z'));  // no key is so long, and this is between keys all the same
  ASSERT_TRUE(it->Valid());
  EXPECT_EQ(it->key(), "a");
  ASSERT_TRUE((*db)->Close().ok());
  it->SeekToFirst();
  EXPECT_FALSE(it->Valid());
  EXPECT_TRUE(absl::IsFailedPrecondition(it->status())) << it->status();
}

}  // namespace
}  // namespace nova
