#include "common/rdma/xchg.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstring>
#include <deque>
#include <map>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "common/base/log.h"
#include "common/base/random.h"
#include "common/base/simulation.h"
#include "common/rdma/handshake.h"
#include "common/rdma/ring.h"
#include "common/rdma/timer_wheel.h"

namespace nova {
namespace {

constexpr uint64_t kPieceTag = uint64_t{1} << 63;  // of a WorkRequest::id that names a Piece, not an Op
constexpr uint32_t kNone = UINT32_MAX;
constexpr size_t kPollBatch = 64;
constexpr size_t kPostBatch = 256;
constexpr uint32_t kMaxPendingRequests = 1024;
constexpr int kStopTurns = 100;
constexpr Nanos kStableConnection = kSecond;  // one that lived shorter counts as a failed attempt
constexpr size_t kExpectedReply = 4096;       // bytes, where nobody says more

// Shares, as one part in so many.
constexpr size_t kCallShare = 2;     // of what send memory is free: for calls to one peer
constexpr size_t kReplyShare = 4;    // of what is free beyond the next: for replies to one peer
constexpr size_t kKeptForFirst = 4;  // of all send memory: for connections that have none of it
constexpr size_t kKeptForCalls = 8;  // of all send memory, and a part of the above: for calls of our own
constexpr size_t kWaitingShare = 4;  // of what more may wait: for requests of one peer

void Bump(std::atomic<uint64_t>& counter, uint64_t n = 1) {  // one writer
  counter.store(counter.load(std::memory_order_relaxed) + n, std::memory_order_relaxed);
}

// Each size of pieces may keep a slab that it hardly uses: together they are less than what is kept for
// calls.
size_t SlabBytes(size_t pool_bytes) {
  return std::clamp<size_t>(std::bit_floor(pool_bytes / 128), 64 << 10, 1 << 20);
}

size_t TotalOf(std::span<const std::string_view> parts) {
  size_t total = 0;
  for (const std::string_view part : parts) total += part.size();
  return total;
}

struct Link;

struct Timed : TimerNode {
  enum class What : uint8_t { kOp, kLink, kProgress, kPeriodic, kOneShot };
  explicit Timed(What w) : what(w) {}
  const What what;
};

// A call or one-sided operation that has not ended. Pooled; `serial` tells apart the uses of one record.
struct Op : Timed {
  enum class Kind : uint8_t { kFree, kCall, kOneSided };
  Op() : Timed(What::kOp) {}
  uint32_t index = 0;
  uint32_t serial = 1;
  Kind kind = Kind::kFree;
  bool posted = false;
  // Of a call:
  size_t bytes = 0;
  CallTag tag;
  Nanos since_ns = 0;
  Link* link = nullptr;
  Op* prev = nullptr;  // among the link's
  Op* next = nullptr;
  CallDone call_done;
  OpDone op_done;
  uint64_t id() const { return static_cast<uint64_t>(serial) << 32 | index; }
};

// A message piece in send memory, from encoded to completed.
struct Piece {
  Buffer buffer;
};

struct Queued {
  WorkRequest request;
  uint32_t op = kNone;  // on whose behalf; kNone: a reply
  uint32_t serial = 0;
  // Of a message or operation: what has begun is sent to its end, or the peer could not parse on.
  bool first = false;
};

struct Ended {
  CallDone call_done;
  OpDone op_done;
  Outcome outcome = Outcome::kUnknown;
  CallEnd end = CallEnd::kHere;
};

// A request of a peer that a handler has begun and not answered. Pooled; `serial` as of an Op.
struct Begun {
  uint32_t index = 0;
  uint32_t serial = 1;
  uint64_t peers_id = 0;
  size_t expected = 0;  // bytes of the reply
  Nanos deadline_ns = kNever;
  Nanos since_ns = 0;              // the turn in which it came
  Histogram* served_ns = nullptr;  // gets the time until its reply; null: nobody asks
  Link* link = nullptr;            // null: free
  Begun* prev = nullptr;           // among the link's
  Begun* next = nullptr;
  uint64_t id() const { return static_cast<uint64_t>(serial) << 32 | index; }
};

// A request of a peer that has to wait until the peer has less under way.
struct Waiting {
  uint16_t type = 0;
  uint64_t peers_id = 0;
  Nanos deadline_ns = kNever;
  Nanos since_ns = 0;  // the turn in which it came
  std::string body;
};

// Looks after a link: whether its peer takes what is sent to it, and ends the messages it begins.
struct ProgressTimer : Timed {
  explicit ProgressTimer(Link* l) : Timed(What::kProgress), link(l) {}
  Link* const link;
};

// One connection, or the wish for one.
struct Link : Timed {
  enum class State : uint8_t { kBackOff, kConnecting, kUp, kDead };
  explicit Link(size_t max_message_bytes)
      : Timed(What::kLink), assembler(max_message_bytes), progress(this) {}
  State state = State::kBackOff;
  ConnectionId id;
  Peer* peer = nullptr;  // null: accepted
  Hello hello;           // the other side's
  MessageAssembler assembler;
  Ring<Queued> queue;
  uint32_t in_flight = 0;
  bool dirty = false;
  bool skipping = false;  // the message whose pieces lie at the front of the queue has no taker any more
  Nanos up_since_ns = 0;
  Nanos last_used_ns = 0;
  Op* ops = nullptr;  // circular, oldest first

  // Its share. Bytes of send memory, from queued to completed; our calls that are posted and not answered.
  size_t send_bytes = 0;
  size_t calls = 0;
  size_t call_bytes = 0;
  // The peer's requests: begun and not answered, and not yet begun.
  Begun* begun = nullptr;  // circular, oldest first
  size_t begun_count = 0;
  size_t expected_bytes = 0;
  std::deque<Waiting> waiting;
  size_t waiting_bytes = 0;     // theirs
  size_t assembling_bytes = 0;  // of the message that is coming in
  // When something posted completed last, or was posted where nothing was; when the message that is coming in
  // went on.
  ProgressTimer progress;
  Nanos taken_ns = 0;
  Nanos received_ns = 0;
  bool suspected = false;  // it was overdue when last looked at
};

struct Periodic : Timed {
  Periodic() : Timed(What::kPeriodic) {}
  Nanos period_ns = 0;
  std::function<void()> fn;
};

struct OneShot : Timed {
  OneShot() : Timed(What::kOneShot) {}
  uint32_t index = 0;
  absl::AnyInvocable<void()> fn;
};

}  // namespace

class Peer {
 public:
  Peer(std::string address, const PeerIdentity& who) : address(std::move(address)), who(who) {}
  const std::string address;
  const PeerIdentity who;
  Link* link = nullptr;           // the current one
  std::unique_ptr<Link> waiting;  // owned here while it has no connection id
  uint64_t generation = 0;        // handshake (F3)
  int failures = 0;
  Nanos next_attempt_ns = 0;
};

struct Xchg::Rep {
  Rep(Fabric* fabric, const Hello& hello, XchgOptions opts, std::unique_ptr<Port> port);

