#include "stoc/log_writer.h"

#include <algorithm>
#include <utility>

#include "common/base/log.h"

namespace nova {

LogWriter::LogWriter(const LogWriterOptions& options, FileStore* files, FenceTable* fences, Metrics* metrics)
    : options_(options),
      files_(files),
      fences_(fences),
      appends_(metrics->counter("nova_stoc_log_appends_total")),
      groups_(metrics->counter("nova_stoc_log_groups_total")),
      syncs_(metrics->counter("nova_stoc_log_syncs_total")),
      sync_ns_(metrics->histogram("nova_stoc_log_group_ns")) {
  for (int i = 0; i < options_.threads; ++i) {
    threads_.push_back(std::make_unique<Thread>(StrCat("stoc.log.", i), [this] { Work(); }));
  }
}

LogWriter::~LogWriter() { Stop(); }

void LogWriter::Stop() {
  {
    MutexLock lock(&mu_);
    stopping_ = true;
    ready_changed_.SignalAll();
  }
  for (auto& thread : threads_) thread->Join();
}

bool LogWriter::Append(const AppendLogRequest& request, absl::AnyInvocable<void(Outcome)> done) {
  MutexLock lock(&mu_);
  if (stopping_ || queued_bytes_ + request.bytes.size() > options_.queued_bytes) return false;
  queued_bytes_ += request.bytes.size();
  const auto [it, idle] = queued_.try_emplace(request.log);
  it->second.push_back({request.range, request.epoch, request.offset, request.sync, std::string(request.bytes), std::move(done)});
  if (idle) {
    ready_.push_back(request.log);
    ready_changed_.Signal();
  }
  return true;
}

void LogWriter::Work() {
  MutexLock lock(&mu_);
  for (;;) {
    while (ready_.empty() && !stopping_) ready_changed_.Wait(&mu_);
    if (ready_.empty()) return;
    const Uuid log = ready_.front();
    ready_.pop_front();
    Group group = std::exchange(queued_.at(log), {});
    size_t bytes = 0;
    for (const Waiting& w : group) bytes += w.bytes.size();
    mu_.Unlock();
    const Outcome outcome = Write(log, group);
    for (Waiting& w : group) w.done(outcome);
    group.clear();
    mu_.Lock();
    queued_bytes_ -= bytes;
    const auto it = queued_.find(log);
    if (it->second.empty()) {
      queued_.erase(it);
    } else {
      ready_.push_back(log);  // behind the others
      ready_changed_.Signal();
    }
  }
}

Outcome LogWriter::Write(const Uuid& log, const Group& group) {
  // A log belongs to one epoch of one range: whoever says otherwise of it gets the same answer as all.
  const Creator creator{group.front().range, group.front().epoch};
  std::vector<FileStore::LogPiece> pieces;
  bool sync = false;
  for (const Waiting& w : group) {
    if (w.range != creator.range || w.epoch != creator.epoch) return Outcome::kInvalidArgument;
    pieces.push_back({w.offset, w.bytes});
    sync |= w.sync;
  }
  const FenceTable::Scope scope(fences_, creator.range, creator.epoch);
  if (!scope.entered()) return Outcome::kNotOwner;
  appends_->Add(group.size());
  groups_->Add();
  if (sync) syncs_->Add();
  const Nanos begin = Now();
  const Status status = files_->WriteLog(log, creator, pieces, sync);
  sync_ns_->Add(static_cast<uint64_t>(Now() - begin));
  if (!status.ok()) NOVA_LOG(WARNING) << "range " << creator.range.value() << ": " << status;
  return ToOutcome(status);
}

}  // namespace nova
