// Compactions of a Range: plans (compaction_picker.h) that threads carry out in parts, beside flushes that go
// first.
#include <algorithm>

#include "common/base/failpoint.h"
#include "common/base/log.h"
#include "common/sstable/compaction_job.h"
#include "ltc/engine/range_view.h"

namespace nova {
namespace {

uint64_t CountOn(const Version& version, StocId stoc) {
  std::set<const TableHandle*> on;
  version.ForEachTable([&](const Run&, const TableRef& t) {
    if (IsOn(t->info(), stoc)) on.insert(t.get());
  });
  return on.size();
}

}  // namespace

// A plan in parts: ranges of keys that threads compact side by side. One edit in the end.
struct Range::PlanRun {
  CompactionPlan plan;
  std::vector<TableRef> read;  // its tables but those that are hidden as a whole (K7)
  int level0_runs = 0;         // that Level0 will have less
  uint64_t bytes = 0;          // of `read`
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

// Before background work reads or writes more, unless writers wait for it.
void Range::LetReadsHaveTurns() {
  if (!services_->one_disk || controller_.pressed()) return;
  if (const Nanos pause = disk_turns_.Pause(Now()); pause > 0) SleepFor(pause);
}

// Tables of a job, read and written through the range's services. Outputs keep their readers: their metadata
// is in hand.
class Range::JobStorage : public CompactionStorage {
 public:
  JobStorage(Range* range, PlanRun* run, const Creator& creator)
      : range_(range), run_(run), creator_(creator) {
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
    range_->LetReadsHaveTurns();
    auto data = range_->services_->store->ReadBlocks(info, blocks);
    run_->read_bytes.fetch_add(bytes);
    range_->CreditLevel0(*run_);
    return data;
  }
  std::unique_ptr<TableSink> StartTable(const Uuid& table) override {
    return range_->services_->store->StartTable(table);
  }
  StatusOr<TableInfo> WriteTable(TableBuilder::Output output) override {
    std::shared_ptr<const TableReader> reader;
    NOVA_ASSIGN_OR_RETURN(TableInfo info, range_->StoreTable(std::move(output), creator_, &reader));
    readers_[info.uuid] = std::move(reader);
    MutexLock lock(&run_->mu);
    run_->written.push_back(info);
    // there is room again
    if (run_->written.size() > range_->tables_at_failure_.load()) range_->compaction_failure_.OnDone();
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

// Runs that a job has read half of are half gone: or else writers would be slowed down more and more until
// the end of a long one, and not at all after it.
void Range::CreditLevel0(const PlanRun& run) {
  if (run.level0_runs == 0) return;
  const double part =
      static_cast<double>(run.read_bytes.load()) / static_cast<double>(std::max<uint64_t>(run.bytes, 1));
  level0_credit_.store(run.level0_runs * std::min(part, 1.0));
  UpdatePressure();
}

bool Range::NeedsCompaction() {
  const auto view = CurrentView();
  const auto scores = CompactionScores(*view->version, options_.compaction);
  if (std::any_of(scores.begin(), scores.end(), [](double s) { return s >= 1; }) || HoldsHidden(*view))
    return true;
  MutexLock lock(&picker_mu_);
  return std::any_of(leaving_.begin(), leaving_.end(),
                     [&](const auto& stoc) { return CountOn(*view->version, stoc.first) > 0; });
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
  // in this order: a job that ends in between is counted
  return earlier + CountOn(*CurrentView()->version, stoc);
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
    if (!plan && version->tombstones() != nullptr)
      plan = PickHidden(*version, RulesOf(*view).tombstones_applied, &compaction_state_);
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
  compaction_failure_.OnDone();
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
      if (rules.tombstones == nullptr || !IsHidden(t->info(), *rules.tombstones, rules.tombstones_applied))
        run->read.push_back(t);
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
      if (r.level == 0 && std::find(plan.inputs.begin(), plan.inputs.end(), r.tables[0]) != plan.inputs.end())
        ++run->level0_runs;
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
    for (std::string& key : reader->SplitKeys(kSamples))
      samples.emplace_back(std::move(key), used / kSamples);
  }
  run->bytes = bytes;
  std::sort(samples.begin(), samples.end());
  const auto parts = static_cast<size_t>(std::clamp<uint64_t>(
      bytes / options_.compaction.table_size_bytes, 1, static_cast<uint64_t>(options_.compaction.max_parts)));
  std::vector<std::string> cuts;
  uint64_t before = 0;
  for (const auto& [key, size] : samples) {
    if (before >= bytes / parts * (cuts.size() + 1) && cuts.size() + 1 < parts &&
        (cuts.empty() || key > cuts.back()))
      cuts.push_back(key);
    before += size;
  }
  for (size_t i = 0; i <= cuts.size(); ++i) {
    job.from = i == 0 ? "" : cuts[i - 1];
    job.to = i == cuts.size() ? "" : cuts[i];
    // Outputs end at key boundaries past the size, so there are at most this many; versions dropped only make
    // it fewer.
    job.output_uuids.clear();
    for (uint64_t n = 0; n < most_bytes / options_.compaction.table_size_bytes * 2 + job.inputs.size() + 2;
         ++n) {
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
      auto result =
          RunCompaction(job, &storage, [&] { return run->failed.load() || state_.load() == State::kLost; });
      s = result.status();
      if (s.ok()) {
        for (TableInfo& table : result->outputs) {
          auto reader = storage.TakeReader(table.uuid);
          adds.push_back(
              {run->plan.output_level, run->plan.output_order, std::move(table), std::move(reader)});
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
