// TcpConnection: a connection of a TcpPort: what is on its way out, and the frame on its way in. Internal to
// the tcp fabric.
//
// Thread safety: none; the port's thread.   Ownership: its socket; requests' memory is the poster's.
//                Errors: none of its own.
#pragma once

#include <array>
#include <memory>
#include <string>

#include "common/rdma/connection_table.h"
#include "common/rdma/pending_request.h"
#include "common/rdma/ring.h"
#include "common/rdma/tcp/frame.h"
#include "common/rdma/tcp/record_stream.h"

namespace nova {

struct TcpPending : PendingRequest {
  uint32_t received = 0;  // of a READ
};

// The data of a peer's READ, or the refusal that ends the connection.
struct TcpResponse {
  uint64_t sequence = 0;  // of the peer's request
  uint64_t address = 0;
  uint32_t rkey = 0;
  uint32_t remaining = 0;
  bool nak = false;
};

struct OutFrame {
  enum Source : uint8_t { kControl, kRequest, kReadData };
  FrameHeader header;
  Source source = kControl;
  bool ends_request = false;
  uint32_t payload = 0;   // bytes after the header
  uint32_t rkey = 0;      // of kReadData
  uint64_t position = 0;  // ring index of a request; address of kReadData
  uint64_t offset = 0;    // in the request; number of the READ that kReadData answers
  uint64_t sent = 0;      // header and payload
  uint64_t size() const { return sizeof(FrameHeader) + payload; }
};

struct TcpConnection : PortConnection {
  enum class State : uint8_t {
    kResolving,
    kConnecting,
    kAwaitWelcome,
    kAwaitHello,
    kUp,
    kFailing,    // a check failed: the NAK is on its way out, nothing is read any more
    kLingering,  // dead for the owner; the peer is left time to read what was sent last
    kDead,
  };
  State state = State::kDead;
  std::unique_ptr<RecordStream> stream;
  uint32_t interest = 0;  // what epoll was asked for
  std::string handshake;  // as far as it has come

  // Out: our requests, from posted to completed, and frames built and not yet gone.
  Ring<TcpPending> pending;
  uint64_t next_send = 0;       // ring index of the request to frame next
  uint32_t next_offset = 0;     // in it
  uint64_t begun_requests = 0;  // counted as the peer counts: failed ones are not sent
  uint64_t sent_requests = 0;   // their last byte is with the kernel
  uint64_t acked_requests = 0;
  uint64_t first_unsent = 0;     // ring index
  uint64_t checked_version = 0;  // local pieces of what is not sent were checked at
  Ring<OutFrame> frames;
  Ring<TcpResponse> responses;
  uint64_t received_requests = 0;
  uint64_t announced = 0;  // last acknowledgement built into a frame
  bool in_flush = false;
  bool in_owed = false;

  // In: the frame under way.
  std::array<std::byte, sizeof(FrameHeader)> head{};
  size_t head_have = 0;
  FrameHeader frame;
  uint32_t in_done = 0;
  uint32_t in_left = 0;
  bool in_long = false;                // this frame, or else the last one, is long
  uint64_t landing_version = 0;        // its memory was checked at
  bool in_more = false;                // a WRITE's next frame is due
  FrameHeader in_expected;             // what it must say
  std::unique_ptr<std::byte[]> block;  // of a SEND that came in parts

  // What we have executed of the peer's, in order: not beyond a READ whose data has not all been framed.
  uint64_t acknowledgement() const {
    return responses.empty() ? received_requests : responses.front().sequence;
  }
};

}  // namespace nova
