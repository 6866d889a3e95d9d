// The same as absence_test.cc, for longer; watched past the 10 s that a new leader listens. Label "long".
#include "tests/cluster/absence.h"

namespace nova {
namespace {

TEST_F(AbsenceTest, ACoordinatorThatIsAwayForUpToTwoMinutesCostsNoRange) {
  for (const Kind kind : {Kind::kStopped, Kind::kKilled}) {
    for (const int seconds : {1, 3, 8, 30, 120}) {
      ExpectNotMissed(Who::kLeader, kind, seconds * kSecond, 14 * kSecond);
    }
  }
  ExpectReplaced(Who::kLeader, Kind::kKilled, 30 * kSecond);
}

TEST_F(AbsenceTest, AZookeeperThatIsAwayForUpToTwoMinutesCostsNoRange) {
  for (const Kind kind : {Kind::kStopped, Kind::kKilled}) {
    for (const int seconds : {1, 3, 8, 30, 120}) {
      ExpectNotMissed(Who::kZookeeper, kind, seconds * kSecond, 14 * kSecond);
    }
  }
  ExpectReplaced(Who::kZookeeper, Kind::kKilled, 30 * kSecond);
}

}  // namespace
}  // namespace nova
