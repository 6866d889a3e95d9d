// Block: sorted entries, prefix-compressed, with restart points to search from. Data blocks and the index are
// blocks.
//
//   payload    entry + | u32 restart offset * n | u32 n                n >= 1, offsets ascending, the first
//   one 0 entry      varint32 shared | varint32 unshared | varint32 value size |
//              key suffix (unshared bytes) | u64 trailer | value
//
// `shared` counts the bytes of the stored key that equal those of the entry before; it is 0 at a restart
// point. Suffix and trailer (sequence << 8 | type) lie next to each other, so a key is completed by one copy.
//
// Thread safety: a BlockView is immutable; builder and cursor are one thread's.   Ownership: the builder
// appends to a string of the caller's; view, cursor and entries point into the caller's payload. Errors: no
// input crashes; what does not parse is reported as kCorrupt.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "common/base/coding.h"
#include "common/base/keys.h"

namespace nova {

class BlockBuilder {
 public:
  BlockBuilder(std::string* dst, int restart_interval) : dst_(dst), restart_interval_(restart_interval) {}

  // Bytes the payload would have after this Add, at most.
  size_t SizeAfter(std::string_view internal_key, size_t value_size) const;
  bool empty() const { return restarts_.empty(); }
  size_t size() const { return empty() ? 0 : dst_->size() - start_ + 4 * restarts_.size() + 4; }

  // Appends everything of the entry but the value, which the caller appends.
  void AddKey(std::string_view internal_key, size_t value_size);
  void Finish();  // appends the restart points; the next AddKey starts a new block

 private:
  std::string* dst_;
  int restart_interval_;
  size_t start_ = 0;
  int since_restart_ = 0;
  std::string last_stored_key_;
  std::vector<uint32_t> restarts_;
};

struct BlockEntry {
  uint32_t shared = 0;
  uint32_t unshared = 0;
  const char* suffix = nullptr;  // `unshared` bytes, then the trailer
  std::string_view value;

  uint64_t trailer() const { return DecodeFixed64(suffix + unshared); }
  const char* end() const { return value.data() + value.size(); }
};

class BlockView {
 public:
  enum class Result { kFound, kEnd, kCorrupt };

  BlockView() = default;
  // False if the restart points do not fit the payload, or there is no entry.
  bool Init(std::string_view payload);

  size_t restarts() const { return restarts_; }
  const char* begin() const { return begin_; }
  const char* end() const { return end_; }  // of the entries

  bool DecodeEntry(const char* p, BlockEntry* entry) const {
    uint32_t value_size;
    if ((p = DecodeVarint32(p, end_, &entry->shared)) == nullptr) return false;
    if ((p = DecodeVarint32(p, end_, &entry->unshared)) == nullptr) return false;
    if ((p = DecodeVarint32(p, end_, &value_size)) == nullptr) return false;
    if (static_cast<uint64_t>(end_ - p) < uint64_t{entry->unshared} + kInternalTrailerBytes + value_size)
      return false;
    entry->suffix = p;
    entry->value = {p + entry->unshared + kInternalTrailerBytes, value_size};
    return true;
  }
  // The entry of restart point i, whose suffix is its whole stored key.
  bool RestartEntry(size_t i, BlockEntry* entry) const {
    const char* p = RestartAt(i);
    return p != nullptr && DecodeEntry(p, entry) && entry->shared == 0;
  }

  // Where the entries of restart point i begin; null: beyond the block.
  const char* RestartAt(size_t i) const {
    const uint32_t offset = DecodeFixed32(end_ + 4 * i);
    return offset < static_cast<size_t>(end_ - begin_) ? begin_ + offset : nullptr;
  }
  // The first entry at or after (stored key, trailer) in internal key order. kFound: the entry's stored key
  // is the first `shared` bytes of `stored_key` and its suffix. kEnd: all entries are before; *ends_in_key
  // says whether the last one is a version of `stored_key`.
  Result Seek(std::string_view stored_key, uint64_t trailer, BlockEntry* entry, bool* ends_in_key) const;
  // The number of restart points whose entry is before (stored key, trailer), which are the first ones.
  Result RestartsBefore(std::string_view stored_key, uint64_t trailer, size_t* n) const;

 private:
  const char* begin_ = nullptr;
  const char* end_ = nullptr;
  size_t restarts_ = 0;
};

// Walks a block forward and puts its keys together.
class BlockCursor {
 public:
  using Result = BlockView::Result;
  bool Init(std::string_view payload) {
    return view_.Init(payload);
  }  // REQUIRES: a move before anything else

  Result First();
  Result Seek(std::string_view internal_key);
  Result Next() {
    return next_ == view_.end() ? Result::kEnd : Advance();
  }  // REQUIRES: the last move gave kFound

  std::string_view key() const { return key_; }
  std::string_view value() const { return value_; }

 private:
  Result Advance();

  BlockView view_;
  const char* next_ = nullptr;
  std::string key_;
  std::string_view value_;
};

// Walks a block backwards: the entries between two restart points are put together in one go.
class BackwardBlockCursor {
 public:
  using Result = BlockView::Result;
  bool Init(std::string_view payload) { return view_.Init(payload); }

  Result Last() { return EnterInterval(view_.restarts() - 1); }
  Result SeekBefore(std::string_view internal_key);  // to the last entry before it; kEnd: there is none
  Result Previous() {                                // REQUIRES: the last move gave kFound
    if (at_ > 0) return --at_, Result::kFound;
    return interval_ == 0 ? Result::kEnd : EnterInterval(interval_ - 1);
  }

  std::string_view key() const {
    const size_t begin = at_ == 0 ? 0 : entries_[at_ - 1].key_end;
    return std::string_view(keys_).substr(begin, entries_[at_].key_end - begin);
  }
  std::string_view value() const { return entries_[at_].value; }

 private:
  struct Whole {
    size_t key_end;  // in keys_
    std::string_view value;
  };
  Result EnterInterval(size_t i);  // at its last entry

  BlockView view_;
  size_t interval_ = 0;  // between restart points interval_ and interval_ + 1
  std::string keys_;
  std::vector<Whole> entries_;
  size_t at_ = 0;
};

}  // namespace nova
