// LtcServer: serves clients' requests as they arrive on the xchg threads: decodes, finds the range, hands
// over, replies.
//
// A request for a range that is not here, or at another epoch (N2), is answered kNotOwner. Without a lease
// (C3) reads are refused at once, and the lease is checked again after the value was read, before the reply
// is posted. A malformed request closes its connection. A multi-get reads some keys at a time, all at one
// snapshot, so that neither its values nor its time on the thread grow with it.
//
//   request                    needs the lease          runs
//   put, delete, batch         in log mode none         on the xchg thread, until the log answers
//   compare and swap           to tell of a mismatch    likewise
//   get, multi-get, scan       yes                      on the xchg thread, but for blocks to fetch
//   take snapshot              yes                      on the xchg thread
//   renew, drop snapshot       no; renew: the range     on the xchg thread
//                              must serve reads
//   list checkpoints           yes                      on a control thread
//   make, delete, restore      no: fenced by the epoch  on a control thread, one at a time
//
// Thread safety: handlers run OnXchg; SetRanges from any thread.
// Ownership: xchgs and metrics outlive it. Ranges are shared; each thread's copy of the map lets go of them.
// Errors: outcomes in replies (common/base/outcome.h).
#pragma once

#include <array>
#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "common/base/executor.h"
#include "common/base/histogram.h"
#include "common/base/rules_off.h"
#include "common/rdma/xchg.h"
#include "ltc/engine/range.h"
#include "ltc/server/snapshot_table.h"
#include "ltc/wire/protocol.h"

namespace nova {

// An xchg thread as the engine sees it. index() is its place among the LTC's xchg threads.
class XchgExecutor : public Executor {
 public:
  explicit XchgExecutor(Xchg* xchg) : xchg_(xchg) {}
  void Submit(absl::AnyInvocable<void()> fn) override { xchg_->Submit(std::move(fn)); }
  void RunAt(Nanos when_ns, absl::AnyInvocable<void()> fn) override { xchg_->RunAt(when_ns, std::move(fn)); }
  bool IsCurrentThread() const override { return xchg_->IsCurrentThread(); }
  size_t index() const override { return xchg_->options().index; }
  Xchg* xchg() const { return xchg_; }

 private:
  Xchg* const xchg_;
};

// Bounds of requests; nova_ltc's flags set some.
struct LtcServerOptions {
  uint32_t max_value_bytes = 1 << 20;     // longer ones are kInvalidArgument
  uint32_t max_scan_limit = 1 << 20;      // entries of one scan; more are kInvalidArgument
  uint32_t max_batch_entries = 10'000;    // more are kInvalidArgument
  uint64_t page_bytes = 1 << 20;          // a reply of many entries is full when they reach this
  size_t max_snapshots_per_range = 1000;  // that clients hold; more are kBusy
  // Longest lease of a snapshot; whoever asks for more has this. At least kSureSnapshotLeaseMs, so that
  // clients renew in time.
  int64_t max_snapshot_lease_ms = 600'000;
  bool writes_need_lease = false;  // log mode none: an acknowledgement depends on the lease
  RulesOff off = {};               // tests only
};

// The open ranges of this LTC by id; immutable once it is given to SetRanges.
using RangeMap = absl::flat_hash_map<RangeId, std::shared_ptr<Range>>;

class LtcServer {
 public:
  // Installs its handlers; call before the xchgs start. `lease_expiry_ns` is asked on xchg threads, and says
  // until when the LTC may answer reads (Now() clock; 0: not at all).
  LtcServer(std::vector<XchgExecutor*> executors, const LtcServerOptions& options,
            std::function<Nanos()> lease_expiry_ns, Metrics* metrics);

  // Replaces the ranges that are served. Requests that arrive after it find only these; those under way go on
  // with the range they found. Snapshots of other ranges and epochs are forgotten.
  void SetRanges(std::shared_ptr<const RangeMap> ranges);
  // `run` runs a function that waits (a checkpoint) on another thread; false: it was dropped. Call before the
  // xchgs start.
  void SetRunControl(std::function<bool(std::function<void()>)> run) { run_control_ = std::move(run); }

