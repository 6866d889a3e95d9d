// MemTable: a concurrent ordered map of keys to their versions: a skip list of keys, a hash table over the same keys, and for
// each key its versions, youngest first. All of it lies in an arena.
//
// The hash table answers gets, hit or miss, with about one cache miss, and finds the key that a write renews without a search
// through the list; the list gives scans and flushes their order. A version is a value and 32 bytes: a hot key does not make the
// list longer.
//
// A write comes in two steps, because it is logged between them: Prepare copies key and value to their final place and makes
// nothing visible; Link makes the version visible (K2: visible implies logged). One that is never linked is never seen.
//
// Thread safety: Prepare, Link, Get and iterators from any threads at once, no lock is held. Nothing is ever removed.
// Ownership:     views point into the arena: they live as long as the table. Entries sort as keys.h says.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "common/base/ids.h"
#include "common/base/keys.h"
#include "common/sstable/filter.h"
#include "common/sstable/iterator.h"
#include "ltc/arena.h"

namespace nova {

class MemTable {
 public:
  struct Entry;  // a version, between Prepare and Link

  // `expected_bytes`: what it will hold, by which the hash table is sized.
  MemTable(MemTableId id, ArenaPool* pool, size_t expected_bytes = 4 << 20);
  MemTableId id() const { return id_; }

  Entry* Prepare(std::string_view stored_key, SequenceNumber seq, ValueType type, std::string_view value);
  void Link(Entry* entry);  // REQUIRES: from Prepare, once; no equal internal key is linked

  struct Hit {
    SequenceNumber sequence = 0;
    ValueType type = ValueType::kPut;
    std::string_view value;
  };
  // The newest version with sequence <= seq. `hash` = FilterHash(stored_key): a reader asks several tables.
  bool Get(std::string_view stored_key, uint64_t hash, SequenceNumber seq, Hit* hit) const;
  bool Get(std::string_view stored_key, SequenceNumber seq, Hit* hit) const {
    return Get(stored_key, FilterHash(stored_key), seq, hit);
  }
  // Never kNeedBlocks. The iterator must not outlive the table; `keep_alive` is held as long as the iterator is.
  std::unique_ptr<Iterator> NewIterator(std::shared_ptr<const void> keep_alive) const;
  // The same for a reader at `seq`: of each key only the newest version with sequence <= seq, so that a hot key costs one step.
  // Backwards, Seek wants a key of MakeSeekKey's.
  std::unique_ptr<Iterator> NewIteratorAt(SequenceNumber seq, std::shared_ptr<const void> keep_alive,
                                          Direction direction = Direction::kForward) const;

  size_t bytes_used() const { return arena_.bytes_used() - overhead_; }
  uint64_t entries() const { return entries_.load(std::memory_order_relaxed); }  // versions

 private:
  class Iter;
  struct Node;
  static constexpr int kMaxHeight = 12;
  static constexpr size_t kPieceBuckets = ArenaPool::kChunkBytes / sizeof(void*);
  static int RandomHeight();
  std::vector<std::atomic<Node*>*> NewBuckets();
  Node* NewNode(std::string_view stored_key, uint64_t hash, int height);
  std::atomic<Node*>* BucketOf(uint64_t hash) const;
  Node* FindInBucket(std::string_view stored_key, uint64_t hash) const;
  Node* InsertInBucket(Node* node);  // the node of the same key that is there already; null: it is in now
  void InsertInList(Node* node);
  // The last node before, and the first at or after, the key on one level, starting at `from`.
  static void FindOnLevel(std::string_view stored_key, int level, Node* from, Node** before, Node** after);
  Node* FindGreaterOrEqual(std::string_view stored_key) const;
  const Node* FindLess(std::string_view stored_key) const;  // the last one before the key; null: none
  const Node* FindLast() const;

  const MemTableId id_;
  Arena arena_;
  const uint64_t bucket_mask_;
  const std::vector<std::atomic<Node*>*> pieces_;  // of the bucket array
  Node* const head_;
  const size_t overhead_;  // bytes of the empty table
  std::atomic<int> height_{1};
  std::atomic<uint64_t> entries_{0};
};

}  // namespace nova
