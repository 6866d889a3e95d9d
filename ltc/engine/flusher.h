// Flusher: sealed rounds become runs of Level0: claimed, written side by side, committed in flush order
// (K3b).
//
// Thread safety: all; they wait.   Lock: one for commits, taken before VersionSet's.
// Ownership:     none taken.   Errors: a flush that fails is tried again by the next FlushOne; Pacer
//                remembers why.
#pragma once

#include <atomic>

#include "common/base/mutex.h"
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
          TableAccess* tables, JobBook* jobs, VersionSet* versions, RoundMerger* merger)
      : context_(context),
        points_(points),
        log_(log),
        rounds_(rounds),
        pacer_(pacer),
        tables_(tables),
        jobs_(jobs),
        versions_(versions),
        merger_(merger),
        all_again_ns_(Now() + context->options.table_lag_ns) {}

  bool NeedsFlush() const;
  // The oldest sealed rounds that nobody flushes, or a merge of some; false: nothing to do now.
  bool FlushOne();
  // Until nothing is in memory. REQUIRES: no write is taken. `give_up`: as soon as flushes fail for longer
  // than a moment.
  Status FlushAll(Nanos deadline_ns, bool give_up);

 private:
  StatusOr<VersionEdit> Write(const RoundGroup& rounds, uint64_t job);
  // Written rounds, the oldest first. False: the oldest one is not written yet, or its edit failed.
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
  // The next flush from here on has all that is written by then put into tables.
  std::atomic<Nanos> all_again_ns_;
  Mutex commit_mu_;  // held while flushed rounds are committed, one after another
};

}  // namespace nova
