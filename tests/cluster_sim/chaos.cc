#include "tests/cluster_sim/chaos.h"

#include <algorithm>

#include "common/base/log.h"
#include "tests/cluster_sim/scenario.h"

namespace nova {
namespace {

constexpr Nanos kOpenWithin = 60 * kSecond;     // after all healed
constexpr Nanos kWholeRun = 20 * 60 * kSecond;  // virtual: something hangs

// Faults of one kind of node, one at a time; kinds overlap.
class Nemesis {
 public:
  Nemesis(SimCluster* cluster, const ChaosOptions* options, Notification* stop) : cluster_(cluster), options_(options), stop_(stop) {}

  void RunStocs() {
    const std::vector<std::string> stocs = cluster_->Names("stoc");
    while (!Sleep(Between(50, 1500))) {
      const std::string& stoc = Pick(stocs);
      switch (random_.Uniform(4)) {
        case 0:
        case 1:
          if (options_->kill_stocs && cluster_->MayLose(stoc)) {
            KillAndRestart(stoc, Between(10, 4000));
            // What it held is on fewer members until the LTCs have noticed.
            if (Sleep(3 * kSecond)) return;
          }
          break;
        case 2: PauseFor(stoc, Between(50, 4000)); break;
        default: CutFor(stoc, Between(100, 4000)); break;
      }
    }
  }
  void RunLtcs() {
    const std::vector<std::string> ltcs = cluster_->Names("ltc");
    while (!Sleep(Between(50, 1500))) {
      const std::string& ltc = Pick(ltcs);
      switch (random_.Uniform(5)) {
        case 0:
        case 1:
          if (options_->kill_ltcs) KillAndRestart(ltc, Between(10, 3000));
          break;
        case 2: PauseFor(ltc, Between(50, 7000)); break;
        case 3: CutFor(ltc, Between(100, 7000)); break;
        default: PartitionFor(ltc, Between(100, 5000)); break;
      }
    }
  }
  void RunCoordinators() {
    const std::vector<std::string> coordinators = cluster_->Names("coordinator");
    while (!Sleep(Between(500, 5000))) {
      const std::string& coordinator = Pick(coordinators);
      if (options_->kill_coordinators && random_.OneIn(2)) {
        KillAndRestart(coordinator, Between(10, 4000));
      } else if (options_->cuts) {
        CutFor(coordinator, Between(100, 6000));
      }
    }
  }
  void RunNetwork() {
    while (!Sleep(Between(1000, 4000))) {
      SimNetworkOptions network = options_->cluster.network;
      if (random_.OneIn(2)) {
        network.lose_one_in = 500 + random_.Uniform(5000);
        network.max_delay_ns = Between(0, 10) + 100 * kMicrosecond;
      }
      cluster_->network()->set_options(network);
    }
    cluster_->network()->set_options(options_->cluster.network);
  }
  uint64_t faults() const { return faults_; }

 private:
  bool Sleep(Nanos ns) { return stop_->WaitUntil(Now() + ns); }
  Nanos Between(uint64_t least_ms, uint64_t most_ms) {
    return static_cast<Nanos>((least_ms * 1000 + random_.Uniform((most_ms - least_ms) * 1000 + 1))) * kMicrosecond;
  }
  const std::string& Pick(const std::vector<std::string>& names) { return names[random_.Uniform(names.size())]; }

  void KillAndRestart(const std::string& node, Nanos down_ns) {
    if (!cluster_->Runs(node)) return;
    ++faults_;
    cluster_->Kill(node);
    Sleep(down_ns);
    while (!cluster_->Start(node).ok()) {
      if (Sleep(200 * kMillisecond)) return;
    }
  }
  void PauseFor(const std::string& node, Nanos ns) {
    if (!options_->pauses) return;
    ++faults_;
    cluster_->Pause(node);
    Sleep(ns);
    cluster_->Resume(node);
  }
  void CutFor(const std::string& node, Nanos ns) {
    if (!options_->cuts) return;
    ++faults_;
    const uint64_t which = 1 + random_.Uniform(3);
    if ((which & 1) != 0) cluster_->CutControl(node, true);
    if ((which & 2) != 0) cluster_->CutConfig(node, true);
    Sleep(ns);
    cluster_->CutControl(node, false);
    cluster_->CutConfig(node, false);
  }
  void PartitionFor(const std::string& node, Nanos ns) {
    if (!options_->cuts) return;
    ++faults_;
    for (const std::string& stoc : cluster_->Names("stoc")) {
      if (random_.OneIn(3)) continue;
      if (random_.OneIn(2)) cluster_->network()->Cut(node, stoc);
      if (random_.OneIn(2)) cluster_->network()->Cut(stoc, node);
    }
    Sleep(ns);
    cluster_->network()->Heal();
  }

