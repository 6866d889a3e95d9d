// Boots the guest (run.sh) and reports what its steps said.
#include "tests/cluster/run_script.h"

namespace nova {
namespace {

TEST(SoftRoceTest, TheVerbsFabricInAGuest) {
  RunScript(NOVA_SOURCE_DIR "/tests/softroce/run.sh " NOVA_BINARY_DIR,
            "logs: " NOVA_BINARY_DIR "/softroce/out");
}

}  // namespace
}  // namespace nova
