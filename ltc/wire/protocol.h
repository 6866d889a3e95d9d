// Requests of clients to an LTC, and their replies. Keys are stored keys (keys.h). A body is the list of a
// message's fields (common/base/fields.h), or is written and read here, where a flag says what follows.
//
// type   request         body | reply
// 0x201  Put             range epoch client_id request_number u16 key_size u16 flags [ttl_ms] key value | -
// 0x202  Delete          the same, no ttl_ms and no value | -
// 0x203  Get             range epoch snapshot key | value
// 0x204  Scan            range epoch snapshot u32 limit u8 flags u16 from_size u16 to_size from to |
//                        u32 count u8 more entries
// 0x205  Batch           range epoch client_id request_number u32 count entries | -
// 0x206  CompareAndSwap  range epoch client_id request_number u16 key_size u8 flags u32 expected_size key
//                        expected desired | -
// 0x207  MultiGet        range epoch snapshot u32 count n x (varint32 key size, key) | u32 count answers
// 0x208  TakeSnapshot    range epoch u32 lease_ms | snapshot
// 0x209  RenewSnapshot   range epoch snapshot u32 lease_ms | -
// 0x20a  DropSnapshot    range epoch snapshot | -
// 0x20b  DeleteRange     as Put, no ttl_ms; key: the first one deleted, value: the one behind the last | -
// 0x20c  BeginScan       range epoch u32 lease_ms u32 limit u8 beyond_limit u8 reverse varint32 from_size
//                        from to | snapshot u32 count u8 more entries
// 0x210  Checkpoint      range epoch u8 verb name | checkpoints
//
// range, epoch, client_id, request_number, snapshot and ttl_ms are u64; snapshot 0 is now. An LTC that does
// not hold the range at that epoch answers kNotOwner and did nothing; kSnapshotEnded: it knows no such
// snapshot of the range, or its lease is over.
//
// Put, Delete, DeleteRange: flags 1: ttl_ms is there (expiry, K7); 2: no sync: of a persistent log,
// acknowledged when written (durability, D).
// Scan: flags 1: reverse: the keys below `to` (empty: the end) in descending order, down to `from`. Entries
// are n x (varint32 key size, key, varint32 value size, value); more = the page is full: go on after its last
// key.
// BeginScan: a Scan at a snapshot (K4) that the LTC takes before it reads. If the page is full, or has
// `limit` entries and beyond_limit is set, the reply has the snapshot's id, as of TakeSnapshot, for the pages
// that follow; else 0, and the snapshot is let go of.
// Batch (K6): the top bit of count: no sync. n x (u8 ValueType: Delete, Put, PutTtl or DeleteRange (key and
// value as in a DeleteRange); varint32 key size; varint32 value size; varint64 ttl_ms of PutTtl; key; value).
// CompareAndSwap: flags 1: `expected` is given, else the key must have no value; 2: `desired` is given, else
// the key is deleted; 4: no sync. kConditionFailed: it has another value.
// Checkpoint: verb 1: make, 2: list, no name, 3: delete, 4: restore (docs/engine.md). checkpoints, of list: n
// x (varint32 name size, name, u64 number, u64 milliseconds of the wall clock, u64 bytes, u64 bytes of tables
// that the range has rewritten since). kConditionFailed: there is one of that name; kNotFound; kBusy: the LTC
// does another. When the outcome is not kOk the reply is a text for people.
// MultiGet: answers are n x (u8 found, varint32 value size and value when found), of the first n keys: when
// they are fewer than asked for, the reply is full. All that one reply holds is of one moment (K4).
//
// Thread safety: plain values and pure functions.   Ownership: a parsed message views its body.
// Errors: false: malformed; the connection is closed.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/fields.h"
#include "common/base/ids.h"
#include "common/base/write_batch.h"

