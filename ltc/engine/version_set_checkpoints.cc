// Checkpoints (M2) in a VersionSet: made by the edit of a flush, kept in the version, restored by one edit.
// docs/engine.md argues it.
#include <algorithm>

#include "common/base/log.h"
#include "ltc/engine/version_set.h"

namespace nova {
namespace {

constexpr Nanos kPoll = 20 * kMillisecond;  // of what nobody signals: a range that is lost

Status ForName(const Version& version, const std::string& name) {
  if (version.FindCheckpoint(name) != nullptr)
    return absl::AlreadyExistsError(StrCat("there is a checkpoint ", name));
  if (version.checkpoints().size() >= kMaxCheckpoints) {
    return absl::ResourceExhaustedError(
        StrCat("the range has ", kMaxCheckpoints, " checkpoints: delete one first"));
  }
  return OkStatus();
}

// Range deletions (K7): with the tables their tombstones. Numbers name them: those that are in both stay.
void ReplaceTombstones(const RangeTombstonesRef& now, const RangeTombstonesRef& then, VersionEdit* edit) {
  std::set<SequenceNumber> stay;
  if (then != nullptr) {
    for (const RangeTombstoneRef& t : then->all()) stay.insert(t->sequence);
    edit->tombstones = then->all();
  }
  if (now == nullptr) return;
  for (const RangeTombstoneRef& t : now->all()) {
    if (stay.contains(t->sequence)) {
      std::erase_if(edit->tombstones,
                    [&t](const RangeTombstoneRef& s) { return s->sequence == t->sequence; });
    } else {
      edit->dropped_tombstones.push_back(t->sequence);
    }
  }
}

}  // namespace

// --- making one

Status VersionSet::AttachLocked(const std::shared_ptr<PendingCheckpoint>& request) {
  SequenceNumber upto = 0;
  switch (rounds_->AttachCheckpoint(request, &upto)) {
    case RoundSet::Attached::kNoRoom:
      return OkStatus();  // a flush will make it
    case RoundSet::Attached::kToRound:
      request->attached = true;
      return OkStatus();
    case RoundSet::Attached::kAllInTables:
      break;
  }
  // The version holds it all. A write that comes now has a number above; edits wait for mu_.
  const auto version = current();
  if (request->name.empty()) {
    request->made = std::make_shared<Checkpoint>(
        Checkpoint{"", upto, request->created_ms, version->runs(), version->tombstones()});
    return OkStatus();
  }
  VersionEdit edit;
  edit.pins.push_back(version->PinRuns(request->name, upto, request->created_ms));
  NOVA_RETURN_IF_ERROR(CommitRequestLocked(std::move(edit)));
  request->made = current()->FindCheckpoint(request->name);
  return OkStatus();
}

void VersionSet::PinFlushedLocked(const Round& flushed, const Version& next, VersionEdit* edit) {
  for (const auto& request : flushed.checkpoints) {
    if (request->name.empty()) continue;
    const auto taken = [&](const VersionEdit::Pin& p) { return p.name == request->name; };
    request->status = std::any_of(edit->pins.begin(), edit->pins.end(), taken)
                          ? absl::AlreadyExistsError(StrCat("there is a checkpoint ", request->name))
                          : ForName(next, request->name);
    if (!request->status.ok()) continue;
    edit->pins.push_back(next.PinRuns(request->name, flushed.boundary, request->created_ms));
    request->tried = true;
  }
}

void VersionSet::AnswerCheckpointsLocked(Round* flushed, const Version& published) {
  for (const auto& request : flushed->checkpoints) {
    if (!request->status.ok()) continue;
    request->made = request->name.empty()
                        ? std::make_shared<Checkpoint>(Checkpoint{"", flushed->boundary, request->created_ms,
                                                                  published.runs(), published.tombstones()})
                        : published.FindCheckpoint(request->name);
  }
  flushed->checkpoints.clear();
  checkpoint_made_.SignalAll();
}

StatusOr<CheckpointRef> VersionSet::MakeCheckpoint(const std::shared_ptr<PendingCheckpoint>& request,
                                                   Nanos deadline_ns) {
  const Nanos begin = Now();
  Status s = absl::DeadlineExceededError("the flush for the checkpoint did not end in time");
  MutexLock lock(&mu_);
  for (;;) {
    const ServingState::Value state = context_->state.Get();
    if (request->made != nullptr) return request->made;
    NOVA_RETURN_IF_ERROR(request->status);
    if (state == ServingState::kLost) {
      s = absl::UnavailableError("the range was lost");
      break;
    }
    if (!request->attached) {
      if (state != ServingState::kActive) return absl::UnavailableError("the range is not open");
      if (!request->name.empty()) NOVA_RETURN_IF_ERROR(ForName(*current(), request->name));
      NOVA_RETURN_IF_ERROR(AttachLocked(request));
      if (request->made != nullptr) return request->made;
    }
    if (Now() >= deadline_ns) break;
    if (const Status why = pacer_->LastingFlushFailure(begin); !why.ok()) {
      s = Annotate(why, "the flush for the checkpoint");
      break;
    }
    checkpoint_made_.WaitUntil(&mu_, std::min(deadline_ns, Now() + kPoll));
  }
  rounds_->DetachCheckpoint(request);
  return request->tried ? absl::UnknownError(StrCat("it may have been made all the same: ", s.ToString()))
                        : s;
}

// --- delete, restore

Status VersionSet::DeleteCheckpoint(const std::string& name) {
  VersionEdit edit;
  edit.unpins.push_back(name);
  {
    MutexLock lock(&mu_);
    if (current()->FindCheckpoint(name) == nullptr)
      return absl::NotFoundError(StrCat("no checkpoint ", name));
    NOVA_RETURN_IF_ERROR(CommitRequestLocked(std::move(edit)));
  }
  rounds_->RefreshLanes();  // whose views hold its tables
  return OkStatus();
}

Status VersionSet::RestoreCheckpoint(const std::string& name) {
  {
    MutexLock lock(&mu_);
    const auto view = rounds_->Current();
    if (!context_->state.Is(ServingState::kRestoring))
      return absl::UnavailableError("the range was released or lost: nothing was restored");
    NOVA_CHECK(view->sealed.empty() && view->active->entries() == 0) << "a write while the range is restored";
    const CheckpointRef checkpoint = view->version->FindCheckpoint(name);
    if (checkpoint == nullptr) return absl::NotFoundError(StrCat("no checkpoint ", name));
    VersionEdit edit;
    for (const Run& run : view->version->runs()) {
      for (const TableRef& t : run.tables) edit.drops.push_back(t->info().uuid);
    }
    for (const Run& run : checkpoint->runs) {
      for (const TableRef& t : run.tables) edit.adds.push_back({run.level, run.order, t->info(), nullptr});
    }
    ReplaceTombstones(view->version->tombstones(), checkpoint->tombstones, &edit);
    points_->snapshots().EndAll();  // before the version changes, which spares none of them
    NOVA_RETURN_IF_ERROR(CommitRequestLocked(std::move(edit)));
    NOVA_LOG(INFO) << "range " << context_->spec.id.value() << " is what it was at checkpoint " << name
                   << ", number " << checkpoint->sequence;
  }
  Committed();
  return OkStatus();
}

}  // namespace nova
