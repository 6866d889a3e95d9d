// Connections of a VerbsPort until they are up: librdmacm's events, the queue pair, the handshake.
#include <algorithm>
#include <cstring>

#include "common/base/log.h"
#include "common/rdma/verbs/verbs_port.h"

namespace nova {
namespace {

constexpr size_t kMaxWaiting = 1024;
constexpr uint32_t kMaxInline = 256;
constexpr uint8_t kMaxReads = 16;     // READs under way on a queue pair
constexpr uint8_t kMinRnrTimer = 12;  // 0.64 ms: how long a sender waits when our receive queue was empty
constexpr uint8_t kRnrForEver = 7;
constexpr uint8_t kRetries = 7;
constexpr int kResolveMs = 2000;
constexpr Nanos kRefuseNs = kSecond;

ConnectionId IdOf(const rdma_cm_id* cm) { return ConnectionId(reinterpret_cast<uint64_t>(cm->context)); }
void* ContextOf(ConnectionId id) { return reinterpret_cast<void*>(id.value()); }

// `ours` outlives it.
rdma_conn_param ConnectParam(const VerbsConnection& c, const std::string& ours, int responder_resources,
                             int initiator_depth) {
  rdma_conn_param p{};
  p.private_data = ours.data();
  p.private_data_len = static_cast<uint8_t>(ours.size());
  p.responder_resources = static_cast<uint8_t>(responder_resources);
  p.initiator_depth = static_cast<uint8_t>(initiator_depth);
  p.rnr_retry_count = kRnrForEver;
  p.srq = 1;
  p.qp_num = c.qp->qp_num;
  return p;
}

}  // namespace

// --- What other threads bring

bool VerbsPort::TakeOver(const ConnectRequest& request) {
  Arrival a;
  a.kind = Arrival::kRequest;
  a.request = request;
  arrivals_.Put(std::move(a));
  Wake();
  return true;
}

void VerbsPort::Resolved(ConnectionId connection, const StatusOr<sockaddr_in>& at) {
  Arrival a;
  a.kind = Arrival::kResolved;
  a.connection = connection;
  a.at = at;
  arrivals_.Put(std::move(a));
  Wake();
}

void VerbsPort::Failed(uint32_t qp_number, bool refused_peer, std::string reason) {
  Arrival a;
  a.kind = Arrival::kFailed;
  a.qp_number = qp_number;
  a.refused_peer = refused_peer;
  a.reason = std::move(reason);
  arrivals_.Put(std::move(a));
  Wake();
}

void VerbsPort::TakeArrivals() {
  for (const Arrival& a : arrivals_.Take()) {
    if (a.kind == Arrival::kRequest) {
      AcceptRequest(a.request);
    } else if (a.kind == Arrival::kFailed) {
      DrainCompletions();  // they know more
      const auto it = by_queue_pair_.find(a.qp_number);
      if (it == by_queue_pair_.end()) continue;
      if (a.refused_peer && it->second->state == State::kUp) counters_.AccessError();
      Break(it->second, a.reason);
    } else if (VerbsConnection* c = connections_.Find(a.connection);
               c != nullptr && c->state == State::kResolving) {
      StartConnect(c, a.at);
    }
  }
}

// --- Connecting

ConnectionId VerbsPort::Connect(const std::string& address, const Hello& hello, Nanos deadline_ns) {
  VerbsConnection* c = AddConnection(State::kResolving);
  c->hello = hello;
  c->hello.xchg_index = options_.index;
  connections_.SetTimer(c, deadline_ns);
  const ConnectionId id = c->id;
  StatusOr<sockaddr_in> at = sockaddr_in{};
  if (owner_->ports()->Resolve(address, this, id, &at)) StartConnect(c, at);
  return id;
}

VerbsConnection* VerbsPort::AddConnection(State state) {
  VerbsConnection* c = connections_.Add();
  c->state = state;
  c->tag = static_cast<uint32_t>(connections_.SerialOf(c->id)) & kTagMask;
  return c;
}

void VerbsPort::StartConnect(VerbsConnection* c, const StatusOr<sockaddr_in>& at) {
  if (!at.ok()) return Break(c, std::string(at.status().message()));
  if (rdma_create_id(channel_, &c->cm, ContextOf(c->id), RDMA_PS_TCP) != 0) {
    c->cm = nullptr;
    return Break(c, StrCat("rdma_create_id: ", strerror(errno)));
  }
  sockaddr_in to = *at, from{};
  sockaddr* source = owner_->source(&from) ? reinterpret_cast<sockaddr*>(&from) : nullptr;
  c->state = State::kAddress;
  if (rdma_resolve_addr(c->cm, source, reinterpret_cast<sockaddr*>(&to), kResolveMs) != 0) {
    Break(c, StrCat("connect: ", strerror(errno)));
  }
}

// A queue pair of ours, in INIT; rdma_cm only carries its number. False: the connection is broken.
bool VerbsPort::MakeQueuePair(VerbsConnection* c) {
  DrainCompletions();  // none of an earlier queue pair of the same number is left
  ibv_qp_init_attr init{};
  init.send_cq = init.recv_cq = completions_.queue();
  init.srq = buffers_.receive_queue();
  init.qp_type = IBV_QPT_RC;
  init.cap.max_send_wr = room_.of_queue_pair + 1;  // and the handshake
  init.cap.max_send_sge = kMaxPieces;
  init.cap.max_inline_data = kMaxInline;
  c->qp = owner_->CreateQueuePair(&init, this);
  if (c->qp == nullptr) {
    init.cap.max_inline_data = 0;
    c->qp = owner_->CreateQueuePair(&init, this);
  }
  if (c->qp == nullptr) {
    Break(c, StrCat("ibv_create_qp: ", strerror(errno)));
    return false;
  }
  c->max_inline = std::min(init.cap.max_inline_data, kMaxInline);
  by_queue_pair_[c->qp->qp_num] = c;
  ibv_qp_attr attributes{};
  int mask = 0;
  attributes.qp_state = IBV_QPS_INIT;
  if (rdma_init_qp_attr(c->cm, &attributes, &mask) == 0) {
    attributes.qp_access_flags = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;
    if (ibv_modify_qp(c->qp, &attributes, mask | IBV_QP_ACCESS_FLAGS) == 0) return true;
  }
  Break(c, StrCat("the queue pair (INIT): ", strerror(errno)));
  return false;
}

bool VerbsPort::ReadyToReceiveAndSend(VerbsConnection* c, uint8_t responder_resources,
                                      uint8_t initiator_depth) {
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
      Break(c, StrCat(state == IBV_QPS_RTR ? "the queue pair (RTR): " : "the queue pair (RTS): ",
                      strerror(errno)));
      return false;
    }
  }
  return true;
}

