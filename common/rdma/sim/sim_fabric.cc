#include "common/rdma/sim/sim_fabric.h"

#include <algorithm>
#include <cstring>
#include <deque>
#include <map>
#include <set>
#include <utility>

#include "common/base/log.h"
#include "common/base/random.h"
#include "common/base/simulation.h"
#include "common/base/thread.h"
#include "common/rdma/admission.h"
#include "common/rdma/key_table.h"
#include "common/rdma/pending_request.h"

namespace nova {
namespace {

constexpr size_t kTearBytes = 64;
constexpr uint32_t kMaxPending = 16 * 1024;

class SimPort;

// One process.
struct SimNode {
  std::string name;
  bool alive = true;
  bool paused = false;
  std::unique_ptr<KeyTable> keys;
  std::vector<SimPort*> ports;
  FabricCounters counters;
};

struct SimListener : Listener {
  std::shared_ptr<SimNode> node;
  std::vector<SimPort*> ports;
};

struct SimMessage {
  enum class Kind { kRequest, kReadData, kAck, kNak, kWelcome, kRefusal, kClosed };
  Kind kind = Kind::kAck;
  WorkRequest request;  // of kRequest
  uint32_t length = 0;
  std::string data;  // of SEND, WRITE, kReadData; text of kRefusal, kClosed
  Hello hello;       // of kWelcome
  uint32_t max_message = 0;
  Nanos due_ns = 0;
  bool begun = false;
  std::vector<std::pair<uint32_t, uint32_t>>
      steps;  // what is still to land, as [begin, end), the next one last
};

SimMessage MessageOf(SimMessage::Kind kind, std::string_view text = {}) {
  SimMessage m;
  m.kind = kind;
  m.data.assign(text);
  return m;
}

enum class EndState { kConnecting, kUp, kDown };

struct SimEnd {
  SimPort* port = nullptr;  // null: the port is gone, or was never there
  std::shared_ptr<SimNode> node;
  ConnectionId id;
  EndState state = EndState::kConnecting;
  bool accepted = false;
  Hello hello;  // of the other side
  uint32_t peer_max_message = 0;
  std::deque<PendingRequest> pending;
};

// From ends[i] to ends[1 - i].
struct SimWire {
  std::deque<WorkRequest> to_transmit;
  std::deque<SimMessage> messages;
  Nanos last_transmit_ns = 0;
  Nanos last_due_ns = 0;
  bool closed = false;  // what is sent now goes nowhere
};

struct SimConnection {
  SimEnd ends[2];  // 0 dialled
  SimWire wires[2];
  std::string address;
  Hello dialler_hello;
  uint32_t dialler_max_message = 0;
  uint64_t number = 0;
};
using SimConnectionPtr = std::shared_ptr<SimConnection>;

}  // namespace

struct SimNetwork::Rep {
  explicit Rep(const SimNetworkOptions& o) : options(o), sim(Simulation::Current()), random(RandomSeed()) {}

  SimNetworkOptions options;
  Simulation* const sim;
  Random random;
  std::map<std::string, std::shared_ptr<SimNode>> nodes;
  std::map<std::string, SimListener> listeners;
  std::set<std::pair<std::string, std::string>> cuts;
  std::map<std::pair<Nanos, uint64_t>, std::function<void()>> events;
  std::vector<std::function<void()>> held;  // until a cut heals or a node goes on
  uint64_t next_event = 0;
  uint64_t next_connection = 1;
  uint64_t next_port = 20000;
  bool stopping = false;
  std::unique_ptr<Thread> thread;

  void At(Nanos when_ns, std::function<void()> fn) {
    events.emplace(std::pair(std::max(when_ns, sim->now()), next_event++), std::move(fn));
    sim->WakeAll(this);
  }
  Nanos Delay() { return options.min_delay_ns + UpTo(options.max_delay_ns - options.min_delay_ns); }
  Nanos UpTo(Nanos most_ns) { return static_cast<Nanos>(random.Uniform(static_cast<uint64_t>(most_ns) + 1)); }
  bool IsCut(const SimNode& from, const SimNode& to) const { return cuts.contains({from.name, to.name}); }
  void ReleaseHeld() {
    std::vector<std::function<void()>> all;
    all.swap(held);
    for (auto& fn : all) At(sim->now(), std::move(fn));
  }

