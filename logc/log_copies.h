// LogCopies: one log, read back from as many copies as it takes (read, R3): memory segments, files, of one
// StoC or several, or a local file.
//
// What counts is the longest sequence of records, dense in lsn, each from whichever copy has it whole. Where
// it ends for want of a record there may be nothing behind; or the writer died over an append whose parts
// landed out of order; or a record that was acknowledged is damaged. The last must not pass for one of the
// others, or acknowledged writes would be lost without a word. What tells them apart are the marks of the
// whole records behind the hole (log_record.h), which are searched for to the end of each copy: a record that
// says "acknowledged up to" the missing one, or further, was built when that one was in every copy. Which
// mark a copy's records are asked for depends on what the copy may lose and not be damaged:
//   kWritten   nothing: memory of a living process; a file of a machine that was not started again since
//   kSynced    what was not synced: any other file
// A hole that no mark contradicts is the end of the log, as ever; whole records behind it are told of in a
// warning.
//
// Not to be told: damage to the newest records that were acknowledged, for none behind them says so; and a
// file cut short. Other copies have them (where no copy in memory is read, all files are).
// docs/durability.md says what bounds it.
//
// A log all of whose records belong to memtables that are done (done memtables, M3) proves nothing: its room
// may be in use again, in part, by another.
//
// Thread safety: none.   Ownership: of the bytes, with what was read of them; `done` outlives it.
// Errors: DataLoss: an acknowledged record is in no copy, or one that is whole is not understood.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "common/log/recovered_logs.h"
#include "logc/log_record.h"

namespace nova {

// M3: replay skips the entries of that memtable.
using MemTableDone = std::function<bool(MemTableId)>;

class LogCopies {
 public:
  // Which records a copy may lose without being damaged: see the head of this file.
  enum class Keeps { kWritten, kSynced };
  // Part of a copy, in order: a segment, or the file.
  struct Piece {
    std::string where;  // in an error: "segment 0 on stoc-3"
    std::string bytes;
    size_t first = 0;  // where records begin in it
  };

  LogCopies(const Uuid& log, const MemTableDone& done) : log_(log), done_(done) {}
  // Reads one more copy: its pieces in the order in which the log was written to them.
  void Add(Keeps keeps, std::vector<Piece> pieces);

  // An acknowledged record is in no copy so far; another copy may have it.
  bool damaged() const;
  // Some record holds what is in no table yet (done memtables, M3). What is not understood is needed, too.
  bool needed() const;
  // A copy by itself.
  struct Held {
    uint64_t prefix = 0;  // the lsn up to which it is whole
    uint64_t mark = 0;    // and up to which, as its records say, each copy has what this one may not lose
  };
  std::vector<Held> held() const;  // of each copy, in the order in which they were added
  // The entries, appended to `out`. DataLoss when damaged(): one line.
  Status Read(RecoveredLogs* out) const;
  // Where the first copy is not whole any more, itself: a place in its last piece that is.
  uint64_t end_of_first() const { return copies_.front().end; }

 private:
  struct Copy : Held {
    std::string where;  // where its prefix ends
    uint64_t end = 0;   // the same, as a place in its last piece
  };
  // The lowest lsn of which no copy has the record.
  uint64_t FirstMissing() const;

  const Uuid log_;
  const MemTableDone& done_;
  std::vector<std::shared_ptr<const std::string>> bytes_;  // of all pieces; records_ view them
  std::vector<WholeLogRecord> records_;                    // [lsn - 1]; without bytes: in no copy
  std::vector<Copy> copies_;                               // in the order in which they were added
};

}  // namespace nova