 private:
  // The map of ranges as one xchg thread last saw it; saves the lock on the request path.
  struct alignas(64) Lane {
    std::shared_ptr<const RangeMap> ranges;
    uint64_t generation = 0;  // of `ranges`; another value of generation_ means a newer map
  };
  // Operations whose time is told, from a request's arrival to its reply.
  enum Op : size_t { kWriteOp, kBatchOp, kSwapOp, kGetOp, kMultiGetOp, kScanOp, kOps, kNotTimed = kOps };
  static const std::pair<Op, const char*> kOpNames[kOps];  // as metrics have them
  using Served = std::array<Histogram, kOps>;
  struct MultiGetCall;  // a multi-get under way
  // Finds the range: kOk, or kNotOwner if it is not here at that epoch. *range stays valid while the handler
  // runs. On xchg `index`.
  Outcome FindRange(size_t index, RangeId id, Epoch epoch, Range** range);
  // FindRange, and the range must hold `key`.
  Outcome FindRangeOf(size_t index, RangeId id, Epoch epoch, std::string_view key, Range** range);
  // Sets *snapshot to the one with this id and returns kOk; for id 0, which means now, it stays null.
  // kSnapshotEnded: the range has none of that id, or its lease is over.
  Outcome FindSnapshot(const Range& range, uint64_t id, std::shared_ptr<const Snapshot>* snapshot) const;
  // Calls `handler` for requests of that type, decoded; on xchg `index`, and before it starts.
  template <typename Request>
  void Handle(size_t index, LtcRequest type, Op op,
              void (LtcServer::*handler)(size_t, const IncomingCall&, const Request&));
  // Ends a connection whose request decodes, and makes no sense all the same.
  void CloseMalformed(size_t index, const IncomingCall& call);
  // Handlers of one type of request each, on xchg `index`: they reply at once or when the range is done.
  template <ValueType type>  // kPut, kDelete, kDeleteRange
  void HandleWrite(size_t index, const IncomingCall& call, const WriteRequest& request);
  // All entries in one range, or kNotOwner (atomicity, K6).
  void HandleBatch(size_t index, const IncomingCall& call, const BatchRequest& request);
  // The answer kConditionFailed needs the lease: it tells of a read.
  void HandleCompareAndSwap(size_t index, const IncomingCall& call, const CompareAndSwapRequest& request);
  // A read at a snapshot, or of the newest version.
  void HandleGet(size_t index, const IncomingCall& call, const GetRequest& request);
  // What Scan and BeginScan have in common. kOk: *range is to be scanned; room for the reply is asked for.
  template <typename Request>
  Outcome BeginPage(size_t index, const IncomingCall& call, const Request& request, Range** range);
  // One page, ascending or descending.
  void HandleScan(size_t index, const IncomingCall& call, const ScanRequest& request);
  // Takes a snapshot, reads the first page at it, and gives it an id for the others if there may be any.
  void HandleBeginScan(size_t index, const IncomingCall& call, const BeginScanRequest& request);
  // One reply, of as many first keys as fit into it.
  void HandleMultiGet(size_t index, const IncomingCall& call, const MultiGetRequest& request);
  // Reads the next few keys of a multi-get, then lets other requests have their turn.
  void ReadSome(const std::shared_ptr<MultiGetCall>& get);
  // kBusy: the range has max_snapshots_per_range.
  void HandleTakeSnapshot(size_t index, const IncomingCall& call, const TakeSnapshotRequest& request);
  // A snapshot that a client holds gets another lease, while the range serves reads.
  void HandleRenewSnapshot(size_t index, const IncomingCall& call, const RenewSnapshotRequest& request);
  // Forgets a snapshot that a client holds.
  void HandleDropSnapshot(size_t index, const IncomingCall& call, const DropSnapshotRequest& request);
  // On a control thread: create, delete and restore one at a time, and 64 lists, which need the lease (lease,
  // C3). kBusy: as many are under way.
  void HandleCheckpoint(size_t index, const IncomingCall& call, const CheckpointRequest& request);
  // The end of a write: replies. Where an acknowledgement depends on the lease (log mode none) and it is
  // over, the outcome is kUnknown. A failed comparison without a lease is kNotOwner.
  WriteDone ReplyToWrite(size_t index, const IncomingCall& call);
  // kOk, or kInvalidArgument if the key, value or time to live is out of bounds.
  Outcome IsWritable(ValueType type, std::string_view key, std::string_view value,
                     std::optional<uint64_t> ttl_ms) const;
  // Of a snapshot's lease that begins now, and for which a client asked for so long.
  Nanos EndOfLease(uint32_t ms) const {
    return Now() + std::min<int64_t>(ms, options_.max_snapshot_lease_ms) * kMillisecond;
  }
  // May answer reads now (lease, C3).
  bool HasLease() const { return options_.off.c3_lease || Now() < lease_expiry_ns_(); }

  const std::vector<XchgExecutor*> executors_;
  const LtcServerOptions options_;
  const std::function<Nanos()> lease_expiry_ns_;  // until when the LTC may answer reads; 0: it may not
  std::function<bool(std::function<void()>)> run_control_;  // see SetRunControl
  // One checkpoint request at a time, beside a few lists: log groups are replaced and flushed by the same
  // threads, and must not wait for it.
  std::atomic<int> checkpoint_changes_{0}, checkpoint_lists_{0};
  std::vector<Lane> lanes_;                         // [i] belongs to xchg i
  std::vector<std::unique_ptr<Served>> served_ns_;  // [i] is added to by xchg i
  std::atomic<uint64_t> generation_{0};             // rises with each SetRanges; lanes compare theirs with it
  Mutex mu_;
  std::shared_ptr<const RangeMap> ranges_ ABSL_GUARDED_BY(mu_);  // the latest map; lanes copy it
  SnapshotTable snapshots_;                                      // snapshots held by clients
  // Metrics: requests by kind, and how some of them ended.
  Counter* const puts_;
  Counter* const batches_;
  Counter* const swaps_;
  Counter* const gets_;
  Counter* const multi_gets_;
  Counter* const scans_;
  Counter* const snapshots_taken_;
  Counter* const not_owner_;
  Counter* const malformed_;
};

}  // namespace nova