  void Run();
  void Trace(const SimConnection& c, size_t from, std::string_view what);

  // What travels
  void Send(const SimConnectionPtr& c, size_t from, SimMessage message);
  void ScheduleArrival(const SimConnectionPtr& c, size_t from, Nanos when_ns);
  void Arrive(const SimConnectionPtr& c, size_t from);
  void Transmit(const SimConnectionPtr& c, size_t from);
  bool Execute(const SimConnectionPtr& c, size_t from, SimMessage& m);
  bool LandStep(const SimConnectionPtr& c, size_t from, SimMessage& m);
  void PlanSteps(SimMessage& m);
  std::pair<uint32_t, uint32_t> NextStep(SimMessage& m);
  void Acknowledge(const SimConnectionPtr& c, size_t from);
  void Refuse(const SimConnectionPtr& c, size_t from);
  void Lose(const SimConnectionPtr& c, std::string_view why);
  void CutOff(const SimConnectionPtr& c, size_t from, std::string_view why, bool tear);
  void Dial(const SimConnectionPtr& c);
};

namespace {

class SimPort final : public Port {
 public:
  SimPort(SimNetwork::Rep* network, std::shared_ptr<SimNode> node, const PortOptions& options)
      : network_(network), node_(std::move(node)), options_(options) {
    node_->ports.push_back(this);
  }
  ~SimPort() override;

  ConnectionId Connect(const std::string& address, const Hello& hello, Nanos deadline_ns) override;
  Status Post(ConnectionId connection, std::span<const WorkRequest> requests) override;
  size_t Poll(std::span<Completion> out) override;
  void Wait(Nanos deadline_ns) override;
  void Wake() override {
    woken_ = true;
    network_->sim->WakeAll(this);
  }
  void Disconnect(ConnectionId connection) override;
  uint32_t max_message_bytes() const override { return options_.max_message_bytes; }

  // Of the network's fiber.
  void Knock(const SimConnectionPtr& c) {
    c->ends[1].node = node_;
    knocking_.push_back(c);
    network_->sim->WakeAll(this);
  }
  void Up(const SimConnectionPtr& c, size_t side);
  void Break(const SimConnectionPtr& c, size_t side, std::string_view reason);
  void CompleteHead(SimEnd& end, CompletionStatus status);
  void Deliver(const SimEnd& end, CompletionKind kind, std::string data, uint32_t immediate);
  void BreakAll(std::string_view reason);
  void Die();

 private:
  struct Ready {
    Completion completion;
    std::string data;
    std::string reason;
    Hello hello;
  };

  size_t SideOf(const SimConnectionPtr& c, ConnectionId id) const {
    return c->ends[0].port == this && c->ends[0].id == id ? 0 : 1;
  }
  Ready& Push(const SimEnd& end, CompletionKind kind);
  void Admit(const SimConnectionPtr& c);
  void StandStill();

  SimNetwork::Rep* const network_;
  const std::shared_ptr<SimNode> node_;
  const PortOptions options_;
  uint64_t next_id_ = 1;
  std::map<ConnectionId, SimConnectionPtr> connections_;
  Admission admission_;
  std::vector<SimConnectionPtr> knocking_;
  std::deque<Ready> ready_;
  std::vector<std::unique_ptr<Ready>> polled_;
  bool woken_ = false;
};

class SimFabric final : public Fabric {
 public:
  SimFabric(SimNetwork::Rep* network, std::shared_ptr<SimNode> node)
      : network_(network), node_(std::move(node)) {}
  ~SimFabric() override;
  std::string_view name() const override { return "sim"; }
  StatusOr<MemoryRegion> Register(void* address, uint64_t size, Access access) override {
    if (address == nullptr || size == 0) return absl::InvalidArgumentError("registering no memory");
    return node_->keys->Add(address, size, access);
  }
  void Revoke(const MemoryRegion& region) override { node_->keys->Remove(region.lkey); }
  StatusOr<std::unique_ptr<Port>> OpenPort(const PortOptions& options) override {
    if (options.max_pending_requests == 0 || options.max_pending_requests > kMaxPending) {
      return absl::InvalidArgumentError(StrCat("max_pending_requests must be 1..", kMaxPending));
    }
    return std::make_unique<SimPort>(network_, node_, options);
  }
  StatusOr<std::string> Listen(const std::string& address, const Hello& self, std::vector<Port*> ports,
                               AcceptCheck check) override;
  FabricCounters counters() const override {
    FabricCounters c = node_->counters;
    c.regions = static_cast<int64_t>(node_->keys->size());
    return c;
  }

