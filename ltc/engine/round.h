// Round: sibling memtables that open together, seal together and flush together: recency order (K3). Every
// number in an older round is below every number in a younger one. RoundSet makes and seals them.
//
// Thread safety: memtables and atomics: all; each other field says by which lock.
// Ownership:     shared_ptr; views hold them, and iterators over their memtables.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "common/base/clock.h"
#include "common/log/range_log.h"
#include "ltc/engine/memtable.h"
#include "ltc/engine/range_options.h"
#include "ltc/engine/version.h"

namespace nova {

struct PendingCheckpoint;  // ltc/engine/version_set.h

struct Round {
  RoundNumber number = 0;  // the first sequence number it can hold
  std::vector<std::unique_ptr<MemTable>> siblings;
  std::atomic<int64_t> pins{0};  // L6 (pins): writers between pin and insert
  std::atomic<bool> sealing{false};
  SequenceNumber boundary = 0;  // no number above it is in here; set when sealed
  const Nanos opened_ns = Now();
  Nanos sealed_ns = 0;                // set when sealed; of what was merged, the oldest's
  std::atomic<bool> flushing{false};  // some thread writes its tables
  // Some thread copies what is left of it into another one. Guarded by RoundSet's lock.
  bool merging = false;
  bool merged_in_vain = false;  // guarded by RoundSet's lock
  // What it was before it was merged: one source, itself, if it was not.
  struct Source {
    RoundNumber number = 0;  // of its logs
    std::vector<MemTableId> memtables;
  };
  std::vector<Source> sources;  // the oldest first
  bool merged = false;          // it is a copy of what was left of them
  uint64_t merged_bytes = 0;    // then: of all sources, as they were written
  uint64_t merged_entries = 0;
  double share = 1;  // of the memory of one round that it has
  struct Flushed {
    VersionEdit edit;
    size_t rounds = 1;  // this one, and those behind it that went with it
    uint64_t job = 0;
  };
  std::optional<Flushed> flushed;  // its tables are written; guarded by Flusher's commit lock
  // To be made when it is committed. Changed under the locks of VersionSet and RoundSet.
  std::vector<std::shared_ptr<PendingCheckpoint>> checkpoints;
  std::atomic<uint64_t> tombstones{0};  // range tombstones that it brings into the manifest
  std::atomic<bool> unsynced{false};    // holds what asked for no sync of a log where that matters

  MemTable* SiblingOf(std::string_view key) const {
    return siblings.size() == 1 ? siblings[0].get()
                                : siblings[std::hash<std::string_view>{}(key) % siblings.size()].get();
  }
  bool IsFull(const RangeOptions& options) const {
    return bytes() >= options.memtable_size_bytes * siblings.size() ||
           tombstones.load(std::memory_order_relaxed) >= options.round_range_tombstones;
  }
  bool IsIdleAndEmpty() const { return pins.load(std::memory_order_seq_cst) == 0 && entries() == 0; }
  size_t bytes() const {
    size_t n = 0;
    for (const auto& m : siblings) n += m->bytes_used();
    return n;
  }
  uint64_t written_bytes() const { return merged ? merged_bytes : bytes(); }
  uint64_t written_entries() const { return merged ? merged_entries : entries(); }
  uint64_t keys() const {
    uint64_t n = 0;
    for (const auto& m : siblings) n += m->keys();
    return n;
  }
  uint64_t entries() const {  // versions and range tombstones
    uint64_t n = tombstones.load(std::memory_order_relaxed);
    for (const auto& m : siblings) n += m->entries();
    return n;
  }
};

using RoundGroup = std::vector<std::shared_ptr<Round>>;  // that follow one another, the oldest first

}  // namespace nova
