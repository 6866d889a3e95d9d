// RoundMerger: merges sealed rounds in memory while they wait for their flush. Nova-LSM (section 4.2) and
// TRIAD (section 4.1) keep versions that are overwritten again and again from the disk. Here everything that
// is left of several rounds becomes one round, which takes their place between older and younger ones
// (recency order, K3). docs/engine.md argues for it.
//
// Thread safety: all. MergeOne copies memory for as long as that takes, and waits for nothing.
// Ownership: none taken.
// Errors: none.
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
  RoundMerger(const RangeContext* context, ReadPoints* points, RoundSet* rounds, Pacer* pacer,
              WrittenLoad* written)
      : context_(context), points_(points), rounds_(rounds), pacer_(pacer), written_(written) {}

  // Merges sealed rounds that hold the same keys again and again. False: there are none, there is no room, or
  // it brought nothing.
  bool MergeOne();
  // Metrics: merges of rounds, and what they left out. See RangeStats.
  uint64_t merges() const { return merges_.load(std::memory_order_relaxed); }
  uint64_t entries_away() const { return entries_away_.load(std::memory_order_relaxed); }
  uint64_t bytes_away() const { return bytes_away_.load(std::memory_order_relaxed); }

 private:
  // Counts a merge that was published.
  void Count(const RoundGroup& rounds, const Round& merged);
  // A copy of everything that is left of `rounds`, at most `most_share` rounds of memory. Null: more is left
  // than that, for instance for snapshots, or the range closes. `writes`: see WrittenLoad::NewCounter.
  std::shared_ptr<Round> MergedRound(const RoundGroup& rounds, double most_share, WriteCounter* writes);

  const RangeContext* const context_;
  ReadPoints* const points_;
  RoundSet* const rounds_;
  Pacer* const pacer_;
  WrittenLoad* const written_;
  std::atomic<uint64_t> merges_{0}, entries_away_{0}, bytes_away_{0};  // see merges()
};

}  // namespace nova
