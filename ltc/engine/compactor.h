// Compactor: picks compactions (compaction_picker.h), runs each in parts that threads take side by side, and
// commits it as one edit.
//
// A plan from its pick to its edit:
//
//   1. pick, under the lock: inputs become busy, so that no other plan takes them
//   2. inputs that range tombstones hide whole are left out; a plan without others is an edit only
//   3. cut the rest into parts of about equal size, each a job; other compaction threads are told
//   4. run parts until none is left; wait for those that others run
//   5. commit one edit: all inputs out, all outputs in. After an error: give up the outputs
//   6. inputs are free again
//
// A job (common/sstable/compaction_job.h) is self-contained: all it reads and writes goes through a storage
// of its own, or it runs elsewhere (job_runner.h). Flushes go first (Pacer).
//
// Thread safety: all. CompactOne waits for the tables' store and for the manifest.
// Locks: one for picks, taken before JobBook's and RoundSet's; one for the parts of each compaction, a leaf.
//   All orders are in docs/architecture.md.
// Ownership: none taken.
// Errors: a compaction that fails gives up the tables it wrote, and is picked again; Pacer remembers why it
//   failed.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "common/base/mutex.h"
#include "ltc/engine/compaction_picker.h"
#include "ltc/engine/job_book.h"
#include "ltc/engine/level0_toll.h"
#include "ltc/engine/pacer.h"
#include "ltc/engine/round_set.h"
#include "ltc/engine/table_access.h"
#include "ltc/engine/version_set.h"

namespace nova {

class Compactor {
 public:
  Compactor(const RangeContext* context, Level0Toll* toll, ReadPoints* points, RoundSet* rounds, Pacer* pacer,
            TableAccess* tables, JobBook* jobs, VersionSet* versions)
      : context_(context),
        toll_(toll),
        points_(points),
        rounds_(rounds),
        pacer_(pacer),
        tables_(tables),
        jobs_(jobs),
        versions_(versions) {}

  // A level is over its target, range deletions hide entries, or tables have expired; does not wait.
  bool NeedsCompaction();
  // Runs one compaction, or a part of one that another thread has begun. False: nothing to do now, or it
  // failed. Waits.
  bool CompactOne();
  // Nothing was written for a while: Level0 is merged down. The next write ends that.
  void BeIdle();
  // How often a column of Level0 was due, and waited for tables or keys of other plans.
  uint64_t level0_waits() const {
    MutexLock lock(&mu_);
    return compaction_state_.waits;
  }
  // While it is on no compaction begins; those under way go on.
  void Pause(bool on) {
    MutexLock lock(&mu_);
    paused_ = on;
  }

 private:
  struct RunningCompaction;  // a plan under way, its parts and their results
  class JobStorage;          // tables of a job, through the range's services

  // As it is now. None for ten minutes after a failure: on a full disk a merge that may as well be left would
  // be begun again and again, and write all that there is room for.
  Level0Demand Demand() const;
  // Tables may hold entries hidden by a range deletion (K7).
  bool HoldsHidden(const RangeView& view);
  // What is to be done next; its tables are busy then.
  std::optional<CompactionPlan> Pick(const RangeView& view) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // For a while other plans go first: else one that fails again and again, for the space that it needs or for
  // a table that is damaged, would keep those that need none, or another one, from ever being made.
  void NoteFailed(const CompactionPlan& plan, const Status& why) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Carries out a plan, from its jobs to its edit; other threads take parts of it. Waits for them.
  Status RunPlan(uint64_t job_id, const std::shared_ptr<RunningCompaction>& run);
  // Makes the jobs of a plan: cuts it at keys where, by the index blocks of its tables, about equal parts of
  // the bytes lie on each side.
  Status PlanParts(uint64_t job_id, const DropRules& rules, RunningCompaction* run);
  // Runs a part: here, or where the range's JobRunner says.
  StatusOr<CompactionResult> RunJob(const CompactionJob& job, CompactionStorage* here,
                                    const std::function<bool()>& cancelled);
  // Runs parts until none is left to take; false: there was none.
  bool RunParts(RunningCompaction* run);
  // Tells the Pacer how much of its runs of Level0 a plan has read.
  void TellLevel0Consumed(RunningCompaction* run);
  // Has a plan given up that reads have paid for, and that takes far longer than they paid.
  void JudgePrice(RunningCompaction* run);
  // Tables of a plan that failed: deleted, or kept if an edit may name them.
  void GiveUp(RunningCompaction* run);

  const RangeContext* const context_;
  Level0Toll* const toll_;
  ReadPoints* const points_;
  RoundSet* const rounds_;
  Pacer* const pacer_;
  TableAccess* const tables_;
  JobBook* const jobs_;
  VersionSet* const versions_;
  // Tables that the last failed compaction had stored: one that stores more does not fail for the same want
  // of space.
  std::atomic<size_t> tables_at_failure_{0};
  std::atomic<Nanos> no_favours_before_ns_{0};               // see Demand
  std::atomic<SequenceNumber> idle_at_{kMaxSequenceNumber};  // the latest write by the last BeIdle
  mutable Mutex mu_;                                         // guards picks; not held while a plan runs
  CompactionState compaction_state_ ABSL_GUARDED_BY(mu_);    // cursors and busy tables of the picker
  // Plans that may have parts nobody has taken.
  std::vector<std::shared_ptr<RunningCompaction>> open_runs_ ABSL_GUARDED_BY(mu_);
  bool paused_ ABSL_GUARDED_BY(mu_) = false;  // see Pause
  // How long a plan that failed lets others go first.
  struct Rest {
    Nanos until_ns = 0;
    Nanos pause_ns = 0;
    bool damaged = false;  // a table of it is: the success of other plans says nothing of this one
  };
  std::map<Uuid, Rest> rests_ ABSL_GUARDED_BY(mu_);  // by the plan's first input
  uint64_t picks_ ABSL_GUARDED_BY(mu_) = 0;          // with range deletions over half of their bound
};

}  // namespace nova
