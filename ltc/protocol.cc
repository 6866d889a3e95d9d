#include "ltc/protocol.h"

#include "common/base/coding.h"

namespace nova {
namespace {

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

}  // namespace

std::string WriteRequest::EncodeHeader() const {
  std::string out;
  out.reserve(36);
  PutRangeAndEpoch(&out, range, epoch);
  PutFixed64(&out, client_id);
  PutFixed64(&out, request_number);
  PutFixed16(&out, static_cast<uint16_t>(key.size()));
  PutFixed16(&out, 0);
  return out;
}

bool WriteRequest::Parse(std::string_view in, WriteRequest* out) {
  uint16_t key_size, flags;
  if (!GetRangeAndEpoch(&in, &out->range, &out->epoch) || !GetFixed64(&in, &out->client_id) ||
      !GetFixed64(&in, &out->request_number) || !GetFixed16(&in, &key_size) || !GetFixed16(&in, &flags) ||
      key_size > in.size() || flags != 0) {
    return false;
  }
  out->key = in.substr(0, key_size);
  out->value = in.substr(key_size);
  return true;
}

std::string GetRequest::EncodeHeader() const {
  std::string out;
  PutRangeAndEpoch(&out, range, epoch);
  return out;
}

bool GetRequest::Parse(std::string_view in, GetRequest* out) {
  if (!GetRangeAndEpoch(&in, &out->range, &out->epoch)) return false;
  out->key = in;
  return true;
}

std::string ScanRequest::Encode() const {
  std::string out;
  PutRangeAndEpoch(&out, range, epoch);
  PutFixed32(&out, limit);
  PutFixed16(&out, static_cast<uint16_t>(from.size()));
  PutFixed16(&out, static_cast<uint16_t>(to.size()));
  out.append(from).append(to);
  return out;
}

bool ScanRequest::Parse(std::string_view in, ScanRequest* out) {
  uint16_t from_size, to_size;
  if (!GetRangeAndEpoch(&in, &out->range, &out->epoch) || !GetFixed32(&in, &out->limit) || !GetFixed16(&in, &from_size) ||
      !GetFixed16(&in, &to_size) || in.size() != size_t{from_size} + to_size) {
    return false;
  }
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

}  // namespace nova
