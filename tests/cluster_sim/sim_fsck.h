// SimFsck: checks of a simulated cluster, as `nova fsck` makes them: by asking its StoCs, or from their
// disks.
//
// Thread safety: a fiber of the Simulation.   Ownership: the cluster outlives it.   Errors: as CheckCluster.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "ltc/fsck/cluster_check.h"
#include "ltc/fsck/stoc_connection.h"
#include "tests/cluster_sim/sim_cluster.h"

namespace nova {

// Of what these StoCs' disks hold at this moment, whether they run or not. Memory counts of those that run.
StatusOr<CheckReport> CheckDisks(SimCluster* cluster, ConfigStore* store,
                                 const std::vector<std::string>& stocs, const CheckOptions& options);

class SimFsck {
 public:
  explicit SimFsck(SimCluster* cluster);

  // `bytes_per_second` 0: no bound.
  StatusOr<CheckReport> AskStocs(const CheckOptions& options, uint64_t bytes_per_second = 0);
  StatusOr<CheckReport> ReadDisks(const std::vector<std::string>& stocs, const CheckOptions& options) {
    return CheckDisks(cluster_, store_.get(), stocs, options);
  }

  StocClient* client() { return stocs_->client(); }

 private:
  SimCluster* const cluster_;
  const std::unique_ptr<ConfigStore> store_;
  const std::unique_ptr<Fabric> fabric_;
  std::unique_ptr<StocConnection> stocs_;
};

}  // namespace nova
