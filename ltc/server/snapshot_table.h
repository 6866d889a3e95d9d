// SnapshotTable: the snapshots that clients hold of this LTC's ranges, by the ids that they were given.
//
// Ids rise from a random number, so the id of an earlier owner's snapshot is not found here. A client that
// died keeps its snapshots until their leases end; then the range lets go of the versions they kept
// (ltc/engine/snapshot.h), and Sweep forgets them.
//
// Thread safety: all.
// Locks: its own; under it a snapshot may be let go of, which takes its range's list's.
// Ownership: shares the snapshots.
// Bounds: max_per_range snapshots of each range.
// Errors: 0, null, false: see each method.
#pragma once

#include <functional>
#include <memory>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "common/base/ids.h"
#include "common/base/mutex.h"
#include "common/base/random.h"
#include "ltc/engine/snapshot.h"

namespace nova {

class SnapshotTable {
 public:
  explicit SnapshotTable(size_t max_per_range) : max_per_range_(max_per_range) {}

  // Adds a snapshot and returns its id, or 0 if the range has as many as it may.
  uint64_t Add(RangeId range, Epoch epoch, std::shared_ptr<Snapshot> snapshot, Nanos now_ns);
  // Null: this range and epoch has none of that id, or its lease is over.
  std::shared_ptr<Snapshot> Find(RangeId range, Epoch epoch, uint64_t id, Nanos now_ns) const;
  // Moves the end of the lease to `expires_ns`. False: as Find's null.
  bool Renew(RangeId range, Epoch epoch, uint64_t id, Nanos now_ns, Nanos expires_ns);
  // Forgets it; the range lets go once nobody reads at it. False: as Find's null.
  bool Drop(RangeId range, Epoch epoch, uint64_t id, Nanos now_ns);
  // Forgets the snapshots of ranges and epochs for which `here` is false.
  void KeepOnly(const std::function<bool(RangeId, Epoch)>& here);
  void Sweep(Nanos now_ns);  // forgets those whose lease is over
  // Snapshots of all ranges, those included whose lease is over and that Sweep has not met.
  size_t size() const;

 private:
  struct Held {  // a snapshot that a client holds
    RangeId range;
    Epoch epoch;  // of the owner that took it; at another one it has ended
    std::shared_ptr<Snapshot> snapshot;
  };
  // Null: no such id, or it is of another range or epoch. The lease is not looked at.
  const Held* FindLocked(RangeId range, Epoch epoch, uint64_t id) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Forgets the snapshots for which `gone` is true.
  void EraseIfLocked(const std::function<bool(const Held&)>& gone) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const size_t max_per_range_;
  mutable Mutex mu_;
  absl::flat_hash_map<uint64_t, Held> held_ ABSL_GUARDED_BY(mu_);  // by id
  // Snapshots by range; at most max_per_range_.
  absl::flat_hash_map<RangeId, size_t> count_ ABSL_GUARDED_BY(mu_);
  uint64_t last_id_ ABSL_GUARDED_BY(mu_) = RandomSeed();  // the next id is one more; never 0
};

}  // namespace nova
