#include "ltc/wire/protocol.h"

#include "common/base/coding.h"

namespace nova {
namespace {

constexpr uint16_t kHasTtl = 1;      // of Put
constexpr uint16_t kNoSync = 2;      // of Put, Delete and DeleteRange
constexpr uint8_t kReverse = 1;      // of Scan
constexpr uint8_t kHasExpected = 1;  // of CompareAndSwap
constexpr uint8_t kHasDesired = 2;
constexpr uint8_t kSwapNoSync = 4;
constexpr uint32_t kBatchNoSync = uint32_t{1} << 31;

bool GetRangeAndEpoch(std::string_view* in, RangeId* range, Epoch* epoch) {
  uint64_t r, e;
  if (!GetFixed64(in, &r) || !GetFixed64(in, &e)) return false;
  *range = RangeId(r);
  *epoch = Epoch(e);
  return true;
}

void PutRangeAndEpoch(std::string* out, RangeId range, Epoch epoch) {
  PutFixed64(out, range.value());
  PutFixed64(out, epoch.value());
}

bool GetWriter(std::string_view* in, uint64_t* client_id, uint64_t* request_number) {
  return GetFixed64(in, client_id) && GetFixed64(in, request_number);
}

void PutWriter(std::string* out, uint64_t client_id, uint64_t request_number) {
  PutFixed64(out, client_id);
  PutFixed64(out, request_number);
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
  PutRangeAndEpoch(&out, range, epoch);
  PutWriter(&out, client_id, request_number);
  PutFixed16(&out, static_cast<uint16_t>(key.size()));
  PutFixed16(&out, static_cast<uint16_t>((ttl_ms ? kHasTtl : 0) | (sync ? 0 : kNoSync)));
  if (ttl_ms) PutFixed64(&out, *ttl_ms);
  return out;
}

bool WriteRequest::Parse(std::string_view in, WriteRequest* out) {
  uint16_t key_size, flags;
  if (!GetRangeAndEpoch(&in, &out->range, &out->epoch) ||
      !GetWriter(&in, &out->client_id, &out->request_number) || !GetFixed16(&in, &key_size) ||
      !GetFixed16(&in, &flags) || flags > (kHasTtl | kNoSync)) {
    return false;
  }
  out->sync = (flags & kNoSync) == 0;
  out->ttl_ms.reset();
  if ((flags & kHasTtl) != 0 && !GetFixed64(&in, &out->ttl_ms.emplace())) return false;
  if (!GetBytes(&in, key_size, &out->key)) return false;
  out->value = in;
  return true;
}

std::string GetRequest::EncodeHeader() const {
  std::string out;
  PutRangeAndEpoch(&out, range, epoch);
  PutFixed64(&out, snapshot);
  return out;
}

bool GetRequest::Parse(std::string_view in, GetRequest* out) {
  if (!GetRangeAndEpoch(&in, &out->range, &out->epoch) || !GetFixed64(&in, &out->snapshot)) return false;
  out->key = in;
  return true;
}

std::string ScanRequest::Encode() const {
  std::string out;
  PutRangeAndEpoch(&out, range, epoch);
  PutFixed64(&out, snapshot);
  PutFixed32(&out, limit);
  out.push_back(reverse ? kReverse : 0);
  PutFixed16(&out, static_cast<uint16_t>(from.size()));
  PutFixed16(&out, static_cast<uint16_t>(to.size()));
  out.append(from).append(to);
  return out;
}

bool ScanRequest::Parse(std::string_view in, ScanRequest* out) {
  uint8_t flags;
  uint16_t from_size, to_size;
  if (!GetRangeAndEpoch(&in, &out->range, &out->epoch) || !GetFixed64(&in, &out->snapshot) ||
      !GetFixed32(&in, &out->limit) || !GetByte(&in, &flags) || flags > kReverse ||
      !GetFixed16(&in, &from_size) || !GetFixed16(&in, &to_size) ||
      in.size() != size_t{from_size} + to_size) {
    return false;
  }
  out->reverse = (flags & kReverse) != 0;
  out->from = in.substr(0, from_size);
  out->to = in.substr(from_size);
  return true;
}

std::string ScanReply::EncodeHeader() const {
  std::string out;
  PutFixed32(&out, count);
  out.push_back(more ? 1 : 0);
  return out;
}

bool ScanReply::Parse(std::string_view in, ScanReply* out) {
  if (!GetFixed32(&in, &out->count) || in.empty() || static_cast<uint8_t>(in[0]) > 1) return false;
  out->more = in[0] == 1;
  out->entries = in.substr(1);
  return true;
}

std::string BatchRequest::EncodeHeader() const {
  std::string out;
  out.reserve(36);
  PutRangeAndEpoch(&out, range, epoch);
  PutWriter(&out, client_id, request_number);
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
  if (!GetRangeAndEpoch(&in, &out->range, &out->epoch) ||
      !GetWriter(&in, &out->client_id, &out->request_number) || !GetFixed32(&in, &out->count)) {
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
  PutRangeAndEpoch(&out, range, epoch);
  PutWriter(&out, client_id, request_number);
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
  if (!GetRangeAndEpoch(&in, &out->range, &out->epoch) ||
      !GetWriter(&in, &out->client_id, &out->request_number) || !GetFixed16(&in, &key_size) ||
      !GetByte(&in, &flags) || flags > (kHasExpected | kHasDesired | kSwapNoSync) ||
      !GetFixed32(&in, &expected_size) || !GetBytes(&in, key_size, &out->key) ||
      !GetBytes(&in, expected_size, &expected)) {
    return false;
  }
  out->sync = (flags & kSwapNoSync) == 0;
  out->expected.reset();
  out->desired.reset();
  if ((flags & kHasExpected) != 0) out->expected = expected;
  if ((flags & kHasDesired) != 0) out->desired = in;
  return (out->expected || expected.empty()) && (out->desired || in.empty());
}

std::string MultiGetRequest::Encode() const {
  std::string out;
  size_t size = 28;
  for (const std::string_view key : keys) size += LengthPrefixedSize(key);
  out.reserve(size);
  PutRangeAndEpoch(&out, range, epoch);
  PutFixed64(&out, snapshot);
  PutFixed32(&out, static_cast<uint32_t>(keys.size()));
  for (const std::string_view key : keys) PutLengthPrefixed(&out, key);
  return out;
}

bool MultiGetRequest::Parse(std::string_view in, MultiGetRequest* out) {
  uint32_t count;
  if (!GetRangeAndEpoch(&in, &out->range, &out->epoch) || !GetFixed64(&in, &out->snapshot) ||
      !GetFixed32(&in, &count) || count > kMaxMultiGetKeys) {
    return false;
  }
  out->keys.clear();
  std::string_view key;
  for (uint32_t i = 0; i < count; ++i) {
    if (!GetLengthPrefixed(&in, &key)) return false;
    out->keys.push_back(key);
  }
  return in.empty();
}

std::string MultiGetReply::EncodeHeader(uint32_t count) {
  std::string out;
  PutFixed32(&out, count);
  return out;
}

void MultiGetReply::AppendAnswer(const std::optional<std::string>& value, std::string* answers) {
  answers->push_back(value ? 1 : 0);
  if (value) PutLengthPrefixed(answers, *value);
}

bool MultiGetReply::Parse(std::string_view in, MultiGetReply* out) {
  uint32_t count;
  if (!GetFixed32(&in, &count) || count > kMaxMultiGetKeys) return false;
  out->values.clear();
  for (uint32_t i = 0; i < count; ++i) {
    uint8_t found;
    std::string_view value;
    if (!GetByte(&in, &found) || found > 1 || (found == 1 && !GetLengthPrefixed(&in, &value))) return false;
    found == 1 ? out->values.emplace_back(value) : out->values.emplace_back();
  }
  return in.empty();
}

std::string SnapshotRequest::Encode(LtcRequest type) const {
  std::string out;
  PutRangeAndEpoch(&out, range, epoch);
  if (type != LtcRequest::kTakeSnapshot) PutFixed64(&out, snapshot);
  if (type != LtcRequest::kDropSnapshot) PutFixed32(&out, lease_ms);
  return out;
}

bool SnapshotRequest::Parse(LtcRequest type, std::string_view in, SnapshotRequest* out) {
  out->snapshot = 0;
  out->lease_ms = 0;
  return GetRangeAndEpoch(&in, &out->range, &out->epoch) &&
         (type == LtcRequest::kTakeSnapshot || GetFixed64(&in, &out->snapshot)) &&
         (type == LtcRequest::kDropSnapshot || GetFixed32(&in, &out->lease_ms)) && in.empty();
}

std::string SnapshotReply::Encode() const {
  std::string out;
  PutFixed64(&out, snapshot);
  return out;
}

bool SnapshotReply::Parse(std::string_view in, SnapshotReply* out) {
  return GetFixed64(&in, &out->snapshot) && in.empty();
}

std::string CheckpointRequest::Encode() const {
  std::string out;
  PutRangeAndEpoch(&out, range, epoch);
  out.push_back(static_cast<char>(verb));
  return out.append(name);
}

bool CheckpointRequest::Parse(std::string_view in, CheckpointRequest* out) {
  if (!GetRangeAndEpoch(&in, &out->range, &out->epoch) || in.empty() || in[0] < 1 ||
      in[0] > static_cast<char>(CheckpointVerb::kRestore)) {
    return false;
  }
  out->verb = static_cast<CheckpointVerb>(in[0]);
  out->name = in.substr(1);
  return out->verb != CheckpointVerb::kList || out->name.empty();
}

std::string CheckpointReply::Encode() const {
  std::string out;
  for (const Entry& e : entries) {
    PutLengthPrefixed(&out, e.name);
    for (const uint64_t v : {e.sequence, e.created_ms, e.bytes, e.pinned_bytes}) PutFixed64(&out, v);
  }
  return out;
}

bool CheckpointReply::Parse(std::string_view in, CheckpointReply* out) {
  out->entries.clear();
  while (!in.empty()) {
    Entry e;
    if (!GetLengthPrefixed(&in, &e.name)) return false;
    for (uint64_t* v : {&e.sequence, &e.created_ms, &e.bytes, &e.pinned_bytes}) {
      if (!GetFixed64(&in, v)) return false;
    }
    out->entries.push_back(e);
  }
  return true;
}

}  // namespace nova
