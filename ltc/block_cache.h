// BlockCache: checked data blocks in memory, least recently used first out, bounded by bytes.
//
// Thread safety: all; 16 shards, one short lock each.   Ownership: a BlockRef keeps its block alive after eviction.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <list>

#include "absl/container/flat_hash_map.h"
#include "common/base/mutex.h"
#include "common/sstable/iterator.h"

namespace nova {

class BlockCache {
 public:
  explicit BlockCache(size_t capacity_bytes) : shard_capacity_(capacity_bytes / kShards) {}

  BlockRef Lookup(const Uuid& table, uint64_t offset);
  void Insert(const Uuid& table, uint64_t offset, BlockRef block);
  size_t bytes_used() const;
  uint64_t hits() const { return hits_.load(std::memory_order_relaxed); }
  uint64_t misses() const { return misses_.load(std::memory_order_relaxed); }

 private:
  static constexpr size_t kShards = 16;
  static constexpr size_t kEntryOverhead = 128;
  using Key = std::pair<Uuid, uint64_t>;
  struct Entry {
    Key key;
    BlockRef block;
  };
  struct Shard {
    mutable Mutex mu;
    std::list<Entry> lru ABSL_GUARDED_BY(mu);  // front: most recently used
    absl::flat_hash_map<Key, std::list<Entry>::iterator> map ABSL_GUARDED_BY(mu);
    size_t bytes ABSL_GUARDED_BY(mu) = 0;
  };
  Shard& ShardOf(const Key& key) { return shards_[(key.first.lo ^ (key.second >> 8)) % kShards]; }

  const size_t shard_capacity_;
  std::array<Shard, kShards> shards_;
  std::atomic<uint64_t> hits_{0};
  std::atomic<uint64_t> misses_{0};
};

}  // namespace nova
