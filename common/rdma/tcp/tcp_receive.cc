// What a TcpPort receives: frames into memory, and what they complete.
#include <algorithm>
#include <cstring>

#include "common/base/log.h"
#include "common/rdma/tcp/tcp_port.h"

namespace nova {
namespace {

// after one of these, only the beginning of the next goes through the slab
constexpr size_t kLongFrame = 16 * 1024;
constexpr size_t kDirectTail = 4096;     // read beyond a payload that goes straight to its place
constexpr size_t kDirectMinimum = 2048;  // a rest shorter than this goes through the slab

}  // namespace

// A peer's request failed its check of key, bounds or rights: no more of its bytes are looked at, and it is
// told.
void TcpPort::FailCheck(TcpConnection* c) {
  counters_.AccessError();
  c->state = State::kFailing;
  c->reason = "a request of the peer was refused: key, bounds or rights";
  c->out.responses.push_back({c->out.received_requests, 0, 0, 0, true});
  connections_.SetTimer(c, Now() + kFailingNs);
  SetInterest(c, false, false);
  WantFlush(c);
}

// The header is in c->in.frame. False: stop, the connection failed or is gone.
bool TcpPort::BeginFrame(TcpConnection* c) {
  const FrameHeader& h = c->in.frame;
  if (const char* malformed = CheckFrame(h, options_.max_message_bytes); malformed != nullptr) {
    BreakMalformed(c, malformed);
    return false;
  }
  const FrameType type = h.frame_type();
  if (c->in.more && type <= FrameType::kRead && !c->in.IsRestOfWrite()) {
    BreakMalformed(c, "malformed frame: not the rest of its write");
    return false;
  }
  if (!HandleAcknowledgement(c, h.acknowledged)) {
    BreakMalformed(c, "malformed frame: acknowledgement");
    return false;
  }
  c->in.done = 0;
  c->in.left = h.length;
  c->in.is_long = h.length >= kLongFrame && type != FrameType::kRead;
  c->in.landing_version = regions_->version();
  switch (type) {
    case FrameType::kSend:
    case FrameType::kAck:
      return true;
    case FrameType::kWrite:
    case FrameType::kWriteWithImm: {
      const uint64_t whole = h.length + (h.more() ? h.immediate : uint64_t{0});
      if (whole > 0 && !regions_->keys().Allows(h.rkey, h.address, whole, Access::kRemoteWrite)) {
        FailCheck(c);
        return false;
      }
      return true;
    }
    case FrameType::kRead:
      c->in.left = 0;
      if (c->out.responses.size() >= kMaxRequestsUnderWay) {
        BreakMalformed(c, "malformed: more reads than may be under way");
        return false;
      }
      if (h.length > 0 && !regions_->keys().Allows(h.rkey, h.address, h.length, Access::kRemoteRead)) {
        FailCheck(c);
        return false;
      }
      if (h.length > 0)
        c->out.responses.push_back({c->out.received_requests, h.address, h.rkey, h.length, false});
      return true;
    case FrameType::kReadData: {
      const bool reading = c->out.acked_requests < c->out.sent_requests &&
                           c->out.pending.front().request.opcode == Opcode::kRead;
      if (!reading || h.length > c->out.pending.front().length - c->out.pending.front().received) {
        BreakMalformed(c, "malformed frame: data of no read");
        return false;
      }
      c->in.landing_version = 0;  // our pieces may have been revoked since they were posted
      return CheckLanding(c);
    }
    case FrameType::kNak:
      if (c->out.acked_requests >= c->out.begun_requests) {
        BreakMalformed(c, "malformed frame: refusal of no request");
        return false;
      }
      CompleteHead(c, CompletionStatus::kRemoteAccess);
      Break(c, "a request was refused by the peer: key, bounds or rights");
      return false;
  }
  return false;
}

// After a revocation (F1), the memory that the frame under way lands in is looked at again.
bool TcpPort::CheckLanding(TcpConnection* c) {
  if (c->in.left == 0 || c->in.landing_version == regions_->version()) return true;
  c->in.landing_version = regions_->version();
  const FrameHeader& h = c->in.frame;
  switch (h.frame_type()) {
    case FrameType::kWrite:
    case FrameType::kWriteWithImm:
      if (regions_->keys().Allows(h.rkey, h.address + c->in.done, c->in.left, Access::kRemoteWrite))
        return true;
      FailCheck(c);
      return false;
    case FrameType::kReadData:
      if (regions_->keys().AllowsPieces(c->out.pending.front().request)) return true;
      CompleteHead(c, CompletionStatus::kLocalError);
      Break(c, "memory of a posted request was revoked on this side");
      return false;
    default:
      return true;
  }
}

// A SEND. What acknowledges it may wait for an answer to ride on.
void TcpPort::Received(TcpConnection* c, std::span<const std::byte> message) {
  ++c->out.received_requests;
  queue_.Push(CompletionKind::kReceive, c->id).data = message;
  if (c->out.in_owed) return;
  c->out.in_owed = true;
  owed_.push_back(c->id);
}

// The frame's payload is in place.
void TcpPort::EndFrame(TcpConnection* c) {
  const FrameHeader& h = c->in.frame;
  c->in.head_have = 0;
  switch (h.frame_type()) {
    case FrameType::kSend:
      Received(c, {c->in.block.get(), h.length});
      if (c->in.block != nullptr) memory_.Use(std::move(c->in.block));
      return;
    case FrameType::kWrite:
    case FrameType::kWriteWithImm:
      c->in.more = h.more();
      if (c->in.more) {
        c->in.expected = h;
        c->in.expected.address = h.address + h.length;
        c->in.expected.length = h.immediate;
        return;
      }
      ++c->out.received_requests;
      WantFlush(c);
      if (h.frame_type() == FrameType::kWriteWithImm) {
        queue_.Push(CompletionKind::kImmediate, c->id).immediate = h.immediate;
      }
      return;
    case FrameType::kRead:
      ++c->out.received_requests;
      WantFlush(c);
      return;
    case FrameType::kReadData:
      if (c->out.pending.front().received == c->out.pending.front().length) {
        ++c->out.acked_requests;
        CompleteHead(c, CompletionStatus::kOk);
        DropFailedHeads(c);
      }
      return;
    default:
      return;
  }
}

bool TcpPort::Consume(TcpConnection* c, const std::byte* p, const std::byte* end) {
  while (p < end) {
    if (c->in.head_have < sizeof(FrameHeader)) {
      const size_t n = std::min<size_t>(sizeof(FrameHeader) - c->in.head_have, static_cast<size_t>(end - p));
      std::memcpy(c->in.head.data() + c->in.head_have, p, n);
      c->in.head_have += n;
      p += n;
      if (c->in.head_have < sizeof(FrameHeader)) return true;
      std::memcpy(&c->in.frame, c->in.head.data(), sizeof(FrameHeader));
      if (!BeginFrame(c)) return false;
    }
    const size_t n = std::min<size_t>(c->in.left, static_cast<size_t>(end - p));
    if (c->in.frame.frame_type() == FrameType::kSend && c->in.block == nullptr && n == c->in.frame.length) {
      // The whole message lies in the slab: it is handed out where it is.
      c->in.left = 0;
      c->in.head_have = 0;
      Received(c, {p, n});
      slab_referenced_ = slab_referenced_ || n > 0;
    } else {
      c->in.Land(p, n, &c->out, &memory_);
      if (c->in.left == 0) EndFrame(c);
    }
    p += n;
  }
  return true;
}

// True when there was something to read.
bool TcpPort::ReadFrames(TcpConnection* c) {
  for (int i = 0; i < kReadsPerTurn; ++i) {
    const std::span<std::byte> room = memory_.Room();
    if (room.empty()) return true;  // epoll reports the rest again

    RegionLock lock(regions_, &memory_mu_);
    if (!CheckLanding(c)) return true;
    std::span<std::byte> direct;
    if (c->in.head_have == sizeof(FrameHeader) && c->in.left >= kDirectMinimum)
      direct = c->in.Target(c->out, &memory_);
    iovec pieces[2];
    size_t count = 0, asked = 0;
    if (!direct.empty()) {
      direct = direct.first(std::min(direct.size(), kMaxChunkBytes));
      pieces[count++] = {direct.data(), direct.size()};
      asked = direct.size();
    }
    const bool whole = direct.empty() && !c->in.is_long;
    pieces[count] = {room.data(), whole ? room.size() : std::min(room.size(), kDirectTail)};
    asked += pieces[count++].iov_len;
    const ssize_t n = c->stream->Read(pieces, count);
    if (n == RecordStream::kWouldBlock) return i > 0;
    if (n <= 0) {
      Break(c, n == RecordStream::kEnd ? "closed by the peer"
                                       : StrCat("the connection broke: ", strerror(static_cast<int>(-n))));
      return true;
    }
    auto got = static_cast<size_t>(n);
    if (!direct.empty()) {
      const size_t here = std::min(got, direct.size());
      c->in.Advance(here, &c->out);
      if (c->in.left == 0) EndFrame(c);
      got -= here;
    }
    slab_referenced_ = false;
    if (!Consume(c, room.data(), room.data() + got)) return true;
    if (slab_referenced_) memory_.Use(got);
    if (static_cast<size_t>(n) < asked) return true;
  }
  return true;
}

}  // namespace nova
