// Connections of a TcpPort until they are up.
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstring>

#include "common/base/log.h"
#include "common/rdma/tcp/tcp_port.h"

namespace nova {
namespace {

constexpr int kAcceptsPerTurn = 16;

// Bytes on their way that the kernel keeps, or 384 KiB in its accounting: more than a 25 Gbit/s link has
// under way, and little enough to stay in a core's cache between the two copies. Left to grow, megabytes
// queue and both copies go to memory: half the bandwidth.
constexpr int kSendBufferBytes = 192 * 1024;

void Configure(int fd) {
  const int on = 1, idle_s = 60, interval_s = 10, probes = 3;
  // While bytes are not acknowledged no probe is sent; so long they may stay so.
  const unsigned unacknowledged_ms = (idle_s + probes * interval_s) * 1000;
  setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &kSendBufferBytes, sizeof(kSendBufferBytes));
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
  setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle_s, sizeof(idle_s));
  setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &interval_s, sizeof(interval_s));
  setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &probes, sizeof(probes));
  setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &unacknowledged_ms, sizeof(unacknowledged_ms));
}

// A fresh socket takes a handshake whole; one that does not is broken.
bool SendHandshake(TcpConnection* c, const std::string& bytes) {
  iovec piece{const_cast<char*>(bytes.data()), bytes.size()};
  return c->stream->Write(&piece, 1) == static_cast<ssize_t>(bytes.size());
}

}  // namespace

// --- What other threads bring

void TcpPort::HandOver(std::unique_ptr<RecordStream> stream, const Handshake& hello) {
  arrivals_.Put({std::move(stream), hello, ConnectionId(), sockaddr_in{}});
  Wake();
}

void TcpPort::Resolved(ConnectionId connection, const StatusOr<sockaddr_in>& at) {
  arrivals_.Put({nullptr, Handshake(), connection, at});
  Wake();
}

void TcpPort::TakeArrivals() {
  for (Arrival& a : arrivals_.Take()) {
    if (a.stream != nullptr) {
      FinishAccept(AddAccepted(std::move(a.stream)), a.hello);
    } else if (TcpConnection* c = connections_.Find(a.connection);
               c != nullptr && c->state == State::kResolving) {
      StartConnect(c, a.at);
    }
  }
}

// --- The dialler

ConnectionId TcpPort::Connect(const std::string& address, const Hello& hello, Nanos deadline_ns) {
  TcpConnection* c = connections_.Add();
  c->state = State::kResolving;
  c->hello = hello;
  c->hello.xchg_index = options_.index;
  connections_.SetTimer(c, deadline_ns);
  const ConnectionId id = c->id;
  StatusOr<sockaddr_in> at = sockaddr_in{};
  if (shared_->ports.Resolve(address, this, id, &at)) StartConnect(c, at);
  return id;
}

void TcpPort::StartConnect(TcpConnection* c, const StatusOr<sockaddr_in>& at) {
  if (!at.ok()) return Break(c, std::string(at.status().message()));
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (fd < 0) return Break(c, StrCat("socket: ", strerror(errno)));
  c->stream = std::make_unique<PlainStream>(fd);
  Configure(fd);
  if (connect(fd, reinterpret_cast<const sockaddr*>(&*at), sizeof(*at)) != 0 && errno != EINPROGRESS) {
    return Break(c, StrCat("connect: ", strerror(errno)));
  }
  c->state = State::kConnecting;
  SetInterest(c, false, true);
}

void TcpPort::Connected(TcpConnection* c) {
  int error = 0;
  socklen_t length = sizeof(error);
  getsockopt(c->stream->fd(), SOL_SOCKET, SO_ERROR, &error, &length);
  if (error != 0) return Break(c, StrCat("connect: ", strerror(error)));
  c->state = State::kAwaitWelcome;
  SetInterest(c, true, false);
  if (!SendHandshake(c, EncodeHello(HandshakeKind::kHello, c->hello, options_.max_message_bytes))) {
    Break(c, "the connection broke in the handshake");
  }
}

// --- The handshake

