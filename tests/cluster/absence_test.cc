// Absence is not death (C2'): the only coordinator, or ZooKeeper, is away for some seconds, standing still or
// killed, and nobody who lives loses a range.
#include "tests/cluster/absence.h"

namespace nova {
namespace {

TEST_F(AbsenceTest, ACoordinatorThatIsAwayForSecondsCostsNoRange) {
  for (const int seconds : {1, 3, 8}) ExpectNotMissed(Who::kLeader, Kind::kStopped, seconds * kSecond);
  ExpectNotMissed(Who::kLeader, Kind::kKilled, 8 * kSecond);
  ExpectReplaced(Who::kLeader, Kind::kStopped, 3 * kSecond);
}

TEST_F(AbsenceTest, AZookeeperThatIsAwayForSecondsCostsNoRange) {
  ExpectNotMissed(Who::kZookeeper, Kind::kStopped, 3 * kSecond);
  ExpectNotMissed(Who::kZookeeper, Kind::kKilled, 8 * kSecond);
}

}  // namespace
}  // namespace nova
