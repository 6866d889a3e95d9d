// One limit for the memory of an embedded database: what derives from it, and that what is used stays below.
#include <gtest/gtest.h>

#include <cstring>
#include <set>

#include "common/base/random.h"
#include "ltc/embedded/db.h"
#include "ltc/engine/arena.h"
#include "tests/ltc/directory.h"

namespace nova {
namespace {

constexpr size_t kMb = 1 << 20;

TEST(ArenaPoolTest, ChunksAreTouchedAheadOfWhoTakesThemAndWithinTheBound) {
  ArenaPool pool(8 * ArenaPool::kChunkBytes);
  int refills = 0;
  pool.KeepAhead(3 * ArenaPool::kChunkBytes, [&refills] { ++refills; });
  EXPECT_EQ(refills, 1);
  pool.Refill();
  EXPECT_EQ(pool.bytes_ready(), 3 * ArenaPool::kChunkBytes);
  std::vector<char*> taken;
  for (int i = 0; i < 3; ++i) taken.push_back(pool.Take());
  EXPECT_EQ(refills, 2) << "asked for once, until it ran";
  pool.Refill();
  EXPECT_EQ(pool.bytes_ready(), 3 * ArenaPool::kChunkBytes);
  for (int i = 0; i < 5; ++i) taken.push_back(pool.Take());
  EXPECT_EQ(pool.bytes_used(), 8 * ArenaPool::kChunkBytes);
  const int before = refills;
  pool.Refill();
  EXPECT_EQ(pool.bytes_ready(), 0u) << "beyond what the pool may keep";
  for (char* chunk : taken) pool.Give(chunk);
  EXPECT_EQ(pool.bytes_ready(), 8 * ArenaPool::kChunkBytes) << "recycled";
  taken = {pool.Take()};
  EXPECT_EQ(refills, before) << "there are enough";
  pool.AddLarge(4 * ArenaPool::kChunkBytes);
  EXPECT_EQ(pool.bytes_used() + pool.bytes_ready(), 8 * ArenaPool::kChunkBytes)
      << "large pieces take the place of unused chunks";
  pool.AddLarge(-4 * static_cast<ptrdiff_t>(ArenaPool::kChunkBytes));
  pool.Give(taken[0]);
}

// A large pool takes memory in slabs of 2 MiB, and gives whole ones back: at once what it may not keep, after
// a while what nobody takes.
TEST(ArenaPoolTest, SlabsGoBackToTheKernelWhenNobodyWantsThem) {
  constexpr size_t kChunks = ArenaPool::kHugeFrom / ArenaPool::kChunkBytes;  // that it keeps
  ArenaPool pool(ArenaPool::kHugeFrom);
  pool.KeepAhead(16 * ArenaPool::kChunkBytes, [] {});
  pool.Refill();
  EXPECT_EQ(pool.bytes_ready(), 16 * ArenaPool::kChunkBytes);
  std::vector<char*> taken;
  for (size_t i = 0; i < kChunks + 20; ++i) {
    taken.push_back(pool.Take());
    std::memset(taken.back(), static_cast<int>(i), ArenaPool::kChunkBytes);
  }
  EXPECT_EQ(std::set<char*>(taken.begin(), taken.end()).size(), taken.size());
  EXPECT_EQ(pool.bytes_used(), taken.size() * ArenaPool::kChunkBytes);
  for (size_t i = 0; i < taken.size(); ++i)
    ASSERT_EQ(taken[i][i % ArenaPool::kChunkBytes], static_cast<char>(i));
  Random random(1);
  while (taken.size() > 1) {
    std::swap(taken[random.Uniform(taken.size())], taken.back());
    pool.Give(taken.back());
    taken.pop_back();
    ASSERT_LE(pool.bytes_used() + pool.bytes_ready(), ArenaPool::kHugeFrom + 20 * ArenaPool::kHugeSlabBytes);
  }
  EXPECT_LE(pool.bytes_used() + pool.bytes_ready(), ArenaPool::kHugeFrom);
  EXPECT_GT(pool.bytes_ready(), ArenaPool::kHugeFrom / 2) << "kept for the next writers";
  pool.TrimIfIdle();
  EXPECT_GT(pool.bytes_ready(), ArenaPool::kHugeFrom / 2) << "chunks were taken since the call before";
  pool.TrimIfIdle();
  EXPECT_LT(pool.bytes_ready(), 16 * ArenaPool::kChunkBytes + 2 * ArenaPool::kHugeSlabBytes);
  EXPECT_GE(pool.bytes_ready(), 16 * ArenaPool::kChunkBytes) << "kept ahead";
  pool.Give(taken[0]);
}

TEST(MemoryLimitTest, SizesThatAreNotGivenDeriveFromIt) {
  DbOptions options;
  options.memory_limit_bytes = 512 * kMb;
  DbOptions derived = options.Derived();
  EXPECT_EQ(*derived.memtable_bytes, 256 * kMb);
  EXPECT_EQ(*derived.cache_bytes, 224 * kMb);
  EXPECT_EQ(derived.range.memtable_size_bytes, 24 * kMb - ArenaPool::kChunkBytes);
  EXPECT_TRUE(options.Check().ok()) << options.Check();
  options.memtable_bytes = 64 * kMb;
  options.range.active_memtables = 2;
  options.range.memtable_size_bytes = 2 * kMb;
  derived = options.Derived();
  EXPECT_EQ(*derived.memtable_bytes, 64 * kMb);
  EXPECT_EQ(*derived.cache_bytes, 416 * kMb);
  EXPECT_EQ(derived.range.memtable_size_bytes, 2 * kMb);
  EXPECT_TRUE(options.Check().ok()) << options.Check();
}

TEST(MemoryLimitTest, WhatDoesNotFitIsRefusedByName) {
  DbOptions options;
  options.memory_limit_bytes = 512 * kMb;
  options.memtable_bytes = 500 * kMb;
  EXPECT_EQ(std::string(options.Check().message()).substr(0, 53),
            "memory_limit_bytes = 536870912: must be in [557842432");
  options.memtable_bytes = {};
  options.range.memtable_size_bytes = 33 * kMb;  // eight rounds have 256 MiB
  EXPECT_EQ(options.Check().message(), "range.memtable_size_bytes = 34603008: must be in [524288, 33554432]");
  options.memory_limit_bytes = 63 * kMb;
  EXPECT_EQ(std::string(options.Check().message()).substr(0, 48),
            "memory_limit_bytes = 66060288: must be in [67108");
}

// Values of all sizes, batches, gets of everything and scans, with blocks through the cache.
TEST(MemoryLimitTest, WhatIsUsedStaysBelowIt) {
  Directory dir;
  DbOptions options;
  options.memory_limit_bytes = 64 * kMb;
  options.log = DbLog::kNone;
  options.map_tables = false;
  const auto db = Db::Open(dir.path(), options);
  ASSERT_TRUE(db.ok()) << db.status();
  Random random(301);
  const std::string noise(300'000, 'n');
  std::string value;
  MemoryUse most;
  const auto look = [&] {
    const MemoryUse use = (*db)->memory_use();
    EXPECT_LE(use.memtables + use.memtables_ready, 32 * kMb);
    EXPECT_LE(use.table_metadata + use.block_cache, 28 * kMb);
    EXPECT_LE(use.total(), 60 * kMb);
    most.memtables = std::max(most.memtables, use.memtables);
    most.memtables_ready = std::max(most.memtables_ready, use.memtables_ready);
    most.table_metadata = std::max(most.table_metadata, use.table_metadata);
    most.block_cache = std::max(most.block_cache, use.block_cache);
  };
  constexpr size_t kSizes[] = {10, 1000, 4000, 33'000, 60'000, 70'000, 300'000};
  uint64_t written = 0;
  for (uint64_t i = 0; written < 200 * kMb; ++i) {
    WriteBatch batch;
    const uint64_t count = random.OneIn(50) ? 20 : 1;
    for (uint64_t k = 0; k < count; ++k) {
      const size_t size = kSizes[(i / 2000 + (random.OneIn(20) ? 1 : 0)) % std::size(kSizes)];
      batch.Put(StrCat("key", random.Uniform(20'000)), std::string_view(noise).substr(0, size / count));
      written += size / count + 50;
    }
    ASSERT_TRUE((*db)->Write(batch).ok());
    if (i % 10 == 0) look();
    if (i % 3 == 0) {
      const Status s = (*db)->Get(StrCat("key", random.Uniform(20'000)), &value);
      ASSERT_TRUE(s.ok() || absl::IsNotFound(s)) << s;
    }
  }
  ASSERT_TRUE((*db)->Scan("", UINT64_MAX, [](std::string_view, std::string_view) { return true; }).ok());
  look();
  EXPECT_GT(most.memtables, 4 * kMb);  // how much waits for flushes depends on how fast the build writes
  EXPECT_GT(most.memtables_ready, kMb);
  EXPECT_GT(most.table_metadata, 0u);
  EXPECT_GT(most.block_cache, 20 * kMb);
}

}  // namespace
}  // namespace nova
