// MemTable: a concurrent ordered map of keys to their versions: a hash table of keys; for each key its
// versions, youngest first; and, when somebody wants it, an order of the keys. All but the order lies in an
// arena.
//
// The hash table answers a get, hit or miss, with about one cache miss, and finds the key that a write
// renews. Order is made when it is wanted, for it is the dearest part of an insert (docs/engine.md). A new
// key goes onto a chain. A scan finds the keys that came since the last one there: a few go into the list of
// the order, many are sorted anew with all others. For a while after a scan writers list keys now and then,
// so that the next scan finds few. A flush or a merge wants all keys sorted; what one has sorted serves all
// that follow. A version is a value and 32 bytes; a hot key does not make the order longer.
//
//   hash table   bucket -> KeyNode (a key) -> KeyNode ...               found by gets and writes
//   versions     KeyNode::newest -> KeyVersion (a version) -> ...       youngest first
//   chain        youngest_ -> KeyNode -> KeyNode ...                    all keys, the youngest first
//   order        an array of sorted keys, and a list of later ones     keys up to ordered_, by key
//
// A write comes in two steps, because it is logged between them. Prepare copies key and value to their final
// place and makes nothing visible; Link makes the version visible (logged before visible, K2). A version that
// is never linked is never seen.
//
// Thread safety: all methods from any threads at a time. One thread at a time orders keys: scans and flushes
//   wait for whoever does, and so does the writer whose turn it is, unless that is another writer. Link may
//   wait for another Link of the same key. Nothing is ever removed.
// Locks: list_mu_, then order_mu_, a leaf; gets and other writes take none.
// Ownership: views point into the arena and live as long as the table.
// Errors: none; memory that cannot be had ends the process. Internal keys sort as common/base/keys.h says.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "common/base/ids.h"
#include "common/base/keys.h"
#include "common/base/mutex.h"
#include "common/sstable/filter.h"
#include "common/sstable/iterator.h"
#include "ltc/engine/arena.h"
#include "ltc/engine/key_order.h"

namespace nova {

class MemTable {
 public:
  using Entry = KeyVersion;  // between Prepare and Link

  // `expected_bytes`: its size when full, by which the hash table is sized. `scanned`: its writers list keys,
  // for scans are expected.
  MemTable(MemTableId id, ArenaPool* pool, size_t expected_bytes = 4 << 20, bool scanned = false);
  ~MemTable();
  MemTableId id() const { return id_; }

  // Copies key and value into the arena. The entry is invisible until Link; Link or Abandon must follow, or
  // nothing if the table itself goes.
  Entry* Prepare(std::string_view stored_key, SequenceNumber seq, ValueType type, std::string_view value);
  static std::string_view KeyOf(const Entry* entry);  // its stored key
  // Makes it visible; once; REQUIRES: no equal internal key is linked. Where another thread brings the same
  // key at this moment it waits until that one has chained the key, some instructions later: spins, then
  // sleeps 1 us at a time, on request threads too. A scan could miss an acknowledged write otherwise.
  // `batch`: of a batch, whose versions are linked one after another, the youngest first: those that were;
  // without it each of them is looked for behind all younger ones of its key.
  using Linked = std::unordered_map<const KeyNode*, Entry*>;  // by key, the oldest one
  void Link(Entry* entry, Linked* batch = nullptr);
  // Instead of Link: it will never be seen. Its memory is used again if it is the latest piece that was
  // taken.
  void Abandon(Entry* entry);

  // The result of Get; `value` views the arena.
  struct Hit {
    SequenceNumber sequence = 0;
    ValueType type = ValueType::kPut;
    std::string_view value;
  };
  // The newest version with sequence <= seq. False: there is none. `hash` is FilterHash(stored_key), for a
  // reader asks several tables.
  bool Get(std::string_view stored_key, uint64_t hash, SequenceNumber seq, Hit* hit) const;
  bool Get(std::string_view stored_key, SequenceNumber seq, Hit* hit) const {
    return Get(stored_key, FilterHash(stored_key), seq, hit);
  }
  // Asks the processor's cache for what a Get will look at first.
  void PrefetchGet(uint64_t hash) const;
  // All versions that are linked by now, in order, forward only; never kNeedBlocks. The table must outlive
  // the iterator, which holds `keep_alive`. Sorts all keys, unless that was done.
  std::unique_ptr<Iterator> NewIterator(std::shared_ptr<const void> keep_alive);
  // For a reader at `seq`: of each key only the newest version with sequence <= seq, so that a hot key costs
  // one step. Everything linked by now is found, and perhaps versions linked later. Backwards, Seek takes a
  // key of MakeSeekKey.
  class MomentIterator : public Iterator {
   public:
    // The iterator is as one that NewIteratorAt makes now. A move to some place has to follow.
    virtual void ReadAt(SequenceNumber seq) = 0;
  };
  std::unique_ptr<MomentIterator> NewIteratorAt(SequenceNumber seq, std::shared_ptr<const void> keep_alive,
                                                Direction direction = Direction::kForward);
  bool scanned() const { return scanned_.load(std::memory_order_relaxed); }  // a scan has been here

