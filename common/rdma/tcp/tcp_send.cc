// What a TcpPort sends: posted requests, data of the peers' READs, acknowledgements.
#include <algorithm>
#include <cstring>

#include "common/base/log.h"
#include "common/rdma/tcp/tcp_port.h"

namespace nova {
Status TcpPort::Post(ConnectionId connection, std::span<const WorkRequest> requests) {
  TcpConnection* c = connections_.Find(connection);
  if (c == nullptr || c->state != State::kUp) return NotConnected();
  if (c->out.pending.size() + requests.size() > options_.max_pending_requests) return TooManyPending();
  {
    RegionLock lock(regions_, &memory_mu_);
    if (c->out.first_unsent == c->out.pending.tail()) c->out.checked_version = regions_->version();
    const uint32_t longest_send = std::min(options_.max_message_bytes, c->peer_max_message);
    for (const WorkRequest& request : requests) {
      TcpPending& p = c->out.pending.emplace_back();
      p.Set(request, UINT32_MAX, longest_send);
      p.failed = p.failed || !regions_->keys().AllowsPieces(request);
    }
  }
  counters_.Posted(requests.size());
  DropFailedHeads(c);
  Flush(c);
  return OkStatus();
}

// A READ of the peer whose region was revoked since it was asked for. False: it cannot be told any more.
bool TcpPort::RefuseRead(TcpConnection* c, uint64_t index) {
  OutFrame& frame = c->out.frames[index];
  counters_.AccessError();
  // In the middle of the frame only the end of the connection says that it is not what was asked for.
  if (frame.sent > 0) {
    Break(c, "memory was revoked in the middle of a read of the peer");
    return false;
  }
  c->state = State::kFailing;
  c->reason = "a read of the peer was refused: revoked";
  connections_.SetTimer(c, Now() + kFailingNs);
  c->out.responses.clear();
  c->out.frames.truncate(index + 1);
  const uint64_t sequence = frame.offset;
  frame = OutFrame();
  frame.header.type = static_cast<uint8_t>(FrameType::kNak);
  frame.header.acknowledged = sequence;
  return true;
}

// Fills gather_ with at most a chunk. False: the connection is gone.
bool TcpPort::Gather(TcpConnection* c, size_t* bytes) {
  gather_.Clear();
  size_t budget = kMaxChunkBytes;
  for (uint64_t i = c->out.frames.head(); i < c->out.frames.tail(); ++i) {
    const OutFrame& f = c->out.frames[i];
    if (f.source == OutFrame::kReadData &&
        !regions_->keys().Allows(f.rkey, f.position, f.payload, Access::kRemoteRead) && !RefuseRead(c, i)) {
      return false;
    }
    gather_.Add(c->out, f, &budget);
    if (budget == 0 || gather_.IsFull()) break;
  }
  *bytes = kMaxChunkBytes - budget;
  return true;
}

TcpPort::SendResult TcpPort::SendFrames(TcpConnection* c) {
  RegionLock lock(regions_, &memory_mu_);
  if (!c->out.MayRead(regions_->keys(), regions_->version())) {
    Break(c, "memory of a posted request was revoked on this side");
    return SendResult::kBroken;
  }
  size_t asked = 0;
  if (!Gather(c, &asked)) return SendResult::kBroken;
  const ssize_t n = c->stream->Write(gather_.pieces().data(), gather_.pieces().size());
  if (n == RecordStream::kWouldBlock) return SendResult::kBlocked;
  if (n < 0) {
    Break(c, StrCat("the connection broke: ", strerror(static_cast<int>(-n))));
    return SendResult::kBroken;
  }
  auto left = static_cast<uint64_t>(n);
  while (left > 0) {
    OutFrame& f = c->out.frames.front();
    const uint64_t here = std::min(left, f.size() - f.sent);
    f.sent += here;
    left -= here;
    if (f.sent < f.size()) break;
    if (c->out.PopFrame()) {
      Break(c, std::string(c->reason), /*linger=*/true);
      return SendResult::kBroken;
    }
  }
  return static_cast<size_t>(n) < asked ? SendResult::kBlocked : SendResult::kDone;
}

void TcpPort::Flush(TcpConnection* c) {
  for (;;) {
    c->out.BuildFrames(c->state == State::kUp, kMaxChunkBytes);
    if (c->out.frames.empty()) return SetInterest(c, c->state == State::kUp, false);
    const SendResult result = SendFrames(c);
    if (result == SendResult::kBroken) return;
    if (result == SendResult::kBlocked) return SetInterest(c, c->state == State::kUp, true);
  }
}

// --- Completing

void TcpPort::CompleteHead(TcpConnection* c, CompletionStatus status) {
  const TcpPending& p = c->out.pending.front();
  Completion& done = queue_.Push(CompletionKind::kRequest, c->id);
  done.status = status;
  done.id = p.request.id;
  counters_.Completed(p.request.opcode, p.length, status);
  c->out.pending.pop_front();
}

void TcpPort::DropFailedHeads(TcpConnection* c) {
  while (!c->out.pending.empty() && c->out.pending.front().failed)
    CompleteHead(c, CompletionStatus::kLocalError);
  c->out.next_send = std::max(c->out.next_send, c->out.pending.head());
  c->out.first_unsent = std::max(c->out.first_unsent, c->out.pending.head());
}

bool TcpPort::HandleAcknowledgement(TcpConnection* c, uint64_t acknowledged) {
  if (acknowledged < c->out.acked_requests || acknowledged > c->out.sent_requests) return false;
  while (c->out.acked_requests < acknowledged) {
    const TcpPending& p = c->out.pending.front();
    if (p.request.opcode == Opcode::kRead && p.received < p.length) return false;
    ++c->out.acked_requests;
    CompleteHead(c, CompletionStatus::kOk);
    DropFailedHeads(c);
  }
  return true;
}

// --- Acknowledgements

void TcpPort::WantFlush(TcpConnection* c) {
  if (c->out.in_flush) return;
  c->out.in_flush = true;
  flush_.push_back(c->id);
}

void TcpPort::FlushOwed() {
  for (const ConnectionId id : owed_) {
    TcpConnection* c = connections_.Find(id);
    if (c == nullptr) continue;
    c->out.in_owed = false;
    if (c->state == State::kUp && c->out.announced != c->out.acknowledgement()) Flush(c);
  }
  owed_.clear();
}

}  // namespace nova
