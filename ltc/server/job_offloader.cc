#include "ltc/server/job_offloader.h"

#include <algorithm>
#include <set>
#include <utility>

#include "common/base/crc32c.h"
#include "common/base/failpoint.h"
#include "common/base/log.h"

namespace nova {
namespace {

constexpr Nanos kLookPeriod = 100 * kMillisecond;  // at what ends the wait for an answer
constexpr Nanos kTimeToAnswer = 2 * kSecond;       // from a job's deadline to that of its request
constexpr Nanos kCancelDeadline = 10 * kSecond;    // of one request
constexpr Nanos kCancelPause = kSecond;            // between two
constexpr Nanos kCancelFor = 600 * kSecond;        // from an attempt's deadline, by which it has ended itself
constexpr uint64_t kTurnBytes = 1 << 20;           // as a job here reads at once
constexpr size_t kMostPlaces = 16;                 // of the outputs of one job

// The input has no key of the job, which is a part of its plan: it need not even be opened.
bool LiesOutside(const CompactionJob& job, const TableInfo& input) {
  const KeyInterval used = UsedKeys(input);
  return used.EndsBefore(job.from) || (!job.to.empty() && used.first >= job.to);
}

uint64_t BytesOfInputs(const CompactionJob& job) {
  uint64_t bytes = 0;
  for (const TableInfo& t : job.inputs) bytes += LiesOutside(job, t) ? 0 : UsedBytes(t);
  return bytes;
}

// Waits for what a job here would wait for as it reads.
void WaitTurns(const CompactionJob& job, CompactionStorage* here, const std::function<bool()>& cancelled) {
  for (uint64_t left = BytesOfInputs(job); left > 0 && !cancelled();) {
    const uint64_t bytes = std::min(left, kTurnBytes);
    here->WaitTurn(bytes);
    left -= bytes;
  }
}

// Bytes of the inputs' fragments that lie on each StoC.
std::map<StocId, uint64_t> InputBytesByStoc(const CompactionJob& job) {
  std::map<StocId, uint64_t> bytes;
  for (const TableInfo& t : job.inputs) {
    if (LiesOutside(job, t)) continue;
    for (const Fragment& f : t.fragments) {
      for (const StocId stoc : f.stocs) bytes[stoc] += f.size;
    }
  }
  return bytes;
}

// Its disk is well enough to be given work.
bool MayWork(const StocChoice& stoc) { return stoc.disk <= DiskState::kSlow; }

// Adds to a count for as long as it stands.
class Counted {
 public:
  explicit Counted(std::atomic<uint32_t>* count) : count_(count) { count_->fetch_add(1); }
  ~Counted() { count_->fetch_sub(1); }
  Counted(const Counted&) = delete;
  Counted& operator=(const Counted&) = delete;

 private:
  std::atomic<uint32_t>* const count_;
};

}  // namespace

struct JobOffloader::Attempt {
  Worker worker;
  Uuid id;
  Creator creator;
  std::vector<Uuid> output_uuids;
  Nanos deadline_ns = 0;  // of the request
  mutable Mutex mu;
  mutable CondVar changed;
  bool ended ABSL_GUARDED_BY(mu) = false;  // the answer is there
  Outcome outcome ABSL_GUARDED_BY(mu) = Outcome::kUnknown;
  std::string body ABSL_GUARDED_BY(mu);

