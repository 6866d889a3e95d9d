#include "common/rdma/tcp_port.h"

#include <netinet/tcp.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstring>

#include "common/base/log.h"
#include "common/rdma/resolver.h"

namespace nova {
namespace {

constexpr uint64_t kWakeEvent = 0;
constexpr uint64_t kListenEvent = 1;
constexpr uint32_t kSlotBits = 20;  // a connection id is serial << kSlotBits | slot; serials start at 1

constexpr size_t kMaxEvents = 256;
constexpr size_t kSlabBytes = 64 * 1024;
constexpr size_t kMinSlabRoom = 16 * 1024;
constexpr size_t kMaxSlabs = 16;         // read in one round
constexpr size_t kDirectTail = 4096;     // read beyond a payload that goes straight to its place
constexpr size_t kDirectMinimum = 2048;  // a rest shorter than this goes through the slab
constexpr size_t kMaxChunkBytes = 256 * 1024;
constexpr size_t kMaxFrames = 128;
constexpr size_t kMaxIov = 512;
constexpr int kReadsPerRound = 8;
constexpr int kAcceptsPerRound = 16;
constexpr size_t kMaxLingering = 64;
constexpr Nanos kFailingNs = 500 * kMillisecond;
constexpr Nanos kLingerNs = kSecond;
constexpr Nanos kAcceptPauseNs = 100 * kMillisecond;

const Status& NotConnected() {
  static const Status* status = new Status(absl::UnavailableError("no such connection, or not up"));
  return *status;
}
const Status& TooManyPending() {
  static const Status* status = new Status(absl::ResourceExhaustedError("too many pending requests"));
  return *status;
}

void Bump(std::atomic<uint64_t>& counter, uint64_t n) {  // one writer
  counter.store(counter.load(std::memory_order_relaxed) + n, std::memory_order_relaxed);
}

void Configure(int fd) {
  const int on = 1, idle_s = 60, interval_s = 10, probes = 3;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
  setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle_s, sizeof(idle_s));
  setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &interval_s, sizeof(interval_s));
  setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &probes, sizeof(probes));
}

std::string ErrorText(std::string_view what, int error) {
  return StrCat(absl::string_view(what.data(), what.size()), ": ", strerror(error));
}

}  // namespace

struct TcpPort::Connection {
  ConnectionId id;
  State state = State::kDead;
  bool accepted = false;
  std::unique_ptr<RecordStream> stream;
  uint32_t interest = 0;
  std::multimap<Nanos, ConnectionId>::iterator timer;
  bool has_timer = false;
  std::string reason;

  // Handshake
  uint16_t tcp_port = 0;
  Hello hello;  // ours until up (dialler), then the peer's
  uint32_t peer_max_message = 0;
  std::string handshake;

  // Out: our requests, from posted to completed, and frames built and not yet gone.
  Ring<Pending> pending;
  uint64_t next_send = 0;       // ring index of the request to frame next
  uint32_t next_offset = 0;     // in it
  uint64_t begun_requests = 0;  // counted as the peer counts: failed ones are not sent
  uint64_t sent_requests = 0;   // their last byte is with the kernel
  uint64_t acked_requests = 0;
  uint64_t first_unsent = 0;     // ring index
  uint64_t checked_version = 0;  // local pieces of what is not sent were checked at
  Ring<OutFrame> frames;
  Ring<Response> responses;
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
  uint64_t landing_version = 0;        // its memory was checked at
  bool in_more = false;                // a WRITE's next frame is due
  FrameHeader in_expected;             // what it must say
  std::unique_ptr<std::byte[]> block;  // of a SEND that came in parts

  void Forget() {
    frames.clear();
    responses.clear();
    block.reset();
  }
};

// --- Set-up

TcpPort::TcpPort(TcpPortOwner* owner, const PortOptions& options)
    : owner_(owner), regions_(owner->regions()), options_(options), events_(kMaxEvents), iov_(kMaxIov) {
  regions_->AddReader(&memory_mu_);
}

TcpPort::~TcpPort() {
  // What Resolve and HandOver of other threads still hold is dropped first.
  for (auto& c : slots_) {
    if (c != nullptr) Break(c.get(), "the port was closed");
  }
  owner_->PortGone(this, counters());
  if (listen_fd_ >= 0) close(listen_fd_);
  if (wake_fd_ >= 0) close(wake_fd_);
  if (epoll_fd_ >= 0) close(epoll_fd_);
  regions_->RemoveReader(&memory_mu_);
}

