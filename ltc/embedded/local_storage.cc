#include "ltc/embedded/local_storage.h"

#include <algorithm>

#include "common/base/failpoint.h"
#include "common/base/open_files.h"
#include "common/sstable/table_check.h"

namespace nova {

// Data, then metadata.
std::string LocalTableName(const Uuid& table) { return table.ToString() + ".sst"; }
std::string LocalManifestName(const Uuid& file) { return "manifest-" + file.ToString(); }

namespace {

constexpr size_t kUuidText = 32;

Status WriteWhole(Disk* disk, const std::string& path, std::string_view bytes) {
  NOVA_ASSIGN_OR_RETURN(const auto file, disk->Create(path));
  NOVA_RETURN_IF_ERROR(file->Write(0, bytes));
  return file->Sync();
}

// Of a file that something names: missing or short, it is damaged.
Status Named(const Status& s) {
  return absl::IsNotFound(s) || absl::IsOutOfRange(s) ? absl::DataLossError(s.message()) : s;
}

StatusOr<std::string> ReadPart(DiskFile* file, uint64_t offset, size_t size) {
  std::string bytes(size, '\0');
  NOVA_RETURN_IF_ERROR(Named(file->Read(offset, size, bytes.data())));
  return bytes;
}

// A table's file while it is being built; deleted unless it was finished.
class LocalSink : public TableSink {
 public:
  LocalSink(Disk* disk, FileRemover* remover, const Uuid& table, size_t step_bytes)
      : disk_(disk), remover_(remover), path_(LocalTableName(table)), step_bytes_(step_bytes) {
    status_ = remover->CheckRoom();
    if (!status_.ok()) return;
    auto file = disk->Create(path_);
    status_ = file.status();
    if (file.ok()) file_ = *std::move(file);
  }
  ~LocalSink() override {
    const bool made = file_ != nullptr;
    file_ = nullptr;
    if (made && !finished_) remover_->Delete(path_);
  }
  size_t step_bytes() const override { return step_bytes_; }
  void Append(std::string_view data) override {
    if (status_.ok()) status_ = file_->Write(end_, data);
    end_ += data.size();
  }
  Status Finish() {
    NOVA_RETURN_IF_ERROR(status_);
    NOVA_FP("table.written");
    NOVA_RETURN_IF_ERROR(file_->Sync());
    NOVA_FP("table.synced");
    NOVA_RETURN_IF_ERROR(disk_->SyncDirectory(""));
    NOVA_FP("table.stored");
    finished_ = true;
    return OkStatus();
  }

 private:
  Disk* const disk_;
  FileRemover* const remover_;
  const std::string path_;
  const size_t step_bytes_;
  std::unique_ptr<DiskFile> file_;
  Status status_;
  uint64_t end_ = 0;
  bool finished_ = false;
};

class LocalTableStore : public TableStore {
 public:
  LocalTableStore(Disk* disk, const LocalStoreOptions& options)
      : disk_(disk), map_(options.map), remover_(disk), open_files_(disk, options.max_open_files) {}
  // A flush's steps are small, for its tables are gone before huge pages pay, and so are those of tables that
  // are read through a cache: a slow disk would serve nothing else for as long as a step takes.
  std::unique_ptr<TableSink> StartTable(const Uuid& table, TableLife life) override {
    const bool huge = life == TableLife::kLong && map_ && disk_->Maps();
    return std::make_unique<LocalSink>(disk_, &remover_, table,
                                       huge ? TableSink::kHugeStepBytes : TableSink::kStepBytes);
  }
  StatusOr<TableInfo> WriteTable(TableBuilder::Output output, const Placement&, const Creator&) override {
    if (output.sink == nullptr) output.sink = StartTable(output.info.uuid, TableLife::kShort);
    auto* sink = static_cast<LocalSink*>(output.sink.get());
    sink->Append(output.data);
    sink->Append(output.metadata);
    NOVA_RETURN_IF_ERROR(sink->Finish());
    return std::move(output.info);
  }
  SharedBytes MapData(const TableInfo& info) override {
    if (!map_ || info.compression != 0) return {};
    auto file = disk_->Open(LocalTableName(info.uuid), /*writable=*/false);
    if (!file.ok()) return {};
    auto bytes = (*file)->Map(info.data_size);
    return bytes.ok() ? *std::move(bytes) : SharedBytes();
  }
  StatusOr<std::string> ReadMetadata(const TableInfo& info) override {
    NOVA_ASSIGN_OR_RETURN(std::string bytes, Read(info, info.data_size, info.metadata_size));
    NOVA_RETURN_IF_ERROR(CheckRawMetadata(info, bytes).status());
    return bytes;
  }
  StatusOr<std::string> ReadBlocks(const TableInfo& info, std::span<const BlockHandle> blocks) override {
    const uint64_t begin = blocks.front().offset;
    NOVA_ASSIGN_OR_RETURN(std::string bytes,
                          Read(info, begin, blocks.back().offset + blocks.back().size - begin));
    for (const BlockHandle& b : blocks) {
      NOVA_RETURN_IF_ERROR(
          CheckRawBlock(info.uuid, b, std::string_view(bytes).substr(b.offset - begin, b.size)));
    }
    return bytes;
  }
  void FetchBlocks(Executor*, const TableInfo& info, std::vector<BlockHandle> blocks, Nanos,
                   ReadDone done) override {
    auto bytes = ReadBlocks(info, blocks);
    if (!bytes.ok() && blocks.size() > 1) bytes = ReadBlocks(info, {blocks.data(), 1});
    done(std::move(bytes));
  }
  void FetchMetadata(Executor*, const TableInfo& info, Nanos, ReadDone done) override {
    done(ReadMetadata(info));
  }
  StatusOr<int> Repair(const TableInfo&, const Creator&) override { return 0; }  // there is one copy
  Status MakeCopies(const TableInfo&, std::span<const PartCopy>, const Creator&) override {
    return absl::UnimplementedError("tables of an embedded database have one copy");
  }
  // whoever made the links did
  Status AddReferences(std::span<const TableInfo>, const Creator&) override { return OkStatus(); }
  void DropTable(const TableInfo& info, const Creator&) override {
    const std::string name = LocalTableName(info.uuid);
    remover_.Delete(name);
    open_files_.Drop(name);
    NOVA_FP_VOID("table.deleted");
  }

