// RangeLog: the log of one range at one epoch, as the engine sees it; the LogSink seam of the design.
//
// Each (memtable round, request thread) has a log of its own, bound for life to that thread, which alone
// posts to it (one writer, L2). What a thread appends to one log in one round of its loop goes out as one
// WRITE, or one message, per replica (group commit without waiting).
//
// Implementations: mode none (NewNullLog), modes memory, persistent and both on StoCs (logc/log_client.h),
// local persistent (logc/local_log.h).
//
// Thread safety: Append and Flush on the executor `on` only; the others from any thread.
// Ownership:     entries, keys and values are copied before Append returns.
// Errors:        done(kOk): delivered at every member (write-all, L3). done(kNotOwner): fenced, the range is
//                lost: no put of this epoch can be acknowledged any more. Others only from a local log, whose
//                disk failed: kNoSpace, kUnavailable: not in the log; kUnknown: perhaps. On StoCs a failed
//                member is replaced (group change, L4), and the record goes on.
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

// A round of sibling memtables that seal and flush together; its number orders it in its range (recency
// order, K3).
using RoundNumber = uint64_t;

inline constexpr size_t kMaxLogEntries = UINT16_MAX;

struct LogEntry {
  MemTableId memtable;
  ValueType type = ValueType::kPut;
  std::string_view key;  // stored key
  std::string_view value;
};

struct LogRecord {
  RoundNumber round = 0;
  SequenceNumber first_sequence = 0;
  uint64_t client_id = 0;
  uint64_t request_number = 0;
  // persistent modes: acknowledged when it would survive a loss of power, else the death of processes
  bool sync = false;
  // entry i has first_sequence + i; at most kMaxLogEntries (atomicity, K6: a batch is one record)
  std::span<const LogEntry> entries;
};

class RangeLog {
 public:
  virtual ~RangeLog() = default;
  // Posts soon (at the latest at the end of the executor's round); done runs on `on`, in append order per
  // log.
  // False: out of log memory for now, nothing was done: the caller answers Busy.
  virtual bool Append(Executor* on, const LogRecord& record, absl::AnyInvocable<void(Outcome)> done) = 0;
  // Done memtables (M3): every memtable of the round is named done by an acknowledged edit: its logs are
  // freed at all members.
  virtual void DeleteRound(RoundNumber round) = 0;
  // The epoch is over: every pending and later record ends with kNotOwner.
  virtual void Fence() = 0;
  virtual size_t bytes_in_flight() const = 0;
  // Every record that was acknowledged survives what one with `sync` survives. Waits.
  virtual Status Sync() { return OkStatus(); }
  // A record without `sync` may be lost where one with it is not.
  virtual bool sync_matters() const = 0;
  // Rounds that stay in memory for long keep logs for long.
  virtual bool keeps_records() const { return true; }
};

std::unique_ptr<RangeLog> NewNullLog();

}  // namespace nova
