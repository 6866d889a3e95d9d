// What an operator is told of a range whose StoCs are away, and what `nova force-open` gives up of it.
#include <gtest/gtest.h>

#include "absl/strings/match.h"
#include "common/base/log.h"
#include "tests/cluster_sim/scenario.h"

namespace nova {
namespace {

// One range with its log in the files of two of four StoCs; these two, and its owner, have lost power.
struct LogIsAway {
  static SimClusterOptions Options() {
    SimClusterOptions options = SmallCluster();
    options.stocs = 4;
    options.ltc.hosted.log_mode = LogMode::kPersistent;
    options.ltc.hosted.log_replicas = 2;
    options.ltc.hosted.manifest_replicas = 4;
    return options;
  }
  LogIsAway() : w(Options()) {
    for (int i = 0; i < 10; ++i) NOVA_CHECK(w.client->Put(KeyOf(i), "1").ok());
    const RangeRecord record = w.Record();
    for (const LogMember& m : record.log_groups.back().members) away.push_back(w.StocOf(m.stoc));
    for (const std::string& stoc : away) w.cluster.Kill(stoc);
    w.cluster.Kill(record.owner);
    NOVA_CHECK(w.WaitFor(20 * kSecond, [](const RangeRecord& r) { return r.state == RangeState::kSealing; }));
    SleepFor(5 * kSecond);  // sessions and leases end
  }
  std::string Status() { return w.cluster.NewCoordinatorClient().StatusText(Now() + kSecond).value_or(""); }
  absl::Status ForceOpen() {
    return w.cluster.NewCoordinatorClient().ForceOpen(w.Record().id, true, Now() + kSecond, &report);
  }

  OneRange w;
  std::vector<std::string> away;
  std::string report;
};

TEST(ForceOpenTest, ALogOnTheDisksOfStocsThatAreAwayIsNotGivenUp) {
  Simulate(1, [] {
    LogIsAway l;
    const std::string start = StrCat("start one of these StoCs: ", l.away[0], ", ", l.away[1], "\n");
    EXPECT_TRUE(absl::StrContains(l.Status(), "range 1 is UNAVAILABLE: no member of log group "))
        << l.Status();
    EXPECT_TRUE(absl::StrContains(l.Status(), start)) << l.Status();
    EXPECT_TRUE(absl::IsFailedPrecondition(l.ForceOpen()));
    EXPECT_TRUE(absl::StrContains(l.report, " is AWAY: ")) << l.report;
    EXPECT_TRUE(absl::StrContains(l.report, start)) << l.report;
    EXPECT_FALSE(absl::StrContains(l.report, "LOST")) << l.report;
    ASSERT_TRUE(l.w.cluster.Start(l.away[1]).ok());
    ASSERT_TRUE(l.w.cluster.WaitOpen(1, 60 * kSecond));
    for (int i = 0; i < 10; ++i) EXPECT_EQ(l.w.client->Get(KeyOf(i)).value, "1") << i;
  });
}

TEST(ForceOpenTest, ItIsGivenUpOnceAnOperatorHasSaidThatNoneOfThemComesBack) {
  Simulate(2, [] {
    LogIsAway l;
    for (const std::string& stoc : l.away) {
      EXPECT_FALSE(l.ForceOpen().ok()) << l.report;
      std::string left;
      ASSERT_TRUE(l.w.cluster.NewCoordinatorClient().Drain(stoc, Now() + kSecond, &left, true).ok());
      SleepFor(kSecond);
    }
    EXPECT_TRUE(absl::StrContains(l.Status(), " are lost; it opens if one still has its disk")) << l.Status();
    ASSERT_TRUE(l.ForceOpen().ok()) << l.report;
    EXPECT_TRUE(absl::StrContains(l.report, " is LOST: ")) << l.report;
    EXPECT_TRUE(absl::StrContains(l.report, ", unless their disks are there: start one of these StoCs: "))
        << l.report;
    ASSERT_TRUE(l.w.cluster.WaitOpen(1, 60 * kSecond));
    EXPECT_TRUE(l.w.client->Put(KeyOf(1), "2").ok());
  });
}

}  // namespace
}  // namespace nova
