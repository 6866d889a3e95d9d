// TcpConnection: a connection of a TcpPort: frames on their way out, and the frame on its way in. Internal to
// the tcp fabric.
//
// The states of a connection (State):
//
//   dialled    kResolving -> kConnecting -> kAwaitWelcome -> kUp
//   accepted   kAwaitHello -> kUp, here or at the port that the hello names
//   the end    kUp -> kDead: broken, or closed on either side
//              kUp -> kFailing -> kLingering -> kDead: a request of the peer was refused; it is told by a NAK
//              kAwaitHello -> kLingering -> kDead: the hello was refused; the peer is told why
//
// Thread safety: none; the port's thread.
// Ownership: owns its socket. The memory of requests is the poster's.
// Errors: none of its own.
#pragma once

#include <array>
#include <memory>
#include <span>
#include <string>

#include "common/rdma/connection_table.h"
#include "common/rdma/key_table.h"
#include "common/rdma/pending_request.h"
#include "common/rdma/ring.h"
#include "common/rdma/tcp/frame.h"
#include "common/rdma/tcp/receive_memory.h"
#include "common/rdma/tcp/record_stream.h"

namespace nova {

// A posted request of ours.
struct TcpPending : PendingRequest {
  uint32_t received = 0;  // bytes of a READ that have come
};

// An answer that we owe: the data of a peer's READ, or the refusal that ends the connection.
struct TcpResponse {
  uint64_t sequence = 0;  // number of the peer's request
  uint64_t address = 0;   // of the bytes still to be framed
  uint32_t rkey = 0;
  uint32_t remaining = 0;  // bytes still to be framed
  bool nak = false;        // a refusal
};

// A frame that is built and not yet sent whole.
struct OutFrame {
  enum Source : uint8_t { kControl, kRequest, kReadData };
  FrameHeader header;
  Source source = kControl;
  bool ends_request = false;  // the request's last frame
  uint32_t payload = 0;       // bytes after the header
  uint32_t rkey = 0;          // of kReadData
  uint64_t position = 0;      // ring index of a request; address of kReadData
  uint64_t offset = 0;        // offset in the request; of kReadData the number of the READ
  uint64_t sent = 0;          // bytes of header and payload that the kernel has
  uint64_t size() const { return sizeof(FrameHeader) + payload; }
};

// What a connection sends: our requests, from posted to completed, answers that we owe, and frames that are
// built and not yet sent. Ring indices count posted requests; the counts, as the peer counts, leave out
// failed ones, which are not sent.
struct TcpOutgoing {
  Ring<TcpPending> pending;
  uint64_t next_send = 0;          // ring index of the next request to frame
  uint32_t next_offset = 0;        // bytes of that request already framed
  uint64_t begun_requests = 0;     // requests whose first frame is built
  uint64_t sent_requests = 0;      // requests whose last byte the kernel has
  uint64_t acked_requests = 0;     // requests that the peer has executed
  uint64_t first_unsent = 0;       // ring index of the first request that is not sent whole
  uint64_t checked_version = 0;    // region version at which the unsent requests' memory was checked
  Ring<OutFrame> frames;           // in order of sending
  Ring<TcpResponse> responses;     // owed, in order of the peer's requests
  uint64_t received_requests = 0;  // requests of the peer executed, or taken, of a READ
  uint64_t announced = 0;          // the last acknowledgement put into a frame
  bool in_flush = false;           // the connection is in TcpPort::flush_
  bool in_owed = false;            // the connection is in TcpPort::owed_

  // Requests of the peer that we have executed, in order: a READ counts once all its data is framed.
  uint64_t acknowledgement() const {
    return responses.empty() ? received_requests : responses.front().sequence;
  }
  // Adds a frame that carries the present acknowledgement. The reference is valid until the next one.
  OutFrame& PushFrame(FrameType type, OutFrame::Source source);
  // Builds frames of answers and, if `requests`, of requests, up to most_bytes or 128 of them; an
  // acknowledgement alone if one is due.
  void BuildFrames(bool requests, uint64_t most_bytes);
  // After a revocation (F1) looks again at the memory of unsent requests. False: that of one was revoked, and
  // it has failed.
  bool MayRead(const KeyTable& keys, uint64_t version);
  // The kernel has the oldest frame whole. True: it was a NAK, and nothing may follow.
  bool PopFrame();

 private:
  bool BuildResponseFrame();  // of the oldest answer that is owed; false: none is
  bool BuildRequestFrame();   // of the next request; false: there is none
};

// What a connection receives: the frame under way.
struct TcpIncoming {
  std::array<std::byte, sizeof(FrameHeader)> head{};  // the header, as far as it has come
  size_t head_have = 0;                               // bytes of it
  FrameHeader frame;                                  // the header, once whole
  uint32_t done = 0;                                  // bytes of the payload that have landed
  uint32_t left = 0;                                  // bytes of the payload still to come
  bool is_long = false;                               // this frame, or else the last one, is long
  uint64_t landing_version = 0;                       // region version at which its memory was checked
  bool more = false;                                  // the next frame of a WRITE is due
  FrameHeader expected;                               // the fields that it must have
  ReceiveMemory::Block block;                         // of a SEND that came in parts; null: none

  // The frame is what `expected` asks for.
  bool IsRestOfWrite() const;
  // Where the next bytes of the payload belong, as far as they lie together.
  std::span<std::byte> Target(const TcpOutgoing& out, ReceiveMemory* memory);
  // Counts bytes of the payload that have landed.
  void Advance(size_t n, TcpOutgoing* out);
  // Copies payload to its place.
  void Land(const std::byte* p, size_t n, TcpOutgoing* out, ReceiveMemory* memory);
};

// The states are in the order of a connection's life.
struct TcpConnection : PortConnection {
  enum class State : uint8_t {
    kResolving,     // the host's name is looked up
    kConnecting,    // connect() is under way
    kAwaitWelcome,  // our hello is sent
    kAwaitHello,    // accepted; the peer's hello has not come
    kUp,
    kFailing,    // a check failed: the NAK is on its way out, nothing is read any more
    kLingering,  // dead for the owner; the peer has time to read the last bytes
    kDead,
  };
  State state = State::kDead;
  std::unique_ptr<RecordStream> stream;
  uint32_t interest = 0;  // the events that epoll watches for; see SetInterest
  std::string handshake;  // the peer's, as far as it has come
  TcpOutgoing out;
  TcpIncoming in;
};

}  // namespace nova
