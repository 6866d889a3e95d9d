// What a TcpPort sends: posted requests, data of the peers' READs, acknowledgements.
#include <algorithm>
#include <cstring>

#include "common/base/log.h"
#include "common/rdma/tcp/tcp_port.h"

namespace nova {
namespace {

constexpr size_t kMaxFrames = 128;
constexpr size_t kMaxIov = 512;
constexpr size_t kMaxInline = 1024;  // bytes of a piece

}  // namespace

Status TcpPort::Post(ConnectionId connection, std::span<const WorkRequest> requests) {
  TcpConnection* c = connections_.Find(connection);
  if (c == nullptr || c->state != State::kUp) return NotConnected();
  if (c->pending.size() + requests.size() > options_.max_pending_requests) return TooManyPending();
  {
    RegionLock lock(regions_, &memory_mu_);
    if (c->first_unsent == c->pending.tail()) c->checked_version = regions_->version();
    const uint32_t longest_send = std::min(options_.max_message_bytes, c->peer_max_message);
    for (const WorkRequest& request : requests) {
      TcpPending& p = c->pending.emplace_back();
      p.Set(request, UINT32_MAX, longest_send);
      p.failed = p.failed || !regions_->keys().AllowsPieces(request);
    }
  }
  counters_.Posted(requests.size());
  DropFailedHeads(c);
  Flush(c);
  return OkStatus();
}

OutFrame& TcpPort::PushFrame(TcpConnection* c, FrameType type, OutFrame::Source source) {
  OutFrame& f = c->frames.emplace_back();
  f.header.type = static_cast<uint8_t>(type);
  f.header.acknowledged = c->announced = c->acknowledgement();
  f.source = source;
  return f;
}

bool TcpPort::BuildResponseFrame(TcpConnection* c) {
  if (c->responses.empty()) return false;
  TcpResponse& r = c->responses.front();
  if (r.nak) {
    PushFrame(c, FrameType::kNak, OutFrame::kControl);
    c->responses.pop_front();
    return true;
  }
  OutFrame& f = PushFrame(c, FrameType::kReadData, OutFrame::kReadData);
  f.payload = f.header.length = std::min(r.remaining, kMaxReadFrameBytes);
  f.rkey = r.rkey;
  f.position = r.address;
  f.offset = r.sequence;
  r.address += f.payload;
  r.remaining -= f.payload;
  if (r.remaining == 0) {
    const uint64_t sequence = r.sequence;
    c->responses.pop_front();
    // The data itself tells the peer that this READ is done.
    if (c->acknowledgement() == sequence + 1) c->announced = sequence + 1;
  }
  return true;
}

bool TcpPort::BuildRequestFrame(TcpConnection* c) {
  if (c->state != State::kUp) return false;
  while (c->next_send < c->pending.tail() && c->pending[c->next_send].failed) ++c->next_send;
  if (c->next_send == c->pending.tail()) return false;
  const TcpPending& p = c->pending[c->next_send];
  const WorkRequest& r = p.request;
  OutFrame& f = PushFrame(c, static_cast<FrameType>(r.opcode), OutFrame::kRequest);
  if (c->next_offset == 0) ++c->begun_requests;
  f.position = c->next_send;
  f.offset = c->next_offset;
  f.header.immediate = r.immediate;
  f.header.length = p.length;
  if (r.opcode != Opcode::kSend) {
    f.header.rkey = r.rkey;
    f.header.address = r.remote_address + c->next_offset;
  }
  if (r.opcode == Opcode::kSend) {
    f.payload = p.length;
  } else if (r.opcode != Opcode::kRead) {
    const uint32_t left = p.length - c->next_offset;
    f.payload = f.header.length = std::min(left, kMaxWriteFrameBytes);
    if (f.payload < left) {
      f.header.flags = FrameHeader::kMore;
      f.header.immediate = left - f.payload;
      c->next_offset += f.payload;
      return true;
    }
  }
  f.ends_request = true;
  ++c->next_send;
  c->next_offset = 0;
  return true;
}

void TcpPort::BuildFrames(TcpConnection* c) {
  uint64_t bytes = 0;
  while (c->frames.size() < kMaxFrames && bytes < kMaxChunkBytes) {
    const bool response = BuildResponseFrame(c);
    if (response) bytes += c->frames.back().size();
    const bool request = BuildRequestFrame(c);
    if (request) bytes += c->frames.back().size();
    if (!response && !request) {
      if (c->announced != c->acknowledgement()) PushFrame(c, FrameType::kAck, OutFrame::kControl);
      return;
    }
  }
}

// After a revocation, what is not sent is looked at again: nothing is read from memory that was revoked.
bool TcpPort::CheckOutgoing(TcpConnection* c) {
  if (c->checked_version == regions_->version()) return true;
  for (uint64_t i = c->first_unsent; i < c->pending.tail(); ++i) {
    TcpPending& p = c->pending[i];
    if (!p.failed && !regions_->keys().AllowsPieces(p.request)) {
      p.failed = true;
      return false;
    }
  }
  c->checked_version = regions_->version();
  return true;
}

// A READ of the peer whose region was revoked since it was asked for. False: it cannot be told any more.
bool TcpPort::RefuseRead(TcpConnection* c, uint64_t index) {
  OutFrame& frame = c->frames[index];
  counters_.AccessError();
  // In the middle of the frame only the end of the connection says that it is not what was asked for.
  if (frame.sent > 0) {
    Break(c, "memory was revoked in the middle of a read of the peer");
    return false;
  }
  c->state = State::kFailing;
  c->reason = "a read of the peer was refused: revoked";
  connections_.SetTimer(c, Now() + kFailingNs);
  c->responses.clear();
  c->frames.truncate(index + 1);
  const uint64_t sequence = frame.offset;
  frame = OutFrame();
  frame.header.type = static_cast<uint8_t>(FrameType::kNak);
  frame.header.acknowledged = sequence;
  return true;
}

// Adds what is left of `frame` to iov_, as far as the budget goes. Headers and short payloads are copied side
// by side: one piece costs the kernel less than many.
void TcpPort::GatherFrame(TcpConnection* c, const OutFrame& frame, size_t* budget) {
  uint64_t skip = frame.sent;
  const auto add = [&](const void* data, uint64_t length) {
    if (skip >= length) {
      skip -= length;
      return;
    }
    const size_t n = std::min<uint64_t>(length - skip, *budget);
    auto* from = const_cast<std::byte*>(static_cast<const std::byte*>(data)) + skip;
    skip = 0;
    *budget -= n;
    if (n <= kMaxInline && inlined_.size() + n <= inlined_.capacity()) {
      inlined_.insert(inlined_.end(), from, from + n);
      from = inlined_.data() + inlined_.size() - n;
    }
    if (!iov_.empty() && static_cast<std::byte*>(iov_.back().iov_base) + iov_.back().iov_len == from) {
      iov_.back().iov_len += n;
    } else if (n > 0) {
      iov_.push_back({from, n});
    }
  };
  add(&frame.header, sizeof(FrameHeader));
  if (frame.source == OutFrame::kReadData) {
    add(reinterpret_cast<const std::byte*>(frame.position), frame.payload);
  } else if (frame.source == OutFrame::kRequest && frame.payload > 0) {
    const WorkRequest& r = c->pending[frame.position].request;
    uint64_t begin = frame.offset, left = frame.payload;
    for (size_t i = 0; i < r.piece_count && left > 0; ++i) {
      const LocalBuffer& piece = r.pieces[i];
      if (begin >= piece.length) {
        begin -= piece.length;
        continue;
      }
      const uint64_t n = std::min(piece.length - begin, left);
      add(static_cast<const std::byte*>(piece.address) + begin, n);
      begin = 0;
      left -= n;
    }
  }
}

// Fills iov_ with at most a chunk. False: the connection is gone.
bool TcpPort::Gather(TcpConnection* c, size_t* bytes) {
  iov_.clear();
  inlined_.clear();
  size_t budget = kMaxChunkBytes;
  for (uint64_t i = c->frames.head(); i < c->frames.tail(); ++i) {
    const OutFrame& f = c->frames[i];
    if (f.source == OutFrame::kReadData &&
        !regions_->keys().Allows(f.rkey, f.position, f.payload, Access::kRemoteRead) && !RefuseRead(c, i)) {
      return false;
    }
    GatherFrame(c, f, &budget);
    if (budget == 0 || iov_.size() + kMaxPieces + 1 > kMaxIov) break;
  }
  *bytes = kMaxChunkBytes - budget;
  return true;
}

void TcpPort::FrameGone(TcpConnection* c) {
  const OutFrame& f = c->frames.front();
  if (f.ends_request) {
    ++c->sent_requests;
    c->first_unsent = f.position + 1;
  }
  const bool last = f.header.frame_type() == FrameType::kNak;
  c->frames.pop_front();
  if (last) Break(c, std::string(c->reason), /*linger=*/true);
}

TcpPort::SendResult TcpPort::SendFrames(TcpConnection* c) {
  RegionLock lock(regions_, &memory_mu_);
  if (!CheckOutgoing(c)) {
    Break(c, "memory of a posted request was revoked on this side");
    return SendResult::kBroken;
  }
  size_t asked = 0;
  if (!Gather(c, &asked)) return SendResult::kBroken;
  const ssize_t n = c->stream->Write(iov_.data(), iov_.size());
  if (n == RecordStream::kWouldBlock) return SendResult::kBlocked;
  if (n < 0) {
    Break(c, StrCat("the connection broke: ", strerror(static_cast<int>(-n))));
    return SendResult::kBroken;
  }
  auto left = static_cast<uint64_t>(n);
  while (left > 0) {
    OutFrame& f = c->frames.front();
    const uint64_t here = std::min(left, f.size() - f.sent);
    f.sent += here;
    left -= here;
    if (f.sent < f.size()) break;
    FrameGone(c);
    if (c->state != State::kUp && c->state != State::kFailing) return SendResult::kBroken;
  }
  return static_cast<size_t>(n) < asked ? SendResult::kBlocked : SendResult::kDone;
}

void TcpPort::Flush(TcpConnection* c) {
  for (;;) {
    BuildFrames(c);
    if (c->frames.empty()) return SetInterest(c, c->state == State::kUp, false);
    const SendResult result = SendFrames(c);
    if (result == SendResult::kBroken) return;
    if (result == SendResult::kBlocked) return SetInterest(c, c->state == State::kUp, true);
  }
}

// --- Completing

void TcpPort::CompleteHead(TcpConnection* c, CompletionStatus status) {
  const TcpPending& p = c->pending.front();
  Completion& done = queue_.Push(CompletionKind::kRequest, c->id);
  done.status = status;
  done.id = p.request.id;
  counters_.Completed(p.request.opcode, p.length, status);
  c->pending.pop_front();
}

void TcpPort::DropFailedHeads(TcpConnection* c) {
  while (!c->pending.empty() && c->pending.front().failed) CompleteHead(c, CompletionStatus::kLocalError);
  c->next_send = std::max(c->next_send, c->pending.head());
  c->first_unsent = std::max(c->first_unsent, c->pending.head());
}

bool TcpPort::HandleAcknowledgement(TcpConnection* c, uint64_t acknowledged) {
  if (acknowledged < c->acked_requests || acknowledged > c->sent_requests) return false;
  while (c->acked_requests < acknowledged) {
    const TcpPending& p = c->pending.front();
    if (p.request.opcode == Opcode::kRead && p.received < p.length) return false;
    ++c->acked_requests;
    CompleteHead(c, CompletionStatus::kOk);
    DropFailedHeads(c);
  }
  return true;
}

// --- Acknowledgements

void TcpPort::WantFlush(TcpConnection* c) {
  if (c->in_flush) return;
  c->in_flush = true;
  flush_.push_back(c->id);
}

void TcpPort::FlushOwed() {
  for (const ConnectionId id : owed_) {
    TcpConnection* c = connections_.Find(id);
    if (c == nullptr) continue;
    c->in_owed = false;
    if (c->state == State::kUp && c->announced != c->acknowledgement()) Flush(c);
  }
  owed_.clear();
}

}  // namespace nova
