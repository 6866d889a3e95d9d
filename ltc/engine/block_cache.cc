#include "ltc/engine/block_cache.h"

#include <algorithm>

namespace nova {
namespace {

constexpr size_t kLeastGhosts = 16;  // of a shard, however large its blocks are

}  // namespace

size_t BlockCache::ShardCapacity() const {
  const size_t pinned = bytes_pinned();
  return (capacity_ > pinned ? capacity_ - pinned : 0) / kShards;
}

void BlockCache::Shard::Protect(Queue::iterator entry, size_t at_most) {
  if (entry->is_protected) return protected_.splice(protected_.begin(), protected_, entry);
  entry->is_protected = true;
  protected_bytes += entry->charge();
  protected_.splice(protected_.begin(), probation, entry);
  while (protected_bytes > at_most) {
    Entry& oldest = protected_.back();
    oldest.is_protected = false;
    protected_bytes -= oldest.charge();
    probation.splice(probation.begin(), protected_, std::prev(protected_.end()));
  }
}

// What is freed is moved to *evicted: to be destroyed without the lock.
void BlockCache::Shard::Shrink(size_t to_bytes, Queue* evicted) {
  while (bytes > to_bytes) {
    Queue& from = probation.empty() ? protected_ : probation;
    const Entry& oldest = from.back();
    bytes -= oldest.charge();
    if (oldest.is_protected) protected_bytes -= oldest.charge();
    map.erase(oldest.key);
    if (!oldest.is_protected) Remember(HashOf(oldest.key));
    evicted->splice(evicted->begin(), from, std::prev(from.end()));
  }
}

// As many ghosts as there are blocks.
void BlockCache::Shard::Remember(uint64_t hash) {
  if (ghosts.insert(hash).second) ghosts_by_age.push_back(hash);
  for (const size_t most = std::max(map.size(), kLeastGhosts); ghosts_by_age.size() > most;
       ghosts_by_age.pop_front()) {
    ghosts.erase(ghosts_by_age.front());
  }
}

BlockRef BlockCache::Find(const Key& key) {
  Shard& shard = ShardOf(key);
  MutexLock lock(&shard.mu);
  const auto it = shard.map.find(key);
  if (it == shard.map.end()) return {};
  hits_.fetch_add(1, std::memory_order_relaxed);
  shard.Protect(it->second, ShardCapacity() / 5 * 4);
  return it->second->block;
}

BlockRef BlockCache::Lookup(const Uuid& table, uint64_t offset) {
  BlockRef block = Find({table, offset});
  if (!block) misses_.fetch_add(1, std::memory_order_relaxed);
  return block;
}

BlockRef BlockCache::LookupEntry(const Uuid& table, uint64_t key_hash) {
  return Find({table, key_hash | kOfEntry});
}

void BlockCache::Insert(const Uuid& table, uint64_t offset, BlockRef block) {
  const Key key{table, offset};
  Queue entry;
  entry.push_front({key, std::move(block)});
  const size_t charge = entry.front().charge(), capacity = ShardCapacity();
  if (charge > capacity) return;  // one block must not empty a shard
  Queue evicted;
  Shard& shard = ShardOf(key);
  MutexLock lock(&shard.mu);
  if (!shard.map.emplace(key, entry.begin()).second) return;
  shard.Shrink(capacity - charge, &evicted);
  shard.probation.splice(shard.probation.begin(), entry);
  shard.bytes += charge;
  if (shard.ghosts.erase(HashOf(key)) > 0) shard.Protect(shard.probation.begin(), capacity / 5 * 4);
}

bool BlockCache::WasReadLately(const Uuid& table, uint64_t offset) {
  const Key key{table, offset};
  const uint64_t hash = HashOf(key);
  Shard& shard = ShardOf(key);
  MutexLock lock(&shard.mu);
  if (shard.ghosts.contains(hash)) return true;
  shard.Remember(hash);
  return false;
}

void BlockCache::Pin(size_t bytes) {
  pinned_.fetch_add(bytes, std::memory_order_relaxed);
  const size_t capacity = ShardCapacity();
  for (Shard& shard : shards_) {
    Queue evicted;
    MutexLock lock(&shard.mu);
    shard.Shrink(capacity, &evicted);
  }
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
