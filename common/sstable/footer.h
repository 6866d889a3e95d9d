// Footer: the last bytes of a table's metadata: where the sections before it lie, and a checksum over all of
// it.
//
//   byte  0   u64 uuid.hi              of the table: metadata of another table is refused
//         8   u64 uuid.lo
//        16   u64 data_size            of the logical data stream
//        24   u32 filter_size          metadata = filter | index | properties | footer
//        28   u32 index_size
//        32   u32 properties_size
//        36   u32 crc                  CRC-32C of every byte of the metadata before this field
//        40   u32 version              1
//        44   u32 magic                "NSST"; version and magic stay last in every version
//
// The properties section is the TableInfo as the builder knew it (no fragments, metadata_size 0), so that a
// table's metadata describes the table.
//
// Thread safety: plain data.
// Errors: the reader's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace nova {

struct Footer {
  uint64_t uuid_hi;
  uint64_t uuid_lo;
  uint64_t data_size;
  uint32_t filter_size;
  uint32_t index_size;
  uint32_t properties_size;
  uint32_t crc;
  uint32_t version;
  uint32_t magic;
};
inline constexpr uint32_t kTableVersion = 1;
inline constexpr uint32_t kTableMagic = 0x5453534e;  // the bytes "NSST"

static_assert(sizeof(Footer) == 48 && std::is_trivially_copyable_v<Footer>);
static_assert(offsetof(Footer, data_size) == 16 && offsetof(Footer, filter_size) == 24 &&
              offsetof(Footer, crc) == 36);
static_assert(offsetof(Footer, version) == 40 && offsetof(Footer, magic) == 44);

}  // namespace nova
