// Placement policy (paper section 4.4): how many fragments, on which StoCs. Pure functions of their inputs
// and a Random.
#pragma once

#include <vector>

#include "common/base/random.h"
#include "common/sstable/table_store.h"
#include "coordinator/cluster_types.h"

namespace nova {

struct PlacementOptions {
  int scatter_width = 1;                    // rho: fragments of a table
  int choices = 2;                          // d: StoCs looked at for each one picked; 1 = random
  int replicas = 1;                         // copies of each fragment and of the metadata
  uint64_t min_fragment_bytes = 512 << 10;  // smaller tables use fewer fragments (rho adapts to size)
};

struct StocChoice {
  StocId id;
  std::string host;
  uint32_t queue_depth = 0;
};

// `count` distinct StoCs with the shortest queues out of choices * count random ones; other hosts first,
// where there are several. Fewer when there are not that many.
std::vector<StocId> PickStocs(const std::vector<StocChoice>& stocs, size_t count, int choices,
                              Random* random);

// Fragments on distinct StoCs as far as there are enough, copies of one fragment always on distinct ones.
// Empty fragments: no StoC.
Placement PlaceTable(const std::vector<StocChoice>& stocs, uint64_t table_bytes,
                     const PlacementOptions& options, Random* random);

}  // namespace nova