  // --- constant, or set up before Start
  Fabric* const fabric;
  const Hello self;
  const XchgOptions options;
  BufferPool send_pool;
  std::unique_ptr<Port> port;
  struct Service {
    Handler handler;
    Histogram* served_ns = nullptr;
  };
  std::vector<Service> services;  // by type
  std::function<void(ConnectionId)> disconnect_handler;
  std::vector<std::function<void()>> hooks;
  std::vector<std::unique_ptr<Periodic>> periodics;
  std::function<uint32_t()> queue_depth;

  // --- of the thread
  // by address; those that were meant to be there
  std::map<std::string, std::vector<std::unique_ptr<Peer>>> peers;
  absl::flat_hash_map<ConnectionId, std::unique_ptr<Link>>
      links;  // looked up, never iterated where order shows
  std::vector<std::unique_ptr<Op>> ops;
  std::vector<uint32_t> free_ops;
  std::vector<Piece> pieces;
  std::vector<uint32_t> free_pieces;
  std::vector<std::unique_ptr<Begun>> begun;
  std::vector<uint32_t> free_begun;
  std::vector<ConnectionId> held;  // their requests wait
  std::vector<ConnectionId> resuming;
  bool room_made = false;  // since those were looked at
  // Of all links together.
  size_t send_bytes = 0;
  size_t expected_bytes = 0;
  size_t waiting_bytes = 0;  // assembling ones too
  std::vector<std::unique_ptr<OneShot>> one_shots;
  std::vector<uint32_t> free_one_shots;
  std::vector<ConnectionId> dirty;
  std::vector<ConnectionId> flushing;
  std::vector<Ended> ended;  // their done runs later in the turn, never where they ended
  std::vector<Ended> running;
  std::vector<WorkRequest> post;
  std::vector<uint32_t> message;  // pieces of the message under construction
  std::array<Completion, kPollBatch> completions;
  TimerWheel wheel;
  Random random;
  Nanos turn_ns;
  uint64_t turn_clock = 0;  // hybrid logical clock of this turn; 0: not read yet
  bool stopping = false;

  // --- any thread
  std::atomic<const void*> owner{nullptr};
  std::atomic<bool> stop{false};
  Mutex mu;
  std::vector<absl::AnyInvocable<void()>> submitted ABSL_GUARDED_BY(mu);
  bool closed ABSL_GUARDED_BY(mu) = false;
  std::atomic<bool> have_submitted{false};
  std::vector<absl::AnyInvocable<void()>> taken;  // of the thread
  std::unique_ptr<Thread> thread;
  bool stopped = false;

  struct {
    std::atomic<uint64_t> messages_sent{0}, messages_received{0}, bytes_sent{0}, bytes_received{0},
        late_replies{0}, dropped_replies{0}, waited_requests{0}, cut_off{0}, malformed{0}, deadlines{0},
        connects{0}, connect_failures{0}, turns{0}, sleeps{0};
  } count;

  bool OnXchg() const {
    const void* id = owner.load(std::memory_order_relaxed);
    return id == nullptr || id == Thread::CurrentId();
  }

  // Links
  Link* LinkOf(Peer* peer);
  void Connect(Link* link);
  void LinkUp(const Completion& c);
  void LinkGone(const Completion& c);
  void Drop(Link* link);
  void CloseLink(Link* link);
  void AttemptFailed(Peer* peer);
  void CutOff(Link* link, std::string_view why);
  void MarkDirty(Link* link);
  void Flush(Link* link);
  void Posted(Op* op);
  void WatchProgress(Link* link);
  void LookAtProgress(Link* link);

  // Shares
  size_t FreeSendBytes() const;
  bool MayCall(const Link& link) const;
  bool MayPost(size_t calls, size_t call_bytes) const;
  bool MayBegin(const Link& link) const;
  void CountWaiting(size_t* of_link, size_t now);

  // Operations
  Op* NewOp(Op::Kind kind, Link* link, Nanos deadline_ns);
  Op* FindOp(uint64_t id);
  void FreeOp(Op* op);
  void EndOp(Op* op, Outcome outcome, CallEnd end = CallEnd::kHere);
  void FailLater(CallDone call_done, OpDone op_done, Outcome outcome, CallEnd end = CallEnd::kHere);
  bool Encode(MessageHeader header, std::span<const std::string_view> parts, size_t total);
  void Enqueue(Link* link, const Op* op);
  void FreePiece(Link* link, uint32_t index);
  void Reply(ConnectionId connection, uint64_t request_id, Outcome outcome,
             std::span<const std::string_view> parts);
  void OneSided(Peer* peer, WorkRequest request, Nanos deadline_ns, OpDone done);

  // Requests of peers
  void Request(Link* link, const MessageAssembler::Message& m);
  void Wait(Link* link, Waiting request);
  void Begin(Link* link, uint16_t type, uint64_t peers_id, Nanos deadline_ns, Nanos since_ns,
             std::string_view body);
  Begun* FindBegun(uint64_t id);
  void EndBegun(Begun* b);
  void Expect(Begun* b, size_t bytes);
  void ForgetOverdue(Link* link);
  bool BeginWaiting();
  bool Resume(Link* link);

