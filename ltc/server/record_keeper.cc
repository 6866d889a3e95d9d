#include "ltc/server/record_keeper.h"

namespace nova {

RangeRecord RecordKeeper::Get() const {
  MutexLock lock(&mu_);
  return record_;
}

class RecordKeeper::Turn {
 public:
  Turn(RecordKeeper* keeper, Nanos deadline_ns) : keeper_(keeper) {
    MutexLock lock(&keeper_->mu_);
    while (keeper_->changing_ && Now() < deadline_ns) {
      keeper_->change_ended_.WaitUntil(&keeper_->mu_, deadline_ns);
    }
    mine_ = !keeper_->changing_;
    keeper_->changing_ = true;
  }
  ~Turn() {
    if (!mine_) return;
    MutexLock lock(&keeper_->mu_);
    keeper_->changing_ = false;
    keeper_->change_ended_.SignalAll();
  }
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;
  bool mine() const { return mine_; }

 private:
  RecordKeeper* const keeper_;
  bool mine_ = false;
};

Status RecordKeeper::Update(const std::function<Status(RangeRecord*)>& change) {
  const Turn turn(this, kNever);
  const std::shared_ptr<NodeSession> session = services_->session();
  if (session == nullptr) return absl::UnavailableError("no session with the cluster");
  for (;;) {
    RangeRecord next = Get();
    // It was released while this change waited for its turn: the next owner is to find it as it was let go.
    if (next.owner_incarnation == Incarnation())
      return absl::FailedPreconditionError(StrCat("range ", next.id.value(), " was released"));
    NOVA_RETURN_IF_ERROR(change(&next));
    auto stored = session->UpdateRange(next);
    if (absl::IsAborted(stored.status())) {
      NOVA_RETURN_IF_ERROR(TakeLateUpdate(session.get(), next.id));
      continue;
    }
    NOVA_RETURN_IF_ERROR(stored.status());
    MutexLock lock(&mu_);
    record_ = *std::move(stored);
    return OkStatus();
  }
}

// Somebody was first. An update of ours that ended in doubt, with its session, may have been written after
// all.
Status RecordKeeper::TakeLateUpdate(NodeSession* session, RangeId id) {
  NOVA_ASSIGN_OR_RETURN(RangeRecord stored, session->ReadRange(id));
  MutexLock lock(&mu_);
  // Of the name, too: where an older copy of the store was put back, another LTC may have our incarnation.
  if (stored.epoch != record_.epoch || stored.owner != record_.owner ||
      stored.owner_incarnation != record_.owner_incarnation || stored.version == record_.version) {
    return absl::FailedPreconditionError(
        StrCat("range ", id.value(), ": epoch ", record_.epoch.value(), " is no longer ours"));
  }
  record_ = std::move(stored);
  return OkStatus();
}

Status RecordKeeper::UpdateOrCancel(const std::function<void()>& before_asking,
                                    const std::function<void(RangeRecord*)>& change) {
  const Turn turn(this, Now() + kMostDoubt);  // what is under way here ends before anything stands still
  if (!turn.mine()) return absl::CancelledError("another change of the record is under way");
  const std::shared_ptr<NodeSession> session = services_->session();
  if (session == nullptr) return absl::CancelledError("no session with the cluster");
  before_asking();
  for (;;) {
    const RangeRecord before = Get();
    RangeRecord after = before;
    change(&after);
    auto handed = session->HandOverRange(before, after, kMostDoubt);
    if (absl::IsAborted(handed.status())) {
      NOVA_RETURN_IF_ERROR(TakeLateUpdate(session.get(), before.id));
      continue;
    }
    NOVA_RETURN_IF_ERROR(handed.status());
    MutexLock lock(&mu_);
    record_ = std::move(handed->record);
    return handed->cancelled
               ? absl::CancelledError("the store did not answer in time: the record was left as it was")
               : OkStatus();
  }
}

}  // namespace nova
