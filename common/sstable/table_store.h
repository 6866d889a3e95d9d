// TableStore: where the engine puts tables and gets blocks back; a seam. It is mechanism: the caller chooses
// the StoCs (Placement).
//
// Implementations: over StoCs, with fragments scattered and copied (stoc/stoc_table_store.h); straight on a
// Disk (ltc/embedded/local_storage.h). Bytes that a read returns have been verified: the checksums of blocks
// and metadata hold.
//
// Thread safety: all. FetchBlocks and FetchMetadata are called on the executor `on`, and `done` runs there;
//   the others wait, so they belong on compaction, flush and control threads.
// Ownership: the store outlives everything it has begun. Arguments are the caller's during a call.
// Errors: Unavailable: no copy answers that may be good. DataLoss: every copy is damaged, short or gone.
//   ResourceExhausted: full. FailedPrecondition: fenced (revocation, F1). The text names the table and the
//   fault of each copy.
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

// Where one table goes (paper section 4.4): distinct StoCs for the copies of each fragment and of the
// metadata.
struct Placement {
  std::vector<std::vector<StocId>> fragments;  // [i] = the copies of fragment i
  std::vector<StocId> metadata;
};

// For how long a table is likely to be read.
enum class TableLife {
  kShort,  // a flush's: compactions replace it soon
  kLong,   // a compaction's
};

class TableStore {
 public:
  virtual ~TableStore() = default;

  // Takes a table's data while it is built, and comes back to WriteTable with the rest. Null: the data is
  // wanted whole.
  virtual std::unique_ptr<TableSink> StartTable(const Uuid&, TableLife) { return nullptr; }
  // The data of a table if it is in memory anyway (a mapped file); else empty.
  virtual SharedBytes MapData(const TableInfo&) { return {}; }
  // Writes fragments and metadata, all copies in parallel, synced (edit first, M2). Returns the info with
  // fragments and metadata_stocs.
  virtual StatusOr<TableInfo> WriteTable(TableBuilder::Output output, const Placement& placement,
                                         const Creator& creator) = 0;
  // The metadata blob, from any good copy.
  virtual StatusOr<std::string> ReadMetadata(const TableInfo& info) = 0;
  // The bytes of blocks that follow one another, at least one.
  virtual StatusOr<std::string> ReadBlocks(const TableInfo& info, std::span<const BlockHandle> blocks) = 0;
  using ReadDone = absl::AnyInvocable<void(StatusOr<std::string>)>;
  // Reads blocks that follow one another: the first one, and as many of the others as one read has. Does not
  // wait, but where local files answer at once. Calls `done` once, with whole blocks.
  virtual void FetchBlocks(Executor* on, const TableInfo& info, std::vector<BlockHandle> blocks,
                           Nanos deadline_ns, ReadDone done) = 0;
  // ReadMetadata, as FetchBlocks does it.
  virtual void FetchMetadata(Executor* on, const TableInfo& info, Nanos deadline_ns, ReadDone done) = 0;
  // Heals a damaged copy (S3): reads every copy of every part that answers, and writes those anew on their
  // StoCs that are damaged or gone. Returns the number written. DataLoss: some block has no good copy; the
  // rest is healed.
  virtual StatusOr<int> Repair(const TableInfo& info, const Creator& creator) = 0;
  // Makes the copies, durably, each from a good copy that its StoC fetches from another one (rebuild, S5);
  // where every copy of a part is damaged somewhere, from the good blocks of all. `creator` references them;
  // its job is how they are collected if no edit names them. After an error some may be there. The errors of
  // Repair, and Unimplemented: this store has no StoCs.
  virtual Status MakeCopies(const TableInfo& info, std::span<const PartCopy> copies,
                            const Creator& creator) = 0;
  // From now on `holder`'s range references the tables (shared table, M4), durably, on every StoC with a copy
  // of a part. Another range must reference their files meanwhile. After an error some may be referenced.
  virtual Status AddReferences(std::span<const TableInfo> tables, const Creator& holder) = 0;
  // `holder`'s range references the table no longer; its files go when nobody does. Best effort: files that
  // cannot be reached are orphans, which the range's owner collects later (collection, N4).
  virtual void DropTable(const TableInfo& info, const Creator& holder) = 0;
};

}  // namespace nova
