// What a TcpPort receives: frames into memory, and what they complete.
#include <algorithm>
#include <cstring>

#include "common/base/log.h"
#include "common/rdma/tcp/tcp_port.h"

namespace nova {
namespace {

constexpr size_t kSlabBytes = 64 * 1024;
constexpr size_t kMinSlabRoom = 16 * 1024;
constexpr size_t kMaxSlabs = 16;  // read in one round
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
  c->responses.push_back({c->received_requests, 0, 0, 0, true});
  connections_.SetTimer(c, Now() + kFailingNs);
  SetInterest(c, false, false);
  WantFlush(c);
}

std::unique_ptr<std::byte[]> TcpPort::TakeBlock() {
  if (free_blocks_.empty()) return std::make_unique<std::byte[]>(options_.max_message_bytes);
  auto block = std::move(free_blocks_.back());
  free_blocks_.pop_back();
  return block;
}

// The header is in c->frame. False: stop, the connection failed or is gone.
bool TcpPort::BeginFrame(TcpConnection* c) {
  const FrameHeader& h = c->frame;
  if (const char* malformed = CheckFrame(h, options_.max_message_bytes); malformed != nullptr) {
    BreakMalformed(c, malformed);
    return false;
  }
  const FrameType type = h.frame_type();
  if (c->in_more && type <= FrameType::kRead) {
    const FrameHeader& e = c->in_expected;
    const uint64_t rest = h.length + (h.more() ? h.immediate : uint64_t{0});
    if (h.type != e.type || h.rkey != e.rkey || h.address != e.address || rest != e.length) {
      BreakMalformed(c, "malformed frame: not the rest of its write");
      return false;
    }
  }
  if (!HandleAcknowledgement(c, h.acknowledged)) {
    BreakMalformed(c, "malformed frame: acknowledgement");
    return false;
  }
  c->in_done = 0;
  c->in_left = h.length;
  c->in_long = h.length >= kLongFrame && type != FrameType::kRead;
  c->landing_version = regions_->version();
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
      c->in_left = 0;
      if (c->responses.size() >= kMaxRequestsUnderWay) {
        BreakMalformed(c, "malformed: more reads than may be under way");
        return false;
      }
      if (h.length > 0 && !regions_->keys().Allows(h.rkey, h.address, h.length, Access::kRemoteRead)) {
        FailCheck(c);
        return false;
      }
      if (h.length > 0) c->responses.push_back({c->received_requests, h.address, h.rkey, h.length, false});
      return true;
    case FrameType::kReadData: {
      const bool reading =
          c->acked_requests < c->sent_requests && c->pending.front().request.opcode == Opcode::kRead;
      if (!reading || h.length > c->pending.front().length - c->pending.front().received) {
        BreakMalformed(c, "malformed frame: data of no read");
        return false;
      }
      c->landing_version = 0;  // our pieces may have been revoked since they were posted
      return CheckLanding(c);
    }
    case FrameType::kNak:
      if (c->acked_requests >= c->begun_requests) {
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
  if (c->in_left == 0 || c->landing_version == regions_->version()) return true;
  c->landing_version = regions_->version();
  const FrameHeader& h = c->frame;
  switch (h.frame_type()) {
    case FrameType::kWrite:
    case FrameType::kWriteWithImm:
      if (regions_->keys().Allows(h.rkey, h.address + c->in_done, c->in_left, Access::kRemoteWrite))
        return true;
      FailCheck(c);
      return false;
    case FrameType::kReadData:
      if (regions_->keys().AllowsPieces(c->pending.front().request)) return true;
      CompleteHead(c, CompletionStatus::kLocalError);
      Break(c, "memory of a posted request was revoked on this side");
      return false;
    default:
      return true;
  }
}

// Where the next bytes of the frame's payload belong, as far as they lie together.
std::span<std::byte> TcpPort::DirectTarget(TcpConnection* c) {
  const FrameHeader& h = c->frame;
  switch (h.frame_type()) {
    case FrameType::kSend:
      if (c->block == nullptr) c->block = TakeBlock();
      return {c->block.get() + c->in_done, c->in_left};
    case FrameType::kWrite:
    case FrameType::kWriteWithImm:
      return {reinterpret_cast<std::byte*>(h.address + c->in_done), c->in_left};
    case FrameType::kReadData: {
      const TcpPending& p = c->pending.front();
      uint64_t at = p.received;
      for (size_t i = 0; i < p.request.piece_count; ++i) {
        const LocalBuffer& piece = p.request.pieces[i];
        if (at < piece.length) {
          auto* base = static_cast<std::byte*>(const_cast<void*>(piece.address));
          return {base + at, std::min<size_t>(piece.length - at, c->in_left)};
        }
        at -= piece.length;
      }
      return {};
    }
    default:
      return {};
  }
}

void TcpPort::Advance(TcpConnection* c, size_t n) {
  c->in_done += static_cast<uint32_t>(n);
  c->in_left -= static_cast<uint32_t>(n);
  if (c->frame.frame_type() == FrameType::kReadData) c->pending.front().received += static_cast<uint32_t>(n);
}

void TcpPort::Land(TcpConnection* c, const std::byte* p, size_t n) {
  while (n > 0) {
    const std::span<std::byte> target = DirectTarget(c);
    const size_t here = std::min(n, target.size());
    std::memcpy(target.data(), p, here);
    Advance(c, here);
    p += here;
    n -= here;
  }
}

// A SEND. What acknowledges it may wait for an answer to ride on.
void TcpPort::Received(TcpConnection* c, std::span<const std::byte> message) {
  ++c->received_requests;
  queue_.Push(CompletionKind::kReceive, c->id).data = message;
  if (c->in_owed) return;
  c->in_owed = true;
  owed_.push_back(c->id);
}

// The frame's payload is in place.
void TcpPort::EndFrame(TcpConnection* c) {
  const FrameHeader& h = c->frame;
  c->head_have = 0;
  switch (h.frame_type()) {
    case FrameType::kSend:
      Received(c, {c->block.get(), h.length});
      if (c->block != nullptr) used_blocks_.push_back(std::move(c->block));
      return;
    case FrameType::kWrite:
    case FrameType::kWriteWithImm:
      c->in_more = h.more();
      if (c->in_more) {
        c->in_expected = h;
        c->in_expected.address = h.address + h.length;
        c->in_expected.length = h.immediate;
        return;
      }
      ++c->received_requests;
      WantFlush(c);
      if (h.frame_type() == FrameType::kWriteWithImm) {
        queue_.Push(CompletionKind::kImmediate, c->id).immediate = h.immediate;
      }
      return;
    case FrameType::kRead:
      ++c->received_requests;
      WantFlush(c);
      return;
    case FrameType::kReadData:
      if (c->pending.front().received == c->pending.front().length) {
        ++c->acked_requests;
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
    if (c->head_have < sizeof(FrameHeader)) {
      const size_t n = std::min<size_t>(sizeof(FrameHeader) - c->head_have, static_cast<size_t>(end - p));
      std::memcpy(c->head.data() + c->head_have, p, n);
      c->head_have += n;
      p += n;
      if (c->head_have < sizeof(FrameHeader)) return true;
      std::memcpy(&c->frame, c->head.data(), sizeof(FrameHeader));
      if (!BeginFrame(c)) return false;
    }
    const size_t n = std::min<size_t>(c->in_left, static_cast<size_t>(end - p));
    if (c->frame.frame_type() == FrameType::kSend && c->block == nullptr && n == c->frame.length) {
      // The whole message lies in the slab: it is handed out where it is.
      c->in_left = 0;
      c->head_have = 0;
      Received(c, {p, n});
      slab_referenced_ = slab_referenced_ || n > 0;
    } else {
      Land(c, p, n);
      if (c->in_left == 0) EndFrame(c);
    }
    p += n;
  }
  return true;
}

// True when there was something to read.
bool TcpPort::ReadFrames(TcpConnection* c) {
  for (int i = 0; i < kReadsPerRound; ++i) {
    if (slab_ < slabs_.size() && kSlabBytes - slab_used_ < kMinSlabRoom) {
      if (slab_ + 1 == kMaxSlabs) return true;  // epoll reports the rest again
      ++slab_;
      slab_used_ = 0;
    }
    if (slab_ == slabs_.size()) slabs_.push_back(std::make_unique<std::byte[]>(kSlabBytes));
    std::byte* slab = slabs_[slab_].get() + slab_used_;
    const size_t room = kSlabBytes - slab_used_;

    RegionLock lock(regions_, &memory_mu_);
    if (!CheckLanding(c)) return true;
    std::span<std::byte> direct;
    if (c->head_have == sizeof(FrameHeader) && c->in_left >= kDirectMinimum) direct = DirectTarget(c);
    iovec pieces[2];
    size_t count = 0, asked = 0;
    if (!direct.empty()) {
      direct = direct.first(std::min(direct.size(), kMaxChunkBytes));
      pieces[count++] = {direct.data(), direct.size()};
      asked = direct.size();
    }
    pieces[count] = {slab, direct.empty() && !c->in_long ? room : std::min(room, kDirectTail)};
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
      Advance(c, here);
      if (c->in_left == 0) EndFrame(c);
      got -= here;
    }
    slab_referenced_ = false;
    if (!Consume(c, slab, slab + got)) return true;
    if (slab_referenced_) slab_used_ += got;
    if (static_cast<size_t>(n) < asked) return true;
  }
  return true;
}

}  // namespace nova
