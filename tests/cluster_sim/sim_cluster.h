// SimCluster: a whole cluster in one process: coordinators, LTCs, StoCs and clients as they are, over a
// simulated network, simulated disks, a ConfigStore in memory and a simulated control channel; in virtual
// time, from one seed.
//
// A node is a name ("coordinator-0", "ltc-1", "stoc-2") and the object that runs under it. Kill ends the
// process: from that moment nothing of it reaches anybody, its disk forgets what was not synced, and its name
// is free for Start; the object itself is taken apart later, by a fiber of the cluster's. Pause is SIGSTOP as
// far as others can tell: the ports stand still, no heartbeat comes through. Isolate cuts ways of a node, and
// HealNode mends them.
//
// Thread safety: all methods from any fiber of the Simulation; one node's are called by one fiber at a time.
// Ownership:     it owns all parts; clients end before it.   Errors: a node that cannot start says why.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "client/client.h"
#include "common/base/sim_disk.h"
#include "common/base/simulation.h"
#include "common/base/thread.h"
#include "common/config/memory_store.h"
#include "common/rdma/sim/sim_fabric.h"
#include "coordinator/coordinator_service.h"
#include "coordinator/sim_channel.h"
#include "ltc/server/ltc_node.h"
#include "stoc/stoc_node.h"

namespace nova {

struct SimClusterOptions {
  int coordinators = 1;
  int ltcs = 2;
  int stocs = 4;
  SimNetworkOptions network;
  SimControlFaults control;
  MemoryConfigOptions config = {
      .session_timeout_ns = 4 * kSecond, .max_delay_ns = 2 * kMillisecond, .lost_reply_one_in = 0};
  SimDiskOptions disk;
  bool torn_disks = true;         // a crash keeps a part of what was not synced
  bool n3_own_store_off = false;  // a control: see RulesOff
  // In front of each StoC's, of that name; null: none.
  std::function<std::unique_ptr<Disk>(const std::string& stoc, Disk* disk)> wrap_disk;
  // each process' clock runs right but for as much of this as its start draws, either way
  double clock_rate_error = 0;
  CoordinatorOptions coordinator;
  LtcOptions ltc;
  StocOptions stoc;
  ClientOptions client;

  // in all nodes
  void SwitchOff(const RulesOff& off) {
    ltc.log.off = ltc.hosted.off = ltc.offload.off = stoc.server.off = stoc.server.copier.off = off;
    network.f3_replace_off = off.f3_replace;
    n3_own_store_off = off.n3_own_store;
  }
};

// Options small enough that a few hundred puts flush and compact.
SimClusterOptions SmallCluster();

class SimCluster {
 public:
  explicit SimCluster(SimClusterOptions options);  // REQUIRES: inside Simulation::Run
  ~SimCluster();
  SimCluster(const SimCluster&) = delete;
  SimCluster& operator=(const SimCluster&) = delete;

  void StartAll();                        // and waits until the nodes are members
  Status Start(const std::string& node);  // REQUIRES: it does not run
  void Kill(const std::string& node);     // no-op where nothing runs
  Status Stop(const std::string& node);   // in order; of an LTC or StoC
  bool Runs(const std::string& node) const;
  void Pause(const std::string& node);
  void Resume(const std::string& node);
  // Its wall clock jumps; that it goes by others again is for its next start.
  void JumpWallClock(const std::string& node, int64_t ms);
  // Its ports stand still until Resume, and everything else goes on: a heartbeat says that it lives.
  void Hang(const std::string& node);
  // The disk of a StoC that does not run, which has an empty one then; and another one for it. An empty one
  // has the SUPERBLOCK of the last where that rule is off (StoC id, N3).
  std::unique_ptr<SimDisk> TakeDisk(const std::string& stoc);
  void PutDisk(const std::string& stoc, std::unique_ptr<SimDisk> disk);
  // What a StoC that does not run has on its disk is gone.
  void LoseDisk(const std::string& stoc) { TakeDisk(stoc); }
  // Ways to the coordinators, to the ConfigStore.
  void CutControl(const std::string& node, bool cut);
  void CutConfig(const std::string& node, bool cut);
  // An LTC or StoC from one coordinator.
  void CutFromCoordinator(const std::string& node, const std::string& coordinator, bool cut);
  void CutClient(const std::string& client, bool cut = true);  // from the coordinators
  // Of the node's next changes in the ConfigStore: so many answers, or so many requests, are lost.
  void LoseConfigReplies(const std::string& node, int n);
  void LoseConfigRequests(const std::string& node, int n);
  // Pauses end, cuts mend; what was killed stays so.
  void HealAll();

