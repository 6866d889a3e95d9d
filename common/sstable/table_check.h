// Whether raw bytes are what a table's builder wrote, told without a reader: what a copy gives that fails
// here is damaged, and another copy is read instead (damaged copy, S3). The checksums hang on table and
// logical offset (table identity, M4), so any copy can be judged.
//
// Thread safety: pure functions.   Ownership: views into the caller's bytes.   Errors: DataLoss: table,
//                place, what is wrong.
#pragma once

#include <string_view>

#include "common/sstable/format.h"

namespace nova {

// A data block with its trailer; what is wrong with it, null: nothing.
const char* RawBlockDamage(const Uuid& table, const BlockHandle& handle, std::string_view raw);
Status CheckRawBlock(const Uuid& table, const BlockHandle& handle, std::string_view raw);

struct MetadataSections {
  std::string_view filter, index, properties;
};
// A metadata blob whose footer and checksum hold, in its sections.
StatusOr<MetadataSections> CheckRawMetadata(const TableInfo& info, std::string_view metadata);

}  // namespace nova
