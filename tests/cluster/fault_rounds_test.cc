// Ten rounds of faults of processes (FaultRounds), by a seed that is drawn in each run.
//   NOVA_FAULT_SEED=n   the same faults again
#include "tests/cluster/fault_rounds.h"

#include <cstdlib>

namespace nova {
namespace {

TEST(FaultRoundsTest, TenRoundsLoseNothingShowNothingStaleAndLeaveNothingBehind) {
  const char* const given = std::getenv("NOVA_FAULT_SEED");
  const uint64_t seed = given == nullptr ? RandomSeed() >> 32 : std::strtoull(given, nullptr, 10);
  std::printf("NOVA_FAULT_SEED=%llu\n", static_cast<unsigned long long>(seed));
  std::fflush(stdout);
  auto cluster = ProcessCluster::Start(FaultRounds::ClusterOptions());
  if (absl::IsNotFound(cluster.status())) GTEST_SKIP() << cluster.status().message();
  ASSERT_TRUE(cluster.ok()) << cluster.status();
  FaultRounds(cluster->get(), seed).Run(10);
}

}  // namespace
}  // namespace nova
