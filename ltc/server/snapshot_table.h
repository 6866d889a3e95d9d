// SnapshotTable: the snapshots that clients hold of this LTC's ranges, by the ids they were given.
//
// An id is never given twice by a process, and starts at a random number: one of an earlier owner of the
// range is not found. A client that died keeps its snapshots until their leases end; then the range lets go
// of what they kept (snapshot.h), and Sweep forgets them here.
//
// Thread safety: all.   Ownership: shares the snapshots.   Bounds: max_per_range.
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

  // 0: the range has as many as it may.
  uint64_t Add(RangeId range, Epoch epoch, std::shared_ptr<Snapshot> snapshot, Nanos now_ns);
  // Null: there is none of this range and epoch, or it has ended.
  std::shared_ptr<Snapshot> Find(RangeId range, Epoch epoch, uint64_t id, Nanos now_ns) const;
  bool Renew(RangeId range, Epoch epoch, uint64_t id, Nanos now_ns, Nanos expires_ns);
  bool Drop(RangeId range, Epoch epoch, uint64_t id, Nanos now_ns);
  void KeepOnly(const std::function<bool(RangeId, Epoch)>& here);
  void Sweep(Nanos now_ns);
  size_t size() const;

 private:
  struct Held {
    RangeId range;
    Epoch epoch;
    std::shared_ptr<Snapshot> snapshot;
  };
  const Held* FindLocked(RangeId range, Epoch epoch, uint64_t id) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void EraseIfLocked(const std::function<bool(const Held&)>& gone) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const size_t max_per_range_;
  mutable Mutex mu_;
  absl::flat_hash_map<uint64_t, Held> held_ ABSL_GUARDED_BY(mu_);
  absl::flat_hash_map<RangeId, size_t> count_ ABSL_GUARDED_BY(mu_);
  uint64_t last_id_ ABSL_GUARDED_BY(mu_) = RandomSeed();
};

}  // namespace nova
