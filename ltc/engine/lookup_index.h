// LookupIndex: the round of memtables in which a key was written last (Nova-LSM, section 4.1.1), so that a
// get passes by the rounds and the tables that are younger.
//
// The paper's index names a memtable, and after its flush a table of Level0; flush, merge and compaction have
// to change it. This one says a bound: no version of the key is above a sequence number, the end of the round
// it was written in. Whatever begins above that number (a round at Round::number, a table at
// TableInfo::min_sequence) does not have the key. A bound names no place, so nothing that moves entries from
// place to place changes it. And it is true of all versions of the key: a view that is older than the index,
// or a snapshot, may be searched by it.
//
//   bucket = cache line    | evicted | entry | entry | ... | entry |     kEntries of them, by the key's hash
//   entry                  | fingerprint 32 | ordinal 32 |               0: empty
//   ends_                  ordinal -> the last number its round can hold; kMaxSequenceNumber while it is open
//
// An ordinal counts the rounds of a range. The first put of a key in a round (KeyVersion::brings_node)
// inserts before it links: who finds a version finds its bound too. The key's next puts in that round insert
// nothing. An entry changes by one compare-and-swap, and to a larger ordinal only. A full bucket lets go of
// its oldest entry, and says so: `evicted` is the largest ordinal it has let go of. So the bound of a key is
// the end of max(ordinal of its entry, `evicted`). Keys of one fingerprint share an entry, and the later
// one's bound. Ordinal 0 stands for all that was written before the range was opened.
//
//   put k in round 7:      {k, 5} becomes {k, 7}; then k is linked in a memtable of round 7
//   get k, 9 active, 8 and 7 sealed:   the bound is the end of 7; rounds 9 and 8 are passed by
//   7 and 8 are merged:    the merged round begins where 7 does, so it is asked
//   7 is flushed, its run is compacted:   tables that begin above the end of 7 are passed by
//   get x, not written since the opening: the bound is the end of ordinal 0, or of `evicted`
//
// Thread safety: Insert and UpperBound from any threads; OpenRound by one at a time.
// Ownership: chunks of the pool, which outlives it; they count in the memory of memtables.
// Errors: none. A small index, and one whose ordinals have run out, passes fewer places by.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <vector>

#include "common/base/ids.h"
#include "common/base/keys.h"
#include "ltc/engine/arena.h"

namespace nova {

class LookupIndex {
 public:
  using Ordinal = uint32_t;
  static constexpr size_t kEntries = 7;  // of a bucket
  // Ends of so many rounds are kept. An older one has the end of a younger one.
  static constexpr size_t kEndsKept = 4096;
  // Of the index of a range with so many bytes of memtables: a 24th of them, rounded down to what the
  // constructor takes, and one chunk at least.
  static size_t BytesFor(size_t memtable_bytes);

  // `bytes`: whole chunks, a power of two of them.
  LookupIndex(size_t bytes, ArenaPool* pool);
  ~LookupIndex();
  LookupIndex(const LookupIndex&) = delete;
  LookupIndex& operator=(const LookupIndex&) = delete;

  // A round opens, of numbers from `first` on; the one before ends below. Returns its ordinal, from 1 on. The
  // last ordinal is given again and again, and its rounds have no end.
  Ordinal OpenRound(SequenceNumber first);
  // The key is about to be linked in the round. `hash`: FilterHash of the key.
  void Insert(uint64_t hash, Ordinal ordinal);
  // Every version of the key that is linked by now has a number at or below this.
  SequenceNumber UpperBound(uint64_t hash) const {
    const Bucket& bucket = BucketOf(hash);
    Ordinal ordinal = 0;
    for (const auto& slot : bucket.entries) {
      const uint64_t entry = slot.load(std::memory_order_acquire);
      if (FingerprintOf(entry) == Fingerprint(hash)) ordinal = std::max(ordinal, OrdinalOf(entry));
    }
    // after the entries: who evicts says so first
    ordinal = std::max(ordinal, bucket.evicted.load(std::memory_order_acquire));
    return ends_[ordinal % kEndsKept].load(std::memory_order_acquire);
  }
  size_t bytes() const { return pieces_.size() * ArenaPool::kChunkBytes; }

 private:
  struct alignas(64) Bucket {
    std::atomic<Ordinal> evicted;  // the largest ordinal of the entries it let go of
    std::array<std::atomic<uint64_t>, kEntries> entries;
  };
  static_assert(sizeof(Bucket) == 64);
  static constexpr size_t kPieceBuckets = ArenaPool::kChunkBytes / sizeof(Bucket);

  static uint64_t Entry(uint32_t fingerprint, Ordinal ordinal) {
    return uint64_t{fingerprint} << 32 | ordinal;
  }
  // Of the upper half of the hash; the bucket is of the lower one.
  static uint32_t Fingerprint(uint64_t hash) { return static_cast<uint32_t>(hash >> 32); }
  static uint32_t FingerprintOf(uint64_t entry) { return static_cast<uint32_t>(entry >> 32); }
  static Ordinal OrdinalOf(uint64_t entry) { return static_cast<Ordinal>(entry); }
  Bucket& BucketOf(uint64_t hash) const {
    const uint64_t bucket = hash & bucket_mask_;
    return pieces_[bucket / kPieceBuckets][bucket % kPieceBuckets];
  }
  // Sets `evicted` to at least the ordinal.
  static void RaiseEvicted(Bucket* bucket, Ordinal ordinal);

  ArenaPool* const pool_;
  std::vector<Bucket*> pieces_;  // of the bucket array, kPieceBuckets each
  const uint64_t bucket_mask_;   // buckets - 1; a power of two of them
  Ordinal latest_ = 0;           // the last one that OpenRound gave
  // [ordinal % kEndsKept]: of the youngest such round.
  std::array<std::atomic<SequenceNumber>, kEndsKept> ends_;
};

}  // namespace nova
