#include "ltc/engine/compactor.h"

#include <algorithm>
#include <map>
#include <set>

#include "absl/cleanup/cleanup.h"
#include "common/base/failpoint.h"
#include "common/base/log.h"
#include "common/sstable/compaction_job.h"
#include "ltc/engine/level0_depth.h"

namespace nova {
namespace {

constexpr Nanos kNoFavours = 600 * kSecond;

// Runs of Level0 that the plan leaves nothing of.
int WholeRuns(const Version& version, const CompactionPlan& plan) {
  std::set<Uuid> inputs;
  for (const TableRef& t : plan.inputs) inputs.insert(t->info().uuid);
  const auto taken = [&inputs](const TableRef& t) { return inputs.contains(t->info().uuid); };
  const auto whole = [&](const Run& r) {
    return r.level == 0 && std::all_of(r.tables.begin(), r.tables.end(), taken);
  };
  return static_cast<int>(std::count_if(version.runs().begin(), version.runs().end(), whole));
}

}  // namespace

// A plan in parts: ranges of keys that threads compact side by side. One edit in the end.
struct Compactor::RunningCompaction {
  CompactionPlan plan;
  std::vector<TableRef> read;  // its tables but those that range deletions (K7) hide as a whole
  DrangeMapRef dranges;        // at which outputs end; null: one Drange
  int level0_runs = 0;         // that Level0 will have less
  double level0_part = 1;      // of Level0's bytes
  uint64_t bytes = 0;          // of `read`
  Nanos begin_ns = 0;          // of its first job
  std::atomic<uint64_t> read_bytes{0};
  std::atomic<bool> dear{false};           // it is given up (level0_toll.h)
  std::atomic<double> level0_consumed{0};  // runs of level0_runs that the Pacer was told of
  std::vector<CompactionJob> jobs;         // one a part, by key
  std::atomic<size_t> next{0};
  std::atomic<bool> failed{false};
  Mutex mu;
  CondVar ended;
  size_t running ABSL_GUARDED_BY(mu) = 0;
  Status status ABSL_GUARDED_BY(mu);
  std::vector<TableInfo> written ABSL_GUARDED_BY(mu);
  int64_t expired_by_ms ABSL_GUARDED_BY(mu) = 0;  // of all parts (expiry, K7)
  // An edit that names the outputs may be durable: GiveUp keeps them. Nothing returns between the line that
  // sets it and the edit, and no edit is tried before it.
  bool edit_tried = false;
  std::vector<std::vector<VersionEdit::Add>> outputs ABSL_GUARDED_BY(mu);  // [i] of part i
};

// Tables of a job, read and written through the range's services. Outputs keep their readers: their metadata
// is in hand.
class Compactor::JobStorage : public CompactionStorage {
 public:
  JobStorage(Compactor* owner, RunningCompaction* run, const Creator& creator)
      : owner_(owner), run_(run), creator_(creator) {
    for (const auto* side : {&run->plan.inputs, &run->plan.overlaps}) {
      for (const TableRef& t : *side) inputs_[t->info().uuid] = t;
    }
  }
  StatusOr<std::shared_ptr<const TableReader>> OpenTable(const TableInfo& info) override {
    ran_here_ = true;
    return owner_->tables_->LoadReaderBlocking(inputs_.at(info.uuid).get());
  }
  StatusOr<std::string> ReadBlocks(const TableInfo& info, std::span<const BlockHandle> blocks) override {
    uint64_t bytes = 0;
    for (const BlockHandle& b : blocks) bytes += b.size;
    owner_->pacer_->WaitBehindFlush(bytes);
    owner_->pacer_->LetReadsHaveTurns();
    auto data = owner_->context_->services->store->ReadBlocks(info, blocks);
    run_->read_bytes.fetch_add(bytes);
    owner_->TellLevel0Consumed(run_);
    owner_->JudgePrice(run_);
    return data;
  }
  void WaitTurn(uint64_t bytes) override { owner_->pacer_->WaitBehindFlush(bytes); }
  std::unique_ptr<TableSink> StartTable(const Uuid& table) override {
    return owner_->context_->services->store->StartTable(table, TableLife::kLong);
  }
  StatusOr<TableInfo> WriteTable(TableBuilder::Output output) override {
    std::shared_ptr<const TableReader> reader;
    NOVA_ASSIGN_OR_RETURN(TableInfo info, owner_->tables_->StoreTable(std::move(output), creator_, &reader));
    readers_[info.uuid] = std::move(reader);
    MutexLock lock(&run_->mu);
    run_->written.push_back(info);
    // there is room again
    if (run_->written.size() > owner_->tables_at_failure_.load()) owner_->pacer_->CompactionDone();
    return info;
  }
  // The reader of an output that was written here. Null: the job ran elsewhere.
  std::shared_ptr<const TableReader> TakeReader(const Uuid& uuid) { return std::move(readers_[uuid]); }
  // The job ran elsewhere: its outputs are given up with the others if the plan fails, and what it has read
  // counts.
  void TakeOver(const CompactionResult& result) {
    run_->read_bytes.fetch_add(result.bytes_read);
    owner_->TellLevel0Consumed(run_);
    MutexLock lock(&run_->mu);
    run_->written.insert(run_->written.end(), result.outputs.begin(), result.outputs.end());
  }
  bool ran_here() const { return ran_here_; }  // it was asked for inputs

