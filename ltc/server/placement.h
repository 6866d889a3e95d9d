// Placement policy (paper section 4.4): into how many fragments a table is cut, and on which StoCs each copy
// lies. Several StoCs are drawn at random and those with the shortest queues are taken (power of d choices).
//
// Thread safety: pure functions of their inputs and a Random.
#pragma once

#include <vector>

#include "common/base/random.h"
#include "common/sstable/table_store.h"
#include "coordinator/cluster_types.h"

namespace nova {

struct PlacementOptions {
  int scatter_width = 1;                    // rho: fragments of a table, at most
  int choices = 2;                          // d: StoCs drawn for each one picked; 1: random
  int replicas = 1;                         // copies of each fragment and of the metadata
  uint64_t min_fragment_bytes = 512 << 10;  // smaller tables have fewer fragments
};

// A StoC that may be picked, as last heard.
struct StocChoice {
  StocId id;
  std::string host;
  uint32_t queue_depth = 0;  // its requests waiting for the disk
};

// `count` distinct StoCs: those with the shortest queues among choices * count random ones, on distinct hosts
// first. Fewer if there are not that many.
std::vector<StocId> PickStocs(const std::vector<StocChoice>& stocs, size_t count, int choices,
                              Random* random);

// Places a table of `table_bytes`. Fragments lie on distinct StoCs as far as there are enough; copies of one
// fragment always do, and on other hosts than the first if enough of those exist. No fragments: `stocs` is
// empty.
Placement PlaceTable(const std::vector<StocChoice>& stocs, uint64_t table_bytes,
                     const PlacementOptions& options, Random* random);

}  // namespace nova
