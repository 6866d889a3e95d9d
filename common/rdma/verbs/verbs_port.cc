#include "common/rdma/verbs/verbs_port.h"

#include <fcntl.h>

#include <algorithm>
#include <cstring>

#include "common/base/log.h"
#include "common/rdma/verbs/verbs_device.h"

namespace nova {
namespace {

constexpr Nanos kSlowNs = 50 * kMicrosecond;      // between looks at what is not the completion queue
constexpr Nanos kIdleSlowNs = 10 * kMicrosecond;  // where that is empty
constexpr Nanos kScanNs = 200 * kMillisecond;

enum Event : uint64_t { kWakeEvent, kChannelEvent, kCompletionEvent, kAsyncEvent };

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
  if (channel_ != nullptr) rdma_destroy_event_channel(channel_);
  if (epoll_fd_ >= 0) close(epoll_fd_);
}

Status VerbsPort::Open() {
  const VerbsFabricOptions& o = owner_->options();
  const ibv_device_attr& limits = owner_->limits();
  if (options_.max_pending_requests == 0)
    return absl::InvalidArgumentError("max_pending_requests must be positive");
  room_.of_queue_pair = std::min<uint32_t>(o.send_queue, static_cast<uint32_t>(limits.max_qp_wr));
  const uint32_t receives = std::min<uint32_t>(o.receive_buffers, static_cast<uint32_t>(limits.max_srq_wr));
  const uint32_t entries = std::min<uint32_t>(o.completion_queue, static_cast<uint32_t>(limits.max_cqe));
  // Each receive buffer and each handshake block ends in one completion at most.
  const uint32_t others = receives + VerbsBuffers::kHandshakeBlocks;
  if (entries < others + room_.of_queue_pair) {
    return absl::ResourceExhaustedError(
        StrCat("the device's completion queues are too short (", entries, ")"));
  }
  room_.of_all = entries - others;

  NOVA_RETURN_IF_ERROR(buffers_.Open(owner_->pd(), options_.name, receives, options_.max_message_bytes));
  channel_ = rdma_create_event_channel();
  if (channel_ == nullptr) return NoResources("rdma_create_event_channel");
  NOVA_RETURN_IF_ERROR(
      completions_.Open(owner_->context(), options_.name, entries, static_cast<int>(options_.index)));

  epoll_fd_ = epoll_create1(EPOLL_CLOEXEC);
  if (epoll_fd_ < 0) return NoResources("epoll_create1");
  NOVA_RETURN_IF_ERROR(wake_.Open(epoll_fd_, kWakeEvent));
  for (const auto& [fd, name] : {std::pair<int, uint64_t>{channel_->fd, kChannelEvent},
                                 {completions_.fd(), kCompletionEvent},
                                 {owner_->context()->async_fd, kAsyncEvent}}) {
    fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.u64 = name;
    if (epoll_ctl(epoll_fd_, EPOLL_CTL_ADD, fd, &event) != 0) return NoResources("epoll_ctl");
  }
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
    room_.taken -= c->in_queue_pair;
    // In its error state it takes no more receive buffers: what it took is fetched before the device may drop
    // it.
    ibv_qp_attr error{};
    error.qp_state = IBV_QPS_ERR;
    ibv_modify_qp(c->qp, &error, IBV_QP_STATE);
    while (completions_.Fetch()) continue;
    owner_->DestroyQueuePair(c->qp);
    c->qp = nullptr;
  }
  if (c->cm != nullptr) owner_->Discard(c->cm);
  c->cm = nullptr;
  if (c->block != kNoBlock) buffers_.ReturnBlock(c->block);
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
  buffers_.PostHeld();
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
      case kCompletionEvent:
        completions_.TakeRings();
        break;
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
  const bool something = completions_.Fetch();
  HandleCompletions();
  if (!arrivals_.empty()) TakeArrivals();
  if (before_sleep || turn_ns_ - slow_ns_ >= (something ? kSlowNs : kIdleSlowNs)) SlowTurn(turn_ns_);
  while (!waiting_.empty() && handshakes_ < kMaxHandshakes) {
    const ConnectRequest request = waiting_.front();
    waiting_.erase(waiting_.begin());
    AcceptRequest(request);
  }
  if (!room_.starved.empty() && !room_.none()) {
    std::vector<ConnectionId> starved;
    starved.swap(room_.starved);
    for (const ConnectionId id : starved) {
      VerbsConnection* c = connections_.Find(id);
      if (c == nullptr || c->state != State::kUp) continue;
      c->starved = false;
      Push(c);
    }
  }
  buffers_.PostReturned();
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
    if (!completions_.Arm()) return;
    Turn(/*before_sleep=*/true);
    if (!queue_.empty()) return;
    if (!completions_.armed()) continue;  // it rang between the look and the end of the turn
    Nanos until = std::min(deadline_ns, connections_.next_timer_ns());
    if (room_.taken > 0) {
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
