#include "common/rdma/verbs_port.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <sys/eventfd.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstring>

#include "common/base/log.h"
#include "common/rdma/resolver.h"

namespace nova {
namespace {

constexpr uint32_t kSlotBits = 20;  // a connection id is serial << kSlotBits | slot; serials start at 1
constexpr uint64_t kReceiveTag = uint64_t{1} << 63;    // of a work request id: a receive buffer
constexpr uint64_t kHandshakeTag = uint64_t{1} << 62;  // a handshake block; else tag << 32 | ring index
constexpr uint32_t kTagMask = (1u << 30) - 1;

constexpr size_t kChain = 64;  // requests under one doorbell
constexpr size_t kFetch = 64;
constexpr size_t kMaxFetched = 256;  // taken in one round
constexpr uint32_t kSignalEvery = 16;
constexpr uint32_t kSignalBytes = 64 * 1024;
constexpr uint32_t kMaxInline = 256;
constexpr uint32_t kHandshakeBlocks = 256;
constexpr size_t kMaxHandshakes = kHandshakeBlocks / 2;  // accepted and not yet up; the dialler's need blocks too
constexpr size_t kMaxWaiting = 1024;
constexpr size_t kCellBytes = 64;
constexpr uint8_t kMaxReads = 16;         // READs under way on a queue pair
constexpr uint8_t kMinRnrTimer = 12;      // 0.64 ms: how long a sender waits when our receive queue was empty
constexpr uint8_t kRnrForEver = 7;
constexpr uint8_t kRetries = 7;
constexpr int kResolveMs = 2000;
constexpr Nanos kSlowNs = 50 * kMicrosecond;      // between looks at what is not the completion queue
constexpr Nanos kIdleSlowNs = 10 * kMicrosecond;  // where that is empty
constexpr Nanos kScanNs = 200 * kMillisecond;
constexpr Nanos kRefuseNs = kSecond;
constexpr uint32_t kNoBlock = UINT32_MAX;

enum Event : uint64_t { kWakeEvent, kChannelEvent, kCompletionEvent, kAsyncEvent };

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

std::string ErrorText(const char* what, int error) { return StrCat(what, ": ", strerror(error)); }
Status ErrorStatus(const char* what) { return absl::ResourceExhaustedError(ErrorText(what, errno)); }

CompletionStatus StatusOf(ibv_wc_status status) {
  switch (status) {
    case IBV_WC_SUCCESS:
      return CompletionStatus::kOk;
    case IBV_WC_REM_ACCESS_ERR:
    case IBV_WC_REM_INV_REQ_ERR:
    case IBV_WC_REM_OP_ERR:
      return CompletionStatus::kRemoteAccess;
    case IBV_WC_LOC_LEN_ERR:
    case IBV_WC_LOC_QP_OP_ERR:
    case IBV_WC_LOC_PROT_ERR:
    case IBV_WC_LOC_ACCESS_ERR:
      return CompletionStatus::kLocalError;
    default:
      return CompletionStatus::kFlushed;
  }
}

ConnectionId IdOf(const rdma_cm_id* cm) { return ConnectionId(reinterpret_cast<uint64_t>(cm->context)); }
void* ContextOf(ConnectionId id) { return reinterpret_cast<void*>(id.value()); }

}  // namespace

struct VerbsPort::Connection {
  ConnectionId id;
  uint32_t tag = 0;
  State state = State::kDead;
  bool accepted = false;
  rdma_cm_id* cm = nullptr;
  ibv_qp* qp = nullptr;
  std::multimap<Nanos, ConnectionId>::iterator timer;
  bool has_timer = false;
  std::string reason;

  // Handshake
  uint16_t service = 0;
  Hello hello;  // ours until up (dialler), then the peer's
  uint32_t peer_max_message = 0;
  uint32_t block = kNoBlock;
  ConnectData peer;

