// The operations of a range: their arguments, and the functions that are called with their results. Keys are
// stored keys.
//
// Thread safety: plain values.
// Ownership: each operation says how long the bytes that it views have to live.
// Errors: outcomes; those of each operation are with the part that does it.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "common/base/clock.h"
#include "common/base/entry_page.h"
#include "common/base/keys.h"
#include "common/base/outcome.h"
#include "ltc/engine/snapshot.h"

namespace nova {

class ScanCursor;  // ltc/engine/scan_cursor.h

// A put, a deletion or a range deletion.
struct WriteEntry {
  ValueType type = ValueType::kPut;
  std::string_view key;    // of kDeleteRange: the first key deleted
  std::string_view value;  // of kDeleteRange: the key behind the last one
  int64_t ttl_ms = 0;      // of kPutTtl: milliseconds until its expiry (K7), from when the range takes it
};
// One entry, or a batch (K6): one log record, consecutive numbers, visible together to scans and snapshots. A
// later entry of a key hides an earlier one.
struct WriteOp {
  std::span<const WriteEntry> entries;  // at least one; they and the bytes they view are valid during Write
  uint64_t client_id = 0;  // with request_number: in the log record, for no write twice (A1); 0: none
  uint64_t request_number = 0;
  Nanos deadline_ns = kNever;
  bool sync = false;  // see LogRecord::sync
};
using WriteDone = absl::AnyInvocable<void(Outcome)>;
// `value`, valid during the call, is the key's value if the outcome is kOk. Of kUnavailable and kCorruption
// it says for people which table failed, and why; it may be empty.
using GetDone = absl::AnyInvocable<void(Outcome, std::string_view value)>;

// Until when a read waits for tables: an eighth of its time is left for the answer to travel, so that whoever
// asked is told why it failed.
inline Nanos WaitsUntil(Nanos deadline_ns, Nanos now) {
  return deadline_ns == kNever || deadline_ns <= now ? deadline_ns : deadline_ns - (deadline_ns - now) / 8;
}

// Writes `desired` if the key's value is `expected` (compare and swap, K6).
struct CompareAndSwapOp {
  std::string key;
  std::optional<std::string> expected;  // none: the key must have no value
  std::optional<std::string> desired;   // none: the key is deleted
  uint64_t client_id = 0;
  uint64_t request_number = 0;
  Nanos deadline_ns = kNever;
  bool sync = false;
};

// Null unless the outcome is kOk.
using SnapshotDone = absl::AnyInvocable<void(Outcome, std::shared_ptr<Snapshot>)>;
// A value for each key, in the keys' order; none: not found. `why`: as GetDone's, of the last key that
// failed.
using MultiGetDone =
    absl::AnyInvocable<void(Outcome, std::vector<std::optional<std::string>> values, std::string_view why)>;

// The keys in [from, to), ascending, or in reverse descending.
struct ScanOp {
  std::string from;    // may lie outside the range
  std::string to;      // empty: to the end of the range
  uint32_t limit = 0;  // entries, at least 1
  Nanos deadline_ns = kNever;
  std::shared_ptr<const Snapshot> snapshot = nullptr;  // null: now
  bool reverse = false;                                // from the largest key below `to` down to `from`
  uint64_t page_bytes = UINT64_MAX;                    // a page ends there, if not before
  // Of a scan at a snapshot: keeps the place where the page ends, for the next page of the same scan: its
  // `from`, in reverse its `to`, is where the last page ended, and all else but its size is as it was.
  // Outlives the call; null: none.
  ScanCursor* cursor = nullptr;
  bool may_refer = false;  // the page may refer to values in mapped tables, instead of copies of them
};
// A part of a scan's result.
struct ScanPage {
  std::string entries;  // as EntryPage's bytes
  uint32_t count = 0;
  ReferredValues referred = {};
  bool more = false;  // it is full, and there may be more: go on after its last key, in reverse below it
  std::string why;    // of a scan that failed, for people: which table, and why; may be empty
};
using ScanDone = absl::AnyInvocable<void(Outcome, ScanPage)>;

}  // namespace nova
