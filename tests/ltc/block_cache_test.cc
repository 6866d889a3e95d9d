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
