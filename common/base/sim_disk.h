// SimDisk: a disk in memory that loses bytes that were not synced when its machine crashes.
//
// The SimDisk is the medium; a process mounts it and gets a Disk. After Crash there are the synced bytes of
// files whose directory entry was synced. With `torn` there is also a part of the rest, picked by the seed:
// of each unsynced write some of its sectors, of unsynced changes of directories the first few in their order
// (renames whole), as on journalling file systems.
//
// Thread safety: all. In a simulation every call is a yield point and takes `latency_ns` of virtual time.
// Ownership: the medium outlives its mounts. A mount's lock ends with it, or with a crash.
// Errors: as disk.h; FailedPrecondition: a handle or mount from before a crash.
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
  uint64_t capacity_bytes = uint64_t{1} << 40;  // ResourceExhausted beyond it
  Nanos latency_ns = 0;                         // of each Read, Write and Sync
};

class SimDisk {
 public:
  explicit SimDisk(SimDiskOptions options = {});
  ~SimDisk();

  // A process's view of the medium.
  std::unique_ptr<Disk> Mount();
  // The machine loses power: mounts and handles from before are dead. `torn` null: exactly the synced bytes
  // are left.
  void Crash(Random* torn = nullptr);
  // A medium of its own with what a mount would read now, all of it durable; for tests. Takes no time,
  // then or when it is read.
  std::unique_ptr<SimDisk> Copy() const;
  // The content that a mount would read, without time passing; for tests. nullopt: there is no such file.
  std::optional<std::string> Contents(const std::string& path) const;

 private:
  struct Rep;
  std::shared_ptr<Rep> rep_;
};

}  // namespace nova
