// BlockCache: checked data blocks in memory. One bound holds for them together with the table metadata that
// is pinned.
//
// Scans do not empty it. Each shard is a 2Q (Johnson and Shasha, VLDB 1994). A new block is on probation. A
// block that is asked for again is protected, whether it is still there or went so lately that its ghost, its
// hash, is remembered. The oldest block on probation goes first; blocks beyond four fifths of the shard lose
// their protection and are on probation again. A scan asks for each block once, so its blocks push out only
// blocks that nobody has asked for twice; blocks that short scans want again and again are protected like
// others. The ghosts are for a working set that replaces another and is larger than the room on probation:
// without them it would never get in.
//
// Where entries are large, a get keeps its entry alone, as a block of one entry under the hash of its key:
// the others of its block may be cold. Its lookups come first and are no misses; who finds no entry asks for
// the block. The block leaves a ghost all the same: if it is read again soon, its neighbours are wanted too,
// and it is kept whole.
//
// Index and filter of a table that was read stay with their reader as long as the table is in the version.
// They are counted here (Pin), and blocks give way to them, so that both together stay below one bound.
//
// Thread safety: all; 16 shards, one short lock each.
// Ownership: a BlockRef keeps its block alive after eviction.
// Errors: none; what has no room is not kept.
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

  // The block at `offset` of the table's data; empty: it is not here. Counts as a use.
  BlockRef Lookup(const Uuid& table, uint64_t offset);
  // Keeps a block, unless it is larger than a shard.
  void Insert(const Uuid& table, uint64_t offset, BlockRef block);
  // The same for the newest entry in the table of a key of that hash: a block of that entry alone. Keys may
  // share a hash: the caller compares them.
  BlockRef LookupEntry(const Uuid& table, uint64_t key_hash);
  void InsertEntry(const Uuid& table, uint64_t key_hash, BlockRef entry) {
    Insert(table, key_hash | kOfEntry, std::move(entry));
  }
  // Asked by who has read a block for one of its entries. True: it was read lately, and is to be kept whole;
  // else it is remembered as read.
  bool WasReadLately(const Uuid& table, uint64_t offset);
  // `bytes` of metadata are pinned; evicts blocks to make room.
  void Pin(size_t bytes);
  // Undoes Pin.
  void Unpin(size_t bytes) { pinned_.fetch_sub(bytes, std::memory_order_relaxed); }
  // Of blocks, with kEntryOverhead for each.
  size_t bytes_used() const;
  // Of metadata.
  size_t bytes_pinned() const { return pinned_.load(std::memory_order_relaxed); }
  // Counts of lookups; metrics. A LookupEntry that finds nothing is in neither.
  uint64_t hits() const { return hits_.load(std::memory_order_relaxed); }
  uint64_t misses() const { return misses_.load(std::memory_order_relaxed); }

 private:
  static constexpr size_t kShards = 16;                    // by the top bits of a hash
  static constexpr size_t kEntryOverhead = 256;            // of its nodes, and of a ghost's
  static constexpr uint64_t kOfEntry = uint64_t{1} << 63;  // more than any offset
  // Table, and offset of the block in its data, or kOfEntry | hash of the entry's key.
  using Key = std::pair<Uuid, uint64_t>;
  // A block that is here.
  struct Entry {
    Key key;
    BlockRef block;
    bool is_protected = false;                                            // which of the two queues it is in
    size_t charge() const { return block.data.size() + kEntryOverhead; }  // bytes that it counts as
  };
  using Queue = std::list<Entry>;  // front: the youngest
  struct Shard {
    mutable Mutex mu;
    Queue probation ABSL_GUARDED_BY(mu);                                // asked for once since they came
    Queue protected_ ABSL_GUARDED_BY(mu);                               // asked for again
    absl::flat_hash_map<Key, Queue::iterator> map ABSL_GUARDED_BY(mu);  // of both queues
    size_t bytes ABSL_GUARDED_BY(mu) = 0;                               // charge of both queues
    size_t protected_bytes ABSL_GUARDED_BY(mu) = 0;                     // charge of protected_
    std::deque<uint64_t> ghosts_by_age ABSL_GUARDED_BY(mu);  // hashes of blocks that went; front: the oldest
    absl::flat_hash_set<uint64_t> ghosts ABSL_GUARDED_BY(mu);  // those of ghosts_by_age

    // The block was asked for again: protects it, and takes protection from the oldest beyond `at_most`
    // bytes.
    void Protect(Queue::iterator entry, size_t at_most) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu);
    // Moves the oldest blocks to *evicted, to be destroyed without the lock, until `to_bytes` are left.
    void Shrink(size_t to_bytes, Queue* evicted) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu);
    // Keeps a ghost; at most as many as blocks.
    void Remember(uint64_t hash) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu);
  };
  static uint64_t HashOf(const Key& key) {
    return (key.first.lo ^ (key.second + 1) * 0x9e3779b97f4a7c15) * 0xbf58476d1ce4e5b9;
  }
  // What is here, as a use; empty: nothing.
  BlockRef Find(const Key& key);
  Shard& ShardOf(const Key& key) { return shards_[HashOf(key) >> 60]; }
  // Bytes of blocks in one shard, beside pinned metadata.
  size_t ShardCapacity() const;

  const size_t capacity_;          // blocks and pinned metadata together
  std::atomic<size_t> pinned_{0};  // see bytes_pinned
  std::array<Shard, kShards> shards_;
  std::atomic<uint64_t> hits_{0};    // see hits()
  std::atomic<uint64_t> misses_{0};  // see misses()
};

}  // namespace nova
