// SstableStore: where the engine puts tables, and gets blocks back. Mechanism; which StoCs is the caller's policy (Placement).
//
// Implementations: over StoCs (here: scatter over fragments, copies, reads that go to another copy while a StoC is down);
// local, straight on a Disk (ltc/local_sstable_store.h).
//
// Thread safety: all. ReadBlock OnXchg of `on`, and `done` runs there; the others wait (compaction and control threads).
// Errors: Unavailable: no copy answers (the text names the StoCs); DataLoss: all copies are damaged or shorter than they were;
//         ResourceExhausted: full; FailedPrecondition: fenced.
//
// What is checked here: that a copy answers in time, with as many bytes as asked for. Those are errors that switch to another
// copy. Checksums of blocks and of the metadata are the reader's (common/sstable): a copy whose bytes are damaged is found
// there, and not yet read again from elsewhere (S3).
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "common/base/executor.h"
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

  // Takes a table's data while it is built, and goes back to WriteTable with the rest; null: the data is wanted whole.
  virtual std::unique_ptr<TableSink> StartTable(const Uuid&) { return nullptr; }
  // The data of a table where it is in memory anyway (a mapped file); empty: it is not.
  virtual SharedBytes MapData(const TableInfo&) { return {}; }
  // Writes fragments and metadata, all copies in parallel, synced (M2); fills in info.fragments and metadata_stocs.
  virtual StatusOr<TableInfo> WriteTable(TableBuilder::Output output, const Placement& placement, const Creator& creator) = 0;
  virtual StatusOr<std::string> ReadMetadata(const TableInfo& info) = 0;
  virtual StatusOr<std::string> ReadData(const TableInfo& info, uint64_t offset, size_t size) = 0;
  using ReadDone = absl::AnyInvocable<void(StatusOr<std::string>)>;
  virtual void ReadBlock(Executor* on, const TableInfo& info, const BlockHandle& handle, Nanos deadline_ns, ReadDone done) = 0;
  // Best effort: what cannot be reached now is an orphan and is collected later (N4).
  virtual void DeleteTable(const TableInfo& info) = 0;
};

struct StocSstableStoreOptions {
  Nanos write_deadline_ns = 60 * kSecond;  // of WriteTable
  Nanos read_deadline_ns = 10 * kSecond;   // of ReadMetadata and ReadData, and at most of ReadBlock
};

// `xchg_of` maps an Executor of the LTC to its Xchg.
std::unique_ptr<SstableStore> NewStocSstableStore(StocClient* client, std::function<Xchg*(Executor*)> xchg_of,
                                                  const StocSstableStoreOptions& options = {});

}  // namespace nova
