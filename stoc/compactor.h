// StocCompactor: runs compaction jobs of LTCs in this StoC (offloaded compaction; paper sections 4.3 and 6).
//
// An *attempt* is one try to run a job, known by an id of its own, with ids of outputs that no other attempt
// has (attempt, M6). What an attempt passes through:
//
//   Start    it waits for a thread; refused: the queue is full, or it was cancelled before it came
//   run      the job is decoded, its inputs are read, its outputs are stored where the request says
//   the end  its result is the answer; or all that it stored is dropped, then it is answered
//   Cancel   kBusy while it is under way, and it ends soon; kOk: it stores nothing any more, and what it had
//            stored is dropped. Also of an attempt that never came, which is refused from then on
//
// Fragments of inputs that lie here are read without a message, others through the StocClient; outputs are
// written alike. Their files have the creator that the request names, as files that the LTC writes.
//
// Revocation (F1): a FENCE ends the range's attempts between two blocks. It waits for a write to this StoC's
// own files that is under way, and not for the attempt; writes to other StoCs are refused by theirs, or their
// files are collected (collection, N4).
//
// Who goes first: requests that wait for the disk. An attempt looks before each piece that it reads here, and
// each fragment that it writes here, whether others wait, and lets them go first for a bounded time.
//
// Bounds: threads, attempts that wait, bytes of a request, and memory: each thread's share bounds the job it
// may run.
//
// Thread safety: all; `done` runs on a thread of ours, in Cancel, or in Stop, once. Cancel waits for the
//                disk.
// Locks:         its own, a leaf.
// Ownership:     client, files, fences and metrics outlive it. Threads are started as jobs come.
// Errors:        of Start: kInvalidArgument: it takes no jobs; kBusy; kUnavailable: cancelled, or stopping.
//                Of an attempt: kInvalidArgument: a job of another version, or damaged; kNotOwner: fenced;
//                kBusy: it would need too much memory; kDeadlineExceeded; kUnavailable: cancelled; else what
//                reading and writing of tables ended with. All but kOk: nothing is left, as far as StoCs
//                answer.
#pragma once

#include <atomic>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "common/base/metrics.h"
#include "common/base/mutex.h"
#include "common/base/outcome.h"
#include "common/base/thread.h"
#include "common/sstable/compaction_job.h"
#include "stoc/fence_table.h"
#include "stoc/file_store.h"
#include "stoc/protocol.h"
#include "stoc/stoc_client.h"
#include "stoc/stoc_table_store.h"

namespace nova {

struct StocCompactorOptions {
  int threads = 2;                    // that run jobs; 0: it takes none
  size_t queue = 4;                   // attempts that wait for a thread; more are refused
  uint64_t memory_bytes = 512 << 20;  // of all jobs; a job that needs more than a thread's share is refused
  Nanos longest_ns = 10 * 60 * kSecond;  // of an attempt, whatever its deadline is
  Nanos longest_pause_ns =
      50 * kMillisecond;     // for requests that wait for the disk, a piece of 1 MB or a fragment
  size_t remembered = 1024;  // attempts that have ended, for Cancel
};

class StocCompactor {
 public:
  using Done = absl::AnyInvocable<void(Outcome, std::string body)>;

  // `disk_is_wanted`: requests wait for the disk; called from any thread.
  StocCompactor(const StocCompactorOptions& options, StocId self, StocClient* others, FileStore* files,
                FenceTable* fences, std::function<bool()> disk_is_wanted, Metrics* metrics);
  ~StocCompactor();  // as Stop

  // Queues an attempt; kOk: `done` will be called. Its body is a CompactReply, or says why there is none.
  Outcome Start(const CompactRequest& request, Nanos deadline_ns, Done done);
  // See the head of this file. Waits for the disk.
  Outcome Cancel(const CancelJobRequest& request);
  // Ends what is under way, and answers what waits: kUnavailable.
  void Stop();

 private:
  class FilesOfThisStoc;  // FilesHere, under the FenceTable
  class JobStorage;       // tables of one attempt
  struct Attempt;         // one that is under way: it waits, or a thread runs it
  struct Ended {          // what Cancel may still ask for
    Uuid attempt;
    Creator creator;
    std::vector<TableInfo> outputs;  // of one that was answered with a result
  };

  void Work();  // the body of a thread
  // Runs the attempt to its end, and remembers it.
  void Run(const std::shared_ptr<Attempt>& attempt);
  // The job's result; all that it stored is in `outputs`, also after an error.
  StatusOr<CompactionResult> RunJob(Attempt* attempt, std::vector<TableInfo>* outputs);
  // Bytes of memory that the job may take at most.
  static uint64_t MemoryOf(const CompactionJob& job);
  bool MustEnd(const Attempt& attempt) const;  // cancelled, fenced, or we are to stop
  // Waits while others wait for the disk, and not for long, where one of the copies lies on it.
  void LetOthersGoFirst(const std::vector<StocId>& copies);
  void Drop(const std::vector<TableInfo>& outputs, const Creator& creator);
  // The attempt is under way no more.
  void RememberLocked(Ended ended) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  bool IsRememberedLocked(const Uuid& attempt) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const StocCompactorOptions options_;
  FenceTable* const fences_;
  const std::function<bool()> disk_is_wanted_;
  const std::unique_ptr<FilesOfThisStoc> files_;
  const std::unique_ptr<TableStore> tables_;  // over the StocClient, and files_
  Counter* const jobs_;
  Counter* const failures_;
  Counter* const read_bytes_;
  Counter* const written_bytes_;

  std::atomic<bool> stopping_{false};
  Mutex mu_;
  CondVar changed_;  // something waits, or we are to stop; with mu_
  std::deque<std::shared_ptr<Attempt>> waiting_ ABSL_GUARDED_BY(mu_);
  std::map<Uuid, std::shared_ptr<Attempt>> under_way_ ABSL_GUARDED_BY(mu_);  // those that wait, too
  std::deque<Ended> ended_ ABSL_GUARDED_BY(mu_);                             // the latest last
  int idle_ ABSL_GUARDED_BY(mu_) = 0;  // threads that wait for an attempt
  std::vector<std::unique_ptr<Thread>> threads_ ABSL_GUARDED_BY(mu_);
};

}  // namespace nova