  // A turn
  void Dispatch(const Completion& c);
  void RequestEnded(const Completion& c);
  void Received(const Completion& c);
  void Assembling(Link* link);
  void Fire(TimerNode* node);
  bool RunSubmitted();
  bool RunEnded();
  bool FlushAll();
  void WindUp();
};

Xchg::Rep::Rep(Fabric* f, const Hello& hello, XchgOptions opts, std::unique_ptr<Port> p)
    : fabric(f),
      self(hello),
      options(std::move(opts)),
      send_pool(f, Access::kLocal, options.send_pool_bytes, SlabBytes(options.send_pool_bytes)),
      port(std::move(p)),
      wheel(Now()),
      turn_ns(Now()) {}

// --- Links

Link* Xchg::Rep::LinkOf(Peer* peer) {
  if (peer->link != nullptr) return peer->link;
  auto link = std::make_unique<Link>(options.max_message_bytes);
  link->peer = peer;
  peer->link = link.get();
  peer->waiting = std::move(link);
  if (turn_ns >= peer->next_attempt_ns) {
    Connect(peer->link);
  } else {
    wheel.Add(peer->link, peer->next_attempt_ns);
  }
  return peer->link;
}

void Xchg::Rep::Connect(Link* link) {
  Peer* peer = link->peer;
  Hello hello = self;
  hello.xchg_index = options.index;
  hello.generation = ++peer->generation;
  hello.meant_for = peer->who;
  link->state = Link::State::kConnecting;
  link->id = port->Connect(peer->address, hello, turn_ns + options.connect_timeout_ns);
  links.emplace(link->id, std::move(peer->waiting));
}

void Xchg::Rep::LinkUp(const Completion& c) {
  Bump(count.connects);
  Link* link;
  if (c.accepted) {
    auto made = std::make_unique<Link>(options.max_message_bytes);
    link = made.get();
    link->id = c.connection;
    links.emplace(link->id, std::move(made));
  } else {
    const auto it = links.find(c.connection);
    if (it == links.end() || it->second->state != Link::State::kConnecting) return;
    link = it->second.get();
    wheel.Add(link, turn_ns + options.idle_close_ns);
  }
  link->state = Link::State::kUp;
  link->hello = *c.hello;
  link->up_since_ns = link->last_used_ns = turn_ns;
  if (!link->queue.empty()) MarkDirty(link);
}

void Xchg::Rep::AttemptFailed(Peer* peer) {
  const int doublings = std::min(peer->failures++, 20);
  const Nanos most = std::min(options.reconnect_max_ns, options.reconnect_min_ns << doublings);
  peer->next_attempt_ns =
      turn_ns + most / 2 + static_cast<Nanos>(random.Uniform(static_cast<uint64_t>(most / 2) + 1));
}

// Takes the link from its peer and ends what was under way on it; the record stays until kDisconnected.
void Xchg::Rep::Drop(Link* link) {
  if (link->state == Link::State::kDead) return;
  if (Peer* peer = link->peer; peer != nullptr) {
    if (link->state == Link::State::kConnecting) {
      Bump(count.connect_failures);
      AttemptFailed(peer);
    } else if (link->state == Link::State::kUp && turn_ns - link->up_since_ns < kStableConnection) {
      AttemptFailed(peer);
    } else if (link->state == Link::State::kUp) {
      peer->failures = 0;
    }
    peer->link = nullptr;
  }
  link->state = Link::State::kDead;
  wheel.Remove(link);
  wheel.Remove(&link->progress);
  for (; !link->queue.empty(); link->queue.pop_front()) {
    const uint64_t id = link->queue.front().request.id;
    if ((id & kPieceTag) != 0) FreePiece(link, static_cast<uint32_t>(id));
  }
  while (link->begun != nullptr) EndBegun(link->begun);
  link->waiting.clear();
  CountWaiting(&link->waiting_bytes, 0);
  CountWaiting(&link->assembling_bytes, 0);
  while (link->ops != nullptr)
    EndOp(link->ops, link->ops->posted ? Outcome::kUnknown : Outcome::kUnavailable, CallEnd::kConnection);
}

void Xchg::Rep::CloseLink(Link* link) {
  port->Disconnect(link->id);
  Drop(link);
}

// One that takes more than its share, or holds on to it.
void Xchg::Rep::CutOff(Link* link, std::string_view why) {
  Bump(count.cut_off);
  NOVA_LOG(WARNING) << options.name << ": the connection with " << NameOf(link->hello)
                    << " is closed: " << why;
  CloseLink(link);
}

void Xchg::Rep::LinkGone(const Completion& c) {
  const auto it = links.find(c.connection);
  if (it == links.end()) return;
  Drop(it->second.get());
  const bool accepted = it->second->peer == nullptr;
  links.erase(it);
  if (accepted && disconnect_handler && !stopping) disconnect_handler(c.connection);
}

void Xchg::Rep::MarkDirty(Link* link) {
  if (link->dirty || link->state != Link::State::kUp) return;
  link->dirty = true;
  dirty.push_back(link->id);
}

// Posts what is queued, as far as the connection takes it and its peer has answered enough; the rest follows
// when completions and answers make room.
void Xchg::Rep::Flush(Link* link) {
  while (!link->queue.empty() && link->in_flight < kMaxPendingRequests && link->state == Link::State::kUp) {
    const size_t room = std::min<size_t>(kPostBatch, kMaxPendingRequests - link->in_flight);
    post.clear();
    bool skipping = link->skipping;
    size_t calls = link->calls, call_bytes = link->call_bytes;
    uint64_t scanned = link->queue.head();
    for (; scanned < link->queue.tail() && post.size() < room; ++scanned) {
      const Queued& q = link->queue[scanned];
      if (q.first) skipping = q.op != kNone && ops[q.op]->serial != q.serial;
      if (q.first && !skipping && q.op != kNone && ops[q.op]->kind == Op::Kind::kCall) {
        if (!MayPost(calls, call_bytes + ops[q.op]->bytes)) break;
        ++calls;
        call_bytes += ops[q.op]->bytes;
      }
      if (!skipping) post.push_back(q.request);
    }
    if (scanned == link->queue.head()) return;
    // Refused only when the connection has broken: kDisconnected is on its way and ends what stays queued.
    if (!post.empty() && !port->Post(link->id, post).ok()) return;
    if (link->in_flight == 0) link->taken_ns = turn_ns;
    link->in_flight += static_cast<uint32_t>(post.size());
    if (!post.empty()) WatchProgress(link);
    for (uint64_t i = link->queue.head(); i < scanned; ++i) {
      const Queued& q = link->queue.front();
      if (q.first) link->skipping = q.op != kNone && ops[q.op]->serial != q.serial;
      if (link->skipping) {
        if ((q.request.id & kPieceTag) != 0) FreePiece(link, static_cast<uint32_t>(q.request.id));
      } else if (q.op != kNone && ops[q.op]->serial == q.serial) {
        Posted(ops[q.op].get());
      }
      link->queue.pop_front();
    }
  }
}

void Xchg::Rep::Posted(Op* op) {
  if (op->posted) return;
  op->posted = true;
  if (op->kind != Op::Kind::kCall) return;
  ++op->link->calls;
  op->link->call_bytes += op->bytes;
}

// --- Shares

// What is neither taken nor expected to be.
size_t Xchg::Rep::FreeSendBytes() const {
  const size_t taken = send_bytes + expected_bytes;
  return options.send_pool_bytes - std::min(taken, options.send_pool_bytes);
}

// One more message to a peer that has taken little of what lies here for it.
bool Xchg::Rep::MayCall(const Link& link) const {
  if (link.queue.size() >= options.max_queued_calls_per_peer) return false;
  return link.send_bytes == 0 || link.send_bytes < FreeSendBytes() / kCallShare;
}

// With one more call there would be `call_bytes` of them under way.
bool Xchg::Rep::MayPost(size_t calls, size_t call_bytes) const {
  if (calls == 0) return true;
  return calls < options.max_calls_per_connection && call_bytes <= options.max_call_bytes_per_connection;
}

// The first while there is more send memory than is kept for calls of our own; more while there is some for
// the first of others, too.
bool Xchg::Rep::MayBegin(const Link& link) const {
  if (link.begun_count >= options.max_calls_per_connection ||
      link.queue.size() >= options.max_queued_calls_per_peer)
    return false;
  const size_t taken = link.send_bytes + link.expected_bytes;
  const size_t free = FreeSendBytes();
  if (taken == 0) return free > options.send_pool_bytes / kKeptForCalls;
  const size_t beyond = free - std::min(free, options.send_pool_bytes / kKeptForFirst);
  return taken < std::min(options.max_reply_bytes_per_connection, beyond / kReplyShare);
}

// `of_link` is a number of bytes that wait at one link.
void Xchg::Rep::CountWaiting(size_t* of_link, size_t now) {
  waiting_bytes = waiting_bytes - *of_link + now;
  *of_link = now;
}

void Xchg::Rep::WatchProgress(Link* link) {
  if (!link->progress.linked()) wheel.Add(&link->progress, turn_ns + options.progress_timeout_ns);
}

// Overdue twice, with turns between: it is not this thread that was held up, and has what the peer took
// still to look at.
void Xchg::Rep::LookAtProgress(Link* link) {
  Nanos since = kNever;
  if (link->in_flight > 0) since = link->taken_ns;
  if (link->assembling_bytes > 0) since = std::min(since, link->received_ns);
  if (since == kNever) {
    link->suspected = false;
    return;
  }
  const Nanos due = since + options.progress_timeout_ns;
  if (due > turn_ns) {
    link->suspected = false;
    return wheel.Add(&link->progress, due);
  }
  if (link->suspected)
    return CutOff(link, link->in_flight > 0 ? "it takes nothing" : "it does not end its message");
  link->suspected = true;
  wheel.Add(&link->progress, turn_ns + options.progress_timeout_ns / 8);
}

// --- Operations

Op* Xchg::Rep::NewOp(Op::Kind kind, Link* link, Nanos deadline_ns) {
  if (free_ops.empty()) {
    free_ops.push_back(static_cast<uint32_t>(ops.size()));
    ops.push_back(std::make_unique<Op>());
    ops.back()->index = free_ops.back();
  }
  Op* op = ops[free_ops.back()].get();
  free_ops.pop_back();
  op->kind = kind;
  op->posted = false;
  op->bytes = 0;
  op->link = link;
  if (link->ops == nullptr) {
    link->ops = op->prev = op->next = op;
  } else {
    op->prev = link->ops->prev;
    op->next = link->ops;
    op->prev->next = op;
    op->next->prev = op;
  }
  wheel.Add(op, deadline_ns);
  return op;
}

Op* Xchg::Rep::FindOp(uint64_t id) {
  const auto index = static_cast<uint32_t>(id);
  if (index >= ops.size() || ops[index]->kind == Op::Kind::kFree || ops[index]->id() != id) return nullptr;
  return ops[index].get();
}

void Xchg::Rep::FreeOp(Op* op) {
  wheel.Remove(op);
  if (op->posted && op->kind == Op::Kind::kCall) {
    --op->link->calls;
    op->link->call_bytes -= op->bytes;
    if (!op->link->queue.empty()) MarkDirty(op->link);
  }
  if (op->next == op) {
    op->link->ops = nullptr;
  } else {
    op->prev->next = op->next;
    op->next->prev = op->prev;
    if (op->link->ops == op) op->link->ops = op->next;
  }
  op->kind = Op::Kind::kFree;
  op->serial = op->serial == INT32_MAX ? 1 : op->serial + 1;  // 31 bits: the top one is kPieceTag
  op->call_done = nullptr;
  op->op_done = nullptr;
  free_ops.push_back(op->index);
}

void Xchg::Rep::EndOp(Op* op, Outcome outcome, CallEnd end) {
  FailLater(std::move(op->call_done), std::move(op->op_done), outcome, end);
  FreeOp(op);
}

void Xchg::Rep::FailLater(CallDone call_done, OpDone op_done, Outcome outcome, CallEnd end) {
  ended.push_back({std::move(call_done), std::move(op_done), outcome, end});
}

// `link`: it was queued for; null: for none.
void Xchg::Rep::FreePiece(Link* link, uint32_t index) {
  const size_t bytes = pieces[index].buffer.capacity();
  if (link != nullptr) link->send_bytes -= bytes;
  send_bytes -= bytes;
  room_made = true;
  pieces[index].buffer.Reset();
  free_pieces.push_back(index);
}

// Puts the message into send memory, in `message`. False: none left.
bool Xchg::Rep::Encode(MessageHeader header, std::span<const std::string_view> parts, size_t total) {
  if (turn_clock == 0) turn_clock = static_cast<uint64_t>(WallNowMs()) << 16;
  header.clock = turn_clock;
  message.clear();
  const size_t most = port->max_message_bytes() - sizeof(MessageHeader);
  size_t part = 0, offset = 0, left = total;
  do {
    const size_t body = std::min(left, most);
    Buffer buffer = send_pool.Allocate(sizeof(MessageHeader) + body);
    if (!buffer) {
      for (const uint32_t index : message) FreePiece(nullptr, index);
      return false;
    }
    const bool first = message.empty();
    header.body_length = static_cast<uint32_t>(first ? total : body);
    header.flags = static_cast<uint8_t>((header.flags & MessageHeader::kReply) |
                                        (first ? 0 : MessageHeader::kContinuation) |
                                        (body < left ? MessageHeader::kMorePieces : 0));
    std::memcpy(buffer.data(), &header, sizeof(header));
    std::byte* to = buffer.data() + sizeof(header);
    for (size_t copied = 0; copied < body;) {
      const size_t n = std::min(parts[part].size() - offset, body - copied);
      if (n > 0) std::memcpy(to + copied, parts[part].data() + offset, n);
      copied += n;
      offset += n;
      if (offset == parts[part].size()) {
        ++part;
        offset = 0;
      }
    }
    left -= body;
    if (free_pieces.empty()) {
      free_pieces.push_back(static_cast<uint32_t>(pieces.size()));
      pieces.emplace_back();
    }
    message.push_back(free_pieces.back());
    free_pieces.pop_back();
    send_bytes += buffer.capacity();
    pieces[message.back()].buffer = std::move(buffer);
  } while (left > 0);
  return true;
}

// Queues the pieces in `message`, whose lengths their headers tell.
void Xchg::Rep::Enqueue(Link* link, const Op* op) {
  bool first = true;
  size_t left = 0;
  for (const uint32_t index : message) {
    const Buffer& buffer = pieces[index].buffer;
    MessageHeader header;
    std::memcpy(&header, buffer.data(), sizeof(header));
    if (first) left = header.body_length;
    const size_t body = std::min(left, port->max_message_bytes() - sizeof(header));
    left -= body;
    Queued& q = link->queue.emplace_back();
    q.request.id = kPieceTag | index;
    q.request.opcode = Opcode::kSend;
    q.request.piece_count = 1;
    q.request.pieces[0] = {buffer.data(), static_cast<uint32_t>(sizeof(header) + body), buffer.lkey()};
    q.op = op == nullptr ? kNone : op->index;
    q.serial = op == nullptr ? 0 : op->serial;
    q.first = first;
    first = false;
    link->send_bytes += buffer.capacity();
    Bump(count.bytes_sent, sizeof(header) + body);
  }
  Bump(count.messages_sent);
  link->last_used_ns = turn_ns;
  MarkDirty(link);
}

void Xchg::EndPause(Peer* peer) {
  peer->next_attempt_ns = 0;
  Link* const link = peer->link;
  if (link == nullptr || link->state != Link::State::kBackOff) return;
  rep_->wheel.Remove(link);
  rep_->Connect(link);
}

void Xchg::Call(Peer* peer, uint16_t type, std::span<const std::string_view> parts, Nanos deadline_ns,
                CallDone done, const CallTag& tag) {
  Rep* r = rep_.get();
  NOVA_DCHECK(r->OnXchg());
  const size_t total = TotalOf(parts);
  if (total > r->options.max_message_bytes)
    return r->FailLater(std::move(done), nullptr, Outcome::kInvalidArgument);
  if (r->stopping || deadline_ns <= r->turn_ns)
    return r->FailLater(std::move(done), nullptr, Outcome::kUnavailable);
  Link* link = r->LinkOf(peer);
  if (!r->MayCall(*link)) return r->FailLater(std::move(done), nullptr, Outcome::kUnavailable);
  Op* op = r->NewOp(Op::Kind::kCall, link, deadline_ns);
  op->bytes = total;
  op->tag = tag;
  op->since_ns = r->turn_ns;
  op->call_done = std::move(done);
  MessageHeader header;
  header.type = type;
  header.request_id = op->id();
  header.deadline_or_depth = MessageHeader::kNoDeadline;
  if (deadline_ns != kNever) {
    const Nanos left_us = (deadline_ns - r->turn_ns) / kMicrosecond;
    header.deadline_or_depth =
        static_cast<uint32_t>(std::min<Nanos>(left_us, MessageHeader::kNoDeadline - 1));
  }
  if (!r->Encode(header, parts, total)) return r->EndOp(op, Outcome::kUnavailable);
  r->Enqueue(link, op);
}

void Xchg::LookAtCalls(const std::function<bool(const CallTag&, Nanos since_ns)>& ends) {
  NOVA_DCHECK(rep_->OnXchg());
  for (const auto& op : rep_->ops) {
    if (op->kind != Op::Kind::kCall || !ends(op->tag, op->since_ns)) continue;
    rep_->EndOp(op.get(), op->posted ? Outcome::kUnknown : Outcome::kUnavailable);
  }
}

void Xchg::Rep::Reply(ConnectionId connection, uint64_t request_id, Outcome outcome,
                      std::span<const std::string_view> parts) {
  NOVA_DCHECK(OnXchg());
  Begun* b = FindBegun(request_id);
  if (b == nullptr || b->link->id != connection) return Bump(count.dropped_replies);
  Link* link = b->link;
  const size_t total = TotalOf(parts);
  MessageHeader header;
  header.type = 1;  // a reply is known by its request id
  header.flags = MessageHeader::kReply;
  header.outcome = static_cast<uint8_t>(outcome);
  header.request_id = b->peers_id;
  header.deadline_or_depth = queue_depth ? queue_depth() : 0;
  if (b->served_ns != nullptr) b->served_ns->Add(static_cast<uint64_t>(Now() - b->since_ns));
  EndBegun(b);
  // Far beyond its share only when what it asked for was longer than was expected.
  if (link->queue.size() >= 2 * options.max_queued_calls_per_peer ||
      link->send_bytes >= 2 * options.max_reply_bytes_per_connection) {
    Bump(count.dropped_replies);
    return CutOff(link, "it does not read its replies");
  }
  if (total <= options.max_message_bytes && Encode(header, parts, total)) return Enqueue(link, nullptr);
  Bump(count.dropped_replies);
  if (link->send_bytes >= options.send_pool_bytes / (2 * kReplyShare))
    return CutOff(link, "it does not read its replies");
  NOVA_LOG(WARNING) << options.name << ": no memory for a reply of " << total
                    << " bytes; its requester will time out";
}

void Xchg::Rep::OneSided(Peer* peer, WorkRequest request, Nanos deadline_ns, OpDone done) {
  NOVA_DCHECK(OnXchg());
  if (stopping || deadline_ns <= turn_ns) return FailLater(nullptr, std::move(done), Outcome::kUnavailable);
  Link* link = LinkOf(peer);
  if (link->queue.size() >= options.max_queued_calls_per_peer) {
    return FailLater(nullptr, std::move(done), Outcome::kUnavailable);
  }
  Op* op = NewOp(Op::Kind::kOneSided, link, deadline_ns);
  op->op_done = std::move(done);
  request.id = op->id();
  link->queue.push_back({request, op->index, op->serial, true});
  link->last_used_ns = turn_ns;
  MarkDirty(link);
}

namespace {

WorkRequest OneSidedRequest(Opcode opcode, std::span<const LocalBuffer> local, uint64_t remote_address,
                            uint32_t rkey) {
  NOVA_CHECK(local.size() <= kMaxPieces);
  WorkRequest request;
  request.opcode = opcode;
  request.piece_count = static_cast<uint8_t>(local.size());
  std::copy(local.begin(), local.end(), request.pieces.begin());
  request.remote_address = remote_address;
  request.rkey = rkey;
  return request;
}

}  // namespace

void Xchg::Write(Peer* peer, std::span<const LocalBuffer> local, uint64_t remote_address, uint32_t rkey,
                 Nanos deadline_ns, OpDone done) {
  rep_->OneSided(peer, OneSidedRequest(Opcode::kWrite, local, remote_address, rkey), deadline_ns,
                 std::move(done));
}

void Xchg::Read(Peer* peer, LocalBuffer local, uint64_t remote_address, uint32_t rkey, Nanos deadline_ns,
                OpDone done) {
  rep_->OneSided(peer, OneSidedRequest(Opcode::kRead, {&local, 1}, remote_address, rkey), deadline_ns,
                 std::move(done));
}

// --- What arrives

void Xchg::Rep::RequestEnded(const Completion& c) {
  Link* link = nullptr;
  if (const auto it = links.find(c.connection); it != links.end()) {
    link = it->second.get();
    --link->in_flight;
    link->taken_ns = turn_ns;
    if (!link->queue.empty()) MarkDirty(link);
  }
  if ((c.id & kPieceTag) != 0) {
    FreePiece(link, static_cast<uint32_t>(c.id));
    if (c.status != CompletionStatus::kLocalError) return;
    // The peer's port takes shorter messages than ours: nothing sensible can follow on this connection.
    NOVA_LOG(ERROR) << options.name << ": a message could not be posted";
    if (link != nullptr) CloseLink(link);
    return;
  }
  Op* op = FindOp(c.id);
  if (op == nullptr || op->kind != Op::Kind::kOneSided) return;
  OpDone done = std::move(op->op_done);
  FreeOp(op);
  done(c.status == CompletionStatus::kOk ? Outcome::kOk : Outcome::kUnknown);
}

void Xchg::Rep::Received(const Completion& c) {
  const auto it = links.find(c.connection);
  if (it == links.end() || it->second->state != Link::State::kUp) return;
  Link* link = it->second.get();
  link->last_used_ns = turn_ns;
  Bump(count.bytes_received, c.data.size());
  MessageAssembler::Message m;
  switch (link->assembler.Add(c.data, &m)) {
    case MessageAssembler::Result::kMore:
      return Assembling(link);
    case MessageAssembler::Result::kMessage:
      if (link->assembling_bytes > 0) CountWaiting(&link->assembling_bytes, 0);
      break;
    case MessageAssembler::Result::kMalformed:
      Bump(count.malformed);
      return CloseLink(link);
  }
  Bump(count.messages_received);
  if ((m.header.flags & MessageHeader::kReply) != 0) {
    Op* op = FindOp(m.header.request_id);
    if (op == nullptr || op->kind != Op::Kind::kCall || op->link != link || !op->posted)
      return Bump(count.late_replies);
    CallDone done = std::move(op->call_done);
    FreeOp(op);
    CallResult result;
    result.end = CallEnd::kReply;
    result.outcome = m.header.outcome <= static_cast<uint8_t>(kMaxOutcome)
                         ? static_cast<Outcome>(m.header.outcome)
                         : Outcome::kInternal;
    result.body = m.body;
    result.queue_depth = m.header.deadline_or_depth;
    return done(result);
  }
  Request(link, m);
}

// A message is coming in, and was not ended by this piece.
void Xchg::Rep::Assembling(Link* link) {
  link->received_ns = turn_ns;
  CountWaiting(&link->assembling_bytes, link->assembler.bytes());
  if (waiting_bytes > options.max_waiting_bytes) return CutOff(link, "too much is coming in");
  WatchProgress(link);
}

// --- Requests of peers

void Xchg::Rep::Request(Link* link, const MessageAssembler::Message& m) {
  Nanos deadline_ns = kNever;
  if (m.header.deadline_or_depth != MessageHeader::kNoDeadline) {
    deadline_ns = turn_ns + static_cast<Nanos>(m.header.deadline_or_depth) * kMicrosecond;
  }
  if (link->waiting.empty() && MayBegin(*link)) {
    return Begin(link, m.header.type, m.header.request_id, deadline_ns, turn_ns, m.body);
  }
  Wait(link, {m.header.type, m.header.request_id, deadline_ns, turn_ns, std::string(m.body)});
}

void Xchg::Rep::Wait(Link* link, Waiting request) {
  Bump(count.waited_requests);
  ForgetOverdue(link);
  if (link->waiting.empty()) held.push_back(link->id);
  const size_t bytes = link->waiting_bytes + sizeof(Waiting) + request.body.size();
  const size_t others = waiting_bytes - link->waiting_bytes;
  const size_t share =
      std::min(options.max_waiting_bytes_per_connection,
               (options.max_waiting_bytes - std::min(others, options.max_waiting_bytes)) / kWaitingShare);
  const bool fits = link->waiting.empty() || bytes <= share;
  link->waiting.push_back(std::move(request));
  CountWaiting(&link->waiting_bytes, bytes);
  if (!fits) CutOff(link, "it asks for more than may wait");
}

void Xchg::Rep::Begin(Link* link, uint16_t type, uint64_t peers_id, Nanos deadline_ns, Nanos since_ns,
                      std::string_view body) {
  if (free_begun.empty()) {
    free_begun.push_back(static_cast<uint32_t>(begun.size()));
    begun.push_back(std::make_unique<Begun>());
    begun.back()->index = free_begun.back();
  }
  Begun* b = begun[free_begun.back()].get();
  free_begun.pop_back();
  b->peers_id = peers_id;
  b->deadline_ns = deadline_ns;
  b->since_ns = since_ns;
  const bool known = type < services.size() && services[type].handler;
  b->served_ns = known ? services[type].served_ns : nullptr;
  b->link = link;
  b->expected = 0;
  Expect(b, kExpectedReply);
  if (link->begun == nullptr) {
    link->begun = b->prev = b->next = b;
  } else {
    b->prev = link->begun->prev;
    b->next = link->begun;
    b->prev->next = b;
    b->next->prev = b;
  }
  ++link->begun_count;
  const IncomingCall call{link->id, b->id(), type, deadline_ns, body, &link->hello};
  if (known) return services[type].handler(call);
  Reply(link->id, call.request_id, Outcome::kInvalidArgument, {});
}

void Xchg::Rep::Expect(Begun* b, size_t bytes) {
  expected_bytes += bytes - b->expected;
  b->link->expected_bytes += bytes - b->expected;
  b->expected = bytes;
}

Begun* Xchg::Rep::FindBegun(uint64_t id) {
  const auto index = static_cast<uint32_t>(id);
  if (index >= begun.size() || begun[index]->link == nullptr || begun[index]->id() != id) return nullptr;
  return begun[index].get();
}

void Xchg::Rep::EndBegun(Begun* b) {
  Link* link = b->link;
  Expect(b, 0);
  if (b->next == b) {
    link->begun = nullptr;
  } else {
    b->prev->next = b->next;
    b->next->prev = b->prev;
    if (link->begun == b) link->begun = b->next;
  }
  --link->begun_count;
  b->link = nullptr;
  ++b->serial;
  free_begun.push_back(b->index);
  room_made = true;
}

// A caller that is long past its deadline waits for nothing, and a handler may have dropped what was to
// answer it.
void Xchg::Rep::ForgetOverdue(Link* link) {
  const Nanos ended_ns = turn_ns - options.progress_timeout_ns;
  while (link->begun != nullptr && link->begun->deadline_ns < ended_ns) EndBegun(link->begun);
}

// What waits begins, in order, as far as its connection has room. True: something did.
bool Xchg::Rep::BeginWaiting() {
  if (held.empty() || !room_made) return false;
  room_made = false;
  bool began = false;
  resuming.swap(held);
  for (const ConnectionId id : resuming) {
    const auto it = links.find(id);
    if (it == links.end()) continue;
    began |= Resume(it->second.get());
    if (!it->second->waiting.empty()) held.push_back(id);
  }
  resuming.clear();
  return began;
}

bool Xchg::Rep::Resume(Link* link) {
  bool began = false;
  while (!link->waiting.empty() && MayBegin(*link)) {
    const Waiting request = std::move(link->waiting.front());
    link->waiting.pop_front();
    CountWaiting(&link->waiting_bytes, link->waiting_bytes - sizeof(Waiting) - request.body.size());
    if (request.deadline_ns <= turn_ns) continue;  // nobody waits for the answer
    began = true;
    Begin(link, request.type, request.peers_id, request.deadline_ns, request.since_ns, request.body);
  }
  return began;
}

// --- A turn

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

void Xchg::Rep::Fire(TimerNode* node) {
  auto* timed = static_cast<Timed*>(node);
  switch (timed->what) {
    case Timed::What::kOp: {
      auto* op = static_cast<Op*>(timed);
      Bump(count.deadlines);
      // Exposed memory (F4): what the fabric may still read or write is taken from it before anybody is told.
      if (op->kind == Op::Kind::kOneSided && op->posted) return CloseLink(op->link);
      return EndOp(op, op->posted ? Outcome::kUnknown : Outcome::kUnavailable);
    }
    case Timed::What::kLink: {
      auto* link = static_cast<Link*>(timed);
      if (link->state == Link::State::kBackOff) {
        if (link->ops != nullptr) return Connect(link);
        Drop(link);
        return link->peer->waiting.reset();
      }
      if (link->ops != nullptr || link->in_flight > 0) link->last_used_ns = turn_ns;
      if (link->last_used_ns + options.idle_close_ns <= turn_ns) return CloseLink(link);
      return wheel.Add(link, link->last_used_ns + options.idle_close_ns);
    }
    case Timed::What::kProgress:
      return LookAtProgress(static_cast<ProgressTimer*>(timed)->link);
    case Timed::What::kPeriodic: {
      auto* periodic = static_cast<Periodic*>(timed);
      wheel.Add(periodic, turn_ns + periodic->period_ns);
      return periodic->fn();
    }
    case Timed::What::kOneShot: {
      auto* one_shot = static_cast<OneShot*>(timed);
      auto fn = std::move(one_shot->fn);
      one_shot->fn = nullptr;
      free_one_shots.push_back(one_shot->index);
      return fn();
    }
  }
}

bool Xchg::Rep::RunSubmitted() {
  if (!have_submitted.load(std::memory_order_acquire)) return false;
  {
    MutexLock lock(&mu);
    taken.swap(submitted);
    have_submitted.store(false, std::memory_order_relaxed);
  }
  for (auto& fn : taken) fn();
  taken.clear();
  return true;
}

bool Xchg::Rep::RunEnded() {
  if (ended.empty()) return false;
  running.swap(ended);
  for (Ended& e : running) {
    if (e.call_done) e.call_done(CallResult{e.end, e.outcome, {}, 0});
    if (e.op_done) e.op_done(e.outcome);
  }
  running.clear();
  return true;
}

bool Xchg::Rep::FlushAll() {
  if (dirty.empty()) return false;
  flushing.swap(dirty);
  for (const ConnectionId id : flushing) {
    const auto it = links.find(id);
    if (it == links.end()) continue;
    it->second->dirty = false;
    Flush(it->second.get());
  }
  flushing.clear();
  return true;
}

bool Xchg::RunOnce() {
  Rep* r = rep_.get();
  if (r->owner.load(std::memory_order_relaxed) == nullptr) r->owner.store(Thread::CurrentId());
  r->turn_ns = Now();
  r->turn_clock = 0;
  Bump(r->count.turns);
  bool active = false;
  const size_t n = r->port->Poll(r->completions);
  for (size_t i = 0; i < n; ++i) r->Dispatch(r->completions[i]);
  active |= n > 0;
  active |= r->RunSubmitted();
  active |= r->wheel.Advance(r->turn_ns, [r](TimerNode* node) { r->Fire(node); }) > 0;
  active |= r->RunEnded();
  active |= r->BeginWaiting();
  if (active) {
    for (const auto& hook : r->hooks) hook();
  }
  active |= r->FlushAll();
  return active || !r->ended.empty();
}

void Xchg::Rep::WindUp() {
  stopping = true;
  turn_ns = Now();
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
    if (!RunEnded() && n == 0) break;
  }
  ended.clear();
  pieces.clear();  // no connection is left that could read them (F4)
}

