// The log record (L1), 8-byte aligned, little-endian:
//
//   offset  size
//        0     4  crc     CRC-32C of (log uuid | bytes 4 .. length)
//        4     4  length  of the record, padding included: a multiple of 8
//        8     1  format  1
//        9     1  flags   bit 0: an unknown entry type may be skipped
//       10     2  entry count
//       12     4  reserved
//       16     8  lsn, dense from 1 in its log
//       24     8  first sequence number; entry i has first + i
//       32     8  client id       (A1: so that de-duplication can come later)
//       40     8  request number
//       48        entries: varint64 memtable id | u8 type | varint32 key size | key | varint32 value size | value
//
// The log uuid is drawn by the LTC, the same on all replicas, and never written into a record: stale bytes of another log, in
// recycled memory, fail the crc (H5), and so does a torn record (H4). A log's valid prefix is dense in lsn.
//
// Thread safety: pure functions.   Errors: parsing never fails on garbage, it ends; DataLoss: an entry type that must not be skipped.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "common/base/ids.h"
#include "common/base/status.h"
#include "logc/range_log.h"

namespace nova {

inline constexpr size_t kLogRecordHeaderBytes = 48;

size_t LogRecordBytes(const LogRecord& record);
// Writes the record at `dst`, which has LogRecordBytes of room. Values are copied and checksummed in one pass.
void EncodeLogRecord(const Uuid& log, uint64_t lsn, const LogRecord& record, std::byte* dst);
// Gives a record encoded for one log to another (L4): new crc and lsn, same content.
void RebindLogRecord(const Uuid& log, uint64_t lsn, std::byte* record);

struct ParsedLogEntry {
  SequenceNumber sequence = 0;
  LogEntry entry;  // views into the segment
};
// Calls `fn` for each entry of the valid prefix of a segment whose first record must be `*next_lsn`; advances *next_lsn.
Status ParseLogSegment(const Uuid& log, std::string_view segment, uint64_t* next_lsn,
                       const std::function<void(const ParsedLogEntry&)>& fn);

// One entry found in a log (R3), in memory of its own.
struct RecoveredRecord {
  SequenceNumber sequence = 0;
  MemTableId memtable;
  ValueType type = ValueType::kPut;
  std::string key;
  std::string value;
};

}  // namespace nova
