// Index: a block with a restart point at every entry, one entry per data block: a separator -> varint64
// offset | varint32 size. A separator is at or after the last internal key of its block and before the first
// one of the next: where two blocks part between two stored keys, the shortest stored key that separates them
// with trailer 0, else the last internal key itself.
#include "common/sstable/table_builder.h"

#include <algorithm>
#include <cstring>

#include "common/base/check_between.h"
#include "common/base/coding.h"
#include "common/base/log.h"
#include "common/sstable/block.h"
#include "common/sstable/block_crc.h"
#include "common/sstable/compression.h"
#include "common/sstable/filter.h"
#include "common/sstable/footer.h"

namespace nova {
namespace {

constexpr size_t kMaxBlockSizeBytes = size_t{64} << 20;
constexpr int kMaxFilterBitsPerKey = 64;
// Of a large value: what is copied is still cached when it is checksummed.
constexpr size_t kCopyStepBytes = 16384;

// Options may come from another node: what makes no sense is brought into range.
TableOptions Sane(TableOptions o) {
  o.block_size_bytes = std::clamp(o.block_size_bytes, size_t{1}, kMaxBlockSizeBytes);
  o.restart_interval = std::max(o.restart_interval, 1);
  o.filter_bits_per_key = std::clamp(o.filter_bits_per_key, 0, kMaxFilterBitsPerKey);
  return o;
}

// The shortest s with a <= s < b. REQUIRES: a < b.
std::string_view ShortestSeparator(std::string_view a, std::string_view b, std::string* buffer) {
  size_t n = 0;
  while (n < a.size() && n < b.size() && a[n] == b[n]) ++n;
  // b[0 .. n] is greater than a unless a is a prefix of b, and less than b unless it is all of b.
  if (n < a.size() && n + 1 < b.size() && n + 1 < a.size()) {
    buffer->assign(b.substr(0, n + 1));
    return *buffer;
  }
  return a;
}

}  // namespace

Status TableOptions::Check() const {
  NOVA_RETURN_IF_ERROR(CheckBetween("block_size_bytes", block_size_bytes, 512, 1 << 24));
  NOVA_RETURN_IF_ERROR(CheckBetween("restart_interval", restart_interval, 1, 1024));
  NOVA_RETURN_IF_ERROR(CheckBetween("filter_bits_per_key", filter_bits_per_key, 0, kMaxFilterBitsPerKey));
  return CheckBetween("compression", static_cast<int>(compression), 0, kCompressions - 1);
}

struct TableBuilder::Rep {
  Rep(const TableOptions& o, const Uuid& uuid, std::unique_ptr<TableSink> s)
      : options(Sane(o)),
        sink(std::move(s)),
        block(&data, options.restart_interval),
        index(&index_data, 1),
        filter(options.filter_bits_per_key) {
    info.uuid = uuid;
    info.compression = static_cast<uint8_t>(options.compression);
    info.min_sequence = kMaxSequenceNumber;
  }

  void Append(std::string_view internal_key, std::string_view value);
  void CloseBlock();
  void AddIndexEntry(std::string_view next_key);
  void DrainToSink();
  uint64_t end() const { return sunk + data.size(); }  // of the logical stream

