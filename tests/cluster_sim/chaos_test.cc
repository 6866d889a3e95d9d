// Random faults against the history of what clients did. A few seeds are always the same, the others are new
// in every run and are printed. Every failure names its seed: NOVA_SIM_SEED=n runs that one alone,
// NOVA_SIM_SEEDS=n as many from there on.
#include "tests/cluster_sim/chaos.h"

#include <gtest/gtest.h>

#include <cstdlib>

#include "common/base/random.h"

namespace nova {
namespace {

constexpr Nanos kTestTime = 70 * kSecond;  // real
constexpr uint64_t kFixedSeeds = 8;
constexpr uint64_t kEnoughForEachKind = 150;  // seeds over which every kind of step is met

// Of the seeds that are new in this run.
uint64_t FirstNewSeed() { return 1000 + RandomSeed() % 1'000'000'000; }

TEST(ChaosTest, EveryAcknowledgedWriteIsFound) {
  const auto only = SeedFromEnvironment();
  const char* const count = std::getenv("NOVA_SIM_SEEDS");
  const uint64_t first_new = FirstNewSeed();
  const uint64_t most = count != nullptr ? std::strtoull(count, nullptr, 10) : only ? 1 : UINT64_MAX;
  const Nanos begin = Now(), until = count != nullptr ? kNever : begin + kTestTime;
  uint64_t seeds = 0, acknowledged = 0, unknown = 0, refused = 0, faults = 0;
  Counts counts;
  for (const std::string& kind : ChaosKinds()) counts[kind] = 0;
  for (; seeds < most && Now() < until; ++seeds) {
    const uint64_t seed = only ? *only + seeds : seeds < kFixedSeeds ? seeds + 1 : first_new + seeds;
    const ChaosResult r = RunChaos(seed, ChaosOf(seed));
    EXPECT_EQ(r.violation, "") << "NOVA_SIM_SEED=" << seed << ", log mode "
                               << static_cast<int>(ChaosOf(seed).cluster.ltc.hosted.log_mode);
    acknowledged += r.acknowledged;
    unknown += r.unknown;
    refused += r.refused;
    faults += r.faults;
    for (const auto& [kind, n] : r.counts) counts[kind] += n;
  }
  if (!only)
    std::printf("seeds 1 to %llu, and from %llu on\n", static_cast<unsigned long long>(kFixedSeeds),
                static_cast<unsigned long long>(first_new + kFixedSeeds));
  std::printf("%llu seeds in %lld s, %llu acknowledged writes, %llu unknown, %llu refused, %llu faults\n",
              static_cast<unsigned long long>(seeds), static_cast<long long>((Now() - begin) / kSecond),
              static_cast<unsigned long long>(acknowledged), static_cast<unsigned long long>(unknown),
              static_cast<unsigned long long>(refused), static_cast<unsigned long long>(faults));
  for (const auto& [kind, n] : counts) {
    std::printf("  %8llu %s\n", static_cast<unsigned long long>(n), kind.c_str());
    if (seeds >= kEnoughForEachKind) {
      EXPECT_GT(n, 0u) << kind;
    }
  }
  EXPECT_GT(acknowledged, seeds * 20);
  EXPECT_GT(faults, seeds * 2);
}

}  // namespace
}  // namespace nova
