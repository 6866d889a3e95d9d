// SstableStore: where the engine puts tables, and gets blocks back. Mechanism; which StoCs is the caller's
// policy (Placement).
//
// Implementations: over StoCs (here: scatter over fragments, copies); local, straight on a Disk
// (ltc/local_storage.h).
//
// What a read gives has been verified: the checksums of blocks and metadata hold. A copy that does not
// answer, gives too little or fails its checksum is passed over for another one (S3), counted (nova_table_*),
// and told to `damaged`, so that somebody has it written anew (Repair).
//
// Thread safety: all. ReadBlock OnXchg of `on`, and `done` runs there; the others wait (compaction and
//                control threads).
// Errors: Unavailable: no copy answers that may be good (the text names the StoCs); DataLoss: every copy is
//         damaged, short or gone (the text names table, StoCs and what is wrong with each);
//         ResourceExhausted: full; FailedPrecondition: fenced.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "common/base/executor.h"
#include "common/base/metrics.h"
#include "common/base/shared_bytes.h"
#include "common/sstable/table_builder.h"
#include "stoc/protocol.h"
#include "stoc/stoc_client.h"

namespace nova {

// Where one table goes (paper section 4.4): a list of distinct StoCs for each fragment and for the metadata.
struct Placement {
  std::vector<std::vector<StocId>> fragments;  // [i] = the copies of fragment i
  std::vector<StocId> metadata;
};

class SstableStore {
 public:
  virtual ~SstableStore() = default;

  // Takes a table's data while it is built, and goes back to WriteTable with the rest; null: the data is
  // wanted whole.
  virtual std::unique_ptr<TableSink> StartTable(const Uuid&) { return nullptr; }
  // The data of a table where it is in memory anyway (a mapped file); empty: it is not.
  virtual SharedBytes MapData(const TableInfo&) { return {}; }
  // Writes fragments and metadata, all copies in parallel, synced (M2); fills in info.fragments and
  // metadata_stocs.
  virtual StatusOr<TableInfo> WriteTable(TableBuilder::Output output, const Placement& placement,
                                         const Creator& creator) = 0;
  virtual StatusOr<std::string> ReadMetadata(const TableInfo& info) = 0;
  // Blocks that follow one another, as one string. REQUIRES: at least one.
  virtual StatusOr<std::string> ReadBlocks(const TableInfo& info, std::span<const BlockHandle> blocks) = 0;
  using ReadDone = absl::AnyInvocable<void(StatusOr<std::string>)>;
  virtual void ReadBlock(Executor* on, const TableInfo& info, const BlockHandle& handle, Nanos deadline_ns,
                         ReadDone done) = 0;
  // S3: reads every copy of every part that answers, and writes those anew, on their StoCs, that are damaged
  // or gone. The number written. DataLoss: some block has no good copy; what could be healed is.
  virtual StatusOr<int> Repair(const TableInfo& info, const Creator& creator) = 0;
  // M4: `holder`'s range references the tables from now on, durably, on every StoC that has a copy of a part.
  // Their files must be there for as long as this takes: another range references them. After an error some
  // may be referenced.
  virtual Status AddReferences(std::span<const TableInfo> tables, const Creator& holder) = 0;
  // It does not any more; the files go when nobody references them. Best effort: what cannot be reached now
  // is an orphan, which the range's owner collects later (N4).
  virtual void DropTable(const TableInfo& info, const Creator& holder) = 0;
};

struct StocSstableStoreOptions {
  Nanos write_deadline_ns = 60 * kSecond;  // of WriteTable and Repair
  Nanos read_deadline_ns = 10 * kSecond;   // of ReadMetadata and ReadBlocks, and at most of ReadBlock
  // A copy of the table is damaged or gone, and another one is not. Any thread; must not wait.
  std::function<void(const Uuid& table)> damaged;
};

// `xchg_of` maps an Executor of the LTC to its Xchg.
std::unique_ptr<SstableStore> NewStocSstableStore(StocClient* client, std::function<Xchg*(Executor*)> xchg_of,
                                                  const StocSstableStoreOptions& options, Metrics* metrics);

}  // namespace nova
