// RoundMerger: sealed rounds, merged in memory while they wait for their flush. Nova-LSM (section 4.2) and
// TRIAD (section 4.1) keep what is written again and again from the disk; here all that is left of several
// rounds becomes one round, and takes their place between what is older and what is younger, in recency order
// (K3). docs/engine.md argues it.
//
// Thread safety: all; MergeOne copies memory for as long as it takes.   Ownership, errors: none.
#pragma once

#include <atomic>
#include <memory>

#include "ltc/engine/pacer.h"
#include "ltc/engine/range_context.h"
#include "ltc/engine/read_points.h"
#include "ltc/engine/round_set.h"

namespace nova {

class RoundMerger {
 public:
  RoundMerger(const RangeContext* context, ReadPoints* points, RoundSet* rounds, Pacer* pacer)
      : context_(context), points_(points), rounds_(rounds), pacer_(pacer) {}

  // Sealed rounds that hold the same keys again and again. False: there are none, or no room.
  bool MergeOne();
  uint64_t merges() const { return merges_.load(std::memory_order_relaxed); }

 private:
  // What is left of `rounds`. Null: more than there is room for, as where snapshots hold older versions; or
  // the range closes.
  std::shared_ptr<Round> MergedRound(const RoundGroup& rounds, double most_share);

  const RangeContext* const context_;
  ReadPoints* const points_;
  RoundSet* const rounds_;
  Pacer* const pacer_;
  std::atomic<uint64_t> merges_{0};
};

}  // namespace nova
