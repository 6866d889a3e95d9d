// The same as absence_test.cc, for longer; watched past the 10 s that a new leader listens. Label "long".
#include "tests/cluster/absence.h"

namespace nova {
namespace {

TEST_F(AbsenceTest, ACoordinatorThatIsAwayForHalfAMinuteCostsNoRange) {
  for (const Kind kind : {Kind::kStopped, Kind::kKilled}) {
    for (const int seconds : {1, 3, 8, 30}) ExpectNotMissed(kind, seconds * kSecond, 14 * kSecond);
  }
  ExpectReplaced(Kind::kKilled, 30 * kSecond);
}

}  // namespace
}  // namespace nova
