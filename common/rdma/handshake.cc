#include "common/rdma/handshake.h"

#include <algorithm>
#include <cstring>

#include "common/base/coding.h"
#include "common/base/crc32c.h"

namespace nova {
namespace {

constexpr size_t kChecksumBytes = 4;

void PutPrefix(std::string* dst, HandshakeKind kind, size_t length, const Hello& hello) {
  PutFixed32(dst, kHandshakeMagic);
  dst->push_back(static_cast<char>(kind));
  dst->push_back(0);
  PutFixed16(dst, static_cast<uint16_t>(length));
  PutFixed16(dst, hello.min_version);
  PutFixed16(dst, hello.max_version);
}

}  // namespace

std::string EncodeHello(HandshakeKind kind, const Hello& hello, uint32_t max_message_bytes) {
  std::string out;
  PutPrefix(&out, kind, kHelloBytes, hello);
  PutFixed32(&out, max_message_bytes);
  out.push_back(static_cast<char>(hello.role));
  out.push_back(hello.meant_for.role ? static_cast<char>(*hello.meant_for.role) : '\0');
  PutFixed16(&out, hello.xchg_index);
  PutFixed32(&out, 0);
  PutFixed64(&out, hello.incarnation);
  PutFixed64(&out, hello.generation);
  PutFixed64(&out, hello.features);
  PutFixed64(&out, hello.cluster.hi);
  PutFixed64(&out, hello.cluster.lo);
  out.append(hello.name.data(), hello.name.size());
  out.append(reinterpret_cast<const char*>(hello.credentials.data()), hello.credentials.size());
  out.append(hello.meant_for.name.data(), hello.meant_for.name.size());
  PutFixed64(&out, hello.meant_for.incarnation);
  PutFixed32(&out, Crc32c(out));
  return out;
}

std::string EncodeRefusal(const Hello& self, std::string_view reason) {
  reason = reason.substr(0, kMaxHandshakeBytes - kHandshakePrefixBytes - kChecksumBytes);
  std::string out;
  PutPrefix(&out, HandshakeKind::kRefusal, kHandshakePrefixBytes + reason.size() + kChecksumBytes, self);
  out.append(reason);
  PutFixed32(&out, Crc32c(out));
  return out;
}

size_t HandshakeLength(std::string_view prefix) {
  if (DecodeFixed32(prefix.data()) != kHandshakeMagic) return 0;
  const size_t length = DecodeFixed16(prefix.data() + 6);
  return length >= kHandshakePrefixBytes + kChecksumBytes && length <= kMaxHandshakeBytes ? length : 0;
}

const char* DecodeHandshake(std::string_view bytes, Handshake* out) {
  if (bytes.size() < kHandshakePrefixBytes || HandshakeLength(bytes) != bytes.size())
    return "malformed handshake: length";
  const std::string_view covered = bytes.substr(0, bytes.size() - kChecksumBytes);
  if (DecodeFixed32(bytes.data() + covered.size()) != Crc32c(covered)) return "malformed handshake: checksum";
  const char* p = bytes.data();
  const auto kind = static_cast<uint8_t>(p[4]);
  if (kind < 1 || kind > 3) return "malformed handshake: kind";
  out->kind = static_cast<HandshakeKind>(kind);
  out->hello = Hello();
  out->hello.min_version = DecodeFixed16(p + 8);
  out->hello.max_version = DecodeFixed16(p + 10);
  if (out->kind == HandshakeKind::kRefusal) {
    out->reason.assign(covered.substr(kHandshakePrefixBytes));
    return nullptr;
  }
  // A later version may append to a hello: what is longer than ours reads as ours.
  if (bytes.size() < kFirstHelloBytes) return "malformed handshake: short hello";
  Hello& h = out->hello;
  const auto role = static_cast<uint8_t>(p[16]), meant_role = static_cast<uint8_t>(p[17]);
  constexpr auto kLast = static_cast<uint8_t>(Role::kTool);
  if (role < static_cast<uint8_t>(Role::kClient) || role > kLast || meant_role > kLast) {
    return "malformed handshake: role";
  }
  out->max_message_bytes = DecodeFixed32(p + 12);
  h.role = static_cast<Role>(role);
  h.xchg_index = DecodeFixed16(p + 18);
  h.incarnation = DecodeFixed64(p + 24);
  h.generation = DecodeFixed64(p + 32);
  h.features = DecodeFixed64(p + 40);
  h.cluster = {DecodeFixed64(p + 48), DecodeFixed64(p + 56)};
  std::memcpy(h.name.data(), p + 64, h.name.size());
  std::memcpy(h.credentials.data(), p + 128, h.credentials.size());
  if (meant_role != 0) h.meant_for.role = static_cast<Role>(meant_role);
  std::memcpy(h.meant_for.name.data(), p + 160, h.meant_for.name.size());
  if (bytes.size() >= kHelloBytes) h.meant_for.incarnation = DecodeFixed64(p + 224);
  return nullptr;
}

}  // namespace nova
