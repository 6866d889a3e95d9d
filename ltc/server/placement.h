// Placement policy (paper section 4.4): into how many fragments a table is cut, and on which StoCs each copy
// lies; and where copies go that it lacks later. Several StoCs are drawn at random and those with the least
// to do are taken (power of d choices).
//
// What a StoC has to do is an estimate (Backlogs), for a depth that it told a second ago says nothing: the
// bytes that are on their way from here, and the requests of others, which fade to what all have. As many
// bytes take longer where the disk is slower (Slowness): "least to do" means that a table is stored first.
//
// Thread safety: pure functions of their inputs and a Random.
// Errors: none; fewer StoCs than asked for where there are no more.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "common/base/random.h"
#include "common/sstable/table_store.h"
#include "coordinator/cluster_types.h"
#include "stoc/stoc_load.h"

namespace nova {

// How tables are scattered; the same for all ranges of an LTC.
struct PlacementOptions {
  int scatter_width = 1;  // rho: fragments of a table, at most
  // As many fragments as have the table stored first, by what StoCs have to do: one more is a queue and a
  // sync more, and the table waits for the longest. False: as many as the table's size allows.
  bool scatter_by_load = true;
  int choices = 2;                          // d: StoCs drawn for each one picked; 1: random
  int replicas = 1;                         // copies of each fragment and of the metadata
  uint64_t min_fragment_bytes = 512 << 10;  // smaller tables have fewer fragments
  // Where first copies lie, as long as a StoC of that host takes tables: the owner's own host makes a cluster
  // share nothing. Empty: anywhere.
  std::string first_copies_on = {};
};

// A StoC that may be picked, as last heard.
struct StocChoice {
  StocId id;
  std::string host;  // copies go to distinct ones where there are several
  StocLoad load;
  DiskState disk = DiskState::kOk;  // as the coordinator says
};

// Of each StoC the bytes that are to be written before what is placed now: those on their way from here, and
// those of others' requests, at `request_bytes` each. A depth counts by half of what it differs from the
// mean of all for each kDepthHalfLife of its age.
inline constexpr Nanos kDepthHalfLife = 250 * kMillisecond;
std::vector<double> Backlogs(const std::vector<StocChoice>& stocs, uint64_t request_bytes);

// Of each StoC, how many times as long as at the median one it takes for a byte (StocPace); 1: less than half
// as long again, which may be chance, or not known. A StoC that nothing was written to counts by half of that
// (of its logarithm) for each kPaceHalfLife, so that it is tried again.
inline constexpr Nanos kPaceHalfLife = 10 * kSecond;
std::vector<double> Slowness(const std::vector<StocChoice>& stocs);

// Those among which `count` are to be picked: StoCs with the best disks, and with the next worse ones only
// where those are too few. A disk that is ill is a reason to look elsewhere, and never one to place nothing.
std::vector<StocChoice> WithBestDisks(const std::vector<StocChoice>& stocs, size_t count);

// `count` distinct StoCs of those with the best disks, on distinct hosts first, and on none of `hosts`, which
// have a copy already: those that have stored their `bytes` first, by backlog and slowness, among choices *
// count random ones. Fewer if there are not that many.
std::vector<StocId> PickStocs(const std::vector<StocChoice>& stocs, size_t count, uint64_t bytes, int choices,
                              Random* random, std::set<std::string> hosts = {});

// Places a table of `table_bytes` on StoCs with the best disks. Fragments lie on distinct StoCs as far as
// there are enough; copies of one fragment always do, and on other hosts than the first if enough of those
// exist. Where first copies are to lie on one host, a table has no more fragments than that has StoCs. No
// fragments: `stocs` is empty.
Placement PlaceTable(const std::vector<StocChoice>& stocs, uint64_t table_bytes,
                     const PlacementOptions& options, Random* random);

// Places `count` tables of `table_bytes` each before any of them is written: what was placed counts for the
// next one as on its way. None: `stocs` is empty.
std::vector<Placement> PlaceTables(std::vector<StocChoice> stocs, uint64_t table_bytes, size_t count,
                                   const PlacementOptions& options, Random* random);

// The StoCs of the cluster, for the copies of a table that is there already (rebuild, S5).
struct StocStates {
  std::map<StocId, std::string> live;  // with a lease, and their hosts
  std::set<StocId> lost;               // gone for good (StoC record, N5)
  std::set<StocId> draining;           // of the live ones
  std::set<StocId> emptied;            // of the live ones, for their disks
  std::set<StocId> slow;               // take new copies where nobody else does
  std::set<StocId> avoided;            // take no new copy now
  uint64_t version = 0;                // of the coordinator's list of StoCs
  bool operator==(const StocStates&) const = default;
};

// The copies that a table is to get, and those it is to name no longer. A copy on a StoC that is neither lost
// nor draining nor emptied stays, and counts also while the StoC is away. A part that has fewer than
// `replicas` of those gets others, as far as StoCs take them and one of its copies can be read, and has them
// in the place of lost, draining and emptied ones. A copy on a draining StoC that cannot be replaced goes all
// the same, if another one lives: an operator wants it so. On an emptied one it stays.
//
// Of the StoCs that have no copy of the part, those whose disks are not slow come first, then those on hosts
// without one; among equals a hash of the part and the StoC decides: so two ranges that share a table choose
// the same, and the parts that a lost StoC had go to all the others.
std::vector<PartCopy> PlanCopies(const TableInfo& table, const StocStates& stocs, int replicas);

}  // namespace nova
