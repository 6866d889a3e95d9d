// CopyBandwidth: the bytes per second that a StoC gives to copies of files, in both directions together: what
// it reads as a source and what it takes as a target (rebuild, S5).
//
// Thread safety: all.   Ownership: none taken.   Errors: none.
#pragma once

#include <cstdint>

#include "common/base/mutex.h"
#include "common/base/token_bucket.h"
#include "stoc/protocol.h"

namespace nova {

// What is fetched of a file at a time. An exchange thread sends and receives a piece on end, and whatever
// else it has to do waits: requests that clients wait for are to wait shortly.
inline constexpr uint32_t kCopyPieceBytes = 128 << 10;
static_assert(kCopyPieceBytes <= kMaxCopyPieceBytes);

// Pieces of one file that are asked for at a time. Between the question for a piece and its arrival lie two
// queues and some threads, 10 ms of a busy machine; with one piece at a time the bandwidth is unused as long.
inline constexpr uint64_t kCopyPiecesUnderWay = 4;

// What passes at once after an idle time. Threads that come late by less than this takes, 10 ms at 100 MB/s,
// cost no bandwidth.
inline constexpr uint64_t kCopyBurstBytes = 1 << 20;

// See the head of this file.
class CopyBandwidth {
 public:
  explicit CopyBandwidth(uint64_t bytes_per_second) : bucket_(bytes_per_second, kCopyBurstBytes) {}

  // Takes `bytes` of it. Returns the time from which they may pass; the caller waits.
  Nanos Take(uint64_t bytes) {
    MutexLock lock(&mu_);
    return bucket_.Take(bytes, Now());
  }
  // How long `bytes` take at the full bandwidth.
  Nanos TimeOf(uint64_t bytes) const {
    MutexLock lock(&mu_);
    return bucket_.TimeOf(bytes);
  }

 private:
  mutable Mutex mu_;
  TokenBucket bucket_ ABSL_GUARDED_BY(mu_);
};

}  // namespace nova
