// LtcNode: one LTC of a cluster. It owns the xchg threads, the parts that all ranges share (memory, block
// cache, StoC and log clients, background threads), the ranges it holds, and its membership.
//
// Start draws an incarnation (N1), listens and joins. The coordinator then assigns ranges with its answers to
// heartbeats, and open threads open them. A membership that is lost is joined again by the housekeeping
// thread. Stop releases every range in order (release, R5) and leaves; the destructor alone leaves as a crash
// would, and the cluster recovers the ranges from their logs.
//
// Its parts: RangeLedger decides which ranges are opened, held and given back; LtcMembership has the session
// and its lease; TableChores what is to be deleted or repaired; OpenFailures why ranges are not open;
// RangeTotals what ranges have counted.
//
// Thread safety: all. Events of the session (On...) do not wait.
// Locks: none of its own. Of its parts RangeLedger's is held while the map of ranges is handed to LtcServer,
//   which takes its own, and while ranges are abandoned; RangeTotals' while a range leaves the ledger; the
//   others are leaves.
// Ownership: its parts. The environment outlives it; callbacks of session and threads end in the destructor.
// Errors: Start returns one Status that names the cause.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "common/base/metrics.h"
#include "common/config/config_store.h"
#include "coordinator/coordinator_client.h"
#include "ltc/engine/background.h"
#include "ltc/engine/memory_use.h"
#include "ltc/server/hosted_range.h"
#include "ltc/server/ltc_membership.h"
#include "ltc/server/ltc_server.h"
#include "ltc/server/open_failures.h"
#include "ltc/server/range_ledger.h"
#include "ltc/server/range_totals.h"
#include "ltc/server/table_chores.h"
#include "stoc/stoc_table_store.h"

namespace nova {

// nova_ltc's flags fill it in; docs/deploy.md says which are for operators.
struct LtcOptions {
  std::string name;                     // unique in the cluster; the coordinator knows the node by it
  std::string address = "127.0.0.1:0";  // where clients connect (data plane); port 0: any
  std::string advertise;                // the address that others connect to; empty: the bound one
  std::string host;                     // for placement on other hosts; empty: the host part of the address
  bool near_tables = false;             // first copies of tables lie on this host, as long as that can be
  std::string metrics_address;          // of /metrics, as bound; shown by `nova status`
  int xchg_threads = 1;
  size_t block_cache_bytes = 256 << 20;     // bound on cached blocks and metadata of tables, for all ranges
  size_t memtable_limit_bytes = 512 << 20;  // bound on memtables, for all ranges
  BackgroundOptions background;             // threads that wait
  HostedRangeOptions hosted;                // of each range
  OffloadOptions offload;                   // of compactions, to StoCs
  LogOptions log;                           // of all logs
  XchgOptions xchg;                         // of each xchg thread; name and index are filled in
  size_t max_snapshots_per_range = 1000;    // bound on snapshots that clients hold
  int64_t max_snapshot_lease_ms = 600'000;  // longest lease of such a snapshot, renewals apart
  Nanos heartbeat_ns = 500 * kMillisecond;  // between two heartbeats
  Nanos orphan_period_ns = 180 * kSecond;   // between two collections (N4) of a range
  uint64_t orphan_grace_ms = 60'000;        // age below which a file of an earlier epoch is left alone
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
  // Notified when the node can be a member no more, for a later process has its name. The process is to end.
  const Notification& superseded() const { return membership_.superseded(); }
  // Every xchg thread runs what it is given, within 10 s each. Waits.
  bool Responds();
  std::string address() const;  // that others connect to
  // For people: memory, and a line for each range it holds.
  std::string StatusText() const;

 private:
  // Fills in options only; Init does the steps that may fail.
  LtcNode(const LtcOptions& options, const LtcEnvironment& environment);
  std::string host() const;  // for placement
  Status Init();             // the steps of Start; once
  // What all ranges share: fills in services_. The parts are there.
  void SetServices(const std::vector<XchgExecutor*>& executors);
  void AddMetrics(const std::vector<Xchg*>& xchgs);  // of the node; the server and the logs add their own
  // Joins the cluster over `store`, which it keeps with the session. Waits.
  Status Join(std::unique_ptr<ConfigStore> store);
  // Lets go of the session. Returns when no xchg thread can be reading its lease any more, 10 s a thread at
  // most.
  void Leave();
  // The callbacks of a session; they run on its heartbeat thread.
  NodeEvents Events();