Status TcpPort::Open() {
  if (options_.max_pending_requests == 0 || options_.max_pending_requests > kMaxRequestsUnderWay) {
    return absl::InvalidArgumentError(StrCat("max_pending_requests must be 1..", kMaxRequestsUnderWay));
  }
  epoll_fd_ = epoll_create1(EPOLL_CLOEXEC);
  if (epoll_fd_ < 0) return absl::ResourceExhaustedError(ErrorText("epoll_create1", errno));
  wake_fd_ = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
  if (wake_fd_ < 0) return absl::ResourceExhaustedError(ErrorText("eventfd", errno));
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.u64 = kWakeEvent;
  NOVA_CHECK(epoll_ctl(epoll_fd_, EPOLL_CTL_ADD, wake_fd_, &event) == 0);
  return OkStatus();
}

void TcpPort::Serve(const TcpListener* listener, int listen_fd) {
  listener_ = listener;
  listen_fd_ = listen_fd;
  if (listen_fd_ >= 0) ResumeAccepting();
}

FabricCounters TcpPort::counters() const {
  FabricCounters out;
  out.connections = counters_.connections.load(std::memory_order_relaxed);
  out.pending_requests = counters_.pending_requests.load(std::memory_order_relaxed);
  out.bytes_sent = counters_.bytes_sent.load(std::memory_order_relaxed);
  out.bytes_written = counters_.bytes_written.load(std::memory_order_relaxed);
  out.bytes_read = counters_.bytes_read.load(std::memory_order_relaxed);
  out.protocol_errors = counters_.protocol_errors.load(std::memory_order_relaxed);
  out.access_errors = counters_.access_errors.load(std::memory_order_relaxed);
  return out;
}

// --- Connections

TcpPort::Connection* TcpPort::Add(State state, std::unique_ptr<RecordStream> stream) {
  uint32_t slot;
  if (free_slots_.empty()) {
    slot = static_cast<uint32_t>(slots_.size());
    NOVA_CHECK(slot < (1u << kSlotBits)) << "connections";
    slots_.push_back(nullptr);
  } else {
    slot = free_slots_.back();
    free_slots_.pop_back();
  }
  slots_[slot] = std::make_unique<Connection>();
  Connection* c = slots_[slot].get();
  c->id = ConnectionId(next_serial_++ << kSlotBits | slot);
  c->state = state;
  c->stream = std::move(stream);
  return c;
}

TcpPort::Connection* TcpPort::Find(ConnectionId id) const {
  const uint64_t slot = id.value() & ((1u << kSlotBits) - 1);
  if (slot >= slots_.size()) return nullptr;
  Connection* c = slots_[slot].get();
  return c != nullptr && c->id == id ? c : nullptr;
}

void TcpPort::Release(Connection* c) {
  if (c->state == State::kLingering) --lingering_;
  c->state = State::kDead;
  SetTimer(c, kNever);
  c->stream.reset();
  const uint64_t slot = c->id.value() & ((1u << kSlotBits) - 1);
  graveyard_.push_back(std::move(slots_[slot]));
  free_slots_.push_back(static_cast<uint32_t>(slot));
}

void TcpPort::SetInterest(Connection* c, bool read, bool write) {
  const uint32_t wanted = (read ? EPOLLIN : 0u) | (write ? EPOLLOUT : 0u);
  // The top bit marks a socket that epoll knows: interest 0 is one that waits for nothing.
  const uint32_t known = 1u << 31;
  if (c->interest == (wanted | known)) return;
  epoll_event event{};
  event.events = wanted;
  event.data.u64 = c->id.value();
  const int op = (c->interest & known) != 0 ? EPOLL_CTL_MOD : EPOLL_CTL_ADD;
  c->interest = wanted | known;
  if (epoll_ctl(epoll_fd_, op, c->stream->fd(), &event) != 0) {
    NOVA_LOG(ERROR) << options_.name << ": epoll_ctl: " << strerror(errno);
  }
}

void TcpPort::SetTimer(Connection* c, Nanos when_ns) {
  if (c->has_timer) timers_.erase(c->timer);
  c->has_timer = when_ns != kNever;
  if (c->has_timer) c->timer = timers_.emplace(when_ns, c->id);
}

