#include "stoc/store_directory.h"

#include "absl/strings/numbers.h"
#include "common/base/failpoint.h"

namespace nova {
namespace {

constexpr char kFilesDirectory[] = "files";
constexpr std::string_view kTemporarySuffix = ".tmp";
constexpr std::string_view kReferencesSuffix = ".refs";
constexpr size_t kMaxReferencesBytes = 1 << 20;

StatusOr<std::string> ReadAll(DiskFile* file, const std::string& path, size_t most) {
  NOVA_ASSIGN_OR_RETURN(const uint64_t size, file->Size());
  if (size > most) return absl::DataLossError(StrCat(path, ": ", size, " bytes"));
  std::string bytes(size, '\0');
  NOVA_RETURN_IF_ERROR(file->Read(0, bytes.size(), bytes.data()));
  return bytes;
}

}  // namespace

StatusOr<std::string> ReadSmallFile(Disk* disk, const std::string& path, size_t most) {
  NOVA_ASSIGN_OR_RETURN(const auto file, disk->Open(path, /*writable=*/false));
  return ReadAll(file.get(), path, most);
}

StatusOr<std::string> ReadSmallFileUncached(Disk* disk, const std::string& path, size_t most) {
  NOVA_ASSIGN_OR_RETURN(const auto file, disk->OpenUncached(path));
  return ReadAll(file.get(), path, most);
}

Status ReplaceSmallFile(Disk* disk, const std::string& path, const std::string& temporary,
                        std::string_view bytes) {
  const Status removed = disk->Delete(temporary);
  if (!removed.ok() && !absl::IsNotFound(removed)) return removed;
  {
    NOVA_ASSIGN_OR_RETURN(const auto file, disk->Create(temporary));
    NOVA_RETURN_IF_ERROR(file->Write(0, bytes));
    NOVA_RETURN_IF_ERROR(file->Sync());
  }
  NOVA_RETURN_IF_ERROR(disk->Rename(temporary, path));
  return disk->SyncDirectory("");
}

StoreDirectory::StoreDirectory(Disk* disk, uint64_t reserve_bytes, size_t max_open_files, Metrics* metrics)
    : disk_(disk),
      reserve_bytes_(reserve_bytes),
      bytes_written_(metrics->counter("nova_stoc_disk_bytes_total{op=\"write\"}")),
      no_space_(metrics->counter("nova_stoc_no_space_total")),
      open_files_(disk, max_open_files) {}

StatusOr<std::vector<std::string>> StoreDirectory::Clean() {
  NOVA_RETURN_IF_ERROR(disk_->MakeDirectory(kFilesDirectory));
  NOVA_RETURN_IF_ERROR(disk_->SyncDirectory(""));
  NOVA_ASSIGN_OR_RETURN(const std::vector<std::string> names, disk_->List(kFilesDirectory));
  std::vector<std::string> finished;
  for (const std::string& name : names) {
    if (name.ends_with(kTemporarySuffix)) {
      NOVA_RETURN_IF_ERROR(disk_->Delete(StrCat(kFilesDirectory, "/", name)));
    } else {
      finished.push_back(name);
    }
  }
  return finished;
}

// --- names

bool StoreDirectory::ParseName(std::string_view name, StocFileId* file) {
  if (name.size() < 34 || name[32] != '.') return false;
  const std::string_view part = name.substr(33);
  return Uuid::Parse(name.substr(0, 32), &file->owner) &&
         absl::SimpleAtoi(absl::string_view(part.data(), part.size()), &file->part) &&
         file->ToString() == name;
}

bool StoreDirectory::IsReferencesName(std::string_view name) { return name.ends_with(kReferencesSuffix); }

bool StoreDirectory::ParseReferencesName(std::string_view name, StocFileId* file) {
  return IsReferencesName(name) && ParseName(name.substr(0, name.size() - kReferencesSuffix.size()), file);
}

std::string StoreDirectory::PathOf(const StocFileId& file) {
  return StrCat(kFilesDirectory, "/", file.ToString());
}

std::string StoreDirectory::ReferencesPathOf(const StocFileId& file) {
  return StrCat(PathOf(file), std::string(kReferencesSuffix));
}

std::string StoreDirectory::TemporaryFor(const std::string& path) {
  return StrCat(path, ".", next_temporary_.fetch_add(1), std::string(kTemporarySuffix));
}

// --- space

uint64_t StoreDirectory::free_bytes() const {
  const auto free = disk_->FreeBytes();
  return free.ok() ? *free : 0;
}

Status StoreDirectory::CheckSpace(uint64_t bytes, Use use) {
  NOVA_ASSIGN_OR_RETURN(const uint64_t free, disk_->FreeBytes());
  const uint64_t reserve = use == Use::kNewFile ? reserve_bytes_ : reserve_bytes_ / 4;
  const uint64_t needed = bytes + writing_bytes_.load() + reserve;
  if (free >= needed) return OkStatus();
  no_space_->Add();
  return absl::ResourceExhaustedError(StrCat("the disk is full: ", free, " bytes free, ", needed, " needed"));
}

void StoreDirectory::NoteGrowth(uint64_t growth, uint64_t written) {
  stored_bytes_ += growth;
  bytes_written_->Add(written);
}

// --- files

StatusOr<StoreDirectory::Handle> StoreDirectory::CreateDurably(const FileHeader& header,
                                                               std::string_view data) {
  const std::string path = PathOf(header.file);
  const std::string temporary = TemporaryFor(path);
  const uint64_t bytes = data.size() + kFileHeaderBytes;
  Handle handle;
  bool renamed = false;
  const Status status = [&]() -> Status {
    const Writing writing(this, bytes);
    NOVA_ASSIGN_OR_RETURN(handle, disk_->Create(temporary));
    NOVA_RETURN_IF_ERROR(handle->Write(0, header.Encode()));
    NOVA_RETURN_IF_ERROR(handle->Write(kFileHeaderBytes, data));
    NOVA_FP("stoc.file_written");
    NOVA_RETURN_IF_ERROR(handle->Sync());
    NOVA_FP("stoc.file_synced");
    NOVA_RETURN_IF_ERROR(disk_->Rename(temporary, path));
    renamed = true;
    NOVA_FP("stoc.file_renamed");
    return disk_->SyncDirectory(kFilesDirectory);
  }();
  if (!status.ok()) {
    if (handle != nullptr) disk_->Delete(renamed ? path : temporary).IgnoreError();
    if (renamed) open_files_.Drop(path);
    if (absl::IsResourceExhausted(status)) no_space_->Add();
    return status;
  }
  NoteGrowth(bytes, bytes);
  return handle;
}

StatusOr<StoreDirectory::Handle> StoreDirectory::OpenApart(const StocFileId& file, bool writable) {
  NOVA_ASSIGN_OR_RETURN(Handle handle, disk_->Open(PathOf(file), writable));
  return handle;
}

StatusOr<StoreDirectory::Handle> StoreDirectory::OpenUncached(const StocFileId& file) {
  NOVA_ASSIGN_OR_RETURN(Handle handle, disk_->OpenUncached(PathOf(file)));
  return handle;
}

Status StoreDirectory::Remove(const StocFileId& file) {
  const std::string path = PathOf(file);
  const Status deleted = disk_->Delete(path);
  open_files_.Drop(path);
  return deleted;
}

Status StoreDirectory::Delete(const StocFileId& file, uint64_t bytes) {
  const Status removed = Remove(file);
  if (removed.ok() || absl::IsNotFound(removed)) NoteGone(bytes);
  return removed;
}

Status StoreDirectory::Sync() { return disk_->SyncDirectory(kFilesDirectory); }

// --- lists of references

StatusOr<std::string> StoreDirectory::ReadReferences(const StocFileId& file) {
  return ReadSmallFile(disk_, ReferencesPathOf(file), kMaxReferencesBytes);
}

StatusOr<std::string> StoreDirectory::ReadReferencesUncached(const StocFileId& file) {
  return ReadSmallFileUncached(disk_, ReferencesPathOf(file), kMaxReferencesBytes);
}

Status StoreDirectory::WriteReferences(const StocFileId& file, std::string_view bytes) {
  const std::string path = ReferencesPathOf(file);
  const std::string temporary = TemporaryFor(path);
  const Status status = [&]() -> Status {
    NOVA_ASSIGN_OR_RETURN(const auto handle, disk_->Create(temporary));
    NOVA_RETURN_IF_ERROR(handle->Write(0, bytes));
    NOVA_RETURN_IF_ERROR(handle->Sync());
    NOVA_FP("refs.list_written");
    return disk_->Rename(temporary, path);
  }();
  if (!status.ok()) {
    disk_->Delete(temporary).IgnoreError();
    return status;
  }
  NOVA_FP("refs.list_renamed");
  return OkStatus();
}

Status StoreDirectory::DeleteReferences(const StocFileId& file) {
  return disk_->Delete(ReferencesPathOf(file));
}

}  // namespace nova
