// Boots the guest (run.sh) and reports what its steps said.
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <array>
#include <cstdio>
#include <string>

namespace {

TEST(SoftRoceTest, TheVerbsFabricInAGuest) {
  FILE* pipe = popen(NOVA_SOURCE_DIR "/tests/softroce/run.sh " NOVA_BINARY_DIR " 2>&1", "r");
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
  EXPECT_EQ(code, 0) << output << "logs: " NOVA_BINARY_DIR "/softroce/out";
}

}  // namespace
