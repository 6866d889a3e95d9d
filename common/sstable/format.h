// What a table is (table identity, M4): a logical byte stream of data blocks, cut into fragments at block
// boundaries, and one metadata blob. Both are immutable.
//
//   data      | block 0 | block 1 | ...                                logical offsets 0 .. data_size
//   metadata  | filter | index | properties | footer |                 one StoC file, part kMetadataPart
//
//   block     payload | u8 compression | u32 crc
//             crc = CRC-32C of (table uuid | u64 logical offset | payload | compression): a block read from a
//             wrong place, or of another table, fails (M4)
//             compression: 0 none, 1 lz4, 2 zstd; of 1 and 2 see compression.h. A block that would not shrink
//             stays as it is.
//   footer    see footer.h
//
// Fragment i lives in StoC file {table uuid, i} on each StoC of fragments[i].stocs; the metadata in {table
// uuid, kMetadataPart} on each of metadata_stocs.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "common/base/ids.h"
#include "common/base/keys.h"
#include "common/base/status.h"
#include "common/sstable/table_options.h"

namespace nova {

// Where a block lies in its table's logical stream. `size` includes the 5 bytes of compression byte and crc.
struct BlockHandle {
  uint64_t offset = 0;
  uint32_t size = 0;
  auto operator<=>(const BlockHandle&) const = default;
};
inline constexpr size_t kBlockTrailerBytes = 5;

struct Fragment {
  uint64_t offset = 0;  // first logical byte
  uint64_t size = 0;
  std::vector<StocId> stocs;  // every StoC that holds a copy
  bool operator==(const Fragment&) const = default;
};

// Everything a reader needs to know of a table; what version edits and compaction jobs carry.
//
// A table may be referenced by several ranges (M4), each of which uses the keys of it in its use-bounds. What
// is said of the table as it was built (sizes, entries, smallest, largest, sequences) stays as it was; who
// asks for what is used asks UsedKeys and UsedBytes. A table without use-bounds is used whole.
struct TableInfo {
  Uuid uuid;
  uint64_t data_size = 0;
  uint64_t metadata_size = 0;
  uint64_t entries = 0;
  std::string smallest;  // internal keys, inclusive
  std::string largest;
  SequenceNumber min_sequence = 0;
  SequenceNumber max_sequence = 0;
  // stored keys: only [use_from, use_to) of the table belongs here (split, clone); empty = unbounded
  std::string use_from;
  std::string use_to;
  uint8_t compression = 0;  // of its blocks, those that shrink by it; 0: none of them
  std::vector<Fragment> fragments;
  std::vector<StocId> metadata_stocs;
  std::map<std::string, std::string> properties;  // named, unknown ones are kept

  bool operator==(const TableInfo&) const = default;
  void AppendTo(std::string* dst) const;  // self-delimiting
  // advances input; Corruption (DataLoss) on bad bytes
  static StatusOr<TableInfo> Parse(std::string_view* input);
};

inline bool HasUseBounds(const TableInfo& t) { return !t.use_from.empty() || !t.use_to.empty(); }
// Where the keys lie that are used; views into `t`.
KeyInterval UsedKeys(const TableInfo& t);
// Data in blocks that hold them: said by whoever set the bounds, as a property; else all.
uint64_t UsedBytes(const TableInfo& t);
void SetUsedBytes(uint64_t bytes, TableInfo* t);

}  // namespace nova
