// SimDisk: a disk in memory that loses what was not synced when its machine crashes (faults rows 20, 23, 24).
//
// The SimDisk is the medium; a process mounts it and gets a Disk. What survives Crash: the synced bytes of
// files whose directory entry was synced; with `torn`, also a part of the rest, picked by the seed: of each
// unsynced write some of its sectors, of unsynced directory changes a prefix in their order (renames whole),
// as journalling file systems do.
//
// Thread safety: all. In a simulation every call is a yield point, and takes `latency_ns` of virtual time.
// Ownership:     the medium outlives its mounts; a mount's lock goes with it, or with a crash.
// Errors:        as disk.h; FailedPrecondition through a handle or mount from before a crash.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "common/base/clock.h"
#include "common/base/disk.h"
#include "common/base/random.h"

namespace nova {

struct SimDiskOptions {
  uint64_t capacity_bytes = uint64_t{1} << 40;
  Nanos latency_ns = 0;  // of each Read, Write and Sync
};

class SimDisk {
 public:
  explicit SimDisk(SimDiskOptions options = {});
  ~SimDisk();

  std::unique_ptr<Disk> Mount();
  // Mounts and handles from before are dead. `torn` null: exactly what was synced.
  void Crash(Random* torn = nullptr);
  // What a mount would read, in no time: of tests. nullopt: no such file.
  std::optional<std::string> Contents(const std::string& path) const;

 private:
  struct Rep;
  std::shared_ptr<Rep> rep_;
};

}  // namespace nova
