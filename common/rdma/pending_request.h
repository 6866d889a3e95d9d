// PendingRequest: a posted request until it completes, and the checks made when it is posted.
//
// Thread safety: none.
// Ownership: the memory it names is the poster's (fabric.h; exposed memory, F4).
// Errors: a request that cannot be sent is accepted, and completes in its turn with kLocalError.
#pragma once

#include "common/base/log.h"
#include "common/rdma/fabric.h"

namespace nova {

struct PendingRequest {
  WorkRequest request;
  uint32_t length = 0;  // bytes of its pieces together
  bool failed = false;  // cannot be sent: too long, or not registered

  // Takes the request; fails it if it is longer than `longest`, or `longest_send` of a SEND. The caller
  // checks that its pieces lie in registered memory.
  void Set(const WorkRequest& posted, uint64_t longest, uint32_t longest_send) {
    NOVA_CHECK(posted.piece_count <= kMaxPieces);
    uint64_t total = 0;
    for (size_t i = 0; i < posted.piece_count; ++i) total += posted.pieces[i].length;
    request = posted;
    length = static_cast<uint32_t>(total);
    failed = total > (posted.opcode == Opcode::kSend ? longest_send : longest);
  }
  // Its status when its connection ends first.
  CompletionStatus flushed() const {
    return failed ? CompletionStatus::kLocalError : CompletionStatus::kFlushed;
  }
};

// The errors of Post, made once, for a poster may try again and again.
inline const Status& NotConnected() {
  static const Status* status = new Status(absl::UnavailableError("no such connection, or not up"));
  return *status;
}
inline const Status& TooManyPending() {
  static const Status* status = new Status(absl::ResourceExhaustedError("too many pending requests"));
  return *status;
}

}  // namespace nova
