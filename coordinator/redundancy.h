// Redundancy: which log groups, manifests and tables have fewer living copies than their LTCs are configured
// to keep; how many StoCs there are to have them.
//
// A copy lives where its StoC is registered and has a lease, and still has what was listed: of a log the
// incarnation's memory or the store's files (incarnation, N1), of a manifest or a table the store's files.
// What is configured is what the owner says in its heartbeats, never what could be placed: with two StoCs and
// R = 3 every log group is degraded. Where the owner has not been heard, the most that any LTC keeps counts;
// where none has, what the record lists.
//
// Thread safety: pure functions of a ClusterState, whose lock the caller has.
// Ownership:     LivingStocs point into the state.
// Errors:        none.
#pragma once

#include <array>
#include <cstdint>
#include <map>

#include "coordinator/cluster_state.h"

namespace nova {

// Of log groups, of manifests, or of tables.
struct CopyCounts {
  uint64_t all = 0;       // log groups, manifests, or tables
  uint64_t degraded = 0;  // with fewer living copies than wanted
  uint32_t wanted = 0;    // copies of each, as configured; the most where LTCs differ; 0: not known
  uint32_t fewest = 0;    // living copies of the one with the fewest
};

struct Redundancy {
  CopyCounts logs;
  CopyCounts manifests;
  CopyCounts tables;  // of the ranges that were heard
  // Ranges with a manifest whose owner has not said what tables it has, or not since the StoCs have changed.
  uint64_t unheard = 0;
  // Of the ranges that were heard: parts of tables to be copied because StoCs are lost, and copied since the
  // ranges were opened.
  uint64_t rebuild_bytes = 0;
  uint64_t rebuilt_bytes = 0;
};

// By StoC id; those with a lease.
using LivingStocs = std::map<StocId, const NodeInfo*>;
LivingStocs LivingStocsOf(const ClusterState& state);

// Members that live and still have what was listed.
uint32_t LivingCopies(const LogGroup& group, const LivingStocs& living);
uint32_t LivingCopies(const ManifestGroup& group, const LivingStocs& living);

// The most that any LTC which was heard is configured to keep; 0 where none was.
CopiesKept MostCopiesKept(const ClusterState& state);
// What the range's owner is configured to keep, as far as is known.
CopiesKept CopiesWanted(const ClusterState& state, const ClusterState::Range& range);

// Of all ranges.
Redundancy CountRedundancy(const ClusterState& state);
// Of those that are open.
Redundancy CountRedundancyOfOpen(const ClusterState& state);
// Of one range alone.
Redundancy CountRedundancy(const ClusterState& state, const ClusterState::Range& range,
                           const LivingStocs& living);

// StoCs that have a record; those that drain, or whose disks are ill, are counted by their presence too.
struct StocCounts {
  uint64_t up = 0;
  uint64_t away = 0;
  uint64_t lost = 0;
  uint64_t draining = 0;
  uint64_t emptied = 0;                         // for the sake of their disks
  std::array<uint64_t, kDiskStates> by_disk{};  // [DiskState]
  uint64_t ill() const { return all() - by_disk[0]; }
  uint64_t all() const { return up + away + lost; }
};
StocCounts CountStocs(const ClusterState& state);

}  // namespace nova
