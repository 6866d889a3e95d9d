// Requests of clients to an LTC, and their replies; bodies are little-endian. Keys are stored keys (keys.h).
//
// type   request  body                                                                              reply
// 0x201  Put      range epoch client_id request_number u16 key_size u16 flags | key | value         -
// 0x202  Delete   the same, no value                                                                -
// 0x203  Get      range epoch | key                                                                 value
// 0x204  Scan     range epoch u32 limit u16 from_size u16 to_size | from | to                       u32 count u8 more | entries
//
// range, epoch, client_id and request_number are u64. A scan's entries are n x (varint32 key size, key, varint32 value size,
// value); more = the page is full: go on after its last key. An LTC that does not hold the range at that epoch answers
// kNotOwner and did nothing.
#pragma once

#include <string>
#include <string_view>

#include "common/base/ids.h"

namespace nova {

enum class LtcRequest : uint16_t { kPut = 0x201, kDelete = 0x202, kGet = 0x203, kScan = 0x204 };

struct WriteRequest {
  RangeId range;
  Epoch epoch;
  uint64_t client_id = 0;
  uint64_t request_number = 0;
  std::string_view key;
  std::string_view value;

  // Everything but key and value, which travel as parts of their own.
  std::string EncodeHeader() const;
  static bool Parse(std::string_view body, WriteRequest* out);
};

struct GetRequest {
  RangeId range;
  Epoch epoch;
  std::string_view key;
  std::string EncodeHeader() const;
  static bool Parse(std::string_view body, GetRequest* out);
};

struct ScanRequest {
  RangeId range;
  Epoch epoch;
  uint32_t limit = 0;
  std::string_view from;
  std::string_view to;  // empty: to the end of the range
  std::string Encode() const;
  static bool Parse(std::string_view body, ScanRequest* out);
};

struct ScanReply {
  uint32_t count = 0;
  bool more = false;
  std::string_view entries;
  std::string EncodeHeader() const;
  static bool Parse(std::string_view body, ScanReply* out);
};

}  // namespace nova
