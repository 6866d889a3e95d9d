#include "tests/cluster_sim/chaos.h"

#include <algorithm>
#include <set>

#include "common/base/failpoint.h"
#include "common/base/fault_disk.h"
#include "common/base/log.h"
#include "logc/log_record.h"
#include "stoc/stoc_table_store.h"
#include "tests/cluster_sim/deletion_watch.h"
#include "tests/cluster_sim/status_oracle.h"
#include "tests/cluster_sim/table_files.h"

namespace nova {
namespace {

constexpr Nanos kOpenWithin = 60 * kSecond;     // after all healed
constexpr Nanos kWholeRun = 20 * 60 * kSecond;  // virtual: something hangs
constexpr int64_t kMostPending = 64;            // of a process of a cluster that nobody asks
constexpr int64_t kMostConnections = 40;

constexpr int64_t kImpatientMs = 500;         // clients that do not know, and ask others rather than wait
constexpr Nanos kLook = 200 * kMillisecond;   // at what holds at every moment
constexpr int kLooksAStatus = 5;              // of them, after which the status is held against the disks
constexpr Nanos kWholeWithin = 90 * kSecond;  // a cluster that is open: redundancy, orphans

// What faults of all kinds know of each other.
struct Broken {
  std::string lost_stoc;          // whose disk is gone
  std::set<std::string> handled;  // nodes that one kind of faults ends and starts again just now
  std::string ill_stoc;           // whose disk fails reads: one in a run, or two copies might fail at once
  Nanos reads_fail_until_ns = 0;  // no other copy of what it has may go before
  bool losing = false;            // a disk, just now
  std::string slow_to_let_go;     // an LTC
  std::string slow_to_drop;       // a StoC
};

// Faults of one kind, one at a time; kinds overlap.
class Nemesis {
 public:
  Nemesis(SimCluster* cluster, const ChaosOptions* options, Notification* stop, Counts* counts,
          Broken* broken)
      : cluster_(cluster), options_(options), stop_(stop), counts_(counts), broken_(broken) {}

