// Runs the scripts of this folder: the playbooks against nodes in namespaces, the units past systemd-analyze, the CloudLab profile.
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <array>
#include <cstdio>
#include <string>

namespace {

void RunScript(const std::string& command) {
  FILE* pipe = popen((command + " 2>&1").c_str(), "r");
  ASSERT_NE(pipe, nullptr);
  std::string output;
  std::array<char, 4096> piece;
  while (fgets(piece.data(), piece.size(), pipe) != nullptr) {
    output += piece.data();
    std::fputs(piece.data(), stdout);
    std::fflush(stdout);
  }
  const int status = pclose(pipe);
  const int code = WIFEXITED(status) ? WEXITSTATUS(status) : 128;
  if (code == 77) GTEST_SKIP() << output.substr(output.rfind("skipped: ") + 9);
  EXPECT_EQ(code, 0) << output;
}

TEST(DeployTest, ThePlaybooksInstallRunAndWipeAClusterOfNamespaces) {
  RunScript(NOVA_SOURCE_DIR "/tests/deploy/run.sh " NOVA_BINARY_DIR);
}

TEST(DeployTest, SystemdFindsNothingWrongWithTheUnits) { RunScript(NOVA_SOURCE_DIR "/tests/deploy/verify.sh"); }

TEST(DeployTest, TheCloudLabProfileAsksForTheClusterAndItsInventoryFollows) { RunScript("python3 " NOVA_SOURCE_DIR "/tests/deploy/cloudlab_test.py"); }

}  // namespace