 private:
  Compactor* const owner_;
  RunningCompaction* const run_;
  const Creator creator_;
  std::map<Uuid, TableRef> inputs_;
  std::map<Uuid, std::shared_ptr<const TableReader>> readers_;
  bool ran_here_ = false;
};

bool Compactor::NeedsCompaction() {
  const auto view = rounds_->Current();
  const auto scores = CompactionScores(*view->version, context_->options.compaction, Demand());
  return std::any_of(scores.begin(), scores.end(), [](double s) { return s >= 1; }) || HoldsHidden(*view) ||
         HoldsExpired(*view->version, points_->NowMs(), points_->sequences().stable());
}

Level0Demand Compactor::Demand() const {
  if (Now() < no_favours_before_ns_.load()) return {};
  return {toll_->PaidBytes(), idle_at_.load() == points_->sequences().last()};
}

void Compactor::BeIdle() {
  idle_at_.store(points_->sequences().last());
  if (NeedsCompaction()) context_->WorkDue();
}

bool Compactor::HoldsHidden(const RangeView& view) {
  if (view.version->tombstones() == nullptr) return false;
  const DropRules rules = points_->RulesOf(view);
  const auto holds = [&](const TableRef& t) {
    return MayHoldHidden(t->info(), *rules.tombstones, rules.tombstones_applied);
  };
  const auto& runs = view.version->runs();
  return std::any_of(runs.begin(), runs.end(),
                     [&](const Run& r) { return std::any_of(r.tables.begin(), r.tables.end(), holds); });
}

bool Compactor::CompactOne() {
  if (context_->state.Is(ServingState::kLost)) return false;
  std::shared_ptr<RunningCompaction> run;
  {
    MutexLock lock(&mu_);
    std::erase_if(open_runs_, [](const auto& r) { return r->next.load() >= r->jobs.size(); });
    if (!open_runs_.empty()) run = open_runs_.front();
  }
  if (run != nullptr) return RunParts(run.get());
  if (pacer_->FlushIsBehind() &&
      Level0Depth(*rounds_->Current()->version) < context_->options.level0_slow_runs)
    return false;
  const JobBook::Job job(jobs_);
  run = std::make_shared<RunningCompaction>();
  {
    MutexLock lock(&mu_);
    if (paused_) return false;
    const auto view = rounds_->Current();
    auto plan = Pick(*view);
    if (!plan) return false;
    run->plan = *std::move(plan);
    run->dranges = view->version->dranges();
  }
  if (run->dranges != nullptr) context_->WorkDue();  // another column may be due
  const Status s = RunPlan(job.id(), run);
  {
    MutexLock lock(&mu_);
    std::erase(open_runs_, run);
    EndCompaction(run->plan, &compaction_state_);
    if (s.ok()) std::erase_if(rests_, [](const auto& r) { return !r.second.damaged; });
    if (!s.ok() && !run->dear.load()) NoteFailed(run->plan, s);
  }
  if (absl::IsCancelled(s) && run->dear.load()) {
    GiveUp(run.get());
    pacer_->UpdatePressure();
    return false;
  }
  if (!s.ok()) {
    no_favours_before_ns_.store(Now() + kNoFavours);
    GiveUp(run.get());
    pacer_->CompactionFailed(s);
    pacer_->UpdatePressure();  // what Level0 was credited with is there again
    return false;
  }
  pacer_->CompactionDone();
  context_->WorkDue();
  return true;
}

std::optional<CompactionPlan> Compactor::Pick(const RangeView& view) {
  const Version& version = *view.version;
  CompactionState* const state = &compaction_state_;
  const bool hides = version.tombstones() != nullptr;
  const SequenceNumber upto = hides ? points_->RulesOf(view).tombstones_applied : 0;
  if (hides) {  // an edit alone, which gives space back
    if (auto plan = PickHidden(version, upto, state)) return plan;
  }
  if (auto plan = PickExpired(version, points_->NowMs(), points_->sequences().stable(), state)) return plan;
  // Under a load that keeps a level due all the time range deletions would never end, until none is taken.
  const bool many = hides && version.tombstones()->size() > context_->options.max_range_tombstones / 2;
  const bool hidden_first = many && ++picks_ % 2 == 0;
  for (const bool rested : {false, true}) {
    state->resting.clear();
    for (const auto& [table, rest] : rests_) {
      if (!rested && Now() < rest.until_ns) state->resting.insert(table);
    }
    for (const bool partly_hidden : {hidden_first, !hidden_first}) {
      if (partly_hidden && !hides) continue;
      auto plan = partly_hidden ? PickPartlyHidden(version, upto, state)
                                : PickCompaction(version, context_->options.compaction, Demand(), state);
      if (plan) return plan;
    }
    if (state->resting.empty()) break;  // nothing was passed over
  }
  return std::nullopt;
}

void Compactor::NoteFailed(const CompactionPlan& plan, const Status& why) {
  constexpr Nanos kFirst = 100 * kMillisecond, kLongest = 60 * kSecond;
  const Nanos now = Now();
  std::erase_if(rests_, [now](const auto& r) { return r.second.until_ns + kLongest < now; });
  Rest& rest = rests_[plan.inputs[0]->info().uuid];
  rest.pause_ns = std::clamp(2 * rest.pause_ns, kFirst, kLongest);
  rest.until_ns = now + rest.pause_ns;
  rest.damaged = absl::IsDataLoss(why);
}

// What a plan that failed has written.
void Compactor::GiveUp(RunningCompaction* run) {
  std::vector<TableInfo> written;
  {
    MutexLock lock(&run->mu);
    written.swap(run->written);
  }
  tables_at_failure_.store(written.size());
  if (run->edit_tried) {
    versions_->KeepUntilNextEdit(written);
  } else {
    for (const TableInfo& t : written) context_->services->garbage(t);
  }
}

Status Compactor::RunPlan(uint64_t job_id, const std::shared_ptr<RunningCompaction>& run) {
  const CompactionPlan& plan = run->plan;
  VersionEdit edit;
  for (const auto* side : {&plan.inputs, &plan.overlaps}) {
    for (const TableRef& t : *side) edit.drops.push_back(t->info().uuid);
  }
  edit.now_ms = plan.expired_by_ms;
  if (plan.drop_only) return versions_->Commit(std::move(edit));
  DropRules rules = points_->RulesOf(*rounds_->Current());
  for (const auto* side : {&plan.inputs, &plan.overlaps}) {
    for (const TableRef& t : *side) {
      if (rules.tombstones == nullptr || !IsHidden(t->info(), *rules.tombstones, rules.tombstones_applied))
        run->read.push_back(t);
    }
  }
  if (run->read.empty()) return versions_->Commit(std::move(edit));
  if (plan.trivial_move) {
    const TableRef& t = plan.inputs[0];
    edit.adds.push_back({plan.output_level, 0, t->info(), t->reader()});
    return versions_->Commit(std::move(edit));
  }
  // compaction order (K3c): rounds flush in order, so none that is left in memory is as old as an input
  if (plan.level == 0) {
    const auto view = rounds_->Current();
    const RoundNumber oldest = view->oldest().number;
    for (const Run& r : view->version->runs())
      NOVA_CHECK(r.level != 0 || r.order < oldest) << "a Level0 run as young as a memtable (K3)";
    run->level0_runs = WholeRuns(*view->version, plan);
    if (run->dranges != nullptr) {
      uint64_t taken = 0;
      for (const TableRef& t : plan.inputs) taken += UsedBytes(t->info());
      run->level0_part = std::min(1.0, static_cast<double>(taken) / static_cast<double>(std::max<uint64_t>(
                                                                        view->version->LevelBytes(0), 1)));
    }
    if (plan.output_level == 0 && run->level0_runs > 0) --run->level0_runs;
  }
  NOVA_RETURN_IF_ERROR(PlanParts(job_id, rules, run.get()));
  run->begin_ns = Now();  // before other threads see the run
  if (run->jobs.size() > 1) {
    {
      MutexLock lock(&mu_);
      open_runs_.push_back(run);
    }
    context_->WorkDue();
  }
  // by then the version has the runs that are left
  const absl::Cleanup end = [&] { pacer_->ConsumeLevel0(-run->level0_consumed.exchange(0)); };
  RunParts(run.get());
  Status s;
  {
    MutexLock lock(&run->mu);
    while (run->running > 0) run->ended.Wait(&run->mu);
    s = run->status;
    // Not the time of the job: a clock that is ahead for a moment would be the range's until it has come.
    edit.now_ms = run->expired_by_ms;
    for (auto& part : run->outputs) std::move(part.begin(), part.end(), std::back_inserter(edit.adds));
  }
  NOVA_RETURN_IF_ERROR(s);
  run->edit_tried = true;  // before anything that may make the edit durable
  NOVA_FP("compaction.written");
  NOVA_RETURN_IF_ERROR(versions_->Commit(std::move(edit)));
  // a table that was written anew in its place is no run less
  if (plan.level == 0 && (plan.output_level > 0 || plan.inputs.size() > 1))
    toll_->OnMerged(run->bytes, Now() - run->begin_ns, run->level0_part);
  NOVA_FP_VOID("compaction.committed");
  return OkStatus();
}

// Runs that a job has read half of are half gone: or else writers would be slowed down more and more until
// the end of a long one, and not at all after it.
void Compactor::TellLevel0Consumed(RunningCompaction* run) {
  const double part =
      static_cast<double>(run->read_bytes.load()) / static_cast<double>(std::max<uint64_t>(run->bytes, 1));
  const double consumed = run->level0_runs * std::min(part, 1.0);
  pacer_->ConsumeLevel0(consumed - run->level0_consumed.exchange(consumed));
}

void Compactor::JudgePrice(RunningCompaction* run) {
  if (run->plan.paid_for && !run->dear.load() &&
      toll_->TurnsOutDear(run->bytes, run->read_bytes.load(), Now() - run->begin_ns, run->level0_part))
    run->dear.store(true);
}

// The jobs of a plan: cut where its tables' blocks say that about equal parts of the bytes lie on each side.
Status Compactor::PlanParts(uint64_t job_id, const DropRules& rules, RunningCompaction* run) {
  constexpr size_t kSamples = 16;      // of one table
  constexpr uint64_t kMostGrowth = 8;  // beyond it the last output is larger
  const CompactionPlan& plan = run->plan;
  CompactionJob job;
  job.range = context_->spec.id;
  job.epoch = context_->spec.epoch;
  job.job_id = job_id;
  job.floor = rules.floor;
  job.bottom = plan.bottom;
  job.snapshots = rules.snapshots;
  job.now_ms = rules.now_ms;
  job.range_tombstones = rules.tombstones;
  job.tombstones_applied = rules.tombstones_applied;
  job.max_table_size_bytes = context_->options.compaction.table_size_bytes;
  job.table_options = tables_->OptionsAt(plan.output_level);
  uint64_t bytes = 0, most_bytes = 0;  // most: as they may grow, outputs may be compressed less
  std::vector<std::pair<std::string, uint64_t>> samples;  // stored key, bytes behind it
  for (const TableRef& t : run->read) {
    job.inputs.push_back(t->info());
    const uint64_t used = UsedBytes(t->info());
    bytes += used;
    most_bytes += used * (t->info().compression == 0 ? 1 : kMostGrowth);
    NOVA_ASSIGN_OR_RETURN(const auto reader, tables_->LoadReaderBlocking(t.get()));
    for (std::string& key : reader->SplitKeys(kSamples))
      samples.emplace_back(std::move(key), used / kSamples);
  }
  run->bytes = bytes;
  if (plan.level == 0 && run->dranges != nullptr) {
    const KeyInterval hull = plan.hull();
    job.cut_points = run->dranges->CutsFor(run->dranges->Of(hull.first), run->dranges->Of(hull.last), bytes,
                                           context_->options.compaction.least_table_bytes);
  }
  std::sort(samples.begin(), samples.end());
  const auto parts = static_cast<size_t>(
      std::clamp<uint64_t>(bytes / context_->options.compaction.table_size_bytes, 1,
                           std::max(static_cast<size_t>(context_->options.compaction.max_parts),
                                    2 * context_->services->host->Disks())));
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
    for (uint64_t n = 0; n < most_bytes / context_->options.compaction.table_size_bytes * 2 +
                                 job.inputs.size() + job.cut_points.size() + 2;
         ++n) {
      job.output_uuids.push_back(Uuid::Generate());
    }
    run->jobs.push_back(job);
  }
  MutexLock lock(&run->mu);
  run->outputs.resize(run->jobs.size());
  return OkStatus();
}

