// Background work of a Range: recovery, flush, compaction, and the one way its version changes.
#include <algorithm>
#include <cmath>

#include "common/base/failpoint.h"
#include "common/base/log.h"
#include "common/sstable/compaction_job.h"
#include "ltc/range_view.h"

namespace nova {
namespace {

constexpr SequenceNumber kSequenceReserve = SequenceNumber{1} << 32;  // K1: reserved ahead, by an edit
constexpr Nanos kWarnPeriod = 5 * kSecond;                            // of a failure that lasts

uint64_t CountOn(const Version& version, StocId stoc) {
  std::set<const TableHandle*> on;
  version.ForEachTable([&](const Run&, const TableRef& t) {
    if (IsOn(t->info(), stoc)) on.insert(t.get());
  });
  return on.size();
}

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

// What places tables, from before the first is placed until its edit is published or given up.
class Range::Job {
 public:
  explicit Job(Range* range) : range_(range) {
    MutexLock lock(&range_->picker_mu_);
    id_ = range_->next_job_++;
    range_->jobs_.insert(id_);
  }
  ~Job() {
    if (!kept_) End(range_, id_);
  }
  uint64_t id() const { return id_; }
  uint64_t Keep() {  // until End
    kept_ = true;
    return id_;
  }
  static void End(Range* range, uint64_t id) {
    MutexLock lock(&range->picker_mu_);
    range->jobs_.erase(id);
  }

