// RangeView: what a range holds at one moment, as readers and background work see it: the rounds in memory,
// the version, the range tombstones. Immutable once it is published (RoundSet::Publish).
//
// Thread safety: immutable.   Ownership: shared_ptr; keeps its rounds and tables.
#pragma once

#include <map>
#include <memory>
#include <vector>

#include "common/sstable/range_tombstones.h"
#include "ltc/engine/round.h"
#include "ltc/engine/version.h"

namespace nova {

struct RangeView {
  uint64_t generation = 0;
  std::shared_ptr<Round> active;
  std::vector<std::shared_ptr<Round>> sealed;  // youngest first
  double sealed_share = 0;                     // of the memory of all rounds, in rounds
  std::shared_ptr<const Version> version;
  RangeTombstonesRef tombstones;    // range deletions (K7): those of the version and of all rounds
  uint64_t tombstones_dropped = 0;  // how often some went

  const Round& oldest() const { return sealed.empty() ? *active : *sealed.back(); }
  void CountSealed() {
    sealed_share = 0;
    for (const auto& round : sealed) sealed_share += round->share;
  }
  // Done memtables (M3): every one below it is in tables once `flushed` is, null for none.
  MemTableId DoneBelow(const RoundGroup* flushed) const;
  // A flush's are in the list already.
  void ApplyTombstones(const VersionEdit& edit);
};

// A view and the number that belong together: everything at or below it is in the view, once it is stable.
struct ReadPoint {
  std::shared_ptr<const RangeView> view;
  SequenceNumber sequence = 0;
};

}  // namespace nova
