// The same as kill_test.cc, for as long as the acceptance asks: twenty rounds. Label "long".
#include "tests/cluster/kill_rounds.h"

namespace nova {
namespace {

TEST_F(KillTest, NoAcknowledgedWriteIsLostOverTwentyKills) {
  Start({});
  if (cluster_ != nullptr) KillRounds(cluster_.get(), 20);
}

}  // namespace
}  // namespace nova
