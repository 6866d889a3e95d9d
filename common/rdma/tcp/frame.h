// Frame: the bytes of the tcp fabric on a connection, after the handshake (handshake.h). Little-endian.
//
//   offset  size
//        0     1  type (FrameType)
//        1     1  flags: bit 0 = more frames of this WRITE follow
//        2     2  zero
//        4     4  length of the payload that follows; of kRead: bytes asked for, no payload
//        8     8  acknowledged: how many requests of the receiver the sender has executed, in order, since
//                 the handshake
//       16     4  rkey           of kWrite, kWriteWithImm, kRead
//       20     4  immediate      of the last frame of a kWriteWithImm; of a frame with `more`: bytes in
//                                the frames to follow
//       24     8  address        of kWrite, kWriteWithImm, kRead
//       32        payload
//
// Requests are kSend, kWrite, kWriteWithImm and kRead; they carry no number, for both sides count them. They
// execute in order. A long WRITE travels as several frames, so that acknowledgements and the data of READs
// find gaps; all its frames together are one request, and the first says how much is to come, so that bounds
// are checked before anything lands. Every frame acknowledges; kAck does nothing else. kReadData belongs to
// the receiver's oldest request, which is a READ. kNak says that the receiver's request number `acknowledged`
// failed its check of key, bounds or rights; it is the last frame.
// A WRITE of 600 KiB, and the answer:
//
//   kWrite  more  length 256 KiB   immediate 344 KiB   address a
//   kWrite  more  length 256 KiB   immediate 88 KiB    address a + 256 KiB
//   kWrite        length 88 KiB                        address a + 512 KiB
//   kAck          acknowledged: one more               <- or any other frame of the peer
//
// Thread safety: pure functions.
// Errors: CheckFrame: the fault as text.
#pragma once

#include <cstdint>
#include <type_traits>

#include "common/rdma/fabric.h"

namespace nova {

// See above.
enum class FrameType : uint8_t {
  kSend = 1,
  kWrite = 2,
  kWriteWithImm = 3,
  kRead = 4,
  kReadData = 5,
  kAck = 6,
  kNak = 7,
};

// The first 32 bytes of a frame.
struct FrameHeader {
  uint8_t type = 0;     // a FrameType
  uint8_t flags = 0;    // kMore
  uint16_t zero = 0;    // else the frame is malformed
  uint32_t length = 0;  // bytes
  uint64_t acknowledged = 0;
  uint32_t rkey = 0;
  uint32_t immediate = 0;
  uint64_t address = 0;

  static constexpr uint8_t kMore = 1;  // of `flags`
  bool more() const { return (flags & kMore) != 0; }
  FrameType frame_type() const { return static_cast<FrameType>(type); }
};
static_assert(sizeof(FrameHeader) == 32 && std::is_trivially_copyable_v<FrameHeader>);

inline constexpr uint32_t kMaxWriteFrameBytes = 256 * 1024;  // of payload; a longer WRITE is cut
inline constexpr uint32_t kMaxReadFrameBytes = 256 * 1024;   // of payload
// Requests under way in one direction of a connection. A peer with more unanswered READs is malformed.
inline constexpr uint32_t kMaxRequestsUnderWay = 16 * 1024;

// What is malformed in a header for a receiver of messages up to max_message_bytes; null: nothing.
inline const char* CheckFrame(const FrameHeader& h, uint32_t max_message_bytes) {
  if (h.zero != 0 || (h.flags & ~FrameHeader::kMore) != 0) return "malformed frame: reserved bits";
  switch (h.frame_type()) {
    case FrameType::kSend:
      if (h.length > max_message_bytes || h.flags != 0) return "malformed frame: message too long";
      return nullptr;
    case FrameType::kWrite:
    case FrameType::kWriteWithImm:
      if (h.length > kMaxWriteFrameBytes) return "malformed frame: write frame too long";
      if (h.more() && (h.length == 0 || h.immediate == 0)) return "malformed frame: empty write frame";
      return nullptr;
    case FrameType::kRead:
      if (h.flags != 0) return "malformed frame: flags of a read";
      return nullptr;
    case FrameType::kReadData:
      if (h.length > kMaxReadFrameBytes || h.length == 0 || h.flags != 0) return "malformed frame: read data";
      return nullptr;
    case FrameType::kAck:
    case FrameType::kNak:
      if (h.length != 0 || h.flags != 0) return "malformed frame: length of an acknowledgement";
      return nullptr;
  }
  return "malformed frame: unknown type";
}

}  // namespace nova