void TcpPort::Break(Connection* c, std::string_view reason, bool linger) {
  if (c->state == State::kDead) return;
  if (c->state == State::kLingering) return Release(c);
  const bool was_up = c->state == State::kUp || c->state == State::kFailing;
  if (c->state == State::kAwaitHello) {
    --handshakes_;
    ResumeAccepting();
  }
  c->reason.assign(reason);
  if (c->accepted && was_up) {
    const auto it = accepted_.find({c->hello.role, std::string(NameOf(c->hello)), c->hello.xchg_index});
    if (it != accepted_.end() && it->second == c->id) accepted_.erase(it);
  }
  while (!c->pending.empty()) {
    CompleteHead(c, c->pending.front().failed ? CompletionStatus::kLocalError : CompletionStatus::kFlushed);
  }
  if (was_up) counters_.connections.fetch_sub(1, std::memory_order_relaxed);
  if (was_up || !c->accepted) {
    Completion& done = queue_.emplace_back();
    done.kind = CompletionKind::kDisconnected;
    done.connection = c->id;
    done.accepted = c->accepted;
    done.reason = c->reason.c_str();
  }
  c->Forget();
  if (linger && lingering_ < kMaxLingering) {
    ++lingering_;
    c->state = State::kLingering;
    c->stream->ShutdownWrite();
    SetInterest(c, true, false);
    SetTimer(c, Now() + kLingerNs);
    return;
  }
  Release(c);
}

void TcpPort::BreakMalformed(Connection* c, std::string_view reason) {
  Bump(counters_.protocol_errors, 1);
  Break(c, reason);
}

void TcpPort::Disconnect(ConnectionId connection) {
  Connection* c = Find(connection);
  if (c != nullptr && c->state != State::kLingering) Break(c, "closed on this side");
}

// --- Handshake

ConnectionId TcpPort::Connect(const std::string& address, const Hello& hello, Nanos deadline_ns) {
  Connection* c = Add(State::kResolving, nullptr);
  const ConnectionId id = c->id;
  c->hello = hello;
  c->hello.xchg_index = options_.index;
  SetTimer(c, deadline_ns);
  std::string host;
  if (!SplitHostPort(address, &host, &c->tcp_port) || host.empty()) {
    Break(c, StrCat("not an address (host:port): ", address));
    return id;
  }
  in_addr ip{};
  if (KnownHost(host, &ip)) {
    StartConnect(c, ip);
  } else {
    owner_->Resolve(host, this, id);
  }
  return id;
}

void TcpPort::StartConnect(Connection* c, in_addr host) {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (fd < 0) return Break(c, ErrorText("socket", errno));
  c->stream = std::make_unique<PlainStream>(fd);
  Configure(fd);
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_addr = host;
  to.sin_port = htons(c->tcp_port);
  if (connect(fd, reinterpret_cast<sockaddr*>(&to), sizeof(to)) != 0 && errno != EINPROGRESS) {
    return Break(c, ErrorText("connect", errno));
  }
  c->state = State::kConnecting;
  SetInterest(c, false, true);
}

void TcpPort::Connected(Connection* c) {
  int error = 0;
  socklen_t length = sizeof(error);
  getsockopt(c->stream->fd(), SOL_SOCKET, SO_ERROR, &error, &length);
  if (error != 0) return Break(c, ErrorText("connect", error));
  c->state = State::kAwaitWelcome;
  SetInterest(c, true, false);
  if (!SendHandshake(c, EncodeHello(HandshakeKind::kHello, c->hello, options_.max_message_bytes))) {
    Break(c, "the connection broke in the handshake");
  }
}

// A fresh socket takes a handshake whole; one that does not is broken.
bool TcpPort::SendHandshake(Connection* c, const std::string& bytes) {
  iovec piece{const_cast<char*>(bytes.data()), bytes.size()};
  return c->stream->Write(&piece, 1) == static_cast<ssize_t>(bytes.size());
}

void TcpPort::ReadHandshake(Connection* c) {
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
    if (n < 0) return Break(c, ErrorText("the connection broke in the handshake", static_cast<int>(-n)));
  }
  Handshake h;
  const char* malformed = DecodeHandshake(c->handshake, &h);
  c->handshake.clear();
  if (malformed != nullptr) return BreakMalformed(c, malformed);
  HandleHandshake(c, h);
}

void TcpPort::HandleHandshake(Connection* c, const Handshake& h) {
  if (c->state == State::kAwaitWelcome) {
    if (h.kind == HandshakeKind::kHello)
      return BreakMalformed(c, "malformed handshake: a hello as the answer");
    if (h.kind == HandshakeKind::kRefusal) return Break(c, StrCat("refused: ", h.reason));
    if (!VersionsMeet(c->hello, h.hello)) return Break(c, "the peer's protocol version is not ours");
    c->hello = h.hello;
    c->peer_max_message = h.max_message_bytes;
    return Up(c);
  }
  if (h.kind != HandshakeKind::kHello) return BreakMalformed(c, "malformed handshake: not a hello");
  if (h.hello.xchg_index % listener_->port_count != 0) {
    c->state = State::kResolving;  // has no handshake to count any more
    --handshakes_;
    epoll_ctl(epoll_fd_, EPOLL_CTL_DEL, c->stream->fd(), nullptr);
    c->interest = 0;
    owner_->HandOver(this, c->stream, h);
    Release(c);
    return ResumeAccepting();
  }
  FinishAccept(c, h);
}

