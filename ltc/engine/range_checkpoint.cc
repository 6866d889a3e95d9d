// Checkpoints of a Range (M2): made by the edit of a flush, kept in the version, restored by one edit.
// docs/engine.md argues it.
#include <algorithm>

#include "common/base/log.h"
#include "ltc/engine/range_view.h"

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

// K7: with the tables their range tombstones. Numbers name them: those that are in both stay.
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

// Guarded by manifest_mu_, but for what does not change.
struct Range::CheckpointRequest {
  explicit CheckpointRequest(std::string n) : name(std::move(n)) {}
  const std::string name;  // empty: not durable
  const int64_t created_ms = WallNowMs();
  bool attached = false;  // to a round
  bool tried = false;     // an edit with it was written, or may have been
  Status status;
  CheckpointRef made;
};

// What a caller asked for and must not ask for again unseen (A1): once the edit may have been written, its
// failure decides nothing.
Status Range::CommitRequestLocked(VersionEdit edit) {
  if (state_.load() == State::kLost) return absl::UnavailableError("the range was lost");
  const Status s = CommitEditLocked(std::move(edit));
  return s.ok() ? s : absl::UnknownError(StrCat("it may be done all the same: ", s.ToString()));
}

// --- making one

// Rounds seal at a boundary number and are committed in order (K3): the version that the commit of a round
// makes holds every number up to its boundary, and none above.
Status Range::AttachLocked(const std::shared_ptr<CheckpointRequest>& request) {
  VersionEdit edit;
  {
    MutexLock lock(&mu_);
    const bool all_sealed = view_->active->entries() == 0 && view_->active->pins.load() == 0;
    if (!all_sealed && !SealLocked()) return OkStatus();  // no room for another round: a flush will make it
    if (!view_->sealed.empty()) {
      view_->sealed.front()->checkpoints.push_back(request);
      whole_upto_.insert(view_->sealed.front()->boundary);
      request->attached = true;
      return OkStatus();
    }
    edit.pins.push_back(
        view_->version->PinRuns(request->name, view_->active->number - 1, request->created_ms));
  }
  // Nothing is in memory: the version holds it all. A write that comes now has a number above; edits wait for
  // manifest_mu_.
  const auto version = CurrentView()->version;
  if (request->name.empty()) {
    request->made = std::make_shared<Checkpoint>(
        Checkpoint{"", edit.pins[0].sequence, request->created_ms, version->runs(), version->tombstones()});
    return OkStatus();
  }
  NOVA_RETURN_IF_ERROR(CommitRequestLocked(std::move(edit)));
  request->made = CurrentView()->version->FindCheckpoint(request->name);
  return OkStatus();
}