  void RunStocs() {
    const std::vector<std::string> stocs = cluster_->Names("stoc");
    while (!Sleep(Between(50, 1500))) {
      const std::string& stoc = Pick(stocs);
      if (stoc == broken_->lost_stoc) continue;
      switch (random_.Uniform(8)) {
        case 0:
        case 1:
          if (options_->kill_stocs && HandleStocs({stoc})) {
            Count("StoC killed");
            KillAndRestart({stoc}, Between(10, 4000));
            // What it held is on fewer members until the LTCs have noticed.
            if (Sleep(3 * kSecond)) return;
          }
          break;
        case 2: {
          const std::string& other = Pick(stocs);
          if (!options_->kill_stocs || other == stoc || other == broken_->lost_stoc ||
              !HandleStocs({stoc, other}))
            break;
          Count("two StoCs killed");
          KillAndRestart({stoc, other}, Between(10, 3000));
          if (Sleep(3 * kSecond)) return;
          break;
        }
        case 3:
          PauseFor(stoc, Between(50, 4000));
          break;
        case 4:
          CutFor(stoc, Between(100, 4000));
          break;
        case 5:
          HangFor(stoc, Between(100, 5000));
          break;
        case 6:
          if (options_->orderly && cluster_->Runs(stoc) && HandleStocs({stoc}))
            StopAndRestart(stoc, "StoC", Between(10, 2000));
          break;
        default:
          if (!options_->lost_disks || options_->cluster.ltc.hosted.placement.replicas < 2 ||
              Now() < broken_->reads_fail_until_ns || !broken_->lost_stoc.empty() || !HandleStocs({stoc})) {
            break;
          }
          if (!cluster_->MayLoseForEver(stoc) || Now() < broken_->reads_fail_until_ns) {
            LetGo(stoc);
            break;
          }
          LoseDisk(stoc);
          LetGo(stoc);
          if (Sleep(3 * kSecond)) return;
      }
    }
  }
  void RunLtcs() {
    const std::vector<std::string> ltcs = cluster_->Names("ltc");
    while (!Sleep(Between(50, 1500))) {
      const std::string& ltc = Pick(ltcs);
      switch (random_.Uniform(6)) {
        case 0:
        case 1:
          if (!options_->kill_ltcs || !Handle(ltc)) break;
          Count("LTC killed");
          KillAndRestart({ltc}, Between(10, 3000));
          break;
        case 2:
          PauseFor(ltc, Between(50, 7000));
          break;
        case 3:
          CutFor(ltc, Between(100, 7000));
          break;
        case 4:
          PartitionFor(ltc, Between(100, 5000));
          break;
        default:
          if (options_->orderly && cluster_->Runs(ltc) && Handle(ltc))
            StopAndRestart(ltc, "LTC", Between(10, 2000));
      }
    }
  }
  void RunCoordinators() {
    const std::vector<std::string> coordinators = cluster_->Names("coordinator");
    while (!Sleep(Between(500, 5000))) {
      const std::string& coordinator = Pick(coordinators);
      if (options_->kill_coordinators && random_.OneIn(2) && Handle(coordinator)) {
        Count("coordinator killed");
        KillAndRestart({coordinator}, Between(10, 4000));
      } else if (options_->cuts) {
        CutFor(coordinator, Between(100, 6000));
      }
    }
  }
  void RunNetwork() {
    while (!Sleep(Between(1000, 4000))) {
      SimNetworkOptions network = options_->cluster.network;
      if (random_.OneIn(2)) {
        Count("network loses and delays");
        network.lose_one_in = 500 + random_.Uniform(5000);
        network.max_delay_ns = Between(0, 10) + 100 * kMicrosecond;
      }
      if (random_.OneIn(2)) {
        Count("WRITEs come late");
        network.late_one_in = 50 + random_.Uniform(1000);
        network.late_ns = Between(500, 4000);
      }
      cluster_->network()->set_options(network);
    }
    cluster_->network()->set_options(options_->cluster.network);
  }
  // Wall clocks jump by an hour. Not those of LTCs, by which times to live end.
  void RunClocks() {
    while (options_->wall_clocks && !Sleep(Between(300, 3000))) {
      Count("wall clock jumps");
      const std::vector<std::string> nodes = cluster_->Names(random_.OneIn(5) ? "coordinator" : "stoc");
      cluster_->JumpWallClock(Pick(nodes), random_.OneIn(2) ? kHourMs : -kHourMs);
    }
  }
  void RunDisks() {
    const std::vector<std::string> stocs = cluster_->Names("stoc");
    while (options_->bad_disks && !Sleep(Between(500, 3000))) {
      if (random_.OneIn(4)) {
        FailReads(stocs);
        continue;
      }
      const std::string& stoc = Pick(stocs);
      if (!cluster_->Runs(stoc)) continue;
      auto* const disk = static_cast<FaultDisk*>(cluster_->wrapped_disk(stoc));
      if (disk == nullptr) continue;
      const auto add = [disk](std::initializer_list<DiskOp> ops, FaultRule rule) {
        for (const DiskOp op : ops) {
          rule.op = op;
          disk->Add(rule);
        }
      };
      switch (random_.Uniform(4)) {
        case 0:
          Count("disk fails");
          add({random_.OneIn(2) ? DiskOp::kWrite : DiskOp::kSync},
              {.action = random_.OneIn(3) ? FaultAction::kTorn : FaultAction::kEio,
               .nth = 1 + random_.Uniform(10),
               .count = 1 + random_.Uniform(5)});
          break;
        case 1:
          Count("disk is full");
          add({DiskOp::kCreate, DiskOp::kWrite, DiskOp::kFreeBytes}, {.action = FaultAction::kNoSpace});
          break;
        case 2:
          Count("disk is slow");  // at times an outlier
          add({DiskOp::kRead, DiskOp::kWrite, DiskOp::kSync},
              {.action = FaultAction::kDelay,
               .delay_ns = random_.OneIn(2) ? Between(1, 40) : Between(60, 250)});
          break;
        default:
          Count("disk hangs");
          add({DiskOp::kRead, DiskOp::kWrite, DiskOp::kSync},
              {.action = FaultAction::kDelay, .delay_ns = Between(500, 4000)});
      }
      Sleep(Between(100, 4000));
      if (cluster_->Runs(stoc) && cluster_->wrapped_disk(stoc) == disk) disk->Clear();
      LookAtDisks();
      if (random_.OneIn(3)) {
        Count("disk forgiven");
        cluster_->NewCoordinatorClient().Undrain(stoc, Now() + kSecond).IgnoreError();
      }
    }
  }
  // A client that does not reach an LTC which others do, and one that reads none of its answers for a while.
  void RunClients() {
    const std::vector<std::string> ltcs = cluster_->Names("ltc");
    const std::unique_ptr<Client> silent = cluster_->NewClient(kSilentClient);
    while (!Sleep(Between(200, 2500))) {
      if (options_->cuts && random_.OneIn(2)) {
        Count("client cut from one LTC");
        const std::string client =
            StrCat("client-", random_.Uniform(static_cast<uint64_t>(options_->clients)));
        const std::string& ltc = Pick(ltcs);
        cluster_->network()->Partition(client, ltc);
        Sleep(Between(100, 3000));
        cluster_->network()->Mend(client, ltc);
        cluster_->network()->Mend(ltc, client);
      } else if (options_->pauses) {
        Count("client does not read");
        for (int i = 0; i < 20; ++i) silent->ScanAsync("", 100, [](const ScanResult&) {});
        Sleep(Between(0, 2));
        cluster_->network()->Pause(kSilentClient);
        Sleep(Between(500, 4000));
        cluster_->network()->Resume(kSilentClient);
      }
    }
  }
  // Faults of several nodes at one moment, which leave some members of a group with what others never get. An
  // LTC is cut from some StoCs, as by a cable that works at times; then it dies, StoCs start anew and others
  // stand still.
  void RunDisasters() {
    const std::vector<std::string> ltcs = cluster_->Names("ltc");
    const std::vector<std::string> stocs = cluster_->Names("stoc");
    while (options_->disasters && !Sleep(Between(1000, 4000))) {
      Count("several nodes at once");
      if (random_.OneIn(2)) {  // a group is changed, perhaps, when the rest comes
        StartAnew(stocs);
        Sleep(Between(0, 1500));
      }
      const std::string& ltc = Pick(ltcs);
      std::vector<std::string> cut;
      for (const std::string& stoc : stocs) {
        if (options_->cuts && random_.OneIn(2)) cut.push_back(stoc);
      }
      for (const std::string& stoc : cut) cluster_->network()->Cut(ltc, stoc);
      Sleep(random_.OneIn(2) ? Between(1, 300) : Between(300, 2000));
      const bool dies = options_->kill_ltcs && Handle(ltc);
      if (dies) cluster_->Kill(ltc);
      std::vector<std::string> still;
      for (const std::string& stoc : stocs) {
        if (options_->pauses && random_.OneIn(3)) still.push_back(stoc);
      }
      for (const std::string& stoc : still) cluster_->Pause(stoc);
      for (int i = 0; i < 2; ++i) StartAnew(stocs);
      for (const std::string& stoc : cut) cluster_->network()->Mend(ltc, stoc);
      Sleep(Between(100, 4000));
      for (const std::string& stoc : still) cluster_->Resume(stoc);
      if (dies) {
        StartAgain(ltc);
        LetGo(ltc);
      }
      if (Sleep(3 * kSecond)) return;  // what was on few members is on more
    }
  }
  // A process stands still between a check and its act; or, where that is `or_one_thread`, the thread alone,
  // while nobody tells the others of what it did. On a thread of the process'.
  Status StopHere(const char* where, uint64_t one_in, bool or_one_thread = false) {
    Simulation* const sim = Simulation::Current();
    const Simulation::Host* const host = sim->host();
    if (host == nullptr || stop_->HasBeenNotified() || !options_->pauses) return OkStatus();
    const std::string node = host->name;
    const bool slow = or_one_thread && node == broken_->slow_to_let_go;
    if (!slow && !random_.OneIn(one_in)) return OkStatus();
    Count(where);
    ++standing_still_;
    if (slow || (or_one_thread && random_.OneIn(2))) {
      const bool deaf = options_->cuts && (slow || !random_.OneIn(3));
      if (deaf) cluster_->CutControl(node, true);
      SleepFor(slow ? Between(1000, 2500) : Between(50, 2000));
      if (deaf) cluster_->CutControl(node, false);
      --standing_still_;
      return OkStatus();
    }
    sim->set_host(nullptr);  // by true time
    PauseFor(node, Between(50, 5000));
    sim->set_host(host);
    --standing_still_;
    return OkStatus();
  }
  // A thread of a process' waits between a look and its act, while all the others go on.
  Status HoldHere(const char* where, uint64_t one_in) {
    const Simulation::Host* const host = Simulation::Current()->host();
    if (host == nullptr || stop_->HasBeenNotified() || !options_->pauses) return OkStatus();
    const bool slow = host->name == broken_->slow_to_drop;
    if (!slow && !random_.OneIn(one_in)) return OkStatus();
    Count(where);
    ++standing_still_;
    SleepFor(slow ? Between(2000, 8000) : Between(50, 3000));
    --standing_still_;
    return OkStatus();
  }
  // An order of faults each.
  void RunScenes() {
    while (options_->scenes && !Sleep(Between(200, 2000))) {
      switch (options_->only_scene >= 0 ? options_->only_scene : static_cast<int>(random_.Uniform(kScenes))) {
        case kUnheardOwner:
          LoseSightOf(PickOwner());
          break;
        case kOldLeader:
          ReplaceLeader();
          break;
        case kReturn:
          LoseOneAfterTheOther();
          break;
        default:
          ReleaseSlowly(PickOwner());
      }
    }
  }
  int standing_still() const { return standing_still_; }
  uint64_t faults() const { return faults_; }