void TcpPort::ReadHandshake(TcpConnection* c) {
  for (;;) {
    const size_t have = c->handshake.size();
    size_t whole = kHandshakePrefixBytes;
    if (have >= kHandshakePrefixBytes) {
      whole = HandshakeLength(c->handshake);
      if (whole == 0) return BreakMalformed(c, "malformed handshake: not a peer of ours");
    }
    if (have == whole) break;
    // Never beyond the handshake: what follows belongs to the frames.
    c->handshake.resize(whole);
    iovec piece{c->handshake.data() + have, whole - have};
    const ssize_t n = c->stream->Read(&piece, 1);
    c->handshake.resize(have + static_cast<size_t>(std::max<ssize_t>(n, 0)));
    if (n == RecordStream::kWouldBlock) return;
    if (n == RecordStream::kEnd) return Break(c, "closed by the peer in the handshake");
    if (n < 0)
      return Break(c, StrCat("the connection broke in the handshake: ", strerror(static_cast<int>(-n))));
  }
  Handshake h;
  const char* malformed = DecodeHandshake(c->handshake, &h);
  c->handshake.clear();
  if (malformed != nullptr) return BreakMalformed(c, malformed);
  HandleHandshake(c, h);
}

void TcpPort::HandleHandshake(TcpConnection* c, const Handshake& h) {
  if (c->state == State::kAwaitWelcome) {
    const Status s = JudgeAnswer(c->hello, h);
    if (absl::IsInvalidArgument(s)) return BreakMalformed(c, std::string(s.message()));
    if (!s.ok()) return Break(c, std::string(s.message()));
    c->hello = h.hello;
    c->peer_max_message = h.max_message_bytes;
    return Up(c);
  }
  if (h.kind != HandshakeKind::kHello) return BreakMalformed(c, "malformed handshake: not a hello");
  if (h.hello.xchg_index % shared_->listener.port_count == 0) return FinishAccept(c, h);
  // Another port's. Where that one is gone, so is the connection.
  epoll_ctl(epoll_fd_, EPOLL_CTL_DEL, c->stream->fd(), nullptr);
  shared_->ports.HandOver(h.hello.xchg_index, [&](TcpPort* to) {
    to->HandOver(std::move(c->stream), h);
    return true;
  });
  Release(c);
  acceptor_.Ended();
}

void TcpPort::FinishAccept(TcpConnection* c, const Handshake& h) {
  c->hello = h.hello;
  c->peer_max_message = h.max_message_bytes;
  ConnectionId replaced;
  const std::string refusal = admission_.Judge(shared_->listener, h.hello, c->id, &replaced);
  if (!refusal.empty()) {
    SendHandshake(c, EncodeRefusal(shared_->listener.self, refusal));
    return Break(c, refusal, /*linger=*/true);
  }
  if (TcpConnection* old = connections_.Find(replaced); old != nullptr) Break(old, kReplaced);
  if (!SendHandshake(
          c, EncodeHello(HandshakeKind::kWelcome, shared_->listener.self, options_.max_message_bytes))) {
    return Break(c, "the connection broke in the handshake");
  }
  Up(c);
  acceptor_.Ended();
}

void TcpPort::Up(TcpConnection* c) {
  c->state = State::kUp;
  connections_.SetTimer(c, kNever);
  SetInterest(c, true, false);
  counters_.Connected();
  queue_.PushConnected(*c);
}

// --- The acceptor

TcpConnection* TcpPort::AddAccepted(std::unique_ptr<RecordStream> stream) {
  TcpConnection* c = connections_.Add();
  c->state = State::kAwaitHello;
  c->stream = std::move(stream);
  c->accepted = true;
  acceptor_.Began();
  return c;
}

void TcpPort::Accept() {
  for (int i = 0; i < kAcceptsPerTurn; ++i) {
    const int fd = acceptor_.Accept();
    if (fd < 0) return;
    Configure(fd);
    TcpConnection* c = AddAccepted(std::make_unique<PlainStream>(fd));
    SetInterest(c, true, false);
    connections_.SetTimer(c, Now() + shared_->options.handshake_timeout_ns);
  }
}

}  // namespace nova
