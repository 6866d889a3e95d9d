// Runs the scripts of this folder: the playbooks against nodes in namespaces, the units past systemd-analyze,
// the CloudLab profile, the report.
#include "tests/cluster/run_script.h"

namespace nova {
namespace {

TEST(DeployTest, ThePlaybooksInstallRunAndWipeAClusterOfNamespaces) {
  RunScript(NOVA_SOURCE_DIR "/tests/deploy/run.sh " NOVA_BINARY_DIR);
}

TEST(DeployTest, SystemdFindsNothingWrongWithTheUnits) {
  RunScript(NOVA_SOURCE_DIR "/tests/deploy/verify.sh");
}

TEST(DeployTest, TheCloudLabProfileAsksForTheClusterAndItsInventoryFollows) {
  RunScript("python3 " NOVA_SOURCE_DIR "/tests/deploy/cloudlab_test.py");
}

TEST(DeployTest, TheReportNamesRunsThatHaveNoThroughput) {
  RunScript("python3 " NOVA_SOURCE_DIR "/tests/deploy/report_test.py");
}

}  // namespace
}  // namespace nova
