// Ports of a simulated network.
#include <algorithm>

#include "common/rdma/sim/sim_network.h"

namespace nova {

SimPort::~SimPort() {
  BreakAll("the port was closed");
  for (const SimConnectionPtr& c : knocking_)
    network_->Send(c, 1, SimMessage::Of(SimMessage::Kind::kClosed, "closed by the peer"));
  std::erase(node_->ports, this);
  for (auto& [address, listener] : network_->listeners) {
    std::replace(listener.ports.begin(), listener.ports.end(), this, static_cast<SimPort*>(nullptr));
  }
}

void SimPort::BreakAll(std::string_view reason) {
  while (!connections_.empty()) {
    const auto [id, c] = *connections_.begin();
    const size_t side = SideOf(c, id);
    Break(c, side, reason);
    if (node_->alive)
      network_->Send(c, side, SimMessage::Of(SimMessage::Kind::kClosed, "closed by the peer"));
  }
}

void SimPort::Die() {
  for (const auto& [id, c] : connections_)
    network_->CutOff(c, SideOf(c, id), "the connection broke", /*tear=*/true);
  BreakAll("this process is dead");
}

SimPort::Ready& SimPort::Push(const SimEnd& end, CompletionKind kind) {
  Ready& r = ready_.emplace_back();
  r.completion.kind = kind;
  r.completion.connection = end.id;
  r.completion.accepted = end.accepted;
  network_->sim->WakeAll(this);
  return r;
}

ConnectionId SimPort::Connect(const std::string& address, const Hello& hello, Nanos deadline_ns) {
  auto c = std::make_shared<SimConnection>();
  c->number = network_->next_connection++;
  c->address = address;
  c->dialler_hello = hello;
  c->dialler_hello.xchg_index = options_.index;
  c->dialler_max_message = options_.max_message_bytes;
  SimEnd& end = c->ends[0];
  end.port = this;
  end.node = node_;
  end.id = ConnectionId(next_id_++);
  connections_.emplace(end.id, c);
  if (!node_->alive) {
    Break(c, 0, "this process is dead");
    return ConnectionId(next_id_ - 1);
  }
  network_->At(network_->sim->now() + network_->Delay(), [network = network_, c] { network->Dial(c); });
  if (deadline_ns != kNever) {
    network_->At(network_->sim->now() + (deadline_ns - Now()), [c] {
      if (c->ends[0].state == SimEnd::State::kConnecting && c->ends[0].port != nullptr) {
        c->ends[0].port->Break(c, 0, "the peer did not answer in time");
      }
    });
  }
  return end.id;
}

void SimPort::Up(const SimConnectionPtr& c, size_t side) {
  SimEnd& end = c->ends[side];
  end.state = SimEnd::State::kUp;
  ++node_->counters.connections;
  network_->Trace(*c, side, "up");
  Ready& r = Push(end, CompletionKind::kConnected);
  r.hello = end.hello;
}

void SimPort::Admit(const SimConnectionPtr& c) {
  const auto it = std::find_if(network_->listeners.begin(), network_->listeners.end(),
                               [this](const auto& l) { return l.second.node == node_; });
  if (c->ends[0].state != SimEnd::State::kConnecting || it == network_->listeners.end()) return;
  const SimListener& listener = it->second;
  const Hello& hello = c->dialler_hello;
  SimEnd& end = c->ends[1];
  const ConnectionId id(next_id_++);
  ConnectionId replaced;
  const std::string refusal = admission_.Judge(listener, hello, id, &replaced);
  if (!refusal.empty()) return network_->Send(c, 1, SimMessage::Of(SimMessage::Kind::kRefusal, refusal));
  const auto old = connections_.find(replaced);
  if (old != connections_.end() && !network_->options.f3_replace_off) {
    const SimConnectionPtr other = old->second;
    Break(other, 1, kReplaced);
    network_->Send(other, 1, SimMessage::Of(SimMessage::Kind::kClosed, "closed by the peer"));
  }
  end.port = this;
  end.id = id;
  end.accepted = true;
  end.hello = hello;
  end.peer_max_message = c->dialler_max_message;
  connections_.emplace(end.id, c);
  Up(c, 1);
  SimMessage welcome = SimMessage::Of(SimMessage::Kind::kWelcome);
  welcome.hello = listener.self;
  welcome.max_message = options_.max_message_bytes;
  network_->Send(c, 1, std::move(welcome));
}

void SimPort::CompleteHead(SimEnd& end, CompletionStatus status) {
  const PendingRequest p = end.pending.front();
  end.pending.pop_front();
  --node_->counters.pending_requests;
  Ready& r = Push(end, CompletionKind::kRequest);
  r.completion.id = p.request.id;
  r.completion.status = status;
  if (status == CompletionStatus::kOk) {
    uint64_t& bytes = p.request.opcode == Opcode::kSend   ? node_->counters.bytes_sent
                      : p.request.opcode == Opcode::kRead ? node_->counters.bytes_read
                                                          : node_->counters.bytes_written;
    bytes += p.length;
  }
  while (!end.pending.empty() && end.pending.front().failed && status != CompletionStatus::kFlushed) {
    const PendingRequest failed = end.pending.front();
    end.pending.pop_front();
    --node_->counters.pending_requests;
    Ready& f = Push(end, CompletionKind::kRequest);
    f.completion.id = failed.request.id;
    f.completion.status = CompletionStatus::kLocalError;
  }
}

void SimPort::Deliver(const SimEnd& end, CompletionKind kind, std::string data, uint32_t immediate) {
  Ready& r = Push(end, kind);
  r.data = std::move(data);
  r.completion.immediate = immediate;
}

void SimPort::Break(const SimConnectionPtr& c, size_t side, std::string_view reason) {
  SimEnd& end = c->ends[side];
  if (end.state == SimEnd::State::kDown || end.port != this) return;
  const bool was_up = end.state == SimEnd::State::kUp;
  end.state = SimEnd::State::kDown;
  network_->Trace(*c, side, StrCat("down: ", absl::string_view(reason.data(), reason.size())));
  c->wires[side].to_transmit.clear();
  while (!end.pending.empty()) CompleteHead(end, end.pending.front().flushed());
  if (was_up) --node_->counters.connections;
  if (end.accepted) admission_.Leave(end.hello, end.id);
  Push(end, CompletionKind::kDisconnected).reason.assign(reason);
  connections_.erase(end.id);
  end.port = nullptr;
}

Status SimPort::Post(ConnectionId connection, std::span<const WorkRequest> requests) {
  const auto it = connections_.find(connection);
  if (it == connections_.end()) return NotConnected();
  const SimConnectionPtr c = it->second;
  const size_t side = SideOf(c, connection);
  SimEnd& end = c->ends[side];
  if (end.state != SimEnd::State::kUp) return NotConnected();
  if (end.pending.size() + requests.size() > options_.max_pending_requests) return TooManyPending();
  SimWire& wire = c->wires[side];
  for (const WorkRequest& request : requests) {
    PendingRequest& p = end.pending.emplace_back();
    p.Set(request, UINT32_MAX, std::min(options_.max_message_bytes, end.peer_max_message));
    p.failed = p.failed || !node_->keys->AllowsPieces(request);
    ++node_->counters.pending_requests;
    if (p.failed) {
      if (end.pending.size() == 1) CompleteHead(end, CompletionStatus::kLocalError);
      continue;
    }
    wire.to_transmit.push_back(request);
    wire.last_transmit_ns = std::max(
        wire.last_transmit_ns, network_->sim->now() + network_->UpTo(network_->options.transmit_delay_ns));
    network_->At(wire.last_transmit_ns, [network = network_, c, side] { network->Transmit(c, side); });
  }
  return OkStatus();
}

void SimPort::StandStill() {
  while (node_->paused && node_->alive) network_->sim->Block(&node_->paused, kNever);
}

size_t SimPort::Poll(std::span<Completion> out) {
  network_->sim->MaybeYield();
  StandStill();
  std::vector<SimConnectionPtr> knocking;
  knocking.swap(knocking_);
  for (const SimConnectionPtr& c : knocking) Admit(c);
  polled_.clear();
  size_t n = 0;
  for (; n < out.size() && !ready_.empty(); ++n) {
    Ready& r = *polled_.emplace_back(std::make_unique<Ready>(std::move(ready_.front())));
    ready_.pop_front();
    r.completion.data = {reinterpret_cast<const std::byte*>(r.data.data()), r.data.size()};
    if (r.completion.kind == CompletionKind::kConnected) r.completion.hello = &r.hello;
    if (r.completion.kind == CompletionKind::kDisconnected) r.completion.reason = r.reason.c_str();
    out[n] = r.completion;
  }
  return n;
}

void SimPort::Wait(Nanos deadline_ns) {
  while (ready_.empty() && knocking_.empty() && !woken_ && Now() < deadline_ns)
    network_->sim->Block(this, deadline_ns);
  woken_ = false;
  StandStill();
}

void SimPort::Disconnect(ConnectionId connection) {
  const auto it = connections_.find(connection);
  if (it == connections_.end()) return;
  const SimConnectionPtr c = it->second;
  const size_t side = SideOf(c, connection);
  Break(c, side, "closed on this side");
  network_->Send(c, side, SimMessage::Of(SimMessage::Kind::kClosed, "closed by the peer"));
}

}  // namespace nova
