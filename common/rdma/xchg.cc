#include "common/rdma/xchg.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "common/base/log.h"
#include "common/base/simulation.h"
#include "common/rdma/xchg_rep.h"

namespace nova {
namespace {

constexpr int kStopTurns = 100;

}  // namespace

Xchg::Rep::Rep(Fabric* fabric, const Hello& hello, XchgOptions opts, std::unique_ptr<Port> p)
    : self(hello),
      options(std::move(opts)),
      port(std::move(p)),
      memory(fabric, options.send_pool_bytes),
      shares(&options, &memory),
      wheel(Now()),
      turn{.now_ns = Now()} {}

bool Xchg::Rep::OnXchg() const {
  const void* id = running.owner.load(std::memory_order_relaxed);
  return id == nullptr || id == Thread::CurrentId();
}

void Xchg::Rep::Dispatch(const Completion& c) {
  switch (c.kind) {
    case CompletionKind::kRequest:
      return RequestEnded(c);
    case CompletionKind::kReceive:
      return Received(c);
    case CompletionKind::kImmediate:
      return;  // nobody sends one
    case CompletionKind::kConnected:
      return LinkUp(c);
    case CompletionKind::kDisconnected:
      return LinkGone(c);
  }
}

void Xchg::Rep::RequestEnded(const Completion& c) {
  Link* const link = FindLink(c.connection);
  if (link != nullptr) {
    --link->in_flight;
    link->taken_ns = turn.now_ns;
    if (!link->queue.empty()) MarkDirty(link);
  }
  if ((c.id & kPieceTag) != 0) {
    FreePiece(link, c.id);
    if (c.status != CompletionStatus::kLocalError) return;
    // The peer's port takes shorter messages than ours: nothing sensible can follow on this connection.
    NOVA_LOG(ERROR) << options.name << ": a message could not be posted";
    if (link != nullptr) CloseLink(link);
    return;
  }
  Op* op = ops.Find(c.id);
  if (op == nullptr || op->kind != Op::Kind::kOneSided) return;
  OpDone done = std::move(op->op_done);
  FreeOp(op);
  done(c.status == CompletionStatus::kOk ? Outcome::kOk : Outcome::kUnknown);
}

void Xchg::Rep::Received(const Completion& c) {
  Link* const link = FindLink(c.connection);
  if (link == nullptr || link->state != Link::State::kUp) return;
  link->last_used_ns = turn.now_ns;
  Bump(count.bytes_received, c.data.size());
  MessageAssembler::Message m;
  bool has_pieces = false;
  switch (link->assembler.Add(c.data, &m)) {
    case MessageAssembler::Result::kMore:
      return Assembling(link);
    case MessageAssembler::Result::kMessage:
      has_pieces = link->share.assembling_bytes > 0;
      if (has_pieces) shares.CountWaiting(&link->share.assembling_bytes, 0);
      break;
    case MessageAssembler::Result::kMalformed:
      Bump(count.malformed);
      return CloseLink(link);
  }
  Bump(count.messages_received);
  (m.header.flags & MessageHeader::kReply) != 0 ? Answered(link, m) : Request(link, m);
  Link* const still = has_pieces ? FindLink(c.connection) : nullptr;
  if (still != nullptr) still->assembler.Release();
}

void Xchg::Rep::Assembling(Link* link) {
  link->received_ns = turn.now_ns;
  shares.CountWaiting(&link->share.assembling_bytes, link->assembler.bytes());
  if (!shares.MayAssemble()) return CutOff(link, "too much is coming in");
  WatchProgress(link);
}

void Xchg::Rep::Fire(TimerNode* node) {
  auto* timed = static_cast<XchgTimed*>(node);
  switch (timed->what) {
    case XchgTimed::What::kOp: {
      auto* op = static_cast<Op*>(timed);
      Bump(count.deadlines);
      // Exposed memory (F4): what the fabric may still read or write is taken from it before anybody is told.
      if (op->kind == Op::Kind::kOneSided && op->posted) return CloseLink(op->link);
      return EndOp(op, op->posted ? Outcome::kUnknown : Outcome::kUnavailable);
    }
    case XchgTimed::What::kLink: {
      auto* link = static_cast<Link*>(timed);
      if (link->state == Link::State::kBackOff) {
        if (!link->ops.empty()) return Connect(link);
        Drop(link);
        return link->peer->waiting.reset();
      }
      if (!link->ops.empty() || link->in_flight > 0) link->last_used_ns = turn.now_ns;
      if (link->last_used_ns + options.idle_close_ns <= turn.now_ns) return CloseLink(link);
      return wheel.Add(link, link->last_used_ns + options.idle_close_ns);
    }
    case XchgTimed::What::kProgress:
      return LookAtProgress(static_cast<XchgProgressTimer*>(timed)->link);
    case XchgTimed::What::kPeriodic: {
      auto* periodic = static_cast<XchgPeriodic*>(timed);
      wheel.Add(periodic, turn.now_ns + periodic->period_ns);
      return periodic->fn();
    }
    case XchgTimed::What::kOneShot: {
      auto* one_shot = static_cast<XchgOneShot*>(timed);
      auto fn = std::move(one_shot->fn);
      one_shot->fn = nullptr;
      one_shots.Free(one_shot);
      return fn();
    }
  }
}

bool Xchg::RunOnce() {
  Rep* r = rep_.get();
  if (r->running.owner.load(std::memory_order_relaxed) == nullptr)
    r->running.owner.store(Thread::CurrentId());
  r->turn = {.now_ns = Now()};
  Bump(r->count.turns);
  bool active = false;
  const size_t n = r->port->Poll(r->completions);
  for (size_t i = 0; i < n; ++i) r->Dispatch(r->completions[i]);
  active |= n > 0;
  active |= r->submitted.Run();
  active |= r->wheel.Advance(r->turn.now_ns, [r](TimerNode* node) { r->Fire(node); }) > 0;
  active |= r->ended.Run();
  active |= r->BeginWaiting();
  if (active) {
    for (const auto& hook : r->handlers.hooks) hook();
  }
  active |= r->FlushAll();
  return active || !r->ended.empty();
}

void Xchg::Rep::WindUp() {
  stopping = true;
  turn.now_ns = Now();
  std::vector<ConnectionId> ids;
  for (const auto& [id, link] : links) ids.push_back(id);
  std::sort(ids.begin(), ids.end());
  for (const ConnectionId id : ids) CloseLink(links[id].get());
  for (auto& [address, there] : peers) {
    for (const auto& peer : there) {
      if (peer->waiting == nullptr) continue;
      Drop(peer->waiting.get());
      peer->waiting.reset();
    }
  }
  // Callbacks may call again, and are told Unavailable; not for ever.
  for (int i = 0; i < kStopTurns; ++i) {
    const size_t n = port->Poll(completions);
    for (size_t j = 0; j < n; ++j) Dispatch(completions[j]);
    if (!ended.Run() && n == 0) break;
  }
  ended.Clear();
  memory.FreeAll();  // no connection is left that could read them (F4)
}

StatusOr<std::unique_ptr<Xchg>> Xchg::Open(Fabric* fabric, const Hello& self, XchgOptions options) {
  PortOptions port_options;
  port_options.name = options.name;
  port_options.index = options.index;
  port_options.max_pending_requests = Rep::kMaxPendingRequests;
  auto port = fabric->OpenPort(port_options);
  if (!port.ok()) return Annotate(port.status(), StrCat("opening exchange thread ", options.name));
  return std::unique_ptr<Xchg>(
      new Xchg(std::make_unique<Rep>(fabric, self, std::move(options), *std::move(port))));
}

Xchg::Xchg(std::unique_ptr<Rep> rep) : rep_(std::move(rep)) {}

Xchg::~Xchg() { Stop(); }

Port* Xchg::port() { return rep_->port.get(); }

void Xchg::Handle(uint16_t type, Handler handler, Histogram* served_ns) {
  NOVA_CHECK(type >= 1 && type <= MessageHeader::kMaxType);
  if (rep_->handlers.services.size() <= type) rep_->handlers.services.resize(type + 1u);
  rep_->handlers.services[type] = {std::move(handler), served_ns};
}

void Xchg::HandleDisconnect(std::function<void(ConnectionId)> handler) {
  rep_->handlers.disconnected = std::move(handler);
}

void Xchg::AddTurnHook(std::function<void()> hook) { rep_->handlers.hooks.push_back(std::move(hook)); }

void Xchg::AddTimer(Nanos period_ns, std::function<void()> fn) {
  auto periodic = std::make_unique<XchgPeriodic>();
  periodic->period_ns = period_ns;
  periodic->fn = std::move(fn);
  rep_->wheel.Add(periodic.get(), Now() + period_ns);
  rep_->handlers.periodics.push_back(std::move(periodic));
}

void Xchg::SetQueueDepthSource(std::function<uint32_t()> depth) {
  rep_->handlers.queue_depth = std::move(depth);
}

void Xchg::Start() {
  Rep* r = rep_.get();
  NOVA_CHECK(r->running.thread == nullptr) << "started twice";
  r->running.thread = std::make_unique<Thread>(r->options.name, [this, r] {
    r->running.owner.store(Thread::CurrentId());
    // Virtual time stands still while a fiber spins.
    const Nanos spin_ns = Simulation::Current() == nullptr ? r->options.spin_ns : 0;
    Nanos active_ns = 0;
    while (!r->running.stop.load()) {
      if (RunOnce()) {
        active_ns = r->turn.now_ns;
      } else if (r->turn.now_ns - active_ns >= spin_ns) {
        Bump(r->count.sleeps);
        r->port->Wait(r->wheel.NextDue());
      }
    }
    r->WindUp();
  });
}

void Xchg::Stop() {
  Rep* r = rep_.get();
  if (r->running.stopped) return;
  r->running.stopped = true;
  r->running.stop.store(true);
  if (r->running.thread != nullptr) {
    r->port->Wake();
    r->running.thread->Join();
  } else {
    r->WindUp();
  }
  // What is left to run never will; what it holds is let go of now, while the users of this thread still
  // stand.
  std::vector<absl::AnyInvocable<void()>> unrun = r->submitted.Close();
  r->one_shots.ForEach([&](XchgOneShot* one_shot) { unrun.push_back(std::exchange(one_shot->fn, {})); });
}

void Xchg::Submit(absl::AnyInvocable<void()> fn) {
  rep_->submitted.Add(std::move(fn));
  rep_->port->Wake();
}

bool Xchg::IsCurrentThread() const {
  return rep_->running.owner.load(std::memory_order_relaxed) == Thread::CurrentId();
}

const XchgOptions& Xchg::options() const { return rep_->options; }

XchgCounters Xchg::counters() const {
  const auto& c = rep_->count;
  XchgCounters out;
  out.messages_sent = c.messages_sent;
  out.messages_received = c.messages_received;
  out.bytes_sent = c.bytes_sent;
  out.bytes_received = c.bytes_received;
  out.late_replies = c.late_replies;
  out.dropped_replies = c.dropped_replies;
  out.waited_requests = c.waited_requests;
  out.cut_off = c.cut_off;
  out.malformed = c.malformed;
  out.deadlines = c.deadlines;
  out.connects = c.connects;
  out.connect_failures = c.connect_failures;
  out.turns = c.turns;
  out.sleeps = c.sleeps;
  return out;
}

Peer* Xchg::peer(const std::string& address, const PeerIdentity& who) {
  NOVA_DCHECK(rep_->OnXchg());
  auto& there = rep_->peers[address];
  for (const auto& peer : there) {
    if (peer->who == who) return peer.get();
  }
  return there.emplace_back(std::make_unique<Peer>(address, who)).get();
}

void Xchg::RunAt(Nanos when_ns, absl::AnyInvocable<void()> fn) {
  NOVA_DCHECK(rep_->OnXchg());
  XchgOneShot* const one_shot = rep_->one_shots.New();
  one_shot->fn = std::move(fn);
  rep_->wheel.Add(one_shot, when_ns);
}

void Xchg::Close(ConnectionId connection) {
  NOVA_DCHECK(rep_->OnXchg());
  XchgLink* const link = rep_->FindLink(connection);
  if (link == nullptr || link->state == XchgLink::State::kDead) return;
  Bump(rep_->count.malformed);
  rep_->CloseLink(link);
}

Nanos Xchg::turn_time_ns() const { return rep_->turn.now_ns; }

}  // namespace nova