void Range::PinFlushedLocked(const Round& flushed, const Version& next, VersionEdit* edit) {
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

void Range::AnswerCheckpointsLocked(Round* flushed, const Version& published) {
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

StatusOr<CheckpointRef> Range::MakeCheckpoint(const std::shared_ptr<CheckpointRequest>& request,
                                              Nanos deadline_ns) {
  const Nanos begin = Now();
  Status s = absl::DeadlineExceededError("the flush for the checkpoint did not end in time");
  MutexLock lock(&manifest_mu_);
  for (;;) {
    const State state = state_.load();
    if (request->made != nullptr) return request->made;
    NOVA_RETURN_IF_ERROR(request->status);
    if (state == State::kLost) {
      s = absl::UnavailableError("the range was lost");
      break;
    }
    if (!request->attached) {
      if (state != State::kActive) return absl::UnavailableError("the range is not open");
      if (!request->name.empty()) NOVA_RETURN_IF_ERROR(ForName(*CurrentView()->version, request->name));
      NOVA_RETURN_IF_ERROR(AttachLocked(request));
      if (request->made != nullptr) return request->made;
    }
    if (Now() >= deadline_ns) break;
    if (const Status why = LastingFlushFailure(begin); !why.ok()) {
      s = Annotate(why, "the flush for the checkpoint");
      break;
    }
    checkpoint_made_.WaitUntil(&manifest_mu_, std::min(deadline_ns, Now() + kPoll));
  }
  MutexLock view_lock(&mu_);
  for (const auto& round : view_->sealed) std::erase(round->checkpoints, request);
  return request->tried ? absl::UnknownError(StrCat("it may have been made all the same: ", s.ToString()))
                        : s;
}

Status Range::CreateCheckpoint(const std::string& name, Nanos deadline_ns) {
  if (!IsCheckpointName(name)) {
    return absl::InvalidArgumentError(
        "the name of a checkpoint is 1 to 100 letters, digits, dots, dashes and underscores");
  }
  const Status s = MakeCheckpoint(std::make_shared<CheckpointRequest>(name), deadline_ns).status();
  RefreshLanes();
  return s;
}

StatusOr<CheckpointRef> Range::Freeze(Nanos deadline_ns) {
  return MakeCheckpoint(std::make_shared<CheckpointRequest>(""), deadline_ns);
}

// --- list, delete

std::vector<CheckpointRef> Range::Checkpoints() const { return CurrentView()->version->checkpoints(); }

bool Range::InVersion(const Uuid& table) const {
  const auto view = CurrentView();
  for (const Run& run : view->version->runs()) {
    for (const TableRef& t : run.tables) {
      if (t->info().uuid == table) return true;
    }
  }
  return false;
}

Status Range::DeleteCheckpoint(const std::string& name) {
  VersionEdit edit;
  edit.unpins.push_back(name);
  {
    MutexLock lock(&manifest_mu_);
    if (CurrentView()->version->FindCheckpoint(name) == nullptr)
      return absl::NotFoundError(StrCat("no checkpoint ", name));
    NOVA_RETURN_IF_ERROR(CommitRequestLocked(std::move(edit)));
  }
  RefreshLanes();  // whose views hold its tables
  return OkStatus();
}

// --- restore

Status Range::RestoreCheckpoint(const std::string& name, Nanos deadline_ns) {
  if (CurrentView()->version->FindCheckpoint(name) == nullptr)
    return absl::NotFoundError(StrCat("no checkpoint ", name));
  State expected = State::kActive;
  if (!state_.compare_exchange_strong(expected, State::kRestoring))
    return absl::UnavailableError("the range is not open, or is being restored");
  const auto pause = [this](bool on) {
    MutexLock lock(&picker_mu_);
    compactions_paused_ = on;
  };
  pause(true);
  const Status s = RestoreStopped(name, deadline_ns);
  pause(false);
  expected = State::kRestoring;  // what was released or lost meanwhile stays so
  state_.compare_exchange_strong(expected, State::kActive);
  services_->work(id_);
  return s;
}

// REQUIRES: no write is taken, no compaction is begun. What is under way ends first: swaps that have read
// what will not be there any more, memtables (their logs are deletable then: M3), compactions of tables that
// go.
Status Range::RestoreStopped(const std::string& name, Nanos deadline_ns) {
  const auto idle = [this] {
    if (latches_.any_held()) return false;
    MutexLock lock(&picker_mu_);
    return jobs_.empty();
  };
  while (latches_.any_held() && Now() < deadline_ns) SleepFor(kMillisecond);
  NOVA_RETURN_IF_ERROR(FlushAll(deadline_ns));
  for (; !idle(); SleepFor(kMillisecond)) {
    if (Now() >= deadline_ns)
      return absl::DeadlineExceededError("compactions under way did not end in time: nothing was restored");
  }
  {
    MutexLock lock(&manifest_mu_);
    const auto view = CurrentView();
    if (state_.load() != State::kRestoring)
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
    snapshots_.EndAll();  // before the version changes, which spares none of them
    NOVA_RETURN_IF_ERROR(CommitRequestLocked(std::move(edit)));
    NOVA_LOG(INFO) << "range " << id_.value() << " is what it was at checkpoint " << name << ", number "
                   << checkpoint->sequence;
  }
  RefreshLanes();
  UpdatePressure();
  return OkStatus();
}

// --- off a StoC that drains

// The table's contents are in `outputs` now: wherever it was named, they are.
Status Range::CommitMove(const Uuid& moved, std::vector<VersionEdit::Add> outputs) {
  {
    MutexLock lock(&manifest_mu_);
    const auto version = CurrentView()->version;
    const auto names_it = [&](const TableRef& t) { return t->info().uuid == moved; };
    VersionEdit edit;
    for (const Run& run : version->runs()) {
      if (!std::any_of(run.tables.begin(), run.tables.end(), names_it)) continue;
      edit.drops.push_back(moved);
      edit.adds = outputs;
      for (VersionEdit::Add& add : edit.adds) {
        add.level = run.level;
        add.order = run.order;
      }
    }
    for (const CheckpointRef& c : version->checkpoints()) {
      VersionEdit::Pin pin{c->name, c->sequence, c->created_ms, {}};
      if (c->tombstones != nullptr) pin.tombstones = c->tombstones->all();
      bool named = false;
      for (const Run& run : c->runs) {
        for (const TableRef& t : run.tables) {
          if (!names_it(t)) {
            pin.tables.push_back({run.level, run.order, t->info().uuid});
            continue;
          }
          named = true;
          for (const VersionEdit::Add& add : outputs)
            pin.tables.push_back({run.level, run.order, add.table.uuid});
        }
      }
      if (named) edit.pins.push_back(std::move(pin));
    }
    if (edit.drops.empty()) {
      for (const VersionEdit::Add& add : outputs) edit.held.push_back(add.table);
    }
    if (edit.drops.empty() && edit.pins.empty()) {  // its checkpoint was deleted meanwhile
      for (const VersionEdit::Add& add : outputs) services_->garbage(add.table);
      return OkStatus();
    }
    NOVA_RETURN_IF_ERROR(CommitEditLocked(std::move(edit)));
  }
  RefreshLanes();
  UpdatePressure();
  return OkStatus();
}

}  // namespace nova