 private:
  StatusOr<std::string> Read(const TableInfo& info, uint64_t offset, size_t size) {
    const auto file = open_files_.Open(LocalTableName(info.uuid));
    NOVA_RETURN_IF_ERROR(Named(file.status()));
    return ReadPart(file->get(), offset, size);
  }

  Disk* const disk_;
  const bool map_;
  FileRemover remover_;  // outlives sinks
  OpenFiles open_files_;
};

}  // namespace

std::unique_ptr<TableStore> NewLocalTableStore(Disk* disk, const LocalStoreOptions& options) {
  return std::make_unique<LocalTableStore>(disk, options);
}

bool LocalFileUuid(const std::string& name, Uuid* uuid) {
  const std::string_view view = name, manifest = "manifest-";
  if (view.substr(0, manifest.size()) == manifest) return Uuid::Parse(view.substr(manifest.size()), uuid);
  const size_t dot = view.find('.');
  return dot != view.npos && view.substr(dot) == ".sst" && Uuid::Parse(view.substr(0, dot), uuid);
}

StatusOr<ManifestGroup> LocalManifestStorage::Create(std::string_view first_record, const Uuid& file) {
  NOVA_RETURN_IF_ERROR(remover_.CheckRoom());
  Status s = WriteWhole(disk_, LocalManifestName(file), first_record);
  if (s.ok()) s = NOVA_FP_STATUS("manifest.created");
  if (s.ok()) s = disk_->SyncDirectory("");
  if (s.ok()) return ManifestGroup{file, {}};
  remover_.Delete(LocalManifestName(file));
  return s;
}

Status LocalManifestStorage::Append(const ManifestGroup& group, uint64_t offset, std::string_view record) {
  NOVA_ASSIGN_OR_RETURN(const auto file, disk_->Open(LocalManifestName(group.file), /*writable=*/true));
  // Behind the acknowledged records lies what an append has left that failed: more than this record covers,
  // perhaps (bad file, S1).
  NOVA_ASSIGN_OR_RETURN(const uint64_t size, file->Size());
  if (size != offset)
    return absl::UnavailableError(
        StrCat(LocalManifestName(group.file), " has ", size, " bytes, not ", offset));
  NOVA_RETURN_IF_ERROR(file->Write(offset, record));
  NOVA_FP("manifest.append_written");
  NOVA_RETURN_IF_ERROR(file->Sync());
  NOVA_FP("manifest.append_synced");
  return OkStatus();
}

Status LocalManifestStorage::Install(const ManifestGroup& group) {
  disk_->Delete("CURRENT.new").IgnoreError();  // what an attempt that failed has left
  NOVA_RETURN_IF_ERROR(WriteWhole(disk_, "CURRENT.new", group.file.ToString()));
  NOVA_FP("manifest.current_written");
  NOVA_RETURN_IF_ERROR(disk_->Rename("CURRENT.new", "CURRENT"));
  NOVA_FP("manifest.current_renamed");
  NOVA_RETURN_IF_ERROR(disk_->SyncDirectory(""));
  NOVA_FP("manifest.installed");
  return OkStatus();
}

void LocalManifestStorage::Delete(const ManifestGroup& group) {
  remover_.Delete(LocalManifestName(group.file));
}

StatusOr<std::vector<VersionEdit>> LocalManifestStorage::ReadInstalled() {
  NOVA_ASSIGN_OR_RETURN(const auto names, disk_->List(""));
  if (std::find(names.begin(), names.end(), "CURRENT") == names.end()) {
    // Tables and logs come after the first CURRENT: without it they would be taken for leftovers.
    const auto data = std::find_if(names.begin(), names.end(), [](const std::string& n) {
      return n.ends_with(".sst") || n.starts_with("log-");
    });
    if (data != names.end())
      return absl::DataLossError(StrCat("CURRENT is missing, though ", *data, " is there"));
    return std::vector<VersionEdit>{};
  }
  const auto current = disk_->Open("CURRENT", /*writable=*/false);
  NOVA_RETURN_IF_ERROR(Named(current.status()));
  NOVA_ASSIGN_OR_RETURN(const std::string text, ReadPart(current->get(), 0, kUuidText));
  Uuid uuid;
  if (!Uuid::Parse(text, &uuid)) return absl::DataLossError("CURRENT does not name a manifest");
  const auto file = disk_->Open(LocalManifestName(uuid), /*writable=*/false);
  NOVA_RETURN_IF_ERROR(Named(file.status()));
  NOVA_ASSIGN_OR_RETURN(const uint64_t size, (*file)->Size());
  std::string bytes(size, '\0');
  NOVA_RETURN_IF_ERROR((*file)->Read(0, size, bytes.data()));
  return Manifest::Recover(uuid, {{"the local disk", std::move(bytes)}});
}

}  // namespace nova
