// LogWriter: group commit of the logs in files. Appends queue by log; one thread at a time works on a log: it takes all that has come,
// writes it, syncs once if one of them asks, and answers all, while the next group comes together.
//
// F1: a group of a fenced epoch is refused when its work begins; while it is under way a FENCE waits.
//
// Thread safety: all; `done` runs on a thread of the writer's, once.
// Ownership:     FileStore and FenceTable outlive it; bytes are copied.
// Errors:        false: too much is queued. Outcomes: kNotOwner: fenced; kUnavailable: the log is not open here; kNoSpace;
//                kCorruption: the disk failed, and the log is bad (S1).
#pragma once

#include <deque>
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
#include "stoc/file_store.h"
#include "stoc/protocol.h"

namespace nova {

struct LogWriterOptions {
  int threads = 4;                   // logs that are synced at a time
  size_t queued_bytes = 256 << 20;   // and being written
};

class LogWriter {
 public:
  LogWriter(const LogWriterOptions& options, FileStore* files, FenceTable* fences, Metrics* metrics);
  ~LogWriter();  // as Stop

  bool Append(const AppendLogRequest& request, absl::AnyInvocable<void(Outcome)> done);
  void Stop();  // finishes what is queued

 private:
  struct Waiting {
    RangeId range;
    Epoch epoch;
    uint64_t offset = 0;
    bool sync = false;
    std::string bytes;
    absl::AnyInvocable<void(Outcome)> done;
  };
  using Group = std::vector<Waiting>;

  void Work();
  Outcome Write(const Uuid& log, const Group& group);

  const LogWriterOptions options_;
  FileStore* const files_;
  FenceTable* const fences_;
  Counter* const appends_;
  Counter* const groups_;
  Counter* const syncs_;
  Histogram* const sync_ns_;

  Mutex mu_;
  CondVar ready_changed_;
  std::map<Uuid, Group> queued_ ABSL_GUARDED_BY(mu_);  // of logs that are ready, or being worked on
  std::deque<Uuid> ready_ ABSL_GUARDED_BY(mu_);
  size_t queued_bytes_ ABSL_GUARDED_BY(mu_) = 0;
  bool stopping_ ABSL_GUARDED_BY(mu_) = false;
  std::vector<std::unique_ptr<Thread>> threads_;
};

}  // namespace nova
