// Local storage of the engine, straight on a Disk: tables and manifests without StoCs, as the paper's
// one-server set-up.
//
// Thread safety: all.   Ownership: the disk outlives them.   Errors: the disk's.
#pragma once

#include <memory>

#include "common/base/disk.h"
#include "common/base/file_remover.h"
#include "common/sstable/table_store.h"
#include "ltc/engine/manifest.h"

namespace nova {

struct LocalStoreOptions {
  bool map = false;             // readers get mapped data where the disk has it (disk.h says what that risks)
  size_t max_open_files = 512;  // that are kept open; mappings take none
};

// Tables as one file each, data and metadata. ReadBlock reads at once, on the caller's thread: a local page
// cache answers faster than a hand-over costs.
std::unique_ptr<TableStore> NewLocalTableStore(Disk* disk, const LocalStoreOptions& options = {});

std::string LocalTableName(const Uuid& table);
std::string LocalManifestName(const Uuid& file);
// The table or manifest that a file of a local store belongs to; false: it belongs to none.
bool LocalFileUuid(const std::string& name, Uuid* uuid);

// Manifest files "manifest-<uuid>", the installed one named by CURRENT.
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
  FileRemover remover_;
};

}  // namespace nova
