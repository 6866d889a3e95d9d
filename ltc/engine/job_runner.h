// JobRunner: where a compaction job of a range runs: in this process, or elsewhere (offloaded compaction;
// paper section 4.3). A seam: an embedded database has none, and runs its jobs itself.
//
// Thread safety: all.   Ownership: outlives the ranges that it was given to.
// Errors: those of RunCompaction; FailedPrecondition: the range's epoch is fenced.
#pragma once

#include <functional>

#include "common/sstable/compaction_job.h"

namespace nova {

class JobRunner {
 public:
  virtual ~JobRunner() = default;
  // Runs the job, and waits for its end: elsewhere, or here with `here`. Where it ran elsewhere the outputs
  // have ids of their own, are stored and durable, and `here` was asked for turns alone (WaitTurn). After an
  // error nothing that was stored elsewhere is used by anybody. `cancelled` is asked again and again.
  virtual StatusOr<CompactionResult> RunJob(const CompactionJob& job, CompactionStorage* here,
                                            const std::function<bool()>& cancelled) = 0;
};

}  // namespace nova
