#include "ltc/block_cache.h"

namespace nova {

BlockRef BlockCache::Lookup(const Uuid& table, uint64_t offset) {
  const Key key{table, offset};
  Shard& shard = ShardOf(key);
  MutexLock lock(&shard.mu);
  auto it = shard.map.find(key);
  if (it == shard.map.end()) {
    misses_.fetch_add(1, std::memory_order_relaxed);
    return {};
  }
  hits_.fetch_add(1, std::memory_order_relaxed);
  shard.lru.splice(shard.lru.begin(), shard.lru, it->second);
  return it->second->block;
}

void BlockCache::Insert(const Uuid& table, uint64_t offset, BlockRef block) {
  const Key key{table, offset};
  const size_t charge = block.data.size() + kEntryOverhead;
  if (charge > shard_capacity_) return;  // one block must not empty a shard
  Shard& shard = ShardOf(key);
  std::list<Entry> evicted;  // freed outside the lock
  MutexLock lock(&shard.mu);
  if (shard.map.contains(key)) return;
  while (shard.bytes + charge > shard_capacity_) {
    shard.bytes -= shard.lru.back().block.data.size() + kEntryOverhead;
    shard.map.erase(shard.lru.back().key);
    evicted.splice(evicted.begin(), shard.lru, std::prev(shard.lru.end()));
  }
  shard.lru.push_front({key, std::move(block)});
  shard.map.emplace(key, shard.lru.begin());
  shard.bytes += charge;
}

size_t BlockCache::bytes_used() const {
  size_t bytes = 0;
  for (const Shard& shard : shards_) {
    MutexLock lock(&shard.mu);
    bytes += shard.bytes;
  }
  return bytes;
}

}  // namespace nova
