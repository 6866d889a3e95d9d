// MemTable: a concurrent ordered map of keys to their versions: a hash table of keys; for each key its
// versions, youngest first; and, for scans, a skip list over the keys. All of it lies in an arena.
//
// The hash table answers a get, hit or miss, with about one cache miss, and finds the key that a write
// renews. Order is made when it is wanted, for it is the dearest part of an insert (docs/engine.md). A new
// key goes onto a chain; a scan sorts the keys that came since the last scan into the list; a flush sorts the
// whole chain and needs no list. For a while after a scan writers list keys now and then, so that the next
// scan finds few to sort. A version is a value and 32 bytes; a hot key does not make the list longer.
//
//   hash table   bucket -> Node (a key) -> Node ...              found by gets and writes
//   versions     Node::newest -> Entry (a version) -> Entry ...   youngest first
//   chain        youngest_ -> Node -> Node ...                    all keys, the youngest first
//   list         head_ -> Node -> Node ...                        a skip list: keys up to ordered_, by key
//   seek index   pieces of the keys of its second level           a seek begins there, not at the top
//
// A write comes in two steps, because it is logged between them. Prepare copies key and value to their final
// place and makes nothing visible; Link makes the version visible (logged before visible, K2). A version that
// is never linked is never seen.
//
// Thread safety: all methods from any threads at a time. One thread at a time lists keys: a scan waits for
//   whoever does, and so does the writer whose turn it is, unless that is another writer. Link may wait for
//   another Link of the same key. Nothing is ever removed.
// Locks: list_mu_, a leaf; gets and other writes take none.
// Ownership: views point into the arena and live as long as the table.
// Errors: none; memory that cannot be had ends the process. Internal keys sort as common/base/keys.h says.
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
  void Link(Entry* entry);
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
  // the iterator, which holds `keep_alive`.
  std::unique_ptr<Iterator> NewIterator(std::shared_ptr<const void> keep_alive) const;
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
  uint64_t entries() const { return entries_.load(std::memory_order_relaxed); }  // versions that are linked
  uint64_t keys() const { return keys_.load(std::memory_order_relaxed); }        // distinct keys

 private:
  struct SeekIndex;  // keys of the list's second level, as it once was
  template <typename Base>
  class VersionIterator;  // a position at a version; base of the next two
  class ScanIterator;     // for NewIteratorAt: over the list
  class FlushIterator;    // for NewIterator: over the sorted chain
  struct SearchStart;     // where a search of the list begins
  struct Node;            // a key
  struct SortKey;         // a key on the chain with 8 bytes to compare
  static constexpr int kMaxHeight = 12;
  // Writers of a scanned table list keys about once in as many writes ...
  static constexpr uint64_t kListEvery = 256;
  // ... until so many versions were written since the last scan.
  static constexpr uint64_t kListedAfterScan = 100'000;
  // Buckets in one arena chunk.
  static constexpr size_t kPieceBuckets = ArenaPool::kChunkBytes / sizeof(void*);
  // The height of a key in the skip list; a function of the key's hash and the table's id.
  int HeightOf(uint64_t hash) const;
  std::vector<std::atomic<Node*>*> NewBuckets();  // the empty bucket array, in pieces
  // Copies the key into the arena; not in the table yet.
  Node* NewNode(std::string_view stored_key, uint64_t hash, int height);
  // The bucket of a hash.
  std::atomic<Node*>* BucketOf(uint64_t hash) const;
  Node* FindInBucket(std::string_view stored_key, uint64_t hash) const;  // null: the key is not there
  // Null: it is in now; else the node of the same key that is there already.
  Node* InsertInBucket(Node* node);
  // Puts a new key at the head of the chain.
  void Chain(Node* node);
  // The keys on the chain from `from` to before `until`, sorted.
  static std::vector<SortKey> SortedChain(Node* from, const Node* until);
  // Puts every key that is chained by now into the list.
  void List();
  // As List, by a writer: nothing where another writer does so.
  void ListByWriter();
  // Puts a node into the list. `before`: on each level the last node up to the key inserted before, a smaller
  // one.
  void InsertInList(Node* node, std::array<Node*, kMaxHeight>* before)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(list_mu_);
  // Makes a new seek index where the list has grown to twice what the last one knew.
  void IndexList() ABSL_EXCLUSIVE_LOCKS_REQUIRED(list_mu_);
  // The node's key is smaller; false for null.
  static bool IsBefore(const Node* node, std::string_view stored_key);
  // Where to search the list for a key, as the seek index tells. Reads no node.
  SearchStart StartOf(std::string_view stored_key) const;
  // A scan is about to read the list: lists every key that is chained by now, and has writers list the keys
  // that follow.
  void PrepareScan();
  // The first key in the list that is not smaller; null: none.
  Node* FindGreaterOrEqual(std::string_view stored_key, const SearchStart& start) const;
  // The last key in the list that is smaller; null: none.
  const Node* FindLess(std::string_view stored_key) const;
  // The last key in the list; null: none.
  const Node* FindLast() const;
  // As FindLess, but head_ for none.
  Node* FindBefore(std::string_view stored_key, const SearchStart& start) const;

  const MemTableId id_;
  Arena arena_;
  const uint64_t bucket_mask_;                     // buckets - 1; a power of two of them
  const std::vector<std::atomic<Node*>*> pieces_;  // of the bucket array, kPieceBuckets each
  Node* const head_;                               // of the skip list; no key
  const size_t overhead_;                          // bytes of the empty table
  std::atomic<bool> scanned_{false};
  std::atomic<uint64_t> entries_{0};
  std::atomic<uint64_t> listed_until_;  // writers list keys while there are fewer versions
  std::atomic<uint64_t> keys_{0};
  std::atomic<Node*> youngest_{nullptr};               // head of the chain
  std::atomic<Node*> ordered_{nullptr};                // the list has it and all older ones on the chain
  std::atomic<int> height_{1};                         // levels of the list in use
  std::atomic<bool> writer_lists_{false};              // in ListByWriter
  std::atomic<const SeekIndex*> seek_index_{nullptr};  // the last of seek_indexes_; null: none yet
  Mutex list_mu_;                                      // held by the thread that lists
  uint64_t listed_ ABSL_GUARDED_BY(list_mu_) = 0;      // keys in the list
  uint64_t indexed_ ABSL_GUARDED_BY(list_mu_) = 0;     // of them, when the last seek index was made
  // All there were: readers may still be in an older one.
  std::vector<std::unique_ptr<const SeekIndex>> seek_indexes_ ABSL_GUARDED_BY(list_mu_);
};

}  // namespace nova
