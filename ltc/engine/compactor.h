// Compactor: picks compactions (compaction_picker.h), runs each in parts that threads take side by side, and
// commits it as one edit.
//
// A job (common/sstable/compaction_job.h) is self-contained: what it reads and writes goes through a storage
// of its own. Flushes go first (Pacer).
//
// Thread safety: all; CompactOne waits.
// Lock:          one for picks, taken before JobBook's; no other is taken under it but that of views.
// Ownership:     none taken.   Errors: a compaction that fails gives up what it wrote, and is picked again;
//                Pacer remembers why.
#pragma once

#include <atomic>
#include <memory>
#include <vector>

#include "common/base/mutex.h"
#include "ltc/engine/compaction_picker.h"
#include "ltc/engine/job_book.h"
#include "ltc/engine/pacer.h"
#include "ltc/engine/round_set.h"
#include "ltc/engine/table_access.h"
#include "ltc/engine/version_set.h"

namespace nova {

class Compactor {
 public:
  Compactor(const RangeContext* context, ReadPoints* points, RoundSet* rounds, Pacer* pacer,
            TableAccess* tables, JobBook* jobs, VersionSet* versions)
      : context_(context),
        points_(points),
        rounds_(rounds),
        pacer_(pacer),
        tables_(tables),
        jobs_(jobs),
        versions_(versions) {}

  bool NeedsCompaction();
  // One compaction, or a part of one that another thread began; false: nothing to do now.
  bool CompactOne();
  void Pause(bool on) {  // while it is on, none is begun
    MutexLock lock(&mu_);
    paused_ = on;
  }
  // Tables on a StoC that is to be left (JobBook), and jobs under way that may still place some there.
  uint64_t TablesLeft(StocId stoc) const;

 private:
  struct RunningCompaction;
  class JobStorage;

  bool HoldsHidden(const RangeView& view);  // tables hold what range deletions (K7) hide
  Status RunPlan(uint64_t job_id, const std::shared_ptr<RunningCompaction>& run);
  // The jobs of a plan: cut where its tables' blocks say that about equal parts of the bytes lie on each
  // side.
  Status PlanParts(uint64_t job_id, const DropRules& rules, RunningCompaction* run);
  bool RunParts(RunningCompaction* run);  // until none is left to take; false: there was none
  void GiveUp(RunningCompaction* run);    // what a plan that failed has written

  const RangeContext* const context_;
  ReadPoints* const points_;
  RoundSet* const rounds_;
  Pacer* const pacer_;
  TableAccess* const tables_;
  JobBook* const jobs_;
  VersionSet* const versions_;
  // That the last failed compaction had stored: one that stores more does not fail of that.
  std::atomic<size_t> tables_at_failure_{0};
  Mutex mu_;
  CompactionState compaction_state_ ABSL_GUARDED_BY(mu_);
  // With parts that nobody has taken.
  std::vector<std::shared_ptr<RunningCompaction>> open_runs_ ABSL_GUARDED_BY(mu_);
  bool paused_ ABSL_GUARDED_BY(mu_) = false;
};

}  // namespace nova
