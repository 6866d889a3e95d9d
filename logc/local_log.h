// LocalLog: mode persistent on the local disk: the log of embedded mode (durability, D).
//
// One file for each (memtable round, caller lane), written by the lane's holder alone (one writer, L2), and
// one for the round's synced records, which any lane brings and whoever comes first writes and syncs for all
// that wait (group commit). Recycled once the round is flushed: overwriting a file that is there is cheaper
// to sync than growing one. A record is acknowledged when it is written, and, with `sync`, when it and every
// record acknowledged before it are synced.
//
//   file      header | record | record | ...                       records as in log_record.h
//   header    "novalog1" | fixed64 uuid hi | fixed64 uuid lo | fixed64 epoch | u32 crc32c of the 32 bytes
//             before | fixed64 boot hi | fixed64 boot lo (Disk::Boot of its making; nil: not known) |
//             12 zeros
//
// A record's marks: acknowledged: it was written, and synced if it was to be; synced: a sync of the file that
// began after it has ended. As long as the machine has not been started again nothing that was written may be
// missing (log_copies.h: kWritten).
//
// Thread safety, ownership: as RangeLog's.
// Errors of Append: kNoSpace, kUnavailable: the file could not be written, nothing is in the log; kUnknown:
// it was perhaps written, and not synced. It is a bad file (S1) from then on, and the next record goes
// to another; unsynced records that were acknowledged before from that file are as safe as they were: a later
// sync does not cover them.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "common/base/disk.h"
#include "common/log/range_log.h"
#include "logc/log_copies.h"

namespace nova {

struct LocalLogOptions {
  size_t lanes = 1;  // Executor::index() < lanes
  // of synced logs: written beforehand, so that a sync need not grow the file
  uint64_t zero_ahead_bytes = 1 << 20;
  size_t keep_files = 16;  // retired files kept for reuse
  size_t max_group = 256;  // records synced together
  // Beyond it files that no lane writes any more are closed, the oldest first, and synced for that: an error
  // of the disk that comes after would not be heard of. What lanes write stays open.
  size_t most_open_files = 512;
};

// `disk` outlives it. The files of older epochs are left alone.
std::unique_ptr<RangeLog> NewLocalLog(Disk* disk, Epoch epoch, const LocalLogOptions& options);

// What all log files hold (read, R3), each as far as it is whole. DataLoss: a file is damaged, and holds what
// is needed: the text says where, and how to open without what is lost.
StatusOr<RecoveredLogs> ReadLocalLogs(Disk* disk, const MemTableDone& done);
// Deletes the files of epochs below `epoch` (free, R6): what they hold is in tables.
Status DeleteLocalLogs(Disk* disk, Epoch epoch);

}  // namespace nova
