// TableInfo   varint32 size of the rest | u8 version = 1 | u64 uuid.hi | u64 uuid.lo |
//             varint64 data_size | varint64 metadata_size | varint64 entries | smallest | largest |
//             varint64 min_sequence | varint64 max_sequence | use_from | use_to | u8 compression |
//             varint32 n | n * (varint64 offset | varint64 size | stocs) | metadata stocs |
//             varint32 n | n * (name | value), names ascending
//
// Strings are length-prefixed; stocs = varint32 n | n * varint32 StocId. What a later program adds without a
// new version are properties.
#include "common/sstable/format.h"

#include <algorithm>

#include "common/base/coding.h"

namespace nova {
namespace {

constexpr char kVersion = 1;
constexpr char kUsedBytesProperty[] = "used_bytes";  // a varint64
constexpr char kExpiresByProperty[] = "expires_by";  // a varint64

Status Malformed(absl::string_view what) { return absl::DataLossError(StrCat("table info: bad ", what)); }

void PutStocs(std::string* dst, const std::vector<StocId>& stocs) {
  PutVarint32(dst, static_cast<uint32_t>(stocs.size()));
  for (const StocId stoc : stocs) PutVarint32(dst, stoc.value());
}

bool GetStocs(std::string_view* in, std::vector<StocId>* stocs) {
  uint32_t n;
  if (!GetVarint32(in, &n) || n > in->size()) return false;
  stocs->reserve(n);
  for (; n > 0; --n) {
    uint32_t id;
    if (!GetVarint32(in, &id)) return false;
    stocs->push_back(StocId(id));
  }
  return true;
}

bool GetByte(std::string_view* in, uint8_t* v) {
  if (in->empty()) return false;
  *v = static_cast<uint8_t>(in->front());
  in->remove_prefix(1);
  return true;
}

bool GetFragments(std::string_view* in, std::vector<Fragment>* fragments) {
  constexpr size_t kMinBytes = 3;
  uint32_t n;
  if (!GetVarint32(in, &n) || n > in->size() / kMinBytes) return false;
  for (; n > 0; --n) {
    Fragment f;
    if (!GetVarint64(in, &f.offset) || !GetVarint64(in, &f.size) || f.size > UINT64_MAX - f.offset)
      return false;
    if (!GetStocs(in, &f.stocs)) return false;
    fragments->push_back(std::move(f));
  }
  return true;
}

bool GetProperties(std::string_view* in, std::map<std::string, std::string>* properties) {
  uint32_t n;
  if (!GetVarint32(in, &n)) return false;
  for (; n > 0; --n) {
    std::string name, value;
    if (!GetLengthPrefixed(in, &name) || !GetLengthPrefixed(in, &value)) return false;
    if (!properties->empty() && name <= properties->rbegin()->first) return false;
    properties->emplace_hint(properties->end(), std::move(name), std::move(value));
  }
  return true;
}

bool IsInternalKeyOrEmpty(std::string_view key) { return key.empty() || key.size() >= kInternalTrailerBytes; }

Status ParseBody(std::string_view in, TableInfo* info) {
  uint8_t version;
  if (!GetByte(&in, &version)) return Malformed("length");
  if (version != kVersion) return Malformed(StrCat("version ", static_cast<int>(version)));
  if (!GetFixed64(&in, &info->uuid.hi) || !GetFixed64(&in, &info->uuid.lo)) return Malformed("uuid");
  if (!GetVarint64(&in, &info->data_size) || !GetVarint64(&in, &info->metadata_size) ||
      !GetVarint64(&in, &info->entries)) {
    return Malformed("sizes");
  }
  if (!GetLengthPrefixed(&in, &info->smallest) || !GetLengthPrefixed(&in, &info->largest) ||
      !IsInternalKeyOrEmpty(info->smallest) || !IsInternalKeyOrEmpty(info->largest)) {
    return Malformed("key range");
  }
  if (!GetVarint64(&in, &info->min_sequence) || !GetVarint64(&in, &info->max_sequence)) {
    return Malformed("sequence range");
  }
  if (!GetLengthPrefixed(&in, &info->use_from) || !GetLengthPrefixed(&in, &info->use_to)) {
    return Malformed("use-bounds");
  }
  if (!GetByte(&in, &info->compression)) return Malformed("compression");
  if (!GetFragments(&in, &info->fragments)) return Malformed("fragments");
  if (!GetStocs(&in, &info->metadata_stocs)) return Malformed("metadata stocs");
  if (!GetProperties(&in, &info->properties)) return Malformed("properties");
  return in.empty() ? OkStatus() : Malformed("length");
}

}  // namespace

void TableInfo::AppendTo(std::string* dst) const {
  std::string body(1, kVersion);
  PutFixed64(&body, uuid.hi);
  PutFixed64(&body, uuid.lo);
  PutVarint64(&body, data_size);
  PutVarint64(&body, metadata_size);
  PutVarint64(&body, entries);
  PutLengthPrefixed(&body, smallest);
  PutLengthPrefixed(&body, largest);
  PutVarint64(&body, min_sequence);
  PutVarint64(&body, max_sequence);
  PutLengthPrefixed(&body, use_from);
  PutLengthPrefixed(&body, use_to);
  body.push_back(static_cast<char>(compression));
  PutVarint32(&body, static_cast<uint32_t>(fragments.size()));
  for (const Fragment& f : fragments) {
    PutVarint64(&body, f.offset);
    PutVarint64(&body, f.size);
    PutStocs(&body, f.stocs);
  }
  PutStocs(&body, metadata_stocs);
  PutVarint32(&body, static_cast<uint32_t>(properties.size()));
  for (const auto& [name, value] : properties) {
    PutLengthPrefixed(&body, name);
    PutLengthPrefixed(&body, value);
  }
  PutLengthPrefixed(dst, body);
}

const std::vector<StocId>* CopiesOf(const TableInfo& t, uint32_t part) {
  if (part == kMetadataPart) return &t.metadata_stocs;
  return part < t.fragments.size() ? &t.fragments[part].stocs : nullptr;
}

uint64_t PartBytes(const TableInfo& t, uint32_t part) {
  return part == kMetadataPart ? t.metadata_size : t.fragments[part].size;
}

void ForEachPart(const TableInfo& t, const std::function<void(uint32_t part)>& fn) {
  for (uint32_t part = 0; part < t.fragments.size(); ++part) fn(part);
  fn(kMetadataPart);
}

bool MoveCopies(std::span<const PartCopy> copies, TableInfo* t) {
  TableInfo moved = *t;
  for (const PartCopy& c : copies) {
    auto* const stocs = const_cast<std::vector<StocId>*>(CopiesOf(moved, c.part));
    if (stocs == nullptr || c.from == c.to) return false;
    if (std::find(stocs->begin(), stocs->end(), c.to) != stocs->end()) return false;
    if (c.from != StocId() && std::erase(*stocs, c.from) == 0) return false;
    if (c.to != StocId()) stocs->push_back(c.to);
    if (stocs->empty()) return false;
  }
  *t = std::move(moved);
  return true;
}

KeyInterval UsedKeys(const TableInfo& t) {
  KeyInterval keys{StoredKeyOf(t.smallest), StoredKeyOf(t.largest)};
  if (t.use_from > keys.first) keys.first = t.use_from;
  if (!t.use_to.empty() && t.use_to <= keys.last) {
    keys.last = t.use_to;
    keys.open_end = true;
  }
  return keys;
}

uint64_t UsedBytes(const TableInfo& t) {
  if (!HasUseBounds(t)) return t.data_size;
  const auto property = t.properties.find(kUsedBytesProperty);
  if (property == t.properties.end()) return t.data_size;
  uint64_t bytes;
  std::string_view value = property->second;
  return GetVarint64(&value, &bytes) ? std::min(bytes, t.data_size) : t.data_size;
}

int64_t ExpiresByMs(const TableInfo& t) {
  const auto property = t.properties.find(kExpiresByProperty);
  if (property == t.properties.end()) return INT64_MAX;
  uint64_t ms;
  std::string_view value = property->second;
  return GetVarint64(&value, &ms) && ms <= INT64_MAX ? static_cast<int64_t>(ms) : INT64_MAX;
}

void SetExpiresByMs(int64_t ms, TableInfo* t) {
  std::string& value = t->properties[kExpiresByProperty];
  value.clear();
  PutVarint64(&value, static_cast<uint64_t>(ms));
}

void SetUsedBytes(uint64_t bytes, TableInfo* t) {
  std::string& value = t->properties[kUsedBytesProperty];
  value.clear();
  PutVarint64(&value, bytes);
}

StatusOr<TableInfo> TableInfo::Parse(std::string_view* input) {
  std::string_view rest = *input, body;
  if (!GetLengthPrefixed(&rest, &body)) return Malformed("length");
  TableInfo info;
  NOVA_RETURN_IF_ERROR(ParseBody(body, &info));
  *input = rest;
  return info;
}

}  // namespace nova