namespace nova {

// Types of requests to an LTC; 0x2xx of the types of common/rdma/message.h.
enum class LtcRequest : uint16_t {
  kPut = 0x201,
  kDelete = 0x202,
  kGet = 0x203,
  kScan = 0x204,
  kBatch = 0x205,
  kCompareAndSwap = 0x206,
  kMultiGet = 0x207,
  kTakeSnapshot = 0x208,
  kRenewSnapshot = 0x209,
  kDropSnapshot = 0x20a,
  kDeleteRange = 0x20b,
  kBeginScan = 0x20c,
  kCheckpoint = 0x210,
};

// Put, Delete and DeleteRange.
struct WriteRequest {
  RangeId range;
  Epoch epoch;
  // Which operation of which client; goes into the log record (no write twice, A1).
  uint64_t client_id = 0;
  uint64_t request_number = 0;
  std::string_view key;                           // a stored key
  std::string_view value;                         // of DeleteRange: the stored key behind the last one
  std::optional<uint64_t> ttl_ms = std::nullopt;  // of Put: milliseconds from when the range takes it
  bool sync = true;  // false: of a persistent log, acknowledged when written (durability, D)

  // The body up to the key. Key and value travel as parts of their own, and are not copied.
  std::string EncodeHeader() const;
  // False: malformed; `out` views `body`.
  static bool Parse(std::string_view body, WriteRequest* out);
};

// The answer to a get is the value alone; kNotFound: there is none.
struct GetRequest {
  RangeId range;
  Epoch epoch;
  uint64_t snapshot = 0;  // 0: now
  std::string_view key;   // a stored key
  static auto Fields(auto& m) { return FieldList(m.range, m.epoch, m.snapshot, Apart(m.key)); }
};

// One page, at a snapshot or now.
struct ScanRequest {
  RangeId range;
  Epoch epoch;
  uint64_t snapshot = 0;  // 0: now
  uint32_t limit = 0;     // entries, at least 1
  bool reverse = false;   // from below `to` downwards
  std::string_view from;  // a stored key, the first (reverse: the last) one that may be found
  std::string_view to;    // the stored key behind the last one; empty: the end of the range
  std::string Encode() const;
  static bool Parse(std::string_view body, ScanRequest* out);
};

// A page.
struct ScanReply {
  uint32_t count = 0;        // of entries
  bool more = false;         // the page is full: go on after its last key
  std::string_view entries;  // see the format above; views the reply
  static auto Fields(auto& m) { return FieldList(m.count, m.more, Apart(m.entries)); }
};

// The first page of a scan, now.
struct BeginScanRequest {
  RangeId range;
  Epoch epoch;
  uint32_t lease_ms = 0;      // of the snapshot, if the reply has one
  uint32_t limit = 0;         // entries, at least 1
  bool beyond_limit = false;  // the client wants the snapshot also where the page has `limit` entries
  bool reverse = false;       // as of ScanRequest
  std::string_view from, to;  // as of ScanRequest
  static auto Fields(auto& m) {
    return FieldList(m.range, m.epoch, m.lease_ms, m.limit, m.beyond_limit, m.reverse, m.from, Rest(m.to));
  }
};

struct BeginScanReply {
  uint64_t snapshot = 0;  // of the page's moment; 0: nothing behind the page is there, or was asked for
  ScanReply page;
  static auto Fields(auto& m) {
    return FieldList(m.snapshot, m.page.count, m.page.more, Apart(m.page.entries));
  }
};

// All entries are of one range (atomicity, K6).
struct BatchRequest {
  RangeId range;
  Epoch epoch;
  uint64_t client_id = 0;  // as of WriteRequest, and so the next
  uint64_t request_number = 0;
  uint32_t count = 0;        // of entries, below 1 << 31
  std::string_view entries;  // see the format above
  bool sync = true;          // as of WriteRequest

  // The body up to the entries.
  std::string EncodeHeader() const;
  // Appends an entry to `entries`, with `key_prefix` (the keyspace) before its key, and before the end of a
  // range deletion.
  static void AppendEntry(std::string_view key_prefix, const WriteBatch::Entry& entry, std::string* entries);
  static bool Parse(std::string_view body, BatchRequest* out);
  // The entries; they view `entries` and have stored keys. False: malformed.
  bool ParseEntries(std::vector<WriteBatch::Entry>* out) const;
};

// Writes `desired` if the key's value is `expected`.
struct CompareAndSwapRequest {
  RangeId range;
  Epoch epoch;
  uint64_t client_id = 0;  // as of WriteRequest, and so the next
  uint64_t request_number = 0;
  std::string_view key;                      // a stored key
  std::optional<std::string_view> expected;  // none: the key must have no value
  std::optional<std::string_view> desired;   // none: the key is deleted
  bool sync = true;                          // as of WriteRequest

