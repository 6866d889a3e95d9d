#include "ltc/engine/lookup_index.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <new>

namespace nova {

// With values of 1 KB this is a few entries for each key that memory holds: for the keys of Level0 too.
size_t LookupIndex::BytesFor(size_t memtable_bytes) {
  constexpr size_t kShare = 24;
  return std::bit_floor(std::max(memtable_bytes / kShare, ArenaPool::kChunkBytes));
}

LookupIndex::LookupIndex(size_t bytes, ArenaPool* pool)
    : pool_(pool), bucket_mask_(bytes / sizeof(Bucket) - 1) {
  for (size_t done = 0; done < bytes; done += ArenaPool::kChunkBytes) {
    auto* const piece = reinterpret_cast<Bucket*>(pool_->Take());
    for (size_t i = 0; i < kPieceBuckets; ++i) new (&piece[i]) Bucket();
    pieces_.push_back(piece);
  }
  pool_->AddFixed(static_cast<ptrdiff_t>(this->bytes()));
  for (auto& end : ends_) end.store(kMaxSequenceNumber, std::memory_order_relaxed);
}

LookupIndex::~LookupIndex() {
  pool_->AddFixed(-static_cast<ptrdiff_t>(bytes()));
  for (Bucket* piece : pieces_) pool_->Give(reinterpret_cast<char*>(piece));
}

LookupIndex::Ordinal LookupIndex::OpenRound(SequenceNumber first) {
  if (latest_ == std::numeric_limits<Ordinal>::max()) return latest_;
  const Ordinal before = latest_++;
  ends_[latest_ % kEndsKept].store(kMaxSequenceNumber, std::memory_order_release);
  ends_[before % kEndsKept].store(first - 1, std::memory_order_release);
  return latest_;
}

void LookupIndex::RaiseEvicted(Bucket* bucket, Ordinal ordinal) {
  Ordinal now = bucket->evicted.load(std::memory_order_relaxed);
  while (now < ordinal && !bucket->evicted.compare_exchange_weak(now, ordinal, std::memory_order_acq_rel)) {
  }
}

// Two threads may bring one fingerprint to two entries; a reader takes the larger. An entry that was changed
// meanwhile is looked at anew.
void LookupIndex::Insert(uint64_t hash, Ordinal ordinal) {
  Bucket& bucket = BucketOf(hash);
  for (;;) {
    if (ordinal <= bucket.evicted.load(std::memory_order_acquire)) return;  // the bound is as high already
    std::atomic<uint64_t>* place = nullptr;  // the key's entry, else the one of the least ordinal
    uint64_t was = 0;
    for (auto& slot : bucket.entries) {
      const uint64_t entry = slot.load(std::memory_order_acquire);
      const bool same = FingerprintOf(entry) == Fingerprint(hash);
      if (!same && place != nullptr && OrdinalOf(entry) >= OrdinalOf(was)) continue;
      place = &slot;
      was = entry;
      if (same) break;
    }
    const bool evicts = FingerprintOf(was) != Fingerprint(hash) && was != 0;
    if (OrdinalOf(was) >= ordinal) {
      if (evicts) RaiseEvicted(&bucket, ordinal);  // all are as young: this one goes
      return;
    }
    if (evicts) RaiseEvicted(&bucket, OrdinalOf(was));
    if (place->compare_exchange_strong(was, Entry(Fingerprint(hash), ordinal), std::memory_order_acq_rel))
      return;
  }
}

}  // namespace nova
