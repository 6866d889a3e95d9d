// Client: reads and writes against a Nova cluster, from any number of threads over few connections.
//
//   auto client = nova::Client::Connect({.coordinators = {"127.0.0.1:7401"}});
//   if (!client.ok()) ...
//   nova::Result r = (*client)->Put("user1", "value");
//
// Each operation has one deadline, retries and refreshes included; of a scan each page has. A write ends in
// one of three ways (Result::effect()): applied; definitely not applied; unknown: it was sent and not
// answered in time, or before its range had another owner, and is never sent again by the client.
//
// Thread safety: all methods from any thread; callbacks run on a thread of the client's and must not wait.
//                Those of a call that asks nobody, for its arguments are refused or there is nothing to do
//                (an empty batch, no keys, bounds with nothing between), run on the calling thread, inside
//                the call.
// Ownership:     arguments are copied where a call is asynchronous; results are values. The client outlives
//                its operations.
// Errors:        Result. Keys are 1 to 4096 bytes; an empty or larger key, a value over the cluster's limit
//                or a batch over several ranges is InvalidArgument and nothing is written. ConditionFailed:
//                CompareAndSwap found another value.
//                SnapshotEnded: a range of the snapshot has another owner now, or its lease ended: take
//                another. The library has no flags, installs no signal handlers and logs to stderr at most
//                warnings.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "client/client_iterator.h"
#include "common/base/outcome.h"
#include "common/base/status.h"
#include "common/base/write_batch.h"

namespace nova {

constexpr int64_t kMaxTimeoutMs = 86'400'000;  // a day

// How a client reaches its cluster, and how long it waits.
struct ClientOptions {
  std::vector<std::string> coordinators;  // gRPC addresses, host:port
  int64_t timeout_ms = 10'000;            // of one operation, a day at most; of a scan, of each page
  int threads = 1;                        // exchange threads, 1024 at most, each with one connection per LTC
  uint32_t keyspace = 0;                  // its number stands before each key: another one has other keys
  // How long the snapshots of a client that died stay, as far as the LTCs let them. They are renewed every
  // third of it, and every 10 s at least.
  int64_t snapshot_lease_ms = 30'000;
  // auto, verbs or tcp, as the cluster's nodes have it; empty: $NOVA_FABRIC, else auto, which is verbs where
  // any RDMA device is up.
  std::string fabric;
  std::string rdma_device;  // NAME or NAME:PORT; empty: $NOVA_RDMA_DEVICE, else the first that is up
};

// How an operation ended.
struct Result {
  Outcome outcome = Outcome::kOk;
  std::string message;  // names operation, range and node when it failed
  bool ok() const { return outcome == Outcome::kOk; }
  // What may be concluded of a write.
  Effect effect() const { return EffectOf(outcome); }
};

struct GetResult : Result {
  std::string value;  // if ok()
};

struct MultiGetResult : Result {
  std::vector<std::optional<std::string>> values;  // [i] of key i; none where there is no such key
};

struct ScanResult : Result {
  std::vector<std::pair<std::string, std::string>> entries;  // in the scan's order
};

struct ClientRep;
struct SnapshotState;

// A moment of every range, to be read for as long as the handle is kept (snapshot, K4): each range sees all
// that was acknowledged before the snapshot was asked for. Each range is at one moment, not all of them at
// the same one. The ranges' LTCs hold it, so that a range which moves or fails over ends its part: reads
// there are SnapshotEnded. Only for the client that took it; may outlive that.
class ClientSnapshot {
 public:
  ~ClientSnapshot();  // the LTCs are told, without waiting
  ClientSnapshot(const ClientSnapshot&) = delete;
  ClientSnapshot& operator=(const ClientSnapshot&) = delete;
  bool ended() const;  // for some range, as far as known here

