// WrittenPrefix: the checksum of a file's first bytes, taken as they are written, so that a scrub can compare
// with it what lies on the disk (scrub, S6).
//
// It ends at the first byte that was not written. What was written behind a hole is not in it.
//
// Thread safety: none.   Ownership: none taken.   Errors: none.
#pragma once

#include <cstdint>
#include <string_view>

#include "common/base/crc32c.h"

namespace nova {

struct WrittenPrefix {
  uint64_t end = 0;  // bytes in it
  uint32_t crc = 0;  // CRC-32C of them

  // The bytes were written at that place of the file. At one place there is only ever one content: what is in
  // the prefix already is not looked at.
  void Note(uint64_t offset, std::string_view bytes) {
    if (offset > end || bytes.size() <= end - offset) return;
    bytes.remove_prefix(end - offset);
    crc = ExtendCrc32c(crc, bytes.data(), bytes.size());
    end += bytes.size();
  }
};

}  // namespace nova
