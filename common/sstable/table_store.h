// TableStore: where the engine puts tables, and gets blocks back; a seam. It is mechanism: which StoCs a
// table goes to is the caller's policy (Placement).
//
// Implementations: over StoCs, fragments scattered, with copies (stoc/stoc_table_store.h); straight on a Disk
// (ltc/embedded/local_storage.h).
//
// What a read gives has been verified: the checksums of blocks and metadata hold.
//
// Thread safety: all. ReadBlock runs on the executor `on`, and so does `done`; the others wait, so they are
//                called on compaction, flush and control threads.
// Ownership:     the store outlives what it started; arguments are the caller's during a call.
// Errors:        Unavailable: no copy answers that may be good; DataLoss: every copy is damaged, short or
//                gone; ResourceExhausted: full; FailedPrecondition: fenced (revocation, F1). The text names
//                the table and what is wrong with each copy.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "common/base/clock.h"
#include "common/base/executor.h"
#include "common/base/ids.h"
#include "common/base/shared_bytes.h"
#include "common/base/status.h"
#include "common/sstable/table_builder.h"

namespace nova {

// Where one table goes (paper section 4.4): a list of distinct StoCs for each fragment and for the metadata.
struct Placement {
  std::vector<std::vector<StocId>> fragments;  // [i] = the copies of fragment i
  std::vector<StocId> metadata;
};

class TableStore {
 public:
  virtual ~TableStore() = default;

  // Takes a table's data while it is built, and goes back to WriteTable with the rest; null: the data is
  // wanted whole.
  virtual std::unique_ptr<TableSink> StartTable(const Uuid&) { return nullptr; }
  // The data of a table where it is in memory anyway (a mapped file); empty: it is not.
  virtual SharedBytes MapData(const TableInfo&) { return {}; }
  // Writes fragments and metadata, all copies in parallel, synced (edit first, M2); fills in info.fragments
  // and metadata_stocs.
  virtual StatusOr<TableInfo> WriteTable(TableBuilder::Output output, const Placement& placement,
                                         const Creator& creator) = 0;
  virtual StatusOr<std::string> ReadMetadata(const TableInfo& info) = 0;
  // Blocks that follow one another, as one string. REQUIRES: at least one.
  virtual StatusOr<std::string> ReadBlocks(const TableInfo& info, std::span<const BlockHandle> blocks) = 0;
  using ReadDone = absl::AnyInvocable<void(StatusOr<std::string>)>;
  virtual void ReadBlock(Executor* on, const TableInfo& info, const BlockHandle& handle, Nanos deadline_ns,
                         ReadDone done) = 0;
  // Damaged copy (S3): reads every copy of every part that answers, and writes those anew, on their StoCs,
  // that are damaged or gone. The number written. DataLoss: some block has no good copy; what could be healed
  // is.
  virtual StatusOr<int> Repair(const TableInfo& info, const Creator& creator) = 0;
  // Shared table (M4): `holder`'s range references the tables from now on, durably, on every StoC that has a
  // copy of a part. Their files must be there for as long as this takes: another range references them. After
  // an error some may be referenced.
  virtual Status AddReferences(std::span<const TableInfo> tables, const Creator& holder) = 0;
  // It does not any more; the files go when nobody references them. Best effort: what cannot be reached now
  // is an orphan, which the range's owner collects later (collection, N4).
  virtual void DropTable(const TableInfo& info, const Creator& holder) = 0;
};

}  // namespace nova
