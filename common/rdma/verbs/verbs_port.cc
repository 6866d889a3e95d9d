#include "common/rdma/verbs/verbs_port.h"

#include <fcntl.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstring>

#include "common/base/log.h"

namespace nova {
namespace {

constexpr size_t kCellBytes = 64;
constexpr Nanos kSlowNs = 50 * kMicrosecond;      // between looks at what is not the completion queue
constexpr Nanos kIdleSlowNs = 10 * kMicrosecond;  // where that is empty
constexpr Nanos kScanNs = 200 * kMillisecond;

enum Event : uint64_t { kWakeEvent, kChannelEvent, kCompletionEvent, kAsyncEvent };

Status ErrorStatus(const char* what) {
  return absl::ResourceExhaustedError(StrCat(what, ": ", strerror(errno)));
}

}  // namespace

VerbsPort::VerbsPort(VerbsPortOwner* owner, const PortOptions& options) : owner_(owner), options_(options) {}

VerbsPort::~VerbsPort() {
  connections_.ForEach([this](VerbsConnection* c) { Break(c, "the port was closed"); });
  owner_->ports()->Remove(this);
  owner_->FinishDiscarding();  // ids of our channel
  for (const Arrival& a : arrivals_.Take()) {
    if (a.kind == Arrival::kRequest) rdma_destroy_id(a.request.cm);
  }
  for (const ConnectRequest& r : waiting_) rdma_destroy_id(r.cm);
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
  if (epoll_fd_ >= 0) close(epoll_fd_);
}

Status VerbsPort::Open() {
  const VerbsFabricOptions& o = owner_->options();
  const ibv_device_attr& limits = owner_->limits();
  if (options_.max_pending_requests == 0)
    return absl::InvalidArgumentError("max_pending_requests must be positive");
  send_queue_ = std::min<uint32_t>(o.send_queue, static_cast<uint32_t>(limits.max_qp_wr));
  receive_buffers_ = std::min<uint32_t>(o.receive_buffers, static_cast<uint32_t>(limits.max_srq_wr));
  const uint32_t entries = std::min<uint32_t>(o.completion_queue, static_cast<uint32_t>(limits.max_cqe));
  // Each receive buffer and each handshake block ends in one completion at most.
  if (entries < receive_buffers_ + kHandshakeBlocks + send_queue_) {
    return absl::ResourceExhaustedError(
        StrCat("the device's completion queues are too short (", entries, ")"));
  }
  completion_room_ = entries - receive_buffers_ - kHandshakeBlocks;

  memory_bytes_ = size_t{receive_buffers_} * options_.max_message_bytes +
                  kHandshakeBlocks * kMaxHandshakeBytes + kCellBytes;
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
    return problem.empty() ? ErrorStatus("registering receive buffers")
                           : absl::ResourceExhaustedError(problem);
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
  if (epoll_fd_ < 0) return ErrorStatus("epoll_create1");
  NOVA_RETURN_IF_ERROR(wake_.Open(epoll_fd_, kWakeEvent));
  for (const auto& [fd, name] : {std::pair<int, uint64_t>{channel_->fd, kChannelEvent},
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

void VerbsPort::Serve(const Listener* listener, rdma_cm_id* listening) {
  listener_ = listener;
  listening_ = listening;
}

// --- Connections

// Destroys the queue pair before anybody is told (handshake F3, exposed memory F4).
void VerbsPort::Break(VerbsConnection* c, std::string_view reason) {
  if (c->state == State::kDead) return;
  const bool was_up = c->state == State::kUp;
  if (c->state == State::kAwaitHello || c->state == State::kRefusing) --handshakes_;
  c->state = State::kDead;
  c->reason.assign(reason);
  if (c->qp != nullptr) {
    by_queue_pair_.erase(c->qp->qp_num);
    in_queue_pairs_ -= c->in_queue_pair;
    // In its error state it takes no more receive buffers: what it took is fetched before the device may drop
    // it.
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
  if (c->accepted) admission_.Leave(c->hello, c->id);
  while (!c->pending.empty()) CompleteHead(c, c->pending.front().flushed());
  if (was_up) counters_.Disconnected();
  if (was_up || !c->accepted) queue_.PushDisconnected(*c);
  connections_.Bury(c);
}

void VerbsPort::BreakMalformed(VerbsConnection* c, std::string_view reason) {
  counters_.ProtocolError();
  Break(c, reason);
}

void VerbsPort::Disconnect(ConnectionId connection) {
  if (VerbsConnection* c = connections_.Find(connection); c != nullptr) Break(c, "closed on this side");
}

// --- A turn

void VerbsPort::Recycle() {
  queue_.Clear();
  connections_.Recycle();
  PostReceives(&held_);
}

// Connections whose oldest request makes no progress (H28), and signs of life.
void VerbsPort::Scan(Nanos now_ns) {
  const VerbsFabricOptions& o = owner_->options();
  connections_.ForEach([&](VerbsConnection* c) {
    if (c->state != State::kUp) return;
    if (c->in_queue_pair > 0 && now_ns - c->progress_ns >= o.request_timeout_ns) {
      Break(c, "the peer completed nothing in time");
    } else if (c->pending.empty() && now_ns - c->heard_ns >= o.keepalive_ns) {
      VerbsPending& p = c->pending.emplace_back();
      p.internal = true;
      p.request.opcode = Opcode::kRead;
      p.request.remote_address = c->peer.cell_address;
      p.request.rkey = c->peer.cell_rkey;
      Push(c);
    }
  });
}

void VerbsPort::RunTimers(Nanos now_ns) {
  while (VerbsConnection* c = connections_.Due(now_ns)) {
    switch (c->state) {
      case State::kAwaitHello:
        Break(c, "no hello in time");
        break;
      case State::kRefusing:
        Break(c, std::string(c->reason));
        break;
      default:
        Break(c, "the peer did not answer in time");
    }
  }
}

// What need not be looked at in every turn.
void VerbsPort::SlowTurn(Nanos now_ns) {
  slow_ns_ = now_ns;
  std::array<epoll_event, 8> events;
  const int n = epoll_wait(epoll_fd_, events.data(), static_cast<int>(events.size()), 0);
  for (int i = 0; i < n; ++i) {
    switch (events[static_cast<size_t>(i)].data.u64) {
      case kWakeEvent:
        wake_.Drain();
        break;
      case kChannelEvent:
        HandleConnectionEvents();
        break;
      case kAsyncEvent:
        owner_->DrainAsyncEvents();
        break;
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
  RunTimers(now_ns);
}

void VerbsPort::Turn(bool before_sleep) {
  turn_ns_ = Now();
  const bool something = FetchCompletions();
  HandleCompletions();
  if (!arrivals_.empty()) TakeArrivals();
  if (before_sleep || turn_ns_ - slow_ns_ >= (something ? kSlowNs : kIdleSlowNs)) SlowTurn(turn_ns_);
  while (!waiting_.empty() && handshakes_ < kMaxHandshakes) {
    const ConnectRequest request = waiting_.front();
    waiting_.erase(waiting_.begin());
    AcceptRequest(request);
  }
  if (!starved_.empty() && in_queue_pairs_ < completion_room_) {
    std::vector<ConnectionId> starved;
    starved.swap(starved_);
    for (const ConnectionId id : starved) {
      VerbsConnection* c = connections_.Find(id);
      if (c == nullptr || c->state != State::kUp) continue;
      c->starved = false;
      Push(c);
    }
  }
  PostReceives(&repost_);
}

size_t VerbsPort::Poll(std::span<Completion> out) {
  if (queue_.empty()) {
    Recycle();
    Turn(/*before_sleep=*/false);
  }
  return queue_.Take(out);
}

void VerbsPort::Wait(Nanos deadline_ns) {
  while (queue_.empty()) {
    // Armed first, then looked at once more: what comes after that look rings.
    if (ibv_req_notify_cq(cq_, 0) != 0) return;
    armed_ = true;
    Turn(/*before_sleep=*/true);
    if (!queue_.empty()) return;
    if (!armed_) continue;  // it rang between the look and the end of the turn
    Nanos until = std::min(deadline_ns, connections_.next_timer_ns());
    if (in_queue_pairs_ > 0) {
      until = std::min(until, Now() + kScanNs);
    } else if (counters_.connections() > 0) {
      until = std::min(until, Now() + owner_->options().keepalive_ns / 2);
    }
    const int timeout_ms = EpollTimeout(until);
    if (timeout_ms == 0 && until == deadline_ns) return;
    epoll_event event;
    if (wake_.BeginSleep()) epoll_wait(epoll_fd_, &event, 1, timeout_ms);
    if (wake_.EndSleep() || Now() >= deadline_ns) return;
  }
}

}  // namespace nova
