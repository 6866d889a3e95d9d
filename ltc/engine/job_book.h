// JobBook: the jobs of a range that place tables, each from before its first table is placed until its edit
// is published or given up; and the StoCs that new tables keep away from.
//
// Numbers of jobs rise within an epoch. A file says its job's number, so the numbers tell whether a file may
// still be named by an edit (collection, N4).
//
// A collection takes FirstUnfinished() = n first, then lists the files of this epoch, then looks which of
// them are referenced. A file of a job below n that is not referenced by then never will be.
//
// Thread safety: all.
// Locks: its own, a leaf.
// Ownership: outlives its Jobs.
// Errors: none.
#pragma once

#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <vector>

#include "common/base/ids.h"
#include "common/base/mutex.h"

namespace nova {

class JobBook {
 public:
  // A job under way: begun by the constructor, ended by the destructor or, after Keep, by JobBook::End.
  class Job {
   public:
    explicit Job(JobBook* book) : book_(book), id_(book->Begin()) {}
    ~Job() {
      if (!kept_) book_->End(id_);
    }
    Job(const Job&) = delete;
    Job& operator=(const Job&) = delete;
    uint64_t id() const { return id_; }  // its number, at least 1
    // The job goes on after the Job is gone, until End of the number.
    uint64_t Keep() {
      kept_ = true;
      return id_;
    }

   private:
    JobBook* const book_;
    const uint64_t id_;
    bool kept_ = false;  // see Keep
  };

  // Ends a job that was kept.
  void End(uint64_t id) {
    MutexLock lock(&mu_);
    jobs_.erase(id);
  }
  bool empty() const {  // no job is under way
    MutexLock lock(&mu_);
    return jobs_.empty();
  }
  // The lowest number of a job under way, or the next number: every job below it has ended. Jobs count from
  // 1.
  uint64_t FirstUnfinished() const {
    MutexLock lock(&mu_);
    return jobs_.empty() ? next_job_ : *jobs_.begin();
  }

  uint64_t Next() const {  // every job that has begun has a number below
    MutexLock lock(&mu_);
    return next_job_;
  }

  // Sets the StoCs that drain, are emptied or are lost, which are to hold nothing of this range in the long
  // run: jobs that begin from now on place nothing there, and the Rebuilder has tables leave them. StoCs not
  // named any more may be used again. REQUIRES: RangeHost::Place avoids them already.
  void LeaveStocs(const std::vector<StocId>& stocs) {
    MutexLock lock(&mu_);
    std::map<StocId, uint64_t> leaving;
    for (const StocId stoc : stocs) {
      const auto known = leaving_.find(stoc);
      leaving[stoc] = known == leaving_.end() ? next_job_ : known->second;
    }
    leaving_ = std::move(leaving);
  }
  // Jobs under way that may place tables on `stoc`: those begun before LeaveStocs named it. 1 if it was not
  // named yet.
  uint64_t MayPlaceOn(StocId stoc) const {
    MutexLock lock(&mu_);
    const auto leaving = leaving_.find(stoc);
    if (leaving == leaving_.end()) return 1;
    return static_cast<uint64_t>(std::distance(jobs_.begin(), jobs_.lower_bound(leaving->second)));
  }

 private:
  // The next number, under way from now on.
  uint64_t Begin() {
    MutexLock lock(&mu_);
    jobs_.insert(next_job_);
    return next_job_++;
  }

  mutable Mutex mu_;
  uint64_t next_job_ ABSL_GUARDED_BY(mu_) = 1;    // the number of the next job
  std::set<uint64_t> jobs_ ABSL_GUARDED_BY(mu_);  // numbers of jobs under way
  // StoCs that are to be left, and of each the first job that places nothing on it.
  std::map<StocId, uint64_t> leaving_ ABSL_GUARDED_BY(mu_);
};

}  // namespace nova
