// A cluster of processes that stand still, all die at once, or stop in order, judged from outside by
// nova_checker (its own process): by what is there, not by how long it took.
#include <signal.h>

#include "tests/cluster/kill_rounds.h"

namespace nova {
namespace {

TEST_F(KillTest, ZombieLtcAcknowledgesNothingAfterItsLease) {
  Start({});
  if (cluster_ == nullptr) return;
  Checker checker(cluster_->coordinators(), 8, 2000, 200);
  for (int i = 0; i < 2; ++i) checker.Next();
  cluster_->Signal("ltc-0", SIGSTOP);
  for (int i = 0; i < 7; ++i) checker.Next();  // past its lease: its ranges open elsewhere
  cluster_->Signal("ltc-0", SIGCONT);
  uint64_t ok = 0;
  for (int i = 0; i < 4; ++i) ok += checker.Next().ok;
  EXPECT_GT(ok, 0u);
  const std::string verdict = checker.Verify();
  EXPECT_TRUE(verdict.starts_with("verified 2000 keys")) << verdict;
}

// All StoCs share this host: the log is on their disks too, by default.
TEST_F(KillTest, NothingAcknowledgedIsLostWhenEveryProcessIsKilledAtOnce) {
  Start({});
  if (cluster_ == nullptr) return;
  Checker checker(cluster_->coordinators(), 8, 2000, 200);
  for (int round = 0; round < 2; ++round) {
    checker.SkipToNow();  // what was said while everything was down
    uint64_t ok = 0;
    for (int i = 0; i < 4; ++i) ok += checker.Next().ok;
    EXPECT_GT(ok, 0u);
    for (const std::string& name : cluster_->names()) cluster_->Kill(name);
    for (const char* role : {"coordinator-", "stoc-", "ltc-"}) {
      for (const std::string& name : cluster_->names()) {
        ASSERT_TRUE(!name.starts_with(role) || cluster_->Restart(name).ok()) << name;
      }
    }
    ASSERT_TRUE(cluster_->WaitOpen(Now() + 60 * kSecond).ok());
  }
  std::string status;
  const std::string held =
      "durability: an acknowledged write has 2 copies at least (log 3, manifests 3, tables 2)";
  for (const Nanos until = Now() + 20 * kSecond; Now() < until && status.find(held) == std::string::npos;
       SleepFor(200 * kMillisecond))  // the owners tell which tables they have with their heartbeats
    EXPECT_EQ(cluster_->Nova({"status"}, &status), 0);
  EXPECT_NE(status.find(held), std::string::npos) << status;
  EXPECT_NE(status.find("  memory+persistent log, R=3"), std::string::npos) << status;
  const std::string verdict = checker.Verify();
  EXPECT_TRUE(verdict.starts_with("verified 2000 keys")) << verdict;
}

TEST_F(KillTest, EverythingComesBackAfterAnOrderlyStop) {
  Start({});
  if (cluster_ == nullptr) return;
  std::string output;
  ASSERT_EQ(
      cluster_->Nova({"bench", "--workload=LOAD", "--records=20000", "--threads=8", "--noprogress"}, &output),
      0)
      << output;
  std::string before;
  ASSERT_EQ(cluster_->Nova({"scan", "", "100000"}, &before), 0);
  for (const char* role : {"ltc-", "stoc-", "coordinator-"}) {
    for (const std::string& name : cluster_->names()) {
      if (!name.starts_with(role)) continue;
      const auto code = cluster_->Stop(name, Now() + 60 * kSecond);
      ASSERT_TRUE(code.ok()) << name << ": " << code.status();
      EXPECT_EQ(*code, 0) << name;
    }
  }
  for (const char* role : {"coordinator-", "stoc-", "ltc-"}) {
    for (const std::string& name : cluster_->names()) {
      ASSERT_TRUE(!name.starts_with(role) || cluster_->Restart(name).ok()) << name;
    }
  }
  ASSERT_TRUE(cluster_->WaitOpen(Now() + 60 * kSecond).ok());
  std::string after;
  ASSERT_EQ(cluster_->Nova({"scan", "", "100000"}, &after), 0) << after.substr(0, 500);
  EXPECT_EQ(before, after);
}

}  // namespace
}  // namespace nova
