#include "ltc/engine/checkpoints.h"

#include <memory>

#include "common/base/thread.h"

namespace nova {

Status Checkpoints::Create(const std::string& name, Nanos deadline_ns) {
  if (!IsCheckpointName(name)) {
    return absl::InvalidArgumentError(
        "the name of a checkpoint is 1 to 100 letters, digits, dots, dashes and underscores");
  }
  const Status s = versions_->MakeCheckpoint(std::make_shared<PendingCheckpoint>(name), deadline_ns).status();
  rounds_->RefreshLanes();
  return s;
}

StatusOr<CheckpointRef> Checkpoints::Freeze(Nanos deadline_ns) {
  return versions_->MakeCheckpoint(std::make_shared<PendingCheckpoint>(""), deadline_ns);
}

Status Checkpoints::Restore(const std::string& name, Nanos deadline_ns) {
  if (versions_->current()->FindCheckpoint(name) == nullptr)
    return absl::NotFoundError(StrCat("no checkpoint ", name));
  if (!context_->state.Move(ServingState::kActive, ServingState::kRestoring))
    return absl::UnavailableError("the range is not open, or is being restored");
  compactor_->Pause(true);
  const Status s = RestoreStopped(name, deadline_ns);
  compactor_->Pause(false);
  context_->state.Move(ServingState::kRestoring,
                       ServingState::kActive);  // released or lost meanwhile: it stays so
  context_->WorkDue();
  return s;
}

// What is under way ends first: swaps that have read what will not be there any more, memtables (done
// memtables, M3: their logs may go), compactions of tables that go.
Status Checkpoints::RestoreStopped(const std::string& name, Nanos deadline_ns) {
  while (writes_->any_swap_under_way() && Now() < deadline_ns) SleepFor(kMillisecond);
  NOVA_RETURN_IF_ERROR(flusher_->FlushAll(deadline_ns, /*give_up=*/false));
  for (; writes_->any_swap_under_way() || !jobs_->empty(); SleepFor(kMillisecond)) {
    if (Now() >= deadline_ns)
      return absl::DeadlineExceededError("compactions under way did not end in time: nothing was restored");
  }
  return versions_->RestoreCheckpoint(name);
}

}  // namespace nova
