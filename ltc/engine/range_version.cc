// The version of a Range: rebuilt by recovery (R3, R4), and the one way it changes (M2).
#include <algorithm>

#include "common/base/failpoint.h"
#include "common/base/log.h"
#include "common/base/thread.h"
#include "ltc/engine/range_view.h"
#include "ltc/engine/recovered_entries.h"

namespace nova {
namespace {

constexpr SequenceNumber kSequenceReserve = SequenceNumber{1} << 32;  // K1: reserved ahead, by an edit

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

// --- recovery

StatusOr<std::shared_ptr<Range>> Range::Recover(const RangeSpec& spec, const RangeOptions& options,
                                                const RangeServices* services, ManifestStorage* storage,
                                                const std::vector<VersionEdit>& edits, RecoveredLogs entries,
                                                std::shared_ptr<const void> keep) {
  auto version = std::make_shared<const Version>();
  SequenceNumber reserved = 0;
  int64_t now_ms = 0;
  for (const VersionEdit& edit : edits) {
    NOVA_ASSIGN_OR_RETURN(version, version->Apply(edit, services->garbage));
    reserved = std::max(reserved, edit.seq_reserved);
    now_ms = std::max(now_ms, edit.now_ms);
  }
  const RecoveredEntries recovered(std::move(entries), DoneMemTables(edits));
  const SequenceNumber last = std::max(reserved, recovered.last());  // K1
  std::shared_ptr<Range> range(new Range(spec, options, services, storage, last));
  range->keep_ = std::move(keep);
  range->published_now_ms_.store(now_ms);
  if (!recovered.empty()) {
    VersionEdit deletes;
    NOVA_ASSIGN_OR_RETURN(deletes.tombstones, recovered.RangeDeletions());
    NOVA_ASSIGN_OR_RETURN(version, version->Apply(deletes, services->garbage));
    const DropRules rules{{}, last, range->NowMs(), version->tombstones(), last};
    NOVA_ASSIGN_OR_RETURN(const VersionEdit flushed, range->WriteRecovered(recovered, rules));
    NOVA_ASSIGN_OR_RETURN(version, version->Apply(flushed, services->garbage));
  }
  VersionEdit needless;
  needless.dropped_tombstones = version->NeedlessTombstones({});
  NOVA_ASSIGN_OR_RETURN(version, version->Apply(needless, services->garbage));
  {
    MutexLock lock(&range->manifest_mu_);
    range->seq_reserved_ = last + kSequenceReserve;
    // Every memtable of an older epoch is in the tables now; ids of this epoch start above the mark.
    NOVA_RETURN_IF_ERROR(
        range->manifest_.Start(range->SnapshotOf(*version, MemTableId(spec.epoch.value() << 32))));
    MutexLock view_lock(&range->mu_);
    auto view = std::make_shared<View>(*range->view_);
    view->generation++;
    view->tombstones = version->tombstones();
    view->version = std::move(version);
    range->PublishLocked(std::move(view));
  }
  return range;
}

// As one run; where there are many, by several threads, each its part of the keys.
StatusOr<VersionEdit> Range::WriteRecovered(const RecoveredEntries& recovered, const DropRules& rules) {
  constexpr size_t kEntriesOfAThread = 50'000;
  constexpr size_t kMostThreads = 4;
  const size_t parts = std::clamp<size_t>(recovered.size() / kEntriesOfAThread, 1, kMostThreads);
  const Job job(this);
  std::vector<StatusOr<VersionEdit>> written(parts, StatusOr<VersionEdit>(VersionEdit()));
  const auto write = [&](size_t part) {
    const auto sorted = recovered.NewIterator(part, parts);
    Younger younger;
    written[part] = WriteLevel0(job.id(), sorted.get(), recovered.first(), rules, &younger, {});
  };
  {
    std::vector<std::unique_ptr<Thread>> others;
    for (size_t part = 1; part < parts; ++part) {
      others.push_back(std::make_unique<Thread>("ltc.recovery", [&write, part] { write(part); }));
    }
    write(0);
  }
  Status s;
  VersionEdit all;
  for (const auto& edit : written) {
    if (!edit.ok()) s = edit.status();
    if (edit.ok()) all.adds.insert(all.adds.end(), edit->adds.begin(), edit->adds.end());
  }
  if (s.ok()) return all;
  for (const VersionEdit::Add& add : all.adds) services_->garbage(add.table);
  return s;
}

VersionEdit Range::SnapshotOf(const Version& version, MemTableId done_below) const {
  VersionEdit edit = version.Snapshot();
  edit.seq_reserved = seq_reserved_;
  edit.done_below = done_below;
  edit.now_ms = published_now_ms_.load();
  return edit;
}

StatusOr<TableInfo> Range::StoreTable(TableBuilder::Output output, const Creator& creator,
                                      std::shared_ptr<const TableReader>* reader) {
  NOVA_ASSIGN_OR_RETURN(const Placement placement, services_->place(output.info.data_size));
  const std::string metadata = output.metadata;
  NOVA_ASSIGN_OR_RETURN(TableInfo info, services_->store->WriteTable(std::move(output), placement, creator));
  auto opened = OpenReader(info, metadata, /*cold=*/false);
  if (!opened.ok()) {
    services_->garbage(info);
    return opened.status();
  }
  *reader = *std::move(opened);
  return info;
}

TableOptions Range::TableOptionsAt(int level) const {
  TableOptions o = options_.table;
  const auto& list = options_.compression;
  o.compression =
      list.empty() ? Compression::kNone : list[std::min(static_cast<size_t>(level), list.size() - 1)];
  return o;
}

// --- edits: durable, then published, then the inputs are let go of

Status Range::CommitEdit(VersionEdit edit, const RoundGroup* flushed) {
  {
    MutexLock lock(&manifest_mu_);
    NOVA_RETURN_IF_ERROR(CommitEditLocked(std::move(edit), flushed));
  }
  RefreshLanes();
  UpdatePressure();
  return OkStatus();
}

// The caller refreshes lanes and pressure when it has let go of the lock.
Status Range::CommitEditLocked(VersionEdit edit, const RoundGroup* flushed) {
  if (state_.load() == State::kLost) return absl::FailedPreconditionError("the range was lost");
  const auto view = CurrentView();
  NOVA_ASSIGN_OR_RETURN(auto next, view->version->Apply(edit, services_->garbage));
  if (flushed != nullptr && !flushed->back()->checkpoints.empty()) {
    PinFlushedLocked(*flushed->back(), *next, &edit);
    NOVA_ASSIGN_OR_RETURN(next, view->version->Apply(edit, services_->garbage));
  }
  // K7; the snapshots are asked for when the tombstones are in hand: later ones see them all
  if (next->tombstones() != nullptr) {
    VersionEdit needless;
    needless.dropped_tombstones = next->NeedlessTombstones(snapshots_.Live(Now()));
    NOVA_ASSIGN_OR_RETURN(next, next->Apply(needless, services_->garbage));
    edit.dropped_tombstones.insert(edit.dropped_tombstones.end(), needless.dropped_tombstones.begin(),
                                   needless.dropped_tombstones.end());
  }
  // K7: before what had expired is gone
  if (edit.now_ms > published_now_ms_.load()) published_now_ms_.store(edit.now_ms);
  if (sequences_.last() + kSequenceReserve / 2 > seq_reserved_) {
    seq_reserved_ = edit.seq_reserved = sequences_.last() + kSequenceReserve;
  }
  const MemTableId done_below = DoneBelow(*view, flushed);
  const Status s = manifest_.Append(edit, [&] {
    manifest_mu_.AssertHeld();
    return SnapshotOf(*next, done_below);
  });
  if (absl::IsFailedPrecondition(s)) Lose(s);
  NOVA_RETURN_IF_ERROR(s);
  DropGivenUpLocked();
  NOVA_FP_VOID("edit.appended");  // it is durable: to fail now would deny what is so
  std::vector<TableRef> left_out;
  if (!edit.drops.empty() || !edit.pins.empty() || !edit.unpins.empty())
    left_out = LeftOut(*view->version, *next);
  MutexLock view_lock(&mu_);
  auto published = std::make_shared<View>(*view_);
  published->generation++;
  published->version = next;
  published->ApplyTombstones(edit);
  if (flushed != nullptr) {
    for (const auto& r : *flushed) {
      NOVA_CHECK(!published->sealed.empty() && published->sealed.back() == r) << "flush out of order (K3b)";
      published->sealed.pop_back();
    }
    published->CountSealed();
    AnswerCheckpointsLocked(flushed->back().get(), *next);
  }
  std::erase_if(dropped_, [](const std::weak_ptr<TableHandle>& t) { return t.expired(); });
  for (const TableRef& t : left_out) {
    t->MarkDropped();
    dropped_.push_back(t);
  }
  PublishLocked(std::move(published));
  return OkStatus();
}

// What replay must skip: everything below the oldest round that is left.
MemTableId Range::DoneBelow(const View& view, const RoundGroup* flushed) const {
  MemTableId done_below = view.active->siblings[0]->id();
  for (const auto& r : view.sealed) {
    const bool done = flushed != nullptr && std::find(flushed->begin(), flushed->end(), r) != flushed->end();
    if (!done) done_below = std::min(done_below, r->sources[0].memtables[0]);
  }
  return done_below;
}

// An edit that failed may be durable all the same, until a later one, or a new file, is in its place.
void Range::DropGivenUpLocked() {
  for (const TableInfo& t : given_up_) services_->garbage(t);
  given_up_.clear();
}

Status Range::RenewManifest(const std::function<Status()>& may_go_on) {
  NOVA_RETURN_IF_ERROR(may_go_on());
  StatusOr<Manifest::Renewal> renewal;
  {
    MutexLock lock(&manifest_mu_);  // no edit is under way
    if (state_.load() == State::kLost) return absl::FailedPreconditionError("the range was lost");
    const auto view = CurrentView();
    renewal = manifest_.BeginRenewal(SnapshotOf(*view->version, DoneBelow(*view, nullptr)));
  }
  NOVA_RETURN_IF_ERROR(renewal.status());
  NOVA_FP_VOID("ltc.renewal_cut");
  const auto group = manifest_storage_->Create(renewal->first_record, renewal->file);
  if (!group.ok()) {
    MutexLock lock(&manifest_mu_);
    manifest_.DropRenewal();
    return group.status();
  }
  NOVA_FP_VOID("ltc.renewal_written");
  if (const Status s = may_go_on(); !s.ok()) {
    {
      MutexLock lock(&manifest_mu_);
      manifest_.DropRenewal();
    }
    manifest_storage_->Delete(*group);
    return s;
  }
  MutexLock lock(&manifest_mu_);  // edits stop
  const Status s = manifest_.EndRenewal(*group);
  if (absl::IsFailedPrecondition(s)) Lose(s);
  if (s.ok()) DropGivenUpLocked();
  return s;
}

void Range::BackgroundFailed(const char* what, const Status& s, WorkFailure* failure) {
  failure->OnFailed(s);
  if (absl::IsFailedPrecondition(s)) Lose(s);
  if (state_.load() == State::kLost) return;
  if (const uint64_t met = background_errors_.Due()) {
    NOVA_LOG(WARNING) << "range " << id_.value() << ": " << what
                      << " failed, will retry (failures so far: " << met << "): " << s;
  }
}

}  // namespace nova
