// MemTable: a concurrent ordered map of keys to their versions: a hash table of keys, for each key its
// versions, youngest first, and, for scans, a skip list over the keys. All of it lies in an arena.
//
// The hash table answers gets, hit or miss, with about one cache miss, and finds the key that a write renews.
// Order is made when it is wanted, for it is the dearest part of an insert (docs/engine.md): a new key goes
// onto a chain; a scan sorts the keys that came since the last one and lists them; a flush sorts the whole
// chain and needs no list. Once a range is being scanned, its writers list now and then, so that a scan never
// finds a full table to sort. A version is a value and 32 bytes: a hot key does not make the list longer.
//
// A write comes in two steps, because it is logged between them: Prepare copies key and value to their final
// place and makes nothing visible; Link makes the version visible (logged before visible,
// K2). One that is never linked is never seen.
//
// Thread safety: all methods from any threads at once; one thread at a time lists keys, and no other but a
//                scan waits for it. Nothing is ever removed.
// Ownership:     views point into the arena: they live as long as the table. Entries sort as keys.h says.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "common/base/ids.h"
#include "common/base/keys.h"
#include "common/base/mutex.h"
#include "common/sstable/filter.h"
#include "common/sstable/iterator.h"
#include "ltc/engine/arena.h"

namespace nova {

class MemTable {
 public:
  struct Entry;  // a version, between Prepare and Link

  // `expected_bytes`: what it will hold, by which the hash table is sized. `scanned`: writers list their keys
  // as they come.
  MemTable(MemTableId id, ArenaPool* pool, size_t expected_bytes = 4 << 20, bool scanned = false);
  MemTableId id() const { return id_; }

  Entry* Prepare(std::string_view stored_key, SequenceNumber seq, ValueType type, std::string_view value);
  static std::string_view KeyOf(const Entry* entry);  // stored key
  void Link(Entry* entry);  // REQUIRES: from Prepare, once; no equal internal key is linked
  // Instead of Link: nobody will see it. Its memory is of use again where it is the latest that was prepared.
  void Abandon(Entry* entry);

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
  // All versions that are linked by now, in order, forward only. Never kNeedBlocks. The iterator must not
  // outlive the table; `keep_alive` is held as long as the iterator is.
  std::unique_ptr<Iterator> NewIterator(std::shared_ptr<const void> keep_alive) const;
  // For a reader at `seq`: of each key only the newest version with sequence <= seq, so that a hot key costs
  // one step. What is linked by now is found, and some of what comes later. Backwards, Seek wants a key of
  // MakeSeekKey's.
  std::unique_ptr<Iterator> NewIteratorAt(SequenceNumber seq, std::shared_ptr<const void> keep_alive,
                                          Direction direction = Direction::kForward);
  bool scanned() const { return scanned_.load(std::memory_order_relaxed); }

  size_t bytes_used() const { return arena_.bytes_used() - overhead_; }
  uint64_t entries() const { return entries_.load(std::memory_order_relaxed); }  // versions
  uint64_t keys() const { return keys_.load(std::memory_order_relaxed); }

 private:
  class VersionIterator;
  class ScanIterator;
  class FlushIterator;
  struct Node;
  struct SortKey;
  static constexpr int kMaxHeight = 12;
  static constexpr uint64_t kListEvery = 256;  // writes of a scanned range
  static constexpr size_t kPieceBuckets = ArenaPool::kChunkBytes / sizeof(void*);
  int HeightOf(uint64_t hash) const;
  std::vector<std::atomic<Node*>*> NewBuckets();
  Node* NewNode(std::string_view stored_key, uint64_t hash, int height);
  std::atomic<Node*>* BucketOf(uint64_t hash) const;
  Node* FindInBucket(std::string_view stored_key, uint64_t hash) const;
  Node* InsertInBucket(Node* node);  // the node of the same key that is there already; null: it is in now
  void Chain(Node* node);
  static std::vector<SortKey> SortedChain(Node* from, const Node* until);  // `until` is not in it
  void List();                                                             // every key that is chained by now
  void InsertInList(Node* node, std::array<Node*, kMaxHeight>* before)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(list_mu_);
  static bool IsBefore(const Node* node, std::string_view stored_key);  // false for null
  Node* FindGreaterOrEqual(std::string_view stored_key) const;
  const Node* FindLess(std::string_view stored_key) const;  // the last one before the key; null: none
  const Node* FindLast() const;
  Node* FindBefore(std::string_view stored_key) const;  // as FindLess, but head_: none

  const MemTableId id_;
  Arena arena_;
  const uint64_t bucket_mask_;
  const std::vector<std::atomic<Node*>*> pieces_;  // of the bucket array
  Node* const head_;
  const size_t overhead_;  // bytes of the empty table
  const bool listed_by_writers_;
  std::atomic<bool> scanned_{false};
  std::atomic<uint64_t> entries_{0};
  std::atomic<uint64_t> keys_{0};
  std::atomic<Node*> youngest_{nullptr};  // of the chain
  std::atomic<Node*> ordered_{nullptr};   // it and all before it in the chain are in the list
  std::atomic<int> height_{1};
  Mutex list_mu_;  // held by who lists
};

}  // namespace nova
