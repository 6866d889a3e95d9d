// The TableStore over StoCs: fragments of a table scattered over them, each in as many copies as its
// placement says (paper section 4.4).
//
// A copy that does not answer, gives too little or fails its checksum is passed over for another one
// (damaged copy, S3), counted (nova_table_*), and told to `damaged`, so that somebody has it written anew
// (Repair).
//
// Copies are made by the StoCs themselves (file_copier.h): the one that is to have a part fetches it from one
// that has it, the one with the shortest queue first. Of the copies that one call asks for, those to
// different StoCs are made side by side. Where every copy of a part is damaged the good blocks of all are
// put together here, and sent.
//
// Thread safety, errors: as TableStore.   Ownership: the StocClient, the metrics and FilesHere outlive it.
#pragma once

#include <functional>
#include <memory>

#include "common/base/executor.h"
#include "common/base/metrics.h"
#include "common/sstable/table_store.h"
#include "stoc/stoc_client.h"

namespace nova {

// The files of the StoC that a table store is part of: its copies are read, written and dropped without a
// message. The calls wait for the disk. Errors: as StocClient's.
class FilesHere {
 public:
  virtual ~FilesHere() = default;
  virtual StocId stoc() const = 0;
  // Fewer bytes than `size` where the file ends.
  virtual StatusOr<std::string> Read(const StocFileId& file, uint64_t offset, uint64_t size) = 0;
  // Durable when it returns OK.
  virtual Status Write(const StocFileId& file, const Creator& creator, std::string_view data) = 0;
  // Best effort.
  virtual void Drop(const std::vector<StocFileId>& files, const Creator& holder) = 0;
};

struct StocTableStoreOptions {
  Nanos write_deadline_ns = 60 * kSecond;  // of WriteTable and Repair; of a copy the same and a second per MB
  Nanos read_deadline_ns = 10 * kSecond;   // of ReadMetadata and ReadBlocks, and at most of FetchBlocks
  // A copy of the table is damaged or gone, and another one is not. Any thread; must not wait.
  std::function<void(const Uuid& table)> damaged = {};
  // Null: the process is no StoC. Of ReadMetadata, ReadBlocks, WriteTable and DropTable; the others are no
  // StoC's.
  FilesHere* here = nullptr;
};

// `xchg_of` maps an Executor of the LTC to its Xchg.
std::unique_ptr<TableStore> NewStocTableStore(StocClient* client, std::function<Xchg*(Executor*)> xchg_of,
                                              const StocTableStoreOptions& options, Metrics* metrics);

}  // namespace nova
