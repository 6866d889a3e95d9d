// A cluster of processes under kill -9, one at a time, judged from outside by nova_checker (its own process),
// also by how long its clients waited.
#include "tests/cluster/kill_rounds.h"

namespace nova {
namespace {

TEST_F(KillTest, NoAcknowledgedWriteIsLostOverSixKills) {
  Start({});
  if (cluster_ != nullptr) KillRounds(cluster_.get(), 6);
}

}  // namespace
}  // namespace nova
