// LogJournal: makes the latest bytes of many logs durable by one sync, where each log's own file would take
// one of its own (group commit over files, as a file system that journals data does).
//
// What is appended here was written to its log's file too, and not synced there. When a half of the journal
// is to be used again, the logs whose bytes it holds are synced in their own files first, by a thread of the
// journal's; after a crash the bytes are put back (Replay). At one place of a log there is only ever one
// content, so that to put back more than was lost changes nothing.
//
//   journal-0, journal-1   halves, used in turn:   header | record | record | ...
//   header (64 bytes)      "novajrn1" | fixed64 uuid hi | fixed64 uuid lo | u32 crc32c of the 24 bytes
//                          before | zeros
//   record                 u32 crc | u32 bytes | fixed64 log hi | fixed64 log lo | fixed64 offset |
//                          the bytes | zeros up to 8
//
// A half gets a new uuid each time it is begun. The crc is CRC-32C of the uuid and of the record behind the
// crc, so that what an earlier use left behind is no record of this one. The first record that is none ends
// the half: torn, it was not acknowledged.
//
// Thread safety: Append: one thread at a time; the rest any.
// Locks:         its own, a leaf, not held while the disk is asked or a log is synced.
// Ownership:     the disk outlives it.
// Errors:        of Append: nothing may be taken for durable; ResourceExhausted: no room, later ones may do;
//                else the journal takes no more in this process (bad file, S1), and is not used again before
//                it was replayed.
#pragma once

#include <array>
#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>

#include "common/base/disk.h"
#include "common/base/ids.h"
#include "common/base/mutex.h"
#include "common/base/status.h"
#include "common/base/thread.h"

namespace nova {

struct LogJournalOptions {
  uint64_t half_bytes = 32 << 20;
  uint64_t zero_ahead_bytes = 4 << 20;  // written beforehand, so that a sync need not grow the file
  uint64_t batch_bytes = 1 << 20;       // of one Append, at most: more is better synced where it is
};

class LogJournal {
 public:
  struct Piece {
    Uuid log;
    uint64_t offset = 0;
    std::string_view bytes;
  };
  static size_t RecordBytes(const Piece& piece);

  // Every whole piece of both halves, in no order, to `put`. The caller makes them durable before it makes a
  // LogJournal.
  static Status Replay(Disk* disk, const std::function<Status(const Piece&)>& put);
  // What Replay gave is durable where it belongs: no later start puts it back over what a person has made of
  // a damaged log since.
  static Status Forget(Disk* disk);

  // `sync` makes a log's own file durable; OK too when there is none any more.
  LogJournal(Disk* disk, const LogJournalOptions& options, std::function<Status(const Uuid&)> sync);
  ~LogJournal();

  // Durable when it returns OK. The records take no more than batch_bytes.
  Status Append(std::span<const Piece> pieces);

 private:
  struct Half {
    std::set<Uuid> logs;  // that have bytes in it, and were perhaps not synced since
    bool clean = true;    // may be begun anew
  };

  // Goes on in the other half, once that is clean: waits for the cleaner. The name of a new file is synced
  // here, its header with its first records.
  Status Begin();
  // Sees to it that `size` bytes fit into the half, and that its file is as long: writes zeros ahead.
  Status MakeRoom(size_t size);
  // The body of thread stoc.journal.0: syncs the logs of a half that is full. Where one cannot be synced the
  // half is kept as it is, for it alone has what that log's own file lacks.
  void Clean();

  Disk* const disk_;
  const LogJournalOptions options_;
  const std::function<Status(const Uuid&)> sync_;
  std::atomic<bool> broken_{false};  // takes no more in this process

  // Of the half that is being filled; the appender's.
  std::unique_ptr<DiskFile> file_;  // null before the first Append
  Uuid uuid_;                       // of this use of the half
  uint64_t end_ = 0;                // of its records
  uint64_t allocated_ = 0;          // of its file, zeros included
  std::string buffer_;              // of the records of one Append

  Mutex mu_;
  CondVar changed_;  // signalled when a half is full, or clean, and by the destructor; with mu_
  std::array<Half, 2> halves_ ABSL_GUARDED_BY(mu_);
  size_t filling_ ABSL_GUARDED_BY(mu_) = 1;              // valid once file_ is there
  std::optional<size_t> to_clean_ ABSL_GUARDED_BY(mu_);  // the half that is full
  bool stopping_ ABSL_GUARDED_BY(mu_) = false;
  std::unique_ptr<Thread> cleaner_;
};

}  // namespace nova
