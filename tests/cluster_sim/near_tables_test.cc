// An LTC that puts its tables on StoCs of its own host (nova_ltc --near_tables), and goes on without them.
#include <gtest/gtest.h>

#include "tests/cluster_sim/scenario.h"
#include "tests/cluster_sim/table_files.h"

namespace nova {
namespace {

// Names of the StoCs where manifests name parts of tables.
std::set<std::string> StocsOfTables(OneRange* world) {
  const TableFiles tables = LookAtTables(&world->cluster);
  EXPECT_EQ(tables.error, "");
  std::set<std::string> names;
  for (const auto& [file, stocs] : tables.named) {
    for (const StocId stoc : stocs) names.insert(world->StocOf(stoc));
  }
  return names;
}

std::set<std::string> WhereTablesLie(bool near, const std::string& host) {
  std::set<std::string> names;
  Simulate(1, [&] {
    SimClusterOptions options = SmallCluster();
    options.ltcs = 1;
    options.stocs = 3;
    options.ltc.host = host;
    options.ltc.near_tables = near;
    options.ltc.hosted.placement.replicas = 1;
    OneRange w(options);
    for (int i = 0; i < 900; ++i) ASSERT_TRUE(w.client->Put(KeyOf(i), std::string(200, 'x')).ok());
    SleepFor(5 * kSecond);  // flushes and compactions end
    names = StocsOfTables(&w);
  });
  return names;
}

TEST(NearTablesTest, TablesLieOnTheLtcsOwnHost) {
  EXPECT_EQ(WhereTablesLie(true, "stoc-1"), (std::set<std::string>{"stoc-1"}));
  EXPECT_EQ(WhereTablesLie(true, "stoc-2"), (std::set<std::string>{"stoc-2"}));
  const std::set<std::string> all = {"stoc-0", "stoc-1", "stoc-2"};
  EXPECT_EQ(WhereTablesLie(false, "stoc-1"), all);
  EXPECT_EQ(WhereTablesLie(true, "ltc-0"), all) << "a host without a StoC";
}

}  // namespace
}  // namespace nova
