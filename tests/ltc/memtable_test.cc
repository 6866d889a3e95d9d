#include "ltc/memtable.h"

#include <gtest/gtest.h>

#include <map>

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
  const auto add = [&](std::string_view key, SequenceNumber s) { t->Link(t->Prepare(key, s, ValueType::kPut, std::to_string(s))); };
  for (const SequenceNumber s : {2, 5, 8}) add("a", s);
  add("b", 7);
  for (const SequenceNumber s : {1, 6}) add("c", s);
  const auto seen = [&](SequenceNumber at, std::string_view from, Direction direction = Direction::kForward) {
    std::string text;
    const auto it = t->NewIteratorAt(at, t, direction);
    from.empty() ? it->SeekToFirst() : it->Seek(MakeSeekKey(from));
    for (; it->Valid(); it->Next()) text += StrCat(std::string(StoredKeyOf(it->key())), TrailerOf(it->key()) >> 8, "=", std::string(it->value()), " ");
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

TEST(ArenaTest, ChunksAreRecycledAndCounted) {
  ArenaPool pool(1 << 20);
  {
    Arena a(&pool);
    for (int i = 0; i < 1000; ++i) a.Allocate(1000);
    a.Allocate(10 << 20);
    EXPECT_GE(pool.bytes_used(), 11u << 20);
  }
  EXPECT_EQ(pool.bytes_used(), 0u);
}

}  // namespace
}  // namespace nova
