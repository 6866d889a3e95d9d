// BackgroundWork: the threads that flush and compact the ranges of an LTC, or of an embedded database, and
// those that may wait on its behalf: Run... hands a closure to the threads of a kind, which take them in
// order.
//
// A range reports that work may be due (Due); flush threads take rounds, compaction threads take plans, one
// at a time per call, ranges in turn (fair), but for those whose log is exposed (FlushFirst). What fails is
// tried again after a pause.
//
// Thread safety: Due and Run from any thread, also with a range's lock held.   Errors: none; work logs its
// own.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "common/base/mutex.h"
#include "common/base/queue.h"
#include "common/base/thread.h"
#include "ltc/engine/range.h"

namespace nova {

struct BackgroundOptions {
  int flush_threads = 2;
  int compaction_threads = 2;
  int reader_threads = 2;  // load the metadata of tables that a get or scan found unloaded
  // Each kind of these has its own threads: one StoC that hangs must not hold up the others.
  int open_threads = 16;    // open ranges: each may wait for a StoC that is silent
  int release_threads = 4;  // release them, and give back what was lost
  int change_threads = 2;   // replace log groups (group change, L4)
  int control_threads = 4;  // everything else that waits: housekeeping, repair, checkpoints
};

class BackgroundWork {
 public:
  using Find = std::function<std::shared_ptr<Range>(RangeId)>;
  BackgroundWork(const BackgroundOptions& options, Find find);
  ~BackgroundWork();  // stops: what runs ends, what is queued is dropped

  void Due(RangeId range);
  void FlushFirst(RangeId range);  // before the flushes of other ranges
  void RunReader(std::function<void()> fn);
  void RunOpen(std::function<void()> fn);
  void RunRelease(std::function<void()> fn);
  void RunChange(std::function<void()> fn);
  void RunControl(std::function<void()> fn);
  void Stop();

 private:
  // Ranges with work, in turn; a range is in it once.
  class Turns {
   public:
    void Add(RangeId range, bool first = false);
    void AddLater(RangeId range);
    bool Take(RangeId* range);  // waits; false: stopped
    void Stop();

   private:
    Mutex mu_;
    CondVar ready_;
    std::deque<RangeId> queue_ ABSL_GUARDED_BY(mu_);
    std::set<RangeId> queued_ ABSL_GUARDED_BY(mu_);
    std::deque<std::pair<Nanos, RangeId>> later_ ABSL_GUARDED_BY(mu_);  // and when
    bool stopped_ ABSL_GUARDED_BY(mu_) = false;
  };
  static constexpr size_t kQueue = 1 << 16;
  static void RunQueue(BoundedQueue<std::function<void()>>* queue);
  static void Push(BoundedQueue<std::function<void()>>* queue, std::function<void()> fn);

  const Find find_;
  Turns flush_;
  Turns compaction_;
  BoundedQueue<std::function<void()>> reader_queue_{kQueue};
  BoundedQueue<std::function<void()>> open_queue_{kQueue};
  BoundedQueue<std::function<void()>> release_queue_{kQueue};
  BoundedQueue<std::function<void()>> change_queue_{kQueue};
  BoundedQueue<std::function<void()>> control_queue_{kQueue};
  std::vector<std::unique_ptr<Thread>> threads_;
};

}  // namespace nova
