// The frame of every message on the data plane (client - LTC, LTC - StoC, StoC - StoC). Little-endian.
//
//   offset  size
//        0     4  magic 'NVM1'
//        4     2  type: 1..0x0fff requests (see each component's protocol.h)
//        6     1  flags: bit 0 reply, bit 1 more pieces follow, bit 2 continuation of the piece before
//        7     1  outcome of a reply (outcome.h)
//        8     8  request id, of the requester
//       16     8  hybrid logical clock: wall milliseconds << 16 | counter (reserved for transactions)
//       24     4  body length of the whole message (first piece), or of this piece (continuation)
//       28     4  of a request: microseconds until its deadline (0xffffffff = none); of a reply: queue depth
//                 of the node
//       32        body
//
// Thread safety, ownership, errors: each class below says its own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>

namespace nova {

// The first 32 bytes of each piece; see above.
struct MessageHeader {
  uint32_t magic = kMagic;
  uint16_t type = 0;    // of a request; a reply is known by its request id
  uint8_t flags = 0;    // kReply, kMorePieces, kContinuation
  uint8_t outcome = 0;  // of a reply: an Outcome
  uint64_t request_id = 0;
  uint64_t clock = 0;              // the sender's; nobody reads it yet
  uint32_t body_length = 0;        // bytes
  uint32_t deadline_or_depth = 0;  // of a request, of a reply: see above

  static constexpr uint32_t kMagic = 0x314d564e;
  static constexpr uint8_t kReply = 1;
  static constexpr uint8_t kMorePieces = 2;
  static constexpr uint8_t kContinuation = 4;
  static constexpr uint32_t kNoDeadline = 0xffffffff;
  static constexpr uint16_t kMaxType = 0x0fff;
};
static_assert(sizeof(MessageHeader) == 32 && std::is_trivially_copyable_v<MessageHeader>);

// Puts the pieces of one connection's messages together, and checks every header.
//
// Thread safety: none; one for each connection.
// Ownership: a Message points into the piece, or into the assembler until the next Add.
// Errors: kMalformed: the connection is to be closed; the assembler is of no further use.
class MessageAssembler {
 public:
  struct Message {
    MessageHeader header;   // of the first piece
    std::string_view body;  // whole
  };
  enum class Result { kMessage, kMore, kMalformed };  // kMore: the message goes on

  // `max_message_bytes`: of a whole body; a longer one is malformed.
  explicit MessageAssembler(size_t max_message_bytes) : max_message_bytes_(max_message_bytes) {}
  // `piece` is the content of one SEND. kMessage: *out is a whole message.
  Result Add(std::span<const std::byte> piece, Message* out);
  // The whole message is not needed any more: a large one's memory goes.
  void Release() {
    if (!assembling_ && held_bytes() > kKeptBytes) std::string().swap(body_);
  }
  size_t held_bytes() const { return body_.capacity(); }  // of memory
  // Bytes so far of the message that has begun and not ended.
  size_t bytes() const { return assembling_ ? body_.size() : 0; }

 private:
  static constexpr size_t kKeptBytes = 64 << 10;  // for the next message
  const size_t max_message_bytes_;                // of a whole body
  bool assembling_ = false;                       // a message has begun and not ended
  MessageHeader header_;                          // of its first piece
  std::string body_;                              // its body so far
};

}  // namespace nova
