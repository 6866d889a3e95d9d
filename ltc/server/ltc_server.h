// LtcServer: requests of clients as they arrive on the xchg threads: decode, find the range, hand over,
// reply.
//
// The lease (C3) is checked after a value was read and before the reply is posted. A request for a range that
// is not here, or at another epoch, is answered kNotOwner. A malformed request closes its connection.
//
// A multi-get reads some keys at a time, at one snapshot, so that neither its values nor its time on the
// thread grow with it.
//
// Thread safety: handlers OnXchg; SetRanges from any thread.   Ownership: xchgs outlive it; ranges are
//                shared.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "common/base/executor.h"
#include "common/base/rules_off.h"
#include "common/rdma/xchg.h"
#include "ltc/engine/range.h"
#include "ltc/server/snapshot_table.h"
#include "ltc/wire/protocol.h"

namespace nova {

// An xchg thread as the engine sees it.
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

struct LtcServerOptions {
  uint32_t max_value_bytes = 1 << 20;
  uint32_t max_scan_limit = 1 << 20;
  uint32_t max_batch_entries = 10'000;
  uint64_t page_bytes = 1 << 20;  // a reply of many entries is full when they reach this
  size_t max_snapshots_per_range = 1000;
  int64_t max_snapshot_lease_ms = 600'000;
  bool writes_need_lease = false;  // log mode none: an acknowledgement depends on the lease
  RulesOff off = {};               // tests only
};

using RangeMap = absl::flat_hash_map<RangeId, std::shared_ptr<Range>>;

class LtcServer {
 public:
  // Before the xchgs start: installs its handlers. `lease_expiry_ns` as NodeSession's.
  LtcServer(std::vector<XchgExecutor*> executors, const LtcServerOptions& options,
            std::function<Nanos()> lease_expiry_ns, Metrics* metrics);

  void SetRanges(std::shared_ptr<const RangeMap> ranges);
  // Before the xchgs start: runs what has to wait (checkpoints) on another thread.
  void SetRunControl(std::function<void(std::function<void()>)> run) { run_control_ = std::move(run); }

 private:
  struct alignas(64) Lane {
    std::shared_ptr<const RangeMap> ranges;
    uint64_t generation = 0;
  };
  struct MultiGetCall;
  // kOk and the range, or why not.
  Outcome FindRange(size_t index, RangeId id, Epoch epoch, Range** range);
  Outcome FindRangeOf(size_t index, RangeId id, Epoch epoch, std::string_view key, Range** range);
  // kOk and the snapshot, null for 0; or kSnapshotEnded.
  Outcome FindSnapshot(const Range& range, uint64_t id, std::shared_ptr<const Snapshot>* snapshot) const;
  void HandleWrite(size_t index, const IncomingCall& call, ValueType type);
  void HandleBatch(size_t index, const IncomingCall& call);
  void HandleCompareAndSwap(size_t index, const IncomingCall& call);
  void HandleGet(size_t index, const IncomingCall& call);
  void HandleScan(size_t index, const IncomingCall& call);
  void HandleMultiGet(size_t index, const IncomingCall& call);
  void ReadSome(const std::shared_ptr<MultiGetCall>& get);
  void HandleTakeSnapshot(size_t index, const IncomingCall& call);
  void HandleHeldSnapshot(size_t index, const IncomingCall& call, LtcRequest type);  // renew, drop
  void HandleCheckpoint(size_t index, const IncomingCall& call);
  WriteDone ReplyToWrite(size_t index, const IncomingCall& call);
  Outcome IsWritable(ValueType type, std::string_view key, std::string_view value,
                     std::optional<uint64_t> ttl_ms) const;
  bool HasLease() const { return options_.off.c3_lease || Now() < lease_expiry_ns_(); }

  const std::vector<XchgExecutor*> executors_;
  const LtcServerOptions options_;
  const std::function<Nanos()> lease_expiry_ns_;
  std::function<void(std::function<void()>)> run_control_;
  // one at a time: log groups need control threads too, and flushes them
  std::atomic<bool> checkpoint_running_{false};
  std::vector<Lane> lanes_;  // [i] belongs to xchg i
  std::atomic<uint64_t> generation_{0};
  Mutex mu_;
  std::shared_ptr<const RangeMap> ranges_ ABSL_GUARDED_BY(mu_);
  SnapshotTable snapshots_;
  Counter* const puts_;
  Counter* const batches_;
  Counter* const swaps_;
  Counter* const gets_;
  Counter* const multi_gets_;
  Counter* const scans_;
  Counter* const snapshots_taken_;
  Counter* const not_owner_;
};

}  // namespace nova
