// Any sequence of pieces: the assembler never yields a message longer than its bound or than its header says.
//
// Input: pieces, each `fixed16 length, top bit: the magic is set right | bytes`.
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "common/base/log.h"
#include "common/rdma/message.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  constexpr size_t kBound = 4096;
  nova::MessageAssembler assembler(kBound);
  while (size >= 2) {
    uint16_t length;
    std::memcpy(&length, data, 2);
    const size_t n = std::min<size_t>(length & 0x7fff, size - 2);
    std::vector<uint8_t> piece(data + 2, data + 2 + n);
    if ((length & 0x8000) != 0 && n >= 4) std::memcpy(piece.data(), &nova::MessageHeader::kMagic, 4);
    nova::MessageAssembler::Message message;
    const auto result = assembler.Add(std::as_bytes(std::span(piece)), &message);
    if (result == nova::MessageAssembler::Result::kMalformed) return 0;
    if (result == nova::MessageAssembler::Result::kMessage) {
      NOVA_CHECK(message.body.size() <= kBound && message.body.size() == message.header.body_length);
      volatile char sum = 0;
      for (const char c : message.body) sum = static_cast<char>(sum + c);
    }
    data += 2 + n;
    size -= 2 + n;
  }
  return 0;
}