void TcpPort::FinishAccept(Connection* c, const Handshake& h) {
  c->hello = h.hello;
  c->peer_max_message = h.max_message_bytes;
  const Hello& self = listener_->self;
  if (!VersionsMeet(self, h.hello)) {
    return Refuse(c, StrCat("protocol versions ", h.hello.min_version, "..", h.hello.max_version,
                            " offered, ", self.min_version, "..", self.max_version, " spoken here"));
  }
  if (listener_->check) {
    if (const Status s = listener_->check(h.hello); !s.ok()) return Refuse(c, std::string(s.message()));
  }
  if (h.hello.incarnation != 0) {
    const PeerKey key{h.hello.role, std::string(NameOf(h.hello)), h.hello.xchg_index};
    if (const auto it = accepted_.find(key); it != accepted_.end()) {
      Connection* old = Find(it->second);
      if (std::pair(h.hello.incarnation, h.hello.generation) <
          std::pair(old->hello.incarnation, old->hello.generation)) {
        return Refuse(c, "an older connection of this peer (F3)");
      }
      Break(old, "replaced by a newer connection of the peer (F3)");
    }
    accepted_[key] = c->id;
  }
  if (!SendHandshake(c, EncodeHello(HandshakeKind::kWelcome, self, options_.max_message_bytes))) {
    if (h.hello.incarnation != 0)
      accepted_.erase({h.hello.role, std::string(NameOf(h.hello)), h.hello.xchg_index});
    return Break(c, "the connection broke in the handshake");
  }
  --handshakes_;
  Up(c);
  ResumeAccepting();
}

void TcpPort::Refuse(Connection* c, std::string_view reason) {
  SendHandshake(c, EncodeRefusal(listener_->self, reason));
  Break(c, reason, /*linger=*/true);
}

void TcpPort::Up(Connection* c) {
  c->state = State::kUp;
  SetTimer(c, kNever);
  SetInterest(c, true, false);
  counters_.connections.fetch_add(1, std::memory_order_relaxed);
  Completion& done = queue_.emplace_back();
  done.kind = CompletionKind::kConnected;
  done.connection = c->id;
  done.accepted = c->accepted;
  done.hello = &c->hello;
}

void TcpPort::Accept() {
  for (int i = 0; i < kAcceptsPerRound; ++i) {
    if (handshakes_ >= owner_->options().max_handshakes) return PauseAccepting(kNever);
    const int fd = accept4(listen_fd_, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd < 0) {
      // Out of descriptors: the kernel keeps the caller in its queue; asking again at once would spin.
      if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM)
        PauseAccepting(Now() + kAcceptPauseNs);
      return;
    }
    Configure(fd);
    Connection* c = Add(State::kAwaitHello, std::make_unique<PlainStream>(fd));
    c->accepted = true;
    ++handshakes_;
    SetInterest(c, true, false);
    SetTimer(c, Now() + owner_->options().handshake_timeout_ns);
  }
}

void TcpPort::PauseAccepting(Nanos until_ns) {
  accept_again_ns_ = until_ns;
  if (!accepting_) return;
  accepting_ = false;
  epoll_ctl(epoll_fd_, EPOLL_CTL_DEL, listen_fd_, nullptr);
}

void TcpPort::ResumeAccepting() {
  if (accepting_ || listen_fd_ < 0 || handshakes_ >= owner_->options().max_handshakes) return;
  accepting_ = true;
  accept_again_ns_ = kNever;
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.u64 = kListenEvent;
  NOVA_CHECK(epoll_ctl(epoll_fd_, EPOLL_CTL_ADD, listen_fd_, &event) == 0);
}

void TcpPort::HandOver(std::unique_ptr<RecordStream> stream, const Handshake& hello) {
  {
    MutexLock lock(&arrivals_mu_);
    Arrival& a = arrivals_.emplace_back();
    a.stream = std::move(stream);
    a.hello = hello;
    have_arrivals_.store(true, std::memory_order_release);
  }
  Wake();
}

void TcpPort::Resolved(ConnectionId connection, const StatusOr<in_addr>& host) {
  {
    MutexLock lock(&arrivals_mu_);
    Arrival& a = arrivals_.emplace_back();
    a.connection = connection;
    a.host = host;
    have_arrivals_.store(true, std::memory_order_release);
  }
  Wake();
}