  SimCluster* const cluster_;
  const ChaosOptions* const options_;
  Notification* const stop_;
  Random random_;
  uint64_t faults_ = 0;
};

std::string DescribeRecords(SimCluster* cluster) {
  std::string text;
  for (const auto& [id, r] : cluster->Records()) {
    absl::StrAppend(&text, " | range ", id.value(), " epoch ", r.epoch.value(), r.state == RangeState::kOpen ? " OPEN" : " SEALING",
                    r.released ? " released" : "", " owner ", r.owner, "/", r.owner_incarnation.value(), " groups ", r.log_groups.size());
  }
  return text;
}

void StartWhatIsDown(SimCluster* cluster) {
  for (const char* kind : {"coordinator", "stoc", "ltc"}) {
    for (const std::string& name : cluster->Names(kind)) {
      for (int tries = 0; !cluster->Runs(name) && !cluster->Start(name).ok(); ++tries) {
        NOVA_CHECK(tries < 300) << name << " does not start again";
        SleepFor(200 * kMillisecond);
      }
    }
  }
}

void RunAll(const ChaosOptions& options, ChaosResult* result) {
  SimCluster cluster(options.cluster);
  cluster.StartAll();
  const size_t ranges = static_cast<size_t>(options.ranges);
  std::vector<std::unique_ptr<Client>> clients;
  for (int i = 0; i < options.clients; ++i) clients.push_back(cluster.NewClient(StrCat("client-", i)));
  Status created;
  do {  // a lost answer is no refusal
    created = clients[0]->CreateRanges(SplitKeys(options.ranges));
  } while (!created.ok() && !absl::IsAlreadyExists(created));
  if (!cluster.WaitOpen(ranges, kOpenWithin)) {
    result->violation = "the cluster did not come up" + DescribeRecords(&cluster);
    return;
  }
  History history;
  std::vector<std::unique_ptr<Load>> loads;
  for (int i = 0; i < options.clients; ++i) {
    const LoadOptions load{.keys = options.keys_per_client, .first_key = i * options.keys_per_client, .pause_max_us = 25'000};
    loads.push_back(std::make_unique<Load>(clients[static_cast<size_t>(i)].get(), &history, load, &result->violation));
  }
  {
    Notification stop;
    std::vector<std::unique_ptr<Thread>> threads;
    for (auto& load : loads) {
      threads.push_back(std::make_unique<Thread>("chaos.load", [&, l = load.get()] {
        while (!stop.HasBeenNotified() && !l->Violated()) l->Step();
      }));
    }
    std::vector<std::unique_ptr<Nemesis>> nemeses;
    for (void (Nemesis::*run)() : {&Nemesis::RunStocs, &Nemesis::RunLtcs, &Nemesis::RunCoordinators, &Nemesis::RunNetwork}) {
      nemeses.push_back(std::make_unique<Nemesis>(&cluster, &options, &stop));
      threads.push_back(std::make_unique<Thread>("chaos.nemesis", [run, n = nemeses.back().get()] { (n->*run)(); }));
    }
    SleepFor(options.duration_ns);
    stop.Notify();
    threads.clear();  // joins
    for (const auto& n : nemeses) result->faults += n->faults();
  }
  cluster.HealAll();
  StartWhatIsDown(&cluster);
  const bool open = cluster.WaitOpen(ranges, kOpenWithin);
  if (!open && result->violation.empty()) result->violation = "not every range is open again" + DescribeRecords(&cluster);
  if (open && result->violation.empty()) loads[0]->Verify();
  result->acknowledged = history.acknowledged();
  result->unknown = history.unknown();
  result->refused = history.refused();
  loads.clear();
  clients.clear();
}

}  // namespace

ChaosOptions ChaosOf(uint64_t seed) {
  Random random(seed);
  ChaosOptions o;
  o.cluster.ltc.xchg_threads = 1 + static_cast<int>(random.Uniform(3));
  o.cluster.stoc.xchg_threads = 1 + static_cast<int>(random.Uniform(2));
  o.cluster.ltc.hosted.range.active_memtables = 1 + static_cast<int>(random.Uniform(3));
  o.cluster.ltc.hosted.placement.replicas = 1 + static_cast<int>(random.Uniform(3));
  if (random.OneIn(5)) o.cluster.ltc.hosted.min_replicas = o.cluster.ltc.hosted.log_replicas;
  if (random.OneIn(3)) o.cluster.ltc.hosted.range.memtable_size_bytes = 2 << 10;
  if (random.OneIn(3)) o.cluster.disk.latency_ns = static_cast<Nanos>(random.Uniform(5 * kMillisecond));
  if (random.OneIn(3)) o.cluster.network.max_delay_ns = 3 * kMillisecond;
  if (random.OneIn(2)) o.ranges = 2;
  constexpr LogMode kModes[] = {LogMode::kMemory, LogMode::kMemory, LogMode::kPersistent, LogMode::kMemoryAndPersistent};
  o.cluster.ltc.hosted.log_mode = kModes[random.Uniform(std::size(kModes))];
  o.cluster.coordinators = 2;
  o.cluster.ltcs = 3;
  o.cluster.stocs = 5;
  o.cluster.client.timeout_ms = 5000;
  o.cluster.config.lost_reply_one_in = 50;
  o.cluster.control.drop_one_in = 100;
  o.cluster.control.duplicate_one_in = 100;
  return o;
}

ChaosResult RunChaos(uint64_t seed, const ChaosOptions& options) {
  ChaosResult result;
  Simulation sim(seed);
  SetUpSimLog(&sim, seed);
  sim.Run([&] {
    Notification over;
    Thread watchdog("chaos.watchdog", [&over, seed] {
      NOVA_CHECK(over.WaitUntil(Now() + kWholeRun)) << "seed " << seed << ": hangs";
    });
    RunAll(options, &result);
    over.Notify();
  });
  result.trace_hash = sim.trace_hash();
  return result;
}

}  // namespace nova