 private:
  static constexpr char kSilentClient[] = "client-silent";
  static constexpr int64_t kHourMs = 3'600'000;

  bool Sleep(Nanos ns) { return stop_->WaitUntil(Now() + ns); }
  Nanos Between(uint64_t least_ms, uint64_t most_ms) {
    return static_cast<Nanos>((least_ms * 1000 + random_.Uniform((most_ms - least_ms) * 1000 + 1))) *
           kMicrosecond;
  }
  const std::string& Pick(const std::vector<std::string>& names) {
    return names[random_.Uniform(names.size())];
  }
  void Count(const std::string& what) {
    ++(*counts_)["fault: " + what];
    ++faults_;
  }
  static std::string KindOf(const std::string& node) {
    return node.starts_with("stoc") ? "StoC" : node.starts_with("ltc") ? "LTC" : "coordinator";
  }

  // For good; or its StoC is back with an empty one; and then perhaps with the old one, which says what was
  // true long ago.
  // REQUIRES: it is handled here, and may be lost for ever.
  void LoseDisk(const std::string& stoc) {
    broken_->lost_stoc = stoc;
    broken_->losing = true;
    cluster_->Kill(stoc);
    std::unique_ptr<SimDisk> old = cluster_->TakeDisk(stoc);
    broken_->losing = false;
    if (random_.OneIn(2)) return Count("StoC lost for good");
    Count("StoC back with an empty disk");
    if (Sleep(Between(10, 3000))) return;
    cluster_->Start(stoc).IgnoreError();
    if (random_.OneIn(2) || Sleep(Between(500, 6000))) return;
    if (!MayLoseWhatIsHandled() || !cluster_->MayLoseForEver(stoc)) return;
    Count("StoC back with its old disk");
    cluster_->Kill(stoc);
    cluster_->PutDisk(stoc, std::move(old));
    StartAgain(stoc);
  }

  // Reads of the disk of one StoC fail, or return what was never written. A table's only where its other copy
  // is good: then no client may be told of it.
  void FailReads(const std::vector<std::string>& stocs) {
    if (broken_->ill_stoc.empty()) broken_->ill_stoc = Pick(stocs);
    const std::string& stoc = broken_->ill_stoc;
    if (!cluster_->Runs(stoc) || stoc == broken_->lost_stoc || broken_->losing) return;
    // A file whose header it cannot read is not there for a StoC, until it starts again.
    if (cluster_->stoc(stoc) == nullptr) return;
    auto* const disk = static_cast<FaultDisk*>(cluster_->wrapped_disk(stoc));
    if (disk == nullptr) return;
    broken_->reads_fail_until_ns = kNever;
    const uint64_t faults = disk->faults();
    const double elsewhere = ReadElsewhere();
    // Of a table with one copy another file of the same bytes is one that it has left, and names no more.
    const bool one_copy = options_->cluster.ltc.hosted.placement.replicas == 1;
    const bool flips = random_.OneIn(3);  // of a log's last record nothing behind it would tell
    disk->Add({.path = "files/",
               .op = DiskOp::kRead,
               .action = flips ? FaultAction::kBitFlip : FaultAction::kEio,
               .nth = 1 + random_.Uniform(3),
               .count = 1 + random_.Uniform(30),
               .where = [cluster = cluster_, stoc, flips, one_copy](const std::string& path) {
                 const std::string file = FinalName(path);
                 const bool table = cluster->IsTable(stoc, file);
                 return (!flips || table) && !(one_copy && table) && !cluster->IsLastCopy(stoc, file);
               }});
    Sleep(Between(500, 4000));
    if (cluster_->Runs(stoc) && cluster_->wrapped_disk(stoc) == disk) {
      if (disk->faults() > faults) {
        Count("disk fails reads");
        if (ReadElsewhere() > elsewhere) ++(*counts_)["seen: a table was read from its other copy"];
      }
      disk->Clear();
    }
    broken_->reads_fail_until_ns = Now() + StocTableStoreOptions().read_deadline_ns;
  }
  // A file that was made under a temporary name, owner.part.n.tmp, may still be open under that.
  static std::string FinalName(const std::string& path) {
    return path.ends_with(".tmp") ? path.substr(0, path.rfind('.', path.size() - 5)) : path;
  }
  // What the coordinators that lead take disks for.
  void LookAtDisks() {
    for (const char* state : {"slow", "full", "hung", "failing"}) {
      if (cluster_->Metric("coordinator", StrCat("nova_cluster_stoc_disks{state=\"", state, "\"}")) > 0)
        ++(*counts_)[StrCat("seen: a disk was ", state)];
    }
  }
  double ReadElsewhere() const { return cluster_->Metric("ltc", "nova_table_reads_from_other_copy_total"); }