  Outcome Answer(std::string* bytes) const {
    MutexLock lock(&mu);
    *bytes = body;
    return outcome;
  }
};

JobOffloader::JobOffloader(const OffloadOptions& options, StocClient* stocs, Metrics* metrics)
    : options_(options),
      stocs_(stocs),
      offloaded_(metrics->counter("nova_ltc_jobs_offloaded_total")),
      refused_(metrics->counter("nova_ltc_jobs_refused_total")),
      failed_(metrics->counter("nova_ltc_jobs_failed_total")),
      lost_(metrics->counter("nova_ltc_jobs_lost_total")),
      read_bytes_(metrics->counter("nova_ltc_jobs_read_bytes_total")),
      written_bytes_(metrics->counter("nova_ltc_jobs_written_bytes_total")),
      uncertain_(metrics->gauge("nova_ltc_jobs_uncertain")) {}

size_t JobOffloader::PlacesOf(const CompactionJob& job) {
  const uint64_t tables =
      job.max_table_size_bytes == 0 ? 1 : BytesOfInputs(job) / job.max_table_size_bytes + 1;
  return std::min<uint64_t>({tables + job.cut_points.size(), job.output_uuids.size(), kMostPlaces});
}

StatusOr<CompactionResult> JobOffloader::Run(const CompactionJob& job, const std::vector<StocChoice>& stocs,
                                             const Placer& place, CompactionStorage* here,
                                             const std::function<bool()>& cancelled) {
  if (const std::optional<Worker> worker = Choose(job, stocs)) {
    WaitTurns(job, here, cancelled);
    if (auto result = RunAt(*worker, job, place(PlacesOf(job)), cancelled)) return *std::move(result);
  }
  const Counted counted(&running_here_);
  return RunCompaction(job, here, cancelled);
}

// --- which StoC

std::optional<JobOffloader::Worker> JobOffloader::Choose(const CompactionJob& job,
                                                         const std::vector<StocChoice>& stocs) {
  const std::map<StocId, uint64_t> inputs = InputBytesByStoc(job);
  std::map<StocId, Incarnation> starts;
  for (const NodeInfo& n : stocs_->live()) starts[n.stoc_id] = n.incarnation;
  const std::vector<double> backlogs = Backlogs(stocs, kBytesOfARequest);
  std::vector<CompactionWorker> workers;
  MutexLock lock(&mu_);
  for (size_t i = 0; i < stocs.size(); ++i) {
    const StocChoice& s = stocs[i];
    const auto start = starts.find(s.id);
    if (start == starts.end() || !MayWork(s)) continue;
    const auto none = takes_none_.find(s.id);
    if (none != takes_none_.end() && none->second == start->second) continue;
    const auto avoided = avoided_until_ns_.find(s.id);
    if (avoided != avoided_until_ns_.end() && Now() < avoided->second) continue;
    const auto running = running_.find(s.id);
    const auto input = inputs.find(s.id);
    workers.push_back({s.id, running == running_.end() ? 0 : running->second, backlogs[i],
                       input == inputs.end() ? 0 : input->second});
  }
  const std::optional<StocId> chosen =
      PlaceJob(workers, BytesOfInputs(job), running_here_.load(), options_.policy, turn_.fetch_add(1));
  if (!chosen) return std::nullopt;
  ++running_[*chosen];
  return Worker{*chosen, starts.at(*chosen)};
}

bool JobOffloader::IsThere(const Worker& worker) const {
  const auto node = stocs_->Find(worker.stoc);
  return node && node->incarnation == worker.incarnation && stocs_->IsLive(worker.stoc);
}

void JobOffloader::Avoid(StocId stoc) {
  MutexLock lock(&mu_);
  avoided_until_ns_[stoc] = Now() + options_.pause_after_failure_ns;
}

// --- one attempt

std::optional<StatusOr<CompactionResult>> JobOffloader::RunAt(const Worker& worker, const CompactionJob& job,
                                                              const std::vector<Placement>& places,
                                                              const std::function<bool()>& cancelled) {
  const std::shared_ptr<const Attempt> attempt = Send(worker, job, places);
  const bool answered = attempt != nullptr && NOVA_FP_STATUS("offload.sent").ok() &&
                        WaitFor(*attempt, cancelled) && NOVA_FP_STATUS("offload.done").ok();
  EndAt(worker);
  if (attempt == nullptr) return std::nullopt;
  std::string body;
  const Outcome outcome = answered ? attempt->Answer(&body) : Outcome::kUnknown;
  if (outcome == Outcome::kNotOwner)
    return ToStatus(outcome, StrCat("compaction at stoc ", worker.stoc.value(), ": ", body));
  if (outcome != Outcome::kOk && outcome != Outcome::kUnknown) {
    NoteRefusal(*attempt, outcome, body);
    return std::nullopt;
  }
  if (auto result = outcome == Outcome::kOk ? ResultOf(*attempt, body) : std::nullopt) {
    offloaded_->Add();
    read_bytes_->Add(result->bytes_read);
    written_bytes_->Add(result->bytes_written);
    return *std::move(result);
  }
  if (!cancelled()) Avoid(worker.stoc);
  Lose(attempt);
  return std::nullopt;
}

std::shared_ptr<const JobOffloader::Attempt> JobOffloader::Send(const Worker& worker, CompactionJob job,
                                                                const std::vector<Placement>& places) {
  if (places.empty()) return nullptr;
  std::erase_if(job.inputs, [&job](const TableInfo& t) { return LiesOutside(job, t); });
  if (!options_.off.m6_own_ids) {
    for (Uuid& id : job.output_uuids) id = Uuid::Generate();
  }
  const Nanos now = Now();
  const Nanos deadline_ns =
      now + options_.least_deadline_ns + static_cast<Nanos>(BytesOfInputs(job) >> 20) * kSecond;
  job.deadline_ns = job.deadline_ns == 0 ? deadline_ns : std::min(job.deadline_ns, deadline_ns);
  std::string bytes;
  job.AppendTo(&bytes, now);
  if (bytes.size() > kMaxJobBytes) return nullptr;

  auto attempt = std::make_shared<Attempt>();
  attempt->worker = worker;
  attempt->id = Uuid::Generate();
  attempt->creator = {job.range, job.epoch, job.job_id};
  attempt->output_uuids = std::move(job.output_uuids);
  attempt->deadline_ns = job.deadline_ns + kTimeToAnswer;
  CompactRequest request{attempt->id, attempt->creator, {}, Crc32c(bytes), bytes};
  for (const Placement& p : places) request.places.push_back({p.fragments, p.metadata});
  stocs_->StartCompact(worker.stoc, worker.incarnation, request, attempt->deadline_ns,
                       [attempt](Outcome outcome, std::string_view body) {
                         MutexLock lock(&attempt->mu);
                         attempt->ended = true;
                         attempt->outcome = outcome;
                         attempt->body = body;
                         attempt->changed.SignalAll();
                       });
  return attempt;
}

void JobOffloader::EndAt(const Worker& worker) {
  MutexLock lock(&mu_);
  --running_[worker.stoc];
}

bool JobOffloader::WaitFor(const Attempt& attempt, const std::function<bool()>& cancelled) const {
  for (;;) {
    {
      MutexLock lock(&attempt.mu);
      if (!attempt.ended) attempt.changed.WaitUntil(&attempt.mu, Now() + kLookPeriod);
      if (attempt.ended) return true;
    }
    if (cancelled() || !IsThere(attempt.worker) || Now() >= attempt.deadline_ns) return false;
  }
}

std::optional<CompactionResult> JobOffloader::ResultOf(const Attempt& attempt, std::string_view body) {
  CompactReply reply;
  if (!ParseBody(body, &reply) || Crc32c(reply.bytes) != reply.crc) return std::nullopt;
  std::string_view bytes = reply.bytes;
  auto result = CompactionResult::Parse(&bytes);
  if (!result.ok() || !bytes.empty()) return std::nullopt;
  if (result->outputs.size() > attempt.output_uuids.size()) return std::nullopt;
  for (size_t i = 0; i < result->outputs.size(); ++i) {
    const TableInfo& t = result->outputs[i];
    if (t.uuid != attempt.output_uuids[i] || t.fragments.empty() || t.metadata_stocs.empty())
      return std::nullopt;
  }
  return *std::move(result);
}

void JobOffloader::NoteRefusal(const Attempt& attempt, Outcome outcome, const std::string& why) {
  const StocId stoc = attempt.worker.stoc;
  if (outcome == Outcome::kBusy) return refused_->Add();
  if (outcome == Outcome::kInvalidArgument) {
    refused_->Add();
    NOVA_LOG(INFO) << "stoc " << stoc.value() << " takes no compaction jobs";
    MutexLock lock(&mu_);
    takes_none_[stoc] = attempt.worker.incarnation;
    return;
  }
  failed_->Add();
  Avoid(stoc);
  NOVA_LOG(WARNING) << "compaction job " << attempt.creator.job << " of range "
                    << attempt.creator.range.value() << " failed at stoc " << stoc.value() << ": "
                    << OutcomeName(outcome) << " " << why;
}

// --- attempts whose end is not known

void JobOffloader::Lose(const std::shared_ptr<const Attempt>& attempt) {
  lost_->Add();
  uncertain_->Add(1);
  NOVA_LOG(WARNING) << "compaction job " << attempt->creator.job << " of range "
                    << attempt->creator.range.value() << ": no end is known of its attempt at stoc "
                    << attempt->worker.stoc.value();
  NOVA_FP_VOID("offload.lost");
  CancelAt(Now(), attempt);
}

void JobOffloader::CancelAt(Nanos start_ns, const std::shared_ptr<const Attempt>& attempt) {
  const Creator& creator = attempt->creator;
  stocs_->StartCancelJob(attempt->worker.stoc, {creator.range, creator.epoch, attempt->id}, start_ns,
                         start_ns + kCancelDeadline, [this, attempt](Outcome outcome) {
                           const bool answered = outcome == Outcome::kOk || outcome == Outcome::kNotOwner ||
                                                 outcome == Outcome::kInvalidArgument;
                           const Nanos now = Now();
                           if (!answered && MayRunStill(*attempt, now))
                             return CancelAt(now + kCancelPause, attempt);
                           uncertain_->Add(-1);
                         });
}

bool JobOffloader::MayRunStill(const Attempt& attempt, Nanos now) const {
  const auto node = stocs_->Find(attempt.worker.stoc);
  return node && node->incarnation == attempt.worker.incarnation && now < attempt.deadline_ns + kCancelFor;
}

}  // namespace nova