 private:
  SimNetwork::Rep* const network_;
  const std::shared_ptr<SimNode> node_;
};

// The part of `pieces` at [begin, end) of their concatenation, each with its address.
template <typename Fn>
void ForEachPart(const WorkRequest& request, uint32_t begin, uint32_t end, Fn fn) {
  uint32_t at = 0;
  for (size_t i = 0; i < request.piece_count; ++i) {
    const LocalBuffer& piece = request.pieces[i];
    const uint32_t from = std::max(begin, at), to = std::min(end, at + piece.length);
    if (from < to)
      fn(const_cast<char*>(static_cast<const char*>(piece.address)) + (from - at), from, to - from);
    at += piece.length;
  }
}

}  // namespace

// --- The network's fiber

void SimNetwork::Rep::Run() {
  while (!stopping) {
    if (events.empty()) {
      sim->Block(this, kNever);
    } else if (const Nanos due = events.begin()->first.first; due > sim->now()) {
      sim->Block(this, due);
    } else {
      const auto fn = std::move(events.begin()->second);
      events.erase(events.begin());
      fn();
    }
  }
}

void SimNetwork::Rep::Trace(const SimConnection& c, size_t from, std::string_view what) {
  sim->Trace(
      StrCat("net ", c.number, from == 0 ? " > " : " < ", absl::string_view(what.data(), what.size())));
}

void SimNetwork::Rep::Send(const SimConnectionPtr& c, size_t from, SimMessage message) {
  SimWire& wire = c->wires[from];
  if (wire.closed) return;
  Nanos delay = message.kind == SimMessage::Kind::kClosed ? UpTo(options.detect_ns) : Delay();
  const bool is_write =
      message.kind == SimMessage::Kind::kRequest &&
      (message.request.opcode == Opcode::kWrite || message.request.opcode == Opcode::kWriteWithImm);
  if (is_write && options.late_one_in != 0 && random.OneIn(options.late_one_in))
    delay += UpTo(options.late_ns);
  message.due_ns = wire.last_due_ns = std::max(wire.last_due_ns, sim->now() + delay);
  if (message.kind == SimMessage::Kind::kClosed) wire.closed = true;
  const bool lost = message.kind != SimMessage::Kind::kClosed && options.lose_one_in != 0 &&
                    random.OneIn(options.lose_one_in);
  wire.messages.push_back(std::move(message));
  if (wire.messages.size() == 1) ScheduleArrival(c, from, wire.messages.front().due_ns);
  if (lost) At(sim->now(), [this, c] { Lose(c, "a message is lost"); });
}

void SimNetwork::Rep::ScheduleArrival(const SimConnectionPtr& c, size_t from, Nanos when_ns) {
  At(when_ns, [this, c, from] { Arrive(c, from); });
}

// The first message of the wire arrives, or a further step of it.
void SimNetwork::Rep::Arrive(const SimConnectionPtr& c, size_t from) {
  SimWire& wire = c->wires[from];
  if (wire.messages.empty()) return;
  const SimEnd& to = c->ends[1 - from];
  if ((to.node != nullptr && to.node->paused) ||
      (to.node != nullptr && IsCut(*c->ends[from].node, *to.node))) {
    held.push_back([this, c, from] { Arrive(c, from); });
    return;
  }
  SimMessage& m = wire.messages.front();
  // A message cut off from the wire while its step was under way: another one is first now.
  if (m.due_ns > sim->now()) return ScheduleArrival(c, from, m.due_ns);
  if (to.port != nullptr && to.state != EndState::kDown && !Execute(c, from, m)) {
    return ScheduleArrival(c, from, sim->now() + UpTo(options.tear_gap_ns));
  }
  if (!wire.messages.empty()) wire.messages.pop_front();
  if (!wire.messages.empty()) ScheduleArrival(c, from, std::max(wire.messages.front().due_ns, sim->now()));
}

void SimNetwork::Rep::PlanSteps(SimMessage& m) {
  const auto pieces = static_cast<uint32_t>((m.data.size() + kTearBytes - 1) / kTearBytes);
  const uint32_t runs =
      1 + static_cast<uint32_t>(random.Uniform(std::min(std::max(pieces, 1u), options.tear_steps)));
  std::vector<uint32_t> bounds{0, pieces};
  for (uint32_t i = 1; i < runs; ++i) bounds.push_back(static_cast<uint32_t>(random.Uniform(pieces + 1)));
  std::sort(bounds.begin(), bounds.end());
  for (size_t i = 0; i + 1 < bounds.size(); ++i) {
    const auto begin = static_cast<uint32_t>(bounds[i] * kTearBytes);
    const auto end = static_cast<uint32_t>(std::min<size_t>(bounds[i + 1] * kTearBytes, m.data.size()));
    if (begin < end) m.steps.emplace_back(begin, end);
  }
  for (size_t i = m.steps.size(); i > 1; --i) std::swap(m.steps[i - 1], m.steps[random.Uniform(i)]);
}

// Empty when nothing is to land.
std::pair<uint32_t, uint32_t> SimNetwork::Rep::NextStep(SimMessage& m) {
  if (!std::exchange(m.begun, true)) PlanSteps(m);
  if (m.steps.empty()) return {0, 0};
  const auto step = m.steps.back();
  m.steps.pop_back();
  return step;
}

// True when the message is done with.
bool SimNetwork::Rep::Execute(const SimConnectionPtr& c, size_t from, SimMessage& m) {
  SimEnd& to = c->ends[1 - from];
  switch (m.kind) {
    case SimMessage::Kind::kRequest:
    case SimMessage::Kind::kReadData:
      return LandStep(c, from, m);
    case SimMessage::Kind::kAck:
      if (!to.pending.empty()) to.port->CompleteHead(to, CompletionStatus::kOk);
      return true;
    case SimMessage::Kind::kNak:
      if (!to.pending.empty()) to.port->CompleteHead(to, CompletionStatus::kRemoteAccess);
      to.port->Break(c, 1 - from, "a request was refused by the peer: key, bounds or rights");
      return true;
    case SimMessage::Kind::kWelcome:
      if (to.state != EndState::kConnecting) return true;
      to.hello = m.hello;
      to.peer_max_message = m.max_message;
      to.port->Up(c, 1 - from);
      return true;
    case SimMessage::Kind::kRefusal:
      to.port->Break(c, 1 - from, "refused: " + m.data);
      return true;
    case SimMessage::Kind::kClosed:
      to.port->Break(c, 1 - from, m.data);
      return true;
  }
  return true;
}

// A request is executed, or the data of a READ lands: a step at a time, every step checked (revocation, F1).
bool SimNetwork::Rep::LandStep(const SimConnectionPtr& c, size_t from, SimMessage& m) {
  SimEnd& to = c->ends[1 - from];
  const KeyTable& keys = *to.node->keys;
  if (m.kind == SimMessage::Kind::kReadData) {
    if (to.pending.empty()) return true;
    const WorkRequest request = to.pending.front().request;
    if (!keys.AllowsPieces(request)) {
      to.port->CompleteHead(to, CompletionStatus::kLocalError);
      to.port->Break(c, 1 - from, "memory of a posted request was revoked on this side");
      Send(c, 1 - from, MessageOf(SimMessage::Kind::kClosed, "closed by the peer"));
      return true;
    }
    const auto [begin, end] = NextStep(m);
    ForEachPart(request, begin, end,
                [&](char* at, uint32_t offset, uint32_t n) { std::memcpy(at, m.data.data() + offset, n); });
    if (!m.steps.empty()) return false;
    to.port->CompleteHead(to, CompletionStatus::kOk);
    return true;
  }
  const WorkRequest& r = m.request;
  if (!m.begun) Trace(*c, from, StrCat("executes ", static_cast<int>(r.opcode), " ", m.length));
  switch (r.opcode) {
    case Opcode::kSend:
      to.port->Deliver(to, CompletionKind::kReceive, std::move(m.data), 0);
      break;
    case Opcode::kRead: {
      if (m.length > 0 && !keys.Allows(r.rkey, r.remote_address, m.length, Access::kRemoteRead)) {
        Refuse(c, from);
        return true;
      }
      SimMessage reply;
      reply.kind = SimMessage::Kind::kReadData;
      reply.data.assign(reinterpret_cast<const char*>(r.remote_address), m.length);
      Send(c, 1 - from, std::move(reply));
      return true;
    }
    case Opcode::kWrite:
    case Opcode::kWriteWithImm: {
      if (m.length > 0 && !keys.Allows(r.rkey, r.remote_address, m.length, Access::kRemoteWrite)) {
        Refuse(c, from);
        return true;
      }
      const auto [begin, end] = NextStep(m);
      if (begin < end)
        std::memcpy(reinterpret_cast<char*>(r.remote_address) + begin, m.data.data() + begin, end - begin);
      if (!m.steps.empty()) return false;
      if (r.opcode == Opcode::kWriteWithImm)
        to.port->Deliver(to, CompletionKind::kImmediate, {}, r.immediate);
      break;
    }
  }
  Send(c, 1 - from, MessageOf(SimMessage::Kind::kAck));
  return true;
}

// The request at hand fails its check: its sender is told, and the target's end is gone.
void SimNetwork::Rep::Refuse(const SimConnectionPtr& c, size_t from) {
  SimEnd& to = c->ends[1 - from];
  ++to.node->counters.access_errors;
  Send(c, 1 - from, MessageOf(SimMessage::Kind::kNak));
  to.port->Break(c, 1 - from, "a request of the peer was refused: key, bounds or rights");
}

// Everything behind some point of the wire is lost; the end that listens learns of it later.
void SimNetwork::Rep::CutOff(const SimConnectionPtr& c, size_t from, std::string_view why, bool tear) {
  SimWire& wire = c->wires[from];
  if (wire.closed) return;
  wire.to_transmit.clear();
  if (!wire.messages.empty()) {
    // The first message's steps are scheduled: unless it may be torn it stays.
    const size_t keep = tear && random.OneIn(2) ? 0 : 1 + random.Uniform(wire.messages.size());
    while (wire.messages.size() > keep) wire.messages.pop_back();
  }
  const bool scheduled = !wire.messages.empty();
  SimMessage closed = MessageOf(SimMessage::Kind::kClosed, why);
  closed.due_ns = std::max(wire.last_due_ns, sim->now() + UpTo(options.detect_ns));
  wire.closed = true;
  wire.messages.push_back(std::move(closed));
  if (!scheduled) ScheduleArrival(c, from, wire.messages.front().due_ns);
}

void SimNetwork::Rep::Lose(const SimConnectionPtr& c, std::string_view why) {
  Trace(*c, 0, why);
  for (const size_t from : {size_t{0}, size_t{1}}) CutOff(c, from, "the connection broke", /*tear=*/true);
}

// The first request waiting to leave leaves: its bytes are read now.
void SimNetwork::Rep::Transmit(const SimConnectionPtr& c, size_t from) {
  SimWire& wire = c->wires[from];
  SimEnd& end = c->ends[from];
  if (wire.to_transmit.empty() || end.state != EndState::kUp) return;
  if (end.node->paused) {
    held.push_back([this, c, from] { Transmit(c, from); });
    return;
  }
  SimMessage m;
  m.kind = SimMessage::Kind::kRequest;
  m.request = wire.to_transmit.front();
  wire.to_transmit.pop_front();
  for (size_t i = 0; i < m.request.piece_count; ++i) m.length += m.request.pieces[i].length;
  if (!end.node->keys->AllowsPieces(m.request)) {
    for (PendingRequest& p : end.pending) p.failed = p.failed || p.request.id == m.request.id;
    end.port->Break(c, from, "memory of a posted request was revoked on this side");
    return Send(c, from, MessageOf(SimMessage::Kind::kClosed, "closed by the peer"));
  }
  if (m.request.opcode != Opcode::kRead) {
    m.data.reserve(m.length);
    ForEachPart(m.request, 0, m.length, [&](const char* at, uint32_t, uint32_t n) { m.data.append(at, n); });
  }
  Send(c, from, std::move(m));
}

// The dialler's hello arrives where it is listened for, or it learns that nobody does.
void SimNetwork::Rep::Dial(const SimConnectionPtr& c) {
  SimEnd& dialler = c->ends[0];
  if (dialler.state != EndState::kConnecting || dialler.port == nullptr) return;
  const auto it = listeners.find(c->address);
  const size_t index = c->dialler_hello.xchg_index;
  if (it == listeners.end() || it->second.ports[index % it->second.ports.size()] == nullptr) {
    At(sim->now() + Delay(), [c] {
      if (c->ends[0].state == EndState::kConnecting && c->ends[0].port != nullptr) {
        c->ends[0].port->Break(c, 0, "connect: Connection refused");
      }
    });
    return;
  }
  SimListener& listener = it->second;
  if (dialler.node->paused || listener.node->paused || IsCut(*dialler.node, *listener.node)) {
    held.push_back([this, c] { Dial(c); });
    return;
  }
  listener.ports[index % listener.ports.size()]->Knock(c);
}

// --- Port

namespace {

SimPort::~SimPort() {
  BreakAll("the port was closed");
  for (const SimConnectionPtr& c : knocking_)
    network_->Send(c, 1, MessageOf(SimMessage::Kind::kClosed, "closed by the peer"));
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
    if (node_->alive) network_->Send(c, side, MessageOf(SimMessage::Kind::kClosed, "closed by the peer"));
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
      if (c->ends[0].state == EndState::kConnecting && c->ends[0].port != nullptr) {
        c->ends[0].port->Break(c, 0, "the peer did not answer in time");
      }
    });
  }
  return end.id;
}

