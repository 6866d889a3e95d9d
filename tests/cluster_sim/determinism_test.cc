// Same seed, same trace: a whole cluster, with faults, in two processes, and whatever a process has run
// before.
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>

#include "tests/cluster_sim/chaos.h"
#include "tests/cluster_sim/scenario.h"

namespace nova {
namespace {

constexpr int kRanges = 16;

// Boots, loads, loses a StoC and an LTC, verifies. The trace is of everything the network carried and every
// step the fibers took.
void RunScenario(Simulation* sim) {
  sim->Run([] {
    SimCluster cluster(SmallCluster());
    cluster.StartAll();
    const auto client = cluster.NewClient("client-0");
    ASSERT_TRUE(client->CreateRanges(SplitKeys(kRanges)).ok());
    ASSERT_TRUE(cluster.WaitOpen(kRanges, 30 * kSecond));
    History history;
    std::string violation;
    Load load(client.get(), &history, {.keys = 60}, &violation);
    for (int i = 0; i < 2100; ++i) {
      if (i == 700) cluster.Kill("stoc-2");
      if (i == 1400) cluster.Kill("ltc-1");
      load.Step();
    }
    ASSERT_TRUE(cluster.Start("stoc-2").ok());
    ASSERT_TRUE(cluster.WaitOpen(kRanges, 30 * kSecond));
    load.Verify();
    EXPECT_EQ(violation, "");
    EXPECT_GT(history.acknowledged(), 800u);
  });
}

// In a process of its own, whose addresses differ: "<hash> <lines>".
std::string TraceOfProcess(uint64_t seed) {
  std::array<char, 4096> self{};
  if (readlink("/proc/self/exe", self.data(), self.size() - 1) < 0) return "no /proc";
  const std::string command =
      StrCat("NOVA_SIM_PRINT_TRACE=", seed, " '", self.data(),
             "' --gtest_filter=DeterminismTest.PrintsItsTrace 2>&1 | sed -n 's/^trace //p'");
  FILE* const pipe = popen(command.c_str(), "r");
  if (pipe == nullptr) return "no process";
  std::array<char, 256> line{};
  const bool read = std::fgets(line.data(), line.size(), pipe) != nullptr;
  const int status = pclose(pipe);
  return read && status == 0 ? std::string(line.data()) : "the process failed";
}

// Also the body of the processes that TraceOfProcess starts.
TEST(DeterminismTest, PrintsItsTrace) {
  const char* const seed = std::getenv("NOVA_SIM_PRINT_TRACE");
  Simulation sim(seed == nullptr ? 1 : std::strtoull(seed, nullptr, 10));
  SetUpSimLog(&sim);
  RunScenario(&sim);
  if (!HasFailure())
    std::printf("trace %llx %llu\n", static_cast<unsigned long long>(sim.trace_hash()),
                static_cast<unsigned long long>(sim.trace_lines()));
}

TEST(DeterminismTest, SameSeedSameTraceInTwoProcesses) {
  const std::string first = TraceOfProcess(7);
  EXPECT_EQ(first, TraceOfProcess(7));
  const size_t space = first.find(' ');
  ASSERT_NE(space, std::string::npos) << first;
  EXPECT_GE(std::strtoull(first.c_str() + space + 1, nullptr, 10), 10'000u);
  const std::string other = TraceOfProcess(8);
  EXPECT_NE(other.find(' '), std::string::npos) << other;
  EXPECT_NE(first.substr(0, space), other.substr(0, space));
}

// Else a violation of chaos, which runs seed after seed, would not come back when its seed is run alone.
TEST(DeterminismTest, SameSeedSameChaosWhateverRanBefore) {
  const auto run = [](uint64_t seed) {
    ChaosOptions options = ChaosOf(seed);
    options.duration_ns = 10 * kSecond;  // faults may take the first four of them
    const ChaosResult r = RunChaos(seed, options);
    EXPECT_EQ(r.violation, "");
    EXPECT_GT(r.acknowledged, 20u);
    return StrCat(r.acknowledged, " acknowledged, ", r.unknown, " unknown, ", r.refused, " refused, ",
                  r.faults, " faults, trace ", r.trace_hash);
  };
  std::map<uint64_t, std::string> first;
  for (const uint64_t seed : {3, 4, 5, 6}) first[seed] = run(seed);
  for (const uint64_t seed : {6, 4, 3, 5}) EXPECT_EQ(run(seed), first[seed]) << "seed " << seed;
  EXPECT_NE(first[3], first[4]);
}

}  // namespace
}  // namespace nova