StatusOr<CompactionResult> Compactor::RunJob(const CompactionJob& job, CompactionStorage* here,
                                             const std::function<bool()>& cancelled) {
  JobRunner* const jobs = context_->services->jobs;
  return jobs == nullptr ? RunCompaction(job, here, cancelled) : jobs->RunJob(job, here, cancelled);
}

// Takes parts until none is left. False: there was none.
bool Compactor::RunParts(RunningCompaction* run) {
  bool any = false;
  for (;;) {
    {
      MutexLock lock(&run->mu);
      ++run->running;  // before a part is taken: the owner waits for whoever may have one
    }
    const size_t i = run->next.fetch_add(1);
    Status s = OkStatus();
    int64_t expired_by_ms = 0;
    std::vector<VersionEdit::Add> adds;
    if (i < run->jobs.size() && !run->failed.load()) {
      any = true;
      const CompactionJob& job = run->jobs[i];
      JobStorage storage(this, run, {context_->spec.id, context_->spec.epoch, job.job_id});
      auto result = RunJob(job, &storage, [&] {
        return run->failed.load() || run->dear.load() || context_->state.Is(ServingState::kLost);
      });
      s = result.status();
      if (s.ok()) {
        expired_by_ms = storage.ran_here() ? result->expired_by_ms : job.now_ms;
        if (!storage.ran_here()) storage.TakeOver(*result);
        for (TableInfo& table : result->outputs) {
          auto reader = storage.TakeReader(table.uuid);
          adds.push_back(
              {run->plan.output_level, run->plan.output_order, std::move(table), std::move(reader)});
        }
      }
    }
    MutexLock lock(&run->mu);
    if (i < run->jobs.size()) run->outputs[i] = std::move(adds);
    run->expired_by_ms = std::max(run->expired_by_ms, expired_by_ms);
    if (!s.ok() && run->status.ok()) {
      run->status = s;
      run->failed.store(true);
    }
    if (--run->running == 0) run->ended.SignalAll();
    if (i >= run->jobs.size()) return any;
  }
}

}  // namespace nova
