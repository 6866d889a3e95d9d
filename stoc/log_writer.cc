#include "stoc/log_writer.h"

#include <algorithm>
#include <list>
#include <utility>

#include "common/base/log.h"

namespace nova {

LogWriter::LogWriter(const LogWriterOptions& options, LogFiles* files, FenceTable* fences, Metrics* metrics)
    : options_(options),
      files_(files),
      fences_(fences),
      appends_(metrics->counter("nova_stoc_log_appends_total")),
      batches_(metrics->counter("nova_stoc_log_batches_total")),
      syncs_(metrics->counter("nova_stoc_log_syncs_total")),
      batch_ns_(metrics->histogram("nova_stoc_log_batch_ns")) {
  thread_ = std::make_unique<Thread>("stoc.log.0", [this] { Work(); });
}

LogWriter::~LogWriter() { Stop(); }

void LogWriter::Stop() {
  {
    MutexLock lock(&mu_);
    stopping_ = true;
    changed_.SignalAll();
  }
  thread_->Join();
}

bool LogWriter::Append(const AppendLogRequest& request, absl::AnyInvocable<void(Outcome)> done) {
  MutexLock lock(&mu_);
  if (stopping_ || queued_bytes_ + request.bytes.size() > options_.queued_bytes) return false;
  queued_bytes_ += request.bytes.size();
  if (queued_.empty()) changed_.Signal();
  queued_[request.log].push_back({request.range, request.epoch, request.offset, request.sync,
                                  std::string(request.bytes), std::move(done)});
  return true;
}

void LogWriter::Work() {
  MutexLock lock(&mu_);
  for (;;) {
    while (queued_.empty() && !stopping_) changed_.Wait(&mu_);
    if (queued_.empty()) return;
    Batch batch = std::exchange(queued_, {});
    size_t bytes = 0;
    for (const auto& [log, group] : batch) {
      for (const Waiting& w : group) bytes += w.bytes.size();
    }
    mu_.Unlock();
    Write(&batch);
    batch.clear();
    mu_.Lock();
    queued_bytes_ -= bytes;
  }
}

void LogWriter::Write(Batch* batch) {
  const Nanos begin = Now();
  std::list<FenceTable::Scope> inside;
  std::vector<LogFiles::LogWrite> writes;
  std::vector<Group*> written;
  const auto answer = [](Group* group, Outcome outcome) {
    for (Waiting& w : *group) w.done(outcome);
  };
  for (auto& [log, group] : *batch) {
    appends_->Add(group.size());
    // A log belongs to one epoch of one range: whoever says otherwise of it gets the same answer as all.
    const Creator creator{group.front().range, group.front().epoch};
    LogFiles::LogWrite write{log, creator, {}, false};
    bool same = true;
    for (const Waiting& w : group) {
      same &= w.range == creator.range && w.epoch == creator.epoch;
      write.pieces.push_back({w.offset, w.bytes});
      write.sync |= w.sync;
    }
    if (!same) {
      answer(&group, Outcome::kInvalidArgument);
    } else if (!inside.emplace_back(fences_, creator.range, creator.epoch).entered()) {
      answer(&group, Outcome::kNotOwner);
    } else {
      writes.push_back(std::move(write));
      written.push_back(&group);
    }
  }
  batches_->Add();
  if (std::any_of(writes.begin(), writes.end(), [](const auto& w) { return w.sync; })) syncs_->Add();
  const std::vector<Status> outcomes = files_->WriteLogs(writes);
  batch_ns_->Add(static_cast<uint64_t>(Now() - begin));
  for (size_t i = 0; i < written.size(); ++i) {
    if (!outcomes[i].ok())
      NOVA_LOG(WARNING) << "range " << writes[i].creator.range.value() << ": " << outcomes[i];
    answer(written[i], ToOutcome(outcomes[i]));
  }
}

}  // namespace nova