 private:
  Range* const range_;
  uint64_t id_;
  bool kept_ = false;
};

// --- recovery (R3, R4)

StatusOr<std::shared_ptr<Range>> Range::Recover(const RangeRecord& record, const RangeOptions& options,
                                                const RangeServices* services, ManifestStorage* storage,
                                                const std::vector<VersionEdit>& edits, std::vector<RecoveredRecord> entries,
                                                std::shared_ptr<const void> keep) {
  auto version = std::make_shared<const Version>();
  SequenceNumber reserved = 0;
  int64_t now_ms = 0;
  for (const VersionEdit& edit : edits) {
    NOVA_ASSIGN_OR_RETURN(version, version->Apply(edit, services->garbage));
    reserved = std::max(reserved, edit.seq_reserved);
    now_ms = std::max(now_ms, edit.now_ms);
  }
  // M3: what was flushed is in the tables already. R3: the rest, merged by number; a record found in two groups counts once.
  const DoneMemTables done(edits);
  std::erase_if(entries, [&](const RecoveredRecord& e) { return done(e.memtable); });
  std::sort(entries.begin(), entries.end(),
            [](const RecoveredRecord& a, const RecoveredRecord& b) { return a.sequence < b.sequence; });
  entries.erase(std::unique(entries.begin(), entries.end(),
                            [](const RecoveredRecord& a, const RecoveredRecord& b) { return a.sequence == b.sequence; }),
                entries.end());
  const SequenceNumber last = std::max(reserved, entries.empty() ? 0 : entries.back().sequence);  // K1
  std::shared_ptr<Range> range(new Range(record, options, services, storage, last));
  range->keep_ = std::move(keep);
  range->published_now_ms_.store(now_ms);
  if (!entries.empty()) {
    auto memtable = std::make_shared<MemTable>(MemTableId(record.epoch.value() << 32), services->arenas);
    VersionEdit deletes;
    for (const RecoveredRecord& e : entries) {
      if (e.type != ValueType::kDeleteRange) {
        memtable->Link(memtable->Prepare(e.key, e.sequence, e.type, e.value));
      } else if (e.key < e.value) {
        deletes.tombstones.push_back(std::make_shared<const RangeTombstone>(RangeTombstone{e.key, e.value, e.sequence}));
      } else {
        return absl::DataLossError(StrCat("log record ", e.sequence, " deletes a range that ends before it begins"));
      }
    }
    NOVA_ASSIGN_OR_RETURN(version, version->Apply(deletes, services->garbage));
    const auto sorted = memtable->NewIterator(memtable);
    const Job job(range.get());
    Younger younger;
    const DropRules rules{{}, last, range->NowMs(), version->tombstones(), last};
    NOVA_ASSIGN_OR_RETURN(const VersionEdit flushed, range->WriteLevel0(job.id(), sorted.get(), entries.front().sequence, rules, &younger, {}));
    NOVA_ASSIGN_OR_RETURN(version, version->Apply(flushed, services->garbage));
  }
  VersionEdit needless;
  needless.dropped_tombstones = version->NeedlessTombstones({});
  NOVA_ASSIGN_OR_RETURN(version, version->Apply(needless, services->garbage));
  {
    MutexLock lock(&range->manifest_mu_);
    range->seq_reserved_ = last + kSequenceReserve;
    // Every memtable of an older epoch is in the tables now; ids of this epoch start above the mark.
    NOVA_RETURN_IF_ERROR(range->manifest_.Start(range->SnapshotOf(*version, MemTableId(record.epoch.value() << 32))));
    MutexLock view_lock(&range->mu_);
    auto view = std::make_shared<View>(*range->view_);
    view->generation++;
    view->tombstones = version->tombstones();
    view->version = std::move(version);
    range->PublishLocked(std::move(view));
  }
  return range;
}

VersionEdit Range::SnapshotOf(const Version& version, MemTableId done_below) const {
  VersionEdit edit = version.Snapshot();
  edit.seq_reserved = seq_reserved_;
  edit.done_below = done_below;
  edit.now_ms = published_now_ms_.load();
  return edit;
}

// --- tables

StatusOr<TableInfo> Range::StoreTable(TableBuilder::Output output, const Creator& creator,
                                      std::shared_ptr<const TableReader>* reader) {
  NOVA_ASSIGN_OR_RETURN(const Placement placement, services_->place(output.info.data_size));
  const std::string metadata = output.metadata;
  NOVA_ASSIGN_OR_RETURN(TableInfo info, services_->store->WriteTable(std::move(output), placement, creator));
  NOVA_ASSIGN_OR_RETURN(*reader, OpenReader(info, metadata));
  return info;
}

StatusOr<VersionEdit> Range::WriteLevel0(uint64_t job, Iterator* sorted, RoundNumber order, const DropRules& rules, Younger* younger,
                                         const FlushProgress& progress) {
  constexpr uint64_t kProgressBytes = 256 << 10;
  const Creator creator{id_, epoch_, job};
  VersionFilter filter(rules.snapshots, rules.floor, /*bottom=*/false, rules.now_ms, rules.tombstones);
  VersionEdit edit;
  std::unique_ptr<TableBuilder> builder;
  std::string last_key;
  const auto finish = [&]() -> Status {
    VersionEdit::Add add{0, order, {}, nullptr};
    TableBuilder::Output output = builder->Finish();
    if (rules.tombstones != nullptr) SetTombstonesApplied(rules.tombstones_applied, &output.info);
    NOVA_ASSIGN_OR_RETURN(add.table, StoreTable(std::move(output), creator, &add.reader));
    edit.adds.push_back(std::move(add));
    builder = nullptr;
    return OkStatus();
  };
  const auto give_up = [&](const Status& s) {  // what is written is in no edit
    for (const VersionEdit::Add& add : edit.adds) services_->garbage(add.table);
    return s;
  };
  uint64_t entries = 0, bytes = 0, kept_bytes = 0;  // not told of yet
  for (sorted->SeekToFirst(); sorted->Valid(); sorted->Next()) {
    const std::string_view internal_key = sorted->key(), value = sorted->value();
    ++entries;
    bytes += internal_key.size() + value.size();
    if (bytes >= kProgressBytes && progress) {
      progress(std::exchange(entries, 0), std::exchange(kept_bytes, 0));
      bytes = 0;
    }
    ParsedInternalKey key;
    if (!ParseInternalKey(internal_key, &key)) return give_up(absl::InternalError("memtable holds a malformed key"));
    if (!filter.Keep(key, value) || younger->Replaces(key)) continue;
    kept_bytes += internal_key.size() + value.size();
    // Versions of one key stay in one table, so that tables of a run never overlap.
    if (builder != nullptr && builder->data_size() >= options_.compaction.table_size_bytes && key.stored_key != last_key) {
      if (const Status s = finish(); !s.ok()) return give_up(s);
    }
    if (builder == nullptr) {
      const Uuid uuid = Uuid::Generate();
      builder = std::make_unique<TableBuilder>(TableOptionsAt(0), uuid, services_->store->StartTable(uuid));
      builder->Reserve(options_.compaction.table_size_bytes);
    }
    builder->Add(internal_key, value);
    last_key.assign(key.stored_key);
  }
  Status s = sorted->state() == Iterator::State::kError ? sorted->status() : OkStatus();
  if (s.ok() && builder != nullptr) s = finish();
  if (!s.ok()) return give_up(s);
  if (entries > 0 && progress) progress(entries, kept_bytes);
  return edit;
}

// --- the one way a version changes: durable edit, then publish, then let go of the inputs (M2)

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
  if (next->tombstones() != nullptr) {  // K7; the snapshots are asked for when the tombstones are in hand: later ones see them all
    VersionEdit needless;
    needless.dropped_tombstones = next->NeedlessTombstones(snapshots_.Live(Now()));
    NOVA_ASSIGN_OR_RETURN(next, next->Apply(needless, services_->garbage));
    edit.dropped_tombstones.insert(edit.dropped_tombstones.end(), needless.dropped_tombstones.begin(), needless.dropped_tombstones.end());
  }
  if (edit.now_ms > published_now_ms_.load()) published_now_ms_.store(edit.now_ms);  // K7: before what had expired is gone
  if (sequences_.last() + kSequenceReserve / 2 > seq_reserved_) {
    seq_reserved_ = edit.seq_reserved = sequences_.last() + kSequenceReserve;
  }
  // What replay must skip: everything below the oldest round that is left.
  MemTableId done_below = view->active->siblings[0]->id();
  for (const auto& r : view->sealed) {
    const bool done = flushed != nullptr && std::find(flushed->begin(), flushed->end(), r) != flushed->end();
    if (!done) done_below = std::min(done_below, r->sources[0].memtables[0]);
  }
  const Status s = manifest_.Append(edit, [&] {
    manifest_mu_.AssertHeld();
    return SnapshotOf(*next, done_below);
  });
  if (absl::IsFailedPrecondition(s)) Lose(s);
  NOVA_RETURN_IF_ERROR(s);
  // An edit that failed may be durable all the same, until a later one is in its place.
  for (const TableInfo& t : given_up_) services_->garbage(t);
  given_up_.clear();
  NOVA_FP_VOID("edit.appended");  // it is durable: to fail now would deny what is so
  std::vector<TableRef> left_out;
  if (!edit.drops.empty() || !edit.pins.empty() || !edit.unpins.empty()) left_out = LeftOut(*view->version, *next);
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

// --- flush

bool Range::NeedsFlush() const {
  const auto view = CurrentView();
  return !view->sealed.empty() && view->sealed.back()->pins.load() == 0 && state_.load() != State::kLost;
}

bool Range::FlushedUpTo(SequenceNumber seq) const {
  const auto view = CurrentView();
  const Round& oldest = view->sealed.empty() ? *view->active : *view->sealed.back();
  return oldest.number > seq || (view->sealed.empty() && oldest.entries() == 0 && oldest.pins.load() == 0);
}

// The oldest round that nobody writes yet; where flushes are better one after another, when the group before it is written. Those
// behind it go with it, as one run, where rounds hold the same keys again and again: what they share is written once; and where
// compactions are behind: fewer and larger runs put off when writers have to wait for them. A round with a checkpoint is the last of a
// group: that has nothing of younger ones. Empty: none is ready.
Range::RoundGroup Range::ClaimRounds() {
  constexpr double kShared = 0.75;
  RoundGroup rounds;
  if (state_.load() == State::kLost) return rounds;
  MutexLock lock(&mu_);  // a checkpoint is attached to the youngest round there is: of a group that is claimed, to the last
  const bool shared = flush_kept_.load() < kShared;
  const bool together = shared || view_->version->Level0Runs() * 2 >= options_.level0_slow_runs;
  // Where rounds are merged in memory, a smaller group leaves more of them to be younger ones.
  const int most = together ? std::max(1, (MayMerge() ? options_.max_rounds * 3 / 8 : options_.max_rounds / 2)) : 1;
  const auto& sealed = view_->sealed;
  double share = 0;
  auto round = sealed.rbegin();
  while (round != sealed.rend() && (*round)->flushing.load()) ++round;
  if (round != sealed.rbegin()) {
    if (flush_alone_.load()) return rounds;
    // A larger group comes together while another one is written.
    double waiting = 0;
    for (auto r = round; r != sealed.rend(); ++r) waiting += (*r)->share;
    if (shared && waiting < (options_.max_rounds - 1) / 2) return rounds;
  }
  for (; round != sealed.rend() && (*round)->pins.load() == 0 && !(*round)->merging; ++round) {
    share += (*round)->share;
    if (share > most && !rounds.empty()) break;
    if ((*round)->flushing.exchange(true)) break;  // it is another group's, and what was before it has failed once
    rounds.push_back(*round);
    if (!(*round)->checkpoints.empty()) break;
  }
  return rounds;
}

bool Range::Younger::Replaces(const ParsedInternalKey& key) {
  constexpr uint32_t kInARow = 256, kLeast = kInARow / 8, kMostPause = 16 * kInARow;
  if (rounds_.empty()) return false;
  if (left_ > 0) {
    --left_;
    return false;
  }
  const bool replaced = Holds(key);
  replaced_ += replaced;
  found_ += replaced;
  if (++asked_ == kInARow) {
    left_ = pause_ = found_ >= kLeast ? 0 : std::clamp(2 * pause_, kInARow, kMostPause);
    asked_ = found_ = 0;
  }
  return replaced;
}

bool Range::Younger::Holds(const ParsedInternalKey& key) const {
  const auto snapshot = std::lower_bound(snapshots_.begin(), snapshots_.end(), key.sequence);
  const SequenceNumber seen = snapshot == snapshots_.end() ? upto_ : std::min(upto_, *snapshot);  // by whoever sees this one
  const uint64_t hash = FilterHash(key.stored_key);
  MemTable::Hit hit;
  return std::any_of(rounds_.begin(), rounds_.end(),
                     [&](const auto& round) { return round->SiblingOf(key.stored_key)->Get(key.stored_key, hash, seen, &hit); });
}

// A version that is at or below stable_seq (K4) in a younger round hides an older one from whoever reads from now on, and its log outlives
// this flush. Not asked are rounds that a loss of power may take while a sync promised the older version.
void Range::LookForYounger(const RoundGroup& rounds, Younger* younger) {
  const SequenceNumber floor = sequences_.stable();  // before the snapshots: those that come later are above it
  std::vector<SequenceNumber> snapshots = snapshots_.Live(Now());
  MutexLock lock(&mu_);
  whole_upto_.erase(whole_upto_.begin(), whole_upto_.lower_bound(view_->sealed.back()->number));
  const auto whole = whole_upto_.lower_bound(rounds.front()->number);
  const SequenceNumber upto = whole == whole_upto_.end() ? floor : std::min(floor, *whole);
  RoundGroup found;
  const auto add = [&](const std::shared_ptr<Round>& round) {
    if (round->number > rounds.back()->number && round->number <= upto && !round->unsynced.load()) found.push_back(round);
  };
  add(view_->active);
  for (const auto& round : view_->sealed) add(round);
  younger->Set(std::move(found), upto, std::move(snapshots));
}

bool Range::FlushOne() {
  if (options_.merge_rounds == MergeRounds::kAlways && MergeSealed()) return true;
  const RoundGroup rounds = ClaimRounds();
  if (rounds.empty()) return CommitFlushes() || (MayMerge() && MergeSealed());
  Job job(this);
  const Nanos begin = Now(), busy = ThreadBusy();
  UpdatePressure();
  std::vector<std::unique_ptr<Iterator>> children;
  uint64_t written_bytes = 0, written_entries = 0, entries = 0, tombstones = 0;
  for (const auto& round : rounds) {
    written_bytes += round->written_bytes();
    written_entries += round->written_entries();
    entries += round->entries();
    tombstones += round->tombstones.load();
    for (const auto& m : round->siblings) children.push_back(m->NewIterator(round));
  }
  const auto merged = NewMergingIterator(std::move(children));
  const DropRules rules = RulesOfFlush(rounds);
  // Now and then all that is written by now has to get into tables: a key that is never left alone would never be in one.
  if (Nanos due = whole_again_ns_.load(); begin >= due && whole_again_ns_.compare_exchange_strong(due, begin + options_.table_lag_ns)) BeginFlush();
  Younger younger;
  LookForYounger(rounds, &younger);
  auto edit = WriteLevel0(job.id(), merged.get(), rounds.back()->number, rules, &younger, [&](uint64_t passed, uint64_t kept_bytes) {
    controller_.OnFlushed(written_bytes / entries * passed, Now());
    GrantCompaction(kept_bytes);
    LookForYounger(rounds, &younger);
  });
  const bool waited = (ThreadBusy() - busy) * 3 < Now() - begin;  // for the disk, most of the time
  if (!edit.ok()) {
    for (const auto& round : rounds) round->flushing.store(false);
    BackgroundFailed("flush", edit.status(), &flush_failure_);
    return false;
  }
  uint64_t kept = younger.replaced();
  for (const VersionEdit::Add& add : edit->adds) kept += add.table.entries;
  // Side by side they would hold rounds that are younger ones if they wait for their turn.
  const double replaced = static_cast<double>(younger.replaced()) / static_cast<double>(std::max<uint64_t>(kept, 1));
  flush_replaced_.store((flush_replaced_.load() + replaced) / 2);
  flush_alone_.store(services_->one_disk && waited && flush_replaced_.load() >= 1.0 / 16);
  flush_kept_.store(static_cast<double>(kept) / static_cast<double>(std::max<uint64_t>(written_entries, 1)));
  for (const auto& round : rounds) {
    for (const auto& source : round->sources) edit->done.insert(edit->done.end(), source.memtables.begin(), source.memtables.end());  // M3
  }
  if (tombstones > 0) {
    for (const RangeTombstoneRef& t : rules.tombstones->all()) {
      if (t->sequence >= rounds.front()->number) edit->tombstones.push_back(t);
    }
  }
  {
    MutexLock lock(&flush_mu_);
    rounds.front()->flushed = {*std::move(edit), rounds.size(), job.Keep()};
  }
  CommitFlushes();
  return true;
}

// K3b: rounds are written side by side, and reach Level0 in order. False: the oldest one is not written yet, or its edit failed.
bool Range::CommitFlushes() {
  MutexLock lock(&flush_mu_);
  bool any = false;
  for (;;) {
    const auto view = CurrentView();
    if (view->sealed.empty() || !view->sealed.back()->flushed) return any;
    const Round::Flushed& flushed = *view->sealed.back()->flushed;
    const auto oldest = view->sealed.rbegin();
    const RoundGroup rounds(oldest, oldest + static_cast<ptrdiff_t>(flushed.rounds));
    Status s = NOVA_FP_STATUS("flush.written");
    if (s.ok()) s = CommitEdit(flushed.edit, &rounds);
    if (!s.ok()) {
      BackgroundFailed("flush", s, &flush_failure_);
      return false;
    }
    flush_failure_.store(Outcome::kOk);
    Job::End(this, flushed.job);
    NOVA_FP_VOID("flush.committed");
    for (const auto& round : rounds) {
      for (const auto& source : round->sources) {
        if (log_ != nullptr) log_->DeleteRound(source.number);
      }
    }
    services_->work(id_);
    any = true;
  }
}

// Writers wait for memory, and memory for a flush; a compaction has time until writers would be slowed down for its sake (Luo &
// Carey: flushes first). What it puts off it does at less cost: more runs in one merge.
bool Range::FlushIsBehind() const {
  // A flush that fails may fail for want of the space that a compaction frees.
  if (state_.load(std::memory_order_relaxed) != State::kActive || flush_failure_.load() != Outcome::kOk) return false;
  const auto view = CurrentView();
  return view->sealed_share * 2 >= options_.max_rounds && view->sealed.back()->flushing.load();
}

// What a flush has written gives compactions a part of the disk's time beside it: the larger, the more runs Level0 has. On its own a
// compaction, whose reads are large, would leave a flush a fifth.
void Range::GrantCompaction(uint64_t flushed_bytes) {
  constexpr double kAtSlow = 0.5, kAtStop = 3;  // bytes that are moved for one that is flushed
  constexpr int64_t kMost = 16 << 20;
  const double over = std::clamp(Level0Excess(*CurrentView()), 0.0, 4.0);
  const auto grant = static_cast<int64_t>(static_cast<double>(flushed_bytes) * kAtSlow * std::pow(kAtStop / kAtSlow, over));
  if (compaction_grant_.fetch_add(grant) + grant > kMost) compaction_grant_.store(kMost);
}

// Before a compaction reads so much: it waits for its part, but for no flush that stands still.
void Range::LetFlushGoFirst(uint64_t bytes) {
  constexpr Nanos kLongest = 500 * kMillisecond;
  const Nanos begin = Now();
  while (FlushIsBehind()) {
    if (CurrentView()->version->Level0Runs() >= options_.level0_slow_runs) {
      if (compaction_grant_.load() > 0) {
        compaction_grant_.fetch_sub(static_cast<int64_t>(2 * bytes));  // read here, and written later
        return;
      }
      if (Now() - begin >= kLongest) return;
    }
    SleepFor(5 * kMillisecond);
  }
}

TableOptions Range::TableOptionsAt(int level) const {
  TableOptions o = options_.table;
  const auto& list = options_.compression;
  o.compression = list.empty() ? Compression::kNone : list[std::min(static_cast<size_t>(level), list.size() - 1)];
  return o;
}

void Range::BackgroundFailed(const char* what, const Status& s, std::atomic<Outcome>* failure) {
  failure->store(absl::IsResourceExhausted(s) ? Outcome::kNoSpace : Outcome::kUnavailable);
  if (absl::IsFailedPrecondition(s)) Lose(s);
  if (state_.load() == State::kLost) return;
  // It is tried ten times a second for as long as the cause lasts.
  const uint64_t failures = failures_.fetch_add(1) + 1;
  Nanos due = warn_again_ns_.load();
  if (Now() < due || !warn_again_ns_.compare_exchange_strong(due, Now() + kWarnPeriod)) return;
  NOVA_LOG(WARNING) << "range " << id_.value() << ": " << what << " failed, will retry (failures so far: " << failures << "): " << s;
}

Status Range::FlushAll(Nanos deadline_ns) {
  while (Now() < deadline_ns) {
    if (state_.load() == State::kLost) return absl::FailedPreconditionError("the range was lost");
    {
      MutexLock lock(&mu_);
      const Round& active = *view_->active;
      if (active.pins.load() == 0 && active.entries() == 0 && view_->sealed.empty()) return OkStatus();
      if (active.pins.load() == 0) SealLocked();
    }
    if (!FlushOne()) SleepFor(5 * kMillisecond);
  }
  return absl::DeadlineExceededError(StrCat("range ", id_.value(), ": flush did not end in time"));
}

// --- compaction

// A plan in parts: ranges of keys that threads compact side by side. One edit in the end.
struct Range::PlanRun {
  CompactionPlan plan;
  std::vector<TableRef> read;       // its tables but those that are hidden as a whole (K7)
  int level0_runs = 0;              // that Level0 will have less
  uint64_t bytes = 0;               // of `read`
  std::atomic<uint64_t> read_bytes{0};
  std::vector<CompactionJob> jobs;  // one a part, by key
  std::atomic<size_t> next{0};
  std::atomic<bool> failed{false};
  Mutex mu;
  CondVar ended;
  size_t running ABSL_GUARDED_BY(mu) = 0;
  Status status ABSL_GUARDED_BY(mu);
  std::vector<TableInfo> written ABSL_GUARDED_BY(mu);
  bool edit_tried = false;
  std::vector<std::vector<VersionEdit::Add>> outputs ABSL_GUARDED_BY(mu);  // [i] of part i
};

// Tables of a job, read and written through the range's services. Outputs keep their readers: their metadata is in hand.
class Range::JobStorage : public TableStorage {
 public:
  JobStorage(Range* range, PlanRun* run, const Creator& creator) : range_(range), run_(run), creator_(creator) {
    for (const auto* side : {&run->plan.inputs, &run->plan.overlaps}) {
      for (const TableRef& t : *side) inputs_[t->info().uuid] = t;
    }
  }
  StatusOr<std::shared_ptr<const TableReader>> OpenTable(const TableInfo& info) override {
    return range_->LoadReaderBlocking(inputs_.at(info.uuid).get());
  }
  StatusOr<std::string> ReadBlocks(const TableInfo& info, std::span<const BlockHandle> blocks) override {
    uint64_t bytes = 0;
    for (const BlockHandle& b : blocks) bytes += b.size;
    range_->LetFlushGoFirst(bytes);
    auto data = range_->services_->store->ReadBlocks(info, blocks);
    run_->read_bytes.fetch_add(bytes);
    range_->CreditLevel0(*run_);
    return data;
  }
  std::unique_ptr<TableSink> StartTable(const Uuid& table) override { return range_->services_->store->StartTable(table); }
  StatusOr<TableInfo> WriteTable(TableBuilder::Output output) override {
    std::shared_ptr<const TableReader> reader;
    NOVA_ASSIGN_OR_RETURN(TableInfo info, range_->StoreTable(std::move(output), creator_, &reader));
    readers_[info.uuid] = std::move(reader);
    MutexLock lock(&run_->mu);
    run_->written.push_back(info);
    if (run_->written.size() > range_->tables_at_failure_.load()) range_->compaction_failure_.store(Outcome::kOk);  // there is room again
    return info;
  }
  std::shared_ptr<const TableReader> TakeReader(const Uuid& uuid) { return std::move(readers_[uuid]); }

