// LogFiles: the logs among a store's files, and the journal that makes the latest bytes of many of them
// durable at once (log_journal.h). A log is the file {its uuid, 0}.
//
// A log's writer says where its bytes go, and when they are to be synced. It takes bytes only from the
// process that created it: after a restart its tail is not known to be what its writer thinks, who then goes
// on in a new one (a torn tail is the reader's to cut).
//
// Thread safety: all; waits for the disk.
//                Lock order: the journal's, a log's sync_mu, its append_mu, StoredFiles'.
// Ownership:     the disk, the StoreDirectory and the StoredFiles outlive it.
// Errors:        Unavailable: not open here; DataLoss: the disk failed, or the log is bad (bad file, S1);
//                ResourceExhausted.
#pragma once

#include <atomic>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/mutex.h"
#include "stoc/log_journal.h"
#include "stoc/stored_files.h"

namespace nova {

class LogFiles {
 public:
  LogFiles(Disk* disk, const LogJournalOptions& options, StoreDirectory* directory, StoredFiles* files);
  ~LogFiles();

  // --- at start
  // When the files are loaded: puts back what the journal holds, and begins a new one. If that fails, what is
  // left of a log must not pass for all of it: other copies have to serve, until a seal of it succeeds.
  void OpenJournal();

  // Durable and empty; OK also when this process has made it before.
  Status CreateLog(const Uuid& log, const Creator& creator);
  // Bytes, each where it belongs; `sync`: durable when it is OK, with all that was written to that log
  // before.
  struct LogPiece {
    uint64_t offset = 0;
    std::string_view bytes;
  };
  struct LogWrite {
    Uuid log;
    Creator creator;
    std::vector<LogPiece> pieces;
    bool sync = false;
  };
  // Logs, each at most once: those that ask are made durable together. What became of each; Unavailable: not
  // open here.
  std::vector<Status> WriteLogs(std::span<const LogWrite> writes);
  // Revocation (F1): closes the range's logs of epochs below `epoch`; all of them. No WriteLog of theirs is
  // inside, nor will be. Tries again what the start could not do for them: until then their size is
  // kUnknownSize, and reads of them are DataLoss.
  std::vector<SealedLogFile> SealLogs(RangeId range, Epoch epoch);
  bool HasLogs(RangeId range, Epoch epoch_below) const { return files_->HasLogsOf(range, epoch_below); }
  // Deletes the range's logs of epochs below `epoch_below`.
  Status DeleteLogs(RangeId range, Epoch epoch_below);

 private:
  // Writes what the journal holds into the logs' files, and syncs them.
  Status PutJournalBack() ABSL_EXCLUSIVE_LOCKS_REQUIRED(journal_mu_);
  // The disk may have been full at the start, and have room now.
  void PutJournalBackLate();
  // The log that it is, written to and not synced.
  StatusOr<StoredFiles::File> WriteLog(const LogWrite& write);
  // All that was written to the log before, in its own file. It is appended to meanwhile.
  Status SyncLog(StoredFile* log);

  Disk* const disk_;
  const LogJournalOptions options_;
  StoreDirectory* const directory_;
  StoredFiles* const files_;

  // The start could not put the journal back, nor anybody since.
  std::atomic<bool> journal_waits_{false};
  Mutex journal_mu_;  // one use of the journal at a time; held over the disk's work
  // Before that PutJournalBackLate does not try again.
  Nanos next_put_back_ns_ ABSL_GUARDED_BY(journal_mu_) = 0;
  // Null: the one there is could not be put back, and is left as it is. The first to go: it calls back.
  std::unique_ptr<LogJournal> journal_;
};

}  // namespace nova
