// Keys: user keys, stored keys and internal keys.
//
//   user key      given by an application: 1..4096 bytes
//   stored key    varint32 keyspace | user key: in ranges, bounds, memtables and tables (keyspace, N2)
//   internal key  stored key | fixed64 little-endian (sequence << 8 | type)
//
// An example: the user key "k" in keyspace 1, put with number 5:
//
//   stored key    01 6b
//   internal key  01 6b | 01 05 00 00 00 00 00 00
//
// Order: stored keys bytewise; among equal stored keys the higher sequence number first.
//
// Thread safety: pure functions.
#pragma once

#include <algorithm>
#include <bit>
#include <cstring>
#include <string>
#include <string_view>

#include "common/base/coding.h"
#include "common/base/ids.h"

namespace nova {

// The type of an entry of a log record (L1) or of a version of a key. Values are on disk and on the wire.
enum class ValueType : uint8_t {
  kDelete = 0,
  kPut = 1,
  kDeleteRange = 2,  // of [key, value); in logs only, not a version of a key
  kPutTtl = 3,       // see kExpiryBytes
  kPrepare = 4,      // reserved for transactions
  kCommit = 5,
  kAbort = 6,
};
inline constexpr ValueType kMaxValueType = ValueType::kAbort;

inline constexpr size_t kMaxUserKeyBytes = 4096;
inline constexpr size_t kInternalTrailerBytes = 8;
// A value of kPutTtl: fixed64 time at which it expires (wall clock in ms) | the user's value.
inline constexpr size_t kExpiryBytes = 8;

// Sequence number and type, as in an internal key.
inline uint64_t PackTrailer(SequenceNumber seq, ValueType type) {
  return seq << 8 | static_cast<uint8_t>(type);
}

struct ParsedInternalKey {
  std::string_view stored_key;
  SequenceNumber sequence = 0;
  ValueType type = ValueType::kPut;
};

// REQUIRES, of these two: an internal key, so at least kInternalTrailerBytes bytes.
inline uint64_t TrailerOf(std::string_view internal_key) {
  uint64_t t;
  std::memcpy(&t, internal_key.data() + internal_key.size() - kInternalTrailerBytes, sizeof(t));
  return t;
}
inline std::string_view StoredKeyOf(std::string_view internal_key) {
  return internal_key.substr(0, internal_key.size() - kInternalTrailerBytes);
}
// False: it is too short, or the type is out of range.
inline bool ParseInternalKey(std::string_view internal_key, ParsedInternalKey* out) {
  if (internal_key.size() < kInternalTrailerBytes) return false;
  const uint64_t t = TrailerOf(internal_key);
  if ((t & 0xff) > static_cast<uint8_t>(kMaxValueType)) return false;
  *out = {StoredKeyOf(internal_key), t >> 8, static_cast<ValueType>(t & 0xff)};
  return true;
}
inline void AppendInternalKey(std::string* dst, std::string_view stored_key, SequenceNumber seq,
                              ValueType type) {
  const uint64_t t = PackTrailer(seq, type);
  dst->append(stored_key);
  dst->append(reinterpret_cast<const char*>(&t), sizeof(t));
}
// The internal key that sorts at or before every version <= seq of `stored_key`: a reader at `seq` seeks to
// it.
inline void AppendSeekKey(std::string* dst, std::string_view stored_key,
                          SequenceNumber seq = kMaxSequenceNumber) {
  dst->reserve(dst->size() + stored_key.size() + kInternalTrailerBytes);
  AppendInternalKey(dst, stored_key, seq, static_cast<ValueType>(0xff));
}
inline std::string MakeSeekKey(std::string_view stored_key, SequenceNumber seq = kMaxSequenceNumber) {
  std::string k;
  AppendSeekKey(&k, stored_key, seq);
  return k;
}

// The stored keys from `first` to `last`; with an open end `last` is not among them. The bytes belong to
// somebody else: see where it comes from.
struct KeyInterval {
  std::string_view first;
  std::string_view last;
  bool open_end = false;
  bool EndsBefore(std::string_view key) const { return open_end ? last <= key : last < key; }
  bool Contains(std::string_view key) const { return first <= key && !EndsBefore(key); }
  bool empty() const { return EndsBefore(first); }
};

// Bytes at the front that both have.
inline size_t CommonPrefix(std::string_view a, std::string_view b) {
  const size_t limit = std::min(a.size(), b.size());
  size_t n = 0;
  while (n + 8 <= limit) {
    const uint64_t diff = DecodeFixed64(a.data() + n) ^ DecodeFixed64(b.data() + n);
    if (diff != 0) return n + std::countr_zero(diff) / 8;
    n += 8;
  }
  while (n < limit && a[n] == b[n]) ++n;
  return n;
}

// The first key behind all keys that begin with `prefix`; empty: there is none, for the prefix is empty or
// all 0xff.
inline std::string PrefixEnd(std::string_view prefix) {
  std::string end(prefix);
  while (!end.empty() && end.back() == '\xff') end.pop_back();
  if (!end.empty()) ++end.back();
  return end;
}

// The lesser of two ends of ranges of keys; an empty one is the end of all keys.
inline const std::string& LesserEnd(const std::string& a, const std::string& b) {
  return a.empty() || (!b.empty() && b < a) ? b : a;
}

// Below 0, 0 or above 0, in the order of internal keys.
inline int CompareInternalKeys(std::string_view a, std::string_view b) {
  const int c = StoredKeyOf(a).compare(StoredKeyOf(b));
  if (c != 0) return c;
  const uint64_t ta = TrailerOf(a), tb = TrailerOf(b);
  return ta > tb ? -1 : ta < tb ? 1 : 0;
}

static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "formats are little-endian and read by memcpy");

}  // namespace nova
