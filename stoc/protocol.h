// Requests to a StoC, and their replies; bodies are little-endian, written by AppendTo, read by Parse (bounds-checked).
//
// type    request                 body                                                     reply
// 0x101   OpenSegment             range epoch log_uuid index size                          RemoteBuffer
// 0x102   FreeLogs                range epoch n x log_uuid                                 -
// 0x103   Fence                   range epoch                                              incarnation, n x SealedSegment
// 0x104   OpenFile                file creator size                                        buffer_id RemoteBuffer
// 0x105   PersistFile             buffer_id size crc                                       -            (after a WRITE)
// 0x106   WriteSmallFile          file creator bytes                                       -            (up to 64 KB, inline)
// 0x107   AppendFile              file creator offset create bytes                         -            (manifest edits)
// 0x108   ReadFile                file offset size                                         bytes
// 0x109   DeleteFiles             n x file                                                 -
// 0x10a   ListFiles               range epoch_below                                        n x FileSummary
// 0x10b   Ping                    -                                                        incarnation
// 0x10c   FreeFenced              range epoch                                              -            (R6)
//
// Writing a table's fragment: OpenFile gives a piece of the file buffer; the bytes go there by WRITE; PersistFile follows on
// the same connection in the same doorbell, so it arrives after them; a storage thread checks the crc, writes, syncs, replies.
// Every request that changes something of a range carries (range, epoch); a lower epoch than the fenced one is refused with
// kNotOwner (F1). Reads are of immutable files and carry none.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "common/base/ids.h"
#include "common/rdma/fabric.h"

namespace nova {

enum class StocRequest : uint16_t {
  kOpenSegment = 0x101,
  kFreeLogs = 0x102,
  kFence = 0x103,
  kOpenFile = 0x104,
  kPersistFile = 0x105,
  kWriteSmallFile = 0x106,
  kAppendFile = 0x107,
  kReadFile = 0x108,
  kDeleteFiles = 0x109,
  kListFiles = 0x10a,
  kPing = 0x10b,
  kFreeFenced = 0x10c,
};
inline constexpr size_t kMaxInlineFileBytes = 64 * 1024;

// N4: who made a file or segment.
struct Creator {
  RangeId range;
  Epoch epoch;
  uint64_t job = 0;
  bool operator==(const Creator&) const = default;
};

struct SealedSegment {
  Uuid log;
  uint32_t index = 0;       // overflow segments of one log, in order
  RemoteBuffer memory;      // re-registered remote-READ only
  bool operator==(const SealedSegment&) const = default;
};
struct FenceReply {
  Incarnation incarnation;
  std::vector<SealedSegment> segments;
  void AppendTo(std::string* dst) const;
  static bool Parse(std::string_view body, FenceReply* out);
};

struct FileSummary {
  StocFileId file;
  Creator creator;
  uint64_t size = 0;
  uint64_t age_ms = 0;
};

}  // namespace nova
