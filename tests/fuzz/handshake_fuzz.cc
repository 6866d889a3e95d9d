// Any bytes: DecodeHandshake refuses them or yields a handshake that reads the same again; and
// DecodeConnectData, of the private data of a connection over verbs.
//
// Input: one byte whose low bits say what of magic, length and checksum is set right first | the handshake.
#include <cstdint>
#include <cstring>
#include <string>

#include "common/base/crc32c.h"
#include "common/base/log.h"
#include "common/rdma/handshake.h"
#include "common/rdma/verbs/connect_data.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  nova::ConnectData connect;
  const std::string_view all(reinterpret_cast<const char*>(data), size);
  if (nova::DecodeConnectData(all, &connect)) NOVA_CHECK(all.starts_with(nova::EncodeConnectData(connect)));
  if (size < 17) return 0;
  std::string bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  const auto length = static_cast<uint16_t>(bytes.size());
  if ((data[0] & 1) != 0) std::memcpy(bytes.data(), &nova::kHandshakeMagic, 4);
  if ((data[0] & 2) != 0) std::memcpy(bytes.data() + 6, &length, 2);
  const uint32_t crc = nova::Crc32c(std::string_view(bytes).substr(0, bytes.size() - 4));
  if ((data[0] & 4) != 0) std::memcpy(bytes.data() + bytes.size() - 4, &crc, 4);
  nova::Handshake h;
  if (nova::DecodeHandshake(bytes, &h) != nullptr) return 0;
  if (h.kind == nova::HandshakeKind::kRefusal) return 0;
  nova::Handshake again;
  NOVA_CHECK(nova::DecodeHandshake(nova::EncodeHello(h.kind, h.hello, h.max_message_bytes), &again) ==
             nullptr);
  NOVA_CHECK(again.hello.incarnation == h.hello.incarnation && again.hello.cluster == h.hello.cluster);
  return 0;
}