  // Memory of versions and keys; an empty table has 0.
  size_t bytes_used() const { return arena_.bytes_used() - overhead_; }
  size_t empty_bytes() const { return empty_bytes_; }  // of the pool, that an empty table takes
  // Of the pool, that it has taken beyond those.
  size_t bytes_beyond_empty() const { return arena_.bytes_held() - empty_bytes_; }
  uint64_t entries() const { return entries_.load(std::memory_order_relaxed); }  // versions that are linked
  uint64_t keys() const { return keys_.load(std::memory_order_relaxed); }        // distinct keys
  // What bytes_used would be with one version of each key, if values are of about one size.
  size_t bytes_of_one_version_each() const;

 private:
  template <typename Base>
  class VersionIterator;  // a position at a version; base of the next two
  class ScanIterator;     // for NewIteratorAt
  class FlushIterator;    // for NewIterator: over the array of an order that has all keys
  // Writers of a scanned table list keys about once in as many writes ...
  static constexpr uint64_t kListEvery = 256;
  // ... until so many versions were written since the last scan.
  static constexpr uint64_t kListedAfterScan = 100'000;
  // A scan leaves no more keys in the list than this, or than are sorted.
  static constexpr uint64_t kMostListed = 1024;
  // Buckets in one arena chunk.
  static constexpr size_t kPieceBuckets = ArenaPool::kChunkBytes / sizeof(BucketLink);
  // The height of a key in the list; a function of the key's hash and the table's id.
  int HeightOf(uint64_t hash) const;
  std::vector<std::atomic<BucketLink>*> NewBuckets();  // the empty bucket array, in pieces
  // Copies the key into the arena; not in the table yet.
  KeyNode* NewNode(std::string_view stored_key, uint64_t hash, int height);
  KeyNode* NewHead();  // of a list
  // The bucket of a hash.
  std::atomic<BucketLink>* BucketOf(uint64_t hash) const;
  KeyNode* FindInBucket(std::string_view stored_key, uint64_t hash) const;  // null: the key is not there
  // Null: it is in now; else the node of the same key that is there already.
  KeyNode* InsertInBucket(KeyNode* node);
  // Puts a new key at the head of the chain.
  void Chain(KeyNode* node);
  std::shared_ptr<const KeyOrder> Order() const;  // the latest one
  // Makes a new order, with every key that is chained by now sorted.
  void Sort() ABSL_EXCLUSIVE_LOCKS_REQUIRED(list_mu_);
  // Puts the keys that are chained by now and in no order into the list of the latest one.
  void List() ABSL_EXCLUSIVE_LOCKS_REQUIRED(list_mu_);
  // As List, by a writer: nothing where another one does so.
  void ListByWriter();
  // A scan is about to read the order: it gets every key that is chained by now, and writers are to list
  // the keys that follow.
  void PrepareScan();

  const MemTableId id_;
  ArenaPool* const pool_;
  Arena arena_;
  const uint64_t bucket_mask_;                                  // buckets - 1; a power of two of them
  const std::vector<std::atomic<BucketLink>*> pieces_;          // of the bucket array, kPieceBuckets each
  mutable Mutex order_mu_;                                      // after list_mu_
  std::shared_ptr<KeyOrder> order_ ABSL_GUARDED_BY(order_mu_);  // the latest one
  std::atomic<const KeyOrder*> latest_order_;                   // order_, to compare with
  Mutex list_mu_;                                               // held by the thread that orders keys
  KeyList* list_ ABSL_GUARDED_BY(list_mu_);                     // of order_
  uint64_t sorted_ ABSL_GUARDED_BY(list_mu_) = 0;               // keys in the array of order_
  const size_t overhead_;                                       // bytes of the empty table
  const size_t empty_bytes_;                                    // see empty_bytes
  std::atomic<bool> scanned_{false};
  std::atomic<uint64_t> entries_{0};
  std::atomic<uint64_t> listed_until_;  // writers list keys while there are fewer versions
  std::atomic<uint64_t> keys_{0};
  std::atomic<uint64_t> key_bytes_{0};            // memory of all nodes that are linked
  std::atomic<KeyNode*> youngest_{nullptr};       // head of the chain
  std::atomic<const KeyNode*> ordered_{nullptr};  // the order has it and all older ones on the chain
  std::atomic<bool> writer_lists_{false};         // in ListByWriter
};

}  // namespace nova
