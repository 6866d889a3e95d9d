#include "logc/log_record.h"

#include <cstring>

#include "common/base/coding.h"
#include "common/base/crc32c.h"
#include "common/base/log.h"

namespace nova {
namespace {

constexpr uint8_t kFormat = 1;
constexpr uint8_t kSkippable = 1;

size_t Padded(size_t n) { return (n + 7) & ~size_t{7}; }

uint32_t SaltOf(const Uuid& log) {
  char salt[16];
  EncodeFixed64(salt, log.hi);
  EncodeFixed64(salt + 8, log.lo);
  return ExtendCrc32c(0, salt, sizeof(salt));
}

// The place of a mark, counted back from the record at `lsn`.
uint16_t CountBack(uint64_t lsn, uint64_t mark) {
  return lsn - mark > UINT16_MAX ? 0 : static_cast<uint16_t>(lsn - mark);
}
uint64_t MarkAt(uint64_t lsn, uint16_t back) { return back == 0 || back > lsn ? 0 : lsn - back; }

void EncodeMarks(uint64_t lsn, const LogMarks& marks, char* base) {
  NOVA_DCHECK(marks.synced <= marks.acknowledged && marks.acknowledged < lsn);
  EncodeFixed16(base + 12, CountBack(lsn, marks.acknowledged));
  EncodeFixed16(base + 14, CountBack(lsn, marks.synced));
}

size_t EntryBytes(const LogEntry& e) {
  return VarintLength(e.memtable.value()) + 1 + LengthPrefixedSize(e.key) + LengthPrefixedSize(e.value);
}

bool ParseEntry(std::string_view* in, LogEntry* e) {
  uint64_t memtable;
  if (!GetVarint64(in, &memtable) || in->empty()) return false;
  e->memtable = MemTableId(memtable);
  e->type = static_cast<ValueType>((*in)[0]);
  in->remove_prefix(1);
  return GetLengthPrefixed(in, &e->key) && GetLengthPrefixed(in, &e->value);
}

}  // namespace

size_t LogRecordBytes(const LogRecord& record) {
  size_t bytes = kLogRecordHeaderBytes;
  for (const LogEntry& e : record.entries) bytes += EntryBytes(e);
  return Padded(bytes);
}

void EncodeLogRecord(const Uuid& log, uint64_t lsn, const LogMarks& marks, const LogRecord& record,
                     std::byte* dst) {
  char* const base = reinterpret_cast<char*>(dst);
  const size_t length = LogRecordBytes(record);
  EncodeFixed32(base + 4, static_cast<uint32_t>(length));
  base[8] = static_cast<char>(kFormat);
  base[9] = 0;
  EncodeFixed16(base + 10, static_cast<uint16_t>(record.entries.size()));
  EncodeMarks(lsn, marks, base);
  EncodeFixed64(base + 16, lsn);
  EncodeFixed64(base + 24, record.first_sequence);
  EncodeFixed64(base + 32, record.client_id);
  EncodeFixed64(base + 40, record.request_number);
  uint32_t crc = SaltOf(log);
  char* checked = base + 4;
  char* p = base + kLogRecordHeaderBytes;
  for (const LogEntry& e : record.entries) {
    p = EncodeVarint64(p, e.memtable.value());
    *p++ = static_cast<char>(e.type);
    p = EncodeVarint32(p, static_cast<uint32_t>(e.key.size()));
    std::memcpy(p, e.key.data(), e.key.size());
    p = EncodeVarint32(p + e.key.size(), static_cast<uint32_t>(e.value.size()));
    crc = ExtendCrc32c(crc, checked, static_cast<size_t>(p - checked));
    if (!e.value.empty()) crc = Crc32cCopy(p, e.value.data(), e.value.size(), crc);
    checked = p += e.value.size();
  }
  NOVA_DCHECK(record.entries.size() <= kMaxLogEntries);
  const size_t padding = length - static_cast<size_t>(p - base);
  std::memset(p, 0, padding);
  EncodeFixed32(base, ExtendCrc32c(crc, p, padding));
}

void RebindLogRecord(const Uuid& log, uint64_t lsn, const LogMarks& marks, std::byte* record) {
  char* const base = reinterpret_cast<char*>(record);
  EncodeMarks(lsn, marks, base);
  EncodeFixed64(base + 16, lsn);
  EncodeFixed32(base, ExtendCrc32c(SaltOf(log), base + 4, DecodeFixed32(base + 4) - 4));
}

size_t PlausibleLogRecord(std::string_view in, uint64_t last_lsn) {
  if (in.size() < kLogRecordHeaderBytes) return 0;
  const uint32_t length = DecodeFixed32(in.data() + 4);
  if (length < kLogRecordHeaderBytes || length % 8 != 0 || length > in.size()) return 0;
  const uint64_t lsn = DecodeFixed64(in.data() + 16);
  return lsn == 0 || lsn > last_lsn ? 0 : length;
}

std::optional<WholeLogRecord> CheckLogRecord(const Uuid& log, std::string_view in, size_t length) {
  const char* const base = in.data();
  if (ExtendCrc32c(SaltOf(log), base + 4, length - 4) != DecodeFixed32(base)) return std::nullopt;
  const uint64_t lsn = DecodeFixed64(base + 16);
  return WholeLogRecord{lsn,
                        {MarkAt(lsn, DecodeFixed16(base + 12)), MarkAt(lsn, DecodeFixed16(base + 14))},
                        in.substr(0, length)};
}

// The bytes are what an LTC wrote: what cannot be understood must not be passed over in silence.
Status ParseLogEntries(const WholeLogRecord& record, const std::function<void(const ParsedLogEntry&)>& fn) {
  const char* const base = record.bytes.data();
  if (base[8] != static_cast<char>(kFormat)) return absl::DataLossError("log record of an unknown format");
  const bool skippable = (base[9] & kSkippable) != 0;
  const uint16_t count = DecodeFixed16(base + 10);
  const SequenceNumber first = DecodeFixed64(base + 24);
  std::string_view entries = record.bytes.substr(kLogRecordHeaderBytes);
  for (uint16_t i = 0; i < count; ++i) {
    ParsedLogEntry parsed{first + i, {}};
    if (!ParseEntry(&entries, &parsed.entry))
      return absl::DataLossError("log record whose entries do not parse");
    if (parsed.entry.type > ValueType::kPutTtl) {
      if (skippable) continue;
      return absl::DataLossError(StrCat("log record with entry type ", static_cast<int>(parsed.entry.type)));
    }
    fn(parsed);
  }
  return OkStatus();
}

}  // namespace nova