void SimPort::Up(const SimConnectionPtr& c, size_t side) {
  SimEnd& end = c->ends[side];
  end.state = EndState::kUp;
  ++node_->counters.connections;
  network_->Trace(*c, side, "up");
  Ready& r = Push(end, CompletionKind::kConnected);
  r.hello = end.hello;
}

// Handshake (F3), on the port's own fiber.
void SimPort::Admit(const SimConnectionPtr& c) {
  const auto it = std::find_if(network_->listeners.begin(), network_->listeners.end(),
                               [this](const auto& l) { return l.second.node == node_; });
  if (c->ends[0].state != EndState::kConnecting || it == network_->listeners.end()) return;
  const SimListener& listener = it->second;
  const Hello& hello = c->dialler_hello;
  SimEnd& end = c->ends[1];
  const ConnectionId id(next_id_++);
  ConnectionId replaced;
  const std::string refusal = admission_.Judge(listener, hello, id, &replaced);
  if (!refusal.empty()) return network_->Send(c, 1, MessageOf(SimMessage::Kind::kRefusal, refusal));
  const auto old = connections_.find(replaced);
  if (old != connections_.end() && !network_->options.f3_replace_off) {
    const SimConnectionPtr other = old->second;
    Break(other, 1, kReplaced);
    network_->Send(other, 1, MessageOf(SimMessage::Kind::kClosed, "closed by the peer"));
  }
  end.port = this;
  end.id = id;
  end.accepted = true;
  end.hello = hello;
  end.peer_max_message = c->dialler_max_message;
  connections_.emplace(end.id, c);
  Up(c, 1);
  SimMessage welcome = MessageOf(SimMessage::Kind::kWelcome);
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
  if (end.state == EndState::kDown || end.port != this) return;
  const bool was_up = end.state == EndState::kUp;
  end.state = EndState::kDown;
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
  if (end.state != EndState::kUp) return NotConnected();
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

// SIGSTOP: the owner's thread does not come back from here until it may go on.
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
  network_->Send(c, side, MessageOf(SimMessage::Kind::kClosed, "closed by the peer"));
}

