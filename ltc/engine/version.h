// Version: the tables of a range at one moment, immutable; an ordered list of sorted runs with a level tag
// (sorted runs, M5), newest first; and the checkpoints: earlier lists of runs that stay under their names
// (docs/engine.md).
//
// Level0 has one run a flushed round, or a few rounds, ordered by the youngest one's number; each deeper
// level is one run. Tables of a run do not overlap. Of a table that other ranges reference too (shared table,
// M4) a range has a part of its keys: whatever is asked of keys here is asked of that part. With them the
// range tombstones of flushed rounds (range deletion, K7), until no table holds what they hide.
//
// Thread safety: immutable; TableHandle: all methods.   Ownership: a Version holds its tables and those of
//                its checkpoints; a table's files are handed to `garbage` when an acknowledged edit left it
//                in neither and its last reference went (edit first, M2).
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/mutex.h"
#include "common/sstable/range_tombstones.h"
#include "common/sstable/table_reader.h"
#include "ltc/engine/memtable.h"

namespace nova {

using GarbageSink = std::function<void(const TableInfo&)>;

// A table, as this range uses it (M4), and, once loaded, its reader.
class TableHandle {
 public:
  TableHandle(TableInfo info, std::shared_ptr<const TableReader> reader, GarbageSink garbage)
      : info_(std::move(info)), keys_(UsedKeys(info_)), garbage_(std::move(garbage)) {
    if (reader != nullptr) SetReader(std::move(reader));
  }
  ~TableHandle();
  const TableInfo& info() const { return info_; }
  const KeyInterval& keys() const { return keys_; }  // stored keys, within the use-bounds
  std::shared_ptr<const TableReader> reader() const;
  void SetReader(std::shared_ptr<const TableReader> reader);
  // null: not loaded, or not mapped
  const TableReader* mapped_reader() const { return mapped_.load(std::memory_order_acquire); }
  void MarkDropped() { dropped_.store(true); }  // an acknowledged edit dropped it

 private:
  const TableInfo info_;
  const KeyInterval keys_;  // into info_
  const GarbageSink garbage_;
  std::atomic<bool> dropped_{false};
  std::atomic<const TableReader*> mapped_{nullptr};  // of reader_, which stays once it is set
  mutable Mutex mu_;
  std::shared_ptr<const TableReader> reader_ ABSL_GUARDED_BY(mu_);
};
using TableRef = std::shared_ptr<TableHandle>;

struct Run {
  int level = 0;
  uint64_t order = 0;            // Level0: the round number; else 0
  std::vector<TableRef> tables;  // by first key
  uint64_t bytes() const;        // that are used
  // The table among whose keys this one would be; null: none.
  TableHandle* Find(std::string_view stored_key) const;
  // Index of the first table that does not end before stored_key.
  size_t FirstNotBefore(std::string_view stored_key) const;
};

inline constexpr int kLevels = 7;

// M2: a durable pin. What the range held at one sequence number: every number at or below it, and none above.
struct Checkpoint {
  std::string name;
  SequenceNumber sequence = 0;
  int64_t created_ms = 0;                   // wall clock
  std::vector<Run> runs;                    // newest first
  RangeTombstonesRef tombstones = nullptr;  // K7: what they hide in the runs is not in it
};
using CheckpointRef = std::shared_ptr<const Checkpoint>;
inline constexpr size_t kMaxCheckpoints = 100;  // of a range
// 1 to 100 letters, digits, dots, dashes or underscores.
bool IsCheckpointName(std::string_view name);

// What one flush, compaction or open changes. Encoded in the manifest (docs/formats.md).
struct VersionEdit {
  struct Add {
    int level = 0;
    uint64_t order = 0;
    TableInfo table;
    std::shared_ptr<const TableReader> reader;  // not encoded: in hand after a flush or compaction
  };
  // A checkpoint is made, or in the place of one of its name. Its tables are in the version before or after
  // the edit, or in `held`.
  struct Pin {
    struct Table {
      int level = 0;
      uint64_t order = 0;
      Uuid table;
    };
    std::string name;
    SequenceNumber sequence = 0;
    int64_t created_ms = 0;
    std::vector<Table> tables;
    std::vector<RangeTombstoneRef> tombstones = {};
  };
  std::vector<Add> adds;
  std::vector<Uuid> drops;
  std::vector<TableInfo> held;  // tables of checkpoints only
  std::vector<Pin> pins;
  std::vector<std::string> unpins;                 // checkpoints that are deleted
  std::vector<RangeTombstoneRef> tombstones;       // K7: of the flushed round
  std::vector<SequenceNumber> dropped_tombstones;  // by number
  // Done memtables (M3): memtables whose entries replay must skip
  std::vector<MemTableId> done;
  MemTableId done_below;            // and every id below this one
  SequenceNumber seq_reserved = 0;  // Sequence number (K1); 0: unchanged
  int64_t now_ms = 0;               // K7: what expired by then may be gone; 0: unchanged

  std::string Encode() const;
  static StatusOr<VersionEdit> Decode(std::string_view bytes);
};

// M3: the memtables whose entries replay skips, of a manifest's edits.
class DoneMemTables {
 public:
  explicit DoneMemTables(const std::vector<VersionEdit>& edits);
  bool operator()(MemTableId id) const { return id < below_ || done_.contains(id); }

 private:
  MemTableId below_;
  std::set<MemTableId> done_;
};

class Version {
 public:
  const std::vector<Run>& runs() const { return runs_; }                          // newest first
  const std::vector<CheckpointRef>& checkpoints() const { return checkpoints_; }  // by name
  CheckpointRef FindCheckpoint(std::string_view name) const;                      // null: there is none
  // Of the runs, then of each checkpoint: a table may come several times.
  void ForEachTable(const std::function<void(const Run&, const TableRef&)>& fn) const;
  TableRef FindHandle(const Uuid& table) const;  // in the runs or in a checkpoint; null: in none
  // What makes a checkpoint of the runs and the range tombstones.
  VersionEdit::Pin PinRuns(std::string name, SequenceNumber sequence, int64_t created_ms) const;
  const RangeTombstonesRef& tombstones() const { return tombstones_; }
  int Level0Runs() const;
  uint64_t LevelBytes(int level) const;
  const Run* LevelRun(int level) const;  // of a level >= 1; null when empty
  size_t TableCount() const;
  uint64_t TotalBytes() const;

  // The version after `edit`. DataLoss: the edit drops or pins what is not there, makes a run overlap, or
  // names a table that is there with other use-bounds (a range has one reference to a table, and one part
  // that it uses).
  StatusOr<std::shared_ptr<const Version>> Apply(const VersionEdit& edit, const GarbageSink& garbage) const;
  // K7: numbers of the range tombstones that hide nothing any more: no table may hold an older version that
  // they cover, or newer ones hide it as well from everybody. `snapshots`: the live ones, ascending; asked
  // for when the version was in hand.
  std::vector<SequenceNumber> NeedlessTombstones(std::span<const SequenceNumber> snapshots) const;
  // One edit that makes this version from nothing.
  VersionEdit Snapshot() const;
  // True if a run of a level deeper than `level` may hold one of the keys.
  bool OverlapsDeeper(int level, const KeyInterval& keys) const;

 private:
  std::vector<Run> runs_;
  std::vector<CheckpointRef> checkpoints_;
  RangeTombstonesRef tombstones_;
};

}  // namespace nova
