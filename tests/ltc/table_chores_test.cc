#include "ltc/server/table_chores.h"

#include <gtest/gtest.h>

#include <set>

#include "common/base/simulation.h"

namespace nova {
namespace {

constexpr Nanos kPause = 10 * kSecond;

Uuid Table(uint64_t n) { return {1, n}; }

// An audit tells of all again that are still damaged.
TEST(TableChoresTest, S3MoreThanAreRememberedAreRepairedInTheEnd) {
  TableChores chores(kPause);
  std::set<Uuid> damaged;
  for (uint64_t n = 1; n <= 3000; ++n) damaged.insert(Table(n));
  for (int audits = 0; !damaged.empty(); ++audits) {
    ASSERT_LT(audits, 5) << damaged.size() << " are left";
    for (const Uuid& table : damaged) chores.Damaged(table);
    while (const auto table = chores.BeginRepair()) {
      EXPECT_FALSE(chores.BeginRepair()) << "two at a time";
      EXPECT_EQ(damaged.erase(*table), 1u);
      chores.RepairEnded(true);
    }
  }
}

// Told of again and again, by reads.
TEST(TableChoresTest, S3TablesThatCannotBeRepairedKeepNoOtherFromIt) {
  Simulation sim(1);
  sim.Run([] {
    TableChores chores(kPause);
    std::set<Uuid> damaged;
    for (uint64_t n = 1; n <= 40; ++n) damaged.insert(Table(n));
    const Nanos begun = Now();
    for (int repairs = 0; damaged.size() > 20; ++repairs) {
      ASSERT_LT(repairs, 1000);
      for (const Uuid& table : damaged) chores.Damaged(table);
      const auto table = chores.BeginRepair();
      if (!table) {
        SleepFor(kSecond);
        continue;
      }
      const bool hopeless = table->lo <= 20;
      if (!hopeless) damaged.erase(*table);
      chores.RepairEnded(!hopeless);
    }
    EXPECT_LE(Now() - begun, 20 * kPause + kSecond) << "one pause for each that failed";
  });
}

}  // namespace
}  // namespace nova
