// BackgroundWork: the threads that flush, compact and rebuild the ranges of an LTC or of an embedded
// database, and threads for work that waits: each Run... hands a closure to the threads of one kind, which
// take closures in order.
//
// A range reports that work may be due (Due). A flush thread takes one flush at a time, a compaction thread
// one plan or part, a rebuild thread one table. Ranges take turns, but a range whose log is exposed goes
// first (FlushFirst). Work for which FlushOne or CompactOne said no, though it is needed, is tried again
// after 0.1 s.
//
// Thread safety: Due, FlushFirst, RebuildDue and Run... from any thread, also under a range's lock; they do
//   not wait. Stop: one thread.
// Ownership: a range is held only while work on it runs.
// Errors: none; work logs its own.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "common/base/log_throttle.h"
#include "common/base/mutex.h"
#include "common/base/queue.h"
#include "common/base/thread.h"
#include "ltc/engine/compaction_limit.h"
#include "ltc/engine/range.h"

namespace nova {

// How many threads there are of each kind, for all ranges of the process.
struct BackgroundOptions {
  int flush_threads = 2;
  int compaction_threads = 2;
  // As many at most where there are several disks (CompactionLimit); fewer than compaction_threads: as those.
  int most_compaction_threads = 0;
  int rebuild_threads = 4;  // make copies that tables lack (rebuild, S5): each waits for two StoCs
  int reader_threads = 2;   // open the readers of tables that requests found unloaded
  // Each kind of these has its own threads, for a StoC that hangs must not hold up the others.
  int open_threads = 16;    // each opening may wait for a silent StoC
  int release_threads = 4;  // release ranges and give back lost ones
  // Replace log groups (group change, L4). A StoC is in the groups of most ranges, and when it dies puts wait
  // for all of these changes, each of which waits for pings and for the store.
  int change_threads = 8;
  int audit_threads = 1;    // ask StoCs for all of their files: one that hangs is waited for once a range
  int control_threads = 4;  // all other work that waits: housekeeping, repair, checkpoints
};

class BackgroundWork {
 public:
  // The range to work on; null: it is not here any more.
  using Find = std::function<std::shared_ptr<Range>(RangeId)>;
  BackgroundWork(const BackgroundOptions& options, Find find);
  ~BackgroundWork();  // as Stop

  // Flushes or compactions of the range may be due.
  void Due(RangeId range);
  // Tables of the range lack copies (Rebuilder::NeedsRebuild).
  void RebuildDue(RangeId range) { rebuild_.Add(range); }
  // The tables of all ranges lie on so many disks.
  void SetDisks(size_t disks);
  // Its flush goes before those of other ranges.
  void FlushFirst(RangeId range);
  // Runs a closure on a thread of that kind. False: it is dropped, for 65,536 of the kind wait, or after
  // Stop. Whoever queues again and again sees to it that its last closure has ended.
  bool RunReader(std::function<void()> fn);  // opens the reader of a table; does not wait
  bool RunOpen(std::function<void()> fn);
  bool RunRelease(std::function<void()> fn);
  bool RunChange(std::function<void()> fn);
  bool RunAudit(std::function<void()> fn);
  bool RunControl(std::function<void()> fn);
  // Work under way ends, queued work is dropped; waits; idempotent.
  void Stop();

 private:
  // Ranges with work, in turn; a range is in it once.
  class Turns {
   public:
    void Add(RangeId range, bool first = false);  // `first`: in front of all others
    // Adds the range in 0.1 s, unless it is queued for later already.
    void AddLater(RangeId range);
    // The next range, once fewer threads than `limit` says (null: any number) work on what they took; waits;
    // false: stopped.
    bool Take(RangeId* range, const CompactionLimit* limit = nullptr);
    // The thread works no longer on what it took.
    void Done();
    // The limit may be another.
    void LookAgain();
    void Stop();  // ends all Takes

   private:
    Mutex mu_;
    CondVar ready_;  // signalled when a range is added; with mu_
    std::deque<RangeId> queue_ ABSL_GUARDED_BY(mu_);
    std::set<RangeId> queued_ ABSL_GUARDED_BY(mu_);  // the ranges in queue_
    // Ranges, and when they join queue_; in order of time.
    std::deque<std::pair<Nanos, RangeId>> later_ ABSL_GUARDED_BY(mu_);
    int working_ ABSL_GUARDED_BY(mu_) = 0;  // threads between Take and Done
    bool stopped_ ABSL_GUARDED_BY(mu_) = false;
  };
  static constexpr size_t kQueue = 1 << 16;  // closures of one kind that may wait
  // The body of a thread: runs closures until the queue is closed.
  static void RunQueue(BoundedQueue<std::function<void()>>* queue);
  // False: the queue is closed or full.
  bool Push(BoundedQueue<std::function<void()>>* queue, std::function<void()> fn);

  const Find find_;
  CompactionLimit compaction_limit_;
  Turns flush_;       // ranges with flushes due
  Turns compaction_;  // ranges with compactions due
  Turns rebuild_;     // ranges with rebuilds due
  BoundedQueue<std::function<void()>> reader_queue_{kQueue};
  BoundedQueue<std::function<void()>> open_queue_{kQueue};
  BoundedQueue<std::function<void()>> release_queue_{kQueue};
  BoundedQueue<std::function<void()>> change_queue_{kQueue};
  BoundedQueue<std::function<void()>> audit_queue_{kQueue};
  BoundedQueue<std::function<void()>> control_queue_{kQueue};
  LogThrottle dropped_;  // lines about closures that were dropped
  std::vector<std::unique_ptr<Thread>> threads_;
};

}  // namespace nova