 private:
  Range* const range_;
  PlanRun* const run_;
  const Creator creator_;
  std::map<Uuid, TableRef> inputs_;
  std::map<Uuid, std::shared_ptr<const TableReader>> readers_;
};

// Runs that a job has read half of are half gone: or else writers would be slowed down more and more until the end of a long one, and
// not at all after it.
void Range::CreditLevel0(const PlanRun& run) {
  if (run.level0_runs == 0) return;
  const double part = static_cast<double>(run.read_bytes.load()) / static_cast<double>(std::max<uint64_t>(run.bytes, 1));
  level0_credit_.store(run.level0_runs * std::min(part, 1.0));
  UpdatePressure();
}

bool Range::NeedsCompaction() {
  const auto view = CurrentView();
  const auto scores = CompactionScores(*view->version, options_.compaction);
  if (std::any_of(scores.begin(), scores.end(), [](double s) { return s >= 1; }) || HoldsHidden(*view)) return true;
  MutexLock lock(&picker_mu_);
  return std::any_of(leaving_.begin(), leaving_.end(), [&](const auto& stoc) { return CountOn(*view->version, stoc.first) > 0; });
}

void Range::LeaveStocs(const std::vector<StocId>& stocs) {
  MutexLock lock(&picker_mu_);
  std::map<StocId, uint64_t> leaving;
  for (const StocId stoc : stocs) {
    const auto known = leaving_.find(stoc);
    leaving[stoc] = known == leaving_.end() ? next_job_ : known->second;
  }
  leaving_ = std::move(leaving);
}

uint64_t Range::TablesLeft(StocId stoc) {
  uint64_t earlier = 1;  // LeaveStocs was not called yet
  {
    MutexLock lock(&picker_mu_);
    const auto leaving = leaving_.find(stoc);
    if (leaving != leaving_.end()) {
      earlier = static_cast<uint64_t>(std::distance(jobs_.begin(), jobs_.lower_bound(leaving->second)));
    }
  }
  return earlier + CountOn(*CurrentView()->version, stoc);  // in this order: a job that ends in between is counted
}

Status Range::RollManifest() {
  {
    MutexLock lock(&manifest_mu_);
    manifest_.RollNext();
  }
  return CommitEdit({});
}

bool Range::CompactOne() {
  if (state_.load() == State::kLost) return false;
  std::shared_ptr<PlanRun> run;
  {
    MutexLock lock(&picker_mu_);
    std::erase_if(open_runs_, [](const auto& r) { return r->next.load() >= r->jobs.size(); });
    if (!open_runs_.empty()) run = open_runs_.front();
  }
  if (run != nullptr) return RunParts(run.get());
  if (FlushIsBehind() && CurrentView()->version->Level0Runs() < options_.level0_slow_runs) return false;
  const Job job(this);
  run = std::make_shared<PlanRun>();
  {
    MutexLock lock(&picker_mu_);
    if (compactions_paused_) return false;
    const auto view = CurrentView();
    const auto version = view->version;
    auto plan = PickCompaction(*version, options_.compaction, &compaction_state_);
    if (!plan && version->tombstones() != nullptr) plan = PickHidden(*version, RulesOf(*view).tombstones_applied, &compaction_state_);
    if (!plan && !leaving_.empty()) {
      std::vector<StocId> stocs;
      for (const auto& [stoc, first_job] : leaving_) stocs.push_back(stoc);
      plan = PickMove(*version, stocs, &compaction_state_);
    }
    if (!plan) return false;
    run->plan = *std::move(plan);
  }
  const Status s = RunPlan(job.id(), run);
  {
    MutexLock lock(&picker_mu_);
    std::erase(open_runs_, run);
    for (const auto* side : {&run->plan.inputs, &run->plan.overlaps}) {
      for (const TableRef& t : *side) compaction_state_.busy.erase(t->info().uuid);
    }
  }
  if (!s.ok()) {
    GiveUp(run.get());
    BackgroundFailed("compaction", s, &compaction_failure_);
    UpdatePressure();  // what Level0 was credited with is there again
    return false;
  }
  compaction_failure_.store(Outcome::kOk);
  services_->work(id_);
  return true;
}

// What a plan that failed has written.
void Range::GiveUp(PlanRun* run) {
  std::vector<TableInfo> written;
  {
    MutexLock lock(&run->mu);
    written.swap(run->written);
  }
  tables_at_failure_.store(written.size());
  if (run->edit_tried) {
    MutexLock lock(&manifest_mu_);
    given_up_.insert(given_up_.end(), written.begin(), written.end());
  } else {
    for (const TableInfo& t : written) services_->garbage(t);
  }
}

Status Range::RunPlan(uint64_t job_id, const std::shared_ptr<PlanRun>& run) {
  const CompactionPlan& plan = run->plan;
  VersionEdit edit;
  for (const auto* side : {&plan.inputs, &plan.overlaps}) {
    for (const TableRef& t : *side) edit.drops.push_back(t->info().uuid);
  }
  if (plan.drop_only) return CommitEdit(std::move(edit));
  DropRules rules = RulesOf(*CurrentView());
  if (plan.move) rules.tombstones = nullptr;  // younger than its checkpoint, perhaps
  for (const auto* side : {&plan.inputs, &plan.overlaps}) {
    for (const TableRef& t : *side) {
      if (rules.tombstones == nullptr || !IsHidden(t->info(), *rules.tombstones, rules.tombstones_applied)) run->read.push_back(t);
    }
  }
  if (run->read.empty()) return CommitEdit(std::move(edit));
  if (plan.trivial_move) {
    const TableRef& t = plan.inputs[0];
    edit.adds.push_back({plan.output_level, 0, t->info(), t->reader()});
    return CommitEdit(std::move(edit));
  }
  if (plan.level == 0) {  // K3c: rounds flush in order, so none that is left in memory is as old as an input
    const auto view = CurrentView();
    const RoundNumber oldest = view->sealed.empty() ? view->active->number : view->sealed.back()->number;
    for (const Run& r : view->version->runs()) {
      NOVA_CHECK(r.level != 0 || r.order < oldest) << "a Level0 run as young as a memtable (K3)";
      if (r.level == 0 && std::find(plan.inputs.begin(), plan.inputs.end(), r.tables[0]) != plan.inputs.end()) ++run->level0_runs;
    }
    if (plan.output_level == 0 && run->level0_runs > 0) --run->level0_runs;
  }
  NOVA_RETURN_IF_ERROR(PlanParts(job_id, rules, run.get()));
  if (run->jobs.size() > 1) {
    {
      MutexLock lock(&picker_mu_);
      open_runs_.push_back(run);
    }
    services_->work(id_);
  }
  RunParts(run.get());
  MutexLock lock(&run->mu);
  while (run->running > 0) run->ended.Wait(&run->mu);
  if (run->level0_runs > 0) level0_credit_.store(0);
  NOVA_RETURN_IF_ERROR(run->status);
  for (auto& part : run->outputs) std::move(part.begin(), part.end(), std::back_inserter(edit.adds));
  run->edit_tried = true;
  if (plan.move) return CommitMove(plan.inputs[0]->info().uuid, std::move(edit.adds));
  edit.now_ms = run->jobs[0].now_ms;
  NOVA_FP("compaction.written");
  NOVA_RETURN_IF_ERROR(CommitEdit(std::move(edit)));
  NOVA_FP_VOID("compaction.committed");
  return OkStatus();
}

// The jobs of a plan: cut where its tables' blocks say that about equal parts of the bytes lie on each side.
Status Range::PlanParts(uint64_t job_id, const DropRules& rules, PlanRun* run) {
  constexpr size_t kSamples = 16;      // of one table
  constexpr uint64_t kMostGrowth = 8;  // beyond it the last output is larger
  const CompactionPlan& plan = run->plan;
  CompactionJob job;
  job.range = id_;
  job.epoch = epoch_;
  job.job_id = job_id;
  job.floor = rules.floor;
  job.bottom = plan.bottom;
  job.snapshots = rules.snapshots;
  job.now_ms = rules.now_ms;
  job.range_tombstones = rules.tombstones;
  job.tombstones_applied = rules.tombstones_applied;
  job.max_table_size_bytes = options_.compaction.table_size_bytes;
  job.table_options = TableOptionsAt(plan.output_level);
  uint64_t bytes = 0, most_bytes = 0;  // most: as they may grow, outputs may be compressed less
  std::vector<std::pair<std::string, uint64_t>> samples;  // stored key, bytes behind it
  for (const TableRef& t : run->read) {
    job.inputs.push_back(t->info());
    const uint64_t used = UsedBytes(t->info());
    bytes += used;
    most_bytes += used * (t->info().compression == 0 ? 1 : kMostGrowth);
    NOVA_ASSIGN_OR_RETURN(const auto reader, LoadReaderBlocking(t.get()));
    for (std::string& key : reader->SplitKeys(kSamples)) samples.emplace_back(std::move(key), used / kSamples);
  }
  run->bytes = bytes;
  std::sort(samples.begin(), samples.end());
  const auto parts = static_cast<size_t>(std::clamp<uint64_t>(bytes / options_.compaction.table_size_bytes, 1,
                                                              static_cast<uint64_t>(options_.compaction.max_parts)));
  std::vector<std::string> cuts;
  uint64_t before = 0;
  for (const auto& [key, size] : samples) {
    if (before >= bytes / parts * (cuts.size() + 1) && cuts.size() + 1 < parts && (cuts.empty() || key > cuts.back())) cuts.push_back(key);
    before += size;
  }
  for (size_t i = 0; i <= cuts.size(); ++i) {
    job.from = i == 0 ? "" : cuts[i - 1];
    job.to = i == cuts.size() ? "" : cuts[i];
    // Outputs end at key boundaries past the size, so there are at most this many; versions dropped only make it fewer.
    job.output_uuids.clear();
    for (uint64_t n = 0; n < most_bytes / options_.compaction.table_size_bytes * 2 + job.inputs.size() + 2; ++n) {
      job.output_uuids.push_back(Uuid::Generate());
    }
    run->jobs.push_back(job);
  }
  MutexLock lock(&run->mu);
  run->outputs.resize(run->jobs.size());
  return OkStatus();
}

// Takes parts until none is left. False: there was none.
bool Range::RunParts(PlanRun* run) {
  bool any = false;
  for (;;) {
    {
      MutexLock lock(&run->mu);
      ++run->running;  // before a part is taken: the owner waits for whoever may have one
    }
    const size_t i = run->next.fetch_add(1);
    Status s = OkStatus();
    std::vector<VersionEdit::Add> adds;
    if (i < run->jobs.size() && !run->failed.load()) {
      any = true;
      const CompactionJob& job = run->jobs[i];
      JobStorage storage(this, run, {id_, epoch_, job.job_id});
      auto result = RunCompaction(job, &storage, [&] { return run->failed.load() || state_.load() == State::kLost; });
      s = result.status();
      if (s.ok()) {
        for (TableInfo& table : result->outputs) {
          auto reader = storage.TakeReader(table.uuid);
          adds.push_back({run->plan.output_level, run->plan.output_order, std::move(table), std::move(reader)});
        }
      }
    }
    MutexLock lock(&run->mu);
    if (i < run->jobs.size()) run->outputs[i] = std::move(adds);
    if (!s.ok() && run->status.ok()) {
      run->status = s;
      run->failed.store(true);
    }
    if (--run->running == 0) run->ended.SignalAll();
    if (i >= run->jobs.size()) return any;
  }
}

}  // namespace nova
