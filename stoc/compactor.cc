#include "stoc/compactor.h"

#include <algorithm>
#include <utility>

#include "common/base/crc32c.h"
#include "common/base/failpoint.h"
#include "common/base/log.h"
#include "common/sstable/table_reader.h"

namespace nova {
namespace {

constexpr Nanos kLookPeriod = kMillisecond;    // of LetOthersGoFirst
constexpr uint64_t kReadAheadBytes = 2 << 20;  // of an input: a piece, and the block that is merged
constexpr uint64_t kOutputCopies = 3;          // of an output's bytes: built, compressed, on their way

Placement PlacementOf(const TablePlace& place) { return {place.fragments, place.metadata}; }

// How many inputs hold a key in common, at most: so many are read side by side.
size_t MostSideBySide(const std::vector<TableInfo>& inputs) {
  std::vector<std::pair<std::string_view, int>> ends;  // at a key -1, where one begins, sorts before 1
  for (const TableInfo& t : inputs) {
    ends.emplace_back(t.smallest, -1);
    ends.emplace_back(t.largest, 1);
  }
  std::sort(ends.begin(), ends.end());
  int open = 0, most = 0;
  for (const auto& [key, end] : ends) {
    open -= end;
    most = std::max(most, open);
  }
  return static_cast<size_t>(most);
}

// The answer to an attempt that failed. kUnknown would say that it may still be under way, and
// kInvalidArgument that such jobs are not known here.
Outcome OutcomeOfFailure(const Status& s) {
  if (absl::IsCancelled(s) || absl::IsUnknown(s)) return Outcome::kUnavailable;
  return ToOutcome(s);
}

}  // namespace

struct StocCompactor::Attempt {
  Uuid id;
  Creator creator;
  std::vector<TablePlace> places;
  std::string job;             // a CompactionJob's bytes
  Nanos arrived_ns = 0;        // the job's deadline counts from here
  Nanos deadline_ns = kNever;  // by which it has to be answered
  Done done;
  std::atomic<bool> cancelled{false};
};

// --- what it works on

class StocCompactor::FilesOfThisStoc : public FilesHere {
 public:
  FilesOfThisStoc(StocId self, FileStore* files, FenceTable* fences)
      : self_(self), files_(files), fences_(fences) {}

  StocId stoc() const override { return self_; }
  StatusOr<std::string> Read(const StocFileId& file, uint64_t offset, uint64_t size) override {
    std::string all;
    while (all.size() < size) {
      const auto part = static_cast<uint32_t>(std::min<uint64_t>(size - all.size(), kMaxReadBytes));
      NOVA_ASSIGN_OR_RETURN(const std::string bytes, files_->ReadFile(file, offset + all.size(), part));
      all += bytes;
      if (bytes.size() < part) break;  // the end of the file
    }
    return all;
  }
  Status Write(const StocFileId& file, const Creator& creator, std::string_view data) override {
    const FenceTable::Scope scope(fences_, creator.range, creator.epoch);
    if (!scope.entered()) return absl::FailedPreconditionError("the epoch is fenced");
    return files_->WriteFile(file, creator, data, Crc32c(data));
  }
  void Drop(const std::vector<StocFileId>& files, const Creator& holder) override {
    const FenceTable::Scope scope(fences_, holder.range, holder.epoch);
    if (!scope.entered()) return;  // the next owner collects them (collection, N4)
    files_->references()->DropReferences(holder.range, holder.epoch, files).IgnoreError();
  }

 private:
  const StocId self_;
  FileStore* const files_;
  FenceTable* const fences_;
};

// Outputs go to the places that the request names, one after another; past the last, again from the first.
class StocCompactor::JobStorage : public CompactionStorage {
 public:
  JobStorage(StocCompactor* owner, const Attempt& attempt, std::vector<TableInfo>* outputs)
      : owner_(owner), attempt_(attempt), outputs_(outputs) {}

  StatusOr<std::shared_ptr<const TableReader>> OpenTable(const TableInfo& info) override {
    owner_->LetOthersGoFirst(info.metadata_stocs);
    NOVA_ASSIGN_OR_RETURN(const std::string metadata, owner_->tables_->ReadMetadata(info));
    owner_->read_bytes_->Add(metadata.size());
    return TableReader::Open(info, metadata);
  }
  StatusOr<std::string> ReadBlocks(const TableInfo& info, std::span<const BlockHandle> blocks) override {
    const uint64_t offset = blocks.front().offset;
    for (const Fragment& f : info.fragments) {
      if (f.offset <= offset && offset < f.offset + f.size) owner_->LetOthersGoFirst(f.stocs);
    }
    NOVA_FP("stoc.job_read");
    auto bytes = owner_->tables_->ReadBlocks(info, blocks);
    if (bytes.ok()) owner_->read_bytes_->Add(bytes->size());
    return bytes;
  }
  StatusOr<TableInfo> WriteTable(TableBuilder::Output output) override {
    if (owner_->MustEnd(attempt_)) return absl::CancelledError("the attempt is cancelled");
    const TablePlace& place = attempt_.places[outputs_->size() % attempt_.places.size()];
    for (const std::vector<StocId>& copies : place.fragments) owner_->LetOthersGoFirst(copies);
    NOVA_ASSIGN_OR_RETURN(
        TableInfo info, owner_->tables_->WriteTable(std::move(output), PlacementOf(place), attempt_.creator));
    owner_->written_bytes_->Add(info.data_size + info.metadata_size);
    outputs_->push_back(info);
    NOVA_FP("stoc.job_written");
    return info;
  }

