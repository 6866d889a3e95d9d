// Xchg: one exchange thread (paper section 3.2): a port, its connections, and calls, one-sided operations and
// timers on it.
//
// Run to completion: handlers and completions run on this thread, one after another, and must not wait. What
// a round queues for a connection goes out as one Post (one doorbell, one writev) at the end of the round,
// after the round hooks, so that everything that one poll brought shares its messages and log WRITEs.
//
// A Peer is another process' address, and who it has to be where the caller says so; it is connected on first
// use, closed when idle, reconnected with jittered back-off, single flight, and a generation in the handshake
// (F3).
//
// Messages are framed as message.h says; a message longer than the port's max_message_bytes travels in
// pieces.
//
// A peer that is slow, hangs or means harm takes its own share only:
//   - Requests of a connection wait here, in order, while those before them are too many, or have brought too
//     much that the peer has not read. What waits is bounded, too: beyond that the connection is closed.
//   - An Xchg never sends so much: of its calls to a peer it posts a bounded number, and bytes, that are not
//     answered. The rest waits in the queue; Call refuses when that is full.
//   - The more send memory all connections have taken together, the less one may take.
//   - A connection whose peer takes nothing of what is sent to it, or does not end a message it began, is
//     closed after progress_timeout_ns. One that takes a little now and then stays.
//
// Thread safety: OnXchg methods only on this thread (checked in debug builds); Submit, Start and Stop from
//                any.
// Ownership:     message bodies and results are valid during the callback only. Local memory of Write and
//                Read belongs to the fabric until `done` (exposed memory, F4): see Write.
// Errors:        Unavailable: could not be sent (nothing happened at the peer). Unknown: sent, and no answer
//                within the deadline, or the connection broke; of a one-sided operation also: refused by the
//                target (key, bounds, rights; parts of it may have landed before its memory was revoked).
//                InvalidArgument: longer than max_message_bytes. Malformed bytes close that connection and
//                are counted.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "absl/functional/any_invocable.h"
#include "common/base/metrics.h"
#include "common/base/outcome.h"
#include "common/base/status.h"
#include "common/base/thread.h"
#include "common/rdma/buffer_pool.h"
#include "common/rdma/fabric.h"
#include "common/rdma/message.h"

namespace nova {

struct XchgOptions {
  std::string name = "xchg";  // thread name: "ltc.xchg.0"
  uint16_t index = 0;
  Nanos spin_ns = 10 * kMicrosecond;  // polls this long before it sleeps; 0 = never spins
  Nanos connect_timeout_ns = kSecond;
  Nanos reconnect_min_ns = 20 * kMillisecond;
  Nanos reconnect_max_ns = kSecond;
  Nanos idle_close_ns = 300 * kSecond;
  size_t max_queued_calls_per_peer = 8192;
  // of a whole message, pieces together; larger closes the connection
  size_t max_message_bytes = 20 << 20;
  size_t send_pool_bytes = 256 << 20;  // bound on message bytes queued or posted, and not completed

  // Of one connection.
  size_t max_calls_per_connection = 4096;  // ours posted, or the peer's begun, and not answered; more wait
  size_t max_call_bytes_per_connection = 16 << 20;  // of ours; more wait, but a longer one alone
  // not taken by the peer, or expected; its requests wait
  size_t max_reply_bytes_per_connection = 64 << 20;
  size_t max_waiting_bytes_per_connection = 32 << 20;  // of requests that wait; more close it
  size_t max_waiting_bytes = 256 << 20;  // of all together, with messages that have begun to come in
  Nanos progress_timeout_ns = 10 * kSecond;
};

struct CallResult {
  Outcome outcome = Outcome::kUnavailable;
  std::string_view body;     // of the reply, during the callback
  uint32_t queue_depth = 0;  // of the answering node, as its reply said (power-of-d)
};
using CallDone = absl::AnyInvocable<void(const CallResult&)>;
using OpDone = absl::AnyInvocable<void(Outcome)>;
// What a call is about, in terms of its caller; means nothing here.
struct CallTag {
  uint64_t subject = 0;
  uint64_t version = 0;
};

class Peer;  // owned by its Xchg, lives as long

struct XchgCounters {
  uint64_t messages_sent = 0;
  uint64_t messages_received = 0;
  uint64_t bytes_sent = 0;  // of messages, headers included
  uint64_t bytes_received = 0;
  uint64_t late_replies = 0;     // to calls that had ended
  uint64_t dropped_replies = 0;  // not sent: no connection, no such request, or out of send memory
  uint64_t waited_requests = 0;  // of peers: they had too much under way
  uint64_t cut_off = 0;          // connections closed: the peer took nothing, or sent too much
  uint64_t malformed = 0;        // connections closed for it
  uint64_t deadlines = 0;        // calls and one-sided operations that ended at theirs
  uint64_t connects = 0;         // connections that came up, either way
  uint64_t connect_failures = 0;
  uint64_t rounds = 0;
  uint64_t sleeps = 0;
};

// A request as it arrived. `body` is valid during the handler.
struct IncomingCall {
  ConnectionId connection;
  uint64_t request_id = 0;  // ours, for Reply; not the peer's
  uint16_t type = 0;
  Nanos deadline_ns = kNever;  // the caller's, on our clock
  std::string_view body;
  const Hello* peer = nullptr;
};

class Xchg {
 public:
  // With a port of its own. An error (descriptors, lockable memory) leaves nothing behind.
  static StatusOr<std::unique_ptr<Xchg>> Open(Fabric* fabric, const Hello& self, XchgOptions options);
  ~Xchg();  // stops