// --- Fabric

SimFabric::~SimFabric() {
  NOVA_CHECK(node_->ports.empty()) << "a port outlives its fabric";
  std::erase_if(network_->listeners, [this](const auto& l) { return l.second.node == node_; });
  if (const auto it = network_->nodes.find(node_->name); it != network_->nodes.end() && it->second == node_) {
    network_->nodes.erase(it);
  }
}

StatusOr<std::string> SimFabric::Listen(const std::string& address, const Hello& self,
                                        std::vector<Port*> ports, AcceptCheck check) {
  const size_t colon = address.rfind(':');
  if (colon == std::string::npos || ports.empty()) {
    return absl::InvalidArgumentError(StrCat("not an address to listen at (host:port): ", address));
  }
  std::string bound = address;
  if (address.substr(colon) == ":0") bound = StrCat(address.substr(0, colon), ":", network_->next_port++);
  if (network_->listeners.contains(bound)) {
    return absl::UnavailableError(StrCat("cannot listen at ", address, ": Address already in use"));
  }
  SimListener listener{{self, std::move(check), ports.size()}, node_, {}};
  for (Port* port : ports) listener.ports.push_back(static_cast<SimPort*>(port));
  network_->listeners.emplace(bound, std::move(listener));
  return bound;
}

}  // namespace

