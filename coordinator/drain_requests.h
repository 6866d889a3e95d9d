// DrainRequests: carries out Drain, Undrain and Forget of coordinator.proto. The first two find the node that
// is meant, and set or clear its mark by compare-and-set (drain.h). To ask for a mark that is there already
// is no error. Undrain also forgives what the StoC's disk has done by now (StoC record, N5). Forget removes a
// record that nobody needs; if its StoC is ever heard again, the leader makes it one anew.
//
// Thread safety: all; they wait for the store. Marks are set one after another, so that two that are allowed
//                each by itself do not leave too few StoCs, or no LTC, together.
// Locks:         that of marks, held while the store is asked; under it ClusterMirror's, then Election's.
// Ownership:     the parts outlive it.
// Errors:        NotLeadingError (leader_channel.h); NotFound: there is no such node; Unavailable: the node
//                is unknown for a moment only, or the store does not answer; FailedPrecondition: drain.h.
#pragma once

#include <string>

#include "common/base/mutex.h"
#include "coordinator/cluster_mirror.h"
#include "coordinator/drain.h"

namespace nova {

class DrainRequests {
 public:
  DrainRequests(const ClusterOptions& options, Election* election, ClusterMirror* mirror)
      : options_(options), election_(election), mirror_(mirror) {}

  // Marks the node; what is still on it.
  StatusOr<std::string> Drain(const std::string& node, bool force);
  StatusOr<std::string> Undrain(const std::string& node);  // what it does now, for people
  Status Forget(StocId stoc);

 private:
  // Which node is meant, by what the store says now.
  StatusOr<DrainTarget> Find(const Term& term, const std::string& node) const;
  // Unavailable: the node is unknown for a moment only. NotFound: there is none of that name.
  Status NotRegistered(const std::string& node) const;
  // Whether they may be drained, where one of them does not drain yet.
  Status CheckStocs(const std::vector<StocId>& stocs, bool force) const;
  // The same of an LTC.
  Status CheckLtc(const std::string& ltc) const;
  // Sets or clears one mark: in a StoC's record, in a node's registration. The mirror knows it when it is
  // done. False: it was so.
  StatusOr<bool> MarkStoc(const Term& term, StocId stoc, bool draining);
  StatusOr<bool> MarkNode(const Term& term, const std::string& node, bool draining);
  // Clears both marks of a StoC.
  StatusOr<bool> UndrainStoc(const Term& term, StocId stoc);

  const ClusterOptions options_;
  Election* const election_;
  ClusterMirror* const mirror_;
  Mutex marking_;  // held while marks are set
};

}  // namespace nova