  // Everything but key, expected and desired.
  std::string EncodeHeader() const;
  static bool Parse(std::string_view body, CompareAndSwapRequest* out);
};

inline constexpr uint32_t kMaxMultiGetKeys = 10'000;  // of one request; more are malformed

// Keys of one range.
struct MultiGetRequest {
  RangeId range;
  Epoch epoch;
  uint64_t snapshot = 0;               // 0: now, all at one moment
  std::vector<std::string_view> keys;  // stored keys, in any order
  static auto Fields(auto& m) {
    return FieldList(m.range, m.epoch, m.snapshot, AtMost(m.keys, kMaxMultiGetKeys));
  }
};

// Answers to as many first keys as fit.
struct MultiGetReply {
  std::vector<std::optional<std::string_view>> values;  // of the first keys asked for; none: not found
  static auto Fields(auto& m) { return FieldList(AtMost(m.values, kMaxMultiGetKeys)); }

  // The same, an answer at a time: the body up to the answers, and one of them.
  static std::string EncodeHeader(uint32_t count);
  static void AppendAnswer(const std::optional<std::string>& value, std::string* answers);
};

// A lease that any LTC gives to whoever asks for it or more. A client renews before a third of it is over.
constexpr int64_t kSureSnapshotLeaseMs = 30'000;

// Snapshots are an LTC's, under ids that it gives; they end with its epoch, or when they are not renewed.
struct TakeSnapshotRequest {
  RangeId range;
  Epoch epoch;
  uint32_t lease_ms = 0;  // how long it lives without being renewed, or as long as the LTC lets it; not 0
  static auto Fields(auto& m) { return std::tie(m.range, m.epoch, m.lease_ms); }
};
struct TakeSnapshotReply {
  uint64_t snapshot = 0;
  static auto Fields(auto& m) { return std::tie(m.snapshot); }
};
struct RenewSnapshotRequest {
  RangeId range;
  Epoch epoch;
  uint64_t snapshot = 0;
  uint32_t lease_ms = 0;  // from now
  static auto Fields(auto& m) { return std::tie(m.range, m.epoch, m.snapshot, m.lease_ms); }
};
struct DropSnapshotRequest {
  RangeId range;
  Epoch epoch;
  uint64_t snapshot = 0;
  static auto Fields(auto& m) { return std::tie(m.range, m.epoch, m.snapshot); }
};

// What is asked of a range's checkpoints (docs/checkpoints.md).
enum class CheckpointVerb : uint8_t { kCreate = 1, kList = 2, kDelete = 3, kRestore = 4 };

struct CheckpointRequest {
  RangeId range;
  Epoch epoch;
  CheckpointVerb verb = CheckpointVerb::kList;
  std::string_view name;  // empty: of kList
  static auto Fields(auto& m) { return FieldList(m.range, m.epoch, m.verb, Rest(m.name)); }
  // False: malformed.
  bool Valid() const {
    return verb >= CheckpointVerb::kCreate && verb <= CheckpointVerb::kRestore &&
           (verb != CheckpointVerb::kList || name.empty());
  }
};

// The answer to a list.
struct CheckpointReply {
  struct Entry {
    std::string_view name;
    uint64_t sequence = 0;      // everything up to this number is in it
    uint64_t created_ms = 0;    // wall clock, milliseconds since 1970
    uint64_t bytes = 0;         // of tables
    uint64_t pinned_bytes = 0;  // of tables that the range's version has no more: a deletion would free them
    static auto Fields(auto& m) {
      return std::tie(m.name, m.sequence, m.created_ms, m.bytes, m.pinned_bytes);
    }
  };
  std::vector<Entry> entries;
  static auto Fields(auto& m) { return FieldList(Rest(m.entries)); }
};

}  // namespace nova
