// TableCopyCheck: reads the copies of a table's parts through, and says what is wrong with one.
//
// Each block's checksum covers the table and the block's place (table identity, M4), so that any copy can be
// judged by itself; where blocks begin is said by the index, of whichever copy of the metadata is whole.
//
// Thread safety: one thread.
// Ownership:     reader and table outlive it.
// Errors:        DataLoss: the copy is damaged; NotFound: it is gone; Unavailable: its StoC does not answer.
#pragma once

#include <optional>

#include "common/sstable/table_index.h"
#include "ltc/fsck/stoc_reader.h"

namespace nova {

class TableCopyCheck {
 public:
  TableCopyCheck(StocReader* stocs, const TableInfo& table) : stocs_(stocs), table_(table) {}

  // A part, of the right size, on that StoC.
  Status Check(uint32_t part, StocId stoc) {
    return part == kMetadataPart ? CheckMetadata(stoc) : CheckFragment(part, stoc);
  }
  uint64_t blocks() const { return blocks_; }  // that were looked at

 private:
  Status CheckMetadata(StocId stoc);
  Status CheckFragment(uint32_t part, StocId stoc);
  // The blocks from `block` on that lie in the fragment and in one piece; advances `block`.
  Status CheckPiece(const Fragment& fragment, uint32_t part, StocId stoc, size_t* block);
  // Reads it where no copy of the metadata was read before. False: none is whole.
  bool HasIndex();

  StocReader* const stocs_;
  const TableInfo& table_;
  std::optional<TableIndex> index_;
  uint64_t blocks_ = 0;
};

}  // namespace nova
