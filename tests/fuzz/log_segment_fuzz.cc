// libFuzzer: a log segment, as recovery reads it. The first byte picks where valid crcs are planted, so that deeper bytes count.
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>

#include "common/base/coding.h"
#include "logc/log_record.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 1) return 0;
  const nova::Uuid log{1, 2};
  std::string segment(reinterpret_cast<const char*>(data + 1), size - 1);
  if ((data[0] & 1) != 0 && segment.size() >= nova::kLogRecordHeaderBytes) {
    const size_t length = segment.size() & ~size_t{7};
    nova::EncodeFixed32(segment.data() + 4, static_cast<uint32_t>(length));
    nova::RebindLogRecord(log, 1, reinterpret_cast<std::byte*>(segment.data()));
  }
  uint64_t lsn = 1;
  size_t bytes = 0;
  nova::ParseLogSegment(log, segment, &lsn, [&](const nova::ParsedLogEntry& e) { bytes += e.entry.key.size() + e.entry.value.size(); })
      .IgnoreError();
  return bytes > size ? 1 : 0;
}
