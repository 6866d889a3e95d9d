// XchgShares: what one connection of an Xchg may take of what all of them have, so that a peer that is slow,
// hangs or means harm takes its own share only (common/rdma/xchg.h).
//
// Thread safety: none; of the exchange thread.
// Ownership: the options and the send memory outlive it.
// Errors: none.
#pragma once

#include <cstddef>

#include "common/rdma/send_memory.h"
#include "common/rdma/xchg.h"

namespace nova {

// What a connection has taken.
struct LinkShare {
  size_t send_bytes = 0;  // of send memory, from queued to completed
  // Our calls that are posted and not answered.
  size_t calls = 0;
  size_t call_bytes = 0;
  // The peer's requests.
  size_t begun = 0;             // that are not answered
  size_t begun_bytes = 0;       // of those: see XchgShares::BytesOf
  size_t expected_bytes = 0;    // of the replies to those
  size_t waiting_bytes = 0;     // of those that are not begun
  size_t assembling_bytes = 0;  // of the message that is coming in
};

class XchgShares {
 public:
  XchgShares(const XchgOptions* options, const SendMemory* memory) : options_(options), memory_(memory) {}

  // `queued`: requests and pieces that are not posted yet to the peer.

  // One more message may go to a peer that has taken little of what lies here for it.
  bool MayCall(const LinkShare& link, size_t queued) const;
  // Another call may be posted, with which there are `call_bytes` of them under way, beside `calls`.
  bool MayPost(size_t calls, size_t call_bytes) const;
  // What a request of the peer takes while it is begun: its handler may keep a copy of it. A short one counts
  // as nothing, for there are only so many of them.
  static size_t BytesOf(size_t body_bytes) { return body_bytes > kShortRequest ? body_bytes : 0; }
  // Another request of the peer may begin. The first may while there is more send memory than is kept for
  // calls of our own; more may while there is some for the first of others, too. `bytes`: its BytesOf.
  bool MayBegin(const LinkShare& link, size_t queued, size_t bytes) const;
  // So many bytes of the peer's requests may wait.
  bool MayWait(const LinkShare& link, size_t bytes) const;
  // What all peers send has room here.
  bool MayAssemble() const;
  // The peer has taken its replies, but for about its share of them: more are queued only if what it asks for
  // is longer than was expected.
  bool TakesReplies(const LinkShare& link, size_t queued) const;
  // Of what is left where there is no memory for a reply, the peer has so much that it is to blame.
  bool IsToBlame(const LinkShare& link) const;

  // A request with `bytes` begins.
  void CountBegun(LinkShare* link, size_t bytes);
  void CountEnded(LinkShare* link, size_t bytes);
  // Its connection is gone, and its handler still has the bytes, until CountOrphanEnded.
  void CountOrphaned(LinkShare* link, size_t bytes);
  void CountOrphanEnded(size_t bytes) { begun_bytes_ -= bytes; }
  // A reply of which `before` bytes were expected is expected to have `now`.
  void Expect(LinkShare* link, size_t before, size_t now);
  // `of_link`, a number of bytes that wait or are coming in, is `now`.
  void CountWaiting(size_t* of_link, size_t now);

 private:
  static constexpr size_t kShortRequest = 4096;  // bytes of the body

  // Send memory that is neither taken nor expected to be.
  size_t FreeBytes() const;

  const XchgOptions* const options_;
  const SendMemory* const memory_;
  // Of all connections together.
  size_t begun_bytes_ = 0;
  size_t expected_bytes_ = 0;
  size_t waiting_bytes_ = 0;  // of requests that wait, and of messages that are coming in
};

}  // namespace nova
