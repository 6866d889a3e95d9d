// The same as fault_rounds_test.cc for longer. Label "long".
//   NOVA_FAULT_ROUNDS=n   how many rounds; by itself as many as end within a quarter of an hour
//   NOVA_FAULT_SEED=n     the same faults again
#include <cstdlib>

#include "tests/cluster/fault_rounds.h"

namespace nova {
namespace {

constexpr int kRounds = 100;

TEST(FaultRoundsLongTest, LosesNothingShowsNothingStaleAndLeavesNothingBehind) {
  const char* const rounds = std::getenv("NOVA_FAULT_ROUNDS");
  const char* const given = std::getenv("NOVA_FAULT_SEED");
  const uint64_t seed = given == nullptr ? RandomSeed() >> 32 : std::strtoull(given, nullptr, 10);
  std::printf("NOVA_FAULT_SEED=%llu\n", static_cast<unsigned long long>(seed));
  std::fflush(stdout);
  auto cluster = ProcessCluster::Start(FaultRounds::ClusterOptions());
  if (absl::IsNotFound(cluster.status())) GTEST_SKIP() << cluster.status().message();
  ASSERT_TRUE(cluster.ok()) << cluster.status();
  FaultRounds(cluster->get(), seed).Run(rounds == nullptr ? kRounds : std::atoi(rounds));
}

}  // namespace
}  // namespace nova
