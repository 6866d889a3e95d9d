// Version: the tables of a range at one moment; immutable. It is a list of sorted runs (M5), the newest
// first, each with its level, and of checkpoints: earlier lists of runs that stay under their names
// (docs/engine.md).
//
// A run of Level0 is one flushed round or several, ordered by the youngest one's number; each deeper level is
// one run. A version also has the range tombstones of flushed rounds (range deletion, K7), until no table
// holds anything that they hide; and the latest map of Dranges (drange_map.h), by which its runs are indexed
// (range_index.h).
//
// Thread safety: immutable.
// Ownership: a version holds its tables and those of its checkpoints (run.h).
// Errors: of Apply.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/sstable/range_tombstones.h"
#include "common/sstable/table_reader.h"
#include "ltc/engine/drange_map.h"
#include "ltc/engine/memtable.h"
#include "ltc/engine/range_index.h"
#include "ltc/engine/run.h"

namespace nova {

inline constexpr int kLevels = 7;  // Level0 to Level6

// A checkpoint (M2): a durable pin of the range's content at one sequence number: every version at or below
// it and none above.
struct Checkpoint {
  std::string name;
  SequenceNumber sequence = 0;
  int64_t created_ms = 0;  // wall clock
  std::vector<Run> runs;   // newest first
  // Range deletions (K7): versions in the runs that they hide are no part of the checkpoint.
  RangeTombstonesRef tombstones = nullptr;
};
using CheckpointRef = std::shared_ptr<const Checkpoint>;
inline constexpr size_t kMaxCheckpoints = 100;  // of one range
// 1 to 100 letters, digits, dots, dashes or underscores.
bool IsCheckpointName(std::string_view name);

// The change that one flush, compaction, open, or work on checkpoints makes. A record of the manifest
// (docs/formats.md).
// `order`, in Add and Pin, is the run's order in its level, as in Run.
struct VersionEdit {
  struct Add {
    int level = 0;
    uint64_t order = 0;
    TableInfo table;
    std::shared_ptr<const TableReader> reader;  // not encoded; at hand after a flush or compaction
  };
  // Makes a checkpoint, in the place of one of the same name if there is one. Its tables are in the version
  // before or after the edit, or in `held`.
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
  // Copies of a table are on other StoCs now (rebuild, S5), in the runs and in all checkpoints.
  struct Move {
    Uuid table;
    std::vector<PartCopy> copies;  // what leaves where, and comes where
  };
  std::vector<Add> adds;                      // tables that become part of a run
  std::vector<Uuid> drops;                    // tables that leave their run
  std::vector<Move> moves;                    // tables in the version before, whose copies move
  std::vector<TableInfo> held;                // tables that only checkpoints have; in snapshots of a version
  std::vector<Pin> pins;                      // checkpoints that are made
  std::vector<std::string> unpins;            // checkpoints that are deleted
  std::vector<RangeTombstoneRef> tombstones;  // range deletions of the flushed rounds (K7)
  std::vector<SequenceNumber> dropped_tombstones;  // range deletions that go, by number
  // Memtables whose entries are in tables now, which replay must skip (done memtables, M3).
  std::vector<MemTableId> done;
  MemTableId done_below;  // and all with ids below this one
  // Numbers up to here may be handed out (sequence number, K1); 0: unchanged.
  SequenceNumber seq_reserved = 0;
  int64_t now_ms = 0;  // wall clock; entries expired by then may be dropped (K7); 0: unchanged
  // How Level0 is cut from now on: a DrangeMap, encoded; empty: unchanged. Advice: one that is damaged, or of
  // a lower generation than the version's, is ignored.
  std::string dranges;

  // Its bytes: docs/formats.md.
  std::string Encode() const;
  static StatusOr<VersionEdit> Decode(std::string_view bytes);  // DataLoss: it is malformed
};

// The memtables whose entries replay skips (done memtables, M3), by all edits of a manifest.
class DoneMemTables {
 public:
  explicit DoneMemTables(const std::vector<VersionEdit>& edits);
  bool operator()(MemTableId id) const { return id < below_ || done_.contains(id); }

