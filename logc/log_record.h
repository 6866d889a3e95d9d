// The log record (L1), 8-byte aligned, little-endian:
//
//   offset  size
//        0     4  crc     CRC-32C of (log uuid | bytes 4 .. length)
//        4     4  length  of the record, padding included: a multiple of 8
//        8     1  format  1
//        9     1  flags   bit 0: an unknown entry type may be skipped
//       10     2  entry count
//       12     2  how many records back, this one counted, were not yet known acknowledged when this one was
//                 built; 0: it does not say
//       14     2  and how many were not yet known synced in every file of the log; 0: it does not say
//       16     8  lsn, dense from 1 in its log
//       24     8  first sequence number; entry i has first + i
//       32     8  client id       (no write twice, A1: so that de-duplication can come later)
//       40     8  request number
//       48        entries: varint64 memtable id | u8 type | varint32 key size | key |
//                 varint32 value size | value
//
// The log uuid is drawn by the LTC, the same on all replicas, and never written into a record: stale bytes of
// another log, in recycled memory, fail the crc (H5), and so does a torn record (H4). A log's valid prefix is
// dense in lsn; what the two counts at 12 are for, and what is read of a log that has a hole: log_copies.h.
//
// Thread safety: pure functions.   Errors: DataLoss: a record that is whole, and must not be skipped though
//                it is not understood.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/ids.h"
#include "common/base/status.h"
#include "common/log/range_log.h"

namespace nova {

inline constexpr size_t kLogRecordHeaderBytes = 48;  // up to the entries

// How far a log had come when one of its records was built. `synced` <= `acknowledged` < the record's lsn.
struct LogMarks {
  // the lsn up to which every record was in all copies, and its writer told so (write-all, L3); 0: not known
  uint64_t acknowledged = 0;
  uint64_t synced = 0;  // and up to which each survives a loss of power in every file
  bool operator==(const LogMarks&) const = default;
};

// The length of a record when it is encoded, padding included.
size_t LogRecordBytes(const LogRecord& record);
// Writes the record at `dst`, which has LogRecordBytes of room. Values are copied and checksummed in one
// pass.
void EncodeLogRecord(const Uuid& log, uint64_t lsn, const LogMarks& marks, const LogRecord& record,
                     std::byte* dst);
// Gives a record encoded for one log to another (group change, L4): new crc, lsn and marks, same content.
void RebindLogRecord(const Uuid& log, uint64_t lsn, const LogMarks& marks, std::byte* record);

// A record that is whole: of this log, as it was encoded.
struct WholeLogRecord {
  uint64_t lsn = 0;
  LogMarks marks;          // as the record says
  std::string_view bytes;  // of the whole record
};
// A header that a record of lsn <= `last_lsn` could have, with its bytes in front of `in`: its length; 0:
// none. Costs no checksum.
size_t PlausibleLogRecord(std::string_view in, uint64_t last_lsn);
// The first `length` bytes of `in`, which PlausibleLogRecord gave; nullopt: they are no record of this log.
std::optional<WholeLogRecord> CheckLogRecord(const Uuid& log, std::string_view in, size_t length);

// An entry of a record, with the number that it was given.
struct ParsedLogEntry {
  SequenceNumber sequence = 0;
  LogEntry entry;  // views into the record
};
// Calls `fn` with each entry, in order. DataLoss: one is of a type that is not known, and must not be
// skipped.
Status ParseLogEntries(const WholeLogRecord& record, const std::function<void(const ParsedLogEntry&)>& fn);

}  // namespace nova