// --- What a test does to the network

SimNetwork::SimNetwork(const SimNetworkOptions& options) {
  NOVA_CHECK(Simulation::Current() != nullptr) << "a simulated network outside a simulation";
  rep_ = std::make_unique<Rep>(options);
  rep_->thread = std::make_unique<Thread>("sim.network", [rep = rep_.get()] { rep->Run(); });
}

SimNetwork::~SimNetwork() {
  NOVA_CHECK(rep_->nodes.empty()) << "a fabric outlives its network";
  rep_->stopping = true;
  rep_->sim->WakeAll(rep_.get());
  rep_->thread->Join();
}

void SimNetwork::set_options(const SimNetworkOptions& options) { rep_->options = options; }

void SimNetwork::Kill(const std::string& node) {
  const auto it = rep_->nodes.find(node);
  if (it == rep_->nodes.end()) return;
  const std::shared_ptr<SimNode> dead = it->second;
  rep_->nodes.erase(it);
  rep_->sim->Trace("net kills " + node);
  dead->alive = false;
  std::erase_if(rep_->listeners, [&](const auto& l) { return l.second.node == dead; });
  for (SimPort* port : dead->ports) port->Die();
  dead->paused = false;
  rep_->sim->WakeAll(&dead->paused);
  rep_->ReleaseHeld();
}

