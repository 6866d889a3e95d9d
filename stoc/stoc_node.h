// StocNode: one StoC: owns the store, the memory, the xchg and storage threads, and the membership in the
// cluster.
//
// Start: lock the directory (format it when it is empty), draw an incarnation, read the ranges' epochs
// (revocation, F1), listen, join. When the membership is lost (an expired session) the node goes on serving
// what it has, segments included, and joins again with the incarnation it has (writes need no lease C4,
// incarnation N1). At start and every collect_period the ranges' records are read: epochs that have risen are
// fenced, and segments of epochs before an OPEN one are freed (collection, N4). With each heartbeat it may
// hear of the other StoCs, from which it copies files when an owner asks it to (rebuild, S5). Each heartbeat
// says what ails the disk (StoC record, N5), and waits for no disk. All that it stores is read once in a
// period (scrub, S6).
// Stop:  refuse new work, finish the queued, leave.
//
// Thread safety: all.
// Ownership: of its parts, which stop in the reverse order; fabric, disk and metrics outlive it.
// Errors: Start: one Status naming the cause. FailedPrecondition, InvalidArgument, DataLoss: the directory is
//         not one for us.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "common/base/disk.h"
#include "common/base/metrics.h"
#include "common/config/config_store.h"
#include "common/rdma/xchg.h"
#include "coordinator/coordinator_client.h"
#include "stoc/disk_probe.h"
#include "stoc/disk_watch.h"
#include "stoc/scrubber.h"
#include "stoc/stoc_server.h"

namespace nova {

struct StocOptions {
  std::string name;                     // unique in the cluster; the coordinator knows the node by it
  std::string address = "127.0.0.1:0";  // data plane; port 0: any
  std::string advertise;                // what others connect to; empty: as bound
  std::string host;                     // for placement; empty: of the address
  std::string metrics_address;          // as bound, shown in the status
  int xchg_threads = 1;
  uint64_t log_memory_bytes = uint64_t{1} << 30;  // bound on segments of all logs
  uint64_t segment_bytes = 1 << 20;               // smallest size class
  size_t spare_segments = 8;                      // kept registered
  uint64_t file_buffer_bytes = 256 << 20;         // bound on memory that takes files by WRITE
  FileStoreOptions files;
  ScrubOptions scrub;
  StocServerOptions server;  // its incarnation is filled in
  XchgOptions xchg;
  Nanos heartbeat_ns = 500 * kMillisecond;   // between two heartbeats
  Nanos collect_period_ns = 60 * kSecond;    // between two readings of the ranges' records
  DiskWatchOptions disk_watch;               // how much is full follows from `files`
  Nanos disk_probe_period_ns = 5 * kSecond;  // DiskProbe
};

// What differs between production and simulation.
struct StocEnvironment {
  // Opens a session with the store; may wait.
  std::function<StatusOr<std::unique_ptr<ConfigStore>>()> open_store;
  std::function<std::unique_ptr<ControlChannel>()> open_channel;  // makes the way to the coordinators
  Fabric* fabric = nullptr;
  Disk* disk = nullptr;
  Metrics* metrics = nullptr;
};

class StocNode {
 public:
  // See the head of this file. Waits for the store and the disk.
  static StatusOr<std::unique_ptr<StocNode>> Start(const StocOptions& options,
                                                   const StocEnvironment& environment);
  ~StocNode();  // as Stop

  void Stop();                                                // waits; idempotent
  const NodeInfo& self() const { return self_; }              // as it is registered
  const SegmentPool& segments() const { return *segments_; }  // for tests
  std::string StatusText();                                   // for people
  // Notified when the node can be a member no more, and why: a later process has its name. The process is to
  // end.
  const Notification& superseded() const { return superseded_; }

 private:
  StocNode(const StocOptions& options, const StocEnvironment& environment);
  Status Init();      // the steps of Start; once
  Status Serve();     // makes the parts that answer requests, and listens
  void AddMetrics();  // once all parts stand
  Status Join();      // registers with the incarnation it has, and begins to send heartbeats
  void Membership();  // the body of thread stoc.membership
  // Reads the ranges' records: fences epochs that have risen, frees what is below an OPEN one, and deletes
  // the unreadable files that no range needs (N4).
  void Collect();
  // Logs which ranges' records cannot be read, when that changes: they are refused or left as they are.
  void NoteUnknown(const RangeRecords& ranges);
  NodeReport Report();  // the content of a heartbeat; waits for no disk

  const StocOptions options_;
  const StocEnvironment environment_;
  Metrics* const metrics_;
  NodeInfo self_;  // filled in by Init; constant from then on
  Uuid cluster_;   // the same

  std::unique_ptr<ConfigStore> store_;   // of the membership thread, once it runs
  std::vector<RangeId> unknown_ranges_;  // likewise; as NoteUnknown was last told
  std::unique_ptr<NodeSession> session_;
  DiskWatch disk_;
  std::unique_ptr<DiskProbe> probe_;
  std::unique_ptr<FileStore> files_;
  std::unique_ptr<Scrubber> scrubber_;  // null: no scrub
  FenceTable fences_;
  std::unique_ptr<ExposedMemory> log_memory_;
  std::unique_ptr<ExposedMemory> buffer_memory_;
  std::unique_ptr<SegmentPool> segments_;
  std::vector<std::unique_ptr<Xchg>> xchgs_;
  std::unique_ptr<StocClient> others_;  // the cluster's StoCs, over xchgs_
  std::unique_ptr<StocServer> server_;

  std::atomic<bool> lost_{false};    // the session has ended: Membership joins again
  std::atomic<bool> member_{false};  // for the status
  Notification superseded_;          // see superseded
  Notification stop_;                // ends Membership
  std::unique_ptr<Thread> membership_;
};

}  // namespace nova