void TcpPort::TakeArrivals() {
  std::vector<Arrival> arrivals;
  {
    MutexLock lock(&arrivals_mu_);
    arrivals.swap(arrivals_);
    have_arrivals_.store(false, std::memory_order_release);
  }
  for (Arrival& a : arrivals) {
    if (a.stream == nullptr) {
      Connection* c = Find(a.connection);
      if (c == nullptr || c->state != State::kResolving) continue;
      if (a.host.ok()) {
        StartConnect(c, *a.host);
      } else {
        Break(c, std::string(a.host.status().message()));
      }
      continue;
    }
    Connection* c = Add(State::kAwaitHello, std::move(a.stream));
    c->accepted = true;
    ++handshakes_;
    FinishAccept(c, a.hello);
  }
}

// --- Sending

bool TcpPort::PiecesAllowed(const WorkRequest& request) const {
  for (size_t i = 0; i < request.piece_count; ++i) {
    const LocalBuffer& piece = request.pieces[i];
    if (piece.length > 0 && !regions_->keys().AllowsLocal(piece)) return false;
  }
  return true;
}

void TcpPort::Append(Connection* c, const WorkRequest& request) {
  NOVA_CHECK(request.piece_count <= kMaxPieces);
  uint64_t length = 0;
  for (size_t i = 0; i < request.piece_count; ++i) length += request.pieces[i].length;
  if (c->first_unsent == c->pending.tail()) c->checked_version = regions_->version();
  Pending& p = c->pending.push_back({});
  p.request = request;
  p.length = static_cast<uint32_t>(length);
  p.failed =
      length > UINT32_MAX || !PiecesAllowed(request) ||
      (request.opcode == Opcode::kSend && length > std::min(options_.max_message_bytes, c->peer_max_message));
}

Status TcpPort::Post(ConnectionId connection, std::span<const WorkRequest> requests) {
  Connection* c = Find(connection);
  if (c == nullptr || c->state != State::kUp) return NotConnected();
  if (c->pending.size() + requests.size() > options_.max_pending_requests) return TooManyPending();
  {
    RegionLock lock(regions_, &memory_mu_);
    for (const WorkRequest& request : requests) Append(c, request);
  }
  counters_.pending_requests.fetch_add(static_cast<int64_t>(requests.size()), std::memory_order_relaxed);
  DropFailedHeads(c);
  Flush(c);
  return OkStatus();
}

// What we have executed of the peer's, in order: not beyond a READ whose data has not all been framed.
uint64_t TcpPort::Acknowledgement(const Connection* c) const {
  return c->responses.empty() ? c->received_requests : c->responses.front().sequence;
}

TcpPort::OutFrame& TcpPort::PushFrame(Connection* c, FrameType type, OutFrame::Source source) {
  OutFrame& f = c->frames.push_back({});
  f.header.type = static_cast<uint8_t>(type);
  f.header.acknowledged = c->announced = Acknowledgement(c);
  f.source = source;
  return f;
}

bool TcpPort::BuildResponseFrame(Connection* c) {
  if (c->responses.empty()) return false;
  Response& r = c->responses.front();
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
    if (Acknowledgement(c) == sequence + 1) c->announced = sequence + 1;
  }
  return true;
}

