// JobOffloader: runs compaction jobs of this LTC's ranges on StoCs (stoc/compactor.h), as PlaceJob chooses
// (compaction_placement.h).
//
// A job has one attempt elsewhere at most (attempt, M6). The attempt has an id of its own, and ids of outputs
// that nobody else has. How it ends:
//
//   a result                   its outputs are the job's
//   fenced                     the range's epoch is over: nothing runs here either
//   refused, or an error       the StoC has dropped what it stored: the job runs here
//   no answer                  the attempt is lost: it is never used, the job runs here, and the StoC is
//                              asked to cancel it until it says that it has, or has started anew
//
// No answer: the connection broke, the deadline has passed, the StoC has started anew or is live no more, or
// the range needs the job no longer. A StoC that failed, or was lost, gets no job for a while. One that does
// not know such requests, or takes no jobs, is asked again when it has started anew.
//
// Thread safety: all; Run waits.
// Locks:         its own, a leaf.
// Ownership:     the StocClient and the metrics outlive it; it outlives the client's xchgs' threads.
// Errors:        those of RunCompaction here, and FailedPrecondition: fenced.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/base/metrics.h"
#include "common/base/mutex.h"
#include "common/base/rules_off.h"
#include "common/sstable/compaction_job.h"
#include "common/sstable/table_store.h"
#include "ltc/server/compaction_placement.h"
#include "ltc/server/placement.h"
#include "stoc/stoc_client.h"

namespace nova {

struct OffloadOptions {
  OffloadPolicy policy = OffloadPolicy::kNever;
  Nanos least_deadline_ns = 30 * kSecond;       // of an attempt, and a second for each MB of its input
  Nanos pause_after_failure_ns = 30 * kSecond;  // of a StoC whose attempt failed or was lost
  RulesOff off = {};                            // tests only
};

class JobOffloader {
 public:
  JobOffloader(const OffloadOptions& options, StocClient* stocs, Metrics* metrics);

  // How many of a job's outputs have a place of their own; later ones go to the same places again.
  static size_t PlacesOf(const CompactionJob& job);
  // As JobRunner::RunJob. `stocs` may be given jobs. `place` is asked when the job is sent, where so many
  // outputs go; none: it runs here.
  using Placer = std::function<std::vector<Placement>(size_t count)>;
  StatusOr<CompactionResult> Run(const CompactionJob& job, const std::vector<StocChoice>& stocs,
                                 const Placer& place, CompactionStorage* here,
                                 const std::function<bool()>& cancelled);

 private:
  // A start of a StoC.
  struct Worker {
    StocId stoc;
    Incarnation incarnation;
  };
  struct Attempt;  // a request, and its answer

  // The StoC that PlaceJob chooses of those that take jobs now.
  std::optional<Worker> Choose(const CompactionJob& job, const std::vector<StocChoice>& stocs);
  void EndAt(const Worker& worker);  // the attempt that Choose counted is waited for no more
  // One attempt. nullopt: it gave nothing, and the job is to run here.
  std::optional<StatusOr<CompactionResult>> RunAt(const Worker& worker, const CompactionJob& job,
                                                  const std::vector<Placement>& places,
                                                  const std::function<bool()>& cancelled);
  // Sends the job, with ids of outputs and a deadline of the attempt's own. Null: it is too long for a
  // message, or its outputs have no place.
  std::shared_ptr<const Attempt> Send(const Worker& worker, CompactionJob job,
                                      const std::vector<Placement>& places);
  // Waits for the answer. False: there is none, and nobody will wait for it any more.
  bool WaitFor(const Attempt& attempt, const std::function<bool()>& cancelled) const;
  // The result that an answer holds; nullopt: it is none of this attempt.
  static std::optional<CompactionResult> ResultOf(const Attempt& attempt, std::string_view body);
  // What an answer without a result says of the StoC.
  void NoteRefusal(const Attempt& attempt, Outcome outcome, const std::string& why);
  // The attempt's end is not known: has it cancelled, as long as it takes.
  void Lose(const std::shared_ptr<const Attempt>& attempt);
  // Asks for it, and again, until it was answered or the attempt cannot run any more.
  void CancelAt(Nanos start_ns, const std::shared_ptr<const Attempt>& attempt);
  bool MayRunStill(const Attempt& attempt, Nanos now) const;
  bool IsThere(const Worker& worker) const;  // live, and not started anew
  // It gets no job for a while.
  void Avoid(StocId stoc);

  const OffloadOptions options_;
  StocClient* const stocs_;
  Counter* const offloaded_;       // attempts that gave a result
  Counter* const refused_;         // that were not begun
  Counter* const failed_;          // that ended without one
  Counter* const lost_;            // of which no end was heard
  Counter* const read_bytes_;      // by attempts that gave a result
  Counter* const written_bytes_;   // likewise
  Gauge* const uncertain_;         // lost ones whose cancel was not answered yet
  std::atomic<uint64_t> turn_{0};  // of PlaceJob
  std::atomic<uint32_t> running_here_{0};

  mutable Mutex mu_;
  std::map<StocId, uint32_t> running_ ABSL_GUARDED_BY(mu_);        // attempts that are waited for
  std::map<StocId, Incarnation> takes_none_ ABSL_GUARDED_BY(mu_);  // starts that do not take jobs
  std::map<StocId, Nanos> avoided_until_ns_ ABSL_GUARDED_BY(mu_);  // see Avoid
};

}  // namespace nova
