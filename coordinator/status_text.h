// RenderStatus: the cluster for people: what `nova status` prints and the coordinator's page shows.
// RenderStatusJson: the same for programs, on one line: docs/deploy.md lists its names.
//
// Thread safety: a pure function.   Errors: none.
#pragma once

#include <string>

#include "coordinator/cluster_state.h"

namespace nova {

struct StatusHeader {
  Uuid cluster;
  std::string leader;
  std::string address;
};

std::string RenderStatus(const ClusterOptions& options, const ClusterState& state, const StatusHeader& header,
                         Nanos now);
std::string RenderStatusJson(const ClusterOptions& options, const ClusterState& state,
                             const StatusHeader& header, Nanos now);

}  // namespace nova
