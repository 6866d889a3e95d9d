// Xchg: one exchange thread (paper section 3.2): a port, its connections, and calls, one-sided operations and
// timers on it.
//
// Run to completion: handlers and completions run on this thread, one after another, and must not wait.
// Everything that one turn of the loop queues for a connection goes out as one Post (one doorbell, one
// writev) at the end of the turn, after the hooks. So all that one poll brought shares its messages and log
// WRITEs.
//
// A Peer is the address of another process, and the identity that the process must have, if the caller names
// one. It is connected at its first use, closed when idle, and connected again with jittered back-off, one
// attempt at a time, with a generation in the handshake (F3).
//
// Messages are framed as common/rdma/message.h says; a message longer than the port's max_message_bytes
// travels in pieces.
//
// A peer that is slow, hangs or means harm takes its own share only:
// - Requests of a connection wait here, in order, while those before them are too many, or have brought too
//   many bytes that the peer has not read. The bytes that wait are bounded too; beyond that the connection is
//   closed.
// - An Xchg never sends that much: of its calls to a peer it posts a bounded number, and bytes, that are not
//   answered. The rest waits in the queue; Call refuses when that is full.
// - The more send memory all connections have taken together, the less one of them may take.
// - A connection whose peer takes no byte of those sent to it, or does not end a message it has begun, is
//   closed after progress_timeout_ns. One that takes a little now and then stays.
//
// One turn of the loop, in this order (RunOnce):
//
//   1. poll the port; dispatch completions and messages to handlers and callers
//   2. run submitted closures, then timers that are due: deadlines, idle connections, RunAt, AddTimer
//   3. run `done` of calls and operations that ended in 1 and 2 without an answer
//   4. begin requests that waited, as far as their connections have room again
//   5. if anything was done: run the hooks at the end of a turn
//   6. post the queued requests, one Post for each connection
//
// Thread safety: methods under "OnXchg" only on this thread (checked in debug builds); Submit, Start and Stop
//   from any.
// Ownership: message bodies and results are valid during the callback only. Local memory of Write and Read
//   belongs to the fabric until `done` (exposed memory, F4): see Write.
// Errors: outcomes. kUnavailable: it could not be sent; nothing happened at the peer. kUnknown: it was sent,
//   and no answer came within the deadline, or the connection broke; of a one-sided operation also: the
//   target refused it (key, bounds, rights; parts of it may have landed before its memory was revoked).
//   kInvalidArgument: longer than max_message_bytes. Malformed bytes close their connection and are counted.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "absl/functional/any_invocable.h"
#include "common/base/histogram.h"
#include "common/base/metrics.h"
#include "common/base/outcome.h"
#include "common/base/status.h"
#include "common/base/thread.h"
#include "common/rdma/buffer_pool.h"
#include "common/rdma/fabric.h"
#include "common/rdma/message.h"

namespace nova {

inline constexpr size_t kMaxMessageBytes = 20 << 20;  // of a message, unless the options say otherwise

// Bounds and times of an Xchg. "Of a connection" means of one peer's.
struct XchgOptions {
  std::string name = "xchg";           // of the thread: "ltc.xchg.0"
  uint16_t index = 0;                  // its number in the process; Hello::xchg_index
  Nanos spin_ns = 10 * kMicrosecond;   // polls this long after its last work before it sleeps; 0: not at all
  Nanos connect_timeout_ns = kSecond;  // of one attempt, the handshake included
  Nanos reconnect_min_ns = 20 * kMillisecond;  // first pause after a failed attempt; doubles
  Nanos reconnect_max_ns = kSecond;            // longest such pause
  Nanos idle_close_ns = 300 * kSecond;         // a connection of ours without traffic is closed
  size_t max_queued_calls_per_peer = 8192;     // requests and pieces queued for one peer; more are refused
  // Of a whole message, its pieces together; a longer one closes the connection.
  size_t max_message_bytes = kMaxMessageBytes;
  size_t send_pool_bytes = 256 << 20;  // bound on message bytes that are queued or posted and not completed

