// Any bytes as the files of an embedded database that say what the others are: IDENTITY, CURRENT, and the
// header of a log file with what follows it. Each is refused, or read; what is read as IDENTITY is what is
// written for that epoch.
//
// Input: one byte: which file; its top bit: the header of the log is one that is valid | the bytes.
#include <cstdint>
#include <cstring>
#include <string>

#include "common/base/crc32c.h"
#include "common/base/log.h"
#include "common/base/sim_disk.h"
#include "logc/local_log.h"
#include "ltc/embedded/db_identity.h"
#include "ltc/embedded/local_storage.h"

namespace nova {
namespace {

constexpr size_t kHeaderCrcAt = 32;  // of a log file (logc/local_log.h)

void Write(Disk* disk, const std::string& path, std::string_view bytes) {
  const auto file = disk->Create(path);
  NOVA_CHECK(file.ok() && (*file)->Write(0, bytes).ok()) << path;
}

std::string Read(Disk* disk, const std::string& path) {
  const auto file = disk->Open(path, /*writable=*/false);
  std::string bytes(*(*file)->Size(), '\0');
  NOVA_CHECK((*file)->Read(0, bytes.size(), bytes.data()).ok());
  return bytes;
}

void CheckIdentity(Disk* disk, std::string_view bytes) {
  Write(disk, "IDENTITY", bytes);
  const auto epoch = ReadDbIdentity(disk, /*create_if_missing=*/true);
  if (!epoch.ok()) return;
  NOVA_CHECK(epoch->has_value());
  NOVA_CHECK(WriteDbIdentity(disk, "again", **epoch).ok());
  NOVA_CHECK(Read(disk, "again") == bytes);
}

void CheckCurrent(Disk* disk, std::string_view bytes) {
  const Uuid named{0x0123456789abcdef, 0xfedcba9876543210};
  const size_t cut = std::min(bytes.size(), named.ToString().size());
  Write(disk, "CURRENT", bytes.substr(0, cut));
  Write(disk, LocalManifestName(named), bytes.substr(cut));
  LocalManifestStorage storage(disk);
  storage.ReadInstalled().status().IgnoreError();
}

void CheckLog(Disk* disk, bool plant, std::string bytes) {
  if (plant && bytes.size() >= kHeaderCrcAt + sizeof(uint32_t)) {
    std::memcpy(bytes.data(), "novalog1", 8);
    const uint32_t crc = Crc32c(std::string_view(bytes).substr(0, kHeaderCrcAt));
    std::memcpy(bytes.data() + kHeaderCrcAt, &crc, sizeof(crc));
  }
  Write(disk, "log-1-1", bytes);
  const auto records = ReadLocalLogs(disk, [](MemTableId) { return false; });
  if (!records.ok()) return;
  size_t read = 0;
  for (const RecoveredRecord& r : *records) read += r.key.size() + r.value.size();
  NOVA_CHECK(read <= bytes.size());
}

}  // namespace
}  // namespace nova

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  nova::SimDisk medium;
  const auto disk = medium.Mount();
  switch (data[0] % 3) {
    case 0:
      nova::CheckIdentity(disk.get(), bytes);
      break;
    case 1:
      nova::CheckCurrent(disk.get(), bytes);
      break;
    default:
      nova::CheckLog(disk.get(), (data[0] & 0x80) != 0, std::string(bytes));
      break;
  }
  return 0;
}
