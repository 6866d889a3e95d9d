#include "ltc/engine/version_set.h"

#include <algorithm>

#include "common/base/failpoint.h"
#include "common/base/log.h"

namespace nova {
namespace {

// sequence numbers (K1): reserved ahead, by an edit
constexpr SequenceNumber kSequenceReserve = SequenceNumber{1} << 32;

// Tables of `before` that `after` has neither in its runs nor in a checkpoint.
std::vector<TableRef> LeftOut(const Version& before, const Version& after) {
  std::vector<const TableHandle*> kept;
  after.ForEachTable([&](const Run&, const TableRef& t) { kept.push_back(t.get()); });
  std::sort(kept.begin(), kept.end());
  std::vector<TableRef> out;
  before.ForEachTable([&](const Run&, const TableRef& t) {
    if (!std::binary_search(kept.begin(), kept.end(), t.get())) out.push_back(t);
  });
  return out;
}

}  // namespace

void NamedFiles::Add(const TableInfo& table) {
  ForEachPart(table, [&](uint32_t part) {
    const std::vector<StocId>& stocs = *CopiesOf(table, part);
    files_[{table.uuid, part}].insert(stocs.begin(), stocs.end());
  });
}

Status VersionSet::Start(std::shared_ptr<const Version> version, SequenceNumber last) {
  MutexLock lock(&mu_);
  seq_reserved_ = last + kSequenceReserve;
  // Every memtable of an older epoch is in the tables now; ids of this epoch start above the mark.
  const MemTableId done_below(context_->spec.epoch.value() << 32);
  NOVA_RETURN_IF_ERROR(manifest_.Start(AsOneEdit(*version, done_below)));
  rounds_->Publish([&version](RangeView* view) {
    view->tombstones = version->tombstones();
    view->version = std::move(version);
  });
  return OkStatus();
}

ManifestGroup VersionSet::manifest_group(uint64_t* bytes) const {
  MutexLock lock(&mu_);
  if (bytes != nullptr) *bytes = manifest_.bytes();
  return manifest_.group();
}

VersionEdit VersionSet::AsOneEdit(const Version& version, MemTableId done_below) const {
  VersionEdit edit = version.Snapshot();
  edit.seq_reserved = seq_reserved_;
  edit.done_below = done_below;
  edit.now_ms = points_->published_now_ms();
  return edit;
}

// --- edits: durable, then published, then the inputs are let go of

Status VersionSet::Commit(VersionEdit edit, const RoundGroup* flushed) {
  {
    MutexLock lock(&mu_);
    NOVA_RETURN_IF_ERROR(CommitLocked(std::move(edit), flushed));
  }
  Committed();
  return OkStatus();
}

void VersionSet::Committed() {
  rounds_->RefreshLanes();
  pacer_->UpdatePressure();
}

Status VersionSet::CommitLocked(VersionEdit edit, const RoundGroup* flushed) {
  if (context_->state.Is(ServingState::kLost)) return absl::FailedPreconditionError("the range was lost");
  const GarbageSink& garbage = context_->services->garbage;
  const auto view = rounds_->Current();
  NOVA_ASSIGN_OR_RETURN(auto next, view->version->Apply(edit, garbage));
  if (flushed != nullptr && !flushed->back()->checkpoints.empty()) {
    PinFlushedLocked(*flushed->back(), *next, &edit);
    NOVA_ASSIGN_OR_RETURN(next, view->version->Apply(edit, garbage));
  }
  // range deletions (K7); the snapshots are asked for when the tombstones are in hand: later ones see them
  // all
  if (next->tombstones() != nullptr) {
    VersionEdit needless;
    needless.dropped_tombstones = next->NeedlessTombstones(points_->LiveSnapshots());
    NOVA_ASSIGN_OR_RETURN(next, next->Apply(needless, garbage));
    edit.dropped_tombstones.insert(edit.dropped_tombstones.end(), needless.dropped_tombstones.begin(),
                                   needless.dropped_tombstones.end());
  }
  points_->PublishNow(edit.now_ms);  // K7: before what had expired is gone
  const SequenceNumber last = points_->sequences().last();
  const SequenceNumber reserved_before = seq_reserved_;
  if (last + kSequenceReserve / 2 > seq_reserved_)
    seq_reserved_ = edit.seq_reserved = last + kSequenceReserve;
  const MemTableId done_below = view->DoneBelow(flushed);
  const Status s = manifest_.Append(edit, [&] {
    mu_.AssertHeld();
    return AsOneEdit(*next, done_below);
  });
  if (absl::IsFailedPrecondition(s)) context_->lose(s);
  if (!s.ok()) seq_reserved_ = reserved_before;  // the next edit says it again (numbers, K1)
  NOVA_RETURN_IF_ERROR(s);
  DropMaybeCommittedLocked();
  NOVA_FP_VOID("edit.appended");  // it is durable: to fail now would deny what is so
  std::vector<TableRef> left_out;
  if (!edit.drops.empty() || !edit.pins.empty() || !edit.unpins.empty())
    left_out = LeftOut(*view->version, *next);
  std::erase_if(dropped_, [](const std::weak_ptr<TableHandle>& t) { return t.expired(); });
  for (const TableRef& t : left_out) {
    t->MarkDropped();
    dropped_.push_back(t);
  }
  for (const VersionEdit::Move& m : edit.moves) {
    const TableRef before = view->version->FindHandle(m.table);
    before->SetSuccessor(next->FindHandle(m.table));
    dropped_.push_back(before);
  }
  // A list of thousands takes milliseconds to make, which readers who want a view are not to wait for.
  const RangeTombstonesRef before = rounds_->Current()->tombstones;
  const RangeTombstonesRef after = RangeView::TombstonesAfter(before, edit);
  rounds_->Publish([&](RangeView* published) {
    mu_.AssertHeld();
    published->version = next;
    published->tombstones =
        published->tombstones == before ? after : RangeView::TombstonesAfter(published->tombstones, edit);
    published->tombstones_dropped += edit.dropped_tombstones.empty() ? 0 : 1;
    if (flushed == nullptr) return;
    for (const auto& r : *flushed) {
      NOVA_CHECK(!published->sealed.empty() && published->sealed.back() == r) << "flush out of order (K3b)";
      published->sealed.pop_back();
    }
    published->CountSealed();
    AnswerCheckpointsLocked(flushed->back().get(), *next);
  });
  return OkStatus();
}

Status VersionSet::CommitRequestLocked(VersionEdit edit) {
  if (context_->state.Is(ServingState::kLost)) return absl::UnavailableError("the range was lost");
  const Status s = CommitLocked(std::move(edit));
  return s.ok() ? s : absl::UnknownError(StrCat("it may be done all the same: ", s.ToString()));
}

void VersionSet::KeepUntilNextEdit(const std::vector<TableInfo>& outputs) {
  MutexLock lock(&mu_);
  maybe_committed_outputs_.insert(maybe_committed_outputs_.end(), outputs.begin(), outputs.end());
}

// An edit that failed may be durable all the same, until a later one, or a new file, is in its place.
void VersionSet::DropMaybeCommittedLocked() {
  for (const TableInfo& t : maybe_committed_outputs_) context_->services->garbage(t);
  maybe_committed_outputs_.clear();
  maybe_committed_copies_.clear();  // no job's any more: the next collection (N4) finds them
}

Status VersionSet::CommitCopies(const TableInfo& before, const std::vector<PartCopy>& copies) {
  {
    MutexLock lock(&mu_);
    const TableRef table = current()->FindHandle(before.uuid);
    const bool comes_back = table == nullptr && context_->services->off.s5_in_version;
    const bool is_as_before = table != nullptr && table->info() == before;
    TableInfo after = before;
    if (!(is_as_before || comes_back) || !MoveCopies(copies, &after))
      return absl::AbortedError(StrCat("table ", before.uuid.ToString(), " is not what it was"));
    VersionEdit edit;
    if (comes_back) {
      edit.adds.push_back({.level = 0, .order = 0, .table = after, .reader = nullptr});
    } else {
      edit.moves.push_back({before.uuid, copies});
    }
    if (const Status s = CommitLocked(std::move(edit)); !s.ok()) {
      for (const PartCopy& c : copies) maybe_committed_copies_.push_back({{before.uuid, c.part}, c.to});
      return s;
    }
    if (const auto reader = comes_back ? nullptr : table->reader()) reader->SetPlaces(after);
  }
  Committed();
  return OkStatus();
}

Status VersionSet::RenewManifest(const std::function<Status()>& may_go_on) {
  NOVA_RETURN_IF_ERROR(may_go_on());
  StatusOr<Manifest::Renewal> renewal;
  {
    MutexLock lock(&mu_);  // no edit is under way
    if (context_->state.Is(ServingState::kLost)) return absl::FailedPreconditionError("the range was lost");
    const auto view = rounds_->Current();
    renewal = manifest_.BeginRenewal(AsOneEdit(*view->version, view->DoneBelow(nullptr)));
  }
  NOVA_RETURN_IF_ERROR(renewal.status());
  NOVA_FP_VOID("ltc.renewal_cut");
  const auto group = storage_->Create(renewal->first_record, renewal->file);
  if (!group.ok()) {
    MutexLock lock(&mu_);
    manifest_.DropRenewal();
    return group.status();
  }
  NOVA_FP_VOID("ltc.renewal_written");
  if (const Status s = may_go_on(); !s.ok()) {
    {
      MutexLock lock(&mu_);
      manifest_.DropRenewal();
    }
    storage_->Delete(*group);
    return s;
  }
  MutexLock lock(&mu_);  // edits stop
  const Status s = manifest_.EndRenewal(*group);
  if (absl::IsFailedPrecondition(s)) context_->lose(s);
  if (s.ok()) DropMaybeCommittedLocked();
  return s;
}

Status VersionSet::SettleDoubt() {
  {
    MutexLock lock(&mu_);
    if (maybe_committed_outputs_.empty() && maybe_committed_copies_.empty()) return OkStatus();
    NOVA_RETURN_IF_ERROR(CommitLocked({}));
  }
  Committed();
  return OkStatus();
}

NamedFiles VersionSet::ReferencedFiles() const {
  NamedFiles files;
  std::vector<TableRef> read;  // let go of outside the lock: the last reference may be ours
  std::shared_ptr<const Version> version;
  {
    MutexLock lock(&mu_);
    for (const TableInfo& t : maybe_committed_outputs_) files.Add(t);
    for (const auto& [file, stoc] : maybe_committed_copies_) files.Add(file, stoc);
    for (const auto& weak : dropped_) {
      if (TableRef t = weak.lock()) read.push_back(std::move(t));
    }
    version = current();
    files.AddAnywhere({manifest_.group().file, 0});
  }
  for (const TableRef& t : read) files.Add(t->info());
  version->ForEachTable([&](const Run&, const TableRef& t) { files.Add(t->info()); });
  return files;
}

}  // namespace nova
