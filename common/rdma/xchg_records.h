// What an Xchg keeps of its connections and of what is under way on them: plain records, of its thread alone.
// Part of common/rdma/xchg.cc and the sources beside it.
//
// Thread safety: none.
// Ownership: pointers are to what the Xchg owns, and are null again when that is gone.
// Errors: none.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "common/rdma/age_list.h"
#include "common/rdma/handshake.h"
#include "common/rdma/record_pool.h"
#include "common/rdma/ring.h"
#include "common/rdma/timer_wheel.h"
#include "common/rdma/xchg.h"
#include "common/rdma/xchg_shares.h"

namespace nova {

struct XchgLink;

// What is in the timer wheel.
struct XchgTimed : TimerNode {
  enum class What : uint8_t { kOp, kLink, kProgress, kPeriodic, kOneShot };
  explicit XchgTimed(What w) : what(w) {}
  const What what;
};

// A call or one-sided operation of ours that has not ended.
struct XchgOp : XchgTimed, PooledRecord {
  enum class Kind : uint8_t { kCall, kOneSided };
  XchgOp() : XchgTimed(What::kOp) {}
  Kind kind = Kind::kCall;
  bool posted = false;
  XchgLink* link = nullptr;
  XchgOp* prev = nullptr;  // among the link's
  XchgOp* next = nullptr;
  OpDone op_done;  // of a one-sided operation
  // Of a call:
  CallDone call_done;
  size_t bytes = 0;
  CallTag tag;
  Nanos since_ns = 0;
};

// A request of a peer that a handler has begun and not answered.
struct XchgBegun : PooledRecord {
  uint64_t peers_id = 0;
  size_t bytes = 0;     // of the request, as XchgShares counts it
  size_t expected = 0;  // bytes of the reply
  Nanos deadline_ns = kNever;
  Nanos since_ns = 0;              // the turn in which it came
  Histogram* served_ns = nullptr;  // gets the time until its reply; null: nobody asks
  XchgLink* link = nullptr;        // null: it is an orphan
  XchgBegun* prev = nullptr;       // among the link's, or the orphans
  XchgBegun* next = nullptr;
};

// A request of a peer that has to wait until the peer has less under way.
struct XchgWaiting {
  uint16_t type = 0;
  uint64_t peers_id = 0;
  Nanos deadline_ns = kNever;
  Nanos since_ns = 0;  // the turn in which it came
  std::string body;
};

// What is to be posted.
struct XchgQueued {
  WorkRequest request;
  uint64_t op = 0;  // the id of the operation that wants it; 0: a reply
  // Of a message or operation: what has begun is sent to its end, or the peer could not parse on.
  bool first = false;
};

// Looks after a link: whether its peer takes what is sent to it, and ends the messages it begins.
struct XchgProgressTimer : XchgTimed {
  explicit XchgProgressTimer(XchgLink* l) : XchgTimed(What::kProgress), link(l) {}
  XchgLink* const link;
};

// One connection, or the wish for one.
struct XchgLink : XchgTimed {
  enum class State : uint8_t { kBackOff, kConnecting, kUp, kDead };
  explicit XchgLink(size_t max_message_bytes)
      : XchgTimed(What::kLink), assembler(max_message_bytes), progress(this) {}
  State state = State::kBackOff;
  ConnectionId id;
  Peer* peer = nullptr;  // null: accepted
  Hello hello;           // the other side's
  MessageAssembler assembler;
  Ring<XchgQueued> queue;
  uint32_t in_flight = 0;  // requests that are posted and not completed
  bool dirty = false;      // it has something queued, and will be flushed
  bool skipping = false;   // the message whose pieces lie at the front of the queue has no taker any more
  Nanos up_since_ns = 0;
  Nanos last_used_ns = 0;
  AgeList<XchgOp> ops;
  AgeList<XchgBegun> begun;         // requests of the peer
  std::deque<XchgWaiting> waiting;  // likewise, in order
  LinkShare share;
  // When something posted completed last, or was posted where nothing was; when the message that is coming in
  // went on.
  XchgProgressTimer progress;
  Nanos taken_ns = 0;
  Nanos received_ns = 0;
  bool suspected = false;  // it was overdue when last looked at
};

// Of a WorkRequest::id: it names a piece of send memory, and no operation.
inline constexpr uint64_t kPieceTag = uint64_t{1} << 63;

// By AddTimer.
struct XchgPeriodic : XchgTimed {
  XchgPeriodic() : XchgTimed(What::kPeriodic) {}
  Nanos period_ns = 0;
  std::function<void()> fn;
};

// By RunAt.
struct XchgOneShot : XchgTimed, PooledRecord {
  XchgOneShot() : XchgTimed(What::kOneShot) {}
  absl::AnyInvocable<void()> fn;
};

class Peer {
 public:
  Peer(std::string a, const PeerIdentity& w) : address(std::move(a)), who(w) {}
  const std::string address;
  const PeerIdentity who;
  XchgLink* link = nullptr;           // the current one; null: there is none
  std::unique_ptr<XchgLink> waiting;  // `link`, while it has no connection id
  uint64_t generation = 0;            // handshake (F3)
  int failures = 0;                   // attempts to connect in a row that failed
  Nanos next_attempt_ns = 0;
};

}  // namespace nova
