#include "ltc/db_identity.h"

#include <algorithm>
#include <cstdio>

#include "common/base/crc32c.h"

namespace nova {
namespace {

constexpr uint32_t kFormat = 1;
constexpr char kIdentityPath[] = "IDENTITY";  // "nova database, format 1, epoch 17, crc32c 0a1b2c3d\n"

// With the checksum of what it says: an epoch that went back would make written logs look old.
std::string IdentityText(uint32_t format, uint64_t epoch) {
  const std::string text = StrCat("nova database, format ", format, ", epoch ", epoch);
  return StrCat(text, ", crc32c ", absl::Hex(Crc32c(text), absl::kZeroPad8), "\n");
}

}  // namespace

Status WriteDbIdentity(Disk* disk, const std::string& path, Epoch epoch) {
  NOVA_ASSIGN_OR_RETURN(const auto out, disk->Create(path));
  NOVA_RETURN_IF_ERROR(out->Write(0, IdentityText(kFormat, epoch.value())));
  return out->Sync();
}

StatusOr<Epoch> NextDbEpoch(Disk* disk, bool create_if_missing) {
  uint64_t epoch = 0;
  auto file = disk->Open(kIdentityPath, /*writable=*/false);
  if (file.ok()) {
    NOVA_ASSIGN_OR_RETURN(const uint64_t size, (*file)->Size());
    std::string text(std::min<uint64_t>(size, 256), '\0');
    NOVA_RETURN_IF_ERROR((*file)->Read(0, text.size(), text.data()));
    unsigned format = 0;
    unsigned long long read = 0;
    if (std::sscanf(text.c_str(), "nova database, format %u, epoch %llu", &format, &read) != 2) {
      return absl::DataLossError("IDENTITY does not parse: not a database of Nova, or damaged");
    }
    if (format > kFormat) return absl::FailedPreconditionError(StrCat("the directory has format ", format, ", this program knows up to ", kFormat));
    if (text != IdentityText(format, read)) return absl::DataLossError("IDENTITY is damaged: its checksum is not that of its text");
    epoch = read;
  } else if (!absl::IsNotFound(file.status())) {
    return file.status();
  } else {
    NOVA_ASSIGN_OR_RETURN(const auto names, disk->List(""));
    if (std::any_of(names.begin(), names.end(), [](const std::string& n) { return n != "LOCK" && n != "IDENTITY.new" && n != "lost+found"; })) {
      return absl::InvalidArgumentError("the directory holds something else: it is not empty, and has no IDENTITY");
    }
    if (!create_if_missing) return absl::NotFoundError("no database here, and create_if_missing is off");
  }
  disk->Delete("IDENTITY.new").IgnoreError();
  NOVA_RETURN_IF_ERROR(WriteDbIdentity(disk, "IDENTITY.new", Epoch(epoch + 1)));
  NOVA_RETURN_IF_ERROR(disk->Rename("IDENTITY.new", kIdentityPath));
  NOVA_RETURN_IF_ERROR(disk->SyncDirectory(""));
  return Epoch(epoch + 1);
}

}  // namespace nova
