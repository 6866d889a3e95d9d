// Keys with several writers, on a cluster of processes that are killed, stopped and ended in order:
// linearizable all the same.
#include <gtest/gtest.h>
#include <signal.h>

#include "tests/cluster/process_cluster.h"
#include "tests/cluster/writers.h"

namespace nova {
namespace {

constexpr Nanos kPastTheLease = 5 * kSecond;

TEST(LinearKillTest, KeysWithSeveralWritersAreLinearizable) {
  ProcessClusterOptions options;
  options.coordinators = 2;
  options.ltcs = 3;
  options.ltc_flags = {"--table_replicas=2", "--memtable_mb=1", "--table_mb=1", "--level1_mb=4"};
  auto started = ProcessCluster::Start(options);
  if (absl::IsNotFound(started.status())) GTEST_SKIP() << started.status().message();
  ASSERT_TRUE(started.ok()) << started.status();
  ProcessCluster* const cluster = started->get();
  RegisterHistory history;
  {
    Writers writers(cluster->coordinators(), &history);
    // What goes on after a disturbance is what is to be judged.
    const auto goes_on = [&](const std::string& after) {
      const size_t before = history.size();
      const Nanos until = Now() + 60 * kSecond;
      while (history.size() < before + 300 && Now() < until) SleepFor(10 * kMillisecond);
      EXPECT_GE(history.size(), before + 300) << "nothing went on after " << after;
    };
    goes_on("the start");
    for (const std::string node : {"ltc-0", "stoc-0", "ltc-1", "stoc-1", "coordinator-0"}) {
      cluster->Kill(node);
      goes_on("the death of " + node);
      ASSERT_TRUE(cluster->Restart(node).ok()) << node;
      goes_on("the return of " + node);
    }
    for (const std::string node : {"ltc-2", "stoc-2", "ltc-0"}) {
      cluster->Signal(node, SIGSTOP);
      SleepFor(kPastTheLease);
      cluster->Signal(node, SIGCONT);
      goes_on("the awakening of " + node);
    }
    // Each hands its ranges over; one that has just lost some while it stood still says so by a 1.
    for (const std::string node : {"ltc-0", "ltc-1", "ltc-2"}) {
      const auto code = cluster->Stop(node, Now() + 60 * kSecond);
      ASSERT_TRUE(code.ok()) << node << ": " << code.status();
      EXPECT_LE(*code, 1) << node;
      goes_on("the end of " + node);
      ASSERT_TRUE(cluster->Restart(node).ok()) << node;
    }
    goes_on("all");
  }
  std::string verdict;
  EXPECT_TRUE(history.Judge(&verdict)) << verdict;
  std::printf("%s", verdict.c_str());
  // Nobody ended unasked, and each ends in order: under sanitizers, without a report and without a leak.
  for (const std::string role : {"ltc-", "stoc-", "coordinator-"}) {
    for (const std::string& name : cluster->names()) {
      if (!name.starts_with(role)) continue;
      EXPECT_TRUE(cluster->Runs(name)) << name << " ended by itself";
      const auto code = cluster->Stop(name, Now() + 60 * kSecond);
      ASSERT_TRUE(code.ok()) << name << ": " << code.status();
      EXPECT_EQ(*code, 0) << name;
    }
  }
}

}  // namespace
}  // namespace nova