  const TableOptions options;
  std::unique_ptr<TableSink> sink;
  TableInfo info;
  std::string data;
  uint64_t sunk = 0;  // bytes the sink has
  std::string index_data;
  BlockBuilder block;
  BlockBuilder index;
  FilterBuilder filter;
  std::string last_key;
  int64_t expires_by_ms = 0;  // of the entries so far; INT64_MAX: one never expires
  std::vector<uint64_t> block_ends;
  uint64_t block_start = 0;
  size_t checksummed_to = 0;  // crc covers `data` from the start of the block to here
  uint32_t crc = 0;
  std::string separator_key;
  std::string separator_buffer;
  std::string compressed;
};

void TableBuilder::Rep::Append(std::string_view internal_key, std::string_view value) {
  if (block.empty()) {
    block_start = end();
    checksummed_to = data.size();
    crc = BlockCrcSeed(info.uuid, block_start);
  }
  block.AddKey(internal_key, value.size());
  if (value.size() < 2 * kCopyStepBytes) {
    data.append(value);
    return;
  }
  crc = ExtendCrc32c(crc, data.data() + checksummed_to, data.size() - checksummed_to);
  data.reserve(data.size() + value.size());
  for (size_t done = 0; done < value.size(); done += kCopyStepBytes) {
    const std::string_view step = value.substr(done, kCopyStepBytes);
    data.append(step);
    crc = ExtendCrc32c(crc, data.data() + data.size() - step.size(), step.size());
  }
  checksummed_to = data.size();
}

void TableBuilder::Rep::CloseBlock() {
  block.Finish();
  const size_t at = block_start - sunk;  // in `data`
  compressed.clear();
  const bool shrinks = CompressBlock(options.compression, std::string_view(data).substr(at), &compressed);
  if (shrinks) {
    data.replace(at, data.npos, compressed);
    checksummed_to = at;
    crc = BlockCrcSeed(info.uuid, block_start);
  }
  data.push_back(static_cast<char>(shrinks ? options.compression : Compression::kNone));
  PutFixed32(&data, ExtendCrc32c(crc, data.data() + checksummed_to, data.size() - checksummed_to));
  block_ends.push_back(end());
}

// The entry of the block closed last; `next_key` is the first one after it, empty at the end of the table.
void TableBuilder::Rep::AddIndexEntry(std::string_view next_key) {
  const std::string_view last = StoredKeyOf(last_key);
  std::string_view separator = last_key;
  if (next_key.empty() || last != StoredKeyOf(next_key)) {
    separator_key.assign(
        next_key.empty() ? last : ShortestSeparator(last, StoredKeyOf(next_key), &separator_buffer));
    separator_key.append(kInternalTrailerBytes, '\0');
    separator = separator_key;
  }
  char handle[kMaxVarint64Bytes + kMaxVarint32Bytes];
  char* end =
      EncodeVarint32(EncodeVarint64(handle, block_start), static_cast<uint32_t>(this->end() - block_start));
  index.AddKey(separator, end - handle);
  index_data.append(handle, end - handle);
}

void TableBuilder::Rep::DrainToSink() {
  if (sink == nullptr || data.size() < sink->step_bytes()) return;
  // Each step begins at a multiple of its size: what goes beyond them stays.
  const size_t steps = data.size() - data.size() % sink->step_bytes();
  sink->Append(std::string_view(data).substr(0, steps));
  sunk += steps;
  data.erase(0, steps);
}

TableBuilder::TableBuilder(const TableOptions& options, const Uuid& uuid, std::unique_ptr<TableSink> sink)
    : rep_(std::make_unique<Rep>(options, uuid, std::move(sink))) {}
TableBuilder::~TableBuilder() = default;

void TableBuilder::Add(std::string_view internal_key, std::string_view value) {
  Rep& r = *rep_;
  NOVA_DCHECK(internal_key.size() >= kInternalTrailerBytes);
  NOVA_DCHECK(r.info.entries == 0 || CompareInternalKeys(r.last_key, internal_key) < 0)
      << "keys out of order";
  const bool block_full =
      !r.block.empty() &&
      r.block.SizeAfter(internal_key, value.size()) + kBlockTrailerBytes > r.options.block_size_bytes;
  if (block_full) {
    r.CloseBlock();
    r.AddIndexEntry(internal_key);
    r.DrainToSink();
  }
  const std::string_view stored_key = StoredKeyOf(internal_key);
  if (r.info.entries == 0) r.info.smallest.assign(internal_key);
  if (r.info.entries == 0 || stored_key != StoredKeyOf(r.last_key)) r.filter.Add(stored_key);
  r.Append(internal_key, value);
  r.last_key.assign(internal_key);
  const SequenceNumber sequence = TrailerOf(internal_key) >> 8;
  r.info.min_sequence = std::min(r.info.min_sequence, sequence);
  r.info.max_sequence = std::max(r.info.max_sequence, sequence);
  const bool expires = static_cast<ValueType>(TrailerOf(internal_key) & 0xff) == ValueType::kPutTtl &&
                       value.size() >= sizeof(uint64_t);
  r.expires_by_ms =
      std::max(r.expires_by_ms, expires ? static_cast<int64_t>(DecodeFixed64(value.data())) : INT64_MAX);
  ++r.info.entries;
}

uint64_t TableBuilder::data_size() const {
  const Rep& r = *rep_;
  return r.block.empty() ? r.end() : r.block_start + r.block.size() + kBlockTrailerBytes;
}
uint64_t TableBuilder::entries() const { return rep_->info.entries; }
void TableBuilder::SetProperty(std::string name, std::string value) {
  rep_->info.properties[std::move(name)] = std::move(value);
}
void TableBuilder::Reserve(size_t data_bytes) {
  rep_->data.reserve(rep_->sink == nullptr ? data_bytes : 2 * rep_->sink->step_bytes());
}

TableBuilder::Output TableBuilder::Finish() {
  Rep& r = *rep_;
  NOVA_CHECK(r.info.entries > 0) << "an empty table";
  r.CloseBlock();
  r.AddIndexEntry({});
  r.index.Finish();
  r.info.data_size = r.end();
  r.info.largest = r.last_key;
  if (r.expires_by_ms != INT64_MAX) SetExpiresByMs(r.expires_by_ms, &r.info);

  Output out;
  std::string& m = out.metadata;
  r.filter.AppendTo(&m);
  Footer footer{};
  footer.filter_size = static_cast<uint32_t>(m.size());
  footer.index_size = static_cast<uint32_t>(r.index_data.size());
  m.append(r.index_data);
  const size_t properties_start = m.size();
  r.info.AppendTo(&m);
  footer.properties_size = static_cast<uint32_t>(m.size() - properties_start);
  footer.uuid_hi = r.info.uuid.hi;
  footer.uuid_lo = r.info.uuid.lo;
  footer.data_size = r.info.data_size;
  footer.version = kTableVersion;
  footer.magic = kTableMagic;
  NOVA_CHECK(m.size() < UINT32_MAX) << "metadata of " << m.size() << " bytes";
  footer.crc = ExtendCrc32c(Crc32c(m), &footer, offsetof(Footer, crc));
  m.append(reinterpret_cast<const char*>(&footer), sizeof(footer));

  r.info.metadata_size = m.size();
  out.data = std::move(r.data);
  out.sink = std::move(r.sink);
  out.block_ends = std::move(r.block_ends);
  out.info = std::move(r.info);
  return out;
}

std::vector<Fragment> CutFragments(const std::vector<uint64_t>& block_ends, size_t count) {
  std::vector<Fragment> fragments;
  if (block_ends.empty()) return fragments;
  const uint64_t total = block_ends.back();
  count = std::clamp(count, size_t{1}, block_ends.size());
  uint64_t start = 0;
  for (size_t i = 1; i <= count; ++i) {
    const auto ideal = static_cast<uint64_t>(static_cast<unsigned __int128>(total) * i / count);
    auto cut = std::lower_bound(block_ends.begin(), block_ends.end(), ideal);
    if (i < count && cut != block_ends.begin() && ideal - *(cut - 1) < *cut - ideal) --cut;
    if (*cut <= start) continue;
    fragments.push_back({start, *cut - start, {}});
    start = *cut;
  }
  return fragments;
}

}  // namespace nova