  // A range is ours at an epoch; queues OpenRange unless it is held, opening, being given back, or excluded
  // at that epoch or later. Comes with every heartbeat until the range is open.
  void OnAssigned(const RangeAssignment& assignment);
  // Epochs of the range up to `epoch` were taken from us: abandons the range before it returns, for the lease
  // in the same reply counts after that (lease, C3). A release thread then drops it.
  void OnExcluded(RangeId range, Epoch epoch);
  // Asks to give the range away in order (release, R5); comes with every heartbeat until it is done. Queues
  // the release.
  void OnRelease(RangeId range, Epoch epoch);
  // The list of StoCs has changed.
  void OnStocs(const StocList& stocs);
  // What an operator has set, with each heartbeat.
  void OnSettings(const LtcSettings& settings);
  // Membership has ended; the housekeeping thread joins again.
  void OnSessionLost(const std::string& why);
  // The content of a heartbeat about ranges, copies, fabric, memory.
  NodeReport Report() const;
  // The body of an opening, on an open thread: opens the range and publishes it, or abandons it and notes it
  // to be given back.
  void OpenRange(const RangeAssignment& assignment);
  // Gives back (HostedRange::GiveBack) ranges that were lost, on release threads. A failure is tried again a
  // second later.
  void GiveBackRanges();
  // Queues a chore of the range, by `run` of BackgroundWork, unless it is queued or under way already.
  void QueueOnce(const std::shared_ptr<HostedRange>& hosted, HostedRange::Chore chore,
                 bool (BackgroundWork::*run)(std::function<void()>), std::function<void()> fn);
  // Hands LtcServer the map of the ranges that are held.
  void Publish(const RangeLedger<HostedRange>::Held& held);
  // Housekeeping's part where the session was lost. Waits.
  void JoinAgain();
  // The body of thread ltc.housekeeping.0, until stop_.
  void Housekeeping();
  // Seals the active round whose flush frees most memory, when what flushes free is more than two thirds of
  // its bound (RangeServices). Called every 100 ms.
  void SealForMemory();
  // Flushes ranges with rounds in replaced log groups (group change, L4): those with the fewest members left
  // first, no more ranges at a time than flush threads. Seals the active round where no older one waits.
  void FlushExposed();
  // While StoCs refuse memory for logs (deadline, L5): gives spare logs back, and flushes the ranges whose
  // logs have been there longest, no more ranges at a time than flush threads. Called every 100 ms.
  void FreeLogMemory();
  // Deletes the tables that were dropped; called every 100 ms.
  void CollectGarbage();
  // Starts the repair of one damaged table on a control thread, unless one runs or the pause after a failure
  // lasts.
  void RepairNext();
  // Reads all copies of a table and writes damaged ones anew (damaged copy, repair, S3). OK if no range has
  // the table any more. Waits.
  Status Repair(const Uuid& table);

  const LtcOptions options_;
  const LtcEnvironment environment_;
  Metrics* const metrics_;
  // Which process this is, set by Init and constant from then on.
  struct Identity {
    Incarnation incarnation;  // drawn from the store (N1)
    Uuid cluster;             // read from the store
    std::string address;      // as bound
  };
  Identity identity_;

  ArenaPool arenas_;          // memory of all memtables
  BlockCache cache_;          // blocks of tables, of all ranges
  LtcMembership membership_;  // the session and its lease
  TableChores chores_;        // outlives whoever may let go of a table
  OpenFailures failures_;     // of ranges that are ours and not open
  std::vector<std::unique_ptr<Xchg>> xchgs_;
  bool serving_ = false;  // the xchg threads run; set once, by Init
  // [i] is of xchgs_[i].
  std::vector<std::unique_ptr<XchgExecutor>> executors_;
  std::unique_ptr<StocClient> stocs_;           // over xchgs_
  std::unique_ptr<TableStore> tables_;          // over stocs_
  std::unique_ptr<JobOffloader> offloader_;     // likewise; null: compactions run here
  std::unique_ptr<LogClient> logs_;             // over xchgs_ and stocs_
  HostServices services_;                       // shared by all ranges
  std::unique_ptr<LtcServer> server_;           // requests of clients, on xchgs_
  std::unique_ptr<BackgroundWork> background_;  // all threads but xchg, heartbeat and housekeeping

  RangeLedger<HostedRange> ranges_;         // which ranges are opened, held, given back
  RangeTotals totals_;                      // what they have counted; drops them
  std::atomic<Nanos> stoc_returned_ns_{0};  // a StoC that was not there is since then; 0: seen to
  std::atomic<bool> stopping_{false};       // set by Stop and the destructor: takes no new ranges
  std::atomic<bool> draining_{false};       // by the coordinator's last word; the next registration says so
  Notification stop_;                       // ends the housekeeping thread
  std::unique_ptr<Thread> housekeeping_;
};

}  // namespace nova
