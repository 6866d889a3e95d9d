// LtcNode: one LTC: owns the xchg threads, the engine's shared parts, the ranges it holds, and its membership
// in the cluster.
//
// Start: draw an incarnation, listen, join; the coordinator then assigns ranges (heartbeats), which control
// threads open.
// Stop:  release every range in order (flush, hand back), leave. The destructor alone leaves as a crash
// would.
//
// Thread safety: all.   Errors: Start: one Status naming the cause.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "common/base/metrics.h"
#include "common/config/config_store.h"
#include "coordinator/coordinator_client.h"
#include "ltc/engine/background.h"
#include "ltc/engine/memory_use.h"
#include "ltc/server/hosted_range.h"
#include "ltc/server/ltc_server.h"
#include "stoc/stoc_table_store.h"

namespace nova {

struct LtcOptions {
  std::string name;
  std::string address = "127.0.0.1:0";  // data plane
  std::string advertise;                // what others connect to; empty: as bound
  std::string host;                     // for placement; empty: of the address
  std::string metrics_address;          // as bound, shown in the status
  int xchg_threads = 1;
  size_t block_cache_bytes = 256 << 20;
  size_t memtable_limit_bytes = 512 << 20;
  BackgroundOptions background;
  HostedRangeOptions hosted;
  LogOptions log;
  XchgOptions xchg;
  size_t max_snapshots_per_range = 1000;  // that clients hold
  int64_t max_snapshot_lease_ms = 600'000;
  Nanos heartbeat_ns = 500 * kMillisecond;
  Nanos orphan_period_ns = 180 * kSecond;
  uint64_t orphan_grace_ms = 60'000;
};

// What differs between production and simulation.
struct LtcEnvironment {
  std::function<StatusOr<std::unique_ptr<ConfigStore>>()> open_store;
  std::function<std::unique_ptr<ControlChannel>()> open_channel;
  Fabric* fabric = nullptr;
  Metrics* metrics = nullptr;
};

class LtcNode {
 public:
  static StatusOr<std::unique_ptr<LtcNode>> Start(const LtcOptions& options,
                                                  const LtcEnvironment& environment);
  ~LtcNode();

  Status Stop(Nanos deadline_ns);
  std::string address() const;
  std::string StatusText() const;

 private:
  LtcNode(const LtcOptions& options, const LtcEnvironment& environment);
  std::string host() const;  // for placement
  Status Init();
  Status Join(std::unique_ptr<ConfigStore> store);
  void Leave();
  void PassXchgs();
  NodeEvents Events();

  void OnAssigned(const RangeAssignment& assignment);
  void OnExcluded(RangeId range, Epoch epoch);
  void OnRelease(RangeId range, Epoch epoch);
  void OnSessionLost(const std::string& why);
  NodeReport Report() const;
  void OpenRange(const RangeAssignment& assignment);
  void Drop(RangeId range, Epoch epoch);  // epochs up to this one
  void GiveBackRanges();
  void PublishLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  std::shared_ptr<HostedRange> Find(RangeId range) const;
  std::vector<std::shared_ptr<HostedRange>> Hosted() const;
  void Housekeeping();  // the body of thread ltc.control
  void SealForMemory();
  void FlushExposed();
  void CollectGarbage();
  void OnDamaged(const Uuid& table);
  void RepairNext();
  Status Repair(const Uuid& table);

  const LtcOptions options_;
  const LtcEnvironment environment_;
  Metrics* const metrics_;
  Incarnation incarnation_;
  Uuid cluster_;
  std::string address_;

  ArenaPool arenas_;
  BlockCache cache_;
  std::vector<std::unique_ptr<Xchg>> xchgs_;
  bool serving_ = false;  // they run
  std::vector<std::unique_ptr<XchgExecutor>> executors_;
  std::unique_ptr<StocClient> stocs_;
  std::unique_ptr<TableStore> tables_;
  std::unique_ptr<LogClient> logs_;
  HostServices services_;
  std::unique_ptr<LtcServer> server_;
  std::unique_ptr<BackgroundWork> background_;

  mutable Mutex session_mu_;
  std::shared_ptr<NodeSession> session_ ABSL_GUARDED_BY(session_mu_);
  std::atomic<NodeSession*> lease_session_{nullptr};  // the same, for xchg threads: see Leave
  std::atomic<bool> rejoin_{false};

  mutable Mutex mu_;
  std::map<RangeId, std::shared_ptr<HostedRange>> ranges_ ABSL_GUARDED_BY(mu_);
  struct Opening {
    Epoch epoch;
    std::shared_ptr<HostedRange> hosted;  // null: its turn on a control thread has not come
  };
  std::map<RangeId, Opening> opening_ ABSL_GUARDED_BY(mu_);
  // the highest epoch; nothing up to it is served any more
  std::map<RangeId, Epoch> excluded_ ABSL_GUARDED_BY(mu_);
  // abandoned; the record may still name us
  std::vector<std::shared_ptr<HostedRange>> to_give_back_ ABSL_GUARDED_BY(mu_);
  std::multiset<RangeId> giving_back_ ABSL_GUARDED_BY(mu_);  // under way: not opened meanwhile
  Mutex garbage_mu_;
  std::vector<std::pair<TableInfo, Creator>> garbage_ ABSL_GUARDED_BY(garbage_mu_);
  Mutex damaged_mu_;
  std::set<Uuid> damaged_ ABSL_GUARDED_BY(damaged_mu_);  // tables of which a copy is damaged or gone (S3)
  bool repairing_ ABSL_GUARDED_BY(damaged_mu_) = false;  // one at a time: what serves requests comes first
  Nanos next_repair_ns_ ABSL_GUARDED_BY(damaged_mu_) = 0;
  std::atomic<bool> stopping_{false};
  Notification stop_;
  std::unique_ptr<Thread> housekeeping_;
};

}  // namespace nova
