// MemtablePartition: which siblings of a round take a key, where memtables are partitioned by Drange (paper
// section 4.1) and not by a hash of the key. A round has one for its life, so a reader of the round knows
// where all versions of a key are.
//
//   Dranges     |   0   |1|     2      |  3  |       [k, k]: a Drange of one hot key
//   siblings        0    1 2     3        4          k has two: the paper's duplicated Drange
//
// A hot key is due a sibling for each whole equal part of the writes that it has, so that a sibling has no
// more of them than others have. A version of it goes to any of these, and a get asks them all and takes the
// newest (siblings by Drange, K3d).
//
// Thread safety: immutable; PartitionFor is pure.
// Ownership: shared; rounds hold it.
// Errors: none.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "ltc/engine/drange_map.h"
#include "ltc/engine/write_histogram.h"

namespace nova {

class MemtablePartition;
using MemtablePartitionRef = std::shared_ptr<const MemtablePartition>;

class MemtablePartition {
 public:
  // A get of a hot key asks at most so many siblings.
  static constexpr uint32_t kMostCopies = 8;

  // Neighbours among the siblings of a round.
  struct Siblings {
    uint32_t first = 0;
    uint32_t count = 1;
    // One of them; all entries of a batch have the same `turn`, the batch's first number.
    uint32_t Pick(uint64_t turn) const {
      return count == 1 ? first : first + static_cast<uint32_t>(((turn * kSpread) >> 32) % count);
    }
  };

  // `map`: null: one Drange. `copies`: siblings of each Drange, at least 1.
  MemtablePartition(DrangeMapRef map, const std::vector<uint32_t>& copies);
  // Those that hold versions of the key.
  Siblings Of(std::string_view stored_key) const {
    return OfDrange(map_ == nullptr ? 0 : map_->Of(stored_key));
  }
  Siblings OfDrange(size_t i) const { return {starts_[i], starts_[i + 1] - starts_[i]}; }
  size_t dranges() const { return starts_.size() - 1; }
  size_t siblings() const { return starts_.back(); }  // that take keys; a round may have more
  const DrangeMapRef& map() const { return map_; }

  // Of the load seen, the standard deviation of the siblings' shares: the paper's measure of a partition.
  double ImbalanceOf(const WriteHistogram& seen) const;

 private:
  static constexpr uint64_t kSpread = 0x9E3779B97F4A7C15;  // numbers of batches may have a factor in common

  const DrangeMapRef map_;        // null: one Drange
  std::vector<uint32_t> starts_;  // of each Drange its first sibling; and the number of siblings behind them
};

// The partition among `siblings` for the writes that were seen; `now` itself where that is good enough.
// `now`: null: none yet. Null: nothing was seen.
MemtablePartitionRef PartitionFor(const MemtablePartitionRef& now, const WriteHistogram& seen,
                                  uint32_t siblings);

}  // namespace nova