  // Requests, from posted to completed; those before next_push are in the queue pair, or failed.
  Ring<Pending> pending;
  uint64_t next_push = 0;
  uint32_t in_queue_pair = 0;
  uint32_t unsignalled = 0;
  uint32_t unsignalled_bytes = 0;
  bool starved = false;
  Nanos progress_ns = 0;  // when the oldest request in the queue pair became the oldest
  Nanos heard_ns = 0;     // of the peer, last
};

// --- Set-up

VerbsPort::VerbsPort(VerbsPortOwner* owner, const PortOptions& options) : owner_(owner), options_(options) {}

VerbsPort::~VerbsPort() {
  for (auto& c : slots_) {
    if (c != nullptr) Break(c.get(), "the port was closed");
  }
  owner_->PortGone(this, counters());
  owner_->FinishDiscarding();  // ids of our channel
  {
    MutexLock lock(&arrivals_mu_);
    for (const Arrival& a : arrivals_) {
      if (a.kind == Arrival::kRequest) rdma_destroy_id(a.cm);
    }
    for (const Arrival& a : waiting_) rdma_destroy_id(a.cm);
  }
  if (listening_ != nullptr) rdma_destroy_id(listening_);
  if (srq_ != nullptr) ibv_destroy_srq(srq_);
  if (cq_ != nullptr) {
    ibv_ack_cq_events(cq_, events_to_acknowledge_);
    ibv_destroy_cq(cq_);
  }
  if (completion_channel_ != nullptr) ibv_destroy_comp_channel(completion_channel_);
  if (channel_ != nullptr) rdma_destroy_event_channel(channel_);
  if (memory_region_ != nullptr) ibv_dereg_mr(memory_region_);
  if (cell_region_ != nullptr) ibv_dereg_mr(cell_region_);
  if (memory_ != nullptr) munmap(memory_, memory_bytes_);
  if (wake_fd_ >= 0) close(wake_fd_);
  if (epoll_fd_ >= 0) close(epoll_fd_);
}

std::byte* VerbsPort::HandshakeBlock(uint32_t index) const {
  return BufferOf(receive_buffers_) + size_t{index} * kMaxHandshakeBytes;
}

Status VerbsPort::Open() {
  const VerbsFabricOptions& o = owner_->options();
  const ibv_device_attr& limits = owner_->limits();
  if (options_.max_pending_requests == 0) return absl::InvalidArgumentError("max_pending_requests must be positive");
  send_queue_ = std::min<uint32_t>(o.send_queue, static_cast<uint32_t>(limits.max_qp_wr));
  receive_buffers_ = std::min<uint32_t>(o.receive_buffers, static_cast<uint32_t>(limits.max_srq_wr));
  const uint32_t entries = std::min<uint32_t>(o.completion_queue, static_cast<uint32_t>(limits.max_cqe));
  // Each receive buffer and each handshake block ends in one completion at most.
  if (entries < receive_buffers_ + kHandshakeBlocks + send_queue_) {
    return absl::ResourceExhaustedError(StrCat("the device's completion queues are too short (", entries, ")"));
  }
  completion_room_ = entries - receive_buffers_ - kHandshakeBlocks;

  memory_bytes_ = size_t{receive_buffers_} * options_.max_message_bytes + kHandshakeBlocks * kMaxHandshakeBytes + kCellBytes;
  memory_bytes_ = (memory_bytes_ + 4095) & ~size_t{4095};
  void* memory = mmap(nullptr, memory_bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return ErrorStatus("receive buffers");
  memory_ = static_cast<std::byte*>(memory);
  cell_ = memory_ + memory_bytes_ - kCellBytes;
  const unsigned local = IBV_ACCESS_LOCAL_WRITE, readable = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ;
  memory_region_ = ibv_reg_mr(owner_->pd(), memory_, memory_bytes_ - kCellBytes, local);
  cell_region_ = ibv_reg_mr(owner_->pd(), cell_, kCellBytes, readable);
  if (memory_region_ == nullptr || cell_region_ == nullptr) {
    const std::string problem = MemlockProblem(memory_bytes_);
    return problem.empty() ? ErrorStatus("registering receive buffers") : absl::ResourceExhaustedError(problem);
  }

  channel_ = rdma_create_event_channel();
  if (channel_ == nullptr) return ErrorStatus("rdma_create_event_channel");
  completion_channel_ = ibv_create_comp_channel(owner_->context());
  if (completion_channel_ == nullptr) return ErrorStatus("ibv_create_comp_channel");
  cq_ = ibv_create_cq(owner_->context(), static_cast<int>(entries), nullptr, completion_channel_,
                      options_.index % std::max(owner_->context()->num_comp_vectors, 1));
  if (cq_ == nullptr) return ErrorStatus("ibv_create_cq");
  ibv_srq_init_attr srq{};
  srq.attr.max_wr = receive_buffers_;
  srq.attr.max_sge = 1;
  srq_ = ibv_create_srq(owner_->pd(), &srq);
  if (srq_ == nullptr) return ErrorStatus("ibv_create_srq");

  epoll_fd_ = epoll_create1(EPOLL_CLOEXEC);
  wake_fd_ = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
  if (epoll_fd_ < 0 || wake_fd_ < 0) return ErrorStatus("epoll_create1, eventfd");
  for (const auto& [fd, name] : {std::pair<int, uint64_t>{wake_fd_, kWakeEvent},
                                 {channel_->fd, kChannelEvent},
                                 {completion_channel_->fd, kCompletionEvent},
                                 {owner_->context()->async_fd, kAsyncEvent}}) {
    fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.u64 = name;
    if (epoll_ctl(epoll_fd_, EPOLL_CTL_ADD, fd, &event) != 0) return ErrorStatus("epoll_ctl");
  }

  chain_.resize(kChain);
  chain_pieces_.resize(kChain * kMaxPieces);
  receive_chain_.resize(receive_buffers_);
  receive_pieces_.resize(receive_buffers_);
  for (uint32_t i = kHandshakeBlocks; i > 0; --i) free_handshake_blocks_.push_back(i - 1);
  for (uint32_t i = 0; i < receive_buffers_; ++i) repost_.push_back(i);
  PostReceives(&repost_);
  return OkStatus();
}

void VerbsPort::Serve(const VerbsListener* listener, rdma_cm_id* listening) {
  listener_ = listener;
  listening_ = listening;
}

FabricCounters VerbsPort::counters() const {
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

VerbsPort::Connection* VerbsPort::Add(State state) {
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
  c->tag = static_cast<uint32_t>(next_serial_) & kTagMask;
  c->id = ConnectionId(next_serial_++ << kSlotBits | slot);
  c->state = state;
  return c;
}

VerbsPort::Connection* VerbsPort::Find(ConnectionId id) const {
  const uint64_t slot = id.value() & ((1u << kSlotBits) - 1);
  if (slot >= slots_.size()) return nullptr;
  Connection* c = slots_[slot].get();
  return c != nullptr && c->id == id ? c : nullptr;
}

void VerbsPort::SetTimer(Connection* c, Nanos when_ns) {
  if (c->has_timer) timers_.erase(c->timer);
  c->has_timer = when_ns != kNever;
  if (c->has_timer) c->timer = timers_.emplace(when_ns, c->id);
}

// Destroys the queue pair before anybody is told (F3, F4).
void VerbsPort::Break(Connection* c, std::string_view reason) {
  if (c->state == State::kDead) return;
  const bool was_up = c->state == State::kUp;
  if (c->state == State::kAwaitHello || c->state == State::kRefusing) --handshakes_;
  c->state = State::kDead;
  c->reason.assign(reason);
  SetTimer(c, kNever);
  if (c->qp != nullptr) {
    by_queue_pair_.erase(c->qp->qp_num);
    in_queue_pairs_ -= c->in_queue_pair;
    // In its error state it takes no more receive buffers: what it took is fetched before the device may drop it.
    ibv_qp_attr error{};
    error.qp_state = IBV_QPS_ERR;
    ibv_modify_qp(c->qp, &error, IBV_QP_STATE);
    FetchCompletions();
    owner_->DestroyQueuePair(c->qp);
    c->qp = nullptr;
  }
  if (c->cm != nullptr) owner_->Discard(c->cm);
  c->cm = nullptr;
  if (c->block != kNoBlock) free_handshake_blocks_.push_back(c->block);
  c->block = kNoBlock;
  if (c->accepted) {
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
  const uint64_t slot = c->id.value() & ((1u << kSlotBits) - 1);
  graveyard_.push_back(std::move(slots_[slot]));
  free_slots_.push_back(static_cast<uint32_t>(slot));
}

void VerbsPort::BreakMalformed(Connection* c, std::string_view reason) {
  Bump(counters_.protocol_errors, 1);
  Break(c, reason);
}

void VerbsPort::Disconnect(ConnectionId connection) {
  if (Connection* c = Find(connection); c != nullptr) Break(c, "closed on this side");
}

// --- Connecting

ConnectionId VerbsPort::Connect(const std::string& address, const Hello& hello, Nanos deadline_ns) {
  Connection* c = Add(State::kResolving);
  const ConnectionId id = c->id;
  c->hello = hello;
  c->hello.xchg_index = options_.index;
  SetTimer(c, deadline_ns);
  std::string host;
  if (!SplitHostPort(address, &host, &c->service) || host.empty()) {
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

void VerbsPort::StartConnect(Connection* c, in_addr host) {
  if (rdma_create_id(channel_, &c->cm, ContextOf(c->id), RDMA_PS_TCP) != 0) {
    c->cm = nullptr;
    return Break(c, ErrorText("rdma_create_id", errno));
  }
  sockaddr_in to{}, from{};
  to.sin_family = AF_INET;
  to.sin_addr = host;
  to.sin_port = htons(c->service);
  sockaddr* source = owner_->source(&from) ? reinterpret_cast<sockaddr*>(&from) : nullptr;
  c->state = State::kAddress;
  if (rdma_resolve_addr(c->cm, source, reinterpret_cast<sockaddr*>(&to), kResolveMs) != 0) {
    Break(c, ErrorText("connect", errno));
  }
}

// A queue pair of ours, in INIT; rdma_cm only carries its number. False: the connection is broken.
bool VerbsPort::MakeQueuePair(Connection* c) {
  DrainCompletions();  // none of an earlier queue pair of the same number is left
  ibv_qp_init_attr init{};
  init.send_cq = init.recv_cq = cq_;
  init.srq = srq_;
  init.qp_type = IBV_QPT_RC;
  init.cap.max_send_wr = send_queue_ + 1;  // and the handshake
  init.cap.max_send_sge = kMaxPieces;
  init.cap.max_inline_data = kMaxInline;
  c->qp = owner_->CreateQueuePair(&init, this);
  if (c->qp == nullptr) {
    init.cap.max_inline_data = 0;
    c->qp = owner_->CreateQueuePair(&init, this);
  }
  if (c->qp == nullptr) {
    Break(c, ErrorText("ibv_create_qp", errno));
    return false;
  }
  max_inline_ = std::min(init.cap.max_inline_data, kMaxInline);
  by_queue_pair_[c->qp->qp_num] = c;
  ibv_qp_attr attributes{};
  int mask = 0;
  attributes.qp_state = IBV_QPS_INIT;
  if (rdma_init_qp_attr(c->cm, &attributes, &mask) == 0) {
    attributes.qp_access_flags = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;
    if (ibv_modify_qp(c->qp, &attributes, mask | IBV_QP_ACCESS_FLAGS) == 0) return true;
  }
  Break(c, ErrorText("the queue pair (INIT)", errno));
  return false;
}

bool VerbsPort::ReadyToReceiveAndSend(Connection* c, uint8_t responder_resources, uint8_t initiator_depth) {
  for (const ibv_qp_state state : {IBV_QPS_RTR, IBV_QPS_RTS}) {
    ibv_qp_attr attributes{};
    int mask = 0;
    attributes.qp_state = state;
    bool good = rdma_init_qp_attr(c->cm, &attributes, &mask) == 0;
    if (good && state == IBV_QPS_RTR) {
      attributes.max_dest_rd_atomic = responder_resources;
      attributes.min_rnr_timer = kMinRnrTimer;
    } else if (good) {
      attributes.max_rd_atomic = initiator_depth;
      attributes.timeout = owner_->options().ack_timeout;
      attributes.retry_cnt = kRetries;
      attributes.rnr_retry = kRnrForEver;
    }
    good = good && ibv_modify_qp(c->qp, &attributes, mask) == 0;
    if (!good) {
      Break(c, ErrorText(state == IBV_QPS_RTR ? "the queue pair (RTR)" : "the queue pair (RTS)", errno));
      return false;
    }
  }
  return true;
}

// Takes `cm`.
void VerbsPort::AcceptRequest(rdma_cm_id* cm, const ConnectData& data, const rdma_conn_param& param) {
  if (handshakes_ >= kMaxHandshakes) {
    if (waiting_.size() < kMaxWaiting) {
      Arrival& a = waiting_.emplace_back();
      a.kind = Arrival::kRequest;
      a.cm = cm;
      a.data = data;
      a.param = param;
      return;
    }
    rdma_reject(cm, "busy", 4);
    rdma_destroy_id(cm);
    return;
  }
  Connection* c = Add(State::kAwaitHello);
  ++handshakes_;
  c->accepted = true;
  c->cm = cm;
  c->peer = data;
  cm->context = ContextOf(c->id);
  SetTimer(c, Now() + owner_->options().handshake_timeout_ns);
  const auto reads = static_cast<uint8_t>(std::min<int>(kMaxReads, owner_->limits().max_qp_rd_atom));
  const uint8_t responder = std::min(reads, param.responder_resources), initiator = std::min(reads, param.initiator_depth);
  if (!MakeQueuePair(c) || !ReadyToReceiveAndSend(c, responder, initiator)) return;
  const std::string ours = EncodeConnectData({options_.index, reinterpret_cast<uint64_t>(cell_), cell_region_->rkey});
  rdma_conn_param answer{};
  answer.private_data = ours.data();
  answer.private_data_len = static_cast<uint8_t>(ours.size());
  answer.responder_resources = responder;
  answer.initiator_depth = initiator;
  answer.rnr_retry_count = kRnrForEver;
  answer.srq = 1;
  answer.qp_num = c->qp->qp_num;
  if (rdma_accept(cm, &answer) != 0) Break(c, ErrorText("rdma_accept", errno));
}

bool VerbsPort::SendHandshake(Connection* c, const std::string& bytes) {
  if (free_handshake_blocks_.empty()) return false;
  c->block = free_handshake_blocks_.back();
  free_handshake_blocks_.pop_back();
  std::byte* block = HandshakeBlock(c->block);
  std::memcpy(block, bytes.data(), bytes.size());
  ibv_sge piece{reinterpret_cast<uint64_t>(block), static_cast<uint32_t>(bytes.size()), memory_region_->lkey};
  ibv_send_wr request{}, *bad = nullptr;
  request.wr_id = kHandshakeTag | c->tag;
  request.sg_list = &piece;
  request.num_sge = 1;
  request.opcode = IBV_WR_SEND;
  request.send_flags = IBV_SEND_SIGNALED;
  return ibv_post_send(c->qp, &request, &bad) == 0;
}

void VerbsPort::HandleHandshake(Connection* c, std::string_view bytes) {
  Handshake h;
  if (const char* malformed = DecodeHandshake(bytes, &h); malformed != nullptr) return BreakMalformed(c, malformed);
  if (c->state == State::kAwaitHello) {
    if (h.kind != HandshakeKind::kHello) return BreakMalformed(c, "malformed handshake: not a hello");
    return FinishAccept(c, h);
  }
  if (h.kind == HandshakeKind::kHello) return BreakMalformed(c, "malformed handshake: a hello as the answer");
  if (h.kind == HandshakeKind::kRefusal) return Break(c, StrCat("refused: ", h.reason));
  if (!VersionsMeet(c->hello, h.hello)) return Break(c, "the peer's protocol version is not ours");
  c->hello = h.hello;
  c->peer_max_message = h.max_message_bytes;
  Up(c);
}

void VerbsPort::FinishAccept(Connection* c, const Handshake& h) {
  c->hello = h.hello;
  c->peer_max_message = h.max_message_bytes;
  const Hello& self = listener_->self;
  if (!VersionsMeet(self, h.hello)) {
    return Refuse(c, StrCat("protocol versions ", h.hello.min_version, "..", h.hello.max_version, " offered, ", self.min_version,
                            "..", self.max_version, " spoken here"));
  }
  if (listener_->check) {
    if (const Status s = listener_->check(h.hello); !s.ok()) return Refuse(c, std::string(s.message()));
  }
  if (h.hello.incarnation != 0) {
    const PeerKey key{h.hello.role, std::string(NameOf(h.hello)), h.hello.xchg_index};
    if (const auto it = accepted_.find(key); it != accepted_.end()) {
      Connection* old = Find(it->second);
      if (std::pair(h.hello.incarnation, h.hello.generation) < std::pair(old->hello.incarnation, old->hello.generation)) {
        return Refuse(c, "an older connection of this peer (F3)");
      }
      Break(old, "replaced by a newer connection of the peer (F3)");
    }
    accepted_[key] = c->id;
  }
  if (!SendHandshake(c, EncodeHello(HandshakeKind::kWelcome, self, options_.max_message_bytes))) {
    return Break(c, "the connection broke in the handshake");
  }
  --handshakes_;
  Up(c);
}

void VerbsPort::Refuse(Connection* c, std::string_view reason) {
  c->state = State::kRefusing;
  c->reason.assign(reason);
  SetTimer(c, Now() + kRefuseNs);
  if (!SendHandshake(c, EncodeRefusal(listener_->self, reason))) Break(c, std::string(reason));
}

void VerbsPort::Up(Connection* c) {
  c->state = State::kUp;
  c->heard_ns = Now();
  SetTimer(c, kNever);
  counters_.connections.fetch_add(1, std::memory_order_relaxed);
  Completion& done = queue_.emplace_back();
  done.kind = CompletionKind::kConnected;
  done.connection = c->id;
  done.accepted = c->accepted;
  done.hello = &c->hello;
}

void VerbsPort::HandleConnectionEvents() {
  rdma_cm_event* next = nullptr;
  while (rdma_get_cm_event(channel_, &next) == 0) {
    // An id cannot be destroyed before its events are acknowledged, so they are copied.
    const rdma_cm_event event = *next;
    std::string private_data;
    const bool has_data = event.event == RDMA_CM_EVENT_CONNECT_REQUEST || event.event == RDMA_CM_EVENT_CONNECT_RESPONSE ||
                          event.event == RDMA_CM_EVENT_REJECTED;
    if (has_data && event.param.conn.private_data != nullptr) {
      private_data.assign(static_cast<const char*>(event.param.conn.private_data), event.param.conn.private_data_len);
    }
    rdma_ack_cm_event(next);
    HandleConnectionEvent(event, private_data);
  }
}

void VerbsPort::HandleConnectionEvent(const rdma_cm_event& event, std::string_view private_data) {
  if (event.event == RDMA_CM_EVENT_CONNECT_REQUEST) {
    ConnectData data;
    if (!DecodeConnectData(private_data, &data) || !owner_->IsOurs(event.id)) {
      Bump(counters_.protocol_errors, 1);
      rdma_reject(event.id, nullptr, 0);
      rdma_destroy_id(event.id);
      return;
    }
    if (data.xchg_index % listener_->port_count == 0) return AcceptRequest(event.id, data, event.param.conn);
    if (!owner_->HandOver(event.id, data, event.param.conn)) {
      rdma_reject(event.id, nullptr, 0);
      rdma_destroy_id(event.id);
    }
    return;
  }
  if (event.id == listening_) {
    NOVA_LOG(ERROR) << options_.name << ": the listening RDMA id: " << rdma_event_str(event.event);
    return;
  }
  if (const auto it = std::find_if(waiting_.begin(), waiting_.end(), [&](const Arrival& a) { return a.cm == event.id; });
      it != waiting_.end()) {  // its dialler gave up
    waiting_.erase(it);
    rdma_destroy_id(event.id);
    return;
  }
  Connection* c = Find(IdOf(event.id));
  if (c == nullptr || c->cm != event.id) return;
  switch (event.event) {
    case RDMA_CM_EVENT_ADDR_RESOLVED:
      if (!owner_->IsOurs(c->cm)) {
        return Break(c, StrCat("the way there leads over ",
                               c->cm->verbs == nullptr ? "no RDMA device" : ibv_get_device_name(c->cm->verbs->device),
                               ", not over this fabric's ", ibv_get_device_name(owner_->context()->device)));
      }
      c->state = State::kRoute;
      if (rdma_resolve_route(c->cm, kResolveMs) != 0) Break(c, ErrorText("connect", errno));
      return;
    case RDMA_CM_EVENT_ROUTE_RESOLVED: {
      c->state = State::kConnecting;
      if (!MakeQueuePair(c)) return;
      const std::string ours = EncodeConnectData({options_.index, reinterpret_cast<uint64_t>(cell_), cell_region_->rkey});
      rdma_conn_param param{};
      param.private_data = ours.data();
      param.private_data_len = static_cast<uint8_t>(ours.size());
      param.responder_resources = static_cast<uint8_t>(std::min<int>(kMaxReads, owner_->limits().max_qp_rd_atom));
      param.initiator_depth = static_cast<uint8_t>(std::min<int>(kMaxReads, owner_->limits().max_qp_init_rd_atom));
      param.retry_count = kRetries;
      param.rnr_retry_count = kRnrForEver;
      param.srq = 1;
      param.qp_num = c->qp->qp_num;
      if (rdma_connect(c->cm, &param) != 0) Break(c, ErrorText("connect", errno));
      return;
    }
    case RDMA_CM_EVENT_CONNECT_RESPONSE: {
      if (!DecodeConnectData(private_data, &c->peer)) return BreakMalformed(c, "malformed connection data");
      const auto reads = static_cast<uint8_t>(std::min<int>(kMaxReads, owner_->limits().max_qp_rd_atom));
      if (!ReadyToReceiveAndSend(c, reads, std::min(reads, event.param.conn.initiator_depth))) return;
      if (rdma_establish(c->cm) != 0) return Break(c, ErrorText("connect", errno));
      c->state = State::kAwaitWelcome;
      if (!SendHandshake(c, EncodeHello(HandshakeKind::kHello, c->hello, options_.max_message_bytes))) {
        Break(c, "the connection broke in the handshake");
      }
      return;
    }
    case RDMA_CM_EVENT_ADDR_ERROR:
    case RDMA_CM_EVENT_ROUTE_ERROR:
    case RDMA_CM_EVENT_UNREACHABLE:
    case RDMA_CM_EVENT_CONNECT_ERROR:
      return Break(c, StrCat("connect: ", rdma_event_str(event.event), ": ", strerror(std::abs(event.status))));
    case RDMA_CM_EVENT_REJECTED:
      if (private_data.starts_with("busy")) return Break(c, "connect: the peer is busy");
      return Break(c, StrCat("connect: refused: nobody of this protocol listens there (", event.status, ")"));
    case RDMA_CM_EVENT_DISCONNECTED:
      return Disconnected(c);
    case RDMA_CM_EVENT_DEVICE_REMOVAL:
      return Break(c, "the RDMA device was removed");
    default:
      return;  // ESTABLISHED: the hello says so; TIMEWAIT_EXIT, ADDR_CHANGE: nothing to do
  }
}

// The peer is gone, and what it sent before was taken first. A queue pair that went to its error state by itself did so
// because the peer violated a key, bounds or rights: the device tells only the peer.
void VerbsPort::Disconnected(Connection* c) {
  const ConnectionId id = c->id;
  DrainCompletions();
  c = Find(id);
  if (c == nullptr) return;
  ibv_qp_attr attributes{};
  ibv_qp_init_attr init{};
  if (c->state == State::kUp && ibv_query_qp(c->qp, &attributes, IBV_QP_STATE, &init) == 0 &&
      attributes.qp_state == IBV_QPS_ERR && !owner_->WasBrokenByUs(c->qp)) {
    Bump(counters_.access_errors, 1);
    return Break(c, "a request of the peer was refused: key, bounds or rights");
  }
  Break(c, "closed by the peer");
}

// --- Requests

bool VerbsPort::PiecesAllowed(const WorkRequest& request) const {
  for (size_t i = 0; i < request.piece_count; ++i) {
    const LocalBuffer& piece = request.pieces[i];
    if (piece.length == 0) continue;
    const auto it = regions_.find(piece.lkey);
    if (it == regions_.end()) return false;
    const auto* begin = static_cast<const std::byte*>(piece.address);
    const MemoryRegion& region = it->second;
    if (begin < region.address || piece.length > region.size ||
        static_cast<uint64_t>(begin - region.address) > region.size - piece.length) {
      return false;
    }
  }
  return true;
}

void VerbsPort::Append(Connection* c, const WorkRequest& request) {
  NOVA_CHECK(request.piece_count <= kMaxPieces);
  uint64_t length = 0;
  for (size_t i = 0; i < request.piece_count; ++i) length += request.pieces[i].length;
  Pending& p = c->pending.push_back({});
  p.request = request;
  p.length = static_cast<uint32_t>(length);
  p.failed = length > (uint64_t{1} << 31) || !PiecesAllowed(request) ||
             (request.opcode == Opcode::kSend && length > std::min(options_.max_message_bytes, c->peer_max_message));
}

Status VerbsPort::Post(ConnectionId connection, std::span<const WorkRequest> requests) {
  Connection* c = Find(connection);
  if (c == nullptr || c->state != State::kUp) return NotConnected();
  if (c->pending.size() + requests.size() > options_.max_pending_requests) return TooManyPending();
  owner_->RefreshRegions(&regions_version_, &regions_);
  for (const WorkRequest& request : requests) Append(c, request);
  counters_.pending_requests.fetch_add(static_cast<int64_t>(requests.size()), std::memory_order_relaxed);
  DropFailedHeads(c);
  Push(c);
  return OkStatus();
}

// The next requests as one chain; how many, 0 when there is none or no room. Its last asks for a completion.
size_t VerbsPort::BuildChain(Connection* c) {
  size_t n = 0, pieces = 0;
  while (n < kChain && c->next_push < c->pending.tail() && c->in_queue_pair < send_queue_ &&
         in_queue_pairs_ < completion_room_) {
    const uint64_t index = c->next_push++;
    const Pending& p = c->pending[index];
    if (p.failed) continue;
    const WorkRequest& r = p.request;
    ibv_send_wr& wr = chain_[n];
    wr = {};
    wr.wr_id = uint64_t{c->tag} << 32 | static_cast<uint32_t>(index);
    wr.sg_list = &chain_pieces_[pieces];
    for (size_t i = 0; i < r.piece_count; ++i) {
      if (r.pieces[i].length == 0) continue;  // some devices read a length of 0 as 2 GiB
      chain_pieces_[pieces++] = {reinterpret_cast<uint64_t>(r.pieces[i].address), r.pieces[i].length, r.pieces[i].lkey};
      ++wr.num_sge;
    }
    switch (r.opcode) {
      case Opcode::kSend: wr.opcode = IBV_WR_SEND; break;
      case Opcode::kWrite: wr.opcode = IBV_WR_RDMA_WRITE; break;
      case Opcode::kWriteWithImm: wr.opcode = IBV_WR_RDMA_WRITE_WITH_IMM; break;
      case Opcode::kRead: wr.opcode = IBV_WR_RDMA_READ; break;
    }
    wr.imm_data = htonl(r.immediate);
    wr.wr.rdma.remote_addr = r.remote_address;
    wr.wr.rdma.rkey = r.rkey;
    if (r.opcode != Opcode::kRead && p.length > 0 && p.length <= max_inline_) wr.send_flags |= IBV_SEND_INLINE;
    c->unsignalled += 1;
    c->unsignalled_bytes += std::min(p.length, kSignalBytes);
    if (c->unsignalled >= kSignalEvery || c->unsignalled_bytes >= kSignalBytes) {
      wr.send_flags |= IBV_SEND_SIGNALED;
      c->unsignalled = c->unsignalled_bytes = 0;
    }
    if (c->in_queue_pair == 0) c->progress_ns = Now();
    ++c->in_queue_pair;
    ++in_queue_pairs_;
    if (n > 0) chain_[n - 1].next = &wr;
    ++n;
  }
  if (n > 0) {
    chain_[n - 1].send_flags |= IBV_SEND_SIGNALED;
    c->unsignalled = c->unsignalled_bytes = 0;
  }
  return n;
}

// Hands requests to the queue pair, as far as there is room; completions make more.
void VerbsPort::Push(Connection* c) {
  while (BuildChain(c) > 0) {
    ibv_send_wr* bad = nullptr;
    if (const int error = ibv_post_send(c->qp, &chain_[0], &bad); error != 0) return Break(c, ErrorText("ibv_post_send", error));
  }
  if (c->next_push < c->pending.tail() && in_queue_pairs_ >= completion_room_ && !c->starved) {
    c->starved = true;
    starved_.push_back(c->id);
  }
}

void VerbsPort::CompleteHead(Connection* c, CompletionStatus status) {
  const Pending& p = c->pending.front();
  if (!p.failed && c->pending.head() < c->next_push && c->qp != nullptr) {
    --c->in_queue_pair;
    --in_queue_pairs_;
  }
  if (!p.internal) {
    Completion& done = queue_.emplace_back();
    done.kind = CompletionKind::kRequest;
    done.status = status;
    done.connection = c->id;
    done.id = p.request.id;
    if (status == CompletionStatus::kOk) {
      switch (p.request.opcode) {
        case Opcode::kSend: Bump(counters_.bytes_sent, p.length); break;
        case Opcode::kRead: Bump(counters_.bytes_read, p.length); break;
        case Opcode::kWrite:
        case Opcode::kWriteWithImm: Bump(counters_.bytes_written, p.length); break;
      }
    }
    counters_.pending_requests.fetch_sub(1, std::memory_order_relaxed);
  }
  c->pending.pop_front();
}

void VerbsPort::DropFailedHeads(Connection* c) {
  while (!c->pending.empty() && c->pending.front().failed) CompleteHead(c, CompletionStatus::kLocalError);
  c->next_push = std::max(c->next_push, c->pending.head());
}

// --- Completions

// Takes what the device has, to be handled in order. True when there was something.
bool VerbsPort::FetchCompletions() {
  size_t total = 0;
  while (total < kMaxFetched) {
    if (fetched_tail_ + kFetch > fetched_.size()) fetched_.resize(fetched_.size() + kMaxFetched);
    const int n = ibv_poll_cq(cq_, kFetch, &fetched_[fetched_tail_]);
    if (n < 0) NOVA_LOG(ERROR) << options_.name << ": ibv_poll_cq failed";
    if (n <= 0) break;
    fetched_tail_ += static_cast<size_t>(n);
    total += static_cast<size_t>(n);
    if (n < static_cast<int>(kFetch)) break;
  }
  return total > 0;
}

void VerbsPort::HandleCompletions() {
  while (fetched_head_ < fetched_tail_) {
    const ibv_wc wc = fetched_[fetched_head_++];  // handling one may fetch more
    HandleCompletion(wc);
  }
  fetched_head_ = fetched_tail_ = 0;
}

void VerbsPort::DrainCompletions() {
  do {
    HandleCompletions();
  } while (FetchCompletions());
}

void VerbsPort::HandleCompletion(const ibv_wc& wc) {
  if ((wc.wr_id & kReceiveTag) != 0) return HandleReceive(wc);
  const auto it = by_queue_pair_.find(wc.qp_num);
  if (it == by_queue_pair_.end()) return;
  Connection* c = it->second;
  if ((wc.wr_id & kHandshakeTag) != 0) {
    if ((wc.wr_id & kTagMask) != c->tag) return;
    free_handshake_blocks_.push_back(std::exchange(c->block, kNoBlock));
    if (c->state == State::kRefusing) return Break(c, std::string(c->reason));
    if (wc.status != IBV_WC_SUCCESS) Break(c, StrCat("the connection broke in the handshake: ", ibv_wc_status_str(wc.status)));
    return;
  }
  if (wc.wr_id >> 32 != c->tag || c->pending.empty()) return;
  const uint64_t head = c->pending.head();
  const uint64_t index = head + (static_cast<uint32_t>(wc.wr_id) - static_cast<uint32_t>(head));
  if (index >= c->next_push) return;
  while (c->pending.head() < index) {
    CompleteHead(c, c->pending.front().failed ? CompletionStatus::kLocalError : CompletionStatus::kOk);
  }
  if (wc.status != IBV_WC_SUCCESS) return RequestFailed(c, wc.status);
  CompleteHead(c, CompletionStatus::kOk);
  DropFailedHeads(c);
  c->heard_ns = c->progress_ns = round_ns_;
  if (c->next_push < c->pending.tail()) Push(c);
}

void VerbsPort::RequestFailed(Connection* c, ibv_wc_status status) {
  const CompletionStatus meaning = StatusOf(status);
  const bool by_us = owner_->WasBrokenByUs(c->qp);
  CompleteHead(c, meaning);
  if (meaning == CompletionStatus::kRemoteAccess) {
    return Break(c, "a request was refused by the peer: key, bounds or rights");
  }
  if (meaning == CompletionStatus::kLocalError) return Break(c, "memory of a posted request was revoked on this side");
  if (status == IBV_WC_WR_FLUSH_ERR && !by_us) {
    // Its error state was reached from the other direction: something the peer asked of us.
    Bump(counters_.access_errors, 1);
    return Break(c, "a request of the peer was refused: key, bounds or rights");
  }
  Break(c, StrCat("the connection broke: ", ibv_wc_status_str(status)));
}

void VerbsPort::HandleReceive(const ibv_wc& wc) {
  const auto buffer = static_cast<uint32_t>(wc.wr_id);
  const auto it = by_queue_pair_.find(wc.qp_num);
  Connection* c = it == by_queue_pair_.end() ? nullptr : it->second;
  if (c == nullptr || wc.status != IBV_WC_SUCCESS) {
    repost_.push_back(buffer);
    if (c == nullptr || wc.status == IBV_WC_WR_FLUSH_ERR) return;
    if (StatusOf(wc.status) == CompletionStatus::kRemoteAccess || wc.status == IBV_WC_LOC_ACCESS_ERR) {
      // A WRITE with immediate had taken the buffer before its key was looked at.
      Bump(counters_.access_errors, 1);
      return Break(c, "a request of the peer was refused: key, bounds or rights");
    }
    return BreakMalformed(c, StrCat("malformed message: ", ibv_wc_status_str(wc.status)));
  }
  if (c->state == State::kUp) {
    c->heard_ns = round_ns_;
    Completion& done = queue_.emplace_back();
    done.connection = c->id;
    if (wc.opcode == IBV_WC_RECV_RDMA_WITH_IMM) {
      done.kind = CompletionKind::kImmediate;
      done.immediate = ntohl(wc.imm_data);
      repost_.push_back(buffer);
    } else {
      done.kind = CompletionKind::kReceive;
      done.data = {BufferOf(buffer), wc.byte_len};
      held_.push_back(buffer);
    }
    return;
  }
  repost_.push_back(buffer);  // posted at the end of the round, when it was read
  if (c->state != State::kAwaitHello && c->state != State::kAwaitWelcome) return;
  if (wc.opcode != IBV_WC_RECV) return BreakMalformed(c, "malformed handshake: not a message");
  HandleHandshake(c, {reinterpret_cast<const char*>(BufferOf(buffer)), wc.byte_len});
}

void VerbsPort::PostReceives(std::vector<uint32_t>* buffers) {
  if (buffers->empty()) return;
  const size_t n = buffers->size();
  for (size_t i = 0; i < n; ++i) {
    const uint32_t buffer = (*buffers)[i];
    receive_pieces_[i] = {reinterpret_cast<uint64_t>(BufferOf(buffer)), options_.max_message_bytes, memory_region_->lkey};
    receive_chain_[i] = {};
    receive_chain_[i].wr_id = kReceiveTag | buffer;
    receive_chain_[i].sg_list = &receive_pieces_[i];
    receive_chain_[i].num_sge = 1;
    receive_chain_[i].next = i + 1 < n ? &receive_chain_[i + 1] : nullptr;
  }
  ibv_recv_wr* bad = nullptr;
  if (const int error = ibv_post_srq_recv(srq_, &receive_chain_[0], &bad); error != 0) {
    NOVA_LOG(ERROR) << options_.name << ": " << ErrorText("ibv_post_srq_recv", error);
  }
  buffers->clear();
}

// --- A round

void VerbsPort::Recycle() {
  queue_.clear();
  queue_head_ = 0;
  graveyard_.clear();
  PostReceives(&held_);
}

void VerbsPort::TakeOver(rdma_cm_id* cm, const ConnectData& data, const rdma_conn_param& param) {
  {
    MutexLock lock(&arrivals_mu_);
    Arrival& a = arrivals_.emplace_back();
    a.kind = Arrival::kRequest;
    a.cm = cm;
    a.data = data;
    a.param = param;
    have_arrivals_.store(true, std::memory_order_release);
  }
  Wake();
}

void VerbsPort::Resolved(ConnectionId connection, const StatusOr<in_addr>& host) {
  {
    MutexLock lock(&arrivals_mu_);
    Arrival& a = arrivals_.emplace_back();
    a.connection = connection;
    a.host = host;
    have_arrivals_.store(true, std::memory_order_release);
  }
  Wake();
}

void VerbsPort::Failed(uint32_t qp_number, bool refused_peer, std::string reason) {
  {
    MutexLock lock(&arrivals_mu_);
    Arrival& a = arrivals_.emplace_back();
    a.kind = Arrival::kFailed;
    a.qp_number = qp_number;
    a.refused_peer = refused_peer;
    a.reason = std::move(reason);
    have_arrivals_.store(true, std::memory_order_release);
  }
  Wake();
}

void VerbsPort::TakeArrivals() {
  std::vector<Arrival> arrivals;
  {
    MutexLock lock(&arrivals_mu_);
    arrivals.swap(arrivals_);
    have_arrivals_.store(false, std::memory_order_release);
  }
  for (Arrival& a : arrivals) {
    if (a.kind == Arrival::kRequest) {
      AcceptRequest(a.cm, a.data, a.param);
    } else if (a.kind == Arrival::kFailed) {
      DrainCompletions();  // they know more
      const auto it = by_queue_pair_.find(a.qp_number);
      if (it == by_queue_pair_.end()) continue;
      if (a.refused_peer && it->second->state == State::kUp) Bump(counters_.access_errors, 1);
      Break(it->second, a.reason);
    } else if (Connection* c = Find(a.connection); c != nullptr && c->state == State::kResolving) {
      if (a.host.ok()) {
        StartConnect(c, *a.host);
      } else {
        Break(c, std::string(a.host.status().message()));
      }
    }
  }
}

// Connections whose oldest request makes no progress (H28), and signs of life.
void VerbsPort::Scan(Nanos now_ns) {
  const VerbsFabricOptions& o = owner_->options();
  for (size_t i = 0; i < slots_.size(); ++i) {
    Connection* c = slots_[i].get();
    if (c == nullptr || c->state != State::kUp) continue;
    if (c->in_queue_pair > 0 && now_ns - c->progress_ns >= o.request_timeout_ns) {
      Break(c, "the peer completed nothing in time");
    } else if (c->pending.empty() && now_ns - c->heard_ns >= o.keepalive_ns) {
      Pending& p = c->pending.push_back({});
      p.internal = true;
      p.request.opcode = Opcode::kRead;
      p.request.remote_address = c->peer.cell_address;
      p.request.rkey = c->peer.cell_rkey;
      Push(c);
    }
  }
}

void VerbsPort::RunTimers(Nanos now_ns) {
  while (!timers_.empty() && timers_.begin()->first <= now_ns) {
    Connection* c = Find(timers_.begin()->second);
    switch (c->state) {
      case State::kAwaitHello: Break(c, "no hello in time"); break;
      case State::kRefusing: Break(c, std::string(c->reason)); break;
      default: Break(c, "the peer did not answer in time");
    }
  }
}

// What need not be looked at in every round.
void VerbsPort::SlowRound(Nanos now_ns) {
  slow_ns_ = now_ns;
  std::array<epoll_event, 8> events;
  const int n = epoll_wait(epoll_fd_, events.data(), static_cast<int>(events.size()), 0);
  for (int i = 0; i < n; ++i) {
    switch (events[static_cast<size_t>(i)].data.u64) {
      case kWakeEvent: {
        uint64_t count;
        [[maybe_unused]] const ssize_t got = read(wake_fd_, &count, sizeof(count));
        break;
      }
      case kChannelEvent: HandleConnectionEvents(); break;
      case kAsyncEvent: owner_->DrainAsyncEvents(); break;
      case kCompletionEvent: {
        ibv_cq* cq = nullptr;
        void* context = nullptr;
        while (ibv_get_cq_event(completion_channel_, &cq, &context) == 0) ++events_to_acknowledge_;
        armed_ = false;
        if (events_to_acknowledge_ >= 128) ibv_ack_cq_events(cq_, std::exchange(events_to_acknowledge_, 0));
        break;
      }
    }
  }
  if (now_ns >= scan_ns_) {
    Scan(now_ns);
    scan_ns_ = now_ns + kScanNs;
  }
  if (!timers_.empty()) RunTimers(now_ns);
}

void VerbsPort::Round(bool before_sleep) {
  round_ns_ = Now();
  const bool something = FetchCompletions();
  HandleCompletions();
  if (HaveArrivals()) TakeArrivals();
  if (before_sleep || round_ns_ - slow_ns_ >= (something ? kSlowNs : kIdleSlowNs)) SlowRound(round_ns_);
  while (!waiting_.empty() && handshakes_ < kMaxHandshakes) {
    const Arrival a = std::move(waiting_.front());
    waiting_.erase(waiting_.begin());
    AcceptRequest(a.cm, a.data, a.param);
  }
  if (!starved_.empty() && in_queue_pairs_ < completion_room_) {
    std::vector<ConnectionId> starved;
    starved.swap(starved_);
    for (const ConnectionId id : starved) {
      Connection* c = Find(id);
      if (c == nullptr || c->state != State::kUp) continue;
      c->starved = false;
      Push(c);
    }
  }
  PostReceives(&repost_);
}

size_t VerbsPort::Poll(std::span<Completion> out) {
  if (queue_head_ == queue_.size()) {
    Recycle();
    Round(/*before_sleep=*/false);
  }
  const size_t n = std::min(out.size(), queue_.size() - queue_head_);
  std::copy_n(queue_.begin() + static_cast<ptrdiff_t>(queue_head_), n, out.begin());
  queue_head_ += n;
  return n;
}

void VerbsPort::Wait(Nanos deadline_ns) {
  while (queue_head_ == queue_.size()) {
    // Armed first, then looked at once more: what comes after that look rings.
    if (ibv_req_notify_cq(cq_, 0) != 0) return;
    armed_ = true;
    Round(/*before_sleep=*/true);
    if (queue_head_ < queue_.size()) break;
    if (!armed_) continue;  // it rang between the look and the end of the round
    Nanos until = deadline_ns;
    if (!timers_.empty()) until = std::min(until, timers_.begin()->first);
    const int64_t connections = counters_.connections.load(std::memory_order_relaxed);
    if (in_queue_pairs_ > 0) {
      until = std::min(until, Now() + kScanNs);
    } else if (connections > 0) {
      until = std::min(until, Now() + owner_->options().keepalive_ns / 2);
    }
    int timeout_ms = -1;
    if (until != kNever) {
      const Nanos left = until - Now();
      if (left <= 0 && until == deadline_ns) break;
      timeout_ms = static_cast<int>(std::clamp<Nanos>((left + kMillisecond - 1) / kMillisecond, 0, 3'600'000));
    }
    WakeState expected = WakeState::kRunning;
    if (!wake_.compare_exchange_strong(expected, WakeState::kSleeping)) break;  // woken before
    epoll_event event;
    epoll_wait(epoll_fd_, &event, 1, timeout_ms);
    expected = WakeState::kSleeping;
    if (!wake_.compare_exchange_strong(expected, WakeState::kRunning)) break;  // woken now
    if (Now() >= deadline_ns) break;
  }
  wake_.store(WakeState::kRunning);
}

void VerbsPort::Wake() {
  if (wake_.exchange(WakeState::kWoken) != WakeState::kSleeping) return;
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t n = write(wake_fd_, &one, sizeof(one));
}

}  // namespace nova