  // The following are of one connection, but for max_begun_bytes and max_waiting_bytes.
  // Of ours posted, or of the peer begun, and not answered; more wait.
  size_t max_calls_per_connection = 4096;
  // Of ours posted, or of the peer begun, and not answered; more wait, but a longer call goes alone.
  size_t max_call_bytes_per_connection = 16 << 20;
  // Of the peers' requests that are begun, of all connections together; more wait.
  size_t max_begun_bytes = 256 << 20;
  // Replies that the peer has not taken, or that are expected; beyond that its requests wait.
  size_t max_reply_bytes_per_connection = 64 << 20;
  // Of the peer's requests that wait; more close the connection.
  size_t max_waiting_bytes_per_connection = 32 << 20;
  // Of all connections together, with messages that have begun to come in.
  size_t max_waiting_bytes = 256 << 20;
  Nanos progress_timeout_ns = 10 * kSecond;  // see the head of this file
};

// What ended a Call.
enum class CallEnd : uint8_t {
  kReply,       // the peer
  kConnection,  // there was none, or it is lost
  kHere,        // its deadline, its caller, no room, or the Xchg stops
};

// The answer to a Call.
struct CallResult {
  CallEnd end = CallEnd::kHere;
  Outcome outcome = Outcome::kUnavailable;  // the peer's, or why there is none
  std::string_view body;                    // of the reply, during the callback
  uint32_t queue_depth = 0;  // of the answering node, by its reply; for placement (power of d choices)
};
using CallDone = absl::AnyInvocable<void(const CallResult&)>;
using OpDone = absl::AnyInvocable<void(Outcome)>;
// What a call is about, in terms of its caller, for LookAtCalls. It means nothing here.
struct CallTag {
  uint64_t subject = 0;  // LtcClient: the range
  uint64_t version = 0;  // LtcClient: its epoch
};

class Peer;  // see the head of this file; owned by its Xchg, and lives as long

// Counts since the Xchg was opened.
struct XchgCounters {
  uint64_t messages_sent = 0;
  uint64_t messages_received = 0;
  uint64_t bytes_sent = 0;  // of messages, with headers
  uint64_t bytes_received = 0;
  uint64_t late_replies = 0;      // replies to calls that had ended
  uint64_t dropped_replies = 0;   // replies not sent: no connection, no such request, or no send memory
  uint64_t waited_requests = 0;   // requests of peers that had too much under way
  uint64_t cut_off = 0;           // connections closed: the peer took nothing, or sent too much
  uint64_t malformed = 0;         // connections closed for malformed bytes
  uint64_t deadlines = 0;         // calls and one-sided operations that ended at theirs
  uint64_t connects = 0;          // connections that came up, dialled or accepted
  uint64_t connect_failures = 0;  // attempts to dial that failed
  uint64_t turns = 0;             // of the loop
  uint64_t sleeps = 0;            // times that it slept
};

// A request of a peer. `body` and `peer` are valid during the handler.
struct IncomingCall {
  ConnectionId connection;      // that it came by
  uint64_t request_id = 0;      // ours, for Reply; not the number that the peer gave it
  uint16_t type = 0;            // as Handle's
  Nanos deadline_ns = kNever;   // the caller's, on our clock
  std::string_view body;        // whole, whatever pieces it came in
  const Hello* peer = nullptr;  // as the peer said when it connected
};

class Xchg {
 public:
  // Opens it with a port of its own. An error (descriptors, lockable memory) leaves nothing behind.
  static StatusOr<std::unique_ptr<Xchg>> Open(Fabric* fabric, const Hello& self, XchgOptions options);
  ~Xchg();  // as Stop

