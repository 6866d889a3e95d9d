// The oracle of the status: what it holds for a broken promise, and what not.
#include "tests/cluster_sim/status_oracle.h"

#include <gtest/gtest.h>

#include "tests/cluster_sim/scenario.h"
#include "tests/cluster_sim/sim_fsck.h"
#include "tests/cluster_sim/table_files.h"

namespace nova {
namespace {

std::string StatusThatSays(int logs, int manifests, int tables, int unheard = 0) {
  const auto counts = [](int fewest) {
    return StrCat(R"({"all":2,"degraded":)", fewest < 3 ? 1 : 0, R"(,"fewest":)", fewest,
                  R"(,"configured":3})");
  };
  return StrCat(R"({"copies":{"log_groups":)", counts(logs), R"(,"manifests":)", counts(manifests),
                R"(,"tables":)", counts(tables), R"(,"ranges_whose_tables_are_not_heard_of":)", unheard,
                "}}");
}

TEST(StatusOracleTest, MoreCopiesThanThereAreIsTooMuchPromised) {
  CheckReport found;
  found.log_groups.Add(3, 3);
  found.manifests.Add(3, 2);
  found.manifests.Add(3, 3);
  found.table_parts.Add(2, 1);
  EXPECT_TRUE(PromisedTooMuch(StatusThatSays(3, 2, 1), found).empty());
  EXPECT_TRUE(PromisedTooMuch(StatusThatSays(1, 1, 0), found).empty());
  EXPECT_EQ(
      PromisedTooMuch(StatusThatSays(3, 3, 1), found),
      (std::map<std::string, std::string>{{"manifests", "promised are 3 copies at least, and one has 2"}}));
  EXPECT_EQ(
      PromisedTooMuch(StatusThatSays(3, 2, 2), found),
      (std::map<std::string, std::string>{{"tables", "promised are 2 copies at least, and one has 1"}}));
  EXPECT_TRUE(PromisedTooMuch(StatusThatSays(3, 2, 3, /*unheard=*/1), found).empty());
}

struct World : OneRange {
  World() : OneRange(Options()), oracle(&cluster) {}
  static SimClusterOptions Options() {
    SimClusterOptions options = SmallCluster();
    options.ltc.hosted.placement.replicas = 2;
    options.ltc.orphan_period_ns = 3600 * kSecond;  // nobody finds out
    return options;
  }
  std::string LookFor(Nanos time) {
    std::string wrong;
    for (const Nanos until = Now() + time; wrong.empty() && Now() < until; SleepFor(kSecond / 2))
      wrong = oracle.Look();
    return wrong;
  }
  StatusOracle oracle;
};

TEST(StatusOracleTest, ACopyThatIsGoneUnseenBreaksAPromiseAndADeadStocBreaksNone) {
  Simulate(1, [] {
    World w;
    for (int i = 0; i < 300; ++i) ASSERT_TRUE(w.client->Put(KeyOf(i), std::string(400, 'v')).ok());
    EXPECT_EQ(w.LookFor(10 * kSecond), "");
    w.cluster.Kill("stoc-2");
    EXPECT_EQ(w.LookFor(15 * kSecond), "");
    ASSERT_TRUE(w.cluster.Start("stoc-2").ok());
    EXPECT_EQ(w.LookFor(15 * kSecond), "");
    EXPECT_GT(w.oracle.looks(), 50u);

    SimFsck fsck(&w.cluster);
    const auto part = *LookAtTables(&w.cluster).named.begin();
    const StocId stoc = *part.second.begin();
    fsck.client()->UpdateStocs({w.cluster.stoc(w.StocOf(stoc))->self()});
    const Status dropped =
        fsck.client()->DropReferences(stoc, RangeId(1), w.Record().epoch, {part.first}, Now() + 5 * kSecond);
    ASSERT_TRUE(dropped.ok()) << dropped;
    EXPECT_TRUE(
        w.LookFor(15 * kSecond)
            .starts_with(
                "status: tables: promised are 2 copies at least, and one has 1\ntable-missing range 1 "));
  });
}

}  // namespace
}  // namespace nova
