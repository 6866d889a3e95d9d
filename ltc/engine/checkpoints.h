// Checkpoints: makes and restores durable pins of a range's content (checkpoint, M2). It is a client of the
// other parts, without state of its own. docs/engine.md argues for it.
//
// Thread safety: all methods; they wait.
// Ownership: none taken.
// Errors: as VersionSet's. Of Restore: NotFound; Unavailable, DeadlineExceeded: nothing changed; Unknown:
//   perhaps it is done, or a later owner finds it done (no write twice, A1).
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

  // Makes a checkpoint of all writes acknowledged before the call. InvalidArgument: the name; else as
  // VersionSet::MakeCheckpoint.
  Status Create(const std::string& name, Nanos deadline_ns);
  // See VersionSet.
  Status Delete(const std::string& name) { return versions_->DeleteCheckpoint(name); }
  std::vector<CheckpointRef> List() const { return versions_->current()->checkpoints(); }  // by name
  // A checkpoint without a name that is not durable: its tables stay for as long as the caller keeps it.
  StatusOr<CheckpointRef> Freeze(Nanos deadline_ns);
  // Brings the range back to its content at the checkpoint, in one step. Everything written since is gone,
  // and snapshots end. Requests are refused meanwhile.
  Status Restore(const std::string& name, Nanos deadline_ns);

 private:
  // Restore, with the range in kRestoring and compactions paused. Waits for work under way: swaps that have
  // read, rounds in memory, jobs.
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
