#include "ltc/engine/memtable.h"

#include <gtest/gtest.h>

#include <array>
#include <map>
#include <set>

#include "common/base/failpoint.h"
#include "common/base/mutex.h"
#include "common/base/random.h"
#include "common/base/thread.h"

namespace nova {
namespace {

TEST(MemTableTest, UnlinkedEntriesAreInvisible) {
  ArenaPool pool(1 << 20);
  MemTable t(MemTableId(1), &pool);
  MemTable::Entry* e = t.Prepare("k", 5, ValueType::kPut, "v");
  MemTable::Hit hit;
  EXPECT_FALSE(t.Get("k", kMaxSequenceNumber, &hit)) << "K2: visible implies logged";
  t.Link(e);
  ASSERT_TRUE(t.Get("k", kMaxSequenceNumber, &hit));
  EXPECT_EQ(hit.value, "v");
  EXPECT_EQ(hit.sequence, 5u);
}

TEST(MemTableTest, GetFindsTheNewestVersionAtOrBelowTheNumber) {
  ArenaPool pool(1 << 20);
  MemTable t(MemTableId(1), &pool);
  for (const SequenceNumber s : {3, 9, 6}) t.Link(t.Prepare("k", s, ValueType::kPut, std::to_string(s)));
  t.Link(t.Prepare("k", 12, ValueType::kDelete, ""));
  MemTable::Hit hit;
  EXPECT_FALSE(t.Get("k", 2, &hit));
  ASSERT_TRUE(t.Get("k", 8, &hit));
  EXPECT_EQ(hit.value, "6");
  ASSERT_TRUE(t.Get("k", kMaxSequenceNumber, &hit));
  EXPECT_EQ(hit.type, ValueType::kDelete);
  EXPECT_FALSE(t.Get("j", kMaxSequenceNumber, &hit));
  EXPECT_FALSE(t.Get("kk", kMaxSequenceNumber, &hit));
}

TEST(MemTableTest, AnIteratorAtANumberShowsOneVersionOfAKey) {
  ArenaPool pool(1 << 20);
  const auto t = std::make_shared<MemTable>(MemTableId(1), &pool);
  const auto add = [&](std::string_view key, SequenceNumber s) {
    t->Link(t->Prepare(key, s, ValueType::kPut, std::to_string(s)));
  };
  for (const SequenceNumber s : {2, 5, 8}) add("a", s);
  add("b", 7);
  for (const SequenceNumber s : {1, 6}) add("c", s);
  const auto seen = [&](SequenceNumber at, std::string_view from, Direction direction = Direction::kForward) {
    std::string text;
    const auto it = t->NewIteratorAt(at, t, direction);
    from.empty() ? it->SeekToFirst() : it->Seek(MakeSeekKey(from));
    for (; it->Valid(); it->Next())
      text += StrCat(std::string(StoredKeyOf(it->key())), TrailerOf(it->key()) >> 8, "=",
                     std::string(it->value()), " ");
    return text;
  };
  EXPECT_EQ(seen(kMaxSequenceNumber, ""), "a8=8 b7=7 c6=6 ");
  EXPECT_EQ(seen(6, ""), "a5=5 c6=6 ");
  EXPECT_EQ(seen(6, "aa"), "c6=6 ");
  EXPECT_EQ(seen(1, "a"), "c1=1 ");
  EXPECT_EQ(seen(0, ""), "");
  const auto back = Direction::kBackward;
  EXPECT_EQ(seen(kMaxSequenceNumber, "", back), "c6=6 b7=7 a8=8 ");
  EXPECT_EQ(seen(6, "", back), "c6=6 a5=5 ");
  EXPECT_EQ(seen(6, "c", back), "a5=5 ") << "below it";
  EXPECT_EQ(seen(6, "bb", back), "a5=5 ");
  EXPECT_EQ(seen(kMaxSequenceNumber, "a", back), "");
  EXPECT_EQ(seen(0, "", back), "");
}

TEST(MemTableTest, TellsWhatOneVersionOfEachKeyWouldTake) {
  ArenaPool pool(16 << 20);
  MemTable all(MemTableId(1), &pool), newest(MemTableId(1), &pool);
  EXPECT_EQ(all.bytes_of_one_version_each(), 0u);
  SequenceNumber seq = 0;
  for (int i = 0; i < 1000; ++i) {
    const std::string key = StrCat("key", i);
    for (int version = 0; version < 3; ++version)
      all.Link(all.Prepare(key, ++seq, ValueType::kPut, std::string(100, 'v')));
    newest.Link(newest.Prepare(key, seq, ValueType::kPut, std::string(100, 'v')));
  }
  EXPECT_EQ(newest.bytes_of_one_version_each(), newest.bytes_used());
  EXPECT_NEAR(static_cast<double>(all.bytes_of_one_version_each()), static_cast<double>(newest.bytes_used()),
              static_cast<double>(newest.bytes_used()) / 50);
}

TEST(MemTableTest, ConcurrentInsertsAreAllFoundInOrder) {
  ArenaPool pool(64 << 20);
  MemTable t(MemTableId(1), &pool);
  std::atomic<SequenceNumber> next{1};
  {
    std::vector<std::unique_ptr<Thread>> threads;
    for (uint64_t w = 0; w < 4; ++w) {
      threads.push_back(std::make_unique<Thread>("w", [&, w] {
        Random random(w);
        for (int i = 0; i < 10'000; ++i) {
          const std::string key = "key" + std::to_string(random.Uniform(5000));
          t.Link(t.Prepare(key, next.fetch_add(1), ValueType::kPut, key + "!"));
          MemTable::Hit hit;
          ASSERT_TRUE(t.Get(key, kMaxSequenceNumber, &hit));
          ASSERT_EQ(hit.value, key + "!");
        }
      }));
    }
  }
  EXPECT_EQ(t.entries(), 40'000u);
  auto it = t.NewIterator(nullptr);
  uint64_t n = 0;
  std::string last;
  for (it->SeekToFirst(); it->Valid(); it->Next(), ++n) {
    ASSERT_TRUE(n == 0 || CompareInternalKeys(last, it->key()) < 0);
    last = it->key();
  }
  EXPECT_EQ(n, 40'000u);
}

TEST(BucketLinkTest, SaysWhichKeysTheChainMayHold) {
  EXPECT_EQ(BucketLink().node(), nullptr);
  KeyNode front, back;
  for (uint64_t f = 0; f < 16; ++f) {
    for (uint64_t b = 0; b < 16; ++b) {
      const BucketLink chain(&front, f << 60 | 5, BucketLink(&back, b << 60 | 6, BucketLink()));
      EXPECT_EQ(chain.node(), &front);
      for (uint64_t h = 0; h < 16; ++h) {
        EXPECT_EQ(chain.MayHold(h << 60 | 7), h == f || h == b);
        EXPECT_FALSE(BucketLink().MayHold(h << 60));
      }
    }
  }
}

// Sixteen keys a bucket, each brought by several threads at about the same time.
TEST(MemTableTest, LongChainsHoldEachKeyOnce) {
  constexpr uint64_t kKeys = 4096, kThreads = 4;
  ArenaPool pool(64 << 20);
  MemTable t(MemTableId(1), &pool, /*expected_bytes=*/1);
  const auto key = [](uint64_t i) { return "key" + std::to_string(i); };
  {
    std::vector<std::unique_ptr<Thread>> threads;
    for (uint64_t w = 0; w < kThreads; ++w) {
      threads.push_back(std::make_unique<Thread>("w", [&, w] {
        MemTable::Hit hit;
        for (uint64_t i = 0; i < kKeys; ++i) {
          t.Link(t.Prepare(key(i), 1 + i * kThreads + w, ValueType::kPut, key(i)));
          ASSERT_TRUE(t.Get(key(i), kMaxSequenceNumber, &hit));
          ASSERT_FALSE(t.Get(key(kKeys + i), kMaxSequenceNumber, &hit));
        }
      }));
    }
  }
  EXPECT_EQ(t.keys(), kKeys);
  for (uint64_t i = 0; i < kKeys; ++i) {
    MemTable::Hit hit;
    ASSERT_TRUE(t.Get(key(i), kMaxSequenceNumber, &hit));
    EXPECT_EQ(hit.value, key(i));
    EXPECT_EQ(hit.sequence, 1 + i * kThreads + kThreads - 1);
  }
}

// The versions of a batch are linked the youngest first; where those before are noted, each finds its place
// behind them at once.
TEST(MemTableTest, ABatchOfManyVersionsOfAKeyIsLinkedInOrder) {
  constexpr SequenceNumber kFirst = 1000, kCount = 50'000;
  ArenaPool pool(64 << 20);
  const auto t = std::make_shared<MemTable>(MemTableId(1), &pool);
  t->Link(t->Prepare("a", 1, ValueType::kPut, "before"));  // "b" is new, and each of its versions brings it
  std::vector<MemTable::Entry*> batch;
  for (SequenceNumber s = kFirst; s < kFirst + kCount; ++s)
    batch.push_back(t->Prepare(s % 2 == 0 ? "a" : "b", s, ValueType::kPut, std::to_string(s)));
  t->Link(t->Prepare("a", kFirst + kCount, ValueType::kPut, "after"));  // another thread's, meanwhile
  MemTable::Linked linked;
  for (auto e = batch.rbegin(); e != batch.rend(); ++e) t->Link(*e, &linked);
  const auto all = t->NewIterator(t);
  all->SeekToFirst();
  for (const std::string key : {"a", "b"}) {
    for (SequenceNumber s = kFirst + kCount; s >= 1; --s) {
      if (s < kFirst && (s > 1 || key == "b")) continue;
      if (s >= kFirst && s < kFirst + kCount && (s % 2 == 0) != (key == "a")) continue;
      if (s == kFirst + kCount && key == "b") continue;
      ASSERT_TRUE(all->Valid());
      ASSERT_EQ(StoredKeyOf(all->key()), key);
      ASSERT_EQ(TrailerOf(all->key()) >> 8, s);
      all->Next();
    }
  }
  EXPECT_FALSE(all->Valid());
}

// Keys that end early, begin alike for more than eight bytes, or hold bytes above 0x7f: the sort looks at
// eight bytes first.
TEST(MemTableTest, FlushesAndScansSortAlike) {
  for (const std::string common : {"", "a", "abcdefghijkl"}) {
    ArenaPool pool(1 << 20);
    const auto t = std::make_shared<MemTable>(MemTableId(1), &pool);
    std::map<std::string, SequenceNumber> model;
    Random random(common.size());
    for (SequenceNumber s = 1; s <= 2000; ++s) {
      std::string key = common;
      for (uint64_t n = random.Uniform(12); n > 0; --n)
        key.push_back(static_cast<char>("\0\1ab\x80\xff"[random.Uniform(6)]));
      t->Link(t->Prepare(key, s, ValueType::kPut, key));
      model[key] = s;
      if (s % 700 != 0) continue;
      const auto scan = t->NewIteratorAt(kMaxSequenceNumber, t);
      const auto flush = t->NewIterator(t);
      scan->SeekToFirst();
      flush->SeekToFirst();
      for (const auto& [k, newest] : model) {
        ASSERT_TRUE(scan->Valid() && flush->Valid());
        ASSERT_EQ(StoredKeyOf(scan->key()), k);
        ASSERT_EQ(TrailerOf(scan->key()) >> 8, newest);
        ASSERT_EQ(flush->key(), scan->key());
        for (flush->Next(); flush->Valid() && StoredKeyOf(flush->key()) == k; flush->Next()) continue;
        scan->Next();
      }
      EXPECT_FALSE(scan->Valid() || flush->Valid());
    }
  }
}

// What all keys share is guessed from the youngest ones: here they share more than the others.
TEST(MemTableTest, KeysThatShareLessThanTheYoungestOnesAreSortedToo) {
  ArenaPool pool(1 << 20);
  const auto t = std::make_shared<MemTable>(MemTableId(1), &pool);
  std::set<std::string> model;
  Random random(1);
  for (SequenceNumber s = 1; s <= 3000; ++s) {
    const std::string key = StrCat(s < 2000 ? "a" : "abcdefghijkl", random.Uniform(1'000'000));
    t->Link(t->Prepare(key, s, ValueType::kPut, "v"));
    model.insert(key);
  }
  const auto scan = t->NewIteratorAt(kMaxSequenceNumber, t);
  scan->SeekToFirst();
  for (const std::string& key : model) {
    ASSERT_TRUE(scan->Valid());
    ASSERT_EQ(StoredKeyOf(scan->key()), key);
    scan->Next();
  }
  for (const char* key : {"", "a", "ab", "abcdefghijkl5", "abcdefghijklm", "b"}) {
    scan->Seek(MakeSeekKey(key));
    const auto at = model.lower_bound(key);
    ASSERT_EQ(scan->Valid(), at != model.end()) << key;
    if (scan->Valid()) {
      EXPECT_EQ(StoredKeyOf(scan->key()), *at);
    }
  }
}

// The array is in the pool's account, once, until the table and the iterators over it are gone.
TEST(MemTableTest, AllKeysAreSortedOnceForScansMergesAndFlushes) {
  constexpr uint64_t kKeys = 5000, kBytesOfAKey = 16;
  ArenaPool pool(16 << 20);
  auto t = std::make_shared<MemTable>(MemTableId(1), &pool);
  SequenceNumber last = 0;
  const auto write = [&](uint64_t n) {
    for (; n > 0; --n) {
      ++last;
      t->Link(t->Prepare(StrCat("key", last * 7919 % 100'000), last, ValueType::kPut, "v"));
    }
  };
  write(kKeys);
  size_t before = pool.bytes_used();
  auto flush = t->NewIterator(t);
  EXPECT_EQ(pool.bytes_used(), before + kBytesOfAKey * kKeys);
  auto merge = t->NewIterator(t);
  auto scan = t->NewIteratorAt(kMaxSequenceNumber, t);
  EXPECT_EQ(pool.bytes_used(), before + kBytesOfAKey * kKeys) << "sorted again";
  write(100);
  scan->ReadAt(kMaxSequenceNumber);
  EXPECT_LE(pool.bytes_used(), before + kBytesOfAKey * kKeys + ArenaPool::kChunkBytes) << "a few are listed";
  before = pool.bytes_used();
  merge = t->NewIterator(t);
  EXPECT_GT(pool.bytes_used(), before) << "all are sorted, the few too";
  flush = nullptr;
  scan = nullptr;
  scan = t->NewIteratorAt(kMaxSequenceNumber, t);
  EXPECT_EQ(pool.bytes_used(), before + kBytesOfAKey * 100) << "an array that nobody reads was kept";
  scan = nullptr;
  merge = nullptr;
  t = nullptr;
  EXPECT_EQ(pool.bytes_used(), 0u);
}

// Seeks, either way, while the list grows far beyond what its seek index last knew, and with pieces of eight
// bytes that tell all keys apart, some, or none.
TEST(MemTableTest, SeeksFindTheirPlaceHoweverOldTheSeekIndexIs) {
  for (const size_t behind :
       {size_t{0}, size_t{3}, size_t{10}}) {  // bytes of the key behind its digits' first
    ArenaPool pool(1 << 20);
    const auto t = std::make_shared<MemTable>(MemTableId(1), &pool);
    std::set<std::string> model;
    Random random(behind);
    SequenceNumber s = 0;
    const auto some_key = [&] {
      const std::string digits = std::to_string(100'000 + random.Uniform(60'000));
      return StrCat("k", digits.substr(0, 3), std::string(behind, 'm'), digits.substr(3));
    };
    for (const size_t more : {10, 1'500, 300, 1'600, 9'000, 200, 3'000, 2'000}) {
      for (size_t i = 0; i < more; ++i) {
        const std::string key = some_key();
        t->Link(t->Prepare(key, ++s, ValueType::kPut, "v"));
        model.insert(key);
      }
      const auto forward = t->NewIteratorAt(kMaxSequenceNumber, t);
      const auto back = t->NewIteratorAt(kMaxSequenceNumber, t, Direction::kBackward);
      for (int i = 0; i < 400; ++i) {
        const std::string key = i == 0 ? "" : i == 1 ? "z" : some_key();
        forward->Seek(MakeSeekKey(key));
        auto at = model.lower_bound(key);
        ASSERT_EQ(forward->Valid(), at != model.end()) << key;
        if (forward->Valid()) {
          ASSERT_EQ(StoredKeyOf(forward->key()), *at);
        }
        back->Seek(MakeSeekKey(key));
        ASSERT_EQ(back->Valid(), at != model.begin()) << key;
        if (back->Valid()) {
          ASSERT_EQ(StoredKeyOf(back->key()), *std::prev(at));
        }
      }
    }
  }
}

// A scan at `seq` sees every version up to it whose Link has returned, whoever else writes, scans, lists or
// sorts.
TEST(MemTableTest, ScansBesideWritersSeeWhatIsLinked) {
  for (const bool scanned : {false, true}) {
    ArenaPool pool(64 << 20);
    const auto t = std::make_shared<MemTable>(MemTableId(1), &pool, 4 << 20, scanned);
    constexpr uint64_t kKeys = 4000;
    std::array<std::atomic<uint64_t>, 2> linked{};  // of writer w: keys 0..linked
    const auto key_of = [](uint64_t w, uint64_t i) {
      return StrCat("key", (i * 7919 + w) % 100'000 + 100'000, "-", w, "-", i);
    };
    std::vector<std::unique_ptr<Thread>> threads;
    for (uint64_t w = 0; w < 2; ++w) {
      threads.push_back(std::make_unique<Thread>("w", [&, w] {
        for (uint64_t i = 0; i < kKeys; ++i) {
          t->Link(t->Prepare(key_of(w, i), i + 1, ValueType::kPut, std::to_string(w)));
          linked[w].store(i + 1);
        }
      }));
    }
    for (int r = 0; r < 2; ++r) {
      threads.push_back(std::make_unique<Thread>("r", [&] {
        for (bool last = false; !last;) {
          const uint64_t before[2] = {linked[0].load(), linked[1].load()};
          last = before[0] == kKeys && before[1] == kKeys;
          const auto it = t->NewIteratorAt(kMaxSequenceNumber, t);
          uint64_t found[2] = {0, 0};
          std::string previous;
          for (it->SeekToFirst(); it->Valid(); it->Next()) {
            const std::string key(StoredKeyOf(it->key()));
            ASSERT_LT(previous, key);
            previous = key;
            const uint64_t w = it->value() == "0" ? 0 : 1;
            found[w] += TrailerOf(it->key()) >> 8 <= before[w] ? 1 : 0;
          }
          ASSERT_EQ(found[0], before[0]);
          ASSERT_EQ(found[1], before[1]);
        }
      }));
    }
    threads.push_back(std::make_unique<Thread>("f", [&] {
      while (linked[0].load() + linked[1].load() < 2 * kKeys) t->NewIterator(t);
    }));
    threads.clear();
    EXPECT_TRUE(t->scanned());
  }
}

// A scan that finds all keys ordered reads in the latest order without a lock: that has to be there by then.
TEST(MemTableTest, AScanWhileAnotherOneSortsMissesNothing) {
  ArenaPool pool(1 << 20);
  const auto t = std::make_shared<MemTable>(MemTableId(1), &pool);
  const auto scan = t->NewIteratorAt(kMaxSequenceNumber, t);
  for (const char* key : {"a", "b"}) t->Link(t->Prepare(key, 1, ValueType::kPut, "v"));  // lists the first
  std::unique_ptr<Thread> reader;
  Notification read;
  bool found = false;
  ASSERT_TRUE(ArmFailPoint("memtable.sorted", 0, [&] {
                reader = std::make_unique<Thread>("reader", [&] {
                  scan->ReadAt(kMaxSequenceNumber);
                  scan->Seek(MakeSeekKey("b"));
                  found = scan->Valid();
                  read.Notify();
                });
                read.WaitUntil(Now() + 100 * kMillisecond);  // it may wait for the sort
                return OkStatus();
              }).ok());
  t->NewIterator(t);
  DisarmFailPoints();
  ASSERT_NE(reader, nullptr);
  reader->Join();
  EXPECT_TRUE(found);
}

TEST(ArenaTest, ChunksAreRecycledAndCounted) {
  ArenaPool pool(1 << 20);
  {
    Arena a(&pool);
    for (int i = 0; i < 1000; ++i) a.Allocate(1000);
    a.Allocate(10 << 20);
    EXPECT_GE(pool.bytes_used(), 11u << 20);
  }
  EXPECT_EQ(pool.bytes_used(), 0u);
  std::set<char*> first;
  {
    Arena a(&pool);
    for (int i = 0; i < 4; ++i) first.insert(a.AllocateChunk());
    EXPECT_EQ(pool.bytes_ready(), 0u);
  }
  EXPECT_EQ(pool.bytes_ready(), 4 * ArenaPool::kChunkBytes) << "they were not kept";
  Arena b(&pool);
  for (int i = 0; i < 4; ++i) EXPECT_TRUE(first.contains(b.AllocateChunk()));
  EXPECT_EQ(pool.bytes_ready(), 0u);
}

}  // namespace
}  // namespace nova
