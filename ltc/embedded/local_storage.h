// Local storage of the engine, straight on a Disk: tables and manifests without StoCs, as in the paper's
// set-up with one server.
//
// Thread safety: all.
// Ownership: the disk outlives them.
// Errors: the disk's.
#pragma once

#include <memory>

#include "common/base/disk.h"
#include "common/base/file_remover.h"
#include "common/sstable/table_store.h"
#include "ltc/engine/manifest.h"

namespace nova {

struct LocalStoreOptions {
  bool map = false;             // readers get mapped data where the disk has it (disk.h tells the risk)
  size_t max_open_files = 512;  // files kept open; mappings take none
};

// Keeps each table as one file, data and metadata. FetchBlocks reads on the caller's thread, and waits: a
// page cache answers faster than a hand-over costs.
std::unique_ptr<TableStore> NewLocalTableStore(Disk* disk, const LocalStoreOptions& options = {});

// "<uuid>.sst".
std::string LocalTableName(const Uuid& table);
std::string LocalManifestName(const Uuid& file);  // "manifest-<uuid>"
// The table or manifest to which a file belongs. False: it belongs to none.
bool LocalFileUuid(const std::string& name, Uuid* uuid);

// Manifest files; CURRENT names the installed one.
class LocalManifestStorage : public ManifestStorage {
 public:
  explicit LocalManifestStorage(Disk* disk) : disk_(disk), remover_(disk) {}
  StatusOr<ManifestGroup> Create(std::string_view first_record, const Uuid& file) override;
  Status Append(const ManifestGroup& group, uint64_t offset, std::string_view record) override;
  Status Install(const ManifestGroup& group) override;
  void Delete(const ManifestGroup& group) override;
  // The edits of the installed manifest; empty: there is none yet.
  StatusOr<std::vector<VersionEdit>> ReadInstalled();

 private:
  Disk* const disk_;
  FileRemover remover_;  // deletes manifests that are replaced
};

}  // namespace nova
