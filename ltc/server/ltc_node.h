// LtcNode: one LTC of a cluster. It owns the xchg threads, the parts that all ranges share (memory, block
// cache, StoC and log clients, background threads), the ranges it holds, and its membership.
//
// Start draws an incarnation (N1), listens and joins. The coordinator then assigns ranges with its answers to
// heartbeats, and open threads open them. A membership that is lost is joined again by the housekeeping
// thread. Stop releases every range in order (release, R5) and leaves; the destructor alone leaves as a crash
// would, and the cluster recovers the ranges from their logs.
//
// A range is in opening_ from its assignment to the end of Open, then in ranges_ while it is held, and in
// to_give_back_ when it was lost while its record may still name this LTC.
//
//   a range              is in          until
//   assigned             opening_       Open has ended
//   open                 ranges_        it is released, lost or excluded, or assigned at a later epoch
//   lost, or not opened  to_give_back_  its record names this LTC no longer, or is SEALING: then the next
//                                       heartbeat assigns it again
//   taken from us        excluded_      for ever: its highest epoch that is not served any more
//
// Thread safety: all. Events of the session (On...) do not wait.
// Locks: mu_, session_mu_, garbage_mu_ and damaged_mu_ are never held together; the first is held while
//   ranges are abandoned.
// Errors: Start returns one Status that names the cause.
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
  std::string name;                     // unique in the cluster; the coordinator knows the node by it
  std::string address = "127.0.0.1:0";  // where clients connect (data plane); port 0: any
  std::string advertise;                // the address that others connect to; empty: the bound one
  std::string host;                     // for placement on other hosts; empty: the host part of the address
  std::string metrics_address;          // of /metrics, as bound; shown by `nova status`
  int xchg_threads = 1;
  size_t block_cache_bytes = 256 << 20;     // bound on cached blocks and metadata of tables, for all ranges
  size_t memtable_limit_bytes = 512 << 20;  // bound on memtables, for all ranges
  BackgroundOptions background;
  HostedRangeOptions hosted;
  LogOptions log;
  XchgOptions xchg;
  size_t max_snapshots_per_range = 1000;    // bound on snapshots that clients hold
  int64_t max_snapshot_lease_ms = 600'000;  // longest lease of such a snapshot, renewals apart
  Nanos heartbeat_ns = 500 * kMillisecond;
  Nanos orphan_period_ns = 180 * kSecond;  // between two collections (N4) of a range
  uint64_t orphan_grace_ms = 60'000;       // age below which a file of an earlier epoch is left alone
};

// The seams that differ between production and simulation. Fabric and metrics outlive the node.
struct LtcEnvironment {
  // Opens a session with the store; may wait.
  std::function<StatusOr<std::unique_ptr<ConfigStore>>()> open_store;
  std::function<std::unique_ptr<ControlChannel>()> open_channel;  // makes the way to the coordinators
  Fabric* fabric = nullptr;
  Metrics* metrics = nullptr;
};

class LtcNode {
 public:
  // Waits for the cluster's first coordinator (10 s) and for the store.
  static StatusOr<std::unique_ptr<LtcNode>> Start(const LtcOptions& options,
                                                  const LtcEnvironment& environment);
  ~LtcNode();

  // Releases every range, several at a time, again and again until the deadline where that is refused; then
  // leaves. Waits. Takes no new range from its beginning on. Returns the first error; the cluster recovers
  // ranges that were not released.
  Status Stop(Nanos deadline_ns);
  std::string address() const;  // that others connect to
  // For people: memory, and a line for each range it holds.
  std::string StatusText() const;

 private:
  // Fills in options only; Init does the steps that may fail.
  LtcNode(const LtcOptions& options, const LtcEnvironment& environment);
  std::string host() const;  // for placement
  Status Init();             // the steps of Start; once
  // Joins the cluster over `store`, which it keeps with the session. Waits. Sets session_ and lease_session_.
  Status Join(std::unique_ptr<ConfigStore> store);
  // Lets go of the session. Returns when no xchg thread can be reading its lease any more, 10 s a thread at
  // most.
  void Leave();
  // Waits until every xchg thread has run the closures submitted before; 10 s each.
  void PassXchgs();
  // The callbacks of a session; they run on its heartbeat thread.
  NodeEvents Events();

