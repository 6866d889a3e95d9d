#include "ltc/local_storage.h"

namespace nova {
namespace {

std::string DataPath(const TableInfo& info) { return info.uuid.ToString() + ".data"; }
std::string MetadataPath(const TableInfo& info) { return info.uuid.ToString() + ".meta"; }
std::string ManifestPath(const Uuid& file) { return "manifest-" + file.ToString(); }

Status WriteWhole(Disk* disk, const std::string& path, std::string_view bytes) {
  NOVA_ASSIGN_OR_RETURN(const auto file, disk->Create(path));
  NOVA_RETURN_IF_ERROR(file->Write(0, bytes));
  return file->Sync();
}

StatusOr<std::string> ReadPart(Disk* disk, const std::string& path, uint64_t offset, size_t size) {
  NOVA_ASSIGN_OR_RETURN(const auto file, disk->Open(path, /*writable=*/false));
  std::string bytes(size, '\0');
  NOVA_RETURN_IF_ERROR(file->Read(offset, size, bytes.data()));
  return bytes;
}

class LocalSstableStore : public SstableStore {
 public:
  explicit LocalSstableStore(Disk* disk) : disk_(disk) {}
  StatusOr<TableInfo> WriteTable(TableBuilder::Output output, const Placement&, const Creator&) override {
    NOVA_RETURN_IF_ERROR(WriteWhole(disk_, DataPath(output.info), output.data));
    NOVA_RETURN_IF_ERROR(WriteWhole(disk_, MetadataPath(output.info), output.metadata));
    NOVA_RETURN_IF_ERROR(disk_->SyncDirectory(""));
    return std::move(output.info);
  }
  StatusOr<std::string> ReadMetadata(const TableInfo& info) override {
    return ReadPart(disk_, MetadataPath(info), 0, info.metadata_size);
  }
  StatusOr<std::string> ReadData(const TableInfo& info, uint64_t offset, size_t size) override {
    return ReadPart(disk_, DataPath(info), offset, size);
  }
  void ReadBlock(Executor*, const TableInfo& info, const BlockHandle& handle, Nanos, ReadDone done) override {
    done(ReadData(info, handle.offset, handle.size));
  }
  void DeleteTable(const TableInfo& info) override {
    disk_->Delete(DataPath(info)).IgnoreError();
    disk_->Delete(MetadataPath(info)).IgnoreError();
  }

 private:
  Disk* const disk_;
};

}  // namespace

std::unique_ptr<SstableStore> NewLocalSstableStore(Disk* disk) { return std::make_unique<LocalSstableStore>(disk); }

bool LocalFileUuid(const std::string& name, Uuid* uuid) {
  const std::string_view view = name, manifest = "manifest-";
  if (view.substr(0, manifest.size()) == manifest) return Uuid::Parse(view.substr(manifest.size()), uuid);
  const size_t dot = view.find('.');
  return (view.substr(dot == view.npos ? view.size() : dot) == ".data" || view.substr(dot == view.npos ? view.size() : dot) == ".meta") &&
         Uuid::Parse(view.substr(0, dot), uuid);
}

StatusOr<ManifestGroup> LocalManifestStorage::Create(std::string_view first_record, const Uuid& file) {
  NOVA_RETURN_IF_ERROR(WriteWhole(disk_, ManifestPath(file), first_record));
  NOVA_RETURN_IF_ERROR(disk_->SyncDirectory(""));
  return ManifestGroup{file, {}};
}

Status LocalManifestStorage::Append(const ManifestGroup& group, uint64_t offset, std::string_view record) {
  NOVA_ASSIGN_OR_RETURN(const auto file, disk_->Open(ManifestPath(group.file), /*writable=*/true));
  NOVA_RETURN_IF_ERROR(file->Write(offset, record));
  return file->Sync();
}

Status LocalManifestStorage::Install(const ManifestGroup& group) {
  disk_->Delete("CURRENT.new").IgnoreError();
  NOVA_RETURN_IF_ERROR(WriteWhole(disk_, "CURRENT.new", group.file.ToString()));
  NOVA_RETURN_IF_ERROR(disk_->Rename("CURRENT.new", "CURRENT"));
  return disk_->SyncDirectory("");
}

void LocalManifestStorage::Delete(const ManifestGroup& group) { disk_->Delete(ManifestPath(group.file)).IgnoreError(); }

StatusOr<std::vector<VersionEdit>> LocalManifestStorage::ReadInstalled() {
  auto current = disk_->Open("CURRENT", /*writable=*/false);
  if (absl::IsNotFound(current.status())) return std::vector<VersionEdit>{};
  NOVA_RETURN_IF_ERROR(current.status());
  std::string text(32, '\0');
  NOVA_RETURN_IF_ERROR((*current)->Read(0, text.size(), text.data()));
  Uuid uuid;
  if (!Uuid::Parse(text, &uuid)) return absl::DataLossError("CURRENT does not name a manifest");
  NOVA_ASSIGN_OR_RETURN(const auto file, disk_->Open(ManifestPath(uuid), /*writable=*/false));
  NOVA_ASSIGN_OR_RETURN(const uint64_t size, file->Size());
  std::string bytes(size, '\0');
  NOVA_RETURN_IF_ERROR(file->Read(0, size, bytes.data()));
  return Manifest::Parse(uuid, bytes);
}

}  // namespace nova
