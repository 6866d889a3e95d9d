// The checksum of a block (table identity, M4): CRC-32C of table uuid | u64 logical offset | payload |
// compression. Builder and reader begin with BlockCrcSeed and extend it by payload and compression.
//
// Thread safety: pure functions.
// Errors: none; whoever compares says DataLoss.
#pragma once

#include "common/base/coding.h"
#include "common/base/crc32c.h"
#include "common/base/ids.h"

namespace nova {

// The checksum's first part: the block's place.
inline uint32_t BlockCrcSeed(const Uuid& uuid, uint64_t offset) {
  char place[24];
  EncodeFixed64(EncodeFixed64(EncodeFixed64(place, uuid.hi), uuid.lo), offset);
  return ExtendCrc32c(0, place, sizeof(place));
}

}  // namespace nova
