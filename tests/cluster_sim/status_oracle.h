// StatusOracle: holds what the coordinator's status promises, how many copies each log group, manifest and
// table has at least, against what a check of the StoCs' disks counts at that moment.
//
// A promise may be late: of a StoC that has just died until its lease is over, and its owners have counted
// anew. So one is broken only if it is given again and again, while for kLate no StoC comes or goes, and is
// never true.
//
// Thread safety: a fiber of the Simulation.   Ownership: the cluster outlives it.   Errors: text; empty:
// none.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "ltc/fsck/check_report.h"
#include "tests/cluster_sim/sim_cluster.h"

namespace nova {

// Of what a status as JSON says, what is more than there is: by kind, as text.
std::map<std::string, std::string> PromisedTooMuch(const std::string& status, const CheckReport& found);

class StatusOracle {
 public:
  static constexpr Nanos kLate = 6 * kSecond;

  explicit StatusOracle(SimCluster* cluster) : cluster_(cluster), store_(cluster->config()->NewSession()) {}

  // A promise that has not been true for kLate. One look: call it often.
  std::string Look();
  uint64_t looks() const { return looks_; }  // that compared something

 private:
  // Each StoC that runs, and which start of it.
  std::map<std::string, Incarnation> Running() const;

  SimCluster* const cluster_;
  const std::unique_ptr<ConfigStore> store_;
  std::map<std::string, Incarnation> running_;  // at the last look
  std::map<std::string, Nanos> since_ns_;       // of each kind: when too much was promised first
  uint64_t looks_ = 0;
};

}  // namespace nova
