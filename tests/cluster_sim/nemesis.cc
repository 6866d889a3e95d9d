#include "tests/cluster_sim/nemesis.h"

#include <algorithm>

namespace nova {

void Nemesis::RunStocs() {
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
        if (LoseDiskOf(stoc, random_.OneIn(2)) && Sleep(3 * kSecond)) return;
    }
  }
}

void Nemesis::RunLtcs() {
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

void Nemesis::RunCoordinators() {
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

void Nemesis::RunNetwork() {
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

void Nemesis::RunClocks() {
  while (options_->wall_clocks && !Sleep(Between(300, 3000))) {
    Count("wall clock jumps");
    const std::vector<std::string> nodes = cluster_->Names(random_.OneIn(5) ? "coordinator" : "stoc");
    cluster_->JumpWallClock(Pick(nodes), random_.OneIn(2) ? kHourMs : -kHourMs);
  }
}

void Nemesis::RunClients() {
  const std::vector<std::string> ltcs = cluster_->Names("ltc");
  const std::unique_ptr<Client> silent = cluster_->NewClient(kSilentClient);
  while (!Sleep(Between(200, 2500))) {
    if (options_->cuts && random_.OneIn(2)) {
      Count("client cut from one LTC");
      const std::string client = StrCat("client-", random_.Uniform(static_cast<uint64_t>(options_->clients)));
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

void Nemesis::RunOperator() {
  while (!Sleep(Between(200, 3000))) {
    const auto kinds = LtcSettings::Kinds();
    const LtcSettings::Kind& kind = kinds[random_.Uniform(kinds.size())];
    // More memtables a round than ChaosOf has at most would fill more segments of logs than are looked for.
    const uint64_t most = kind.value == &LtcSettings::active_memtables ? 3 : 16;
    std::optional<int> value;
    if (!random_.OneIn(4)) value = static_cast<int>(1 + random_.Uniform(most));
    // A coordinator that was cut off, or is gone, has no answer.
    if (cluster_->NewCoordinatorClient().ChangeSetting(kind.name, value, Now() + kSecond).ok())
      Count("a setting of LTCs changes");
  }
}

void Nemesis::RunDisasters() {
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

Status Nemesis::StopHere(const char* where, uint64_t one_in, bool or_one_thread) {
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

Status Nemesis::HoldHere(const char* where, uint64_t one_in) {
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

void Nemesis::RunScenes() {
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
      case kOtherDisk:
        ExchangeDisk();
        break;
      default:
        ReleaseSlowly(PickOwner());
    }
  }
}

Nanos Nemesis::Between(uint64_t least_ms, uint64_t most_ms) {
  return static_cast<Nanos>((least_ms * 1000 + random_.Uniform((most_ms - least_ms) * 1000 + 1))) *
         kMicrosecond;
}

const std::string& Nemesis::Pick(const std::vector<std::string>& names) {
  return names[random_.Uniform(names.size())];
}

void Nemesis::Count(const std::string& what) {
  ++(*counts_)["fault: " + what];
  ++faults_;
}

std::string Nemesis::KindOf(const std::string& node) {
  return node.starts_with("stoc") ? "StoC" : node.starts_with("ltc") ? "LTC" : "coordinator";
}

std::string Nemesis::PickOwner() {
  std::vector<std::string> owners;
  for (const auto& [id, r] : cluster_->Records()) {
    if (r.state == RangeState::kOpen && !r.owner.empty()) owners.push_back(r.owner);
  }
  return owners.empty() ? Pick(cluster_->Names("ltc")) : Pick(owners);
}

void Nemesis::KeepInTheDark(bool cut) {
  for (int i = 0; i < options_->readers; ++i) cluster_->CutClient(StrCat("client-reader-", i), cut);
  cluster_->CutClient("client-writer", cut);
}

void Nemesis::LoseSightOf(const std::string& ltc) {
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

void Nemesis::ReplaceLeader() {
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

void Nemesis::ReleaseSlowly(const std::string& ltc) {
  if (!options_->orderly || !options_->pauses || !cluster_->Runs(ltc) || !Handle(ltc)) return;
  Count("LTC is slow to let go");
  KeepInTheDark(true);
  broken_->slow_to_let_go = ltc;
  DrainAndStop(ltc, "LTC", Between(10, 500));
  broken_->slow_to_let_go.clear();
  KeepInTheDark(false);
  LetGo(ltc);
}

void Nemesis::LoseOneAfterTheOther() {
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

void Nemesis::ExchangeDisk() {
  if (LoseDiskOf(Pick(cluster_->Names("stoc")), /*for_good=*/false)) Sleep(3 * kSecond);
}

bool Nemesis::HandleStocs(const std::vector<std::string>& stocs) {
  std::vector<std::string> mine;
  for (const std::string& stoc : stocs) {
    if (Handle(stoc)) mine.push_back(stoc);
  }
  if (mine.size() == stocs.size() && MayLoseWhatIsHandled()) return true;
  for (const std::string& stoc : mine) LetGo(stoc);
  return false;
}

bool Nemesis::MayLoseWhatIsHandled() {
  std::vector<std::string> stocs;
  for (const std::string& node : broken_->handled) {
    if (KindOf(node) == "StoC") stocs.push_back(node);
  }
  return cluster_->MayLose(stocs);
}

void Nemesis::KillAndRestart(const std::vector<std::string>& nodes, Nanos down_ns) {
  for (const std::string& node : nodes) cluster_->Kill(node);
  Sleep(down_ns);
  for (const std::string& node : nodes) {
    StartAgain(node);
    LetGo(node);
  }
}

void Nemesis::StartAnew(const std::vector<std::string>& stocs) {
  const std::string& stoc = Pick(stocs);
  if (!options_->kill_stocs || stoc == broken_->lost_stoc || !cluster_->Runs(stoc) || !HandleStocs({stoc}))
    return;
  Count("StoC killed");
  KillAndRestart({stoc}, Between(1, 200));
}

void Nemesis::StartAgain(const std::string& node) {
  while (!cluster_->Runs(node) && !cluster_->Start(node).ok()) {
    if (Sleep(200 * kMillisecond)) return;
  }
}

void Nemesis::StopAndRestart(const std::string& node, const std::string& kind, Nanos down_ns) {
  DrainAndStop(node, kind, down_ns);
  LetGo(node);
}

void Nemesis::DrainAndStop(const std::string& node, const std::string& kind, Nanos down_ns) {
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

void Nemesis::KillNothing(const std::string& node) {
  cluster_->CutConfig(node, true);
  Sleep(options_->cluster.config.session_timeout_ns + kSecond);
  cluster_->CutConfig(node, false);
  Undrain(node);
}

void Nemesis::Undrain(const std::string& node) {
  while (!cluster_->NewCoordinatorClient().Undrain(node, Now() + kSecond).ok()) {
    if (Sleep(200 * kMillisecond)) return;
  }
}

void Nemesis::PauseFor(const std::string& node, Nanos ns) {
  if (!options_->pauses) return;
  Count(KindOf(node) + " paused");
  cluster_->Pause(node);
  Sleep(ns);
  cluster_->Resume(node);
}

void Nemesis::HangFor(const std::string& node, Nanos ns) {
  if (!options_->pauses || !cluster_->Runs(node)) return;
  Count(KindOf(node) + " hangs, and heartbeats go on");
  cluster_->Hang(node);
  Sleep(ns);
  cluster_->Resume(node);
}

void Nemesis::CutFor(const std::string& node, Nanos ns) {
  if (!options_->cuts) return;
  Count(KindOf(node) + " cut from coordinators or store");
  const uint64_t which = 1 + random_.Uniform(3);
  if ((which & 1) != 0) cluster_->CutControl(node, true);
  if ((which & 2) != 0) cluster_->CutConfig(node, true);
  Sleep(ns);
  cluster_->CutControl(node, false);
  cluster_->CutConfig(node, false);
}

void Nemesis::PartitionFor(const std::string& node, Nanos ns) {
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

}  // namespace nova
