// TableIndex: the index of one table, checked once and then searched without touching most of it.
//
// Beside the index block lie two arrays: pieces of its keys (common/sstable/key_pieces.h) and the blocks'
// offsets. A search runs over the pieces and compares whole keys only where pieces are equal.
//
// Thread safety: immutable once parsed.
// Ownership: copies the bytes.
// Errors: Parse returns false on anything but an index over [0, data_size) in ascending order.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "common/sstable/block.h"
#include "common/sstable/format.h"
#include "common/sstable/key_pieces.h"

namespace nova {

class TableIndex {
 public:
  bool Parse(std::string_view bytes, uint64_t data_size);  // see the head of this file
  size_t blocks() const { return pieces_.size(); }
  // Bytes of memory, for the cache's bound.
  size_t memory_bytes() const {
    return bytes_.capacity() + pieces_.memory_bytes() + offsets_.capacity() * sizeof(uint64_t);
  }

  // The first block that may hold an entry at or after (stored key, trailer); blocks(): none.
  size_t Find(std::string_view stored_key, uint64_t trailer) const;
  // REQUIRES, of these two: i < blocks().
  BlockHandle Handle(size_t i) const {
    return {offsets_[i], static_cast<uint32_t>(offsets_[i + 1] - offsets_[i])};
  }
  std::string_view SeparatorStoredKey(size_t i) const;
  // The block that starts there; blocks(): none does.
  size_t FindOffset(uint64_t offset) const;

 private:
  BlockEntry Entry(size_t i) const;  // of block i, in the index block

  std::string bytes_;  // of the index block
  BlockView view_;
  KeyPieces pieces_;               // of the separators
  std::vector<uint64_t> offsets_;  // of the blocks, then the end of the last one
};

}  // namespace nova