std::string VerbsPort::OurConnectData() const {
  return EncodeConnectData({options_.index, buffers_.cell_address(), buffers_.cell_rkey()});
}

// Takes its id.
void VerbsPort::AcceptRequest(const ConnectRequest& r) {
  if (handshakes_ >= kMaxHandshakes) {
    if (waiting_.size() < kMaxWaiting) return waiting_.push_back(r);
    rdma_reject(r.cm, "busy", 4);
    rdma_destroy_id(r.cm);
    return;
  }
  VerbsConnection* c = AddConnection(State::kAwaitHello);
  ++handshakes_;
  c->accepted = true;
  c->cm = r.cm;
  c->peer = r.data;
  c->cm->context = ContextOf(c->id);
  connections_.SetTimer(c, Now() + owner_->options().handshake_timeout_ns);
  const auto reads = static_cast<uint8_t>(std::min<int>(kMaxReads, owner_->limits().max_qp_rd_atom));
  const uint8_t responder = std::min(reads, r.param.responder_resources),
                initiator = std::min(reads, r.param.initiator_depth);
  if (!MakeQueuePair(c) || !ReadyToReceiveAndSend(c, responder, initiator)) return;
  const std::string ours = OurConnectData();
  rdma_conn_param answer = ConnectParam(*c, ours, responder, initiator);
  if (rdma_accept(c->cm, &answer) != 0) Break(c, StrCat("rdma_accept: ", strerror(errno)));
}

