// What an iterator over a table asks for ahead of the block that it enters: MappedReadAhead where the table
// is mapped, BlocksAhead where its blocks come from StoCs.
//
// Thread safety: one thread.   Ownership: none taken.   Errors: none.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "common/sstable/format.h"

namespace nova {

// Asks for nothing with the first blocks in a row, as of a get or a short scan; then for ever more. An
// iterator that will read all of the table asks for as much as it may from the start, and lets go of what it
// brought into memory once it is past it: what is read once is not to take the place of what is read often.
class MappedReadAhead {
 public:
  // `of_all`: how much to ask for at once if all of the table will be read; 0: it may not be.
  MappedReadAhead(size_t of_all, bool backward)
      : reads_all_(of_all != 0), most_(reads_all_ ? of_all : kMost), backward_(backward) {}
  // `asked`: so many bytes behind the block were asked for already.
  void Enter(size_t position, const BlockHandle& handle, std::string_view data, uint64_t asked);
  // No block will be entered again. REQUIRES: the table is still mapped.
  void Leave() { LetGo(nullptr); }

 private:
  void Ask(std::string_view window);
  // Of the windows that end before a place, or of all (null): of those that were not in memory before.
  void LetGo(const char* before);
  // Asks again for what was asked for and is not there. Where memory is short, pages that are asked for are
  // not all read, nor kept until they are used; and each one that is missing then would be read by itself.
  void AskAgain(const BlockHandle& handle, std::string_view data);

  static constexpr uint64_t kLook = 64 << 10;  // looked at at once
  static constexpr int kInARow = 3;
  static constexpr uint64_t kFirst = 32 << 10, kMost = 1 << 20;
  bool reads_all_;
  uint64_t most_;  // of the windows
  bool backward_;
  size_t position_ = SIZE_MAX - 1;
  int in_a_row_ = 0;
  uint64_t window_ = 0;
  uint64_t reached_ = 0;    // what lies between the block and this offset was asked for
  uint64_t looked_to_ = 0;  // up to there it was looked whether what was asked for is there
  // Windows that were not in memory when they were asked for, and are not passed, in order.
  std::vector<std::string_view> brought_in_;
};

// How much to ask for with a block that is needed: no more than is expected for the first blocks in a row,
// then ever more.
class BlocksAhead {
 public:
  explicit BlocksAhead(bool backward) : backward_(backward) {}
  // True: the block follows the one that was entered before.
  bool Enter(size_t position) {
    if (position == position_) return false;
    const bool follows = position == (backward_ ? position_ - 1 : position_ + 1);
    in_a_row_ = follows ? in_a_row_ + 1 : 0;
    if (!follows) window_ = 0;
    position_ = position;
    return follows;
  }
  // Bytes, when the block is needed, and so many behind it are expected to be read.
  uint64_t Ask(uint64_t expected) {
    if (expected > 0 || in_a_row_ < kInARow) return std::min(expected, kMost);
    return window_ = std::clamp(2 * window_, kFirst, kMost);
  }

 private:
  static constexpr int kInARow = 3;
  static constexpr uint64_t kFirst = 16 << 10, kMost = 64 << 10;
  bool backward_;
  size_t position_ = SIZE_MAX - 1;
  int in_a_row_ = 0;
  uint64_t window_ = 0;
};

}  // namespace nova
