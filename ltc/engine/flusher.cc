#include "ltc/engine/flusher.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "common/base/failpoint.h"
#include "common/base/thread.h"
#include "common/sstable/merging_iterator.h"

namespace nova {

bool Flusher::NeedsFlush() const {
  const auto view = rounds_->Current();
  return !view->sealed.empty() && view->sealed.back()->pins.load() == 0 &&
         !context_->state.Is(ServingState::kLost);
}

bool Flusher::FlushOne() {
  if (context_->options.merge_rounds == MergeRounds::kAlways && merger_->MergeOne()) return true;
  const RoundGroup rounds =
      context_->state.Is(ServingState::kLost) ? RoundGroup() : rounds_->ClaimFlush(pacer_->FlushInput());
  if (rounds.empty()) return CommitWritten() || (pacer_->MergesRounds() && merger_->MergeOne());
  JobBook::Job job(jobs_);
  absl::Cleanup end = [&] { pacer_->EndToWrite(rounds.front()->number); };
  pacer_->UpdatePressure();
  auto edit = Write(rounds, job.id());
  if (!edit.ok()) {
    std::move(end).Invoke();  // while nobody else can claim the rounds
    for (const auto& round : rounds) round->flushing.store(false);
    pacer_->FlushFailed(edit.status());
    return false;
  }
  {
    MutexLock lock(&commit_mu_);
    written_[rounds.front()->number] = {*std::move(edit), rounds.size(), job.Keep()};
  }
  CommitWritten();
  return true;
}

StatusOr<VersionEdit> Flusher::Write(const RoundGroup& rounds, uint64_t job) {
  const Nanos begin = Now(), busy = ThreadBusy();
  FlushResult result;
  result.one_disk = context_->services->one_disk;
  std::vector<std::unique_ptr<Iterator>> children;
  uint64_t written_bytes = 0, tombstones = 0;
  FlushWork work;
  for (const auto& round : rounds) {
    result.share += round->share;
    result.written_entries += round->written_entries();
    written_bytes += round->written_bytes();
    work.entries += round->entries();
    tombstones += round->tombstones.load();
    for (const auto& m : round->siblings) children.push_back(m->NewIterator(round));
  }
  const auto merged = NewMergingIterator(std::move(children));
  const DropRules rules = points_->RulesOfFlush(*rounds_->Current(), rounds);
  // Now and then all that is written by now has to get into tables: a key that is never left alone would
  // never be in one.
  if (Nanos due = all_again_ns_.load();
      begin >= due && all_again_ns_.compare_exchange_strong(due, begin + context_->options.table_lag_ns)) {
    rounds_->AddFlushBarrier();
  }
  OverwriteProbe younger;
  rounds_->LookForYounger(rounds, &younger);
  const auto writes = written_load_->NewCounter(rounds);
  Level0Run run{job, merged.get(), rounds.back()->number, &rules};
  run.writes = writes.get();
  const double memory_bytes = result.share * static_cast<double>(context_->RoundBytes());
  pacer_->SetToWrite(rounds.front()->number, memory_bytes);
  const double keeps = pacer_->flush_history().Stores() * static_cast<double>(result.written_entries) /
                       static_cast<double>(std::max<uint64_t>(1, work.entries));
  double left = 1;  // part of the flush
  FlushProgress progress;
  progress.on_passed = [&] { rounds_->LookForYounger(rounds, &younger); };
  progress.on_written = [&](const FlushedEntries& since) {
    work.done += since.entries;
    work.stored += since.stored;
    const double before = std::exchange(left, PartLeft(work, keeps));
    pacer_->SetToWrite(rounds.front()->number, memory_bytes * left);
    pacer_->OnFlushing(static_cast<uint64_t>(static_cast<double>(written_bytes) * (before - left)),
                       since.stored_bytes);
  };
  NOVA_ASSIGN_OR_RETURN(VersionEdit edit, load_->enabled()
                                              ? WriteColumns(run, written_bytes, &younger, progress)
                                              : WriteLevel0(*context_, tables_, run, &younger, progress));
  written_load_->Add(writes.get());
  result.took_ns = Now() - begin;
  result.busy_ns = ThreadBusy() - busy;
  result.replaced_entries = result.kept_entries = younger.replaced();
  for (const VersionEdit::Add& add : edit.adds) result.kept_entries += add.table.entries;
  entries_.fetch_add(result.kept_entries - result.replaced_entries, std::memory_order_relaxed);
  runs_.fetch_add(1, std::memory_order_relaxed);
  pacer_->OnFlushed(result);
  for (const auto& round : rounds) {  // done memtables (M3)
    for (const auto& source : round->sources)
      edit.done.insert(edit.done.end(), source.memtables.begin(), source.memtables.end());
  }
  if (tombstones > 0) {
    for (const RangeTombstoneRef& t : rules.tombstones->all()) {
      if (t->sequence >= rounds.front()->number) edit.tombstones.push_back(t);
    }
  }
  return edit;
}

StatusOr<VersionEdit> Flusher::WriteColumns(Level0Run run, uint64_t bytes, OverwriteProbe* younger,
                                            const FlushProgress& progress) {
  const double kept = static_cast<double>(bytes) * pacer_->flush_history().Stores();
  std::vector<std::string> cuts;
  if (const DrangeMapRef map = load_->map()) {
    cuts = map->CutsFor(0, map->size() - 1, static_cast<uint64_t>(kept),
                        context_->options.compaction.least_table_bytes);
  }
  const auto seen = load_->NewPass();
  run.cuts = cuts;
  run.load = seen.get();
  NOVA_ASSIGN_OR_RETURN(VersionEdit edit, WriteLevel0(*context_, tables_, run, younger, progress));
  if (const DrangeMapRef map = load_->Add(*seen)) edit.dranges = map->Encode();
  return edit;
}

// K3b (flush order): rounds are written side by side, and reach Level0 in order.
bool Flusher::CommitWritten() {
  MutexLock lock(&commit_mu_);
  bool any = false;
  for (;;) {
    const auto view = rounds_->Current();
    if (view->sealed.empty()) return any;
    const auto oldest = view->sealed.rbegin();
    const auto written = written_.find((*oldest)->number);
    if (written == written_.end()) return any;
    const RoundGroup rounds(oldest, oldest + static_cast<ptrdiff_t>(written->second.rounds));
    Status s = NOVA_FP_STATUS("flush.written");
    if (s.ok()) s = versions_->Commit(written->second.edit, &rounds);
    if (!s.ok()) {
      pacer_->FlushFailed(s);
      return false;
    }
    pacer_->FlushDone();
    jobs_->End(written->second.job);
    written_.erase(written);
    NOVA_FP_VOID("flush.committed");
    for (const auto& round : rounds) {
      for (const auto& source : round->sources) log_->DeleteRound(source.number);
    }
    context_->WorkDue();
    any = true;
  }
}

Status Flusher::FlushAll(Nanos deadline_ns, bool give_up) {
  const Nanos begin = Now();
  while (Now() < deadline_ns) {
    if (context_->state.Is(ServingState::kLost)) return absl::FailedPreconditionError("the range was lost");
    if (rounds_->SealForFlush()) return OkStatus();
    if (FlushOne()) continue;
    if (give_up) NOVA_RETURN_IF_ERROR(pacer_->LastingFlushFailure(begin));
    SleepFor(5 * kMillisecond);
  }
  return absl::DeadlineExceededError(
      StrCat("range ", context_->spec.id.value(), ": flush did not end in time"));
}

}  // namespace nova
