// Flushes of a Range: sealed rounds become runs of Level0, in order (K3b).
#include <algorithm>
#include <cmath>
#include <numeric>

#include "common/base/failpoint.h"
#include "common/sstable/compaction_job.h"
#include "ltc/engine/range_view.h"

namespace nova {

bool Range::NeedsFlush() const {
  const auto view = CurrentView();
  return !view->sealed.empty() && view->sealed.back()->pins.load() == 0 && state_.load() != State::kLost;
}

bool Range::FlushedUpTo(SequenceNumber seq) const {
  const auto view = CurrentView();
  const Round& oldest = view->sealed.empty() ? *view->active : *view->sealed.back();
  return oldest.number > seq || (view->sealed.empty() && oldest.entries() == 0 && oldest.pins.load() == 0);
}

// The last flush left out a quarter of its entries, or more: the same keys in another of its rounds had
// replaced them.
bool Range::RoundsShareKeys() const { return flush_kept_.load() < 0.75; }

// Writers take longer to fill the memory that is left than flushes to write `rounds`.
bool Range::MemoryLasts(double rounds) const {
  const auto left = static_cast<double>(services_->memtable_limit_bytes) -
                    static_cast<double>(services_->arenas->bytes_used());
  const double room =
      std::min(options_.max_rounds - 1 - view_->sealed_share, left / static_cast<double>(RoundBytes()));
  return room * static_cast<double>(fill_ns_) >= rounds * static_cast<double>(flush_round_ns_.load());
}

// Rounds from `first` on, which no flush has and which hold the memory of `waiting` full ones, are better
// written later.
bool Range::FlushLater(RoundGroup::const_reverse_iterator first, double waiting, bool memory_lasts) const {
  const int room = options_.max_rounds - 1;  // for sealed rounds
  const bool others_are_written = first != view_->sealed.rbegin();
  if (others_are_written && flush_alone_.load()) return true;
  // a larger group comes together
  if (others_are_written && RoundsShareKeys() && waiting < room / 2) return true;
  if (!memory_lasts || waiting * 2 >= room) return false;
  return std::none_of(first, view_->sealed.rend(), [this, now = Now()](const auto& round) {
    const bool asked_for = round->number <= flush_asked_,
               due = now - round->sealed_ns >= options_.table_lag_ns;
    return asked_for || due || round->tombstones.load() > 0 || !round->checkpoints.empty();
  });
}

// The oldest round that nobody writes yet, if it is time. Those behind it go with it, as one run, where
// rounds hold the same keys again and again: what they share is written once; where they were held back; and
// where compactions are behind: fewer and larger runs put off when writers have to wait for them. A round
// with a checkpoint is the last of a group: that has nothing of younger ones. Empty: none is ready.
Range::RoundGroup Range::ClaimRounds() {
  RoundGroup rounds;
  if (state_.load() == State::kLost) return rounds;
  // a checkpoint is attached to the youngest round there is: of a group that is claimed, to the last
  MutexLock lock(&mu_);
  const auto& sealed = view_->sealed;
  const auto first =
      std::find_if(sealed.rbegin(), sealed.rend(), [](const auto& round) { return !round->flushing.load(); });
  const double waiting = std::accumulate(first, sealed.rend(), 0.0,
                                         [](double sum, const auto& round) { return sum + round->share; });
  const bool held = MayHold() && MemoryLasts(waiting);
  if (FlushLater(first, waiting, held)) return rounds;
  int most = 1;
  if (RoundsShareKeys() || held || view_->version->Level0Runs() * 2 >= options_.level0_slow_runs) {
    // Where rounds are merged in memory, a smaller group leaves more of them to be younger ones.
    most =
        std::max(1, MayHold() && flush_alone_.load() ? options_.max_rounds * 3 / 8 : options_.max_rounds / 2);
  }
  double share = 0;
  for (auto round = first; round != sealed.rend() && (*round)->pins.load() == 0 && !(*round)->merging;
       ++round) {
    share += (*round)->share;
    if (share > most && !rounds.empty()) break;
    // it is another group's, and what was before it has failed once
    if ((*round)->flushing.exchange(true)) break;
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
  // by whoever sees this one
  const SequenceNumber seen = snapshot == snapshots_.end() ? upto_ : std::min(upto_, *snapshot);
  const uint64_t hash = FilterHash(key.stored_key);
  MemTable::Hit hit;
  return std::any_of(rounds_.begin(), rounds_.end(), [&](const auto& round) {
    return round->SiblingOf(key.stored_key)->Get(key.stored_key, hash, seen, &hit);
  });
}

// A version that is at or below stable_seq (K4) in a younger round hides an older one from whoever reads from
// now on, and its log outlives this flush. Not asked are rounds that a loss of power may take while a sync
// promised the older version.
void Range::LookForYounger(const RoundGroup& rounds, Younger* younger) {
  // before the snapshots: those that come later are above it
  const SequenceNumber floor = sequences_.stable();
  std::vector<SequenceNumber> snapshots = snapshots_.Live(Now());
  MutexLock lock(&mu_);
  whole_upto_.erase(whole_upto_.begin(), whole_upto_.lower_bound(view_->sealed.back()->number));
  const auto whole = whole_upto_.lower_bound(rounds.front()->number);
  const SequenceNumber upto = whole == whole_upto_.end() ? floor : std::min(floor, *whole);
  RoundGroup found;
  const auto add = [&](const std::shared_ptr<Round>& round) {
    if (round->number > rounds.back()->number && round->number <= upto && !round->unsynced.load())
      found.push_back(round);
  };
  add(view_->active);
  for (const auto& round : view_->sealed) add(round);
  younger->Set(std::move(found), upto, std::move(snapshots));
}

StatusOr<VersionEdit> Range::WriteLevel0(uint64_t job, Iterator* sorted, RoundNumber order,
                                         const DropRules& rules, Younger* younger,
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
    if (!ParseInternalKey(internal_key, &key))
      return give_up(absl::InternalError("memtable holds a malformed key"));
    if (!filter.Keep(key, value) || younger->Replaces(key)) continue;
    kept_bytes += internal_key.size() + value.size();
    // Versions of one key stay in one table, so that tables of a run never overlap.
    if (builder != nullptr && builder->data_size() >= options_.compaction.table_size_bytes &&
        key.stored_key != last_key) {
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

bool Range::FlushOne() {
  if (options_.merge_rounds == MergeRounds::kAlways && MergeSealed()) return true;
  const RoundGroup rounds = ClaimRounds();
  if (rounds.empty()) return CommitFlushes() || (MayHold() && MergeSealed());
  Job job(this);
  const Nanos begin = Now(), busy = ThreadBusy();
  UpdatePressure();
  std::vector<std::unique_ptr<Iterator>> children;
  uint64_t written_bytes = 0, written_entries = 0, entries = 0, tombstones = 0;
  double share = 0;
  for (const auto& round : rounds) {
    share += round->share;
    written_bytes += round->written_bytes();
    written_entries += round->written_entries();
    entries += round->entries();
    tombstones += round->tombstones.load();
    for (const auto& m : round->siblings) children.push_back(m->NewIterator(round));
  }
  const auto merged = NewMergingIterator(std::move(children));
  const DropRules rules = RulesOfFlush(rounds);
  // Now and then all that is written by now has to get into tables: a key that is never left alone would
  // never be in one.
  if (Nanos due = whole_again_ns_.load();
      begin >= due && whole_again_ns_.compare_exchange_strong(due, begin + options_.table_lag_ns)) {
    MutexLock lock(&mu_);
    ReplaceNoneLocked();
  }
  Younger younger;
  LookForYounger(rounds, &younger);
  auto edit = WriteLevel0(job.id(), merged.get(), rounds.back()->number, rules, &younger,
                          [&](uint64_t passed, uint64_t kept_bytes) {
                            controller_.OnFlushed(written_bytes / entries * passed, Now());
                            GrantCompaction(kept_bytes);
                            LetReadsHaveTurns();
                            LookForYounger(rounds, &younger);
                          });
  const Nanos took = Now() - begin;
  if (!edit.ok()) {
    for (const auto& round : rounds) round->flushing.store(false);
    BackgroundFailed("flush", edit.status(), &flush_failure_);
    return false;
  }
  uint64_t kept = younger.replaced();
  for (const VersionEdit::Add& add : edit->adds) kept += add.table.entries;
  // Side by side they would hold rounds that are younger ones if they wait for their turn.
  const double replaced =
      static_cast<double>(younger.replaced()) / static_cast<double>(std::max<uint64_t>(kept, 1));
  flush_replaced_.store((flush_replaced_.load() + replaced) / 2);
  flush_waits_.store(services_->one_disk && (ThreadBusy() - busy) * 3 < took);
  flush_alone_.store(flush_waits_.load() && flush_replaced_.load() >= 1.0 / 16);
  flush_round_ns_.store(static_cast<Nanos>(static_cast<double>(took) / std::max(share, 0.01)));
  flush_kept_.store(static_cast<double>(kept) / static_cast<double>(std::max<uint64_t>(written_entries, 1)));
  for (const auto& round : rounds) {
    // M3
    for (const auto& source : round->sources)
      edit->done.insert(edit->done.end(), source.memtables.begin(), source.memtables.end());
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

// K3b: rounds are written side by side, and reach Level0 in order. False: the oldest one is not written yet,
// or its edit failed.
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
    flush_failure_.OnDone();
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

// Writers wait for memory, and memory for a flush; a compaction has time until writers would be slowed down
// for its sake (Luo &
// Carey: flushes first). What it puts off it does at less cost: more runs in one merge.
bool Range::FlushIsBehind() const {
  // A flush that fails may fail for want of the space that a compaction frees.
  if (state_.load(std::memory_order_relaxed) != State::kActive || flush_failure_.outcome() != Outcome::kOk)
    return false;
  const auto view = CurrentView();
  return view->sealed_share * 2 >= options_.max_rounds && view->sealed.back()->flushing.load();
}

// What a flush has written gives compactions a part of the disk's time beside it: the larger, the more runs
// Level0 has. On its own a compaction, whose reads are large, would leave a flush a fifth.
void Range::GrantCompaction(uint64_t flushed_bytes) {
  constexpr double kAtSlow = 0.5, kAtStop = 3;  // bytes that are moved for one that is flushed
  constexpr int64_t kMost = 16 << 20;
  const double over = std::clamp(Level0Excess(*CurrentView()), 0.0, 4.0);
  const auto grant =
      static_cast<int64_t>(static_cast<double>(flushed_bytes) * kAtSlow * std::pow(kAtStop / kAtSlow, over));
  if (compaction_grant_.fetch_add(grant) + grant > kMost) compaction_grant_.store(kMost);
}

Status Range::FlushAll(Nanos deadline_ns, bool give_up) {
  const Nanos begin = Now();
  while (Now() < deadline_ns) {
    if (state_.load() == State::kLost) return absl::FailedPreconditionError("the range was lost");
    {
      MutexLock lock(&mu_);
      const Round& active = *view_->active;
      if (active.pins.load() == 0 && active.entries() == 0 && view_->sealed.empty()) return OkStatus();
      if (active.pins.load() == 0) SealLocked();
    }
    if (FlushOne()) continue;
    if (give_up) NOVA_RETURN_IF_ERROR(LastingFlushFailure(begin));
    SleepFor(5 * kMillisecond);
  }
  return absl::DeadlineExceededError(StrCat("range ", id_.value(), ": flush did not end in time"));
}

}  // namespace nova
