#include "common/base/crc32c.h"

#include <isa-l/crc.h>

#include <algorithm>
#include <cstring>

namespace nova {
namespace {

constexpr size_t kMaxPieceBytes = size_t{1} << 30;  // crc32_iscsi takes an int
constexpr size_t kCopyStepBytes = 16384;  // source and copy of one step stay in the first-level cache

}  // namespace

uint32_t ExtendCrc32c(uint32_t crc, const void* data, size_t n) {
  auto* p = static_cast<unsigned char*>(const_cast<void*>(data));
  uint32_t state = ~crc;
  while (n > 0) {
    const size_t piece = std::min(n, kMaxPieceBytes);
    state = crc32_iscsi(p, static_cast<int>(piece), state);
    p += piece;
    n -= piece;
  }
  return ~state;
}

uint32_t Crc32cCopy(void* dst, const void* src, size_t n, uint32_t crc) {
  auto* to = static_cast<char*>(dst);
  auto* from = static_cast<const char*>(src);
  while (n > 0) {
    const size_t step = std::min(n, kCopyStepBytes);
    std::memcpy(to, from, step);
    crc = ExtendCrc32c(crc, to, step);
    to += step;
    from += step;
    n -= step;
  }
  return crc;
}

}  // namespace nova
