// Crc32c: the checksum of every format of ours (CRC-32C, Castagnoli; "123456789" -> 0xE3069283).
//
// ExtendCrc32c(Crc32c(a), b) == Crc32c(a + b); the checksum of nothing is 0.
//
// Thread safety: pure functions.   Ownership: none taken.   Errors: none.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace nova {

uint32_t ExtendCrc32c(uint32_t crc, const void* data, size_t n);
inline uint32_t Crc32c(std::string_view data) { return ExtendCrc32c(0, data.data(), data.size()); }

// Copies n bytes and returns ExtendCrc32c(crc, src, n); reads the memory once. The two must not overlap.
uint32_t Crc32cCopy(void* dst, const void* src, size_t n, uint32_t crc);

}  // namespace nova
