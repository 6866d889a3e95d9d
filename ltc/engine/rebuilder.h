// Rebuilder: makes the copies that tables of a range lack, and has tables leave StoCs that drain or are
// emptied: rebuild (S5).
//
// The steps for one table:
//
//   1. a job begins: its number is how the copies go (collection, N4) if no edit names them
//   2. the host plans, from where the table is now and which StoCs there are
//   3. the table store makes the copies, StoC to StoC
//   4. one edit names them (VersionSet::CommitCopies), if the table is still where it was
//   5. the job ends
//
// Nothing is ever deleted here: neither a copy that no edit named, nor what is left on a StoC that the table
// has left. The collection (N4) finds both, and tells the StoC which jobs have ended: a copy that was made
// since stays, however late the deletion comes.
//
// Tables with the fewest living copies go first. After a failure a table pauses, for twice as long each time,
// and then takes other StoCs as long as there are any. Other tables pass over these StoCs for half a minute,
// if they can: one that hangs is not waited for by each table in turn.
//
// Thread safety: all. RebuildOne waits for StoCs and for the manifest; several threads take several tables.
// Locks: its own, a leaf.
// Ownership: none taken.
// Errors: none; what failed is logged, and tried again.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <vector>

#include "common/base/log_throttle.h"
#include "common/base/mutex.h"
#include "ltc/engine/job_book.h"
#include "ltc/engine/version_set.h"

namespace nova {

class Rebuilder {
 public:
  Rebuilder(const RangeContext* context, JobBook* jobs, VersionSet* versions)
      : context_(context), jobs_(jobs), versions_(versions) {}

  // Looks through all tables, those of checkpoints too, for copies to make; called now and then.
  void Look();
  // There are tables that Look found and nobody has taken. A range that is lost needs none.
  bool NeedsRebuild() const {
    if (context_->state.Is(ServingState::kLost)) return false;
    MutexLock lock(&mu_);
    return !due_.empty();
  }
  // Takes one of those tables through all steps. False: there is none, or it failed.
  bool RebuildOne();

  // Bytes.
  struct Progress {
    uint64_t left = 0;  // to be copied, as Look last found it
    uint64_t done = 0;  // since the range was opened
  };
  Progress progress() const {
    MutexLock lock(&mu_);
    return progress_;
  }
  // Of each of these StoCs, which ascend and are to be left (JobBook::LeaveStocs): the tables on it, and jobs
  // under way that may still place some there. Looks at the tables once for all of the StoCs, and again only
  // when the tables or the StoCs are others than at the last call.
  std::map<StocId, uint64_t> TablesLeft(const std::vector<StocId>& stocs) const;

 private:
  // A table that Look found, in the order in which tables go.
  struct Due {
    uint32_t living = 0;  // as CopyPlan::living
    Uuid table;
    auto operator<=>(const Due&) const = default;
  };
  // A table for which attempts have failed.
  struct Failed {
    int times = 0;            // attempts since the last success
    Nanos not_before_ns = 0;  // it pauses until then
    std::set<StocId> tried;   // in vain, since all were
  };

  // How many tables of a version are on some StoCs.
  struct Counted {
    std::weak_ptr<const Version> version;
    std::vector<StocId> stocs;  // which those are
    std::map<StocId, uint64_t> tables;
  };

  // Steps 2 to 4.
  Status Rebuild(const Uuid& table, uint64_t job, CopyPlan* plan);
  // The planner's plan, with StoCs that have not failed lately if there are any.
  CopyPlan PlanFor(const TableInfo& table, const CopyPlanner& planner);

  const RangeContext* const context_;
  JobBook* const jobs_;
  VersionSet* const versions_;
  mutable Mutex mu_;
  std::set<Due> due_ ABSL_GUARDED_BY(mu_);    // the most endangered first
  std::set<Uuid> busy_ ABSL_GUARDED_BY(mu_);  // taken by RebuildOne: one attempt for a table at a time
  std::map<Uuid, Failed> failed_ ABSL_GUARDED_BY(mu_);
  std::map<StocId, Nanos> passed_over_ ABSL_GUARDED_BY(mu_);  // until then, after a failure
  Progress progress_ ABSL_GUARDED_BY(mu_);
  mutable Counted counted_ ABSL_GUARDED_BY(mu_);  // by the last TablesLeft
  LogThrottle failures_;                          // lines about them
};

}  // namespace nova