bool VerbsPort::SendHandshake(VerbsConnection* c, const std::string& bytes) {
  ibv_sge piece{};
  if (!buffers_.TakeBlock(bytes, &c->block, &piece)) return false;
  ibv_send_wr request{}, *bad = nullptr;
  request.wr_id = kHandshakeTag | c->tag;
  request.sg_list = &piece;
  request.num_sge = 1;
  request.opcode = IBV_WR_SEND;
  request.send_flags = IBV_SEND_SIGNALED;
  return ibv_post_send(c->qp, &request, &bad) == 0;
}

void VerbsPort::HandleHandshake(VerbsConnection* c, std::string_view bytes) {
  Handshake h;
  if (const char* malformed = DecodeHandshake(bytes, &h); malformed != nullptr)
    return BreakMalformed(c, malformed);
  if (c->state == State::kAwaitHello) {
    if (h.kind != HandshakeKind::kHello) return BreakMalformed(c, "malformed handshake: not a hello");
    return FinishAccept(c, h);
  }
  const Status s = JudgeAnswer(c->hello, h);
  if (absl::IsInvalidArgument(s)) return BreakMalformed(c, std::string(s.message()));
  if (!s.ok()) return Break(c, std::string(s.message()));
  c->hello = h.hello;
  c->peer_max_message = h.max_message_bytes;
  Up(c);
}

void VerbsPort::FinishAccept(VerbsConnection* c, const Handshake& h) {
  c->hello = h.hello;
  c->peer_max_message = h.max_message_bytes;
  ConnectionId replaced;
  const std::string refusal = admission_.Judge(*listener_, h.hello, c->id, &replaced);
  if (!refusal.empty()) return Refuse(c, refusal);
  if (VerbsConnection* old = connections_.Find(replaced); old != nullptr) Break(old, kReplaced);
  if (!SendHandshake(c, EncodeHello(HandshakeKind::kWelcome, listener_->self, options_.max_message_bytes))) {
    return Break(c, "the connection broke in the handshake");
  }
  --handshakes_;
  Up(c);
}

void VerbsPort::Refuse(VerbsConnection* c, std::string_view reason) {
  c->state = State::kRefusing;
  c->reason.assign(reason);
  connections_.SetTimer(c, Now() + kRefuseNs);
  if (!SendHandshake(c, EncodeRefusal(listener_->self, reason))) Break(c, std::string(reason));
}

void VerbsPort::Up(VerbsConnection* c) {
  c->state = State::kUp;
  c->heard_ns = Now();
  connections_.SetTimer(c, kNever);
  counters_.Connected();
  queue_.PushConnected(*c);
}

void VerbsPort::HandleConnectionEvents() {
  rdma_cm_event* next = nullptr;
  while (rdma_get_cm_event(channel_, &next) == 0) {
    // An id cannot be destroyed before its events are acknowledged, so they are copied.
    const rdma_cm_event event = *next;
    std::string private_data;
    const bool has_data = event.event == RDMA_CM_EVENT_CONNECT_REQUEST ||
                          event.event == RDMA_CM_EVENT_CONNECT_RESPONSE ||
                          event.event == RDMA_CM_EVENT_REJECTED;
    if (has_data && event.param.conn.private_data != nullptr) {
      private_data.assign(static_cast<const char*>(event.param.conn.private_data),
                          event.param.conn.private_data_len);
    }
    // Nor may it be looked at after that: whoever destroys it waits for just this.
    const ConnectionId of = IdOf(event.id);
    rdma_ack_cm_event(next);
    HandleConnectionEvent(event, of, private_data);
  }
}

