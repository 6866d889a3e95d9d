// TableChores: tables that housekeeping has to delete or to repair, as reads and versions tell of them.
//
// Thread safety: all; nothing waits.
// Locks: its own, a leaf: tables are dropped under locks of ranges.
// Ownership: none taken.
// Errors: none.
#pragma once

#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "common/sstable/table_store.h"

namespace nova {

class TableChores {
 public:
  // `repair_pause_ns`: after a repair that failed.
  explicit TableChores(Nanos repair_pause_ns) : repair_pause_ns_(repair_pause_ns) {}

  // Nobody needs the table any more; `holder` is the range that held it.
  void Dropped(const TableInfo& table, const Creator& holder) {
    MutexLock lock(&mu_);
    dropped_.emplace_back(table, holder);
  }
  // All that was dropped since the last call.
  std::vector<std::pair<TableInfo, Creator>> TakeDropped() {
    MutexLock lock(&mu_);
    return std::exchange(dropped_, {});
  }

  // A copy of the table is damaged or gone (damaged copy, S3). Of more than kMostDamaged the next read, or
  // the next audit, tells again.
  void Damaged(const Uuid& table) {
    MutexLock lock(&mu_);
    if (damaged_.size() < kMostDamaged) damaged_.insert(table);
  }
  // A table to repair now; RepairEnded has to follow. nullopt: there is none, one is under way, for requests
  // come first, or the pause after a failure lasts. Tables take turns: one that cannot be repaired, and is
  // told of again and again, keeps no other from it.
  std::optional<Uuid> BeginRepair() {
    MutexLock lock(&mu_);
    if (damaged_.empty() || repairing_ || Now() < next_repair_ns_) return std::nullopt;
    repairing_ = true;
    auto next = damaged_.upper_bound(last_);
    if (next == damaged_.end()) next = damaged_.begin();
    last_ = *next;
    damaged_.erase(next);
    return last_;
  }
  void RepairEnded(bool ok) {  // what could not be repaired is found again by reads
    MutexLock lock(&mu_);
    repairing_ = false;
    if (!ok) next_repair_ns_ = Now() + repair_pause_ns_;
  }

 private:
  static constexpr size_t kMostDamaged = 1024;  // tables that wait for a repair

  const Nanos repair_pause_ns_;
  Mutex mu_;
  std::vector<std::pair<TableInfo, Creator>> dropped_ ABSL_GUARDED_BY(mu_);  // tables, and whose they were
  std::set<Uuid> damaged_ ABSL_GUARDED_BY(mu_);                              // tables to repair
  Uuid last_ ABSL_GUARDED_BY(mu_);                                           // whose repair was begun last
  bool repairing_ ABSL_GUARDED_BY(mu_) = false;    // between BeginRepair and RepairEnded
  Nanos next_repair_ns_ ABSL_GUARDED_BY(mu_) = 0;  // none begins before
};

}  // namespace nova