  // --- scenes

  // An LTC that a range's record names, if there is one.
  std::string PickOwner() {
    std::vector<std::string> owners;
    for (const auto& [id, r] : cluster_->Records()) {
      if (r.state == RangeState::kOpen && !r.owner.empty()) owners.push_back(r.owner);
    }
    return owners.empty() ? Pick(cluster_->Names("ltc")) : Pick(owners);
  }
  // What these clients know of owners stays as it is.
  void KeepInTheDark(bool cut) {
    for (int i = 0; i < options_->readers; ++i) cluster_->CutClient(StrCat("client-reader-", i), cut);
    cluster_->CutClient("client-writer", cut);
  }
  void LoseSightOf(const std::string& ltc) {
    if (!options_->cuts || !cluster_->Runs(ltc)) return;
    Count("LTC is heard by clients alone");
    const bool config = random_.OneIn(3);
    KeepInTheDark(true);
    cluster_->CutControl(ltc, true);
    if (config) cluster_->CutConfig(ltc, true);
    Sleep(Between(2000, 6000));
    cluster_->CutControl(ltc, false);
    if (config) cluster_->CutConfig(ltc, false);
    KeepInTheDark(false);
  }
  void ReplaceLeader() {
    const std::string leader = cluster_->Leader();
    const std::string ltc = PickOwner();
    const std::vector<std::string> all = cluster_->Names("coordinator");
    const auto others = std::count_if(all.begin(), all.end(), [&](const std::string& name) {
      return name != leader && cluster_->Runs(name);
    });
    if (!options_->cuts || leader.empty() || others == 0) return;
    Count("leader cut from the store, an LTC from the next one");
    for (const std::string& other : cluster_->Names("coordinator")) {
      if (other != leader) cluster_->CutFromCoordinator(ltc, other, true);
    }
    cluster_->CutConfig(leader, true);
    const Nanos expires = options_->cluster.config.session_timeout_ns;
    if (!Sleep(expires - kSecond)) {
      KeepInTheDark(true);
      Sleep(Between(2500, 4000));
      KeepInTheDark(false);
    }
    cluster_->CutConfig(leader, false);
    for (const std::string& other : cluster_->Names("coordinator"))
      cluster_->CutFromCoordinator(ltc, other, false);
  }
  void ReleaseSlowly(const std::string& ltc) {
    if (!options_->orderly || !options_->pauses || !cluster_->Runs(ltc) || !Handle(ltc)) return;
    Count("LTC is slow to let go");
    KeepInTheDark(true);
    broken_->slow_to_let_go = ltc;
    DrainAndStop(ltc, "LTC", Between(10, 500));
    broken_->slow_to_let_go.clear();
    KeepInTheDark(false);
    LetGo(ltc);
  }

  void LoseOneAfterTheOther() {
    const std::vector<std::string> stocs = cluster_->Names("stoc");
    const std::string first = Pick(stocs), second = Pick(stocs);
    if (!options_->kill_stocs || first == second || first == broken_->lost_stoc ||
        second == broken_->lost_stoc || !HandleStocs({first}))
      return;
    Count("StoC lost, and back when another one is lost");
    KillAndRestart({first}, Between(3000, 6000));
    broken_->slow_to_drop = first;
    if (!Sleep(Between(0, 6000)) && HandleStocs({second})) KillAndRestart({second}, Between(3000, 6000));
    broken_->slow_to_drop.clear();
  }

  // False: another kind of faults handles it.
  bool Handle(const std::string& node) { return broken_->handled.insert(node).second; }
  void LetGo(const std::string& node) { broken_->handled.erase(node); }

  // StoCs that each log group can do without, together with all that are handled just now. To look takes
  // time, so they are taken first: of two who look at once, both see both.
  bool HandleStocs(const std::vector<std::string>& stocs) {
    std::vector<std::string> mine;
    for (const std::string& stoc : stocs) {
      if (Handle(stoc)) mine.push_back(stoc);
    }
    if (mine.size() == stocs.size() && MayLoseWhatIsHandled()) return true;
    for (const std::string& stoc : mine) LetGo(stoc);
    return false;
  }
  bool MayLoseWhatIsHandled() {
    std::vector<std::string> stocs;
    for (const std::string& node : broken_->handled) {
      if (KindOf(node) == "StoC") stocs.push_back(node);
    }
    return cluster_->MayLose(stocs);
  }

