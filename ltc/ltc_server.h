// LtcServer: requests of clients as they arrive on the xchg threads: decode, find the range, hand over, reply.
//
// The lease (C3) is checked after a value was read and before the reply is posted. A request for a range that is not here, or
// at another epoch, is answered kNotOwner. A malformed request closes its connection.
//
// Thread safety: handlers OnXchg; SetRanges from any thread.   Ownership: xchgs outlive it; ranges are shared.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "common/base/executor.h"
#include "common/rdma/xchg.h"
#include "ltc/range.h"

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
  bool writes_need_lease = false;  // log mode none: an acknowledgement depends on the lease
};

using RangeMap = absl::flat_hash_map<RangeId, std::shared_ptr<Range>>;

class LtcServer {
 public:
  // Before the xchgs start: installs its handlers. `lease_expiry_ns` as NodeSession's.
  LtcServer(std::vector<XchgExecutor*> executors, const LtcServerOptions& options, std::function<Nanos()> lease_expiry_ns,
            Metrics* metrics);

  void SetRanges(std::shared_ptr<const RangeMap> ranges);

 private:
  struct alignas(64) Lane {
    std::shared_ptr<const RangeMap> ranges;
    uint64_t generation = 0;
  };
  // kOk and the range, or why not.
  Outcome FindRange(size_t index, RangeId id, Epoch epoch, std::string_view key, Range** range);
  void HandleWrite(size_t index, const IncomingCall& call, ValueType type);
  void HandleGet(size_t index, const IncomingCall& call);
  void HandleScan(size_t index, const IncomingCall& call);
  bool HasLease() const { return Now() < lease_expiry_ns_(); }

  const std::vector<XchgExecutor*> executors_;
  const LtcServerOptions options_;
  const std::function<Nanos()> lease_expiry_ns_;
  std::vector<Lane> lanes_;  // [i] belongs to xchg i
  std::atomic<uint64_t> generation_{0};
  Mutex mu_;
  std::shared_ptr<const RangeMap> ranges_ ABSL_GUARDED_BY(mu_);
  Counter* const puts_;
  Counter* const gets_;
  Counter* const scans_;
  Counter* const not_owner_;
};

}  // namespace nova
