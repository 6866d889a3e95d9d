// BlockCache: checked data blocks in memory, bounded by bytes together with the table metadata that is pinned
// there.
//
// Scans do not empty it. Each shard is a 2Q (Johnson and Shasha, VLDB 1994): a new block is on probation; one
// that is asked for again is protected, be it there still or so lately gone that its ghost, its hash, is
// remembered. The oldest on probation goes first; what four fifths of the shard cannot protect any more is on
// probation again. A scan asks for a block once, whatever it takes from it, so what it brings pushes out only
// what nobody has asked for twice; what short scans want again and again is protected like any other. The
// ghosts are for a working set that replaces another and is larger than the room on probation: without them
// it would never get in.
//
// Index and filter of a table that was read stay with their reader for as long as the table is in the
// version. They are counted here (Pin): blocks give way to them, so that both together stay below one bound.
//
// Thread safety: all; 16 shards, one short lock each.   Ownership: a BlockRef keeps its block alive after
//                eviction.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <deque>
#include <list>
#include <memory>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "common/base/mutex.h"
#include "common/sstable/iterator.h"

namespace nova {

class BlockCache {
 public:
  explicit BlockCache(size_t capacity_bytes) : capacity_(capacity_bytes) {}

  BlockRef Lookup(const Uuid& table, uint64_t offset);
  void Insert(const Uuid& table, uint64_t offset, BlockRef block);
  void Pin(size_t bytes);
  void Unpin(size_t bytes) { pinned_.fetch_sub(bytes, std::memory_order_relaxed); }
  size_t bytes_used() const;  // of blocks
  size_t bytes_pinned() const { return pinned_.load(std::memory_order_relaxed); }
  uint64_t hits() const { return hits_.load(std::memory_order_relaxed); }
  uint64_t misses() const { return misses_.load(std::memory_order_relaxed); }

 private:
  static constexpr size_t kShards = 16;          // by the top bits of a hash
  static constexpr size_t kEntryOverhead = 256;  // its nodes, and a ghost's
  using Key = std::pair<Uuid, uint64_t>;
  struct Entry {
    Key key;
    BlockRef block;
    bool is_protected = false;
    size_t charge() const { return block.data.size() + kEntryOverhead; }
  };
  using Queue = std::list<Entry>;  // front: the youngest
  struct Shard {
    mutable Mutex mu;
    Queue probation ABSL_GUARDED_BY(mu);
    Queue protected_ ABSL_GUARDED_BY(mu);
    absl::flat_hash_map<Key, Queue::iterator> map ABSL_GUARDED_BY(mu);
    size_t bytes ABSL_GUARDED_BY(mu) = 0;  // of both queues
    size_t protected_bytes ABSL_GUARDED_BY(mu) = 0;
    std::deque<uint64_t> ghosts_by_age ABSL_GUARDED_BY(mu);  // hashes; front: the oldest
    absl::flat_hash_set<uint64_t> ghosts ABSL_GUARDED_BY(mu);

    void Protect(Queue::iterator entry, size_t at_most) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu);
    void Shrink(size_t to_bytes, Queue* evicted) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu);
    void Remember(uint64_t hash) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu);
  };
  static uint64_t HashOf(const Key& key) {
    return (key.first.lo ^ (key.second + 1) * 0x9e3779b97f4a7c15) * 0xbf58476d1ce4e5b9;
  }
  Shard& ShardOf(const Key& key) { return shards_[HashOf(key) >> 60]; }
  size_t ShardCapacity() const;

  const size_t capacity_;
  std::atomic<size_t> pinned_{0};
  std::array<Shard, kShards> shards_;
  std::atomic<uint64_t> hits_{0};
  std::atomic<uint64_t> misses_{0};
};

}  // namespace nova