  // REQUIRES, of this and the next: they are handled here. Lets go of them.
  void KillAndRestart(const std::vector<std::string>& nodes, Nanos down_ns) {
    for (const std::string& node : nodes) cluster_->Kill(node);
    Sleep(down_ns);
    for (const std::string& node : nodes) {
      StartAgain(node);
      LetGo(node);
    }
  }
  // A StoC dies and is there again with an empty memory.
  void StartAnew(const std::vector<std::string>& stocs) {
    const std::string& stoc = Pick(stocs);
    if (!options_->kill_stocs || stoc == broken_->lost_stoc || !cluster_->Runs(stoc) || !HandleStocs({stoc}))
      return;
    Count("StoC killed");
    KillAndRestart({stoc}, Between(1, 200));
  }
  void StartAgain(const std::string& node) {
    while (!cluster_->Runs(node) && !cluster_->Start(node).ok()) {
      if (Sleep(200 * kMillisecond)) return;
    }
  }
  // In order; half of them drained first, so that nothing is left on it.
  void StopAndRestart(const std::string& node, const std::string& kind, Nanos down_ns) {
    DrainAndStop(node, kind, down_ns);
    LetGo(node);
  }
  void DrainAndStop(const std::string& node, const std::string& kind, Nanos down_ns) {
    if (random_.OneIn(2)) {
      Count(kind + " drained");
      std::string left = "not asked yet";
      for (const Nanos until = Now() + 6 * kSecond; !left.empty() && Now() < until;
           SleepFor(200 * kMillisecond)) {
        if (!cluster_->NewCoordinatorClient().Drain(node, Now() + kSecond, &left, true).ok())
          left = "not known";
        if (stop_->HasBeenNotified()) break;
      }
      if (left.empty()) Count(kind + " drained to the end");
    }
    if (!cluster_->Runs(node)) return;
    if (kind == "StoC" && !MayLoseWhatIsHandled()) return KillNothing(node);
    Count(kind + " stopped");
    cluster_->Stop(node).IgnoreError();
    Sleep(down_ns);
    StartAgain(node);
    Undrain(node);
  }
  // A drained node that may not go.
  void KillNothing(const std::string& node) {
    cluster_->CutConfig(node, true);
    Sleep(options_->cluster.config.session_timeout_ns + kSecond);
    cluster_->CutConfig(node, false);
    Undrain(node);
  }
  // A StoC's mark outlives its process (N5).
  void Undrain(const std::string& node) {
    while (!cluster_->NewCoordinatorClient().Undrain(node, Now() + kSecond).ok()) {
      if (Sleep(200 * kMillisecond)) return;
    }
  }
  void PauseFor(const std::string& node, Nanos ns) {
    if (!options_->pauses) return;
    Count(KindOf(node) + " paused");
    cluster_->Pause(node);
    Sleep(ns);
    cluster_->Resume(node);
  }
  void HangFor(const std::string& node, Nanos ns) {
    if (!options_->pauses || !cluster_->Runs(node)) return;
    Count(KindOf(node) + " hangs, and heartbeats go on");
    cluster_->Hang(node);
    Sleep(ns);
    cluster_->Resume(node);
  }
  void CutFor(const std::string& node, Nanos ns) {
    if (!options_->cuts) return;
    Count(KindOf(node) + " cut from coordinators or store");
    const uint64_t which = 1 + random_.Uniform(3);
    if ((which & 1) != 0) cluster_->CutControl(node, true);
    if ((which & 2) != 0) cluster_->CutConfig(node, true);
    Sleep(ns);
    cluster_->CutControl(node, false);
    cluster_->CutConfig(node, false);
  }
  void PartitionFor(const std::string& node, Nanos ns) {
    if (!options_->cuts) return;
    Count("LTC cut from StoCs");
    std::vector<std::pair<std::string, std::string>> cuts;
    for (const std::string& stoc : cluster_->Names("stoc")) {
      if (random_.OneIn(3)) continue;
      if (random_.OneIn(2)) cuts.emplace_back(node, stoc);
      if (random_.OneIn(2)) cuts.emplace_back(stoc, node);
    }
    for (const auto& [from, to] : cuts) cluster_->network()->Cut(from, to);
    Sleep(ns);
    for (const auto& [from, to] : cuts) cluster_->network()->Mend(from, to);
  }

