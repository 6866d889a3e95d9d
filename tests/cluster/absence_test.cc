// C2': the only coordinator is away for some seconds, standing still or killed, and nobody who lives loses a
// range.
#include "tests/cluster/absence.h"

namespace nova {
namespace {

TEST_F(AbsenceTest, ACoordinatorThatIsAwayForSecondsCostsNoRange) {
  for (const int seconds : {1, 3, 8}) ExpectNotMissed(Kind::kStopped, seconds * kSecond);
  ExpectNotMissed(Kind::kKilled, 8 * kSecond);
  ExpectReplaced(Kind::kStopped, 3 * kSecond);
}

}  // namespace
}  // namespace nova
