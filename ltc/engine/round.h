// Round: sibling memtables that open together, seal together and flush together (rounds, sealing, K3a). Every
// number in an older round is below every number in a younger one (recency order, K3). RoundSet makes and
// seals rounds; RoundMerger makes one of several.
//
// The life of a round:
//
//   active       takes writes; writers pin it (pin, L6)
//   sealed       `sealing` is set, then `boundary` read, then the successor opens; pins drain
//   merging      optional: its live entries are copied; the merged round takes its place and its neighbours'
//   flushing     claimed with its neighbours; a thread writes the tables
//   flushed      the tables are stored; it waits until all older rounds are committed (flush order, K3b)
//   committed    its edit counts: it leaves the view, and its logs are deleted (done memtables, M3)
//
// A flush whose writing fails sets it back to sealed; one whose edit fails is committed later.
//
// Thread safety: memtables and atomics from any thread. Other fields are constant once the round is in a
//   view, but for two kinds. Those that name a lock are read and written under it. Those that are set when
//   the round is sealed are set under RoundSet's lock, before the view that has it as sealed is published:
//   they are read of sealed rounds only.
// Ownership: shared_ptr; views hold rounds, and so do iterators over their memtables.
// Errors: none.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string_view>
#include <vector>

#include "common/base/clock.h"
#include "common/log/range_log.h"
#include "ltc/engine/lookup_index.h"
#include "ltc/engine/memtable.h"
#include "ltc/engine/memtable_partition.h"
#include "ltc/engine/range_options.h"
#include "ltc/engine/version.h"

namespace nova {

struct PendingCheckpoint;  // ltc/engine/version_set.h

struct Round {
  RoundNumber number = 0;            // the lowest sequence number it can hold
  LookupIndex::Ordinal ordinal = 0;  // set where there is an index and writers come
  std::vector<std::unique_ptr<MemTable>> siblings;
  // Which siblings take a key; constant for the round's life. Null: one of them, by a hash of the key.
  MemtablePartitionRef partition;
  std::atomic<int64_t> pins{0};  // writers between pin and insert (pin, L6)
  // No new entries: a writer that sees it goes to the successor (K3a). Set under RoundSet's lock. Set back
  // there, before the boundary is read, where a writer has come meanwhile and memory has no room for a
  // successor. A writer that saw it has given up its number, finished and never posted, and tries again.
  std::atomic<bool> sealing{false};
  SequenceNumber boundary = 0;  // the highest number it can hold; set when it is sealed
  const Nanos opened_ns = Now();
  Nanos sealed_ns = 0;  // set when it is sealed; of a merged round, the oldest one's
  // Claimed: a thread writes its tables, or they wait for their commit. Set by RoundSet::ClaimFlush under its
  // lock; set back by whoever claimed it, without that, where writing the tables has failed.
  std::atomic<bool> flushing{false};
  // RoundSet's alone, under its lock.
  class Merge {
    friend class RoundSet;
    bool under_way = false;  // claimed: a thread copies its live entries into a merged round
    bool in_vain = false;    // the last one brought nothing
  };
  Merge merge;
  // The rounds that it was merged of; a round that was not merged is its only source.
  struct Source {
    RoundNumber number = 0;             // names its logs
    std::vector<MemTableId> memtables;  // done when the merged round is flushed (M3)
  };
  std::vector<Source> sources;  // oldest first
  bool merged = false;          // it holds the live entries of several rounds
  uint64_t merged_bytes = 0;    // of a merged round: bytes of all sources as they were written
  uint64_t merged_entries = 0;  // likewise, entries
  double share = 1;             // see RoundSet::ShareOf
  // Checkpoints to be made by its commit. Changed under the locks of VersionSet and RoundSet, both.
  std::vector<std::shared_ptr<PendingCheckpoint>> checkpoints;
  std::atomic<uint64_t> tombstones{0};  // range deletions in it
  std::atomic<bool> unsynced{false};    // holds a write that asked for no sync, in a log where syncs matter

  // The memtable that takes a version of the key (siblings by Drange, K3d). `turn`: the first number of the
  // write, which picks one where the key has several.
  MemTable* SiblingFor(std::string_view key, uint64_t turn) const {
    return partition == nullptr ? SiblingByHash(key) : siblings[partition->Of(key).Pick(turn)].get();
  }
  // The newest version with sequence <= seq in any sibling. See MemTable::Get.
  bool Get(std::string_view key, uint64_t hash, SequenceNumber seq, MemTable::Hit* hit) const {
    return partition == nullptr ? SiblingByHash(key)->Get(key, hash, seq, hit)
                                : GetByDrange(key, hash, seq, hit);
  }
  void PrefetchGet(std::string_view key, uint64_t hash) const {  // see MemTable::PrefetchGet
    partition == nullptr ? SiblingByHash(key)->PrefetchGet(hash) : PrefetchByDrange(key, hash);
  }
  // Memory of its memtables when they are full. Another round may have another number of them.
  size_t full_bytes(const RangeOptions& options) const {
    return options.memtable_size_bytes * siblings.size();
  }
  // Its memtables or its range deletions are at their bound: it is to be sealed.
  bool IsFull(const RangeOptions& options) const {
    return bytes() >= full_bytes(options) ||
           tombstones.load(std::memory_order_relaxed) >= options.round_range_tombstones;
  }
  // No writer is in it, and it holds nothing.
  bool IsIdleAndEmpty() const { return pins.load(std::memory_order_seq_cst) == 0 && entries() == 0; }
  size_t bytes() const {  // memory of its memtables
    size_t n = 0;
    for (const auto& m : siblings) n += m->bytes_used();
    return n;
  }
  // Memory of the pool that its memtables take while they are empty. Its successor takes as much at once.
  size_t empty_bytes() const {
    size_t n = 0;
    for (const auto& m : siblings) n += m->empty_bytes();
    return n;
  }
  // What they have taken beyond that: so much is free once it is sealed and flushed.
  size_t freeable_bytes() const {
    size_t n = 0;
    for (const auto& m : siblings) n += m->bytes_beyond_empty();
    return n;
  }
  // Bytes written by clients, before merges.
  uint64_t written_bytes() const { return merged ? merged_bytes : bytes(); }
  // Entries written by clients, before merges.
  uint64_t written_entries() const { return merged ? merged_entries : entries(); }
  size_t bytes_of_one_version_each() const {  // see MemTable
    size_t n = 0;
    for (const auto& m : siblings) n += m->bytes_of_one_version_each();
    return n;
  }
  uint64_t entries() const {  // versions and range tombstones
    uint64_t n = tombstones.load(std::memory_order_relaxed);
    for (const auto& m : siblings) n += m->entries();
    return n;
  }

 private:
  MemTable* SiblingByHash(std::string_view key) const {
    return siblings.size() == 1 ? siblings[0].get()
                                : siblings[std::hash<std::string_view>{}(key) % siblings.size()].get();
  }
  // Get and PrefetchGet, where there is a partition.
  bool GetByDrange(std::string_view key, uint64_t hash, SequenceNumber seq, MemTable::Hit* hit) const;
  void PrefetchByDrange(std::string_view key, uint64_t hash) const;
};

// Rounds that follow one another, the oldest first.
using RoundGroup = std::vector<std::shared_ptr<Round>>;

}  // namespace nova
