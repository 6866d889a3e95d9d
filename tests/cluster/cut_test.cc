// An LTC that is cut from one StoC, or from its clients, one way and both ways (docs/testing.md, rows 5 and
// 7): it runs on a network of its own, with a link to each.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <set>

#include "absl/strings/match.h"
#include "tests/cluster/kill_rounds.h"
#include "tests/cluster/namespaces.h"

namespace nova {
namespace {

constexpr int kStocs = 4;
constexpr int kRanges = 8;
// Numbers of links.
constexpr int kCluster = 1;  // coordinators and ZooKeeper
constexpr int kClients = 2;
constexpr int kFirstStoc = 10;

class CutTest : public testing::Test {
 protected:
  static void SetUpTestSuite() { why_not_ = EnterOwnNetwork(); }
  void SetUp() override {
    if (!why_not_.empty()) GTEST_SKIP() << why_not_;
    auto network = OtherNetwork::Make();
    ASSERT_TRUE(network.ok()) << network.status();
    network_ = *std::move(network);
    ProcessClusterOptions options;
    options.stocs = kStocs;
    options.ranges = kRanges;
    options.ltc_flags = {"--memtable_mb=1", "--table_mb=1", "--block_cache_mb=1"};
    for (const int link : {kCluster, kClients}) {
      const Status linked = network_->Link(link);
      ASSERT_TRUE(linked.ok()) << linked;
    }
    options.host = Here(kCluster);
    options.launchers[kAlone] = network_->Launcher();
    options.node_flags[kAlone] = {StrCat("--address=10.9.", kClients, ".2:0"),
                                  StrCat("--metrics_address=10.9.", kClients, ".2:0")};
    for (int i = 0; i < kStocs; ++i) {
      const Status linked = network_->Link(kFirstStoc + i);
      ASSERT_TRUE(linked.ok()) << linked;
      options.node_flags[StrCat("stoc-", i)] = {StrCat("--address=", Here(kFirstStoc + i), ":0")};
    }
    auto cluster = ProcessCluster::Start(options);
    if (absl::IsNotFound(cluster.status())) GTEST_SKIP() << cluster.status().message();
    ASSERT_TRUE(cluster.ok()) << cluster.status();
    cluster_ = *std::move(cluster);
    checker_ = std::make_unique<Checker>(cluster_->coordinators(), 8, 2000, 1000);
    for (int i = 0; i < 2; ++i) checker_->Next();
  }
  static std::string Here(int link) { return StrCat("10.9.", link, ".1"); }
  int64_t Moves() {
    return ReadMetric(cluster_->metrics_address("coordinator-0"), "nova_coordinator_range_moves_total");
  }
  int64_t GroupChanges() {
    return ReadMetric(cluster_->metrics_address(kAlone), "nova_logc_group_changes_total");
  }
  // The number of the StoC that most logs of the LTC's ranges are on, of those not in `but`. A group has
  // three of four, so a StoC may have none.
  int StocOfMostLogs(const std::set<int>& but) {
    std::array<int, kStocs> logs = {};
    for (const std::vector<std::string>& members : cluster_->LogMembers(kAlone)) {
      for (int i = 0; i < kStocs; ++i) {
        if (!but.contains(i)) logs[i] += std::count(members.begin(), members.end(), StrCat("stoc-", i));
      }
    }
    const auto most = std::max_element(logs.begin(), logs.end());
    EXPECT_GT(*most, 0) << "no log is on a StoC";
    return static_cast<int>(most - logs.begin());
  }
  // What the next seconds are like, from about now.
  Checker::Second Seconds(int n) {
    checker_->SkipToNow();
    Checker::Second sum;
    for (int i = 0; i < n; ++i) {
      const Checker::Second s = checker_->Next();
      sum.ok += s.ok;
      sum.failed += s.failed;
      sum.unknown += s.unknown;
      sum.worst_ms = std::max(sum.worst_ms, s.worst_ms);
    }
    return sum;
  }

  static constexpr char kAlone[] = "ltc-0";
  static inline std::string why_not_;
  std::unique_ptr<OtherNetwork> network_;
  std::unique_ptr<ProcessCluster> cluster_;
  std::unique_ptr<Checker> checker_;
};

TEST_F(CutTest, L4ALogLeavesAStocThatItsLtcIsCutFromOneWayOrBoth) {
  if (cluster_ == nullptr) return;
  const int64_t moves = Moves();
  struct Cut {
    const char* name;
    bool towards_stoc, towards_ltc;
  };
  std::set<int> were_cut;
  for (const Cut& cut : {Cut{"requests are lost", true, false}, Cut{"answers are lost", false, true},
                         Cut{"both are lost", true, true}}) {
    SCOPED_TRACE(cut.name);
    const int stoc = StocOfMostLogs(were_cut);
    were_cut.insert(stoc);
    const int link = kFirstStoc + stoc;
    const int64_t changes = GroupChanges();
    ASSERT_TRUE(!cut.towards_stoc || network_->CutFrom(link).ok());
    ASSERT_TRUE(!cut.towards_ltc || network_->CutTowards(link).ok());
    const Checker::Second during = Seconds(4);
    ASSERT_TRUE(network_->Heal(link).ok());
    const Checker::Second after = Seconds(2);
    std::printf("%s: longest gap of a client thread %d ms, %d ms when healed; %d and %d operations\n",
                cut.name, static_cast<int>(during.worst_ms), static_cast<int>(after.worst_ms),
                static_cast<int>(during.ok), static_cast<int>(after.ok));
    // The deadline of a WRITE to another host is a second; then the ping, and the change of the group. A read
    // of a table waits a third of its 10 s for a copy.
    EXPECT_LT(during.worst_ms, 5000u);
    EXPECT_GT(GroupChanges(), changes) << "no log group left the StoC";
    EXPECT_GT(after.ok, 0u);
    EXPECT_EQ(during.failed + after.failed, 0u);
  }
  EXPECT_EQ(Moves(), moves) << "a range of a living LTC moved";
  const std::string verdict = checker_->Verify();
  EXPECT_TRUE(verdict.starts_with("verified 2000 keys")) << verdict;
  std::printf("%s\n", verdict.c_str());
}

// Nobody but its clients misses it, so it keeps its ranges, and serves them again once TCP has sent again
// what the cut took: by then its back-off is as long as the cut was.
TEST_F(CutTest, AnLtcThatIsCutFromItsClientsAloneKeepsItsRanges) {
  if (cluster_ == nullptr) return;
  constexpr int kBackOff = 8;  // seconds; of a cut of 4, and an operation that began in it ends
  const int64_t moves = Moves();
  for (const bool towards : {true, false}) {
    SCOPED_TRACE(towards ? "requests are lost" : "answers are lost");
    ASSERT_TRUE((towards ? network_->CutTowards(kClients) : network_->CutFrom(kClients)).ok());
    const Checker::Second during = Seconds(4);  // two leases
    EXPECT_GT(during.worst_ms, 2000u) << "the link was not cut";
    ASSERT_TRUE(network_->Heal(kClients).ok());
    Seconds(kBackOff);
    const Checker::Second after = Seconds(1);
    std::printf("healed: longest gap of a client thread %d ms\n", static_cast<int>(after.worst_ms));
    EXPECT_LT(after.worst_ms, 1500u);
    EXPECT_EQ(Moves(), moves) << "a range moved";
  }
  const std::string verdict = checker_->Verify();
  EXPECT_TRUE(verdict.starts_with("verified 2000 keys")) << verdict;
  std::printf("%s\n", verdict.c_str());
}

}  // namespace
}  // namespace nova
