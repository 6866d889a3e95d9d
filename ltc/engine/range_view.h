// The parts of a Range that its source files share: rounds, views, jobs. Internal to ltc/range*.cc.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "ltc/engine/range.h"

namespace nova {

// K3: sibling memtables that opened together, seal together and flush together. Every number in an older
// round is below every number in a younger one.
struct Range::Round {
  RoundNumber number = 0;  // the first sequence number it can hold
  std::vector<std::unique_ptr<MemTable>> siblings;
  std::atomic<int64_t> pins{0};  // L6: writers between pin and insert
  std::atomic<bool> sealing{false};
  SequenceNumber boundary = 0;  // no number above it is in here; set when sealed
  const Nanos opened_ns = Now();
  Nanos sealed_ns = 0;                // set when sealed; of what was merged, the oldest's
  std::atomic<bool> flushing{false};  // some thread writes its tables
  // some thread copies what is left of it into another one; guarded by mu_
  bool merging = false;
  bool merged_in_vain = false;  // guarded by mu_
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
  std::optional<Flushed> flushed;  // its tables are written; guarded by flush_mu_
  // to be made when it is committed; changed under manifest_mu_ and mu_
  std::vector<std::shared_ptr<CheckpointRequest>> checkpoints;
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

// A write between its number and its answer; recycled by its lane, so that a put allocates nothing.
struct Range::WriteContext {
  struct Prepared {
    MemTable* memtable = nullptr;
    MemTable::Entry* entry = nullptr;  // null: a range deletion
  };
  std::shared_ptr<Range> range;
  Lane* lane = nullptr;
  Round* round = nullptr;       // pinned
  SequenceNumber sequence = 0;  // of its first entry
  uint64_t count = 0;
  Prepared first;
  std::vector<Prepared> rest;         // of a batch
  std::vector<LogEntry> log_entries;  // of a batch, while its record is made
  std::vector<RangeTombstoneRef> tombstones;

  Prepared Prepare(const WriteEntry& e, SequenceNumber seq);
  void Link();     // REQUIRES: no range deletion is among its entries
  void Abandon();  // instead: none of it will be seen
  WriteDone done;
};

struct Range::View {
  uint64_t generation = 0;
  std::shared_ptr<Round> active;
  std::vector<std::shared_ptr<Round>> sealed;  // youngest first
  double sealed_share = 0;                     // of the memory of all rounds, in rounds
  std::shared_ptr<const Version> version;
  RangeTombstonesRef tombstones;    // K7: those of the version and of all rounds
  uint64_t tombstones_dropped = 0;  // how often some went

  void CountSealed() {
    sealed_share = 0;
    for (const auto& round : sealed) sealed_share += round->share;
  }

  // A flush's are in the list already.
  void ApplyTombstones(const VersionEdit& edit) {
    if (edit.tombstones.empty() && edit.dropped_tombstones.empty()) return;
    std::map<SequenceNumber, RangeTombstoneRef> by_number;
    for (const RangeTombstoneRef& t : edit.tombstones) by_number[t->sequence] = t;
    if (tombstones != nullptr) {
      for (const RangeTombstoneRef& t : tombstones->all()) by_number[t->sequence] = t;
    }
    for (const SequenceNumber n : edit.dropped_tombstones) by_number.erase(n);
    std::vector<RangeTombstoneRef> all;
    for (const auto& [number, t] : by_number) all.push_back(t);
    tombstones = RangeTombstones::Of(std::move(all));
    tombstones_dropped += edit.dropped_tombstones.empty() ? 0 : 1;
  }
};

// What a flush or compaction may leave out.
struct Range::DropRules {
  std::vector<SequenceNumber> snapshots;  // live, ascending
  SequenceNumber floor = 0;
  int64_t now_ms = 0;
  RangeTombstonesRef tombstones;
  // what range tombstones up to this number hide is left out, all of it
  SequenceNumber tombstones_applied = 0;
};

// What rounds younger than those of a flush hold, and readers see instead of what the flush would write: of a
// key that is written again and again only now and then a version has to go to disk.
class Range::Younger {
 public:
  // `upto`: numbers above it replace nothing.
  void Set(RoundGroup rounds, SequenceNumber upto, std::vector<SequenceNumber> snapshots) {
    rounds_ = std::move(rounds);
    upto_ = upto;
    snapshots_ = std::move(snapshots);
  }
  bool Replaces(const ParsedInternalKey& key);
  uint64_t replaced() const { return replaced_; }

 private:
  bool Holds(const ParsedInternalKey& key) const;

  RoundGroup rounds_;  // none: nothing is replaced
  SequenceNumber upto_ = 0;
  std::vector<SequenceNumber> snapshots_;  // live, ascending
  uint64_t replaced_ = 0;
  // Where hardly any key is found, most are not looked for.
  uint32_t asked_ = 0, found_ = 0;  // of a few keys in a row
  uint32_t pause_ = 0, left_ = 0;   // keys that are passed over, and how many are still to come
};

// A view and the number that belong together: everything at or below it is in the view, once it is stable.
struct Range::Moment {
  std::shared_ptr<const View> view;
  SequenceNumber sequence = 0;
};

// What places tables, from before the first is placed until its edit is published or given up.
class Range::Job {
 public:
  explicit Job(Range* range) : range_(range) {
    MutexLock lock(&range_->picker_mu_);
    id_ = range_->next_job_++;
    range_->jobs_.insert(id_);
  }
  ~Job() {
    if (!kept_) End(range_, id_);
  }
  uint64_t id() const { return id_; }
  uint64_t Keep() {  // until End
    kept_ = true;
    return id_;
  }
  static void End(Range* range, uint64_t id) {
    MutexLock lock(&range->picker_mu_);
    range->jobs_.erase(id);
  }

 private:
  Range* const range_;
  uint64_t id_;
  bool kept_ = false;
};

}  // namespace nova
