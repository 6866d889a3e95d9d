// DeletionWatch: no StoC deletes a file of a table that the manifest of its range names there: edit first
// (M2), collection (N4), rebuild (S5). Repairs and audits would make good what was deleted, so each deletion
// is looked at as it happens.
//
// Judged are the ranges whose records are OPEN: between two owners their manifests are those of the former
// one.
//
// Thread safety: fibers of the Simulation.   Ownership: cluster and watch outlive the disks.
// Errors: the first violation, as text.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>

#include "common/base/fault_disk.h"
#include "tests/cluster_sim/sim_cluster.h"

namespace nova {

class DeletionWatch {
 public:
  // A FaultDisk in front of that StoC's disk, which is watched.
  std::unique_ptr<Disk> Wrap(const std::string& stoc, Disk* disk);
  // REQUIRES: before a node starts.
  void set_cluster(SimCluster* cluster) { cluster_ = cluster; }
  const std::string& violation() const { return violation_; }  // empty: none
  uint64_t looks() const { return looks_; }                    // deletions that could be judged

 private:
  class WatchedDisk;
  // By the manifest of `record`: where its parts of tables are.
  using Named = std::map<StocFileId, std::set<StocId>>;

  void Deleted(const std::string& stoc, const std::string& path, const std::string& contents);
  // Null: no copy of it can be read just now.
  const Named* NamedBy(const RangeRecord& record);

  SimCluster* cluster_ = nullptr;
  std::string violation_;
  uint64_t looks_ = 0;
  // The last one that was read, of each range; with the file, and the bytes of all copies.
  struct Read {
    Uuid file;
    size_t bytes = 0;
    Named named;
  };
  std::map<RangeId, Read> read_;
};

}  // namespace nova