  SimCluster* const cluster_;
  const ChaosOptions* const options_;
  Notification* const stop_;
  Counts* const counts_;
  Broken* const broken_;  // of all kinds of faults
  Random random_;
  int standing_still_ = 0;  // threads in StopHere and HoldHere
  uint64_t faults_ = 0;
};

std::string DescribeRecords(SimCluster* cluster) {
  std::string text;
  for (const auto& [id, r] : cluster->Records()) {
    absl::StrAppend(&text, " | range ", id.value(), " epoch ", r.epoch.value(),
                    r.state == RangeState::kOpen ? " OPEN" : " SEALING", r.released ? " released" : "",
                    " owner ", r.owner, "/", r.owner_incarnation.value(), " groups ", r.log_groups.size());
  }
  return text;
}

void StartWhatIsDown(SimCluster* cluster, const std::string& lost_stoc) {
  for (const char* kind : {"coordinator", "stoc", "ltc"}) {
    for (const std::string& name : cluster->Names(kind)) {
      for (int tries = 0; name != lost_stoc && !cluster->Runs(name) && !cluster->Start(name).ok(); ++tries) {
        NOVA_CHECK(tries < 300) << name << " does not start again";
        SleepFor(200 * kMillisecond);
      }
    }
  }
}

// A nemesis that was stopped has not come to it.
void UndrainStocs(SimCluster* cluster) {
  for (const std::string& name : cluster->Names("stoc")) {
    for (int tries = 0; tries < 300; ++tries) {
      const Status s = cluster->NewCoordinatorClient().Undrain(name, Now() + kSecond);
      if (s.ok() || absl::IsNotFound(s)) break;
      SleepFor(200 * kMillisecond);
    }
  }
}

// --- what an operator would look at when all is over; empty: it is well

std::string LogsNotWhole(SimCluster* cluster, const ChaosOptions& options) {
  std::map<StocId, NodeInfo> live;
  for (const std::string& name : cluster->Names("stoc")) {
    if (cluster->Runs(name)) live[cluster->stoc(name)->self().stoc_id] = cluster->stoc(name)->self();
  }
  const size_t wanted = std::min(live.size(), static_cast<size_t>(options.cluster.ltc.hosted.log_replicas));
  for (const auto& [id, r] : cluster->Records()) {
    if (r.log_groups.size() != 1)
      return StrCat("range ", id.value(), " lists ", r.log_groups.size(), " log groups");
    const std::vector<LogMember>& members = r.log_groups[0].members;
    const auto there =
        static_cast<size_t>(std::count_if(members.begin(), members.end(), [&](const LogMember& m) {
          const auto it = live.find(m.stoc);
          return it != live.end() && r.log_groups[0].Holds(m, it->second.incarnation, it->second.store);
        }));
    if (there < wanted)
      return StrCat("range ", id.value(), ": ", there, " of ", wanted, " log members are there");
  }
  return "";
}

// The same of manifests (M1): M members that live, or as many as there are StoCs.
std::string ManifestsNotWhole(SimCluster* cluster, const ChaosOptions& options) {
  std::set<StocId> live;
  for (const std::string& name : cluster->Names("stoc")) {
    if (cluster->Runs(name)) live.insert(cluster->stoc(name)->self().stoc_id);
  }
  const auto most = static_cast<size_t>(options.cluster.ltc.hosted.manifest_replicas);
  const auto wanted = std::min(live.size(), most);
  for (const auto& [id, r] : cluster->Records()) {
    const auto& members = r.manifest.members;
    const auto there = static_cast<size_t>(
        std::count_if(members.begin(), members.end(), [&](StocId stoc) { return live.contains(stoc); }));
    if (there < wanted) {
      return StrCat("range ", id.value(), ": ", there, " of ", wanted, " copies of its manifest are there");
    }
  }
  return "";
}

// Each part of a table has the copies that are configured, on StoCs that run (rebuild, S5); files that no
// manifest names there are gone (collection, N4). A StoC that is lost, and whose absence is waited for, has
// what it has. What no job of this epoch has made is left to the next one.
std::string TablesNotWhole(SimCluster* cluster, const ChaosOptions& options, bool waits_for_a_stoc) {
  const TableFiles tables = LookAtTables(cluster);
  if (!tables.error.empty()) return tables.error;
  const auto wanted = static_cast<size_t>(options.cluster.ltc.hosted.placement.replicas);
  if (tables.Missing() > 0 || (!waits_for_a_stoc && tables.ShortOf(wanted) > 0))
    return tables.ToString(wanted);
  const std::map<RangeId, RangeRecord> records = cluster->Records();
  for (const auto& [stoc, files] : tables.files) {
    for (const auto& [file, header] : files) {
      const Creator& creator = header.creator;
      const auto owner = records.find(creator.range);
      const auto named = tables.named.find(file);
      if (owner == records.end() || (named != tables.named.end() && named->second.contains(stoc))) continue;
      if (creator.epoch > owner->second.epoch || (creator.epoch == owner->second.epoch && creator.job == 0))
        continue;
      return StrCat("file ", file.ToString(), " of range ", owner->first.value(), " epoch ",
                    creator.epoch.value(), " job ", creator.job, ", the range's being ",
                    owner->second.epoch.value(), ", is left on StoC ", stoc.value());
    }
  }
  return "";
}

// --- what holds at every moment

// A member of a log has in its memory whatever was acknowledged: write-all (L3); and nobody else's bytes:
// revocation (F1), new key (F2). What was acknowledged, the records themselves say.
std::string CopiesThatLack(SimCluster* cluster) {
  const Simulation::Undisturbed all_of_one_moment;
  std::map<std::pair<Uuid, std::string>, std::set<uint64_t>> copies;  // of a log, on a StoC: whole records
  std::map<Uuid, uint64_t> acknowledged;                              // up to that record
  for (const std::string& name : cluster->Names("stoc")) {
    if (!cluster->Runs(name) || cluster->stoc(name) == nullptr) continue;
    cluster->stoc(name)->segments().ForEach([&](const Uuid& log, uint32_t, std::string_view bytes) {
      std::set<uint64_t>& whole = copies[{log, name}];
      for (;;) {
        const size_t length = PlausibleLogRecord(bytes, UINT32_MAX);
        const auto record = length == 0 ? std::nullopt : CheckLogRecord(log, bytes, length);
        if (!record) return;
        whole.insert(record->lsn);
        uint64_t& up_to = acknowledged[log];
        up_to = std::max(up_to, record->marks.acknowledged);
        bytes.remove_prefix(length);
      }
    });
  }
  for (const auto& [copy, whole] : copies) {
    for (uint64_t lsn = 1; lsn <= acknowledged[copy.first]; ++lsn) {
      if (whole.contains(lsn)) continue;
      return StrCat("log ", copy.first.ToString(), ": record ", lsn, " of ", acknowledged[copy.first],
                    " that were acknowledged is not on ", copy.second);
    }
  }
  return "";
}

// --- when all is over

// With nobody asking: requests end, and what they held is let go.
std::string StillHeld(SimCluster* cluster, const ChaosOptions& options) {
  // Of each range and thread an open log and a spare one on R members; twice, for a round that was sealed.
  // Segments that are kept for the next logs of a session are not among them: a StoC keeps as many as its log
  // memory has room for.
  const double segments = cluster->Metric("stoc", "nova_stoc_segments");
  if (segments >
      4.0 * options.ranges * options.cluster.ltc.xchg_threads * options.cluster.ltc.hosted.log_replicas) {
    return StrCat(segments, " log segments are open");
  }
  for (const char* kind : {"ltc", "stoc"}) {
    for (const std::string& name : cluster->Names(kind)) {
      if (!cluster->Runs(name)) continue;
      const FabricCounters c = cluster->fabric_counters(name);
      if (c.pending_requests > kMostPending)
        return StrCat(name, ": ", c.pending_requests, " requests are pending");
      if (c.connections > kMostConnections) return StrCat(name, ": ", c.connections, " connections are up");
    }
  }
  return "";
}

std::string WaitUntilEmpty(const std::function<std::string()>& wrong, Nanos within) {
  std::string text;
  for (const Nanos until = Now() + within; !(text = wrong()).empty() && Now() < until;) SleepFor(kSecond);
  return text;
}

// While nothing happens any more: for as long as it takes until a promise is broken.
std::string BrokenPromise(StatusOracle* oracle) {
  std::string text;
  for (const Nanos until = Now() + StatusOracle::kLate + 2 * kSecond; text.empty() && Now() < until;) {
    text = oracle->Look();
    SleepFor(kSecond);
  }
  return text;
}

// Behind the last key of each client that deletes its own.
std::vector<std::string> KeysBetweenClients(const ChaosOptions& options) {
  std::vector<std::string> keys;
  for (int i = 0; i < options.clients; ++i) {
    for (int n = 1; n <= 3; ++n) keys.push_back(KeyBetween(options.keys_per_client * (i + 1), n));
  }
  return keys;
}

void RunAll(const ChaosOptions& options, ChaosResult* result) {
  DeletionWatch deletions;
  SimClusterOptions watched = options.cluster;
  watched.wrap_disk = [&deletions](const std::string& stoc, Disk* disk) {
    return deletions.Wrap(stoc, disk);
  };
  SimCluster cluster(watched);
  deletions.set_cluster(&cluster);
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
  SharedKeys shared;
  Broken broken;
  StatusOracle oracle(&cluster);
  std::vector<std::unique_ptr<Load>> loads;
  for (int i = 0; i < options.clients; ++i) {
    const LoadOptions load{.keys = options.keys_per_client,
                           .first_key = i * options.keys_per_client,
                           .pause_max_us = 25'000,
                           .large_value_bytes = options.all_kinds ? options.cluster.ltc.log.segment_bytes : 0,
                           .all_kinds = options.all_kinds};
    loads.push_back(std::make_unique<Load>(clients[static_cast<size_t>(i)].get(), &history, load,
                                           &result->violation, &shared, &result->counts));
  }
  for (int i = 0; i < options.readers; ++i) {
    clients.push_back(cluster.NewClient(StrCat("client-reader-", i), kImpatientMs));
    const LoadOptions load{.pause_max_us = 10'000, .reads_only = true};
    loads.push_back(std::make_unique<Load>(clients.back().get(), &history, load, &result->violation, &shared,
                                           &result->counts));
  }
  clients.push_back(cluster.NewClient("client-writer", kImpatientMs));
  const LoadOptions writer{.pause_max_us = 20'000, .puts_only = KeysBetweenClients(options)};
  loads.push_back(std::make_unique<Load>(clients.back().get(), &history, writer, &result->violation, &shared,
                                         &result->counts));
  {
    Notification stop;
    std::vector<std::unique_ptr<Nemesis>> nemeses;
    const auto add = [&] {
      return nemeses
          .emplace_back(std::make_unique<Nemesis>(&cluster, &options, &stop, &result->counts, &broken))
          .get();
    };
    Nemesis* const between = add();
    NOVA_CHECK(ArmFailPoint("ltc.lease_checked", 0, [between] {
                 return between->StopHere("stop between lease check and answer", 500);
               }).ok());
    NOVA_CHECK(ArmFailPoint("ltc.record_released", 0, [between] {
                 return between->StopHere("stop between release and letting go", 2, true);
               }).ok());
    NOVA_CHECK(ArmFailPoint("rebuild.copied", 0, [between] {
                 return between->HoldHere("copies are made, their edit comes late", 3);
               }).ok());
    NOVA_CHECK(ArmFailPoint("stoc.drop_begun", 0, [between] {
                 return between->HoldHere("files are dropped late", 10);
               }).ok());
    std::vector<std::unique_ptr<Thread>> threads;
    for (auto& load : loads) {
      threads.push_back(std::make_unique<Thread>("chaos.load", [&, l = load.get()] {
        while (!stop.HasBeenNotified() && !l->Violated()) l->Step();
      }));
    }
    for (void (Nemesis::*run)() : {&Nemesis::RunStocs, &Nemesis::RunLtcs, &Nemesis::RunCoordinators,
                                   &Nemesis::RunNetwork, &Nemesis::RunClocks, &Nemesis::RunDisks,
                                   &Nemesis::RunClients, &Nemesis::RunDisasters, &Nemesis::RunScenes}) {
      threads.push_back(std::make_unique<Thread>("chaos.nemesis", [run, n = add()] { (n->*run)(); }));
    }
    const Nanos until = Now() + options.duration_ns;
    for (int look = 1; Now() < until && result->violation.empty(); ++look) {
      SleepFor(kLook);
      std::string lacking = CopiesThatLack(&cluster);
      if (!lacking.empty()) lacking = CopiesThatLack(&cluster);  // a look that had to wait saw two moments
      if (result->violation.empty()) result->violation = lacking;
      if (result->violation.empty()) result->violation = deletions.violation();
      if (result->violation.empty() && look % kLooksAStatus == 0) result->violation = oracle.Look();
    }
    stop.Notify();
    threads.clear();  // joins
    while (between->standing_still() > 0) SleepFor(kMillisecond);
    DisarmFailPoints();
    for (const auto& n : nemeses) result->faults += n->faults();
  }
  result->acknowledged = history.acknowledged();
  result->unknown = history.unknown();
  result->refused = history.refused();
  const auto judge = [result](const std::string& wrong) {
    if (result->violation.empty()) result->violation = wrong;
    return result->violation.empty();
  };
  cluster.HealAll();
  if (judge("")) {
    StartWhatIsDown(&cluster, broken.lost_stoc);
    UndrainStocs(&cluster);
    judge(cluster.WaitOpen(ranges, kOpenWithin)
              ? ""
              : "not every range is open again" + DescribeRecords(&cluster));
  }
  if (judge("")) loads[0]->Verify();
  if (judge("")) judge(WaitUntilEmpty([&] { return LogsNotWhole(&cluster, options); }, kWholeWithin));
  if (judge("")) judge(WaitUntilEmpty([&] { return ManifestsNotWhole(&cluster, options); }, kWholeWithin));
  loads.clear();
  clients.clear();
  const bool waits = !broken.lost_stoc.empty() && !cluster.Runs(broken.lost_stoc) &&
                     options.cluster.coordinator.cluster.stoc_down_after_ns > kWholeWithin;
  const auto tables = [&] { return TablesNotWhole(&cluster, options, waits); };
  if (judge("")) judge(WaitUntilEmpty(tables, kWholeWithin));
  if (judge("")) judge(BrokenPromise(&oracle));
  result->counts["seen: a status was held against the disks"] += oracle.looks();
  judge(deletions.violation());
  result->counts["seen: a deletion was held against the manifest"] += deletions.looks();
  if (judge("")) judge(WaitUntilEmpty([&] { return StillHeld(&cluster, options); }, kWholeWithin));
}

}  // namespace

ChaosOptions ChaosOf(uint64_t seed) {
  Random random(seed);
  ChaosOptions o;
  o.cluster.ltc.xchg_threads = 1 + static_cast<int>(random.Uniform(3));
  o.cluster.stoc.xchg_threads = 1 + static_cast<int>(random.Uniform(2));
  o.cluster.ltc.hosted.range.active_memtables = 1 + static_cast<int>(random.Uniform(3));
  o.cluster.ltc.hosted.placement.replicas = 1 + static_cast<int>(random.Uniform(3));
  constexpr Nanos kDownAfter[] = {kSecond, 3 * kSecond, 3600 * kSecond};  // flapping around it, and never
  o.cluster.coordinator.cluster.stoc_down_after_ns = kDownAfter[random.Uniform(std::size(kDownAfter))];
  o.cluster.coordinator.cluster.share_after_ns = random.OneIn(2) ? kSecond : 10 * kSecond;
  if (random.OneIn(2)) {
    o.cluster.coordinator.cluster.open_within_ns = kSecond;
    o.cluster.coordinator.cluster.replay_within_ns = 2 * kSecond;
  }
  if (random.OneIn(5)) o.cluster.ltc.hosted.min_replicas = o.cluster.ltc.hosted.log_replicas;
  if (random.OneIn(3)) o.cluster.ltc.hosted.range.memtable_size_bytes = 2 << 10;
  if (random.OneIn(3)) o.cluster.disk.latency_ns = static_cast<Nanos>(random.Uniform(5 * kMillisecond));
  if (random.OneIn(3)) o.cluster.network.max_delay_ns = 3 * kMillisecond;
  if (random.OneIn(2)) o.ranges = 2;
  constexpr LogMode kModes[] = {LogMode::kMemory, LogMode::kMemory, LogMode::kPersistent,
                                LogMode::kMemoryAndPersistent};
  o.cluster.ltc.hosted.log_mode = kModes[random.Uniform(std::size(kModes))];
  if (random.OneIn(2)) o.cluster.ltc.heartbeat_ns = 100 * kMillisecond;
  o.cluster.coordinators = 2;
  o.cluster.ltcs = 3;
  o.cluster.stocs = 5;
  o.cluster.client.timeout_ms = 5000;
  if (random.OneIn(2)) o.cluster.clock_rate_error = 0.009;  // of the 1 % that is allowed for
  o.cluster.stoc.disk_watch.hung_after_ns = 2 * kSecond;
  o.cluster.stoc.disk_watch.well_after_ns = 2 * kSecond;
  o.cluster.stoc.disk_probe_period_ns = kSecond;
  o.cluster.coordinator.cluster.disk_slow_after_ns = kSecond;
  o.cluster.coordinator.cluster.disk_well_after_ns = 3 * kSecond;
  o.cluster.config.lost_reply_one_in = 50;
  o.cluster.control.drop_one_in = 100;
  o.cluster.control.duplicate_one_in = 100;
  o.disasters = random.OneIn(2);
  o.scenes = random.OneIn(2);
  if (random.OneIn(2)) o.cluster.stoc.scrub = {.period_ns = 3 * kSecond, .bytes_per_second = 100'000'000};
  return o;
}

std::vector<std::string> ChaosKinds() {
  std::vector<std::string> kinds;
  for (const char* fault : {"StoC killed",
                            "two StoCs killed",
                            "StoC paused",
                            "StoC cut from coordinators or store",
                            "StoC hangs, and heartbeats go on",
                            "StoC drained",
                            "StoC drained to the end",
                            "StoC stopped",
                            "StoC lost for good",
                            "StoC back with an empty disk",
                            "StoC back with its old disk",
                            "wall clock jumps",
                            "LTC killed",
                            "LTC paused",
                            "LTC cut from coordinators or store",
                            "LTC cut from StoCs",
                            "LTC drained",
                            "LTC drained to the end",
                            "LTC stopped",
                            "coordinator killed",
                            "coordinator cut from coordinators or store",
                            "network loses and delays",
                            "disk fails",
                            "disk is full",
                            "disk is slow",
                            "disk hangs",
                            "disk fails reads",
                            "disk forgiven",
                            "WRITEs come late",
                            "several nodes at once",
                            "LTC is heard by clients alone",
                            "leader cut from the store, an LTC from the next one",
                            "LTC is slow to let go",
                            "StoC lost, and back when another one is lost",
                            "client cut from one LTC",
                            "client does not read",
                            "stop between lease check and answer",
                            "stop between release and letting go",
                            "copies are made, their edit comes late",
                            "files are dropped late",
                            "clocks run wrong"}) {
    kinds.push_back(StrCat("fault: ", fault));
  }
  kinds.push_back("seen: a table was read from its other copy");
  kinds.push_back("seen: a status was held against the disks");
  kinds.push_back("seen: a deletion was held against the manifest");
  for (const char* state : {"slow", "full", "hung", "failing"})
    kinds.push_back(StrCat("seen: a disk was ", state));
  for (const char* op : {"put", "put of a large value", "delete", "delete range", "get", "scan",
                         "compare and swap", "batch", "multi-get", "snapshot", "time to live",
                         "put of a shared key", "get of a shared key", "compare and swap of a shared key"}) {
    kinds.push_back(StrCat("op: ", op));
  }
  return kinds;
}

ChaosResult RunChaos(uint64_t seed, const ChaosOptions& options) {
  ChaosResult result;
  Simulation sim(seed);
  SetUpSimLog(&sim, seed);
  sim.Run([&] {
    Notification over;
    Thread watchdog("chaos.watchdog", [&over, seed] {
      NOVA_CHECK(over.WaitUntil(Now() + kWholeRun))
          << "seed " << seed << ": hangs" << Simulation::Current()->FibersText();
    });
    RunAll(options, &result);
    over.Notify();
  });
  if (options.cluster.clock_rate_error > 0) ++result.counts["fault: clocks run wrong"];
  result.trace_hash = sim.trace_hash();
  return result;
}

}  // namespace nova
