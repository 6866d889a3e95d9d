// Chaos: clients work on a cluster while its nodes are killed, paused and cut off at random moments; then all heals, and every
// acknowledged write must be there (protocol.md: H1-H31 end to end).
//
// What the cluster is to survive bounds the faults: a StoC is killed only while each log group keeps a member (R-1 of R).
//
// Ownership: none.   Errors: the first violation, as text; empty: none.
#pragma once

#include <cstdint>
#include <string>

#include "tests/cluster_sim/sim_cluster.h"

namespace nova {

struct ChaosOptions {
  SimClusterOptions cluster = SmallCluster();
  int ranges = 6;
  int clients = 4;
  int keys_per_client = 20;
  Nanos duration_ns = 12 * kSecond;
  bool kill_stocs = true;
  bool kill_ltcs = true;
  bool kill_coordinators = true;
  bool pauses = true;
  bool cuts = true;
};
ChaosOptions ChaosOf(uint64_t seed);  // sizes, threads and delays differ by the seed

struct ChaosResult {
  std::string violation;
  uint64_t acknowledged = 0;
  uint64_t unknown = 0;
  uint64_t refused = 0;
  uint64_t faults = 0;
  uint64_t trace_hash = 0;
};
ChaosResult RunChaos(uint64_t seed, const ChaosOptions& options);

}  // namespace nova