StatusOr<std::unique_ptr<Xchg>> Xchg::Open(Fabric* fabric, const Hello& self, XchgOptions options) {
  PortOptions port_options;
  port_options.name = options.name;
  port_options.index = options.index;
  port_options.max_pending_requests = kMaxPendingRequests;
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
  if (rep_->services.size() <= type) rep_->services.resize(type + 1u);
  rep_->services[type] = {std::move(handler), served_ns};
}

void Xchg::HandleDisconnect(std::function<void(ConnectionId)> handler) {
  rep_->disconnect_handler = std::move(handler);
}

void Xchg::AddTurnHook(std::function<void()> hook) { rep_->hooks.push_back(std::move(hook)); }

void Xchg::AddTimer(Nanos period_ns, std::function<void()> fn) {
  auto periodic = std::make_unique<Periodic>();
  periodic->period_ns = period_ns;
  periodic->fn = std::move(fn);
  rep_->wheel.Add(periodic.get(), Now() + period_ns);
  rep_->periodics.push_back(std::move(periodic));
}

void Xchg::SetQueueDepthSource(std::function<uint32_t()> depth) { rep_->queue_depth = std::move(depth); }

void Xchg::Start() {
  Rep* r = rep_.get();
  NOVA_CHECK(r->thread == nullptr) << "started twice";
  r->thread = std::make_unique<Thread>(r->options.name, [this, r] {
    r->owner.store(Thread::CurrentId());
    // Virtual time stands still while a fiber spins.
    const Nanos spin_ns = Simulation::Current() == nullptr ? r->options.spin_ns : 0;
    Nanos active_ns = 0;
    while (!r->stop.load()) {
      if (RunOnce()) {
        active_ns = r->turn_ns;
      } else if (r->turn_ns - active_ns >= spin_ns) {
        Bump(r->count.sleeps);
        r->port->Wait(r->wheel.NextDue());
      }
    }
    r->WindUp();
  });
}

