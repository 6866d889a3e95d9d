// Handshake (F3): the first bytes of a connection, in both directions; on tcp before all frames, on verbs as
// the first SEND of each side. Little-endian.
//
//   offset  size
//        0     4  magic 'NVH1'
//        4     1  kind: 1 hello (dialler to acceptor), 2 welcome (the answer), 3 refusal (the answer; then
//                 the connection ends)
//        5     1  zero
//        6     2  length of the whole, this prefix and the checksum included; at most 512
//        8     2  lowest protocol version spoken
//       10     2  highest
//                 hello and welcome:
//       12     4  longest message (SEND) the sender's port takes
//       16     1  role
//       17     1  role of whom it is meant for; zero: any
//       18     2  xchg index
//       20     4  zero
//       24     8  incarnation
//       32     8  generation
//       40     8  features
//       48    16  cluster uuid (hi, lo)
//       64    64  name, zero padded
//      128    32  credentials
//      160    64  name of whom it is meant for; zero: any
//      224     8  incarnation of whom it is meant for; zero: any
//                 (not there in the first hellos, of 228 bytes, which mean any)
//                 refusal:
//       12        reason, text
//      end-4   4  crc32c of all before
//
// The first twelve bytes keep their meaning in every version, so that a refusal is understood by all.
//
// Thread safety: pure functions.   Errors: a reason, or null.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "common/rdma/fabric.h"

namespace nova {

// See `kind` above.
enum class HandshakeKind : uint8_t { kHello = 1, kWelcome = 2, kRefusal = 3 };

inline constexpr uint32_t kHandshakeMagic = 0x3148564e;
inline constexpr size_t kHandshakePrefixBytes = 12;
inline constexpr size_t kFirstHelloBytes = 228;  // of earlier processes, which name nobody that they mean
inline constexpr size_t kHelloBytes = 236;
inline constexpr size_t kMaxHandshakeBytes = 512;

// A handshake, decoded.
struct Handshake {
  HandshakeKind kind = HandshakeKind::kHello;
  uint32_t max_message_bytes = 0;  // the longest SEND that the sender's port takes
  Hello hello;                     // of kHello and kWelcome; of kRefusal the versions only
  std::string reason;              // of kRefusal
};

std::string EncodeHello(HandshakeKind kind, const Hello& hello, uint32_t max_message_bytes);
std::string EncodeRefusal(const Hello& self,
                          std::string_view reason);  // `reason` is cut to the longest handshake

// The whole length that a prefix announces; 0: malformed. REQUIRES: kHandshakePrefixBytes bytes.
size_t HandshakeLength(std::string_view prefix);
// Decodes a whole handshake. Returns null, or the fault as text.
const char* DecodeHandshake(std::string_view bytes, Handshake* out);

// The two have a protocol version in common.
inline bool VersionsMeet(const Hello& a, const Hello& b) {
  return a.min_version <= b.max_version && b.min_version <= a.max_version;
}
// The name without its padding.
inline std::string_view NameOf(const Hello& hello) {
  const std::string_view padded(hello.name.data(), hello.name.size());
  return padded.substr(0, padded.find('\0'));
}

}  // namespace nova