 private:
  friend struct ClientRep;
  explicit ClientSnapshot(std::shared_ptr<SnapshotState> state) : state_(std::move(state)) {}
  const std::shared_ptr<SnapshotState> state_;
};

struct SnapshotResult : Result {
  std::shared_ptr<const ClientSnapshot> snapshot;
};

// What the ranges know of a checkpoint of one name.
struct CheckpointSummary {
  std::string name;
  uint64_t ranges = 0;        // that have it; all of them, or it is incomplete
  int64_t created_ms = 0;     // wall clock of the first
  uint64_t bytes = 0;         // of its tables
  uint64_t pinned_bytes = 0;  // kept on the StoCs only for it, and for others like it
};

struct CheckpointsResult : Result {
  std::vector<CheckpointSummary> checkpoints;  // by name
  uint64_t ranges = 0;                         // of the cluster
};

// Of one write, or of a batch.
struct WriteOptions {
  int64_t ttl_ms = 0;  // of a put: the key is gone, as if deleted, so long from now (expiry, K7); 0: never
  // false: where the log is on disks, acknowledged when it is written there: it survives the death of all
  // processes, not a loss of power of their hosts (docs/durability.md). Nothing else changes for the caller,
  // and where the log is in memory nothing at all.
  bool sync = true;
};

// Of a get or a multi-get.
struct ReadOptions {
  std::shared_ptr<const ClientSnapshot> snapshot = nullptr;  // null: now
};

// Which keys a scan finds, beside those at or above its `from`.
struct ScanOptions {
  size_t limit = SIZE_MAX;                                   // entries
  std::string prefix = "";                                   // only keys that begin so
  std::string to = "";                                       // only keys below it; empty: to the end
  bool reverse = false;                                      // from the highest key down
  std::shared_ptr<const ClientSnapshot> snapshot = nullptr;  // null: now
};

struct ClientEnvironment;  // client/client_core.h: of simulations

class Client {
 public:
  // Asks a coordinator for the configuration; waits, timeout_ms at most. LTCs are connected when they are
  // needed. The second form is for simulations.
  static StatusOr<std::unique_ptr<Client>> Connect(const ClientOptions& options);
  static StatusOr<std::unique_ptr<Client>> Connect(const ClientOptions& options,
                                                   const ClientEnvironment& environment);
  ~Client();  // waits for the operations under way

  // --- blocking
  Result Put(std::string_view key, std::string_view value, const WriteOptions& options = {});
  Result Delete(std::string_view key, const WriteOptions& options = {});
  // Every key in [begin, end) is gone, as if deleted; no begin: from the first key, no end: to the last (K7).
  // Range by range, each whole or not at all; of several ranges some may be done when it fails: then the
  // outcome is Unknown, and the message says where it had come to.
  Result DeleteRange(std::string_view begin, std::string_view end, const WriteOptions& options = {});
  // All of it or nothing, of one range (atomicity, K6); scans and snapshots never see a part.
  Result Write(const WriteBatch& batch, const WriteOptions& options = {});
  // Writes `desired` (none: a deletion) if the value is `expected` (none: there is no value); else
  // ConditionFailed. The two values have 20,963,328 bytes together at most.
  Result CompareAndSwap(std::string_view key, std::optional<std::string_view> expected,
                        std::optional<std::string_view> desired, const WriteOptions& options = {});
  GetResult Get(std::string_view key, const ReadOptions& options = {});
  // At most 10,000 keys; those of one range are read at one moment.
  MultiGetResult MultiGet(std::span<const std::string_view> keys, const ReadOptions& options = {});
  // Entries with from <= key, over all ranges; each range is read at one moment. All of them are in memory
  // together: NewIterator is for more.
  ScanResult Scan(std::string_view from, const ScanOptions& options);
  ScanResult Scan(std::string_view from, size_t limit) { return Scan(from, ScanOptions{limit}); }
  // An iterator over all ranges, now or at a snapshot; not Valid before its first Seek. Options that are
  // wrong it tells by its result().
  std::unique_ptr<ClientIterator> NewIterator(const IteratorOptions& options = {});
  SnapshotResult TakeSnapshot();  // of every range

