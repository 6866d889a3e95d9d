#include "common/rdma/key_table.h"

namespace nova {

KeyTable::KeyTable(uint64_t seed)
    : multiplier_(static_cast<uint32_t>(seed) | 1), offset_(static_cast<uint32_t>(seed >> 32)) {}

// A bijection of the counter: each step (odd multiplication, xor with a shift, addition) can be undone.
uint32_t KeyTable::NextKey() {
  uint32_t x = count_++ + offset_;
  x ^= x >> 16;
  x *= 0x7feb352d;
  x ^= x >> 15;
  x *= multiplier_;
  x ^= x >> 16;
  return x;
}

MemoryRegion KeyTable::Add(void* address, uint64_t size, Access access) {
  uint32_t key = NextKey();
  while (key == 0 || regions_.contains(key)) key = NextKey();
  const MemoryRegion region{static_cast<std::byte*>(address), size, key, access == Access::kLocal ? 0 : key,
                            access};
  Add(region);
  return region;
}

bool KeyTable::Remove(uint32_t key) { return regions_.erase(key) == 1; }

bool KeyTable::Allows(uint32_t key, uint64_t address, uint64_t length, Access need) const {
  const auto it = regions_.find(key);
  if (it == regions_.end()) return false;
  const MemoryRegion& r = it->second;
  const auto base = reinterpret_cast<uint64_t>(r.address);
  const auto rights = static_cast<uint8_t>(need);
  return (static_cast<uint8_t>(r.access) & rights) == rights && address >= base && length <= r.size &&
         address - base <= r.size - length;
}

bool KeyTable::AllowsPieces(const WorkRequest& request) const {
  for (size_t i = 0; i < request.piece_count; ++i) {
    const LocalBuffer& p = request.pieces[i];
    if (p.length > 0 && !Allows(p.lkey, reinterpret_cast<uint64_t>(p.address), p.length, Access::kLocal))
      return false;
  }
  return true;
}

}  // namespace nova
