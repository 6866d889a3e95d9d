// RangeLog: the log of one range at one epoch, as the engine sees it.
//
// Each (memtable round, request thread) has a log of its own, bound for life to that thread, which alone
// posts to it (one writer, L2). Records that a thread appends to one log in one turn of its loop go out as
// one WRITE, or one message, for each member of the group (group commit without waiting).
//
// Implementations: mode none (NewNullLog); modes memory, persistent and both on StoCs (logc/log_client.h);
// local persistent (logc/local_log.h).
//
// Thread safety: Append on the executor `on` only; the others from any thread.
// Ownership: entries, keys and values are copied before Append returns.
// Errors: of `done`: kOk: every member has the record (write-all, L3). kBusy: it was sent nowhere, for no
//   StoC has had memory for it for a while (deadline, L5). kNotOwner: fenced, the range is lost:
//   no put of this epoch can be acknowledged any more, and this record, posted or not, may be found by the
//   next owner's recovery: to whoever asked for the write it is kUnknown. Others only from a local log whose
//   disk failed: kNoSpace, kUnavailable: not in the log; kUnknown: perhaps. On StoCs a failed member is
//   replaced (group change, L4), and the record goes on.
#pragma once

#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "common/base/executor.h"
#include "common/base/ids.h"
#include "common/base/keys.h"
#include "common/base/outcome.h"
#include "common/base/status.h"

namespace nova {

// The number of a round: sibling memtables that seal and flush together. It is the lowest sequence number
// that the round can hold, and so orders the rounds of a range (recency order, K3).
using RoundNumber = uint64_t;

inline constexpr size_t kMaxLogEntries = UINT16_MAX;  // of one record

// One write in a record.
struct LogEntry {
  MemTableId memtable;  // for replay: done memtables (M3) are skipped
  ValueType type = ValueType::kPut;
  std::string_view key;    // stored key
  std::string_view value;  // of kDeleteRange: the stored key behind the last one
};

// One write or one batch.
struct LogRecord {
  RoundNumber round = 0;              // whose log it goes to
  SequenceNumber first_sequence = 0;  // of the first entry
  uint64_t client_id = 0;  // with request_number: which request it was (no write twice, A1); 0: unknown
  uint64_t request_number = 0;
  // Of persistent logs. True: acknowledged once it would survive a loss of power. False: once it would
  // survive the death of all processes.
  bool sync = false;
  // Entry i has number first_sequence + i; at most kMaxLogEntries. A batch is one record (atomicity, K6).
  std::span<const LogEntry> entries;
};

class RangeLog {
 public:
  virtual ~RangeLog() = default;
  // Posts the record soon, at the latest at the end of the executor's turn. `done` runs on `on`, in order of
  // append for each log; a local log, one of mode none and one that is fenced already call it before Append
  // returns. kOk:
  // taken. Else nothing was done, and `done` is not called. kBusy: there is no log memory now. kNoSpace:
  // earlier records have been waiting for full disks for a while.
  virtual Outcome Append(Executor* on, const LogRecord& record, absl::AnyInvocable<void(Outcome)> done) = 0;
  // Frees the round's logs at all members. Call once an acknowledged edit names every memtable of the round
  // as done (done memtables, M3).
  virtual void DeleteRound(RoundNumber round) = 0;
  // The epoch is over: every record under way and every later one ends with kNotOwner. One that every member
  // has may still end with kOk: it is in the log, whoever owns the range now (L3).
  virtual void Fence() = 0;
  virtual size_t bytes_in_flight() const = 0;  // of records appended and not ended
  // Waits until every record acknowledged so far survives as much as one with `sync`.
  virtual Status Sync() { return OkStatus(); }
  // A record without `sync` may be lost where one with it is not, so flushes must take care of it.
  virtual bool sync_matters() const = 0;
  // False: it keeps nothing (mode none), so rounds may stay in memory without a log growing.
  virtual bool keeps_records() const { return true; }
};

// Mode none: every record is acknowledged at once and kept nowhere.
std::unique_ptr<RangeLog> NewNullLog();

}  // namespace nova
