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
//
// Thread safety: plain values and pure functions.
// Errors: of Parse: DataLoss.
#pragma once

#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "common/base/ids.h"
#include "common/base/keys.h"
#include "common/base/status.h"
#include "common/sstable/table_options.h"

namespace nova {

// Where a block lies in its table's logical stream. `size` includes the trailer.
struct BlockHandle {
  uint64_t offset = 0;
  uint32_t size = 0;
  auto operator<=>(const BlockHandle&) const = default;
};
inline constexpr size_t kBlockTrailerBytes = 5;  // compression byte and crc

// A part of a table's data, one file on each of its StoCs.
struct Fragment {
  uint64_t offset = 0;  // in the table's data
  uint64_t size = 0;
  std::vector<StocId> stocs;  // every StoC that holds a copy
  bool operator==(const Fragment&) const = default;
};

// Everything that a reader needs to know of a table; carried by version edits and compaction jobs.
//
// Several ranges may reference a table (M4), each of which uses the keys within its use-bounds. Sizes,
// entries, smallest, largest and sequences describe the table as it was built; UsedKeys and UsedBytes
// describe the part that is used. A table without use-bounds is used whole.
struct TableInfo {
  Uuid uuid;
  uint64_t data_size = 0;           // bytes
  uint64_t metadata_size = 0;       // bytes
  uint64_t entries = 0;             // versions
  std::string smallest;             // internal key of the first entry
  std::string largest;              // internal key of the last entry
  SequenceNumber min_sequence = 0;  // over all entries
  SequenceNumber max_sequence = 0;
  // Stored keys: only [use_from, use_to) of the table belongs to this range (split, clone). Empty: unbounded.
  std::string use_from;
  std::string use_to;
  uint8_t compression = 0;  // a Compression: of blocks that shrink by it; 0: of none
  std::vector<Fragment> fragments;
  std::vector<StocId> metadata_stocs;             // copies of the metadata
  std::map<std::string, std::string> properties;  // by name; unknown ones are kept

  bool operator==(const TableInfo&) const = default;
  void AppendTo(std::string* dst) const;  // ends by itself: more may follow
  // Advances *input. DataLoss: malformed.
  static StatusOr<TableInfo> Parse(std::string_view* input);
};

// Where a copy of a part of a table goes (rebuild, S5): it is on `to` now instead of on `from`.
struct PartCopy {
  uint32_t part = 0;  // of a fragment its index, or kMetadataPart
  StocId from;        // 0: of none; the part gets one more copy
  StocId to;          // 0: to none; the part has one less
  bool operator==(const PartCopy&) const = default;
};
// The StoCs that have the part; null: the table has no such part.
const std::vector<StocId>* CopiesOf(const TableInfo& t, uint32_t part);
uint64_t PartBytes(const TableInfo& t, uint32_t part);
// Calls `fn` with each fragment's index, then with kMetadataPart.
void ForEachPart(const TableInfo& t, const std::function<void(uint32_t part)>& fn);
// Changes where the parts are. False, and the table is as it was: a copy is not on its `from`, is on its `to`
// already, or would be the last one to go.
bool MoveCopies(std::span<const PartCopy> copies, TableInfo* t);

inline bool HasUseBounds(const TableInfo& t) { return !t.use_from.empty() || !t.use_to.empty(); }
// The keys that are used; views into `t`.
KeyInterval UsedKeys(const TableInfo& t);
// Bytes of data in the blocks that hold used keys: the property set together with the bounds, else all.
uint64_t UsedBytes(const TableInfo& t);
void SetUsedBytes(uint64_t bytes, TableInfo* t);
// The wall clock, in ms, by which each entry of the table has expired (range deletion, expiry, K7);
// INT64_MAX: one never does.
int64_t ExpiresByMs(const TableInfo& t);
void SetExpiresByMs(int64_t ms, TableInfo* t);

}  // namespace nova
