// WrittenLoad: the writes of a range over its keys, as sorted walks over its rounds have seen them, and the
// partition of memtables for them (`memtable_partitioning`). Load is versions that were written, whether or
// not one of them reaches Level0; FlushedLoad's is bytes that do.
//
// A put counts nothing. Whoever first walks a round in order, a merge in memory or a flush, counts the
// versions of each key. A round that is opened later takes the partition that there is then: a reorganisation
// seals nothing. The partition is in no manifest: a range that is opened partitions by hash until its first
// walk.
//
// Thread safety: all of WrittenLoad; none of WriteCounter.
// Locks: one, a leaf.
// Ownership: none taken.
// Errors: none.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/base/keys.h"
#include "common/base/mutex.h"
#include "ltc/engine/memtable_partition.h"
#include "ltc/engine/round.h"

namespace nova {

// The versions of one walk, by key: of rounds that were not merged, for their merge has counted the others.
class WriteCounter {
 public:
  WriteCounter(const RoundGroup& rounds, size_t resolution);
  // REQUIRES: in internal key order.
  void Add(const ParsedInternalKey& key);
  // Ends the walk.
  WriteHistogram Finish();

 private:
  // Adds the key that ends.
  void EndKey();

  std::vector<std::pair<SequenceNumber, SequenceNumber>> merged_;  // first and last numbers of merged rounds
  WriteHistogram seen_;
  std::string key_;        // under way
  uint64_t versions_ = 0;  // of it
};

class WrittenLoad {
 public:
  explicit WrittenLoad(const RangeOptions& options);

  // Memtables are partitioned by Drange, and there are several. Else nothing is counted.
  bool enabled() const { return siblings_.load(std::memory_order_relaxed) > 1; }
  // What one walk counts into; null: not enabled.
  std::unique_ptr<WriteCounter> NewCounter(const RoundGroup& rounds) const;
  // The walk has ended, and what came of it stands. A null counter: nothing.
  void Add(WriteCounter* counter);
  // Of a round of so many siblings that is opened now; null: by a hash of the key.
  MemtablePartitionRef PartitionOf(int siblings) const;
  // Rounds will have so many siblings. One that has another number is partitioned by hash.
  void SetSiblings(int siblings);

  uint64_t reorganisations() const { return reorganisations_.load(std::memory_order_relaxed); }
  // See MemtablePartition::ImbalanceOf; by the latest walk.
  double imbalance() const { return imbalance_.load(std::memory_order_relaxed); }

 private:
  uint32_t SiblingsFor(int siblings) const {
    return partitioning_ == MemtablePartitioning::kDrange ? static_cast<uint32_t>(siblings) : 1;
  }

  const MemtablePartitioning partitioning_;
  // Of a round, if they are partitioned by Drange; else 1. Changed under the lock.
  std::atomic<uint32_t> siblings_;
  std::atomic<uint64_t> reorganisations_{0};
  std::atomic<double> imbalance_{0};
  mutable Mutex mu_;
  WriteHistogram seen_ ABSL_GUARDED_BY(mu_);             // of all walks, the latest counts most
  MemtablePartitionRef partition_ ABSL_GUARDED_BY(mu_);  // for siblings_
};

}  // namespace nova