  // A range is ours at an epoch; queues OpenRange unless it is held, opening or excluded at that epoch or
  // later. Comes with every heartbeat until the range is open.
  void OnAssigned(const RangeAssignment& assignment);
  // Epochs of the range up to `epoch` were taken from us: abandons the range before it returns, for the lease
  // in the same reply counts after that (lease, C3). A release thread then drops it.
  void OnExcluded(RangeId range, Epoch epoch);
  // Asks to give the range away in order (release, R5); comes with every heartbeat until it is done. Queues
  // the release.
  void OnRelease(RangeId range, Epoch epoch);
  // Membership has ended; the housekeeping thread joins again.
  void OnSessionLost(const std::string& why);
  // The content of a heartbeat about ranges, copies, fabric, memory.
  NodeReport Report() const;
  // The body of an opening, on an open thread: opens the range and publishes it, or abandons it and notes it
  // to be given back.
  void OpenRange(const RangeAssignment& assignment);
  // Abandons the range if it is held at `epoch` or an earlier one.
  void Drop(RangeId range, Epoch epoch);
  // Gives back (HostedRange::GiveBack) ranges that were lost, on release threads. Leaves out ranges that were
  // assigned again at the same epoch. A failure is tried again a second later.
  void GiveBackRanges();
  // Hands LtcServer the map of ranges_.
  void PublishLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  std::shared_ptr<HostedRange> Find(RangeId range) const;  // null: it is not held
  // The ranges held now; those that are opening are not among them.
  std::vector<std::shared_ptr<HostedRange>> Hosted() const;
  // The body of thread ltc.housekeeping.0, until stop_.
  void Housekeeping();
  // Seals the fullest active round when memtables use more than two thirds of memtable_limit_bytes. Called
  // every 100 ms.
  void SealForMemory();
  // Flushes ranges with rounds in replaced log groups (group change, L4): those with the fewest members left
  // first, no more ranges at a time than flush threads.
  void FlushExposed();
  // Deletes the tables in garbage_; called every 100 ms.
  void CollectGarbage();
  // A read passed over a bad copy of the table: notes it for repair. From any thread, does not wait.
  void OnDamaged(const Uuid& table);
  // Starts the repair of one damaged table on a control thread, unless one runs or the pause after a failure
  // lasts.
  void RepairNext();
  // Reads all copies of a table and writes damaged ones anew (damaged copy, repair, S3). OK if no range has
  // the table any more. Waits.
  Status Repair(const Uuid& table);

  const LtcOptions options_;
  const LtcEnvironment environment_;
  Metrics* const metrics_;
  Incarnation incarnation_;  // drawn by Init (N1); constant from then on
  Uuid cluster_;             // read from the store by Init; constant from then on
  std::string address_;      // as bound

  ArenaPool arenas_;  // memory of all memtables
  BlockCache cache_;  // blocks of tables, of all ranges
  std::vector<std::unique_ptr<Xchg>> xchgs_;
  bool serving_ = false;  // the xchg threads run; set once, by Init
  // [i] is of xchgs_[i].
  std::vector<std::unique_ptr<XchgExecutor>> executors_;
  std::unique_ptr<StocClient> stocs_;
  std::unique_ptr<TableStore> tables_;  // over stocs_
  std::unique_ptr<LogClient> logs_;
  HostServices services_;  // shared by all ranges
  std::unique_ptr<LtcServer> server_;
  std::unique_ptr<BackgroundWork> background_;

  mutable Mutex session_mu_;
  std::shared_ptr<NodeSession> session_ ABSL_GUARDED_BY(session_mu_);
  // session_ for xchg threads, which take no lock; see Leave.
  std::atomic<NodeSession*> lease_session_{nullptr};
  std::atomic<bool> rejoin_{false};  // the session was lost; the housekeeping thread joins again

  mutable Mutex mu_;
  // Held and open; the map that LtcServer has is made of it.
  std::map<RangeId, std::shared_ptr<HostedRange>> ranges_ ABSL_GUARDED_BY(mu_);
  // A range whose opening is queued or under way.
  struct Opening {
    Epoch epoch;
    std::shared_ptr<HostedRange> hosted;  // null: no open thread has begun with it
  };
  std::map<RangeId, Opening> opening_ ABSL_GUARDED_BY(mu_);
  // The highest epoch of each range that was taken from us. Nothing up to it is opened or served.
  std::map<RangeId, Epoch> excluded_ ABSL_GUARDED_BY(mu_);
  // Ranges abandoned by us whose record may still name us.
  std::vector<std::shared_ptr<HostedRange>> to_give_back_ ABSL_GUARDED_BY(mu_);
  // Give-backs under way; such a range is not opened meanwhile.
  std::multiset<RangeId> giving_back_ ABSL_GUARDED_BY(mu_);
  Mutex garbage_mu_;
  // Dropped tables to delete, and the range that held each.
  std::vector<std::pair<TableInfo, Creator>> garbage_ ABSL_GUARDED_BY(garbage_mu_);
  Mutex damaged_mu_;
  // Tables with a copy that is damaged or gone (damaged copy, S3), 1024 at most; others are found again by
  // reads.
  std::set<Uuid> damaged_ ABSL_GUARDED_BY(damaged_mu_);
  bool repairing_ ABSL_GUARDED_BY(damaged_mu_) = false;    // one repair at a time, for requests come first
  Nanos next_repair_ns_ ABSL_GUARDED_BY(damaged_mu_) = 0;  // no repair before this time
  std::atomic<bool> stopping_{false};  // set by Stop and the destructor: takes no new ranges
  Notification stop_;                  // ends the housekeeping thread
  std::unique_ptr<Thread> housekeeping_;
};

}  // namespace nova
