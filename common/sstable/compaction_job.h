// CompactionJob: one self-contained merge of tables into tables (paper section 4.3). It runs in an LTC, or in
// a StoC (stoc/compactor.h): its bytes, and those of its result, travel.
//
// Everything that the result depends on travels in the job (snapshot, K4): inputs, snapshots, the stable
// number, the time, cut points, reserved ids, the deadline. The choice of tables is the LTC's; RunCompaction
// is mechanism only.
//
// Of each key these versions are kept: the newest, and the newest at or below each live snapshot. A tombstone
// or an expired entry goes if no live snapshot is below its number, so that no older version of its key is
// kept; if its number is at or below `floor`; and if `bottom` holds. A version that a range tombstone hides
// from all readers goes too (range deletion, K7).
//
//   versions of a key, newest first   put @90   delete @70   put @60   put @30
//   snapshots 65, 40; floor 80        kept      dropped      kept      kept: seen at 40
//
//   versions of a key, newest first   delete @70   put @60
//   no snapshots; floor 80            kept         dropped
//   the same, and bottom              dropped      dropped
//
// Thread safety: RunCompaction may run on any thread that may wait.
// Ownership: a job is a value; the storage outlives the call.
// Errors: those of the storage; Cancelled; DeadlineExceeded; InvalidArgument: an input without a key range;
//   DataLoss.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "common/base/clock.h"
#include "common/sstable/range_tombstones.h"
#include "common/sstable/table_builder.h"
#include "common/sstable/table_reader.h"

namespace nova {

// See the head of this file. Its bytes: compaction_job.cc.
struct CompactionJob {
  RangeId range;
  Epoch epoch;
  uint64_t job_id = 0;  // number in the range's JobBook
  std::vector<TableInfo> inputs;
  std::string from;  // only stored keys in [from, to) of the inputs; empty: open
  std::string to;
  std::vector<SequenceNumber> snapshots;  // live ones, ascending
  SequenceNumber floor = 0;               // the stable number at the start of the job (K4)
  // No table or memtable outside the job holds an older version of a key of the job.
  bool bottom = false;
  int64_t now_ms = 0;              // wall clock, for entries with a time to live
  std::vector<Uuid> output_uuids;  // of the outputs, used in order
  // Outputs end at key boundaries past this size, as long as ids are left. 0: never.
  uint64_t max_table_size_bytes = 0;
  // Stored keys at which an output must end, ascending: bounds of Dranges. Only a job that takes tables of
  // Level0 is given some.
  std::vector<std::string> cut_points;
  TableOptions table_options;  // of the outputs
  Nanos deadline_ns = 0;       // Now() at which the job gives up; 0: none
  // Range deletions of the manifest: a crash must not bring back entries that the job drops by them.
  RangeTombstonesRef range_tombstones;
  SequenceNumber tombstones_applied = 0;  // outputs hold nothing hidden by range tombstones up to this number

  // A deadline travels as the time that is left at `now`, for the clock of another host shows another time.
  void AppendTo(std::string* dst, Nanos now) const;
  static StatusOr<CompactionJob> Parse(std::string_view* input, Nanos now);
};

// What a job has done. Its bytes: compaction_job.cc.
struct CompactionResult {
  std::vector<TableInfo> outputs;
  uint64_t bytes_read = 0;
  uint64_t bytes_written = 0;
  uint64_t entries_in = 0;
  uint64_t entries_dropped = 0;
  // The latest expiry of the entries that went because they had expired; 0: none did. Not encoded: of a job
  // that ran elsewhere its now_ms has to do.
  int64_t expired_by_ms = 0;

  void AppendTo(std::string* dst) const;
  // Advances *input. DataLoss: malformed, or of another version.
  static StatusOr<CompactionResult> Parse(std::string_view* input);
};

// Where a job's bytes come from and go to. The calls wait.
class CompactionStorage {
 public:
  virtual ~CompactionStorage() = default;
  // Opens an input.
  virtual StatusOr<std::shared_ptr<const TableReader>> OpenTable(const TableInfo& info) = 0;
  // The raw bytes of blocks that follow one another, verified; from another copy if one is damaged (damaged
  // copy, S3).
  virtual StatusOr<std::string> ReadBlocks(const TableInfo& info, std::span<const BlockHandle> blocks) = 0;
  // Waits until so many bytes of inputs may be read: asked before the job goes elsewhere, where nobody calls
  // ReadBlocks, which has its own turns.
  virtual void WaitTurn(uint64_t) {}
  // Takes a table's data while it is built. Null: the data is wanted whole by WriteTable.
  virtual std::unique_ptr<TableSink> StartTable(const Uuid&) { return nullptr; }
  // Stores a finished table durably and returns its info with fragments and StoCs.
  virtual StatusOr<TableInfo> WriteTable(TableBuilder::Output output) = 0;
};

// Runs a job. `cancelled` is asked between blocks. Outputs written before an error stay, for the caller to
// delete (collection, N4, takes those of a caller that died).
StatusOr<CompactionResult> RunCompaction(const CompactionJob& job, CompactionStorage* storage,
                                         const std::function<bool()>& cancelled);

// The property of a table that its entries were filtered by range tombstones up to some number (K7). Absent:
// 0.
void SetTombstonesApplied(SequenceNumber upto, TableInfo* info);
SequenceNumber TombstonesApplied(const TableInfo& info);
// The table may hold entries that a range tombstone with a number up to `upto` hides.
bool MayHoldHidden(const TableInfo& info, const RangeTombstones& tombstones, SequenceNumber upto);

// The rule which versions are kept, shared by flush and compaction. Ask once for each entry, in internal key
// order.
class VersionFilter {
 public:
  VersionFilter(std::vector<SequenceNumber> snapshots, SequenceNumber floor, bool bottom, int64_t now_ms,
                RangeTombstonesRef range_tombstones = nullptr);
  // False: leave the entry out.
  bool Keep(const ParsedInternalKey& key, std::string_view value);
  int64_t expired_by_ms() const { return expired_by_ms_; }  // see CompactionResult

 private:
  std::vector<SequenceNumber> snapshots_;  // live, ascending
  SequenceNumber floor_;                   // see CompactionJob; the next two also
  bool bottom_;
  int64_t now_ms_;
  int64_t expired_by_ms_ = 0;            // see expired_by_ms()
  RangeTombstonesRef range_tombstones_;  // null: none
  std::string last_key_;
  // The stripe of the last entry: a stripe is the numbers between two snapshots, and no snapshot tells apart
  // two versions of one.
  size_t last_stripe_;
};

}  // namespace nova
