#include "stoc/store_identity.h"

#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "common/base/crc32c.h"
#include "stoc/store_directory.h"

namespace nova {
namespace {

constexpr char kLockPath[] = "LOCK";
constexpr char kSuperblockPath[] = "SUPERBLOCK";
constexpr char kNewSuperblockPath[] = "SUPERBLOCK.new";
constexpr size_t kMaxSuperblockBytes = 4096;

StatusOr<std::optional<StoreIdentity>> ReadIdentity(Disk* disk) {
  const auto text = ReadSmallFile(disk, kSuperblockPath, kMaxSuperblockBytes);
  if (text.ok()) {
    NOVA_ASSIGN_OR_RETURN(const StoreIdentity identity, StoreIdentity::Decode(*text));
    return std::optional<StoreIdentity>(identity);
  }
  if (!absl::IsNotFound(text.status())) return text.status();
  NOVA_ASSIGN_OR_RETURN(const std::vector<std::string> names, disk->List(""));
  for (const std::string& name : names) {
    if (name != kLockPath && name != kNewSuperblockPath && name != "lost+found") {
      return absl::InvalidArgumentError(
          StrCat("the directory has no SUPERBLOCK and is not empty (", name, ")"));
    }
  }
  return std::optional<StoreIdentity>();
}

}  // namespace

std::string StoreIdentity::Encode() const {
  std::string text = StrCat("nova stoc store\nformat=", kStoreFormat, "\nstore=", store.ToString(),
                            "\ncluster=", cluster.ToString(), "\nstoc=", stoc.value(), "\n");
  return StrCat(text, "crc=", absl::Hex(Crc32c(text), absl::kZeroPad8), "\n");
}

StatusOr<StoreIdentity> StoreIdentity::Decode(std::string_view text) {
  const std::vector<std::string> lines = absl::StrSplit(absl::string_view(text.data(), text.size()), '\n');
  uint32_t format = 0;
  if (lines.size() < 2 || lines[0] != "nova stoc store" || !lines[1].starts_with("format=") ||
      !absl::SimpleAtoi(lines[1].substr(7), &format)) {
    return absl::DataLossError("SUPERBLOCK is not one of a StoC");
  }
  if (format > kStoreFormat) {
    return absl::FailedPreconditionError(
        StrCat("the store has format ", format, ", this program knows formats up to ", kStoreFormat));
  }
  StoreIdentity id;
  uint32_t stoc = 0;
  if (lines.size() < 5 || !lines[2].starts_with("store=") || !Uuid::Parse(lines[2].substr(6), &id.store) ||
      !lines[3].starts_with("cluster=") || !Uuid::Parse(lines[3].substr(8), &id.cluster) ||
      !lines[4].starts_with("stoc=") || !absl::SimpleAtoi(lines[4].substr(5), &stoc)) {
    return absl::DataLossError("SUPERBLOCK is malformed");
  }
  id.stoc = StocId(stoc);
  if (id.Encode() != text) return absl::DataLossError("SUPERBLOCK fails its checksum");
  return id;
}

StatusOr<std::optional<StoreIdentity>> LockStore(Disk* disk) {
  NOVA_RETURN_IF_ERROR(ReadIdentity(disk).status());  // nothing is put into a directory that is not ours
  NOVA_RETURN_IF_ERROR(disk->Lock(kLockPath));
  return ReadIdentity(disk);
}

Status FormatStore(Disk* disk, const StoreIdentity& identity) {
  return ReplaceSmallFile(disk, kSuperblockPath, kNewSuperblockPath, identity.Encode());
}

StatusOr<bool> HealIdentity(Disk* disk, const StoreIdentity& identity) {
  const auto text = ReadSmallFileUncached(disk, kSuperblockPath, kMaxSuperblockBytes);
  if (text.ok() && *text == identity.Encode()) return false;
  if (!text.ok() && !absl::IsNotFound(text.status()) && !absl::IsDataLoss(text.status()))
    return text.status();
  NOVA_RETURN_IF_ERROR(FormatStore(disk, identity));
  return true;
}

}  // namespace nova
