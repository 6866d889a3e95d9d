// RangeHost, RangeServices: the services that a process gives to each of its ranges.
//
// Thread safety: all.   Ownership: both outlive the ranges that were given them, or the range keeps them
//                (Range::Recover).
// Errors: of each method.
#pragma once

#include <algorithm>
#include <functional>
#include <set>
#include <vector>

#include "common/base/executor.h"
#include "common/base/ids.h"
#include "common/base/rules_off.h"
#include "common/base/status.h"
#include "common/sstable/table_store.h"
#include "ltc/engine/arena.h"
#include "ltc/engine/block_cache.h"
#include "ltc/engine/job_runner.h"
#include "ltc/engine/version.h"

namespace nova {

// What is to happen to the copies of one table (rebuild, S5).
struct CopyPlan {
  std::vector<PartCopy> copies;  // to make, or to name no longer; none: the table is as it should be
  uint64_t bytes = 0;            // of those to make
  uint32_t living = 0;           // copies that can be read now, of the part with the fewest
};

// Copies that a table lacks, and copies that are to leave their StoCs; none goes to a StoC of `avoid`.
using CopyPlanner = std::function<CopyPlan(const TableInfo& table, const std::set<StocId>& avoid)>;

class RangeHost {
 public:
  virtual ~RangeHost() = default;
  // Chooses StoCs for a table of so many bytes of data. Does not wait. Unavailable: none is alive.
  virtual StatusOr<Placement> Place(uint64_t table_bytes) = 0;
  // How many StoCs take tables now: so many tables may be on their way to disks side by side. Does not wait.
  virtual size_t Disks() const { return 1; }
  // Plans, for the StoCs as they are now. Does not wait. Unless it is overridden tables have one copy each,
  // for ever.
  virtual CopyPlanner PlannerOfCopies() {
    return [](const TableInfo&, const std::set<StocId>&) { return CopyPlan(); };
  }
  // Background work may be due. It may be called under locks of the range: it must not call back into it.
  virtual void WorkDue(RangeId range) = 0;
  // The epoch is fenced: the range serves nothing more, and is to be let go. Called once.
  virtual void Fenced(RangeId range, const Status& why) = 0;
  // On a thread that opens the readers of tables, or here, at once.
  virtual void RunReader(std::function<void()> fn) = 0;
};

// What a range is given to work with; one for each range, for the host of ranges in a cluster is one too.
struct RangeServices {
  TableStore* store = nullptr;  // where tables lie
  BlockCache* cache = nullptr;  // of all ranges of the process
  ArenaPool* arenas = nullptr;  // memory of all its memtables
  RangeHost* host = nullptr;
  JobRunner* jobs = nullptr;               // runs parts of compactions; null: they run here
  size_t memtable_limit_bytes = SIZE_MAX;  // for the memtables of all ranges of the process
  // All tables lie on one disk: flushes that wait for it gain nothing side by side.
  bool one_disk = false;
  std::vector<Executor*> executors;  // the request threads, by index
  // Takes dropped tables, and deletes them later. A value: the last handle of a table, in a view that an idle
  // thread still holds, may outlive range and host.
  GarbageSink garbage;
  RulesOff off = {};  // tests only

  // Memory of memtables that flushes free, sealed rounds and what is written to active ones; and a bound on
  // it: of memtable_limit_bytes, what ranges do not take while nothing is written. They may take nearly all,
  // so a quarter of the limit is left in any case: else writers would be slowed down for ever.
  double freeable_bytes() const {
    const auto used = static_cast<double>(arenas->bytes_used());
    return std::max(0.0, used - static_cast<double>(arenas->bytes_fixed()));
  }
  double freeable_limit_bytes() const {
    const auto limit = static_cast<double>(memtable_limit_bytes);
    return std::max(limit - static_cast<double>(arenas->bytes_fixed()), limit / 4);
  }
};

}  // namespace nova
