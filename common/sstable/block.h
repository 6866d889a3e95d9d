// Block: sorted entries, prefix-compressed, with restart points to search from. Data blocks and the index are
// blocks.
//
//   payload    entry + | u32 restart offset * n | u32 n     n >= 1; offsets ascend, the first one is 0
//   entry      varint32 shared | varint32 unshared | varint32 value size |
//              key suffix (unshared bytes) | u64 trailer | value
//
// `shared` counts the bytes at the front of the stored key that are equal to the entry's before; it is 0 at a
// restart point. Suffix and trailer (sequence << 8 | type) lie next to each other, so that a key is completed
// by one copy.
//
// Thread safety: a BlockView is immutable; builder and cursors are one thread's.
// Ownership: the builder appends to a string of the caller's; view, cursors and entries point into the
//   caller's payload.
// Errors: no input crashes; a payload that does not parse is kCorrupt.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "common/base/coding.h"
#include "common/base/keys.h"

namespace nova {

class BlockBuilder {
 public:
  // Appends to *dst; every restart_interval-th key is a restart point.
  BlockBuilder(std::string* dst, int restart_interval) : dst_(dst), restart_interval_(restart_interval) {}

  // Bytes the payload would have after this Add, at most.
  size_t SizeAfter(std::string_view internal_key, size_t value_size) const;
  bool empty() const { return restarts_.empty(); }
  // Bytes of the payload so far, with its restart points.
  size_t size() const { return empty() ? 0 : dst_->size() - start_ + 4 * restarts_.size() + 4; }

  // Appends everything of an entry but its value, which the caller appends next. REQUIRES: ascending keys.
  void AddKey(std::string_view internal_key, size_t value_size);
  // Appends the restart points; the next AddKey starts a new block.
  void Finish();

 private:
  std::string* dst_;
  int restart_interval_;
  size_t start_ = 0;       // of the block in *dst_
  int since_restart_ = 0;  // keys since the last restart point
  std::string last_stored_key_;
  std::vector<uint32_t> restarts_;  // offsets in the block
};

// An entry as it lies in a block.
struct BlockEntry {
  uint32_t shared = 0;           // bytes shared with the key before
  uint32_t unshared = 0;         // bytes of the suffix
  const char* suffix = nullptr;  // `unshared` bytes, then the trailer
  std::string_view value;

  // Sequence number and type.
  uint64_t trailer() const { return DecodeFixed64(suffix + unshared); }
  const char* end() const { return value.data() + value.size(); }
};

// A block's payload, to be searched.
class BlockView {
 public:
  enum class Result { kFound, kEnd, kCorrupt };  // kEnd: there is no such entry

  BlockView() = default;
  // False: the restart points do not fit the payload, or there is no entry.
  bool Init(std::string_view payload);

  size_t restarts() const { return restarts_; }
  const char* begin() const { return begin_; }
  const char* end() const { return end_; }  // of the entries

  // Parses the entry at `p`. False: it does not fit.
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
  // Parses the entry of restart point i, whose suffix is its whole stored key. False: corrupt.
  bool RestartEntry(size_t i, BlockEntry* entry) const {
    const char* p = RestartAt(i);
    return p != nullptr && DecodeEntry(p, entry) && entry->shared == 0;
  }

  // Where the entries of restart point i begin; null: outside the block.
  const char* RestartAt(size_t i) const {
    const uint32_t offset = DecodeFixed32(end_ + 4 * i);
    return offset < static_cast<size_t>(end_ - begin_) ? begin_ + offset : nullptr;
  }
  // Finds the first entry at or after (stored key, trailer) in internal key order. kFound: its stored key is
  // the first `shared` bytes of `stored_key`, then its suffix. kEnd: all entries are before. *ends_in_key:
  // the last entry looked at is a version of `stored_key`.
  Result Seek(std::string_view stored_key, uint64_t trailer, BlockEntry* entry, bool* ends_in_key) const;
  // Counts the restart points whose entries are before (stored key, trailer); they are the first ones.
  Result RestartsBefore(std::string_view stored_key, uint64_t trailer, size_t* n) const;

 private:
  const char* begin_ = nullptr;
  const char* end_ = nullptr;
  size_t restarts_ = 0;
};

// Walks a block forward and puts its keys together. Views are valid until the next move.
class BlockCursor {
 public:
  using Result = BlockView::Result;
  // False: as BlockView::Init. A move has to follow.
  bool Init(std::string_view payload) { return view_.Init(payload); }

  Result First();
  // Moves to the first entry at or after the key.
  Result Seek(std::string_view internal_key);
  // REQUIRES: the last move gave kFound.
  Result Next() { return next_ == view_.end() ? Result::kEnd : Advance(); }

  std::string_view key() const { return key_; }
  std::string_view value() const { return value_; }

 private:
  Result Advance();  // parses the entry at next_
  // The current entry has `value`, and the one behind it begins at `next`: that is asked for ahead, and so is
  // the one after it, if both are as large as the `size` of this one. Behind a large value the processor does
  // not look by itself, and a scan of many runs has other work first.
  void SetValue(std::string_view value, const char* next, ptrdiff_t size) {
    value_ = value;
    next_ = next;
    __builtin_prefetch(next);
    __builtin_prefetch(next + 64);
    __builtin_prefetch(next + size);
  }

  BlockView view_;
  const char* next_ = nullptr;  // behind the current entry
  std::string key_;             // the current internal key
  std::string_view value_;
};

// Walks a block backwards; the keys between two restart points are put together in one go.
class BackwardBlockCursor {
 public:
  using Result = BlockView::Result;
  bool Init(std::string_view payload) { return view_.Init(payload); }

  Result Last() { return EnterInterval(view_.restarts() - 1); }
  // Moves to the last entry before the key; kEnd: there is none.
  Result SeekBefore(std::string_view internal_key);
  Result Previous() {  // REQUIRES: the last move gave kFound
    if (at_ > 0) return --at_, Result::kFound;
    return interval_ == 0 ? Result::kEnd : EnterInterval(interval_ - 1);
  }

  std::string_view key() const {
    const size_t begin = at_ == 0 ? 0 : entries_[at_ - 1].key_end;
    return std::string_view(keys_).substr(begin, entries_[at_].key_end - begin);
  }
  std::string_view value() const { return entries_[at_].value; }

 private:
  // An entry of the interval, with its key in keys_.
  struct Whole {
    size_t key_end;  // in keys_
    std::string_view value;
  };
  Result EnterInterval(size_t i);  // to its last entry

  BlockView view_;
  size_t interval_ = 0;  // between restart points interval_ and interval_ + 1
  std::string keys_;     // the interval's internal keys, one after another
  std::vector<Whole> entries_;
  size_t at_ = 0;  // index of the current entry
};

}  // namespace nova
