// TableIndex: the index of one table, checked once and then searched without touching most of it.
//
// Beside the index block lie an array of 8-byte pieces of its keys, taken after the bytes that all of them
// share: a search runs over that array and compares whole keys only where pieces are equal; and one of the
// blocks' offsets.
//
// Thread safety: immutable once parsed.   Ownership: holds the bytes.   Errors: Parse returns false on
// anything but an index over [0, data_size) in ascending order.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "common/sstable/block.h"
#include "common/sstable/format.h"

namespace nova {

class TableIndex {
 public:
  bool Parse(std::string_view bytes, uint64_t data_size);
  size_t blocks() const { return pieces_.size(); }
  size_t memory_bytes() const {
    return bytes_.capacity() + (pieces_.capacity() + offsets_.capacity()) * sizeof(uint64_t);
  }

  // The first block that may hold something at or after (stored key, trailer); blocks() if none.
  size_t Find(std::string_view stored_key, uint64_t trailer) const;
  BlockHandle Handle(size_t i) const {
    return {offsets_[i], static_cast<uint32_t>(offsets_[i + 1] - offsets_[i])};
  }
  std::string_view SeparatorStoredKey(size_t i) const;
  size_t FindOffset(uint64_t offset) const;  // the block that starts there; blocks() if none does

 private:
  BlockEntry Entry(size_t i) const;
  uint64_t Piece(std::string_view stored_key) const;

  std::string bytes_;
  BlockView view_;
  size_t shared_ = 0;  // bytes that all separators share
  std::vector<uint64_t> pieces_;
  std::vector<uint64_t> offsets_;  // of the blocks, and where the last one ends
};

}  // namespace nova
