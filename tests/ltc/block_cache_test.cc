// The block cache: what is asked for again stays, whatever a scan brings; its bound holds, with what is
// pinned.
#include "ltc/engine/block_cache.h"

#include <gtest/gtest.h>

#include "common/base/coding.h"

namespace nova {
namespace {

constexpr size_t kBlockBytes = 4096;

BlockRef Block() { return SharedBytes::Of(std::string(kBlockBytes, 'b')); }

// What a reader does.
bool Read(BlockCache* cache, const Uuid& table, uint64_t block) {
  if (cache->Lookup(table, block * kBlockBytes)) return true;
  cache->Insert(table, block * kBlockBytes, Block());
  return false;
}

size_t Cached(BlockCache* cache, const Uuid& table, uint64_t blocks) {
  size_t n = 0;
  for (uint64_t i = 0; i < blocks; ++i) n += cache->Lookup(table, i * kBlockBytes) ? 1 : 0;
  return n;
}

TEST(BlockCacheTest, AWorkingSetStaysWhileALongScanPasses) {
  const Uuid hot{1, 1}, scanned{2, 2};
  BlockCache cache(8 << 20);
  constexpr uint64_t kHot = 1000;  // half of what fits
  for (int round = 0; round < 2; ++round) {
    for (uint64_t i = 0; i < kHot; ++i) Read(&cache, hot, i);
  }
  for (uint64_t i = 0; i < 100'000; ++i) EXPECT_FALSE(Read(&cache, scanned, i));
  EXPECT_EQ(Cached(&cache, hot, kHot), kHot);
  EXPECT_GT(Cached(&cache, scanned, 100'000), 0u) << "the rest of the room is the scan's";
  EXPECT_LE(cache.bytes_used(), size_t{8} << 20);
}

// What was hot once gives way to what is hot now, though it is larger than the room on probation.
TEST(BlockCacheTest, AnotherWorkingSetTakesThePlaceOfTheOld) {
  const Uuid before{1, 1}, now{2, 2};
  BlockCache cache(4 << 20);
  constexpr uint64_t kBlocks = 600;  // either fits, both do not
  for (int round = 0; round < 3; ++round) {
    for (uint64_t i = 0; i < kBlocks; ++i) Read(&cache, before, i);
  }
  size_t hits = 0;
  for (int round = 0; round < 10; ++round) {
    hits = 0;
    for (uint64_t i = 0; i < kBlocks; ++i) hits += Read(&cache, now, i) ? 1 : 0;
  }
  EXPECT_GT(hits, kBlocks * 9 / 10);
}

// An entry is found under the hash of its key alone, and no block under it.
TEST(BlockCacheTest, AnEntryIsNotABlock) {
  const Uuid table{1, 1};
  BlockCache cache(4 << 20);
  cache.Insert(table, 7, SharedBytes::Of("block"));
  EXPECT_FALSE(cache.LookupEntry(table, 7));
  EXPECT_EQ(cache.misses(), 0u) << "who finds no entry asks for the block";
  cache.InsertEntry(table, 7, SharedBytes::Of("entry"));
  EXPECT_EQ(cache.LookupEntry(table, 7).data, "entry");
  EXPECT_EQ(cache.Lookup(table, 7).data, "block");
  EXPECT_EQ(cache.hits(), 2u);
}

// A block whose entries are wanted one after another is worth its place; one that is read again when many
// others were in between is not.
TEST(BlockCacheTest, ABlockThatIsReadAgainSoonIsKeptWhole) {
  const Uuid table{1, 1};
  BlockCache cache(1 << 20);
  EXPECT_FALSE(cache.WasReadLately(table, 0));
  EXPECT_TRUE(cache.WasReadLately(table, 0));
  for (uint64_t i = 1; i < 10'000; ++i) {
    EXPECT_FALSE(cache.WasReadLately(table, i * kBlockBytes));
    cache.InsertEntry(table, i, SharedBytes::Of(std::string(1000, 'e')));
  }
  EXPECT_FALSE(cache.WasReadLately(table, 0));
}

TEST(BlockCacheTest, BlocksGiveWayToWhatIsPinned) {
  const Uuid table{1, 1};
  BlockCache cache(4 << 20);
  for (uint64_t i = 0; i < 2000; ++i) Read(&cache, table, i), Read(&cache, table, i);
  EXPECT_GT(cache.bytes_used(), size_t{3} << 20);
  cache.Pin(3 << 20);
  EXPECT_LE(cache.bytes_used(), size_t{1} << 20);
  EXPECT_GT(cache.bytes_used(), size_t{1} << 19);
  for (uint64_t i = 0; i < 2000; ++i) Read(&cache, table, i);
  EXPECT_LE(cache.bytes_used() + cache.bytes_pinned(), size_t{4} << 20);
  cache.Pin(2 << 20);  // more than there is
  EXPECT_EQ(cache.bytes_used(), 0u);
  Read(&cache, table, 0);
  EXPECT_EQ(cache.bytes_used(), 0u);
  cache.Unpin(5 << 20);
  Read(&cache, table, 0);
  EXPECT_TRUE(Read(&cache, table, 0));
}

}  // namespace
}  // namespace nova