  std::unique_ptr<Client> NewClient(const std::string& name) {
    return NewClient(name, options_.client.timeout_ms);
  }
  std::unique_ptr<Client> NewClient(const std::string& name, int64_t timeout_ms);
  std::unique_ptr<Client> NewClient(const std::string& name, const ClientOptions& options);
  CoordinatorClient NewCoordinatorClient();
  std::string Leader() const;                // the coordinator that leads; empty: none
  std::map<RangeId, RangeRecord> Records();  // as stored
  std::optional<RangeRecord> Record(RangeId range);
  // Every range is OPEN, and its owner runs.
  bool WaitOpen(size_t ranges, Nanos within);
  // Killing the StoC now would leave each listed log group a member that runs (what R members are to
  // survive).
  bool MayLose(const std::string& stoc) { return MayLose(std::vector{stoc}); }
  bool MayLose(const std::vector<std::string>& stocs);
  // So it may be for ever: and each table and manifest that is whole has another copy, on a StoC that runs.
  bool MayLoseForEver(const std::string& stoc);

  std::vector<std::string> Names(const std::string& kind) const;  // "coordinator", "ltc", "stoc"
  SimNetwork* network() { return network_.get(); }
  SimControlNetwork* control() { return &control_; }
  MemoryConfig* config() { return &config_; }
  LtcNode* ltc(const std::string& node) { return nodes_.at(node)->ltc.get(); }
  StocNode* stoc(const std::string& node) { return nodes_.at(node)->stoc.get(); }
  // of one that runs, behind its back
  Disk* disk(const std::string& stoc) { return nodes_.at(stoc)->mounted.get(); }
  // What is on a StoC's disk now, whether it runs or not.
  std::unique_ptr<SimDisk> CopyOfDisk(const std::string& stoc) const { return disks_.at(stoc)->Copy(); }
  // The disk of a StoC that does not run.
  std::unique_ptr<Disk> MountOfStopped(const std::string& stoc) { return disks_.at(stoc)->Mount(); }
  // What a mount of a StoC's disk would read there; nullopt: no such file. Takes no time.
  std::optional<std::string> Contents(const std::string& stoc, const std::string& path) const {
    return disks_.at(stoc)->Contents(path);
  }
  // A file of a table; and one of which no other StoC's disk has the same bytes. Take no time.
  bool IsTable(const std::string& stoc, const std::string& path) const;
  bool IsLastCopy(const std::string& stoc, const std::string& path) const;
  // what options.wrap_disk made for it
  Disk* wrapped_disk(const std::string& stoc) { return nodes_.at(stoc)->wrapped.get(); }
  FabricCounters fabric_counters(const std::string& node) const {
    return nodes_.at(node)->fabric->counters();
  }
  // A metric's value, summed over the nodes of that kind that run; or of the node of that name.
  double Metric(const std::string& kind_or_node, const std::string& name) const;

 private:
  class Session;
  // One process: a name, and which start of it this is.
  struct Process {
    std::string name;
    std::string control_name;          // on the control network
    Simulation::Host* host = nullptr;  // one of hosts_
    bool dead = false;
    bool paused = false;
    bool stopping = false;  // what it holds in memory is as good as gone
    bool control_cut = false;
    bool config_cut = false;
    std::vector<MemorySession*> sessions;  // in the order they were opened
    Metrics metrics;
    std::unique_ptr<Fabric> fabric;
    std::unique_ptr<Disk> mounted;
    std::unique_ptr<Disk> wrapped;
    std::unique_ptr<CoordinatorService> coordinator;
    std::unique_ptr<LtcNode> ltc;
    std::unique_ptr<StocNode> stoc;
  };

  std::optional<RangeRecord> RecordAt(const std::string& path);
  StatusOr<std::unique_ptr<ConfigStore>> OpenStore(Process* process);
  std::unique_ptr<ControlChannel> OpenChannel(const Process& process);
  std::vector<std::string> CoordinatorAddresses() const;
  Status StartCoordinator(Process* process);
  Status StartLtc(Process* process);
  Status StartStoc(Process* process);
  void ApplyCuts(Process* process);
  void Bury(std::unique_ptr<Process> process);
  static void TakeApart(std::unique_ptr<Process> process);

  const SimClusterOptions options_;
  std::deque<Simulation::Host> hosts_;  // of every start: a fiber may work for one that is gone
  MemoryConfig config_;
  SimControlNetwork control_;
  std::unique_ptr<SimNetwork> network_;
  std::unique_ptr<MemorySession> admin_;
  Random random_;
  std::map<std::string, std::unique_ptr<SimDisk>> disks_;
  std::map<std::string, std::unique_ptr<Process>> nodes_;
  std::set<std::string> cut_clients_;
  std::vector<std::unique_ptr<Thread>> burials_;
  uint64_t starts_ = 0;
};

}  // namespace nova
