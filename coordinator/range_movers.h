// RangeMovers: threads that carry out what the leader has decided: moves of ranges (seal, R1) and changes of
// StoCs' records (StoC record, N5). Each is a compare-and-set of one record, which also checks that we lead
// (authority, C1).
//
// Thread safety: all; Replace, WriteMove and WriteStoc wait for the store.
// Ownership:     the Election, the ClusterMirror and the ZnodeSession outlive it. Stop, or the destructor,
//                before the mirror's.
// Errors:        a change that is refused, or whose outcome is not known, is told to the mirror as not done;
//                its record is read again. Of the three: Aborted: somebody was first, or we no longer lead;
//                Unavailable: the outcome is not known.
#pragma once

#include <memory>
#include <string>
#include <variant>
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
  void Stop();  // changes under way end, those that wait are dropped; idempotent
  // The mirror is told of its end. False: too many are waiting.
  bool Add(CoordEpoch term, RangeMove move);
  bool Add(CoordEpoch term, StocChange change);

  // Replaces exactly that version of a znode, as the leader of that term; the new version. Settles a lost
  // reply (docs/testing.md, row 38).
  static StatusOr<int64_t> Replace(const Term& term, const std::string& path, const std::string& data,
                                   int64_t version);
  // The same of records, `before` by `after`; as written.
  static StatusOr<RangeRecord> WriteMove(const Term& term, const RangeMove& move);
  static StatusOr<StocRecord> WriteStoc(const Term& term, const StocChange& change);

 private:
  struct Change {
    CoordEpoch term;  // that decided it; a later one does not carry it out
    std::variant<RangeMove, StocChange> what;
  };
  void CarryOut(const Change& change);  // if its term still leads
  // Writes the record, and tells the mirror what came of it.
  void Carry(CoordEpoch epoch, const Term& term, const RangeMove& move);
  void Carry(CoordEpoch epoch, const Term& term, const StocChange& change);
  // A change of the record at `path` was not made, or perhaps was: reads what there is.
  void Refused(const std::string& path);

  Election* const election_;
  ClusterMirror* const mirror_;
  ZnodeSession* const session_;
  Counter* const moves_;
  Counter* const failed_moves_;
  Counter* const stoc_changes_;
  BoundedQueue<Change> queue_;
  std::vector<std::unique_ptr<Thread>> threads_;
};

}  // namespace nova
