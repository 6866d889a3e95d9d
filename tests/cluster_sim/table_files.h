// TableFiles: where the manifests of a cluster's ranges name parts of tables, and where their files are.
//
// Thread safety: a fiber of the Simulation.   Ownership: none.   Errors: what is wrong, as text.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "ltc/engine/manifest.h"
#include "stoc/file_header.h"
#include "tests/cluster_sim/sim_cluster.h"

namespace nova {

struct TableFiles {
  std::string error;                                         // a manifest that cannot be read just now
  std::map<StocFileId, std::set<StocId>> named;              // the parts of tables, by all ranges
  std::map<StocId, std::map<StocFileId, FileHeader>> files;  // of tables, on StoCs that run

  // Of what is named: copies that a running StoC has not.
  std::set<std::pair<StocFileId, StocId>> MissingCopies() const;
  size_t Missing() const { return MissingCopies().size(); }
  // Parts with fewer copies than `wanted` on StoCs that run, or than there are such StoCs.
  size_t ShortOf(size_t wanted) const;
  // Files that no manifest names on that StoC.
  size_t Surplus() const;
  std::string ToString(size_t wanted) const;
};

// What a manifest says by these copies of it.
StatusOr<std::shared_ptr<const Version>> VersionOf(const Uuid& manifest,
                                                   const std::vector<Manifest::Copy>& copies);
// The StoCs where the version's tables, and those of its checkpoints, have their parts.
void AddNamed(const Version& version, std::map<StocFileId, std::set<StocId>>* named);

// As of one moment, if nothing waits: disks without latency.
TableFiles LookAtTables(SimCluster* cluster);

}  // namespace nova
