#include "ltc/embedded/db_identity.h"

#include <algorithm>
#include <cstdio>
#include <vector>

#include "common/base/crc32c.h"
#include "ltc/embedded/local_storage.h"

namespace nova {
namespace {

constexpr uint32_t kFormat = 1;
constexpr char kNewIdentityPath[] = "IDENTITY.new";
constexpr char kIdentityPath[] = "IDENTITY";  // "nova database, format 1, epoch 17, crc32c 0a1b2c3d\n"

// With the checksum of what it says: an epoch that went back would make written logs look old.
std::string IdentityText(uint32_t format, uint64_t epoch) {
  const std::string text = StrCat("nova database, format ", format, ", epoch ", epoch);
  return StrCat(text, ", crc32c ", absl::Hex(Crc32c(text), absl::kZeroPad8), "\n");
}

bool NamesAManifest(Disk* disk, const std::string& path) {
  const auto file = disk->Open(path, /*writable=*/false);
  if (!file.ok()) return false;
  const auto size = (*file)->Size();
  std::string text(size.ok() ? std::min<uint64_t>(*size, 64) : 0, '\0');
  Uuid uuid;
  return (*file)->Read(0, text.size(), text.data()).ok() && (text.empty() || Uuid::Parse(text, &uuid));
}

// A directory without IDENTITY may have what a creation leaves that ended too early: manifests and the
// pointer to one. Whatever holds data comes after IDENTITY.
Status RemoveUnfinishedCreation(Disk* disk, bool create_if_missing) {
  NOVA_ASSIGN_OR_RETURN(const auto names, disk->List(""));
  std::vector<std::string> leftovers;
  for (const std::string& name : names) {
    if (name == "LOCK" || name == "lost+found") continue;
    Uuid uuid;
    const bool manifest = name.starts_with("manifest-") && LocalFileUuid(name, &uuid);
    const bool pointer = (name == "CURRENT" || name == "CURRENT.new") && NamesAManifest(disk, name);
    if (!manifest && !pointer && name != kNewIdentityPath) {
      return absl::InvalidArgumentError(
          "the directory holds something else: it is not empty, and has no IDENTITY");
    }
    leftovers.push_back(name);
  }
  if (!create_if_missing) return absl::NotFoundError("no database here, and create_if_missing is off");
  for (const std::string& name : leftovers) NOVA_RETURN_IF_ERROR(disk->Delete(name));
  return OkStatus();
}

}  // namespace

Status WriteDbIdentity(Disk* disk, const std::string& path, Epoch epoch) {
  NOVA_ASSIGN_OR_RETURN(const auto out, disk->Create(path));
  NOVA_RETURN_IF_ERROR(out->Write(0, IdentityText(kFormat, epoch.value())));
  return out->Sync();
}

StatusOr<std::optional<Epoch>> ReadDbIdentity(Disk* disk, bool create_if_missing) {
  const auto file = disk->Open(kIdentityPath, /*writable=*/false);
  if (absl::IsNotFound(file.status())) {
    NOVA_RETURN_IF_ERROR(RemoveUnfinishedCreation(disk, create_if_missing));
    return std::nullopt;
  }
  NOVA_RETURN_IF_ERROR(file.status());
  NOVA_ASSIGN_OR_RETURN(const uint64_t size, (*file)->Size());
  std::string text(std::min<uint64_t>(size, 256), '\0');
  NOVA_RETURN_IF_ERROR((*file)->Read(0, text.size(), text.data()));
  unsigned format = 0;
  unsigned long long epoch = 0;
  if (std::sscanf(text.c_str(), "nova database, format %u, epoch %llu", &format, &epoch) != 2) {
    return absl::DataLossError("IDENTITY does not parse: not a database of Nova, or damaged");
  }
  if (format > kFormat)
    return absl::FailedPreconditionError(
        StrCat("the directory has format ", format, ", this program knows up to ", kFormat));
  if (text != IdentityText(format, epoch))
    return absl::DataLossError("IDENTITY is damaged: its checksum is not that of its text");
  return Epoch(epoch);
}

Status InstallDbIdentity(Disk* disk, Epoch epoch) {
  disk->Delete(kNewIdentityPath).IgnoreError();  // what an attempt that failed has left
  NOVA_RETURN_IF_ERROR(WriteDbIdentity(disk, kNewIdentityPath, epoch));
  NOVA_RETURN_IF_ERROR(disk->Rename(kNewIdentityPath, kIdentityPath));
  return disk->SyncDirectory("");
}

}  // namespace nova
