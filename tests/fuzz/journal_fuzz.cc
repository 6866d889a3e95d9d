// Any bytes as a half of a StoC's journal: what is put back lies in the half, and is not empty.
//
// Input: one byte: 1: the header is valid, 2: so is the first record | the bytes.
#include <cstdint>
#include <cstring>
#include <string>

#include "common/base/crc32c.h"
#include "common/base/log.h"
#include "common/base/sim_disk.h"
#include "stoc/log_journal.h"

namespace nova {
namespace {

// stoc/log_journal.h
constexpr size_t kHeaderBytes = 64, kHeaderCrcAt = 24, kUuidAt = 8, kRecordHeaderBytes = 32;

void Plant(std::string* half, size_t at, uint32_t crc) { std::memcpy(half->data() + at, &crc, sizeof(crc)); }

}  // namespace
}  // namespace nova

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace nova;
  if (size == 0) return 0;
  std::string half(reinterpret_cast<const char*>(data) + 1, size - 1);
  if ((data[0] & 1) != 0 && half.size() >= kHeaderBytes) {
    std::memcpy(half.data(), "novajrn1", kUuidAt);
    Plant(&half, kHeaderCrcAt, Crc32c(std::string_view(half).substr(0, kHeaderCrcAt)));
  }
  if ((data[0] & 2) != 0 && half.size() > kHeaderBytes + kRecordHeaderBytes) {
    char* const record = half.data() + kHeaderBytes;
    uint32_t bytes;
    std::memcpy(&bytes, record + 4, sizeof(bytes));
    const size_t room = half.size() - kHeaderBytes - kRecordHeaderBytes;
    bytes = static_cast<uint32_t>(1 + bytes % room);
    std::memcpy(record + 4, &bytes, sizeof(bytes));
    const uint32_t seed = Crc32c(std::string_view(half).substr(kUuidAt, sizeof(Uuid)));
    Plant(&half, kHeaderBytes, ExtendCrc32c(seed, record + 4, kRecordHeaderBytes - 4 + bytes));
  }
  SimDisk medium;
  const auto disk = medium.Mount();
  const auto file = disk->Create("journal-1");
  NOVA_CHECK(file.ok() && (*file)->Write(0, half).ok());
  size_t put = 0;
  const Status s = LogJournal::Replay(disk.get(), [&](const LogJournal::Piece& piece) {
    NOVA_CHECK(!piece.bytes.empty());
    put += LogJournal::RecordBytes(piece);
    volatile char sum = 0;
    for (const char c : piece.bytes) sum = static_cast<char>(sum + c);
    return OkStatus();
  });
  NOVA_CHECK(s.ok()) << s;
  NOVA_CHECK(put < half.size() + 8);
  return 0;
}