  // --- asynchronous: as the blocking ones; `done` is called once
  void PutAsync(std::string_view key, std::string_view value, const WriteOptions& options,
                std::function<void(Result)> done);
  void PutAsync(std::string_view key, std::string_view value, std::function<void(Result)> done) {
    PutAsync(key, value, {}, std::move(done));
  }
  void DeleteAsync(std::string_view key, const WriteOptions& options, std::function<void(Result)> done);
  void DeleteAsync(std::string_view key, std::function<void(Result)> done) {
    DeleteAsync(key, {}, std::move(done));
  }
  void DeleteRangeAsync(std::string_view begin, std::string_view end, const WriteOptions& options,
                        std::function<void(Result)> done);
  void DeleteRangeAsync(std::string_view begin, std::string_view end, std::function<void(Result)> done) {
    DeleteRangeAsync(begin, end, {}, std::move(done));
  }
  void WriteAsync(const WriteBatch& batch, const WriteOptions& options, std::function<void(Result)> done);
  void WriteAsync(const WriteBatch& batch, std::function<void(Result)> done) {
    WriteAsync(batch, {}, std::move(done));
  }
  void CompareAndSwapAsync(std::string_view key, std::optional<std::string_view> expected,
                           std::optional<std::string_view> desired, const WriteOptions& options,
                           std::function<void(Result)> done);
  void CompareAndSwapAsync(std::string_view key, std::optional<std::string_view> expected,
                           std::optional<std::string_view> desired, std::function<void(Result)> done) {
    CompareAndSwapAsync(key, expected, desired, {}, std::move(done));
  }
  void GetAsync(std::string_view key, const ReadOptions& options, std::function<void(GetResult)> done);
  void GetAsync(std::string_view key, std::function<void(GetResult)> done) {
    GetAsync(key, {}, std::move(done));
  }
  void MultiGetAsync(std::span<const std::string_view> keys, const ReadOptions& options,
                     std::function<void(MultiGetResult)> done);
  void ScanAsync(std::string_view from, const ScanOptions& options, std::function<void(ScanResult)> done);
  void ScanAsync(std::string_view from, size_t limit, std::function<void(ScanResult)> done) {
    ScanAsync(from, ScanOptions{limit}, std::move(done));
  }
  void TakeSnapshotAsync(std::function<void(SnapshotResult)> done);

  // --- checkpoints of all ranges, each range's of one moment of its own. A call that fails has been done in
  // some ranges and not in others; the message says what failed first. What was certainly not done is tried
  // again within timeout_ms; Unknown: in some range it may have been done, and is not tried again (no write
  // twice, A1). A delete or a restore that was done in some ranges and certainly not in others is Unknown,
  // too.
  Result CreateCheckpoint(const std::string& name);  // ConditionFailed: some range has one of that name
  CheckpointsResult ListCheckpoints();
  Result DeleteCheckpoint(const std::string& name);  // of the ranges that have it; NotFound: none has
  // The ranges hold what they held at the checkpoint; what was written since is gone, and snapshots end.
  // NotFound: none or not all ranges have it, and nothing is restored. Each range is restored in one step,
  // not all of them at once: a write to one that is done may be there while another is not.
  Result RestoreCheckpoint(const std::string& name);

  uint64_t retries() const;            // tries after the first, of all operations so far
  std::string StatusText();            // what `nova status` prints, or why not
  StatusOr<std::string> StatusJson();  // what `nova status --json` prints
  Status CreateRanges(const std::vector<std::string>& split_keys);  // user keys; n make n + 1 ranges
  // Everything is moved off the node. *left: what is still on it; empty: nothing, it can stop. Refused
  // where too few StoCs would be left for the copies that are configured, unless `force`.
  Status Drain(const std::string& node, std::string* left, bool force = false);
  // It takes part again. *now: what it does now, for people; may be null.
  Status Undrain(const std::string& node, std::string* now = nullptr);
  // The StoC with that number is lost, and is not to be shown any more. Refused while a range needs anything
  // that it had. What it still has counts again if it is ever started.
  Status Forget(uint32_t stoc);
  // Sets an option of all LTCs while they run, in the place of their flag of that name; nullopt: it is as
  // their flags say again. LTCs have it within a second. InvalidArgument: there is no such setting
  // (coordinator/ltc_settings.h), or the value is out of its bounds.
  Status ChangeSetting(const std::string& name, std::optional<int> value);
  // Opens a range whose log is lost for good, if data loss is accepted; else only *report: what is missing.
  Status ForceOpen(uint64_t range, bool accept_data_loss, std::string* report);
  size_t range_count();  // as known now

 private:
  explicit Client(std::unique_ptr<ClientRep> rep);
  const std::unique_ptr<ClientRep> rep_;
};

}  // namespace nova
