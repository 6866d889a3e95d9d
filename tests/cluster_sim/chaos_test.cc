// Random faults against the history of what clients did. Every failure names its seed: NOVA_SIM_SEED=n runs that one alone,
// NOVA_SIM_SEEDS=n as many from there on.
#include <gtest/gtest.h>

#include <cstdlib>

#include "tests/cluster_sim/chaos.h"
#include "tests/cluster_sim/scenario.h"

namespace nova {
namespace {

constexpr Nanos kTestTime = 70 * kSecond;  // real

TEST(ChaosTest, EveryAcknowledgedWriteIsFound) {
  const auto only = SeedFromEnvironment();
  const char* const count = std::getenv("NOVA_SIM_SEEDS");
  const uint64_t first = only.value_or(1);
  const uint64_t most = count != nullptr ? std::strtoull(count, nullptr, 10) : only ? 1 : UINT64_MAX;
  const Nanos until = count != nullptr ? kNever : Now() + kTestTime;
  uint64_t seeds = 0, acknowledged = 0, unknown = 0, refused = 0, faults = 0;
  for (; seeds < most && Now() < until; ++seeds) {
    const uint64_t seed = first + seeds;
    const ChaosResult r = RunChaos(seed, ChaosOf(seed));
    EXPECT_EQ(r.violation, "") << "NOVA_SIM_SEED=" << seed << ", log mode " << static_cast<int>(ChaosOf(seed).cluster.ltc.hosted.log_mode);
    acknowledged += r.acknowledged;
    unknown += r.unknown;
    refused += r.refused;
    faults += r.faults;
  }
  std::printf("%llu seeds, %llu acknowledged writes, %llu unknown, %llu refused, %llu faults\n", static_cast<unsigned long long>(seeds),
              static_cast<unsigned long long>(acknowledged), static_cast<unsigned long long>(unknown),
              static_cast<unsigned long long>(refused), static_cast<unsigned long long>(faults));
  EXPECT_GT(acknowledged, seeds * 20);
  EXPECT_GT(faults, seeds * 2);
}

}  // namespace
}  // namespace nova
