// The operations of a range: what is asked, and what is called with the answer. Keys are stored keys.
//
// Thread safety: values.   Ownership: each operation says how long what it views has to live.
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
#include "common/base/keys.h"
#include "common/base/outcome.h"
#include "ltc/engine/snapshot.h"

namespace nova {

struct WriteEntry {
  ValueType type = ValueType::kPut;
  std::string_view key;    // of kDeleteRange: the first key deleted
  std::string_view value;  // of kDeleteRange: the key behind the last one
  int64_t ttl_ms = 0;      // of kPutTtl: its expiry (K7), from when the range takes it
};
// One entry, or a batch (K6): one log record, consecutive numbers, visible together to scans and snapshots. A
// later entry of a key hides an earlier one.
struct WriteOp {
  std::span<const WriteEntry> entries;  // at least one; they and what they view are valid during Write
  uint64_t client_id = 0;
  uint64_t request_number = 0;
  Nanos deadline_ns = kNever;
  bool sync = false;  // LogRecord::sync
};
using WriteDone = absl::AnyInvocable<void(Outcome)>;
// the view is valid during the call
using GetDone = absl::AnyInvocable<void(Outcome, std::string_view value)>;

// Writes `desired` if the key's value is `expected`; null: that there is none (K6).
struct CompareAndSwapOp {
  std::string key;
  std::optional<std::string> expected;
  std::optional<std::string> desired;
  uint64_t client_id = 0;
  uint64_t request_number = 0;
  Nanos deadline_ns = kNever;
  bool sync = false;
};

using SnapshotDone = absl::AnyInvocable<void(Outcome, std::shared_ptr<Snapshot>)>;
// one a key, in their order
using MultiGetDone = absl::AnyInvocable<void(Outcome, std::vector<std::optional<std::string>>)>;

struct ScanOp {
  std::string from;  // first key wanted
  std::string to;    // keys below it; empty: to the end of the range
  uint32_t limit = 0;
  Nanos deadline_ns = kNever;
  std::shared_ptr<const Snapshot> snapshot = nullptr;  // null: now
  bool reverse = false;                                // from the largest key below `to` down to `from`
};
struct ScanPage {
  std::string entries;  // n x (varint key size, key, varint value size, value)
  uint32_t count = 0;
  bool more = false;  // the page is full; go on after the last key, in reverse below it
};
using ScanDone = absl::AnyInvocable<void(Outcome, ScanPage)>;

}  // namespace nova
