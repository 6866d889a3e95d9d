// Checks whether raw bytes are the bytes of a table's builder, without a reader. A copy that fails here is
// damaged, and another copy is read instead (damaged copy, S3). The checksums depend on table and logical
// offset alone (table identity, M4), so any copy can be judged.
//
// Thread safety: pure functions.
// Ownership: views into the caller's bytes.
// Errors: DataLoss: with table, place and damage.
#pragma once

#include <string_view>

#include "common/sstable/format.h"

namespace nova {

// DataLoss, with the table and the damage.
Status TableError(const Uuid& table, absl::string_view damage);

// What is wrong with a data block and its trailer; null: nothing.
const char* RawBlockDamage(const Uuid& table, const BlockHandle& handle, std::string_view raw);
Status CheckRawBlock(const Uuid& table, const BlockHandle& handle, std::string_view raw);

// The parts of a metadata blob.
struct MetadataSections {
  std::string_view filter, index, properties;
};
// Checks footer and checksum of a metadata blob, and returns its sections.
StatusOr<MetadataSections> CheckRawMetadata(const TableInfo& info, std::string_view metadata);

}  // namespace nova
