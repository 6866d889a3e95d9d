#include "common/rdma/sim/sim_network.h"

#include <algorithm>
#include <cstring>

namespace nova {
namespace {

constexpr size_t kTearBytes = 64;

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

SimMessage SimMessage::Of(Kind kind, std::string_view text) {
  SimMessage m;
  m.kind = kind;
  m.data.assign(text);
  return m;
}

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
  if (to.port != nullptr && to.state != SimEnd::State::kDown && !Execute(c, from, m)) {
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

std::pair<uint32_t, uint32_t> SimNetwork::Rep::NextStep(SimMessage& m) {
  if (!std::exchange(m.begun, true)) PlanSteps(m);
  if (m.steps.empty()) return {0, 0};
  const auto step = m.steps.back();
  m.steps.pop_back();
  return step;
}

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
      if (to.state != SimEnd::State::kConnecting) return true;
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

bool SimNetwork::Rep::LandStep(const SimConnectionPtr& c, size_t from, SimMessage& m) {
  SimEnd& to = c->ends[1 - from];
  const KeyTable& keys = *to.node->keys;
  if (m.kind == SimMessage::Kind::kReadData) {
    if (to.pending.empty()) return true;
    const WorkRequest request = to.pending.front().request;
    if (!keys.AllowsPieces(request)) {
      to.port->CompleteHead(to, CompletionStatus::kLocalError);
      to.port->Break(c, 1 - from, "memory of a posted request was revoked on this side");
      Send(c, 1 - from, SimMessage::Of(SimMessage::Kind::kClosed, "closed by the peer"));
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
  Send(c, 1 - from, SimMessage::Of(SimMessage::Kind::kAck));
  return true;
}

void SimNetwork::Rep::Refuse(const SimConnectionPtr& c, size_t from) {
  SimEnd& to = c->ends[1 - from];
  ++to.node->counters.access_errors;
  Send(c, 1 - from, SimMessage::Of(SimMessage::Kind::kNak));
  to.port->Break(c, 1 - from, "a request of the peer was refused: key, bounds or rights");
}

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
  SimMessage closed = SimMessage::Of(SimMessage::Kind::kClosed, why);
  closed.due_ns = std::max(wire.last_due_ns, sim->now() + UpTo(options.detect_ns));
  wire.closed = true;
  wire.messages.push_back(std::move(closed));
  if (!scheduled) ScheduleArrival(c, from, wire.messages.front().due_ns);
}

void SimNetwork::Rep::Lose(const SimConnectionPtr& c, std::string_view why) {
  Trace(*c, 0, why);
  for (const size_t from : {size_t{0}, size_t{1}}) CutOff(c, from, "the connection broke", /*tear=*/true);
}

void SimNetwork::Rep::Transmit(const SimConnectionPtr& c, size_t from) {
  SimWire& wire = c->wires[from];
  SimEnd& end = c->ends[from];
  if (wire.to_transmit.empty() || end.state != SimEnd::State::kUp) return;
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
    return Send(c, from, SimMessage::Of(SimMessage::Kind::kClosed, "closed by the peer"));
  }
  if (m.request.opcode != Opcode::kRead) {
    m.data.reserve(m.length);
    ForEachPart(m.request, 0, m.length, [&](const char* at, uint32_t, uint32_t n) { m.data.append(at, n); });
  }
  Send(c, from, std::move(m));
}

void SimNetwork::Rep::Dial(const SimConnectionPtr& c) {
  SimEnd& dialler = c->ends[0];
  if (dialler.state != SimEnd::State::kConnecting || dialler.port == nullptr) return;
  const auto it = listeners.find(c->address);
  const size_t index = c->dialler_hello.xchg_index;
  if (it == listeners.end() || it->second.ports[index % it->second.ports.size()] == nullptr) {
    At(sim->now() + Delay(), [c] {
      if (c->ends[0].state == SimEnd::State::kConnecting && c->ends[0].port != nullptr) {
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

}  // namespace nova
