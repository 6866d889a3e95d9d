// CoordinatorClient: everything an LTC, a StoC, a client or a tool asks of the control plane.
//
// Two ways lie below it: the ControlChannel to the leading coordinator (gRPC, simulated), for heartbeats,
// configurations and admin commands; and the ConfigStore, for the node's own session and the compare-and-set
// of its ranges' records (group change L4, manifest M1, wait R5). Clients and tools have no ConfigStore.
//
// Thread safety: all methods from any thread; those that return a Status wait (never on an xchg thread).
//                lease_expiry_ns() is one atomic load.
// Ownership: the ConfigStore outlives the session that was made with it; events are called until the session
//            is destroyed.
// Errors: Statuses; each method names those that mean something of their own.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/base/clock.h"
#include "common/base/status.h"
#include "common/config/config_store.h"
#include "coordinator/cluster_types.h"
#include "coordinator/ltc_settings.h"

namespace nova {

// One request to the leading coordinator, and its answer: serialized protobuf messages of coordinator.proto
// by method name.
// Implementations: gRPC (grpc_channel.h; finds the leader among the given addresses), simulated (drops,
// delays, duplicates).
class ControlChannel {
 public:
  virtual ~ControlChannel() = default;
  virtual StatusOr<std::string> Call(const std::string& method, const std::string& request,
                                     Nanos deadline_ns) = 0;
  // The address of a coordinator that may lead, as the configuration store has it: from now on it is asked
  // like those that were given, instead of the one that was learned before. A channel to one coordinator
  // needs none.
  virtual void Learn(const std::string& /*leader*/) {}
};

// A range this node is to open. The seal (R1) is done: the record is SEALING, at the new epoch, and names us.
struct RangeAssignment {
  RangeRecord record;
  Nanos old_lease_ends_ns = 0;  // R5, on our clock: no OPEN before
};

// Of a range's tables. A table has as many living copies as its part with the fewest.
struct TableCopies {
  uint64_t tables = 0;
  uint64_t degraded = 0;       // with fewer living copies than the LTC is configured to keep
  uint32_t fewest = 0;         // living copies of the table with the fewest; 0 also where there is no table
  uint64_t rebuild_bytes = 0;  // to be copied, so that no table lacks a copy any more (rebuild, S5)
  uint64_t rebuilt_bytes = 0;  // copied since the range was opened
  uint64_t stocs_version = 0;  // of the StocList by which they were counted; 0: not told
};

// A range, as the LTC that opens or holds it sees it.
struct RangeLoad {
  RangeId range;
  Epoch epoch;
  bool open = false;    // it serves
  uint64_t writes = 0;  // since the range was opened here
  uint64_t reads = 0;   // likewise
  uint64_t bytes = 0;   // stored in its tables
  TableCopies tables = {};
};

// How many copies an LTC is configured to keep of each log (R; 0: it keeps no log), manifest (M) and table.
struct CopiesKept {
  uint32_t log = 0;
  uint32_t manifest = 0;
  uint32_t table = 0;
  bool operator==(const CopiesKept&) const = default;
};

// How a StoC's disk does, as the StoC sees it. Whether it is slow only the leader can tell, who sees others.
struct DiskReport {
  // The worst that has happened to this process since an operator's forgiveness: kFailing, kReadOnly, or kOk.
  DiskState fault = DiskState::kOk;
  uint64_t faults = 0;  // operations that failed or were refused so, ever
  bool full = false;    // it takes no new files
  Nanos hung_ns = 0;    // for how long operations have not ended; 0: they do
  Nanos read_ns = 0;    // of an operation, on average over the last seconds; 0: there was none
  Nanos sync_ns = 0;    // likewise
  bool operator==(const DiskReport&) const = default;
};

// Why an LTC has not opened a range that it was given, when it tried last.
struct OpenFailure {
  RangeId range;
  Epoch epoch;
  bool data_loss = false;  // every copy of something that was acknowledged is damaged
  std::string why;         // for people
};

struct NodeReport {  // what a heartbeat says of the node
  std::vector<RangeLoad> ranges;
  std::optional<CopiesKept> copies;  // of an LTC
  FabricCounters fabric;
  uint32_t queue_depth = 0;                              // of a StoC: disk operations queued and running
  uint64_t disk_bytes = 0;                               // of a StoC: of its files
  uint64_t disk_free_bytes = 0;                          // of a StoC
  std::optional<DiskReport> disk;                        // of a StoC
  std::vector<std::pair<std::string, uint64_t>> memory;  // bytes used, by pool
  // Of an LTC: tables that draining StoCs hold of its ranges, or will when what runs now ends.
  std::map<StocId, uint64_t> draining;
  bool stopping = false;                // an LTC that lets go of its ranges, and opens none
  std::vector<OpenFailure> not_opened;  // of an LTC; of earlier epochs too, and not of very many
};

// The StoCs of the cluster, as the leading coordinator sees them.
struct StocList {
  std::vector<NodeInfo> live;  // with a lease, and what is said of their disks
  // Gone for good, as far as is known (StoC record, N5): what they held is made anew (rebuild, S5).
  std::vector<StocId> lost;
  uint64_t version = 0;  // of the list; what is counted by it says so (TableCopies)
  bool operator==(const StocList&) const = default;
};

// What the answers to heartbeats say, and what heartbeats ask the node for. All are called on the heartbeat
// thread, and must not wait.
struct NodeEvents {
  // A range is to be opened. Repeated until it is OPEN or assigned elsewhere.
  std::function<void(const RangeAssignment&)> assigned;
  // Lease (C3): the range's epochs up to this one were taken from us: nothing is answered for them any more.
  std::function<void(RangeId, Epoch)> excluded;
  // Flush, stop, let go in order (release, R5). Repeated until it is done.
  std::function<void(RangeId, Epoch)> release;
  std::function<void(const StocList&)> stocs;  // whenever the list changes
  // Our session is void: nothing is granted any more. The node may join again with the incarnation it has.
  std::function<void(const std::string& why)> lost;
  // Of a StoC, with each heartbeat: so many of DiskReport::faults an operator has forgiven; 0: none.
  std::function<void(uint64_t faults)> faults_forgiven;
  // Of an LTC, with each heartbeat: all that an operator has set.
  std::function<void(const LtcSettings&)> settings;
  // Of an LTC, with each heartbeat: whether an operator drains it. Its next registration is to say so.
  std::function<void(bool)> draining;
  std::function<NodeReport()> report;  // the content of the next heartbeat
};

struct NodeOptions {
  NodeInfo node;  // incarnation: the process' (DrawIncarnation); 0: JoinCluster draws one
  Uuid cluster;   // that it belongs to; nil: any
  // Between two heartbeats; a fifth of it while the coordinator says that ranges change owners.
  Nanos heartbeat_ns = 500 * kMillisecond;
  double clock_rate_error = 0.01;             // rho of C3
  Nanos lease_margin_ns = 50 * kMillisecond;  // delta of C3
};

// A node's membership: its incarnation, its ephemeral znode, its lease, kept by a heartbeat thread of raised
// priority.
class NodeSession {
 public:
  virtual ~NodeSession() = default;  // leaves: stops heartbeats, removes the ephemeral node

