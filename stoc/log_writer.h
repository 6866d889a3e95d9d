// LogWriter: group commit of the logs in files. One thread takes all appends that have come, of all logs, has
// them written and made durable together, and answers all, while the next come together.
//
// Revocation (F1): appends of a fenced epoch are refused when their work begins; while it is under way a
// FENCE waits.
//
// Thread safety: all; `done` runs on the writer's thread, once.
// Locks:         its own, a leaf, not held while a batch is written.
// Ownership:     LogFiles and FenceTable outlive it; bytes are copied.
// Errors:        false: too much is queued. Outcomes: kNotOwner: fenced; kUnavailable: the log is not open
//                here; kNoSpace; kCorruption: the disk failed, and the log is a bad file (S1).
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "common/base/metrics.h"
#include "common/base/mutex.h"
#include "common/base/outcome.h"
#include "common/base/thread.h"
#include "stoc/fence_table.h"
#include "stoc/log_files.h"
#include "stoc/protocol.h"

namespace nova {

struct LogWriterOptions {
  size_t queued_bytes = 256 << 20;  // and being written
};

class LogWriter {
 public:
  LogWriter(const LogWriterOptions& options, LogFiles* files, FenceTable* fences, Metrics* metrics);
  ~LogWriter();  // as Stop

  // Queues the bytes. `done` gets the outcome once they are written, and synced if the request says so.
  bool Append(const AppendLogRequest& request, absl::AnyInvocable<void(Outcome)> done);
  void Stop();  // finishes what is queued
  // Appends are queued, or being written.
  bool HasWork() {
    MutexLock lock(&mu_);
    return queued_bytes_ > 0;
  }

 private:
  struct Waiting {  // an append that is queued
    RangeId range;
    Epoch epoch;
    uint64_t offset = 0;  // in the log's file
    bool sync = false;
    std::string bytes;
    absl::AnyInvocable<void(Outcome)> done;
  };
  using Group = std::vector<Waiting>;   // of one log
  using Batch = std::map<Uuid, Group>;  // by log

  void Work();  // the body of thread stoc.log.0
  // Writes a batch, syncs it if any append asks for it, and answers each.
  void Write(Batch* batch);

  const LogWriterOptions options_;
  LogFiles* const files_;
  FenceTable* const fences_;
  Counter* const appends_;
  Counter* const batches_;
  Counter* const syncs_;  // batches with one that asks for it
  Histogram* const batch_ns_;

  Mutex mu_;
  CondVar changed_;  // signalled when something is queued, and by Stop; with mu_
  Batch queued_ ABSL_GUARDED_BY(mu_);
  size_t queued_bytes_ ABSL_GUARDED_BY(mu_) = 0;  // and being written
  bool stopping_ ABSL_GUARDED_BY(mu_) = false;
  std::unique_ptr<Thread> thread_;
};

}  // namespace nova
