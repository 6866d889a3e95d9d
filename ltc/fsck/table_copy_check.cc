#include "ltc/fsck/table_copy_check.h"

#include <algorithm>

#include "common/sstable/table_check.h"

namespace nova {

Status TableCopyCheck::CheckMetadata(StocId stoc) {
  NOVA_ASSIGN_OR_RETURN(const std::string bytes,
                        stocs_->Read(stoc, {table_.uuid, kMetadataPart}, 0, table_.metadata_size));
  NOVA_ASSIGN_OR_RETURN(const MetadataSections sections, CheckRawMetadata(table_, bytes));
  TableIndex index;
  if (!index.Parse(sections.index, table_.data_size))
    return absl::DataLossError(StrCat("table ", table_.uuid.ToString(), ": the index is malformed"));
  if (!index_) index_ = std::move(index);
  return OkStatus();
}

bool TableCopyCheck::HasIndex() {
  return index_ || std::any_of(table_.metadata_stocs.begin(), table_.metadata_stocs.end(),
                               [this](StocId stoc) { return CheckMetadata(stoc).ok(); });
}

Status TableCopyCheck::CheckFragment(uint32_t part, StocId stoc) {
  const Fragment& fragment = table_.fragments[part];
  if (!HasIndex()) {  // no block can be judged; that the bytes can be read is all there is to be seen
    for (uint64_t at = 0; at < fragment.size; at += StocReader::kPieceBytes) {
      const uint64_t size = std::min<uint64_t>(StocReader::kPieceBytes, fragment.size - at);
      NOVA_RETURN_IF_ERROR(stocs_->Read(stoc, {table_.uuid, part}, at, size).status());
    }
    return OkStatus();
  }
  size_t block = index_->FindOffset(fragment.offset);
  if (block == index_->blocks() && fragment.size > 0) {
    return absl::DataLossError(
        StrCat("table ", table_.uuid.ToString(), ": no block begins where fragment ", part, " does"));
  }
  while (block < index_->blocks() && index_->Handle(block).offset < fragment.offset + fragment.size)
    NOVA_RETURN_IF_ERROR(CheckPiece(fragment, part, stoc, &block));
  return OkStatus();
}

Status TableCopyCheck::CheckPiece(const Fragment& fragment, uint32_t part, StocId stoc, size_t* block) {
  const uint64_t begin = index_->Handle(*block).offset;
  const uint64_t fragment_end = fragment.offset + fragment.size;
  size_t behind = *block;
  uint64_t end = begin;
  while (behind < index_->blocks() && end < fragment_end) {
    const BlockHandle handle = index_->Handle(behind);
    if (behind > *block && end + handle.size > begin + StocReader::kPieceBytes) break;
    end = handle.offset + handle.size;
    ++behind;
  }
  NOVA_ASSIGN_OR_RETURN(const std::string bytes,
                        stocs_->Read(stoc, {table_.uuid, part}, begin - fragment.offset, end - begin));
  for (; *block < behind; ++*block, ++blocks_) {
    const BlockHandle handle = index_->Handle(*block);
    const uint64_t at = std::min<uint64_t>(handle.offset - begin, bytes.size());
    NOVA_RETURN_IF_ERROR(CheckRawBlock(table_.uuid, handle, std::string_view(bytes).substr(at, handle.size)));
  }
  return OkStatus();
}

}  // namespace nova
