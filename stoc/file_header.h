// FileHeader: the first bytes of a StoC's file.
//
// Little-endian, 80 bytes:
//   offset  size
//        0     4  magic 'NVF1'
//        4     4  crc      CRC-32C of bytes 8 .. 80
//        8     2  format   1
//       10     2  kind     1 whole (never changes), 2 appended to, 3 log
//       12     4  part
//       16    16  owner uuid (hi, lo)
//       32    24  creator: range, epoch, job (collection, N4)
//       56     8  size of the bytes; 0 for kinds 2 and 3
//       64     8  wall time of creation, ms
//       72     4  CRC-32C of the bytes; 0 for kinds 2 and 3
//       76     4  zero
//
// Thread safety: none.   Ownership: none taken.   Errors: DataLoss: not a header.
#pragma once

#include <string>
#include <string_view>

#include "stoc/protocol.h"

namespace nova {

inline constexpr size_t kFileHeaderBytes = 80;

// See the head of this file.
struct FileHeader {
  enum class Kind : uint16_t { kWhole = 1, kAppended = 2, kLog = 3 };
  Kind kind = Kind::kWhole;
  StocFileId file;          // whose bytes these are: a renamed file is noticed
  Creator creator;          // the range that owns it until it is shared, and its epoch and job
  uint64_t size = 0;        // bytes behind the header; 0 of a file that grows
  uint64_t created_ms = 0;  // wall clock, for people
  uint32_t data_crc = 0;    // of those bytes; 0 of a file that grows
  bool operator==(const FileHeader&) const = default;
  std::string Encode() const;
  static StatusOr<FileHeader> Decode(std::string_view bytes);
};

}  // namespace nova
