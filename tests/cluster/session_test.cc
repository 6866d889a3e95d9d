// Faults of ZooKeeper and of sessions with it (docs/testing.md, rows 33, 35 to 37), judged by nova_checker.
#include <signal.h>

#include <algorithm>

#include "absl/strings/match.h"
#include "tests/cluster/kill_rounds.h"

namespace nova {
namespace {

class SessionTest : public KillTest {
 protected:
  // Sums up the next seconds, from about now.
  static Checker::Second Seconds(Checker* checker, int n) {
    checker->SkipToNow();
    Checker::Second sum;
    for (int i = 0; i < n; ++i) {
      const Checker::Second s = checker->Next();
      sum.ok += s.ok;
      sum.failed += s.failed;
      sum.unknown += s.unknown;
      sum.worst_ms = std::max(sum.worst_ms, s.worst_ms);
    }
    return sum;
  }
  // The number of range moves that the living coordinators have made.
  uint64_t Moves() {
    uint64_t moves = 0;
    for (const char* name : {"coordinator-0", "coordinator-1"})
      moves += Counter(name, "nova_coordinator_range_moves_total");
    return moves;
  }
  uint64_t Counter(const std::string& node, const std::string& name) {
    for (const auto& line : absl::StrSplit(HttpGet(cluster_->metrics_address(node), "/metrics"), '\n')) {
      uint64_t value;
      const std::vector<std::string> words = absl::StrSplit(line, ' ');
      if (words.size() == 2 && words[0] == name && absl::SimpleAtoi(words[1], &value)) return value;
    }
    return 0;
  }
  // Waits until `nova status` has a line with both words; empty: it never had.
  std::string StatusLine(const std::string& a, const std::string& b, Nanos wait_ns) {
    for (const Nanos until = Now() + wait_ns; Now() < until; SleepFor(200 * kMillisecond)) {
      std::string text;
      if (cluster_->Nova({"status"}, &text) != 0) continue;
      for (const auto& line : absl::StrSplit(text, '\n')) {
        if (absl::StrContains(line, a) && absl::StrContains(line, b)) return std::string(line);
      }
    }
    return "";
  }
  static void ExpectVerified(Checker* checker, bool nothing_failed) {
    const std::string verdict = checker->Verify();
    EXPECT_TRUE(verdict.starts_with("verified ")) << verdict;
    EXPECT_TRUE(!nothing_failed || absl::StrContains(verdict, ", 0 failed, 0 unknown")) << verdict;
    std::printf("%s\n", verdict.c_str());
  }
};

// Rows 35 and 36, with sessions longer than the loss of the quorum: nobody outside notices.
TEST_F(SessionTest, OneZookeeperServerOfThreeOrFiveSecondsOfQuorumAreNotMissed) {
  ProcessClusterOptions options;
  options.zookeeper_servers = 3;
  options.zookeeper_session_ms = 15'000;
  Start(options);
  if (cluster_ == nullptr) return;
  ZookeeperServer* const zookeeper = cluster_->zookeeper();
  Checker checker(cluster_->coordinators(), 8, 2000, 200);
  Seconds(&checker, 2);
  const uint64_t moves = Moves();
  for (const bool leader : {false, true}) {
    const int leading = zookeeper->Leader();
    ASSERT_GE(leading, 0);
    const int victim = leader ? leading : (leading + 1) % 3;
    zookeeper->Kill(victim);
    const Checker::Second s = Seconds(&checker, 4);
    EXPECT_LT(s.worst_ms, 1500u) << (leader ? "the leader" : "a follower") << " was killed";
    ASSERT_TRUE(zookeeper->Restart(victim).ok());
  }
  Seconds(&checker, 1);
  const int leading = zookeeper->Leader();
  for (const int server : {leading, (leading + 1) % 3}) zookeeper->Pause(server);
  const Checker::Second s = Seconds(&checker, 5);
  for (const int server : {leading, (leading + 1) % 3}) zookeeper->Resume(server);
  EXPECT_LT(s.worst_ms, 1500u) << "without a quorum";
  EXPECT_LT(Seconds(&checker, 3).worst_ms, 1500u) << "the quorum is back";
  EXPECT_EQ(Moves(), moves) << "a range moved";
  ExpectVerified(&checker, true);
}

// Row 36, with sessions shorter than the loss: leases end, and everything comes back alone.
TEST_F(SessionTest, AQuorumLostForLongerThanASessionLosesNothing) {
  ProcessClusterOptions options;
  options.zookeeper_servers = 3;
  Start(options);
  if (cluster_ == nullptr) return;
  ZookeeperServer* const zookeeper = cluster_->zookeeper();
  Checker checker(cluster_->coordinators(), 8, 2000, 200);
  Seconds(&checker, 2);
  const int leading = zookeeper->Leader();
  ASSERT_GE(leading, 0);
  for (const int server : {leading, (leading + 1) % 3}) zookeeper->Pause(server);
  EXPECT_LT(Seconds(&checker, 3).worst_ms, 1500u) << "leases can still be renewed";
  Seconds(&checker, 5);
  for (const int server : {leading, (leading + 1) % 3}) zookeeper->Resume(server);
  Seconds(&checker, 8);
  const Checker::Second after = Seconds(&checker, 3);
  EXPECT_GT(after.ok, 0u);
  EXPECT_LT(after.worst_ms, 1500u) << "still not back";
  ExpectVerified(&checker, false);
}

// Rows 33 and 37: a process that slept past its session and its lease takes part again, and nothing it was
// told before counts.
TEST_F(SessionTest, ProcessesThatSleptPastTheirSessionTakePartAgain) {
  Start({});
  if (cluster_ == nullptr) return;
  Checker checker(cluster_->coordinators(), 8, 2000, 200);
  Seconds(&checker, 2);
  const std::string first = cluster_->LeadingCoordinator();
  ASSERT_FALSE(first.empty());
  const std::string second = first == "coordinator-0" ? "coordinator-1" : "coordinator-0";

  cluster_->Signal(first, SIGSTOP);
  const Checker::Second s = Seconds(&checker, 7);
  EXPECT_LT(s.worst_ms, 6000u) << "a lease later than the session's end, reads go on";
  EXPECT_EQ(Counter(second, "nova_coordinator_leading"), 1u);
  cluster_->Signal(first, SIGCONT);
  Seconds(&checker, 2);
  EXPECT_EQ(Counter(first, "nova_coordinator_step_downs_total"), 1u);
  EXPECT_TRUE(
      absl::StrContains(HttpGet(cluster_->metrics_address(first), "/"), StrCat(" does not lead; ", second)))
      << first;
  EXPECT_EQ(Counter(second, "nova_coordinator_range_moves_total"), 0u) << "an election moves nothing (C2)";
  EXPECT_EQ(cluster_->LeadingCoordinator(), second);

  for (const char* const victim : {"ltc-0", "stoc-0"}) {
    cluster_->Signal(victim, SIGSTOP);
    Seconds(&checker, 7);
    EXPECT_EQ(StatusLine(StrCat(" ", victim, " "), "127.0.0.1:", 100 * kMillisecond), "")
        << "its session has expired";
    cluster_->Signal(victim, SIGCONT);
    EXPECT_NE(StatusLine(StrCat(" ", victim, " "), " s ", 10 * kSecond), "") << victim << " has no lease";
    Seconds(&checker, 2);
  }
  // The one that slept is a full member: it takes over everything.
  cluster_->Kill("ltc-1");
  Seconds(&checker, 8);
  const Checker::Second after = Seconds(&checker, 2);
  EXPECT_GT(after.ok, 0u);
  EXPECT_NE(StatusLine("ltc-0 ", "16 ranges", 5 * kSecond), "");
  ExpectVerified(&checker, false);
}

// Rows 1 and 17 together: ranges open though one member of their logs neither answers nor closes its
// connections.
TEST_F(SessionTest, AStoppedStocDoesNotHoldUpAFailover) {
  Start({});
  if (cluster_ == nullptr) return;
  Checker checker(cluster_->coordinators(), 8, 2000, 200);
  Seconds(&checker, 2);
  cluster_->Signal("stoc-0", SIGSTOP);
  cluster_->Kill("ltc-0");
  const Checker::Second s = Seconds(&checker, 12);
  EXPECT_LT(s.worst_ms, 9000u) << "a lease of 2 s, 5 s to open, and what a read's own try waits";
  cluster_->Signal("stoc-0", SIGCONT);
  Seconds(&checker, 2);
  ExpectVerified(&checker, false);
}

// The same while nothing is written, so that nothing else breaks the connection to the member that stands
// still: R2 asks it, and goes on with the others.
TEST_F(SessionTest, AStoppedStocDoesNotHoldUpAFailoverOfIdleRanges) {
  Start({});
  if (cluster_ == nullptr) return;
  std::string output;
  ASSERT_EQ(
      cluster_->Nova({"bench", "--workload=LOAD", "--records=2000", "--threads=4", "--noprogress"}, &output),
      0)
      << output;
  std::string before;
  ASSERT_EQ(cluster_->Nova({"scan", "", "100000"}, &before), 0);
  MachineWatch machine(std::filesystem::temp_directory_path().string());
  cluster_->Signal("stoc-0", SIGSTOP);
  cluster_->Kill("ltc-0");
  const Nanos died = Now();
  const Status open = cluster_->WaitOpen(died + 60 * kSecond);
  EXPECT_TRUE(open.ok()) << open;
  EXPECT_LT(Now() - died, 9 * kSecond + machine.worst())
      << "a lease of 2 s, 5 s to open, and what a read's own try waits";
  std::string after;
  EXPECT_EQ(cluster_->Nova({"--timeout_ms=20000", "scan", "", "100000"}, &after), 0);
  EXPECT_TRUE(before == after) << before.size() << " bytes before, " << after.size() << " after";
  cluster_->Signal("stoc-0", SIGCONT);
}

}  // namespace
}  // namespace nova
