#include "common/rdma/tcp/tcp_port.h"

#include <algorithm>
#include <cstring>

#include "common/base/log.h"

namespace nova {
namespace {

constexpr size_t kMaxEvents = 256;
constexpr uint32_t kMaxTurnsAlone = 8;
constexpr size_t kMaxLingering = 64;
constexpr Nanos kLingerNs = kSecond;

// Throws away bytes that a lingering connection brings. True: the peer has closed it.
bool DropInput(RecordStream* stream, int most_reads) {
  std::byte dropped[4096];
  for (int i = 0; i < most_reads; ++i) {
    iovec piece{dropped, sizeof(dropped)};
    const ssize_t n = stream->Read(&piece, 1);
    if (n == RecordStream::kWouldBlock) return false;
    if (n <= 0) return true;
  }
  return false;
}

}  // namespace

TcpPort::TcpPort(TcpShared* shared, const PortOptions& options)
    : shared_(shared),
      regions_(&shared->regions),
      options_(options),
      acceptor_(shared->options.max_handshakes),
      events_(kMaxEvents),
      memory_(options.max_message_bytes) {
  regions_->AddReader(&memory_mu_);
}

TcpPort::~TcpPort() {
  connections_.ForEach([this](TcpConnection* c) { Break(c, "the port was closed"); });
  shared_->ports.Remove(this);
  if (epoll_fd_ >= 0) close(epoll_fd_);
  regions_->RemoveReader(&memory_mu_);
}

Status TcpPort::Open() {
  if (options_.max_pending_requests == 0 || options_.max_pending_requests > kMaxRequestsUnderWay) {
    return absl::InvalidArgumentError(StrCat("max_pending_requests must be 1..", kMaxRequestsUnderWay));
  }
  epoll_fd_ = epoll_create1(EPOLL_CLOEXEC);
  if (epoll_fd_ < 0) return absl::ResourceExhaustedError(StrCat("epoll_create1: ", strerror(errno)));
  return wake_.Open(epoll_fd_, kWakeEvent);
}

void TcpPort::Serve(int listen_fd) { acceptor_.Serve(listen_fd, epoll_fd_, kListenEvent); }

// --- Connections

void TcpPort::Release(TcpConnection* c) {
  if (c->state == State::kLingering) --lingering_;
  c->state = State::kDead;
  c->stream.reset();
  connections_.Bury(c);
}

void TcpPort::SetInterest(TcpConnection* c, bool read, bool write) {
  const uint32_t wanted = (read ? EPOLLIN : 0u) | (write ? EPOLLOUT : 0u);
  // The top bit marks a socket that epoll knows: interest 0 is one that waits for nothing.
  const uint32_t known = 1u << 31;
  if (c->interest == (wanted | known)) return;
  epoll_event event{};
  event.events = wanted;
  event.data.u64 = c->id.value();
  const int op = (c->interest & known) != 0 ? EPOLL_CTL_MOD : EPOLL_CTL_ADD;
  if (epoll_ctl(epoll_fd_, op, c->stream->fd(), &event) == 0) {
    c->interest = wanted | known;
    return;
  }
  // The kernel is out of memory, or of the user's watches: what is not watched would never be heard of again.
  // Its timer breaks it, for the caller still has it in hand.
  c->reason = StrCat("epoll_ctl: ", strerror(errno));
  connections_.SetTimer(c, Now());
}

void TcpPort::Break(TcpConnection* c, std::string_view reason, bool linger) {
  if (c->state == State::kDead) return;
  if (c->state == State::kLingering) return Release(c);
  const bool was_up = c->state == State::kUp || c->state == State::kFailing;
  if (c->state == State::kAwaitHello) acceptor_.Ended();
  c->reason.assign(reason);
  if (c->accepted) admission_.Leave(c->hello, c->id);
  while (!c->out.pending.empty()) CompleteHead(c, c->out.pending.front().flushed());
  if (was_up) counters_.Disconnected();
  if (was_up || !c->accepted) queue_.PushDisconnected(*c);
  c->out.frames.clear();
  c->out.responses.clear();
  c->in.block.reset();
  if (!linger || lingering_ >= kMaxLingering) return Release(c);
  ++lingering_;
  c->state = State::kLingering;
  c->stream->ShutdownWrite();
  SetInterest(c, true, false);
  connections_.SetTimer(c, Now() + kLingerNs);
}

void TcpPort::BreakMalformed(TcpConnection* c, std::string_view reason) {
  counters_.ProtocolError();
  Break(c, reason);
}

void TcpPort::Disconnect(ConnectionId connection) {
  TcpConnection* c = connections_.Find(connection);
  if (c != nullptr && c->state != State::kLingering) Break(c, "closed on this side");
}

// --- A turn

void TcpPort::HandleEvent(uint64_t id, uint32_t events) {
  if (id == kWakeEvent) return wake_.Drain();
  if (id == kListenEvent) return Accept();
  TcpConnection* c = connections_.Find(ConnectionId(id));
  if (c == nullptr) return;
  switch (c->state) {
    case State::kConnecting:
      return Connected(c);
    case State::kAwaitWelcome:
    case State::kAwaitHello:
      return ReadHandshake(c);
    case State::kUp:
      if ((events & EPOLLOUT) != 0) Flush(c);
      if (c->state == State::kUp && (events & (EPOLLIN | EPOLLHUP | EPOLLERR)) != 0) ReadFrames(c);
      return;
    case State::kFailing:
      if ((events & (EPOLLHUP | EPOLLERR)) != 0) return Break(c, std::string(c->reason));
      return Flush(c);
    case State::kLingering:
      if (DropInput(c->stream.get(), kReadsPerTurn)) Release(c);
      return;
    case State::kResolving:
    case State::kDead:
      return;
  }
}

void TcpPort::RunTimers() {
  const Nanos now = Now();
  if (acceptor_.again_ns() <= now) acceptor_.Resume();
  while (TcpConnection* c = connections_.Due(now)) {
    switch (c->state) {
      case State::kResolving:
      case State::kConnecting:
      case State::kAwaitWelcome:
        Break(c, "the peer did not answer in time");
        break;
      case State::kAwaitHello:
        Break(c, "no hello in time");
        break;
      case State::kFailing:
        Break(c, std::string(c->reason), /*linger=*/true);
        break;
      default:
        Break(c, std::string(c->reason));
    }
  }
}

// False: all are to be looked at.
bool TcpPort::ReadAlone() {
  TcpConnection* c = connections_.Find(alone_);
  // frames: it waits for room, too
  if (c == nullptr || c->state != State::kUp || !c->out.frames.empty()) return false;
  return ++turns_alone_ % kMaxTurnsAlone != 0 && ReadFrames(c);
}

void TcpPort::Turn() {
  FlushOwed();
  if (!arrivals_.empty()) TakeArrivals();
  if (ready_events_ > 0 || !ReadAlone()) {
    int n = std::exchange(ready_events_, 0);
    if (n == 0) n = epoll_wait(epoll_fd_, events_.data(), static_cast<int>(events_.size()), 0);
    if (n > 0) alone_ = ConnectionId(n == 1 ? events_[0].data.u64 : 0);
    // What one turn reads is bounded, and epoll tells of the same sockets in the same order: so each is the
    // first in its turn.
    const int first = n > 1 ? static_cast<int>(turns_++ % static_cast<unsigned>(n)) : 0;
    for (int i = 0; i < n; ++i) {
      const epoll_event& event = events_[static_cast<size_t>((first + i) % n)];
      HandleEvent(event.data.u64, event.events);
    }
  }
  if (connections_.next_timer_ns() != kNever || acceptor_.again_ns() != kNever) RunTimers();
  for (size_t i = 0; i < flush_.size(); ++i) {
    TcpConnection* c = connections_.Find(flush_[i]);
    if (c == nullptr) continue;
    c->out.in_flush = false;
    if (c->state == State::kUp || c->state == State::kFailing) Flush(c);
  }
  flush_.clear();
}

size_t TcpPort::Poll(std::span<Completion> out) {
  if (queue_.empty()) {
    queue_.Clear();  // the owner took all of it: memory that it pointed into is free
    connections_.Recycle();
    memory_.Recycle();
    Turn();
  }
  return queue_.Take(out);
}

void TcpPort::Wait(Nanos deadline_ns) {
  if (!queue_.empty() || ready_events_ > 0) return;
  FlushOwed();
  if (!queue_.empty()) return;
  const int timeout_ms =
      EpollTimeout(std::min({deadline_ns, connections_.next_timer_ns(), acceptor_.again_ns()}));
  if (timeout_ms == 0) return;
  if (wake_.BeginSleep()) {
    ready_events_ =
        std::max(epoll_wait(epoll_fd_, events_.data(), static_cast<int>(events_.size()), timeout_ms), 0);
  }
  wake_.EndSleep();
}

}  // namespace nova
