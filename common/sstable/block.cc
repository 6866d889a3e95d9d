#include "common/sstable/block.h"

#include <algorithm>

#include "common/base/log.h"

namespace nova {
namespace {

// <0, 0, >0 as the entry at (key, trailer a) lies before, at or after (key, trailer b): the newer one first.
int CompareTrailers(uint64_t a, uint64_t b) { return a > b ? -1 : a < b ? 1 : 0; }

}  // namespace

size_t BlockBuilder::SizeAfter(std::string_view internal_key, size_t value_size) const {
  return (empty() ? 4 : size()) + 4 + 3 * kMaxVarint32Bytes + internal_key.size() + value_size;
}

void BlockBuilder::AddKey(std::string_view internal_key, size_t value_size) {
  if (empty()) start_ = dst_->size();
  const std::string_view stored_key = StoredKeyOf(internal_key);
  size_t shared = 0;
  if (empty() || since_restart_ == restart_interval_) {
    restarts_.push_back(static_cast<uint32_t>(dst_->size() - start_));
    since_restart_ = 0;
  } else {
    shared = CommonPrefix(last_stored_key_, stored_key);
  }
  ++since_restart_;
  char header[3 * kMaxVarint32Bytes];
  char* p = EncodeVarint32(header, static_cast<uint32_t>(shared));
  p = EncodeVarint32(p, static_cast<uint32_t>(stored_key.size() - shared));
  p = EncodeVarint32(p, static_cast<uint32_t>(value_size));
  dst_->append(header, p - header);
  dst_->append(internal_key.substr(shared));
  last_stored_key_.resize(shared);
  last_stored_key_.append(stored_key.substr(shared));
}

void BlockBuilder::Finish() {
  NOVA_CHECK(!empty());
  for (const uint32_t offset : restarts_) PutFixed32(dst_, offset);
  PutFixed32(dst_, static_cast<uint32_t>(restarts_.size()));
  restarts_.clear();
  last_stored_key_.clear();
}

bool BlockView::Init(std::string_view payload) {
  if (payload.size() < 4) return false;
  const size_t n = DecodeFixed32(payload.data() + payload.size() - 4);
  if (n == 0 || n > (payload.size() - 4) / 4) return false;
  begin_ = payload.data();
  end_ = begin_ + payload.size() - 4 - 4 * n;
  restarts_ = n;
  return begin_ != end_ && DecodeFixed32(end_) == 0;
}

BlockView::Result BlockView::RestartsBefore(std::string_view stored_key, uint64_t trailer, size_t* n) const {
  BlockEntry entry;
  size_t lo = 0, hi = restarts_;  // restart points before lo are before the target, those from hi on are not
  while (lo < hi) {
    const size_t mid = lo + (hi - lo) / 2;
    if (!RestartEntry(mid, &entry)) return Result::kCorrupt;
    int c = std::string_view(entry.suffix, entry.unshared).compare(stored_key);
    if (c == 0) c = CompareTrailers(entry.trailer(), trailer);
    if (c < 0) {
      lo = mid + 1;
    } else {
      hi = mid;
    }
  }
  *n = lo;
  return Result::kFound;
}

BlockView::Result BlockView::Seek(std::string_view stored_key, uint64_t trailer, BlockEntry* entry,
                                  bool* ends_in_key) const {
  *ends_in_key = false;
  size_t before;
  if (RestartsBefore(stored_key, trailer, &before) != Result::kFound) return Result::kCorrupt;
  const char* p = RestartAt(before == 0 ? 0 : before - 1);
  if (p == nullptr) return Result::kCorrupt;

  // Keys are not put together here. `matched` is how many bytes the last entry, known to be before the
  // target, has in common with it. An entry that shares more with the last one differs from the target just
  // where that one did; one that shares less is greater than the last one where that one equals the target.
  size_t matched = 0, last_size = 0;
  while (p != end_) {
    if (!DecodeEntry(p, entry) || entry->shared > last_size) return Result::kCorrupt;
    last_size = size_t{entry->shared} + entry->unshared;
    p = entry->end();
    if (entry->shared < matched) return Result::kFound;
    if (entry->shared == matched) {
      const std::string_view rest = stored_key.substr(matched);
      const std::string_view suffix(entry->suffix, entry->unshared);
      const size_t more = CommonPrefix(suffix, rest);
      const bool suffix_ends = more == suffix.size(), target_ends = more == rest.size();
      *ends_in_key = suffix_ends && target_ends;
      if (*ends_in_key) {
        if (CompareTrailers(entry->trailer(), trailer) >= 0) return Result::kFound;
      } else if (target_ends || (!suffix_ends && static_cast<unsigned char>(suffix[more]) >
                                                     static_cast<unsigned char>(rest[more]))) {
        return Result::kFound;
      }
      matched += more;
    }
  }
  return Result::kEnd;
}

BlockCursor::Result BlockCursor::First() {
  key_.assign(kInternalTrailerBytes, '\0');
  next_ = view_.begin();
  return Next();
}

BlockCursor::Result BlockCursor::Seek(std::string_view internal_key) {
  const std::string_view stored_key = StoredKeyOf(internal_key);
  BlockEntry entry;
  bool ends_in_key;
  const Result result = view_.Seek(stored_key, TrailerOf(internal_key), &entry, &ends_in_key);
  if (result != Result::kFound) return result;
  SetValue(entry.value, entry.end(), 0);
  key_.assign(stored_key.substr(0, entry.shared));
  key_.append(entry.suffix, entry.unshared + kInternalTrailerBytes);
  return result;
}

BlockCursor::Result BlockCursor::Advance() {
  BlockEntry entry;
  if (!view_.DecodeEntry(next_, &entry) || entry.shared > key_.size() - kInternalTrailerBytes)
    return Result::kCorrupt;
  // Before the key is put together: the compiler keeps `entry` in memory over that call, and would load the
  // view from there in one piece, which waits for the stores before it, those of the last keys included.
  SetValue(entry.value, entry.end(), entry.end() - next_);
  key_.resize(entry.shared);
  key_.append(entry.suffix, entry.unshared + kInternalTrailerBytes);
  return Result::kFound;
}

BackwardBlockCursor::Result BackwardBlockCursor::EnterInterval(size_t i) {
  const char* p = view_.RestartAt(i);
  const char* const end = i + 1 < view_.restarts() ? view_.RestartAt(i + 1) : view_.end();
  if (p == nullptr || end == nullptr || p >= end) return Result::kCorrupt;
  interval_ = i;
  keys_.clear();
  entries_.clear();
  size_t last = 0, last_size = 0;  // the stored key before: where in keys_, and its length
  BlockEntry entry;
  while (p < end) {
    if (!view_.DecodeEntry(p, &entry) || entry.shared > last_size) return Result::kCorrupt;
    const size_t begin = keys_.size();
    keys_.append(keys_, last, entry.shared);
    keys_.append(entry.suffix, entry.unshared + kInternalTrailerBytes);
    entries_.push_back({keys_.size(), entry.value});
    last = begin;
    last_size = size_t{entry.shared} + entry.unshared;
    p = entry.end();
  }
  if (p != end) return Result::kCorrupt;
  at_ = entries_.size() - 1;
  return Result::kFound;
}

BackwardBlockCursor::Result BackwardBlockCursor::SeekBefore(std::string_view internal_key) {
  size_t before;
  if (view_.RestartsBefore(StoredKeyOf(internal_key), TrailerOf(internal_key), &before) != Result::kFound)
    return Result::kCorrupt;
  if (before == 0) return Result::kEnd;
  const Result result = EnterInterval(before - 1);
  if (result != Result::kFound) return result;
  while (at_ > 0 && CompareInternalKeys(key(), internal_key) >= 0) --at_;  // its first entry is before
  return result;
}

}  // namespace nova