void Xchg::Stop() {
  Rep* r = rep_.get();
  if (r->stopped) return;
  r->stopped = true;
  r->stop.store(true);
  if (r->thread != nullptr) {
    r->port->Wake();
    r->thread->Join();
  } else {
    r->WindUp();
  }
  // What is left to run never will; what it holds is let go of now, while the users of this thread still
  // stand.
  std::vector<absl::AnyInvocable<void()>> unrun;
  for (auto& one_shot : r->one_shots) unrun.push_back(std::exchange(one_shot->fn, {}));
  MutexLock lock(&r->mu);
  r->closed = true;
  for (auto& fn : std::exchange(r->submitted, {})) unrun.push_back(std::move(fn));
}

void Xchg::Submit(absl::AnyInvocable<void()> fn) {
  Rep* r = rep_.get();
  {
    MutexLock lock(&r->mu);
    if (!r->closed) {
      r->submitted.push_back(std::move(fn));
      r->have_submitted.store(true, std::memory_order_release);
    }
  }
  r->port->Wake();
}

bool Xchg::IsCurrentThread() const {
  return rep_->owner.load(std::memory_order_relaxed) == Thread::CurrentId();
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

void Xchg::Reply(ConnectionId connection, uint64_t request_id, Outcome outcome,
                 std::span<const std::string_view> parts) {
  rep_->Reply(connection, request_id, outcome, parts);
}

void Xchg::ExpectReply(uint64_t request_id, size_t bytes) {
  NOVA_DCHECK(rep_->OnXchg());
  Begun* b = rep_->FindBegun(request_id);
  if (b != nullptr) rep_->Expect(b, std::min(bytes, rep_->options.max_message_bytes));
}

void Xchg::RunAt(Nanos when_ns, absl::AnyInvocable<void()> fn) {
  Rep* r = rep_.get();
  NOVA_DCHECK(r->OnXchg());
  if (r->free_one_shots.empty()) {
    r->free_one_shots.push_back(static_cast<uint32_t>(r->one_shots.size()));
    r->one_shots.push_back(std::make_unique<OneShot>());
    r->one_shots.back()->index = r->free_one_shots.back();
  }
  OneShot* one_shot = r->one_shots[r->free_one_shots.back()].get();
  r->free_one_shots.pop_back();
  one_shot->fn = std::move(fn);
  r->wheel.Add(one_shot, when_ns);
}

void Xchg::Close(ConnectionId connection) {
  NOVA_DCHECK(rep_->OnXchg());
  const auto it = rep_->links.find(connection);
  if (it == rep_->links.end() || it->second->state == Link::State::kDead) return;
  Bump(rep_->count.malformed);
  rep_->CloseLink(it->second.get());
}

Nanos Xchg::turn_time_ns() const { return rep_->turn_ns; }

}  // namespace nova
