// CompactionJob: one self-contained merge of tables into tables; runs in an LTC or, sent over, in a StoC
// (paper section 4.3).
//
// Everything the result depends on travels in the job (snapshot, K4): inputs, snapshots, the floor, now, cut
// points, reserved ids, deadline. Policy (what to compact) is the LTC's; RunCompaction is mechanism only.
//
// Kept of each key: its newest version, and the newest at or below each live snapshot. A tombstone (or
// expired entry) goes when its sequence is <= floor, it is the newest kept version no snapshot needs, and
// `bottom` holds for it (no older data of the key outside the job). What a range tombstone hides from all who
// read goes too (range deletion, K7).
//
// Thread safety: RunCompaction may run on any thread that may wait.   Errors: of source and sink; Cancelled;
//                DataLoss.
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

struct CompactionJob {
  RangeId range;
  Epoch epoch;
  uint64_t job_id = 0;
  std::vector<TableInfo> inputs;
  std::string from;  // only stored keys in [from, to) of the inputs; empty: open
  std::string to;
  std::vector<SequenceNumber> snapshots;  // live ones, ascending
  SequenceNumber floor = 0;               // stable_seq at the start of the job
  // no table or memtable outside the job can hold an older version of its keys
  bool bottom = false;
  int64_t now_ms = 0;              // wall clock for TTL
  std::vector<Uuid> output_uuids;  // reserved ids, used in order; one table each
  // outputs are cut at key boundaries past this, while ids are left; 0 = never
  uint64_t max_table_size_bytes = 0;
  std::vector<std::string> cut_points;  // stored keys at which an output must end (Drange boundaries)
  TableOptions table_options;
  Nanos deadline_ns = 0;  // Now() past which the job gives up; 0 = none
  // in the manifest already: a crash must not bring back what the job drops by them
  RangeTombstonesRef range_tombstones;
  SequenceNumber tombstones_applied = 0;  // outputs hold nothing that range tombstones up to this number hide

  // A deadline travels as the time that is left at `now`: the clock of another host says another time.
  void AppendTo(std::string* dst, Nanos now) const;
  static StatusOr<CompactionJob> Parse(std::string_view* input, Nanos now);
};

struct CompactionResult {
  std::vector<TableInfo> outputs;
  uint64_t bytes_read = 0;
  uint64_t bytes_written = 0;
  uint64_t entries_in = 0;
  uint64_t entries_dropped = 0;
};

// Where a job's bytes come from and go to; both calls may wait.
class CompactionStorage {
 public:
  virtual ~CompactionStorage() = default;
  virtual StatusOr<std::shared_ptr<const TableReader>> OpenTable(const TableInfo& info) = 0;
  // The raw bytes of blocks that follow one another, verified: where there are copies, from one that is no
  // damaged copy (S3).
  virtual StatusOr<std::string> ReadBlocks(const TableInfo& info, std::span<const BlockHandle> blocks) = 0;
  // Takes a table's data while it is built; null: it is wanted whole.
  virtual std::unique_ptr<TableSink> StartTable(const Uuid&) { return nullptr; }
  // Stores a finished table durably, and returns its info with fragments and StoCs filled in.
  virtual StatusOr<TableInfo> WriteTable(TableBuilder::Output output) = 0;
};

// `cancelled` is asked between blocks. Outputs written before an error stay behind (orphans of this job,
// collection N4).
StatusOr<CompactionResult> RunCompaction(const CompactionJob& job, CompactionStorage* storage,
                                         const std::function<bool()>& cancelled);

// K7: the property of a table that range tombstones up to some number were applied to. Absent: 0.
void SetTombstonesApplied(SequenceNumber upto, TableInfo* info);
SequenceNumber TombstonesApplied(const TableInfo& info);
// The table may hold what a range tombstone hides that has a number up to `upto`.
bool MayHoldHidden(const TableInfo& info, const RangeTombstones& tombstones, SequenceNumber upto);

// The rule of which versions are kept, shared by flush and compaction: ask once per entry, in internal key
// order.
class VersionFilter {
 public:
  VersionFilter(std::vector<SequenceNumber> snapshots, SequenceNumber floor, bool bottom, int64_t now_ms,
                RangeTombstonesRef range_tombstones = nullptr);
  bool Keep(const ParsedInternalKey& key, std::string_view value);

 private:
  std::vector<SequenceNumber> snapshots_;
  SequenceNumber floor_;
  bool bottom_;
  int64_t now_ms_;
  RangeTombstonesRef range_tombstones_;
  std::string last_key_;
  size_t last_stripe_;  // of last_key_; entries of one stripe are told apart by no snapshot
};

}  // namespace nova
