// libFuzzer: copies of a log, as recovery reads them. The first byte says where valid crcs are planted, so
// that deeper bytes count, and how the bytes are cut into copies.
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "common/base/coding.h"
#include "logc/log_copies.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 1) return 0;
  const nova::Uuid log{1, 2};
  std::string bytes(reinterpret_cast<const char*>(data + 1), size - 1);
  const auto plant = [&](size_t at, size_t end, uint64_t lsn) {
    if (end - at < nova::kLogRecordHeaderBytes) return;
    nova::EncodeFixed32(bytes.data() + at + 4, static_cast<uint32_t>((end - at) & ~size_t{7}));
    nova::RebindLogRecord(log, lsn, {lsn - 1, lsn - 1}, reinterpret_cast<std::byte*>(bytes.data()) + at);
  };
  const size_t half = bytes.size() / 2 & ~size_t{7};
  if ((data[0] & 1) != 0) plant(0, half, 1);
  if ((data[0] & 2) != 0) plant(half, bytes.size(), (data[0] & 4) != 0 ? 2 : 3);
  const nova::MemTableDone nothing = [](nova::MemTableId) { return false; };
  nova::LogCopies copies(log, nothing);
  copies.Add((data[0] & 8) != 0 ? nova::LogCopies::Keeps::kWritten : nova::LogCopies::Keeps::kSynced,
             {{"one", bytes}});
  if ((data[0] & 16) != 0)
    copies.Add(nova::LogCopies::Keeps::kSynced,
               {{"first half", bytes.substr(0, half)}, {"second half", bytes.substr(half)}});
  nova::RecoveredLogs records;
  const nova::Status s = copies.Read(&records);
  size_t read = 0;
  for (const nova::RecoveredRecord& r : records) read += r.key.size() + r.value.size();
  return read > size || (copies.damaged() && s.ok()) ? 1 : 0;
}
