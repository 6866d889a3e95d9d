#include "common/sstable/read_ahead.h"

#include "common/base/disk.h"

namespace nova {

void MappedReadAhead::Enter(size_t position, const BlockHandle& handle, std::string_view data,
                            uint64_t asked) {
  const bool follows = position == (backward_ ? position_ - 1 : position_ + 1);
  position_ = position;
  if (!follows) {
    in_a_row_ = 0;
    window_ = reads_all_ ? most_ / 2 : kFirst / 2;
    reached_ = backward_ || reads_all_ ? handle.offset : handle.offset + handle.size;
    looked_to_ = handle.offset + kLook;
  }
  if (reads_all_) {
    AskAgain(handle, data);
    LetGo(data.data() + handle.offset);
  }
  if (!reads_all_ && in_a_row_++ < kInARow) return;
  if (asked > 0) return;
  const uint64_t left = backward_ ? handle.offset - std::min(handle.offset, reached_)
                                  : reached_ - std::min(reached_, handle.offset + handle.size);
  if (left > window_ / 2) return;
  window_ = std::min(2 * window_, most_);
  if (backward_) {
    const uint64_t end = std::min(reached_, handle.offset);
    reached_ = end - std::min(end, window_);
    Ask(data.substr(reached_, end - reached_));
  } else {
    const uint64_t begin = std::max(reached_, handle.offset);
    reached_ = std::min<uint64_t>(data.size(), begin + window_);
    if (begin < reached_) Ask(data.substr(begin, reached_ - begin));
  }
}

void MappedReadAhead::Ask(std::string_view window) {
  if (reads_all_ && ResidentPrefix(window) < window.size() / 2) brought_in_.push_back(window);
  PrefetchMapped(window);
}

void MappedReadAhead::LetGo(const char* before) {
  size_t n = 0;
  for (; n < brought_in_.size(); ++n) {
    const std::string_view window = brought_in_[n];
    if (before != nullptr && window.data() + window.size() > before) break;
    ReleaseMapped(window);
  }
  brought_in_.erase(brought_in_.begin(), brought_in_.begin() + static_cast<ptrdiff_t>(n));
}

void MappedReadAhead::AskAgain(const BlockHandle& handle, std::string_view data) {
  if (handle.offset + handle.size <= looked_to_) return;
  const std::string_view look = data.substr(handle.offset, std::max<uint64_t>(kLook, handle.size));
  looked_to_ = handle.offset + look.size();
  if (const size_t there = ResidentPrefix(look); there < look.size())
    PrefetchMapped(data.substr(handle.offset + there, most_));
}

}  // namespace nova