void VerbsPort::HandleConnectionEvent(const rdma_cm_event& event, ConnectionId of,
                                      std::string_view private_data) {
  if (event.event == RDMA_CM_EVENT_CONNECT_REQUEST) {
    ConnectData data;
    if (!DecodeConnectData(private_data, &data) || !owner_->IsOurs(event.id)) {
      counters_.ProtocolError();
      rdma_reject(event.id, nullptr, 0);
      rdma_destroy_id(event.id);
      return;
    }
    const ConnectRequest request{event.id, data, event.param.conn};
    if (data.xchg_index % listener_->port_count == 0) return AcceptRequest(request);
    const bool taken = owner_->ports()->HandOver(data.xchg_index, [&](VerbsPort* to) {
      return rdma_migrate_id(event.id, to->channel_) == 0 && to->TakeOver(request);
    });
    if (!taken) {
      rdma_reject(event.id, nullptr, 0);
      rdma_destroy_id(event.id);
    }
    return;
  }
  if (event.id == listening_) {
    NOVA_LOG(ERROR) << options_.name << ": the listening RDMA id: " << rdma_event_str(event.event);
    return;
  }
  if (const auto it = std::find_if(waiting_.begin(), waiting_.end(),
                                   [&](const ConnectRequest& r) { return r.cm == event.id; });
      it != waiting_.end()) {  // its dialler gave up
    waiting_.erase(it);
    rdma_destroy_id(event.id);
    return;
  }
  VerbsConnection* c = connections_.Find(of);
  if (c == nullptr || c->cm != event.id) return;
  switch (event.event) {
    case RDMA_CM_EVENT_ADDR_RESOLVED:
      if (!owner_->IsOurs(c->cm)) {
        return Break(
            c, StrCat("the way there leads over ",
                      c->cm->verbs == nullptr ? "no RDMA device" : ibv_get_device_name(c->cm->verbs->device),
                      ", not over this fabric's ", ibv_get_device_name(owner_->context()->device)));
      }
      c->state = State::kRoute;
      if (rdma_resolve_route(c->cm, kResolveMs) != 0) Break(c, StrCat("connect: ", strerror(errno)));
      return;
    case RDMA_CM_EVENT_ROUTE_RESOLVED: {
      c->state = State::kConnecting;
      if (!MakeQueuePair(c)) return;
      const std::string ours = OurConnectData();
      const ibv_device_attr& limits = owner_->limits();
      rdma_conn_param param = ConnectParam(*c, ours, std::min<int>(kMaxReads, limits.max_qp_rd_atom),
                                           std::min<int>(kMaxReads, limits.max_qp_init_rd_atom));
      param.retry_count = kRetries;
      if (rdma_connect(c->cm, &param) != 0) Break(c, StrCat("connect: ", strerror(errno)));
      return;
    }
    case RDMA_CM_EVENT_CONNECT_RESPONSE: {
      if (!DecodeConnectData(private_data, &c->peer)) return BreakMalformed(c, "malformed connection data");
      const auto reads = static_cast<uint8_t>(std::min<int>(kMaxReads, owner_->limits().max_qp_rd_atom));
      if (!ReadyToReceiveAndSend(c, reads, std::min(reads, event.param.conn.initiator_depth))) return;
      if (rdma_establish(c->cm) != 0) return Break(c, StrCat("connect: ", strerror(errno)));
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
      return Break(c,
                   StrCat("connect: ", rdma_event_str(event.event), ": ", strerror(std::abs(event.status))));
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

// The peer is gone, and what it sent before was taken first. A queue pair that went to its error state by
// itself did so because the peer violated a key, bounds or rights: the device tells only the peer.
void VerbsPort::Disconnected(VerbsConnection* c) {
  const ConnectionId id = c->id;
  DrainCompletions();
  c = connections_.Find(id);
  if (c == nullptr) return;
  ibv_qp_attr attributes{};
  ibv_qp_init_attr init{};
  if (c->state == State::kUp && ibv_query_qp(c->qp, &attributes, IBV_QP_STATE, &init) == 0 &&
      attributes.qp_state == IBV_QPS_ERR && !owner_->WasBrokenByUs(c->qp)) {
    counters_.AccessError();
    return Break(c, "a request of the peer was refused: key, bounds or rights");
  }
  Break(c, "closed by the peer");
}

}  // namespace nova