  // --- set-up, before Start
  Port* port();  // for Fabric::Listen
  using Handler = std::function<void(const IncomingCall&)>;
  // requests of this type
  void Handle(uint16_t type, Handler handler);
  void HandleImmediate(std::function<void(ConnectionId, uint32_t immediate)> handler);
  // accepted connections that are gone
  void HandleDisconnect(std::function<void(ConnectionId)> handler);
  // at the end of each round that did something
  void AddRoundHook(std::function<void()> hook);
  // about every period; also while idle
  void AddTimer(Nanos period_ns, std::function<void()> fn);
  // what our replies carry
  void SetQueueDepthSource(std::function<uint32_t()> depth);
  void Start();
  void Stop();  // joins; pending calls end with Unknown or Unavailable first

  // --- any thread
  // runs it on this thread soon; after Stop it is destroyed unrun
  void Submit(absl::AnyInvocable<void()> fn);
  bool IsCurrentThread() const;
  const XchgOptions& options() const;
  XchgCounters counters() const;

  // --- OnXchg Found or made; not connected yet. Calls end with Unavailable where another than `who` has the
  // address. Always say the same of one process: of two connections from this thread it keeps the newer (F3).
  // Whoever has keys to a process' memory names its incarnation: the next one may have given out the same
  // keys.
  Peer* peer(const std::string& address, const PeerIdentity& who = {});
  // Sends a request made of `parts`; `done` runs once, on this thread, never inside Call.
  void Call(Peer* peer, uint16_t type, std::span<const std::string_view> parts, Nanos deadline_ns,
            CallDone done, const CallTag& tag = {});
  // Looks at each call under way: what it is about, and since when. Those for which `ends` is true end now as
  // they would at their deadlines; their `done` does not run inside. `ends` calls nothing here.
  void LookAtCalls(const std::function<bool(const CallTag&, Nanos since_ns)>& ends);
  // Once for each request, unless its connection was closed.
  void Reply(ConnectionId connection, uint64_t request_id, Outcome outcome,
             std::span<const std::string_view> parts);
  // In a handler whose reply may be long: about how long at most. Taken from its connection's share until
  // then.
  void ExpectReply(uint64_t request_id, size_t bytes);
  // One-sided. `done` runs once with kOk when delivered, or kUnavailable / kUnknown at the deadline or when
  // the connection broke. At a deadline the fabric may still read `local` (or write it, of Read): the
  // connection is then destroyed before `done` runs, so that memory is free when done runs (F4), at the price
  // of what else was pending on it.
  void Write(Peer* peer, std::span<const LocalBuffer> local, uint64_t remote_address, uint32_t rkey,
             Nanos deadline_ns, OpDone done);
  void WriteWithImmediate(Peer* peer, std::span<const LocalBuffer> local, uint64_t remote_address,
                          uint32_t rkey, uint32_t immediate, Nanos deadline_ns, OpDone done);
  void Read(Peer* peer, LocalBuffer local, uint64_t remote_address, uint32_t rkey, Nanos deadline_ns,
            OpDone done);
  void RunAt(Nanos when_ns, absl::AnyInvocable<void()> fn);  // one shot, millisecond resolution
  // e.g. after a malformed request; counted as such
  void Close(ConnectionId connection);
  Nanos round_time_ns() const;  // Now() at the start of this round: cheap

  // One round: poll, dispatch, closures, timers, hooks, post. True when it did something. The thread's body;
  // tests call it.
  bool RunOnce();

 private:
  struct Rep;
  explicit Xchg(std::unique_ptr<Rep> rep);
  std::unique_ptr<Rep> rep_;
};

}  // namespace nova
