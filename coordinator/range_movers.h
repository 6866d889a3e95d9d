// RangeMovers: threads that carry out moves of ranges, each a compare-and-set of a range's record (seal, R1).
//
// Thread safety: all; WriteMove waits for the store.
// Ownership:     the Election, the ClusterMirror and the ZnodeSession outlive it. Stop, or the destructor,
//                before the mirror's.
// Errors:        a move that is refused, or whose outcome is not known, is told to the mirror as not done;
//                its record is read again.
#pragma once

#include <memory>
#include <vector>

#include "common/base/metrics.h"
#include "common/base/queue.h"
#include "common/base/thread.h"
#include "coordinator/cluster_mirror.h"

namespace nova {

class RangeMovers {
 public:
  RangeMovers(Election* election, ClusterMirror* mirror, ZnodeSession* session, Metrics* metrics);
  ~RangeMovers() { Stop(); }

  void Start(uint32_t threads);
  void Stop();
  // The mirror is told of its end. False: too many are waiting.
  bool Add(CoordEpoch term, RangeMove move);

  // Replaces exactly the version `move.before` has; settles a lost reply (docs/testing.md, row 38). Aborted:
  // somebody was first, or we no longer lead.
  static StatusOr<RangeRecord> WriteMove(const Term& term, const RangeMove& move);

 private:
  struct Move {
    CoordEpoch term;
    RangeMove move;
  };
  void CarryOut(const Move& move);

  Election* const election_;
  ClusterMirror* const mirror_;
  ZnodeSession* const session_;
  Counter* const moves_;
  Counter* const failed_moves_;
  BoundedQueue<Move> queue_;
  std::vector<std::unique_ptr<Thread>> threads_;
};

}  // namespace nova