void SimNetwork::Pause(const std::string& node) {
  if (const auto it = rep_->nodes.find(node); it != rep_->nodes.end()) it->second->paused = true;
}

void SimNetwork::Resume(const std::string& node) {
  const auto it = rep_->nodes.find(node);
  if (it == rep_->nodes.end()) return;
  it->second->paused = false;
  rep_->sim->WakeAll(&it->second->paused);
  rep_->ReleaseHeld();
}

void SimNetwork::Cut(const std::string& from, const std::string& to) { rep_->cuts.emplace(from, to); }

void SimNetwork::Partition(const std::string& a, const std::string& b) {
  Cut(a, b);
  Cut(b, a);
}

void SimNetwork::Mend(const std::string& from, const std::string& to) {
  rep_->cuts.erase({from, to});
  rep_->ReleaseHeld();
}

void SimNetwork::Heal() {
  rep_->cuts.clear();
  rep_->ReleaseHeld();
}

std::unique_ptr<Fabric> NewSimFabric(SimNetwork* network, const std::string& node) {
  auto& entry = network->rep_->nodes[node];
  NOVA_CHECK(entry == nullptr) << "two live nodes of the name " << node;
  entry = std::make_shared<SimNode>();
  entry->name = node;
  entry->keys = std::make_unique<KeyTable>(network->rep_->random.Next());
  return std::make_unique<SimFabric>(network->rep_.get(), entry);
}

}  // namespace nova
