#include "stoc/shared_references.h"

#include <optional>

#include "absl/cleanup/cleanup.h"
#include "common/base/failpoint.h"

namespace nova {
namespace {

constexpr uint64_t kListReserveBytes = 4096;  // of a list, on the disk

}  // namespace

Status SharedReferences::Load(std::string_view name) {
  StocFileId file;
  if (!StoreDirectory::ParseReferencesName(name, &file))
    return absl::InvalidArgumentError("not the name of a StoC file's references");
  const auto references = [&]() -> StatusOr<FileReferences> {
    NOVA_ASSIGN_OR_RETURN(const std::string bytes, directory_->ReadReferences(file));
    return FileReferences::Decode(bytes, file);
  }();
  files_->LoadReferences(file, references.ok() ? *references : FileReferences{.all = {}, .unreadable = true});
  return references.status();
}

// In memory first: whoever drops the creator's reference from then on finds the list, and waits for us. What
// fails leaves a reference too many there, never one too few.
Status SharedReferences::AddReferences(RangeId range, Epoch epoch, const std::vector<StocFileId>& files) {
  MutexLock one(&mu_);
  NOVA_RETURN_IF_ERROR(
      directory_->CheckSpace(files.size() * kListReserveBytes, StoreDirectory::Use::kAppend));
  for (const StocFileId& file : files) {
    NOVA_ASSIGN_OR_RETURN(const FileReferences references, files_->AddReference(range, epoch, file));
    NOVA_RETURN_IF_ERROR(directory_->WriteReferences(file, references.Encode(file)));
  }
  return directory_->Sync();
}

Status SharedReferences::DropReferences(RangeId range, Epoch epoch, const std::vector<StocFileId>& files,
                                        uint64_t ended_below) {
  Status first;
  for (const StocFileId& file : files) {
    const Status s = DropReference(range, epoch, ended_below, file);
    if (first.ok() && !absl::IsNotFound(s)) first = s;
  }
  return first;
}

StatusOr<bool> SharedReferences::HealList(const StocFileId& file) {
  MutexLock one(&mu_);
  const std::optional<FileReferences> known = files_->ReferencesOf(file);
  if (!known.has_value() || known->unreadable) return false;
  const auto bytes = directory_->ReadReferencesUncached(file);
  if (bytes.ok() && *bytes == known->Encode(file)) return false;
  if (!bytes.ok() && !absl::IsNotFound(bytes.status()) && !absl::IsDataLoss(bytes.status()))
    return bytes.status();
  NOVA_RETURN_IF_ERROR(directory_->WriteReferences(file, known->Encode(file)));
  NOVA_RETURN_IF_ERROR(directory_->Sync());
  return true;
}

Status SharedReferences::DropReference(RangeId range, Epoch epoch, uint64_t ended_below,
                                       const StocFileId& file) {
  StoredFiles::File unlisted;
  switch (files_->DropUnshared(range, epoch, ended_below, file, &unlisted)) {
    case StoredFiles::Dropped::kNothing:
      return OkStatus();
    case StoredFiles::Dropped::kFile: {
      const Status s = files_->DeleteUnlisted(unlisted);
      files_->FreeName(unlisted);
      return s;
    }
    case StoredFiles::Dropped::kIsShared:
      // A reference has no job: those of this epoch may still be named.
      if (ended_below == 0) return DropSharedReference(range, epoch, file);
      return epoch == Epoch() ? OkStatus() : DropSharedReference(range, Epoch(epoch.value() - 1), file);
  }
  return OkStatus();
}

Status SharedReferences::DropSharedReference(RangeId range, Epoch upto, const StocFileId& file) {
  MutexLock one(&mu_);
  StoredFiles::File unlisted;
  NOVA_ASSIGN_OR_RETURN(const std::optional<FileReferences> left,
                        files_->DropShared(range, upto, file, &unlisted));
  if (!left.has_value()) return OkStatus();
  if (!left->all.empty()) return directory_->WriteReferences(file, left->Encode(file));
  // The list goes last: without it the file would be its creator's again. Then its name is free.
  const absl::Cleanup free = [&] {
    if (unlisted != nullptr) files_->FreeName(unlisted);
  };
  if (unlisted != nullptr) NOVA_RETURN_IF_ERROR(files_->DeleteUnlisted(unlisted));
  NOVA_FP("refs.file_deleted");
  NOVA_RETURN_IF_ERROR(directory_->Sync());
  NOVA_RETURN_IF_ERROR(directory_->DeleteReferences(file));
  return directory_->Sync();
}

}  // namespace nova