 private:
  StocCompactor* const owner_;
  const Attempt& attempt_;
  std::vector<TableInfo>* const outputs_;
};

StocCompactor::StocCompactor(const StocCompactorOptions& options, StocId self, StocClient* others,
                             FileStore* files, FenceTable* fences, std::function<bool()> disk_is_wanted,
                             Metrics* metrics)
    : options_(options),
      fences_(fences),
      disk_is_wanted_(std::move(disk_is_wanted)),
      files_(std::make_unique<FilesOfThisStoc>(self, files, fences)),
      tables_(NewStocTableStore(others, nullptr, {.here = files_.get()}, metrics)),
      jobs_(metrics->counter("nova_stoc_jobs_total")),
      failures_(metrics->counter("nova_stoc_job_failures_total")),
      read_bytes_(metrics->counter("nova_stoc_job_read_bytes_total")),
      written_bytes_(metrics->counter("nova_stoc_job_written_bytes_total")) {}

StocCompactor::~StocCompactor() { Stop(); }

// --- which attempts there are

Outcome StocCompactor::Start(const CompactRequest& request, Nanos deadline_ns, Done done) {
  if (options_.threads == 0) return Outcome::kInvalidArgument;
  MutexLock lock(&mu_);
  if (stopping_.load() || IsRememberedLocked(request.attempt)) return Outcome::kUnavailable;
  if (under_way_.contains(request.attempt)) return Outcome::kUnavailable;
  if (waiting_.size() >= options_.queue) return Outcome::kBusy;
  auto attempt = std::make_shared<Attempt>();
  attempt->id = request.attempt;
  attempt->creator = request.creator;
  attempt->places = request.places;
  attempt->job = request.bytes;
  attempt->arrived_ns = Now();
  attempt->deadline_ns = std::min(deadline_ns, attempt->arrived_ns + options_.longest_ns);
  attempt->done = std::move(done);
  under_way_.emplace(attempt->id, attempt);
  waiting_.push_back(std::move(attempt));
  if (waiting_.size() > static_cast<size_t>(idle_) && threads_.size() < static_cast<size_t>(options_.threads))
    threads_.push_back(
        std::make_unique<Thread>(StrCat("stoc.compaction.", threads_.size()), [this] { Work(); }));
  changed_.SignalAll();
  return Outcome::kOk;
}

Outcome StocCompactor::Cancel(const CancelJobRequest& request) {
  std::shared_ptr<Attempt> waited;
  std::vector<TableInfo> outputs;
  Creator creator;
  {
    MutexLock lock(&mu_);
    if (const auto it = under_way_.find(request.attempt); it != under_way_.end()) {
      it->second->cancelled.store(true);
      const auto queued = std::find(waiting_.begin(), waiting_.end(), it->second);
      if (queued == waiting_.end()) return Outcome::kBusy;
      waited = std::move(*queued);
      waiting_.erase(queued);
      RememberLocked({waited->id, waited->creator, {}});
    } else if (!IsRememberedLocked(request.attempt)) {
      RememberLocked({request.attempt, {request.range, request.epoch}, {}});
    } else {
      const auto ended = std::find_if(ended_.begin(), ended_.end(),
                                      [&](const Ended& e) { return e.attempt == request.attempt; });
      outputs.swap(ended->outputs);
      creator = ended->creator;
    }
  }
  if (waited != nullptr) waited->done(Outcome::kUnavailable, "cancelled");
  Drop(outputs, creator);
  return Outcome::kOk;
}

void StocCompactor::RememberLocked(Ended ended) {
  under_way_.erase(ended.attempt);
  ended_.push_back(std::move(ended));
  if (ended_.size() > options_.remembered) ended_.pop_front();
}

bool StocCompactor::IsRememberedLocked(const Uuid& attempt) const {
  return std::any_of(ended_.begin(), ended_.end(), [&](const Ended& e) { return e.attempt == attempt; });
}

void StocCompactor::Stop() {
  std::vector<std::unique_ptr<Thread>> threads;
  {
    MutexLock lock(&mu_);
    stopping_.store(true);
    threads.swap(threads_);
    changed_.SignalAll();
  }
  for (auto& thread : threads) thread->Join();
  std::deque<std::shared_ptr<Attempt>> left;
  {
    MutexLock lock(&mu_);
    left.swap(waiting_);
    under_way_.clear();
  }
  for (const auto& attempt : left) attempt->done(Outcome::kUnavailable, "the StoC stops");
}

// --- one attempt

void StocCompactor::Work() {
  for (;;) {
    std::shared_ptr<Attempt> next;
    {
      MutexLock lock(&mu_);
      ++idle_;
      while (waiting_.empty() && !stopping_.load()) changed_.Wait(&mu_);
      --idle_;
      if (stopping_.load()) return;
      next = std::move(waiting_.front());
      waiting_.pop_front();
    }
    Run(next);
  }
}

void StocCompactor::Run(const std::shared_ptr<Attempt>& attempt) {
  std::vector<TableInfo> outputs;
  StatusOr<CompactionResult> result = RunJob(attempt.get(), &outputs);
  {
    MutexLock lock(&mu_);
    if (result.ok() && attempt->cancelled.load()) result = absl::CancelledError("cancelled");
    if (result.ok()) RememberLocked({attempt->id, attempt->creator, outputs});
  }
  if (result.ok()) {
    jobs_->Add();
    std::string bytes;
    result->AppendTo(&bytes);
    std::string body = Body(CompactReply{Crc32c(bytes), {}});
    return attempt->done(Outcome::kOk, body += bytes);
  }
  failures_->Add();
  Drop(outputs, attempt->creator);
  {
    MutexLock lock(&mu_);
    RememberLocked({attempt->id, attempt->creator, {}});
  }
  NOVA_LOG(INFO) << "a compaction of range " << attempt->creator.range.value()
                 << " failed here: " << result.status();
  const bool fenced = !fences_->Admits(attempt->creator.range, attempt->creator.epoch);
  attempt->done(fenced ? Outcome::kNotOwner : OutcomeOfFailure(result.status()),
                std::string(result.status().message()));
}

StatusOr<CompactionResult> StocCompactor::RunJob(Attempt* attempt, std::vector<TableInfo>* outputs) {
  if (Now() >= attempt->deadline_ns) return absl::DeadlineExceededError("it waited for too long");
  std::string_view bytes = attempt->job;
  auto job = CompactionJob::Parse(&bytes, attempt->arrived_ns);
  if (!job.ok() || !bytes.empty())
    return absl::InvalidArgumentError(StrCat("no job that is known here: ", job.status().message()));
  attempt->job = {};
  if (Creator{job->range, job->epoch, job->job_id} != attempt->creator)
    return absl::InvalidArgumentError("the job of another creator");
  if (MemoryOf(*job) > options_.memory_bytes / static_cast<uint64_t>(options_.threads))
    return absl::AbortedError("the job needs too much memory");
  job->deadline_ns =
      job->deadline_ns == 0 ? attempt->deadline_ns : std::min(job->deadline_ns, attempt->deadline_ns);
  JobStorage storage(this, *attempt, outputs);
  auto result = RunCompaction(*job, &storage, [this, attempt] { return MustEnd(*attempt); });
  if (absl::IsInvalidArgument(result.status())) return absl::InternalError(result.status().message());
  return result;
}

uint64_t StocCompactor::MemoryOf(const CompactionJob& job) {
  uint64_t bytes = MostSideBySide(job.inputs) * kReadAheadBytes, data = 0;
  for (const TableInfo& t : job.inputs) {
    bytes += 2 * t.metadata_size;
    data += UsedBytes(t);
  }
  const uint64_t output = job.max_table_size_bytes == 0 ? data : std::min(data, job.max_table_size_bytes);
  return bytes + kOutputCopies * output;
}

bool StocCompactor::MustEnd(const Attempt& attempt) const {
  return stopping_.load() || attempt.cancelled.load() ||
         !fences_->Admits(attempt.creator.range, attempt.creator.epoch);
}

void StocCompactor::LetOthersGoFirst(const std::vector<StocId>& copies) {
  if (std::find(copies.begin(), copies.end(), files_->stoc()) == copies.end()) return;
  const Nanos until = Now() + options_.longest_pause_ns;
  MutexLock lock(&mu_);
  for (Nanos now = Now(); now < until && !stopping_.load() && disk_is_wanted_(); now = Now())
    changed_.WaitUntil(&mu_, now + kLookPeriod);
}

void StocCompactor::Drop(const std::vector<TableInfo>& outputs, const Creator& creator) {
  for (const TableInfo& t : outputs) tables_->DropTable(t, creator);
}

}  // namespace nova
