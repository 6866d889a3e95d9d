// Clients that write the same keys, while nodes die, stand still, are cut off and give their ranges back:
// linearizable all the same.
#include <gtest/gtest.h>

#include "tests/cluster_sim/scenario.h"
#include "tests/linear/register_history.h"

namespace nova {
namespace {

constexpr int kClients = 4, kRanges = 2;
constexpr size_t kOperations = 500;  // of a seed, at least
constexpr Nanos kDuration = 10 * kSecond;

// One disturbance after another; each node is back before the next is chosen.
class Disturber {
 public:
  explicit Disturber(SimCluster* cluster) : cluster_(cluster) {}

  void Disturb() {
    const std::vector<std::string> nodes = cluster_->Names(random_.OneIn(4) ? "stoc" : "ltc");
    const std::string& node = nodes[random_.Uniform(nodes.size())];
    const Nanos lasts = static_cast<Nanos>(50 + random_.Uniform(3'000)) * kMillisecond;
    switch (random_.Uniform(5)) {
      case 0: {  // its ranges are released in order
        const Status stopped = cluster_->Stop(node);
        if (!stopped.ok()) cluster_->Kill(node);
        Return(node);
        break;
      }
      case 1:
        cluster_->Kill(node);
        SleepFor(lasts);
        Return(node);
        break;
      case 2:
        cluster_->CutControl(node, true);
        SleepFor(lasts);
        break;
      case 3:
        cluster_->CutConfig(node, true);
        SleepFor(lasts);
        break;
      default:
        cluster_->Pause(node);
        SleepFor(lasts);
        break;
    }
    cluster_->HealAll();
    ++done_;
    SleepFor(static_cast<Nanos>(random_.Uniform(500)) * kMillisecond);
  }
  int done() const { return done_; }

 private:
  void Return(const std::string& node) {
    while (!cluster_->Start(node).ok()) SleepFor(200 * kMillisecond);
  }
  SimCluster* const cluster_;
  int done_ = 0;
  Random random_;
};

void RunSeed(uint64_t seed, RegisterHistory* history) {
  SimClusterOptions options = SmallCluster();
  // shorter than some disturbances: outcomes that nobody knows
  options.client.timeout_ms = 1'000;
  options.network.max_delay_ns = 5 * kMillisecond;
  options.ltcs = 3;
  OneRange scenario(options, kRanges);
  std::vector<std::unique_ptr<Client>> clients;
  std::vector<std::unique_ptr<RegisterLoad>> loads;
  RegisterLoadOptions load;
  for (int i = 0; i < 6; ++i) load.keys.push_back(StrCat(KeyOf(i * 160), "/", seed));
  for (load.client = 0; load.client < kClients; ++load.client) {
    clients.push_back(scenario.cluster.NewClient(StrCat("writer-", load.client)));
    loads.push_back(std::make_unique<RegisterLoad>(clients.back().get(), history, load));
  }
  // Disturbances may leave the clients little: a seed goes on until there is something to judge.
  const size_t enough = history->size() + kOperations;
  const Nanos until = Now() + kDuration, latest = Now() + 4 * kDuration;
  const auto goes_on = [&] { return Now() < until || (history->size() < enough && Now() < latest); };
  Disturber disturber(&scenario.cluster);
  {
    std::vector<std::unique_ptr<Thread>> threads;
    for (auto& l : loads) {
      threads.push_back(std::make_unique<Thread>("writer", [&] {
        Random pause;
        for (RegisterLoad* const mine = l.get(); goes_on();) {
          mine->Step();
          SleepFor(static_cast<Nanos>(pause.Uniform(30'000)) * kMicrosecond);
        }
      }));
    }
    while (goes_on()) disturber.Disturb();
  }
  EXPECT_GE(disturber.done(), 2);
}

TEST(SimLinearTest, KeysWithSeveralWritersAreLinearizable) {
  RegisterHistory history;
  std::vector<uint64_t> seeds = {1, 2};
  for (int i = 0; i < 3; ++i) seeds.push_back(RandomSeed() % 1'000'000);  // others in each run
  if (const auto only = SeedFromEnvironment()) seeds = {*only};
  for (const uint64_t seed : seeds) {
    std::printf("NOVA_SIM_SEED=%llu\n", static_cast<unsigned long long>(seed));
    const size_t before = history.size();
    Simulate(seed, [&] { RunSeed(seed, &history); });
    EXPECT_GE(history.size(), before + kOperations) << "the clients hardly did anything";
  }
  std::string verdict;
  EXPECT_TRUE(history.Judge(&verdict)) << verdict;
  std::printf("%s", verdict.c_str());
}

}  // namespace
}  // namespace nova
