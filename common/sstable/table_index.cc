#include "common/sstable/table_index.h"

#include <algorithm>

#include "common/base/log.h"

namespace nova {
namespace {

bool ParseHandle(std::string_view value, BlockHandle* handle) {
  return GetVarint64(&value, &handle->offset) && GetVarint32(&value, &handle->size) && value.empty();
}

std::string_view StoredKey(const BlockEntry& entry) { return {entry.suffix, entry.unshared}; }

int Compare(const BlockEntry& entry, std::string_view stored_key, uint64_t trailer) {
  const int c = StoredKey(entry).compare(stored_key);
  if (c != 0) return c;
  return entry.trailer() > trailer ? -1 : entry.trailer() < trailer ? 1 : 0;
}

}  // namespace

bool TableIndex::Parse(std::string_view bytes, uint64_t data_size) {
  bytes_.assign(bytes);
  if (!view_.Init(bytes_)) return false;
  BlockEntry entry, last;
  uint64_t offset = 0;
  const char* p = view_.begin();
  for (size_t i = 0; i < view_.restarts(); ++i, last = entry, p = entry.end()) {
    BlockHandle handle;
    if (DecodeFixed32(view_.end() + 4 * i) != p - view_.begin() || !view_.RestartEntry(i, &entry))
      return false;
    if (i > 0 && Compare(last, StoredKey(entry), entry.trailer()) >= 0) return false;
    if (!ParseHandle(entry.value, &handle) || handle.offset != offset) return false;
    if (handle.size <= kBlockTrailerBytes || handle.size > data_size - offset) return false;
    offsets_.push_back(offset);
    offset += handle.size;
  }
  if (p != view_.end() || offset != data_size) return false;
  offsets_.push_back(offset);

  pieces_.Build(view_.restarts(), [this](size_t i) { return SeparatorStoredKey(i); });
  return true;
}

BlockEntry TableIndex::Entry(size_t i) const {
  BlockEntry entry;
  NOVA_CHECK(view_.RestartEntry(i, &entry)) << i;
  return entry;
}

std::string_view TableIndex::SeparatorStoredKey(size_t i) const { return StoredKey(Entry(i)); }

size_t TableIndex::Find(std::string_view stored_key, uint64_t trailer) const {
  auto [lo, hi] = pieces_.Find(stored_key);
  while (lo < hi) {
    const size_t mid = lo + (hi - lo) / 2;
    if (Compare(Entry(mid), stored_key, trailer) < 0) {
      lo = mid + 1;
    } else {
      hi = mid;
    }
  }
  return lo;
}

size_t TableIndex::FindOffset(uint64_t offset) const {
  const auto at = std::lower_bound(offsets_.begin(), offsets_.end(), offset);
  return at != offsets_.end() && *at == offset ? static_cast<size_t>(at - offsets_.begin()) : blocks();
}

}  // namespace nova
