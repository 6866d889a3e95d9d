// Coding: how integers and strings are encoded in all formats of this project.
//
//   fixed16/32/64      little-endian
//   varint32/64        7 bits a byte, low bits first, the high bit set on all bytes but the last; each value
//                      has one encoding: a longer one than needed, or one that overflows, does not parse
//   length-prefixed    varint32 length | bytes
//
// The varint of 300 is ac 02; "ab" with its length in front is 02 61 62.
//
// Put appends to a string. Encode writes to memory that the caller sized, and returns its end. Get takes from
// the front of a view. Decode reads memory that is known to be there.
//
// Thread safety: pure functions.
// Ownership: a view that GetLengthPrefixed yields points into the input.
// Errors: Get returns false on truncated or malformed input and leaves the input as it was; it never reads
//   past the end.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

namespace nova {

inline constexpr size_t kMaxVarint32Bytes = 5;
inline constexpr size_t kMaxVarint64Bytes = 10;

// Bytes of the encoding of `v`.
inline size_t VarintLength(uint64_t v) { return (std::bit_width(v | 1) + 6) / 7; }
inline size_t LengthPrefixedSize(std::string_view s) { return VarintLength(s.size()) + s.size(); }

inline char* EncodeFixed16(char* dst, uint16_t v) {
  return static_cast<char*>(std::memcpy(dst, &v, sizeof(v))) + sizeof(v);
}
inline char* EncodeFixed32(char* dst, uint32_t v) {
  return static_cast<char*>(std::memcpy(dst, &v, sizeof(v))) + sizeof(v);
}
inline char* EncodeFixed64(char* dst, uint64_t v) {
  return static_cast<char*>(std::memcpy(dst, &v, sizeof(v))) + sizeof(v);
}
char* EncodeVarint64(char* dst, uint64_t v);  // at most kMaxVarint64Bytes
inline char* EncodeVarint32(char* dst, uint32_t v) { return EncodeVarint64(dst, v); }

inline uint16_t DecodeFixed16(const char* p) {
  uint16_t v;
  std::memcpy(&v, p, sizeof(v));
  return v;
}
inline uint32_t DecodeFixed32(const char* p) {
  uint32_t v;
  std::memcpy(&v, p, sizeof(v));
  return v;
}
inline uint64_t DecodeFixed64(const char* p) {
  uint64_t v;
  std::memcpy(&v, p, sizeof(v));
  return v;
}
// Returns the byte after the varint that starts at p, or null if none ends before `limit`.
const char* DecodeVarint32Slow(const char* p, const char* limit, uint32_t* v);
const char* DecodeVarint64(const char* p, const char* limit, uint64_t* v);
inline const char* DecodeVarint32(const char* p, const char* limit, uint32_t* v) {
  if (p < limit && static_cast<unsigned char>(*p) < 0x80) {
    *v = static_cast<unsigned char>(*p);
    return p + 1;
  }
  return DecodeVarint32Slow(p, limit, v);
}

// Append the encoding to *dst.
void PutFixed16(std::string* dst, uint16_t v);
void PutFixed32(std::string* dst, uint32_t v);
void PutFixed64(std::string* dst, uint64_t v);
void PutVarint32(std::string* dst, uint32_t v);
void PutVarint64(std::string* dst, uint64_t v);
void PutLengthPrefixed(std::string* dst, std::string_view s);  // REQUIRES: s.size() < 4 GiB

// Take the value from the front of *in. False: it is not whole there, and *in is as it was.
bool GetFixed16(std::string_view* in, uint16_t* v);
bool GetFixed32(std::string_view* in, uint32_t* v);
bool GetFixed64(std::string_view* in, uint64_t* v);
bool GetVarint32(std::string_view* in, uint32_t* v);
bool GetVarint64(std::string_view* in, uint64_t* v);
bool GetLengthPrefixed(std::string_view* in, std::string_view* s);
bool GetLengthPrefixed(std::string_view* in, std::string* s);

static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
              "fixed integers are little-endian and copied as they are");

}  // namespace nova