  virtual const NodeInfo& self() const = 0;  // as it is registered
  virtual Uuid cluster() const = 0;          // which cluster it joined
  // C3, on our clock: reads may be answered before it. 0 before the first grant.
  virtual Nanos lease_expiry_ns() const = 0;
  virtual std::vector<NodeInfo> stocs() const = 0;  // with a live lease

  virtual StatusOr<RangeRecord> ReadRange(RangeId id) = 0;      // `sync` first
  virtual StatusOr<std::vector<RangeRecord>> ReadRanges() = 0;  // for tests
  // Compare-and-set by record.version; returns the record with its new version. Aborted: somebody else was
  // first. A lost reply is tried again, and a refusal then compared with the stored record. Unavailable: the
  // session may not be asked any more, and the change may have been made or not.
  virtual StatusOr<RangeRecord> UpdateRange(const RangeRecord& record) = 0;
  // R5 (release): replaces `before` by `after`, which gives the range away; whoever calls it serves nothing
  // meanwhile. While the outcome is in doubt for longer than `doubt_ns` the change is cancelled: by a
  // compare-and-set of `before` from the same version, so that at most one of the two ever counts. The record
  // as it is now, and which of them it is. Aborted: somebody else was first. Unavailable: it will stay in
  // doubt: the session has expired, or the node leaves.
  struct Handover {
    RangeRecord record;
    bool cancelled = false;
  };
  virtual StatusOr<Handover> HandOverRange(const RangeRecord& before, const RangeRecord& after,
                                           Nanos doubt_ns) = 0;
  // The node leaves: heartbeats end, and so does, as Unavailable, a call that goes on asking because the
  // store does not answer. For whoever lets go of a session that such a call may hold, and then waits for
  // the call.
  virtual void BeginToLeave() = 0;
};

// Draws an incarnation (N1), or sees to it that nobody else draws the one that is given; registers, and
// heartbeats until destroyed. Unavailable: no ZooKeeper or no cluster yet. InvalidArgument: the store is
// another cluster's; no node's name. FailedPrecondition: a later process has the name.
StatusOr<std::unique_ptr<NodeSession>> JoinCluster(ConfigStore* store,
                                                   std::unique_ptr<ControlChannel> channel,
                                                   NodeOptions options, NodeEvents events);

// StoC only, before JoinCluster: the id of a new store directory, drawn from ZooKeeper and written at format
// time, with the StoC's record (stoc_record.h). A store that has a record already, for its StoC could not
// write the id, gets that one's. InvalidArgument: not a node's name.
StatusOr<StocId> DrawStocId(ConfigStore* store, const Uuid& store_uuid, const std::string& name);
// Which cluster the store is of. Unavailable: no coordinator has made one so far.
StatusOr<Uuid> ReadClusterUuid(ConfigStore* store);
// N1: once per process start. A process whose session expired joins again with the one it has.
StatusOr<Incarnation> DrawIncarnation(ConfigStore* store);
// Revocation (F1): what a StoC reads before it listens; `sync` first.
struct RangeRecords {
  std::vector<RangeRecord> whole;  // by range id
  std::vector<RangeId> unknown;    // ranges whose records do not decode
  std::string why;                 // of the first of `unknown`, for people
};
StatusOr<RangeRecords> ReadRangeRecords(ConfigStore* store);

// Where each range is, for routing.
struct RangeRoute {
  RangeId id;
  std::string lower;  // stored keys, [lower, upper); empty upper: no end
  std::string upper;
  Epoch epoch;  // requests have to name it (epoch, N2)
  bool open = false;
  std::string address;  // of the owner; empty: none
  bool operator==(const RangeRoute&) const = default;
};
struct Configuration {
  uint64_t version = 0;  // 0: nothing is known
  Uuid cluster;
  std::map<std::string, RangeRoute> ranges;  // by lower bound
  std::vector<NodeInfo> nodes;               // that are registered
  uint32_t max_value_bytes = 0;              // that LTCs take
};

// Clients and tools. Configurations travel as deltas against `known`.
class CoordinatorClient {
 public:
  explicit CoordinatorClient(std::unique_ptr<ControlChannel> channel);
  ~CoordinatorClient();
  // Brings `known` up to date in place.
  Status Refresh(Configuration* known, Nanos deadline_ns);
  // n split points (stored keys) make n + 1 ranges; refused (AlreadyExists) when ranges exist.
  Status CreateRanges(const std::vector<std::string>& split_points, Nanos deadline_ns);
  StatusOr<std::string> StatusText(Nanos deadline_ns);  // what `nova status` prints
  StatusOr<std::string> StatusJson(Nanos deadline_ns);  // what `nova status --json` prints
  // Asks for everything to be moved off the node: its name, or the number of a StoC, which need not be there
  // any more. *left: what is still there; empty: nothing, it can stop. Ask again to see. FailedPrecondition:
  // the other StoCs are too few to take it; `force`: one is enough, whatever number of copies is configured.
  Status Drain(const std::string& node, Nanos deadline_ns, std::string* left, bool force = false);
  // It takes part again. Also of one that does not drain. *now: what it does now, for people; may be null.
  Status Undrain(const std::string& node, Nanos deadline_ns, std::string* now = nullptr);
  // Removes the record of a StoC that is lost, and of which no range needs anything (StoC record, N5).
  // FailedPrecondition: it is not so.
  Status Forget(StocId stoc, Nanos deadline_ns);
  // Sets one of LtcSettings for all LTCs; nullopt: it is as their flags say again. LTCs have it with their
  // next heartbeats. InvalidArgument: there is none of that name, or the value is out of bounds.
  Status ChangeSetting(const std::string& name, std::optional<int> value, Nanos deadline_ns);
  // Opens a range although logs are lost for good, if data loss is accepted; else nothing is changed.
  // *report: what is missing.
  Status ForceOpen(RangeId range, bool accept_data_loss, Nanos deadline_ns, std::string* report);

 private:
  std::unique_ptr<ControlChannel> channel_;
};

}  // namespace nova
