// Flusher: makes runs of Level0 of sealed rounds. Rounds are claimed, written side by side, and committed in
// flush order (K3b).
//
// Thread safety: all. FlushOne and FlushAll wait for the tables' store and for the manifest, which on a roll
//   means the configuration store too.
// Locks: one for commits, taken before VersionSet's and Pacer's.
// Ownership: none taken.
// Errors: a flush that failed is tried again by the next FlushOne; Pacer remembers why it failed.
#pragma once

#include <atomic>
#include <map>

#include "common/base/mutex.h"
#include "ltc/engine/flushed_load.h"
#include "ltc/engine/job_book.h"
#include "ltc/engine/level0_writer.h"
#include "ltc/engine/pacer.h"
#include "ltc/engine/round_merger.h"
#include "ltc/engine/round_set.h"
#include "ltc/engine/version_set.h"

namespace nova {

class Flusher {
 public:
  Flusher(const RangeContext* context, ReadPoints* points, RoundLog* log, RoundSet* rounds, Pacer* pacer,
          TableAccess* tables, JobBook* jobs, VersionSet* versions, RoundMerger* merger, FlushedLoad* load,
          WrittenLoad* written_load)
      : context_(context),
        points_(points),
        log_(log),
        rounds_(rounds),
        pacer_(pacer),
        tables_(tables),
        jobs_(jobs),
        versions_(versions),
        merger_(merger),
        load_(load),
        written_load_(written_load),
        all_again_ns_(Now() + context->options.table_lag_ns) {}

  // The oldest sealed round has no writer left; does not wait.
  bool NeedsFlush() const;
  // Flushes the oldest sealed rounds that are not claimed, or merges some. True: tables were written, or an
  // edit counts. Where the edit of written tables failed, or waits for that of an older round, the next call
  // tries the edit alone. False: nothing was to be done, or writing tables failed, or the edit failed again.
  // Waits.
  bool FlushOne();
  // Flushes until nothing is in memory. REQUIRES: no write is taken. `give_up`: returns the error once
  // flushes have failed for a while; else tries until the deadline (DeadlineExceeded). FailedPrecondition:
  // the range was lost.
  Status FlushAll(Nanos deadline_ns, bool give_up);
  // Metrics: entries that flushes have written to Level0, and the runs that these are in. See RangeStats.
  uint64_t entries() const { return entries_.load(std::memory_order_relaxed); }
  uint64_t runs() const { return runs_.load(std::memory_order_relaxed); }

 private:
  // Rounds whose tables are written, and which wait for their commit (flush order, K3b).
  struct Written {
    VersionEdit edit;   // adds the tables, names the memtables as done
    size_t rounds = 1;  // how many rounds it is of
    uint64_t job = 0;   // kept in the JobBook until the commit
  };

  // Writes the tables of claimed rounds, and returns the edit for them.
  StatusOr<VersionEdit> Write(const RoundGroup& rounds, uint64_t job);
  // Writes a run whose tables end at bounds of Dranges, and counts what they hold into the load. `bytes`: of
  // the entries as clients wrote them.
  StatusOr<VersionEdit> WriteColumns(Level0Run run, uint64_t bytes, OverwriteProbe* younger,
                                     const FlushProgress& progress);
  // Commits rounds whose tables are written, the oldest first, as far as none is missing in between (K3b),
  // and deletes their logs. False: none was committed, or an edit failed.
  bool CommitWritten();

  const RangeContext* const context_;
  ReadPoints* const points_;
  RoundLog* const log_;
  RoundSet* const rounds_;
  Pacer* const pacer_;
  TableAccess* const tables_;
  JobBook* const jobs_;
  VersionSet* const versions_;
  RoundMerger* const merger_;
  FlushedLoad* const load_;
  WrittenLoad* const written_load_;
  // From this time on the next flush sets a flush barrier, so that a key that is written all the time gets
  // into tables now and then.
  std::atomic<Nanos> all_again_ns_;
  std::atomic<uint64_t> entries_{0}, runs_{0};  // see entries()
  Mutex commit_mu_;                             // held while rounds are committed, one group after another
  // By the number of the oldest round of each.
  std::map<RoundNumber, Written> written_ ABSL_GUARDED_BY(commit_mu_);
};

}  // namespace nova
