// RangeView: the content of a range at one moment, as readers and background work see it: the rounds in
// memory, the version, the range tombstones. Immutable once it is published (RoundSet::Publish).
//
// Thread safety: immutable, but for the rounds, whose headers tell their own rules.
// Ownership: shared_ptr; keeps its rounds and tables.
// Errors: none.
#pragma once

#include <map>
#include <memory>
#include <vector>

#include "common/sstable/range_tombstones.h"
#include "ltc/engine/round.h"
#include "ltc/engine/version.h"

namespace nova {

// See the head of this file.
struct RangeView {
  uint64_t generation = 0;                     // rises by 1 with each published view
  std::shared_ptr<Round> active;               // takes writes
  std::vector<std::shared_ptr<Round>> sealed;  // youngest first
  double sealed_share = 0;                     // of the sealed rounds, see RoundSet::ShareOf
  std::shared_ptr<const Version> version;      // the tables, older than all rounds
  RangeTombstonesRef tombstones;    // range deletions (K7) of the version and of all rounds; null: none
  uint64_t tombstones_dropped = 0;  // edits so far that dropped some

  // The round that is flushed before all others.
  const Round& oldest() const { return sealed.empty() ? *active : *sealed.back(); }
  // When the oldest round that holds anything was opened; 0: none does, and the log holds nothing either.
  Nanos unflushed_since() const { return sealed.empty() && active->entries() == 0 ? 0 : oldest().opened_ns; }
  void CountSealed() {  // call after `sealed` has changed
    sealed_share = 0;
    for (const auto& round : sealed) sealed_share += round->share;
  }
  // Done memtables (M3): every memtable with a lower id is in tables once `flushed` is (null: none is being
  // flushed).
  MemTableId DoneBelow(const RoundGroup* flushed) const;
  // The list that an edit with range tombstones to add and drop makes of another one. Those of a flush are in
  // it already and stay once.
  static RangeTombstonesRef TombstonesAfter(const RangeTombstonesRef& before, const VersionEdit& edit);
};

// A moment (K4): once `sequence` is stable, every version at or below it is in the view.
struct ReadPoint {
  std::shared_ptr<const RangeView> view;
  SequenceNumber sequence = 0;  // the last number handed out when the view was read
};

}  // namespace nova
