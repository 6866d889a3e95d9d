// Checkpoints: durable pins of what a range holds, its checkpoints (M2): made, deleted and restored: a client
// of the other parts, without state of its own. docs/engine.md argues them.
//
// Thread safety: all; they wait.   Ownership: none taken.
// Errors:        as VersionSet's; RestoreCheckpoint: NotFound; Unavailable, DeadlineExceeded: nothing
//                changed; Unknown.
#pragma once

#include <string>

#include "ltc/engine/compactor.h"
#include "ltc/engine/flusher.h"
#include "ltc/engine/range_context.h"
#include "ltc/engine/version_set.h"
#include "ltc/engine/write_path.h"

namespace nova {

class Checkpoints {
 public:
  Checkpoints(RangeContext* context, RoundSet* rounds, JobBook* jobs, VersionSet* versions, Flusher* flusher,
              Compactor* compactor, WritePath* writes)
      : context_(context),
        rounds_(rounds),
        jobs_(jobs),
        versions_(versions),
        flusher_(flusher),
        compactor_(compactor),
        writes_(writes) {}

  Status Create(const std::string& name, Nanos deadline_ns);
  // The same without a name, and not durable: its tables stay for as long as it is kept.
  StatusOr<CheckpointRef> Freeze(Nanos deadline_ns);
  // The range holds what it held at the checkpoint, in one step; what was written since is gone, snapshots
  // end. Requests are refused meanwhile.
  Status Restore(const std::string& name, Nanos deadline_ns);

 private:
  // REQUIRES: no write is taken, no compaction is begun.
  Status RestoreStopped(const std::string& name, Nanos deadline_ns);

  RangeContext* const context_;
  RoundSet* const rounds_;
  JobBook* const jobs_;
  VersionSet* const versions_;
  Flusher* const flusher_;
  Compactor* const compactor_;
  WritePath* const writes_;
};

}  // namespace nova
