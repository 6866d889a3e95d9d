// Xchg::Rep: the state of an Xchg, and the steps of its turns. Its sources:
//
//   xchg.cc            the turn, timers, threads: what the others are called by
//   xchg_links.cc      connections: connecting, posting what is queued, watching, closing
//   xchg_calls.cc      our calls and one-sided operations, and replies
//   xchg_requests.cc   the peers' requests: beginning them, or having them wait
//
// Thread safety: of the exchange thread, but for what says otherwise.
// Ownership: owns all records; see common/rdma/xchg_records.h.
// Errors: as Xchg.
#pragma once

#include <array>
#include <atomic>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "common/base/random.h"
#include "common/rdma/closure_queue.h"
#include "common/rdma/xchg_records.h"

namespace nova {

// Calls and operations that ended without an answer: their `done` runs later in the turn, never where they
// ended.
class EndedOps {
 public:
  void Add(CallDone call_done, OpDone op_done, Outcome outcome, CallEnd end = CallEnd::kHere) {
    ended_.push_back({std::move(call_done), std::move(op_done), outcome, end});
  }
  bool empty() const { return ended_.empty(); }
  void Clear() { ended_.clear(); }
  bool Run();  // false: there was none

 private:
  struct Ended {
    CallDone call_done;
    OpDone op_done;
    Outcome outcome = Outcome::kUnknown;
    CallEnd end = CallEnd::kHere;
  };
  std::vector<Ended> ended_, running_;
};

// Connections that are to be looked at once more.
class LinksToDo {
 public:
  void Add(ConnectionId id) { ids_.push_back(id); }
  bool empty() const { return ids_.empty(); }
  // Calls fn(id) for each that was added before; those it adds are left.
  template <typename Fn>
  void Run(const Fn& fn) {
    running_.swap(ids_);
    for (const ConnectionId id : running_) fn(id);
    running_.clear();
  }

 private:
  std::vector<ConnectionId> ids_, running_;
};

struct Xchg::Rep {
  using Link = XchgLink;
  using Op = XchgOp;
  using Begun = XchgBegun;
  static constexpr uint32_t kMaxPendingRequests = 1024;  // of a connection, posted and not completed
  static constexpr size_t kPollBatch = 64;

  Rep(Fabric* fabric, const Hello& hello, XchgOptions opts, std::unique_ptr<Port> port);

  // --- Links

  // The peer's link; one that is made now connects at once, or when the peer's pause is over.
  Link* LinkOf(Peer* peer);
  Link* FindLink(ConnectionId id);  // null: it is gone
  void Connect(Link* link);
  void LinkUp(const Completion& c);
  void LinkGone(const Completion& c);
  // Takes the link from its peer and ends what was under way on it; the record stays until kDisconnected.
  void Drop(Link* link);
  void CloseLink(Link* link);
  // Closes a link that takes more than its share, or holds on to it.
  void CutOff(Link* link, std::string_view why);
  void AttemptFailed(Peer* peer);
  // What is queued for the link will be posted at the end of the turn.
  void MarkDirty(Link* link);
  // Posts what is queued, as far as the connection takes it and its peer has answered enough; the rest
  // follows when completions and answers make room.
  void Flush(Link* link);
  bool FlushAll();  // false: nothing was queued
  void WatchProgress(Link* link);
  void LookAtProgress(Link* link);

  // --- Calls, operations, replies

  Op* NewOp(Op::Kind kind, Link* link, Nanos deadline_ns);
  void FreeOp(Op* op);
  void EndOp(Op* op, Outcome outcome, CallEnd end = CallEnd::kHere);
  // What is queued is for an operation that has ended.
  bool HasNoTaker(const XchgQueued& q) const { return q.op != 0 && ops.Find(q.op) == nullptr; }
  void Posted(Op* op);
  // Puts a message into send memory, where Enqueue finds it. False: none left.
  bool Encode(MessageHeader header, std::span<const std::string_view> parts, size_t total);
  // Queues the message that was encoded; `op`: the call's, 0: a reply.
  void Enqueue(Link* link, uint64_t op);
  void FreePiece(Link* link, uint64_t request_id);  // `link`: it was queued for; null: that is gone
  void Reply(ConnectionId connection, uint64_t request_id, Outcome outcome,
             std::span<const std::string_view> parts);
  void OneSided(Peer* peer, WorkRequest request, Nanos deadline_ns, OpDone done);
  void Answered(Link* link, const MessageAssembler::Message& m);

