// Negative controls: the chaos with a safety rule switched off finds it out, by its history or by its last
// look at the cluster, within some seeds. Where another lock holds as long as the rule is off, both are
// (docs/testing.md names the pairs).
//
// One of them is drawn in each run. NOVA_CONTROLS=all takes all, NOVA_CONTROLS=name that one. NOVA_SIM_SEED=n
// begins there.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <functional>

#include "common/base/log.h"
#include "common/base/random.h"
#include "tests/cluster_sim/chaos.h"

namespace nova {
namespace {

// The faults in which a rule is needed, which would be in half of the seeds only, or one of several.
void Several(ChaosOptions* o) { o->disasters = true; }
template <Scene kScene>
void Only(ChaosOptions* o) {
  o->scenes = true;
  o->only_scene = kScene;
  o->readers = 4;
  o->cluster.ltc.heartbeat_ns =
      100 * kMillisecond;  // a new owner is there soon, within its predecessor's lease
}
void LateWrites(ChaosOptions* o) {
  o->cluster.network.late_one_in = 100;
  o->cluster.network.late_ns = 4 * kSecond;
}

void Losses(ChaosOptions* o) {
  o->cluster.ltc.hosted.placement.replicas = 2;
  o->cluster.coordinator.cluster.stoc_down_after_ns = kSecond;
  o->cluster.stocs = 4;
  Only<kReturn>(o);
}

// A StoC is back with an empty disk. Logs are in memory: a log in a file that an emptied disk lacks has other
// locks, of the log (L4, R3). No other disk fails: two losses at once are more than two copies are for.
void EmptyDisks(ChaosOptions* o) {
  o->bad_disks = false;
  o->cluster.ltc.hosted.placement.replicas = 2;
  o->cluster.ltc.hosted.log_mode = LogMode::kMemory;
  Only<kOtherDisk>(o);
}

// StoCs compact, and attempts are lost.
void Offloaded(ChaosOptions* o) {
  Several(o);
  o->cluster.ltc.offload.policy = OffloadPolicy::kRoundRobin;
  o->cluster.ltc.offload.least_deadline_ns = kSecond;
  o->cluster.ltc.offload.pause_after_failure_ns = 100 * kMillisecond;
}

struct Control {
  using SwitchOff = void (*)(RulesOff*, ClusterOptions::RulesOff*);
  const char* name;
  SwitchOff switch_off;
  void (*adverse)(ChaosOptions*) = nullptr;
  // Where two locks are off: each alone, which the other one makes up for.
  std::vector<SwitchOff> one_lock = {};
};
constexpr uint64_t kSeeds = 600;         // the rarest control is found by one of about 80
constexpr Nanos kLonger = 30 * kSecond;  // than chaos takes by itself: the same faults, more of them

const std::vector<Control>& Controls() {
  using Off = RulesOff*;
  using OffAtCoordinators = ClusterOptions::RulesOff*;
  static const auto* const controls = new std::vector<Control>{
      {"C2", [](Off, OffAtCoordinators c) { c->c2_wait = c->c2_listen = true; }, Only<kOldLeader>},
      {"C3", [](Off o, OffAtCoordinators) { o->c3_lease = true; }, Only<kUnheardOwner>},
      {"F1", [](Off o, OffAtCoordinators) { o->f1_fence = true; }, Only<kUnheardOwner>},
      {"F2_F3", [](Off o, OffAtCoordinators) { o->f2_new_key = o->f3_replace = true; }, LateWrites},
      {"L3", [](Off o, OffAtCoordinators) { o->l3_all_members = true; }, Several},
      {"L4", [](Off o, OffAtCoordinators) { o->l4_flush_first = true; }, Several},
      {"M1", [](Off o, OffAtCoordinators) { o->m1_all_members = true; }, Several},
      {"M2", [](Off o, OffAtCoordinators) { o->m2_edit_first = true; }, Several},
      {"M6", [](Off o, OffAtCoordinators) { o->m6_own_ids = true; }, Offloaded},
      {"N1", [](Off o, OffAtCoordinators) { o->n1_incarnation = true; }, Several},
      {"N3_N4",
       [](Off o, OffAtCoordinators) { o->n3_own_store = o->n4_lacks = true; },
       EmptyDisks,
       {[](Off o, OffAtCoordinators) { o->n3_own_store = true; },
        [](Off o, OffAtCoordinators) { o->n4_lacks = true; }}},
      {"N4", [](Off o, OffAtCoordinators) { o->n4_references = true; }},
      {"N4_jobs", [](Off o, OffAtCoordinators) { o->n4_jobs = true; }},
      {"R5_wait_C3", [](Off o, OffAtCoordinators c) { o->r5_wait = c->c3_lease_wait = true; },
       Only<kUnheardOwner>},
      {"R5_reads", [](Off o, OffAtCoordinators) { o->r5_reads_end = true; }, Only<kSlowRelease>},
      {"R6", [](Off o, OffAtCoordinators) { o->r6_free = true; }},
      {"S5_version", [](Off o, OffAtCoordinators) { o->s5_in_version = true; }, Losses},
      {"S5_take_over", [](Off o, OffAtCoordinators) { o->s5_take_over = true; }, Losses},
  };
  return *controls;
}

void AllOn(RulesOff*, ClusterOptions::RulesOff*) {}

// What the run of that seed ends with, in a process of its own: a broken cluster may also abort. The faults
// are the control's, whatever is off.
std::string ViolationOf(const Control& control, uint64_t seed, Control::SwitchOff switch_off) {
  int ends[2];
  NOVA_CHECK(pipe(ends) == 0);
  const pid_t child = fork();
  if (child == 0) {
    ChaosOptions options = ChaosOf(seed);
    options.disasters = options.scenes = options.settings = false;
    if (control.adverse != nullptr) control.adverse(&options);
    options.duration_ns = kLonger;
    RulesOff off;
    switch_off(&off, &options.cluster.coordinator.cluster.off);
    options.cluster.SwitchOff(off);
    const std::string violation = RunChaos(seed, options).violation;
    if (write(ends[1], violation.data(), std::min<size_t>(violation.size(), 1000)) < 0) _exit(1);
    _exit(0);
  }
  close(ends[1]);
  std::string text;
  char buffer[1024];
  for (ssize_t n = 0; (n = read(ends[0], buffer, sizeof(buffer))) > 0;)
    text.append(buffer, static_cast<size_t>(n));
  close(ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
    std::printf("%s: seed %llu aborts\n", control.name, static_cast<unsigned long long>(seed));
  return text;
}

void ExpectFoundOut(const Control& control, uint64_t first_seed) {
  for (uint64_t seed = first_seed; seed < first_seed + kSeeds; ++seed) {
    const std::string violation = ViolationOf(control, seed, control.switch_off);
    if (violation.empty()) continue;
    EXPECT_EQ(ViolationOf(control, seed, AllOn), "") << control.name << ": seed " << seed << ", all rules on";
    for (const Control::SwitchOff one : control.one_lock)
      EXPECT_EQ(ViolationOf(control, seed, one), "") << control.name << ": seed " << seed << ", one lock off";
    std::printf("%s off: found out by seed %llu, the %llu. of them: %s\n", control.name,
                static_cast<unsigned long long>(seed), static_cast<unsigned long long>(seed - first_seed + 1),
                violation.substr(0, 200).c_str());
    std::fflush(stdout);
    return;
  }
  ADD_FAILURE() << control.name << " off: not found out by seeds " << first_seed << " to "
                << first_seed + kSeeds - 1;
}

TEST(ControlsTest, ARuleSwitchedOffIsFoundOut) {
  const char* const orders = std::getenv("NOVA_CONTROLS");
  const std::string which = orders == nullptr ? "" : orders;
  const uint64_t first_seed = SeedFromEnvironment().value_or(1);
  std::vector<const Control*> chosen;
  for (const Control& c : Controls()) {
    if (which.empty() || which == "all" || which == c.name) chosen.push_back(&c);
  }
  ASSERT_FALSE(chosen.empty()) << "no control " << which;
  if (which.empty()) chosen = {chosen[Random().Uniform(chosen.size())]};
  for (const Control* c : chosen) ExpectFoundOut(*c, first_seed);
}

}  // namespace
}  // namespace nova
