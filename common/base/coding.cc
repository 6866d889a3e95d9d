#include "common/base/coding.h"

#include "common/base/log.h"

namespace nova {
namespace {

template <typename T>
void PutFixed(std::string* dst, T v) {
  dst->append(reinterpret_cast<const char*>(&v), sizeof(v));
}

template <typename T>
bool GetFixed(std::string_view* in, T* v) {
  if (in->size() < sizeof(T)) return false;
  std::memcpy(v, in->data(), sizeof(T));
  in->remove_prefix(sizeof(T));
  return true;
}

template <typename T>
const char* DecodeVarint(const char* p, const char* limit, T* v) {
  constexpr int kBits = sizeof(T) * 8;
  T result = 0;
  for (int shift = 0; shift < kBits && p < limit; shift += 7) {
    const auto byte = static_cast<unsigned char>(*p++);
    const auto bits = static_cast<T>(byte & 0x7f);
    if (shift + 7 > kBits && (bits >> (kBits - shift)) != 0) return nullptr;
    result |= bits << shift;
    if (byte < 0x80) {
      if (byte == 0 && shift != 0) return nullptr;
      *v = result;
      return p;
    }
  }
  return nullptr;
}

bool Advance(std::string_view* in, const char* to) {
  if (to == nullptr) return false;
  in->remove_prefix(to - in->data());
  return true;
}

}  // namespace

char* EncodeVarint64(char* dst, uint64_t v) {
  while (v >= 0x80) {
    *dst++ = static_cast<char>(v | 0x80);
    v >>= 7;
  }
  *dst++ = static_cast<char>(v);
  return dst;
}

const char* DecodeVarint32Slow(const char* p, const char* limit, uint32_t* v) {
  return DecodeVarint(p, limit, v);
}
const char* DecodeVarint64(const char* p, const char* limit, uint64_t* v) {
  return DecodeVarint(p, limit, v);
}

void PutFixed16(std::string* dst, uint16_t v) { PutFixed(dst, v); }
void PutFixed32(std::string* dst, uint32_t v) { PutFixed(dst, v); }
void PutFixed64(std::string* dst, uint64_t v) { PutFixed(dst, v); }

void PutVarint64(std::string* dst, uint64_t v) {
  char buffer[kMaxVarint64Bytes];
  dst->append(buffer, EncodeVarint64(buffer, v) - buffer);
}
void PutVarint32(std::string* dst, uint32_t v) { PutVarint64(dst, v); }

void PutLengthPrefixed(std::string* dst, std::string_view s) {
  NOVA_CHECK(s.size() <= UINT32_MAX) << s.size();
  PutVarint32(dst, static_cast<uint32_t>(s.size()));
  dst->append(s);
}

bool GetFixed16(std::string_view* in, uint16_t* v) { return GetFixed(in, v); }
bool GetFixed32(std::string_view* in, uint32_t* v) { return GetFixed(in, v); }
bool GetFixed64(std::string_view* in, uint64_t* v) { return GetFixed(in, v); }

bool GetVarint32(std::string_view* in, uint32_t* v) {
  return Advance(in, DecodeVarint32(in->data(), in->data() + in->size(), v));
}
bool GetVarint64(std::string_view* in, uint64_t* v) {
  return Advance(in, DecodeVarint64(in->data(), in->data() + in->size(), v));
}

bool GetLengthPrefixed(std::string_view* in, std::string_view* s) {
  uint32_t n;
  const char* const end = in->data() + in->size();
  const char* const begin = DecodeVarint32(in->data(), end, &n);
  if (begin == nullptr || static_cast<size_t>(end - begin) < n) return false;
  *s = {begin, n};
  *in = {begin + n, static_cast<size_t>(end - begin - n)};
  return true;
}
bool GetLengthPrefixed(std::string_view* in, std::string* s) {
  std::string_view view;
  if (!GetLengthPrefixed(in, &view)) return false;
  s->assign(view);
  return true;
}

}  // namespace nova