  // --- set-up, before Start; but for Stop
  Port* port();  // for Fabric::Listen
  using Handler = std::function<void(const IncomingCall&)>;
  // `handler` serves requests of this type; it must answer each by Reply, now or later. `served_ns`, if it is
  // given, gets the time from the turn in which a request came until its reply; the caller owns it.
  void Handle(uint16_t type, Handler handler, Histogram* served_ns = nullptr);
  // Called for accepted connections that are gone.
  void HandleDisconnect(std::function<void(ConnectionId)> handler);
  // Called at the end of each turn of the loop that did something, before requests are posted.
  void AddTurnHook(std::function<void()> hook);
  // Called about every period, also while idle.
  void AddTimer(Nanos period_ns, std::function<void()> fn);
  // The queue depth that our replies carry.
  void SetQueueDepthSource(std::function<uint32_t()> depth);
  // Starts the thread; without it tests call RunOnce.
  void Start();
  // Joins; calls and operations under way end with Unknown or Unavailable first; idempotent.
  void Stop();

  // --- any thread

  // Runs `fn` on this thread soon; after Stop it is destroyed without being run.
  void Submit(absl::AnyInvocable<void()> fn);
  bool IsCurrentThread() const;  // the caller runs OnXchg
  const XchgOptions& options() const;
  XchgCounters counters() const;

  // --- OnXchg

  // The peer at an address; found or made, not connected yet. Calls to it end with Unavailable where another
  // process than `who` has the address. Use the same `who` for one address: the peer's server keeps one
  // connection from this thread, the newer (F3). A caller that has keys to a process's memory must name its
  // incarnation, for the next start may have given out the same keys.
  Peer* peer(const std::string& address, const PeerIdentity& who = {});
  // The next attempt to connect to the peer is made at once, not after a pause for those that failed. For
  // what asks rarely whether a process is there, and is waited for.
  void EndPause(Peer* peer);
  // Sends a request made of `parts`, which are copied. `done` runs once, on this thread, never inside Call.
  void Call(Peer* peer, uint16_t type, std::span<const std::string_view> parts, Nanos deadline_ns,
            CallDone done, const CallTag& tag = {});
  // Calls `ends` for each call under way, with its tag and the time since when it is. Calls for which it is
  // true end now as they would at their deadlines; their `done` does not run inside. `ends` must not call
  // this Xchg.
  void LookAtCalls(const std::function<bool(const CallTag&, Nanos since_ns)>& ends);
  // Answers a request, with the bytes of `parts`. Call once for each request; fine if its connection was
  // closed.
  void Reply(ConnectionId connection, uint64_t request_id, Outcome outcome,
             std::span<const std::string_view> parts);
  // To be called in a handler whose reply may be long: about its length at most. Counts against the
  // connection's share until the reply.
  void ExpectReply(uint64_t request_id, size_t bytes);
  // One-sided operations. `done` runs once: with kOk when the bytes are delivered; with kUnavailable or
  // kUnknown at the deadline or when the connection broke. At a deadline the fabric may still read `local`,
  // or write it for Read. So the connection is destroyed before `done` runs, and memory is free when `done`
  // runs (F4), at the price of everything else pending on the connection.
  void Write(Peer* peer, std::span<const LocalBuffer> local, uint64_t remote_address, uint32_t rkey,
             Nanos deadline_ns, OpDone done);
  void Read(Peer* peer, LocalBuffer local, uint64_t remote_address, uint32_t rkey, Nanos deadline_ns,
            OpDone done);
  // Once, on this thread, to a millisecond.
  void RunAt(Nanos when_ns, absl::AnyInvocable<void()> fn);
  // Closes a connection for a malformed request, and counts it as such.
  void Close(ConnectionId connection);
  // Now() at the start of this turn of the loop; for tests.
  Nanos turn_time_ns() const;

  // One turn of the loop: polls, dispatches, runs closures and timers, calls hooks, posts. True: it did
  // something. The body of the thread; tests call it.
  bool RunOnce();

 private:
  struct Rep;
  explicit Xchg(std::unique_ptr<Rep> rep);
  std::unique_ptr<Rep> rep_;
};

}  // namespace nova