  // --- Requests of peers

  void Request(Link* link, const MessageAssembler::Message& m);
  void Wait(Link* link, XchgWaiting request);
  void Begin(Link* link, uint16_t type, uint64_t peers_id, Nanos deadline_ns, Nanos since_ns,
             std::string_view body);
  void Expect(Begun* b, size_t bytes);  // of its reply
  void EndBegun(Begun* b);
  // The connection of the request is gone, and its handler goes on, with what it keeps of it.
  void Orphan(Begun* b);
  void EndOrphan(Begun* b);
  // A caller that is long past its deadline waits for nothing, and a handler may have dropped what was to
  // answer it.
  void ForgetOverdue(Link* link);
  void ForgetOverdueOrphans();
  // What waits begins, in order, as far as its connection has room. True: something did.
  bool BeginWaiting();
  bool Resume(Link* link);

  // --- A turn

  bool OnXchg() const;  // any thread
  void Dispatch(const Completion& c);
  void RequestEnded(const Completion& c);
  void Received(const Completion& c);
  void Assembling(Link* link);  // a message is coming in, and was not ended by this piece
  void Fire(TimerNode* node);
  void WindUp();  // the last turn

  // --- constant, or set up before Start
  const Hello self;
  const XchgOptions options;
  std::unique_ptr<Port> port;
  struct Service {
    Handler handler;
    Histogram* served_ns = nullptr;
  };
  struct {
    std::vector<Service> services;  // by type
    std::function<void(ConnectionId)> disconnected;
    std::vector<std::function<void()>> hooks;
    std::vector<std::unique_ptr<XchgPeriodic>> periodics;
    std::function<uint32_t()> queue_depth;
  } handlers;

  // --- of the thread
  SendMemory memory;
  XchgShares shares;
  // By address; those that were meant to be there.
  std::map<std::string, std::vector<std::unique_ptr<Peer>>> peers;
  // Looked up, never iterated where order shows.
  absl::flat_hash_map<ConnectionId, std::unique_ptr<Link>> links;
  RecordPool<Op> ops;
  RecordPool<Begun> begun;
  AgeList<Begun> orphans;  // begun, of connections that are gone: still counted in shares
  RecordPool<XchgOneShot> one_shots;
  LinksToDo dirty;         // see MarkDirty
  LinksToDo held;          // their requests wait
  bool room_made = false;  // for those, since they were looked at
  EndedOps ended;
  std::vector<WorkRequest> post;  // Flush's
  std::array<Completion, kPollBatch> completions;
  TimerWheel wheel;
  Random random;
  struct {
    Nanos now_ns = 0;    // when it began
    uint64_t clock = 0;  // hybrid logical clock; 0: not read yet
  } turn;
  bool stopping = false;

  // --- any thread
  ClosureQueue submitted;
  struct {
    std::atomic<const void*> owner{nullptr};  // Thread::CurrentId of whoever runs turns; null: nobody has
    std::atomic<bool> stop{false};
    std::unique_ptr<Thread> thread;  // of Start and Stop
    bool stopped = false;            // likewise
  } running;
  struct {  // see XchgCounters; added to by the exchange thread
    std::atomic<uint64_t> messages_sent{0}, messages_received{0}, bytes_sent{0}, bytes_received{0},
        late_replies{0}, dropped_replies{0}, waited_requests{0}, cut_off{0}, malformed{0}, deadlines{0},
        connects{0}, connect_failures{0}, turns{0}, sleeps{0};
  } count;
};

// Adds to a counter that this thread alone adds to.
inline void Bump(std::atomic<uint64_t>& counter, uint64_t n = 1) {
  counter.store(counter.load(std::memory_order_relaxed) + n, std::memory_order_relaxed);
}

}  // namespace nova