 private:
  MemTableId below_;           // the highest of VersionEdit::done_below
  std::set<MemTableId> done_;  // those that edits name one by one
};

class Version {
 public:
  const std::vector<Run>& runs() const { return runs_; }                          // newest first
  const std::vector<CheckpointRef>& checkpoints() const { return checkpoints_; }  // by name
  CheckpointRef FindCheckpoint(std::string_view name) const;                      // null: there is none
  // Calls `fn` with the tables of the runs, then of each checkpoint; a table may come several times.
  void ForEachTable(const std::function<void(const Run&, const TableRef&)>& fn) const;
  // Calls `fn` with each table of the runs and of the checkpoints, once.
  void ForEachTableOnce(const std::function<void(const TableInfo&)>& fn) const;
  // The table's handle, in the runs or in a checkpoint; null: in none.
  TableRef FindHandle(const Uuid& table) const;
  // The pin that makes a checkpoint of this version's runs and range tombstones.
  VersionEdit::Pin PinRuns(std::string name, SequenceNumber sequence, int64_t created_ms) const;
  const RangeTombstonesRef& tombstones() const { return tombstones_; }  // null: none
  int Level0Runs() const { return level0_runs_; }
  // By then, and no earlier, a whole table below Level0 has expired (K7); INT64_MAX: never.
  int64_t first_expired_ms() const { return first_expired_ms_; }
  const DrangeMapRef& dranges() const { return index_.map(); }  // null: one Drange
  const RangeIndex& index() const { return index_; }
  // Level0, by Drange; at least one.
  using Column = RangeIndex::Column;
  const std::vector<Column>& columns() const { return index_.columns(); }
  uint64_t LevelBytes(int level) const;  // of its runs, as far as tables are used
  const Run* LevelRun(int level) const;  // of a level >= 1; null when empty
  size_t TableCount() const;             // of the runs
  // Bytes of the runs, as far as tables are used.
  uint64_t TotalBytes() const;

  // The version after `edit`. DataLoss: the edit drops, moves or pins a table that is not there, moves copies
  // that are not where it says, makes tables of a run overlap, or names a known table with other use-bounds.
  // `garbage` is given to the handles of new tables.
  StatusOr<std::shared_ptr<const Version>> Apply(const VersionEdit& edit, const GarbageSink& garbage) const;
  // Numbers of the range tombstones that hide nothing any more (K7): no table may hold an older version that
  // they cover, or newer tombstones hide it from everybody as well. `snapshots`: the live ones, ascending,
  // read after this version was.
  std::vector<SequenceNumber> NeedlessTombstones(std::span<const SequenceNumber> snapshots) const;
  // This version, with one Drange.
  std::shared_ptr<const Version> WithoutDranges() const;
  // One edit that makes this version from an empty one: the first record of a manifest.
  VersionEdit Snapshot() const;
  // True if a run of a level deeper than `level` may hold one of the keys, so that a tombstone must stay.
  bool OverlapsDeeper(int level, const KeyInterval& keys) const;

 private:
  // Takes the tables out of the runs. DataLoss: one is in none.
  Status Drop(const std::vector<Uuid>& tables);
  // Sets the handles of those tables that are here and have none yet, in one walk over all.
  void FindHandles(std::map<Uuid, TableRef>* named) const;
  // Puts a new handle in the place of a table's, wherever that is.
  Status ApplyMove(const VersionEdit::Move& move, const GarbageSink& garbage);

  std::vector<Run> runs_;                   // newest first
  int level0_runs_ = 0;                     // of them, the first so many
  int64_t first_expired_ms_ = INT64_MAX;    // see first_expired_ms()
  RangeIndex index_;                        // of runs_, by the latest map
  std::vector<CheckpointRef> checkpoints_;  // by name
  RangeTombstonesRef tombstones_;           // null: none
};

}  // namespace nova