bool TcpPort::BuildRequestFrame(Connection* c) {
  if (c->state != State::kUp) return false;
  while (c->next_send < c->pending.tail() && c->pending[c->next_send].failed) ++c->next_send;
  if (c->next_send == c->pending.tail()) return false;
  const Pending& p = c->pending[c->next_send];
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

void TcpPort::BuildFrames(Connection* c) {
  uint64_t bytes = 0;
  while (c->frames.size() < kMaxFrames && bytes < kMaxChunkBytes) {
    const bool response = BuildResponseFrame(c);
    if (response) bytes += c->frames.back().size();
    const bool request = BuildRequestFrame(c);
    if (request) bytes += c->frames.back().size();
    if (!response && !request) {
      if (c->announced != Acknowledgement(c)) PushFrame(c, FrameType::kAck, OutFrame::kControl);
      return;
    }
  }
}

// After a revocation, what is not sent is looked at again: nothing is read from memory that was revoked.
bool TcpPort::CheckOutgoing(Connection* c) {
  if (c->checked_version == regions_->version()) return true;
  for (uint64_t i = c->first_unsent; i < c->pending.tail(); ++i) {
    Pending& p = c->pending[i];
    if (!p.failed && !PiecesAllowed(p.request)) {
      p.failed = true;
      return false;
    }
  }
  c->checked_version = regions_->version();
  return true;
}

// A READ of the peer whose region was revoked since it was asked for. False: it cannot be told any more.
bool TcpPort::RefuseRead(Connection* c, uint64_t index) {
  OutFrame& frame = c->frames[index];
  Bump(counters_.access_errors, 1);
  // In the middle of the frame only the end of the connection says that it is not what was asked for.
  if (frame.sent > 0) {
    Break(c, "memory was revoked in the middle of a read of the peer");
    return false;
  }
  c->state = State::kFailing;
  c->reason = "a read of the peer was refused: revoked";
  SetTimer(c, Now() + kFailingNs);
  c->responses.clear();
  c->frames.truncate(index + 1);
  const uint64_t sequence = frame.offset;
  frame = OutFrame();
  frame.header.type = static_cast<uint8_t>(FrameType::kNak);
  frame.header.acknowledged = sequence;
  return true;
}

// Adds what is left of `frame` to iov_, as far as the budget goes.
void TcpPort::GatherFrame(Connection* c, const OutFrame& frame, size_t* budget) {
  uint64_t skip = frame.sent;
  const auto add = [&](const void* data, uint64_t length) {
    if (skip >= length) {
      skip -= length;
      return;
    }
    const size_t n = std::min<uint64_t>(length - skip, *budget);
    if (n > 0) iov_.push_back({const_cast<std::byte*>(static_cast<const std::byte*>(data)) + skip, n});
    skip = 0;
    *budget -= n;
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
bool TcpPort::Gather(Connection* c, size_t* bytes) {
  iov_.clear();
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

void TcpPort::FrameGone(Connection* c) {
  const OutFrame& f = c->frames.front();
  if (f.ends_request) {
    ++c->sent_requests;
    c->first_unsent = f.position + 1;
  }
  const bool last = f.header.frame_type() == FrameType::kNak;
  c->frames.pop_front();
  if (last) Break(c, std::string(c->reason), /*linger=*/true);
}

TcpPort::SendResult TcpPort::SendFrames(Connection* c) {
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
    Break(c, ErrorText("the connection broke", static_cast<int>(-n)));
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

void TcpPort::Flush(Connection* c) {
  for (;;) {
    BuildFrames(c);
    if (c->frames.empty()) return SetInterest(c, c->state == State::kUp, false);
    const SendResult result = SendFrames(c);
    if (result == SendResult::kBroken) return;
    if (result == SendResult::kBlocked) return SetInterest(c, c->state == State::kUp, true);
  }
}

void TcpPort::WantFlush(Connection* c) {
  if (c->in_flush) return;
  c->in_flush = true;
  flush_.push_back(c->id);
}

void TcpPort::FlushOwed() {
  for (const ConnectionId id : owed_) {
    Connection* c = Find(id);
    if (c == nullptr) continue;
    c->in_owed = false;
    if (c->state == State::kUp && c->announced != Acknowledgement(c)) Flush(c);
  }
  owed_.clear();
}

// --- Receiving

void TcpPort::CompleteHead(Connection* c, CompletionStatus status) {
  const Pending& p = c->pending.front();
  Completion& done = queue_.emplace_back();
  done.kind = CompletionKind::kRequest;
  done.status = status;
  done.connection = c->id;
  done.id = p.request.id;
  if (status == CompletionStatus::kOk) {
    switch (p.request.opcode) {
      case Opcode::kSend:
        Bump(counters_.bytes_sent, p.length);
        break;
      case Opcode::kRead:
        Bump(counters_.bytes_read, p.length);
        break;
      case Opcode::kWrite:
      case Opcode::kWriteWithImm:
        Bump(counters_.bytes_written, p.length);
        break;
    }
  }
  c->pending.pop_front();
  counters_.pending_requests.fetch_sub(1, std::memory_order_relaxed);
}

void TcpPort::DropFailedHeads(Connection* c) {
  while (!c->pending.empty() && c->pending.front().failed) CompleteHead(c, CompletionStatus::kLocalError);
  c->next_send = std::max(c->next_send, c->pending.head());
  c->first_unsent = std::max(c->first_unsent, c->pending.head());
}

bool TcpPort::HandleAcknowledgement(Connection* c, uint64_t acknowledged) {
  if (acknowledged < c->acked_requests || acknowledged > c->sent_requests) return false;
  while (c->acked_requests < acknowledged) {
    const Pending& p = c->pending.front();
    if (p.request.opcode == Opcode::kRead && p.received < p.length) return false;
    ++c->acked_requests;
    CompleteHead(c, CompletionStatus::kOk);
    DropFailedHeads(c);
  }
  return true;
}

// A peer's request failed its check of key, bounds or rights: no more of its bytes are looked at, and it is
// told.
void TcpPort::FailCheck(Connection* c) {
  Bump(counters_.access_errors, 1);
  c->state = State::kFailing;
  c->reason = "a request of the peer was refused: key, bounds or rights";
  c->responses.push_back({c->received_requests, 0, 0, 0, true});
  SetTimer(c, Now() + kFailingNs);
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
bool TcpPort::BeginFrame(Connection* c) {
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

// After a revocation, the memory that the frame under way lands in is looked at again (F1).
bool TcpPort::CheckLanding(Connection* c) {
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
      if (PiecesAllowed(c->pending.front().request)) return true;
      CompleteHead(c, CompletionStatus::kLocalError);
      Break(c, "memory of a posted request was revoked on this side");
      return false;
    default:
      return true;
  }
}

// Where the next bytes of the frame's payload belong, as far as they lie together.
std::span<std::byte> TcpPort::DirectTarget(Connection* c) {
  const FrameHeader& h = c->frame;
  switch (h.frame_type()) {
    case FrameType::kSend:
      if (c->block == nullptr) c->block = TakeBlock();
      return {c->block.get() + c->in_done, c->in_left};
    case FrameType::kWrite:
    case FrameType::kWriteWithImm:
      return {reinterpret_cast<std::byte*>(h.address + c->in_done), c->in_left};
    case FrameType::kReadData: {
      const Pending& p = c->pending.front();
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

void TcpPort::Advance(Connection* c, size_t n) {
  c->in_done += static_cast<uint32_t>(n);
  c->in_left -= static_cast<uint32_t>(n);
  if (c->frame.frame_type() == FrameType::kReadData) c->pending.front().received += static_cast<uint32_t>(n);
}

void TcpPort::Land(Connection* c, const std::byte* p, size_t n) {
  while (n > 0) {
    const std::span<std::byte> target = DirectTarget(c);
    const size_t here = std::min(n, target.size());
    std::memcpy(target.data(), p, here);
    Advance(c, here);
    p += here;
    n -= here;
  }
}

// The frame's payload is in place.
void TcpPort::EndFrame(Connection* c) {
  const FrameHeader& h = c->frame;
  c->head_have = 0;
  switch (h.frame_type()) {
    case FrameType::kSend: {
      ++c->received_requests;
      Completion& done = queue_.emplace_back();
      done.kind = CompletionKind::kReceive;
      done.connection = c->id;
      if (c->block != nullptr) {
        done.data = {c->block.get(), h.length};
        used_blocks_.push_back(std::move(c->block));
      }
      if (!c->in_owed) {
        c->in_owed = true;
        owed_.push_back(c->id);
      }
      return;
    }
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
        Completion& done = queue_.emplace_back();
        done.kind = CompletionKind::kImmediate;
        done.connection = c->id;
        done.immediate = h.immediate;
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

bool TcpPort::Consume(Connection* c, const std::byte* p, const std::byte* end) {
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
      EndFrame(c);
      queue_.back().data = {p, n};
      slab_referenced_ = slab_referenced_ || n > 0;
    } else {
      Land(c, p, n);
      if (c->in_left == 0) EndFrame(c);
    }
    p += n;
  }
  return true;
}

void TcpPort::ReadFrames(Connection* c) {
  for (int i = 0; i < kReadsPerRound; ++i) {
    if (slab_ < slabs_.size() && kSlabBytes - slab_used_ < kMinSlabRoom) {
      if (slab_ + 1 == kMaxSlabs) return;  // epoll reports the rest again
      ++slab_;
      slab_used_ = 0;
    }
    if (slab_ == slabs_.size()) slabs_.push_back(std::make_unique<std::byte[]>(kSlabBytes));
    std::byte* slab = slabs_[slab_].get() + slab_used_;
    const size_t room = kSlabBytes - slab_used_;

    RegionLock lock(regions_, &memory_mu_);
    if (!CheckLanding(c)) return;
    std::span<std::byte> direct;
    if (c->head_have == sizeof(FrameHeader) && c->in_left >= kDirectMinimum) direct = DirectTarget(c);
    iovec pieces[2];
    size_t count = 0, asked = 0;
    if (!direct.empty()) {
      direct = direct.first(std::min(direct.size(), kMaxChunkBytes));
      pieces[count++] = {direct.data(), direct.size()};
      asked = direct.size();
    }
    pieces[count] = {slab, direct.empty() ? room : std::min(room, kDirectTail)};
    asked += pieces[count++].iov_len;
    const ssize_t n = c->stream->Read(pieces, count);
    if (n == RecordStream::kWouldBlock) return;
    if (n == RecordStream::kEnd) return Break(c, "closed by the peer");
    if (n < 0) return Break(c, ErrorText("the connection broke", static_cast<int>(-n)));
    auto got = static_cast<size_t>(n);
    if (!direct.empty()) {
      const size_t here = std::min(got, direct.size());
      Advance(c, here);
      if (c->in_left == 0) EndFrame(c);
      got -= here;
    }
    slab_referenced_ = false;
    if (!Consume(c, slab, slab + got)) return;
    if (slab_referenced_) slab_used_ += got;
    if (static_cast<size_t>(n) < asked) return;
  }
}

// --- A round

void TcpPort::Recycle() {
  queue_.clear();
  queue_head_ = 0;
  graveyard_.clear();
  for (auto& block : used_blocks_) free_blocks_.push_back(std::move(block));
  used_blocks_.clear();
  slab_ = slab_used_ = 0;
}

void TcpPort::HandleEvent(uint64_t id, uint32_t events) {
  if (id == kWakeEvent) return DrainWakeFd();
  if (id == kListenEvent) return Accept();
  Connection* c = Find(ConnectionId(id));
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
    case State::kLingering: {
      std::byte dropped[4096];
      for (int i = 0; i < kReadsPerRound; ++i) {
        iovec piece{dropped, sizeof(dropped)};
        const ssize_t n = c->stream->Read(&piece, 1);
        if (n == RecordStream::kWouldBlock) return;
        if (n <= 0) return Release(c);
      }
      return;
    }
    case State::kResolving:
    case State::kDead:
      return;
  }
}

void TcpPort::RunTimers() {
  const Nanos now = Now();
  if (accept_again_ns_ <= now) ResumeAccepting();
  while (!timers_.empty() && timers_.begin()->first <= now) {
    Connection* c = Find(timers_.begin()->second);
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
        Break(c, "");
    }
  }
}

void TcpPort::Round() {
  FlushOwed();
  if (HaveArrivals()) TakeArrivals();
  int n = ready_events_;
  ready_events_ = 0;
  if (n == 0) n = epoll_wait(epoll_fd_, events_.data(), static_cast<int>(events_.size()), 0);
  for (int i = 0; i < n; ++i)
    HandleEvent(events_[static_cast<size_t>(i)].data.u64, events_[static_cast<size_t>(i)].events);
  if (!timers_.empty() || accept_again_ns_ != kNever) RunTimers();
  for (size_t i = 0; i < flush_.size(); ++i) {
    Connection* c = Find(flush_[i]);
    if (c == nullptr) continue;
    c->in_flush = false;
    if (c->state == State::kUp || c->state == State::kFailing) Flush(c);
  }
  flush_.clear();
}

size_t TcpPort::Poll(std::span<Completion> out) {
  if (queue_head_ == queue_.size()) {
    Recycle();
    Round();
  }
  const size_t n = std::min(out.size(), queue_.size() - queue_head_);
  std::copy_n(queue_.begin() + static_cast<ptrdiff_t>(queue_head_), n, out.begin());
  queue_head_ += n;
  return n;
}

void TcpPort::Wait(Nanos deadline_ns) {
  if (queue_head_ < queue_.size() || ready_events_ > 0) return;
  FlushOwed();
  if (queue_head_ < queue_.size()) return;
  if (!timers_.empty()) deadline_ns = std::min(deadline_ns, timers_.begin()->first);
  deadline_ns = std::min(deadline_ns, accept_again_ns_);
  int timeout_ms = -1;
  if (deadline_ns != kNever) {
    const Nanos left = deadline_ns - Now();
    if (left <= 0) return;
    timeout_ms = static_cast<int>(std::min<Nanos>((left + kMillisecond - 1) / kMillisecond, 3'600'000));
  }
  WakeState expected = WakeState::kRunning;
  if (wake_.compare_exchange_strong(expected, WakeState::kSleeping)) {
    const int n = epoll_wait(epoll_fd_, events_.data(), static_cast<int>(events_.size()), timeout_ms);
    ready_events_ = std::max(n, 0);
  }
  wake_.store(WakeState::kRunning);
}

void TcpPort::Wake() {
  if (wake_.exchange(WakeState::kWoken) != WakeState::kSleeping) return;
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t n = write(wake_fd_, &one, sizeof(one));
}

void TcpPort::DrainWakeFd() {
  uint64_t count;
  [[maybe_unused]] const ssize_t n = read(wake_fd_, &count, sizeof(count));
}

}  // namespace nova
