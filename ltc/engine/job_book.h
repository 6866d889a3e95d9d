// JobBook: the jobs of a range that place tables, from before the first is placed until its edit is published
// or given up; and the StoCs that new tables keep away from.
//
// Numbers rise within an epoch, so that they tell what the files of a job may still be needed for, in
// their collection (N4).
//
// Thread safety: all.   Ownership: outlives its Jobs.   Errors: none.
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
  class Job {
   public:
    explicit Job(JobBook* book) : book_(book), id_(book->Begin()) {}
    ~Job() {
      if (!kept_) book_->End(id_);
    }
    Job(const Job&) = delete;
    Job& operator=(const Job&) = delete;
    uint64_t id() const { return id_; }
    uint64_t Keep() {  // until End
      kept_ = true;
      return id_;
    }

   private:
    JobBook* const book_;
    const uint64_t id_;
    bool kept_ = false;
  };

  void End(uint64_t id) {
    MutexLock lock(&mu_);
    jobs_.erase(id);
  }
  bool empty() const {
    MutexLock lock(&mu_);
    return jobs_.empty();
  }
  // Every job below it has ended. Jobs count from 1.
  uint64_t FirstUnfinished() const {
    MutexLock lock(&mu_);
    return jobs_.empty() ? next_job_ : *jobs_.begin();
  }

  // Jobs that begin from now on place nothing on these StoCs, and no others are to be left.
  void LeaveStocs(const std::vector<StocId>& stocs) {
    MutexLock lock(&mu_);
    std::map<StocId, uint64_t> leaving;
    for (const StocId stoc : stocs) {
      const auto known = leaving_.find(stoc);
      leaving[stoc] = known == leaving_.end() ? next_job_ : known->second;
    }
    leaving_ = std::move(leaving);
  }
  std::vector<StocId> leaving() const {
    std::vector<StocId> stocs;
    MutexLock lock(&mu_);
    for (const auto& [stoc, first_job] : leaving_) stocs.push_back(stoc);
    return stocs;
  }
  // Jobs under way that may place tables on `stoc`: 1 where LeaveStocs has not named it yet.
  uint64_t MayPlaceOn(StocId stoc) const {
    MutexLock lock(&mu_);
    const auto leaving = leaving_.find(stoc);
    if (leaving == leaving_.end()) return 1;
    return static_cast<uint64_t>(std::distance(jobs_.begin(), jobs_.lower_bound(leaving->second)));
  }

 private:
  uint64_t Begin() {
    MutexLock lock(&mu_);
    jobs_.insert(next_job_);
    return next_job_++;
  }

  mutable Mutex mu_;
  uint64_t next_job_ ABSL_GUARDED_BY(mu_) = 1;
  std::set<uint64_t> jobs_ ABSL_GUARDED_BY(mu_);             // under way
  std::map<StocId, uint64_t> leaving_ ABSL_GUARDED_BY(mu_);  // and the first job placed elsewhere
};

}  // namespace nova
