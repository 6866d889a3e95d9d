#include "common/sstable/block.h"

#include "tests/sstable/sstable_test_util.h"

namespace nova {
namespace {

std::string BuildBlock(const Model& model, int restart_interval) {
  std::string payload;
  BlockBuilder builder(&payload, restart_interval);
  for (const auto& [key, value] : model) {
    const size_t promised = builder.SizeAfter(key, value.size());
    builder.AddKey(key, value.size());
    payload += value;
    EXPECT_LE(builder.size(), promised);
  }
  const size_t size = builder.size();
  builder.Finish();
  EXPECT_EQ(payload.size(), size);
  return payload;
}

TEST(BlockTest, BytesAreAsDocumented) {
  const std::string payload = BuildBlock({{InternalKey("apple", 3), "x"},
                                          {InternalKey("apply", 2), "yz"},
                                          {InternalKey("apply", 1, ValueType::kDelete), ""},
                                          {InternalKey("b", 9), "w"}},
                                         3);
  EXPECT_EQ(ToHex(payload),
            "000501"
            "6170706c65"
            "0103000000000000"
            "78"  // apple@3 put
            "040102"
            "79"
            "0102000000000000"
            "797a"  // apply@2 put
            "050000"
            "0001000000000000"  // apply@1 delete
            "000101"
            "62"
            "0109000000000000"
            "77"  // b@9 put, a restart point
            "00000000"
            "2a000000"
            "02000000");
}

TEST(BlockTest, CursorGivesBackWhatWasAdded) {
  Random random(1);
  for (int round = 0; round < 200; ++round) {
    const Model model = RandomModel(&random, 1 + random.Uniform(60));
    const std::string payload = BuildBlock(model, 1 + static_cast<int>(random.Uniform(20)));
    BlockCursor cursor;
    ASSERT_TRUE(cursor.Init(payload));
    auto it = model.begin();
    for (auto r = cursor.First(); r != BlockCursor::Result::kEnd; r = cursor.Next(), ++it) {
      ASSERT_EQ(r, BlockCursor::Result::kFound);
      ASSERT_NE(it, model.end());
      ASSERT_EQ(cursor.key(), it->first);
      ASSERT_EQ(cursor.value(), it->second);
    }
    ASSERT_EQ(it, model.end());
  }
}

TEST(BlockTest, SeekFindsTheFirstEntryAtOrAfter) {
  Random random(2);
  for (int round = 0; round < 200; ++round) {
    const Model model = RandomModel(&random, 1 + random.Uniform(60));
    const std::string payload = BuildBlock(model, 1 + static_cast<int>(random.Uniform(20)));
    BlockCursor cursor;
    BlockView view;
    ASSERT_TRUE(cursor.Init(payload));
    ASSERT_TRUE(view.Init(payload));
    for (int i = 0; i < 100; ++i) {
      std::string target = InternalKey(RandomKey(&random), random.Uniform(600));
      if (random.OneIn(2)) {
        auto some = model.begin();
        std::advance(some, random.Uniform(model.size()));
        target = random.OneIn(2) ? some->first : InternalKey(StoredKeyOf(some->first), random.Uniform(600));
      }
      const auto expected = model.lower_bound(target);
      const auto result = cursor.Seek(target);
      BlockEntry entry;
      bool ends_in_key;
      ASSERT_EQ(view.Seek(StoredKeyOf(target), TrailerOf(target), &entry, &ends_in_key), result);
      if (expected == model.end()) {
        ASSERT_EQ(result, BlockCursor::Result::kEnd);
        ASSERT_EQ(ends_in_key, StoredKeyOf(model.rbegin()->first) == StoredKeyOf(target));
        continue;
      }
      ASSERT_EQ(result, BlockCursor::Result::kFound);
      ASSERT_EQ(cursor.key(), expected->first);
      ASSERT_EQ(cursor.value(), expected->second);
      const auto next = std::next(expected);
      ASSERT_EQ(cursor.Next(), next == model.end() ? BlockCursor::Result::kEnd : BlockCursor::Result::kFound);
      if (next != model.end()) {
        ASSERT_EQ(cursor.key(), next->first);
      }
    }
  }
}

// Blocks reach a view only behind a checksum, but a wrong writer has right checksums.
TEST(BlockTest, MalformedBytesNeverCrash) {
  Random random(3);
  const Model model = RandomModel(&random, 20);
  const std::string good = BuildBlock(model, 4);
  for (int round = 0; round < 30000; ++round) {
    std::string bytes = good.substr(0, random.OneIn(4) ? random.Uniform(good.size()) : good.size());
    for (uint64_t n = random.Uniform(4); n > 0 && !bytes.empty(); --n) {
      const size_t near_end = std::min<size_t>(bytes.size(), 40);
      const size_t at =
          random.OneIn(2) ? random.Uniform(bytes.size()) : bytes.size() - 1 - random.Uniform(near_end);
      bytes[at] = static_cast<char>(random.Next());
    }
    const std::vector<char> exact(bytes.begin(), bytes.end());
    BlockCursor cursor;
    if (!cursor.Init({exact.data(), exact.size()})) continue;
    auto r = cursor.First();
    while (r == BlockCursor::Result::kFound) r = cursor.Next();
    r = cursor.Seek(InternalKey(RandomKey(&random), random.Uniform(600)));
    while (r == BlockCursor::Result::kFound) r = cursor.Next();
    BackwardBlockCursor back;
    ASSERT_TRUE(back.Init({exact.data(), exact.size()}));
    r = back.Last();
    while (r == BlockCursor::Result::kFound) r = back.Previous();
    r = back.SeekBefore(InternalKey(RandomKey(&random), random.Uniform(600)));
    while (r == BlockCursor::Result::kFound) r = back.Previous();
  }
}

TEST(BlockTest, RestartPointsThatDoNotFitAreRejected) {
  BlockView view;
  EXPECT_FALSE(view.Init(""));
  EXPECT_FALSE(view.Init(std::string(3, '\0')));
  EXPECT_FALSE(view.Init(std::string(4, '\0')));                             // none
  EXPECT_FALSE(view.Init(std::string("\0\0\0\0\1\0\0\0", 8)));               // no entries
  EXPECT_FALSE(view.Init(std::string("xxxx\0\0\0\0\xff\xff\xff\xff", 12)));  // more than there is room for
  EXPECT_FALSE(view.Init(std::string("xxxx\1\0\0\0\1\0\0\0", 12)));          // the first is not the beginning
}

}  // namespace
}  // namespace nova
