#include "common/sstable/table_reader.h"

#include <algorithm>

#include "common/base/disk.h"
#include "common/base/log.h"
#include "common/sstable/block.h"
#include "common/sstable/block_crc.h"
#include "common/sstable/compression.h"
#include "common/sstable/table_check.h"
#include "common/sstable/table_reader_rep.h"

namespace nova {
TableReader::TableReader() : rep_(std::make_unique<Rep>()) {}
TableReader::~TableReader() = default;

StatusOr<std::shared_ptr<const TableReader>> TableReader::Open(const TableInfo& info,
                                                               std::string_view metadata, SharedBytes mapped,
                                                               bool cold) {
  NOVA_ASSIGN_OR_RETURN(MetadataSections sections, CheckRawMetadata(info, metadata));
  if (info.smallest.size() < kInternalTrailerBytes || info.largest.size() < kInternalTrailerBytes) {
    return TableError(info.uuid, "no key range");
  }
  std::shared_ptr<TableReader> reader(new TableReader());
  Rep& r = *reader->rep_;
  r.info = info;
  if (!r.filter.Parse(sections.filter)) return TableError(info.uuid, "malformed filter");
  if (!r.index.Parse(sections.index, info.data_size)) return TableError(info.uuid, "malformed index");
  NOVA_ASSIGN_OR_RETURN(const TableInfo as_built, TableInfo::Parse(&sections.properties));
  if (as_built.uuid != info.uuid || !sections.properties.empty())
    return TableError(info.uuid, "malformed properties");
  if (mapped.data.size() == info.data_size && info.compression == 0) {
    r.mapped = std::move(mapped);
    r.residency.Assume(cold);
    r.checked.reset(new std::atomic<uint64_t>[r.index.blocks() / 64 + 1]());
  }
  return std::shared_ptr<const TableReader>(std::move(reader));
}

const TableInfo& TableReader::info() const { return rep_->info; }

const TableInfo& TableReader::places() const { return *rep_->places.load(std::memory_order_acquire); }

void TableReader::SetPlaces(const TableInfo& info) const {
  MutexLock lock(&rep_->places_mu);
  rep_->moved.push_back(std::make_unique<const TableInfo>(info));
  rep_->places.store(rep_->moved.back().get(), std::memory_order_release);
}

size_t TableReader::memory_bytes() const {
  return sizeof(Rep) + rep_->filter.memory_bytes() + rep_->index.memory_bytes();
}

void TableReader::PrefetchFilter(uint64_t hash) const { rep_->filter.Prefetch(hash); }

bool TableReader::MayContain(std::string_view stored_key, uint64_t hash) const {
  const Rep& r = *rep_;
  if (!r.InBounds(stored_key)) return false;
  if (!r.filter.empty()) return r.filter.MayContain(hash);
  return stored_key >= StoredKeyOf(r.info.smallest) && stored_key <= StoredKeyOf(r.info.largest);
}

bool TableReader::FindBlock(std::string_view stored_key, SequenceNumber seq, BlockHandle* handle) const {
  const Rep& r = *rep_;
  if (!r.InBounds(stored_key)) return false;
  const size_t i = r.index.Find(stored_key, PackTrailer(seq, static_cast<ValueType>(0xff)));
  if (i == r.index.blocks()) return false;
  *handle = r.index.Handle(i);
  return true;
}

bool TableReader::FindNextBlock(const BlockHandle& handle, BlockHandle* next) const {
  const TableIndex& index = rep_->index;
  const size_t i = index.FindOffset(handle.offset + handle.size);
  if (i == index.blocks()) return false;
  *next = index.Handle(i);
  return true;
}

std::vector<std::string> TableReader::SplitKeys(size_t n) const {
  const auto [first, end] = rep_->UsedBlocks();
  std::vector<std::string> keys;
  for (size_t i = 1; first < end && i < n + 1; ++i) {
    std::string key(rep_->index.SeparatorStoredKey(std::min(end - 1, first + (end - first) * i / (n + 1))));
    if ((keys.empty() || key > keys.back()) && rep_->InBounds(key)) keys.push_back(std::move(key));
  }
  return keys;
}

void TableReader::ForEachBlock(const std::function<void(const BlockHandle&)>& fn) const {
  for (size_t i = 0; i < rep_->index.blocks(); ++i) fn(rep_->index.Handle(i));
}

void TableReader::ForEachUsedBlock(const std::function<void(const BlockHandle&)>& fn) const {
  const auto [first, end] = rep_->UsedBlocks();
  for (size_t i = first; i < end; ++i) fn(rep_->index.Handle(i));
}

std::pair<size_t, size_t> TableReader::Rep::UsedBlocks() const {
  constexpr uint64_t kNewest = UINT64_MAX;
  const size_t first = info.use_from.empty() ? 0 : index.Find(info.use_from, kNewest);
  if (info.use_to.empty()) return {first, index.blocks()};
  // that one may begin below the bound
  return {first, std::min(index.blocks(), index.Find(info.use_to, kNewest) + 1)};
}

const char* TableReader::Rep::Damage(const BlockHandle& handle, std::string_view raw,
                                     std::string_view* payload, std::string* buffer) const {
  if (const char* damage = RawBlockDamage(info.uuid, handle, raw)) return damage;
  const size_t payload_size = raw.size() - kBlockTrailerBytes;
  *payload = raw.substr(0, payload_size);
  const auto compression = static_cast<Compression>(raw[payload_size]);
  if (compression != Compression::kNone) {
    if (compression > Compression::kZstd) return "unknown compression";
    if (!DecompressBlock(compression, *payload, buffer)) return "does not decompress";
    *payload = *buffer;
  }
  BlockView view;
  return view.Init(*payload) ? nullptr : "malformed";
}

StatusOr<BlockRef> TableReader::CheckBlock(const BlockHandle& handle, std::string raw) const {
  std::string_view payload;
  std::string buffer;
  if (const char* damage = rep_->Damage(handle, raw, &payload, &buffer)) {
    return TableError(rep_->info.uuid, StrCat("block at ", handle.offset, " of ", handle.size, " bytes, got ",
                                              raw.size(), ": ", damage));
  }
  if (payload.data() == buffer.data()) return SharedBytes::Of(std::move(buffer));
  raw.resize(payload.size());
  return SharedBytes::Of(std::move(raw));
}

// A block is parsed from its end, where the restart points are, and then from its beginning, mostly.
void TableReader::Rep::PrefetchEnds(size_t i) const {
  const BlockHandle at = index.Handle(i);
  const char* const begin = mapped.data.data() + at.offset;
  __builtin_prefetch(begin);
  __builtin_prefetch(begin + at.size - kBlockTrailerBytes - sizeof(uint32_t));
}

void TableReader::Rep::Prefetch(size_t i, uint64_t bytes_behind) const {
  const BlockHandle at = index.Handle(i);
  if (!residency.IsWorthAsking()) {
    constexpr size_t kMostBehind = 4;  // blocks: what is read later is asked for when its time comes
    PrefetchEnds(i);
    for (size_t n = 1; n <= kMostBehind && i + n < index.blocks(); ++n) {
      if (index.Handle(i + n).offset - at.offset >= at.size + bytes_behind) break;
      PrefetchEnds(i + n);
    }
    return;
  }
  residency.OnAsk(mapped.data.substr(at.offset, at.size));
  PrefetchMapped(mapped.data.substr(at.offset, at.size + bytes_behind));
}

std::string_view TableReader::Rep::MappedBlock(size_t i, TableIterator::Check check,
                                               uint64_t bytes_behind) const {
  if (!mapped) return {};
  const BlockHandle handle = index.Handle(i);
  const std::string_view raw = mapped.data.substr(handle.offset, handle.size);
  const std::string_view to_read = mapped.data.substr(handle.offset, handle.size + bytes_behind);
  std::atomic<uint64_t>& word = checked[i / 64];
  const uint64_t bit = uint64_t{1} << (i % 64);
  residency.OnUse(to_read);
  if (check == TableIterator::Check::kOnce && (word.load(std::memory_order_relaxed) & bit) != 0)
    return raw.substr(0, raw.size() - kBlockTrailerBytes);
  std::string_view payload;
  std::string buffer;
  if (Damage(handle, raw, &payload, &buffer) != nullptr || !buffer.empty()) return {};
  word.fetch_or(bit, std::memory_order_relaxed);
  return payload;
}

bool TableReader::entries_are_large() const {
  const uint64_t blocks = rep_->index.blocks(), entries = rep_->info.entries;
  return entries <= 4 * blocks && 2 * entries >= 3 * blocks;
}

bool TableReader::mapped() const { return static_cast<bool>(rep_->mapped); }

std::string_view TableReader::mapped_data() const { return rep_->mapped.data; }

void TableReader::MarkWarm() const { rep_->residency.AssumeWarm(); }

TableReader::Found TableReader::Search(std::string_view stored_key, uint64_t hash, SequenceNumber seq,
                                       Hit* hit) const {
  const Rep& r = *rep_;
  if (!MayContain(stored_key, hash)) return Found::kAbsent;
  for (size_t i = r.index.Find(stored_key, PackTrailer(seq, static_cast<ValueType>(0xff)));
       i < r.index.blocks(); ++i) {
    r.PrefetchEnds(i);
    const std::string_view block = r.MappedBlock(i, TableIterator::Check::kOnce);
    if (block.empty()) return Found::kCorrupt;
    const Found found = SearchBlock(block, stored_key, seq, hit);
    if (found != Found::kNextBlock) return found;
  }
  return Found::kAbsent;
}

bool TableReader::PrefetchBlock(std::string_view stored_key, uint64_t hash, SequenceNumber seq) const {
  const Rep& r = *rep_;
  if (!MayContain(stored_key, hash)) return false;
  const size_t i = r.index.Find(stored_key, PackTrailer(seq, static_cast<ValueType>(0xff)));
  if (i >= r.index.blocks()) return false;
  r.Prefetch(i, 0);
  return true;
}

bool TableReader::AnyOnDisk() { return Residency::AnyIsWorthAsking(); }

TableReader::Found TableReader::SearchBlock(std::string_view block, std::string_view stored_key,
                                            SequenceNumber seq, Hit* hit) const {
  BlockView view;
  if (!view.Init(block)) return Found::kCorrupt;
  BlockEntry entry;
  bool ends_in_key;
  switch (view.Seek(stored_key, PackTrailer(seq, static_cast<ValueType>(0xff)), &entry, &ends_in_key)) {
    case BlockView::Result::kCorrupt:
      return Found::kCorrupt;
    case BlockView::Result::kEnd:
      return ends_in_key ? Found::kNextBlock : Found::kAbsent;
    case BlockView::Result::kFound:
      break;
  }
  if (std::string_view(entry.suffix, entry.unshared) != stored_key.substr(entry.shared))
    return Found::kAbsent;
  const uint64_t trailer = entry.trailer();
  if ((trailer & 0xff) > static_cast<uint8_t>(kMaxValueType)) return Found::kCorrupt;
  *hit = {trailer >> 8, static_cast<ValueType>(trailer & 0xff), entry.value};
  return Found::kFound;
}

}  // namespace nova
