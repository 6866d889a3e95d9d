// CopyBandwidth: the bytes per second that a StoC gives to copies of files, in both directions together: what
// it reads as a source and what it takes as a target (rebuild, S5).
//
// Thread safety: all.   Ownership: none taken.   Errors: none.
#pragma once

#include "common/base/mutex.h"
#include "common/base/token_bucket.h"
#include "stoc/protocol.h"

namespace nova {

// See the head of this file.
class CopyBandwidth {
 public:
  explicit CopyBandwidth(uint64_t bytes_per_second) : bucket_(bytes_per_second, kMaxCopyPieceBytes) {}

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
