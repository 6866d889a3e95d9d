#include "ltc/wire/protocol.h"

#include "common/base/coding.h"

namespace nova {
namespace {

constexpr uint16_t kHasTtl = 1;      // of Put
constexpr uint16_t kNoSync = 2;      // of Put, Delete and DeleteRange
constexpr uint8_t kHasExpected = 1;  // of CompareAndSwap
constexpr uint8_t kHasDesired = 2;
constexpr uint8_t kSwapNoSync = 4;
constexpr uint32_t kBatchNoSync = uint32_t{1} << 31;

// The fields that bodies written here begin with.
auto Writer(auto& m) { return std::tie(m.range, m.epoch, m.client_id, m.request_number); }
auto Scanned(auto& m) { return std::tie(m.range, m.epoch, m.snapshot, m.limit, m.reverse); }

template <typename List>
void PutFields(std::string* out, const List& fields) {
  FieldWriter(out).Put(fields);
}
template <typename List>
bool GetFields(std::string_view* in, List fields) {
  FieldReader reader(*in);
  if (!reader.GetAll(fields)) return false;
  *in = reader.rest();
  return true;
}

bool GetByte(std::string_view* in, uint8_t* byte) {
  if (in->empty()) return false;
  *byte = static_cast<uint8_t>(in->front());
  in->remove_prefix(1);
  return true;
}

bool GetBytes(std::string_view* in, size_t size, std::string_view* out) {
  if (in->size() < size) return false;
  *out = in->substr(0, size);
  in->remove_prefix(size);
  return true;
}

}  // namespace

std::string WriteRequest::EncodeHeader() const {
  std::string out;
  out.reserve(44);
  PutFields(&out, Writer(*this));
  PutFixed16(&out, static_cast<uint16_t>(key.size()));
  PutFixed16(&out, static_cast<uint16_t>((ttl_ms ? kHasTtl : 0) | (sync ? 0 : kNoSync)));
  if (ttl_ms) PutFixed64(&out, *ttl_ms);
  return out;
}

bool WriteRequest::Parse(std::string_view in, WriteRequest* out) {
  uint16_t key_size, flags;
  if (!GetFields(&in, Writer(*out)) || !GetFixed16(&in, &key_size) || !GetFixed16(&in, &flags) ||
      flags > (kHasTtl | kNoSync)) {
    return false;
  }
  out->sync = (flags & kNoSync) == 0;
  out->ttl_ms.reset();
  if ((flags & kHasTtl) != 0 && !GetFixed64(&in, &out->ttl_ms.emplace())) return false;
  if (!GetBytes(&in, key_size, &out->key)) return false;
  out->value = in;
  return true;
}

std::string ScanRequest::Encode() const {
  std::string out;
  PutFields(&out, Scanned(*this));
  PutFixed16(&out, static_cast<uint16_t>(from.size()));
  PutFixed16(&out, static_cast<uint16_t>(to.size()));
  out.append(from).append(to);
  return out;
}

bool ScanRequest::Parse(std::string_view in, ScanRequest* out) {
  uint16_t from_size, to_size;
  if (!GetFields(&in, Scanned(*out)) || !GetFixed16(&in, &from_size) || !GetFixed16(&in, &to_size) ||
      in.size() != size_t{from_size} + to_size) {
    return false;
  }
  out->from = in.substr(0, from_size);
  out->to = in.substr(from_size);
  return true;
}

std::string BatchRequest::EncodeHeader() const {
  std::string out;
  out.reserve(36);
  PutFields(&out, Writer(*this));
  PutFixed32(&out, count | (sync ? 0 : kBatchNoSync));
  return out;
}

void BatchRequest::AppendEntry(std::string_view key_prefix, const WriteBatch::Entry& entry,
                               std::string* entries) {
  entries->push_back(static_cast<char>(entry.type));
  PutVarint32(entries, static_cast<uint32_t>(key_prefix.size() + entry.key.size()));
  PutVarint32(entries, static_cast<uint32_t>(entry.value.size()));
  if (entry.type == ValueType::kPutTtl) PutVarint64(entries, static_cast<uint64_t>(entry.ttl_ms));
  entries->append(key_prefix).append(entry.key).append(entry.value);
}

bool BatchRequest::Parse(std::string_view in, BatchRequest* out) {
  if (!GetFields(&in, Writer(*out)) || !GetFixed32(&in, &out->count)) {
    return false;
  }
  out->sync = (out->count & kBatchNoSync) == 0;
  out->count &= ~kBatchNoSync;
  out->entries = in;
  return true;
}

bool BatchRequest::ParseEntries(std::vector<WriteBatch::Entry>* out) const {
  std::string_view in = entries;
  for (uint32_t i = 0; i < count; ++i) {  // a false count ends where the bytes do
    uint8_t type;
    uint32_t key_size, value_size;
    uint64_t ttl_ms = 0;
    WriteBatch::Entry entry{};
    if (!GetByte(&in, &type) || !GetVarint32(&in, &key_size) || !GetVarint32(&in, &value_size)) return false;
    entry.type = static_cast<ValueType>(type);
    switch (entry.type) {
      case ValueType::kPut:
      case ValueType::kDeleteRange:
        break;
      case ValueType::kPutTtl:
        if (!GetVarint64(&in, &ttl_ms)) return false;
        break;
      case ValueType::kDelete:
        if (value_size != 0) return false;
        break;
      default:
        return false;
    }
    entry.ttl_ms = static_cast<int64_t>(ttl_ms);
    if (!GetBytes(&in, key_size, &entry.key) || !GetBytes(&in, value_size, &entry.value)) return false;
    out->push_back(entry);
  }
  return in.empty();
}

std::string CompareAndSwapRequest::EncodeHeader() const {
  std::string out;
  out.reserve(39);
  PutFields(&out, Writer(*this));
  PutFixed16(&out, static_cast<uint16_t>(key.size()));
  out.push_back(static_cast<char>((expected ? kHasExpected : 0) | (desired ? kHasDesired : 0) |
                                  (sync ? 0 : kSwapNoSync)));
  PutFixed32(&out, expected ? static_cast<uint32_t>(expected->size()) : 0);
  return out;
}

bool CompareAndSwapRequest::Parse(std::string_view in, CompareAndSwapRequest* out) {
  uint16_t key_size;
  uint8_t flags;
  uint32_t expected_size;
  std::string_view expected;
  if (!GetFields(&in, Writer(*out)) || !GetFixed16(&in, &key_size) || !GetByte(&in, &flags) ||
      flags > (kHasExpected | kHasDesired | kSwapNoSync) || !GetFixed32(&in, &expected_size) ||
      !GetBytes(&in, key_size, &out->key) || !GetBytes(&in, expected_size, &expected)) {
    return false;
  }
  out->sync = (flags & kSwapNoSync) == 0;
  out->expected.reset();
  out->desired.reset();
  if ((flags & kHasExpected) != 0) out->expected = expected;
  if ((flags & kHasDesired) != 0) out->desired = in;
  return (out->expected || expected.empty()) && (out->desired || in.empty());
}

std::string MultiGetReply::EncodeHeader(uint32_t count) {
  std::string out;
  PutFixed32(&out, count);
  return out;
}

void MultiGetReply::AppendAnswer(const std::optional<std::string>& value, std::string* answers) {
  FieldWriter(answers).Put(value ? std::optional<std::string_view>(*value) : std::nullopt);
}

}  // namespace nova
