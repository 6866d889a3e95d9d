// Runs a script of the tests as a test: what it prints is shown as it comes.
//
// Thread safety: one thread.   Errors: a test failure with all it printed; status 77 and a line "skipped:
//                why" skip the test.
#pragma once

#include <gtest/gtest.h>
#include <sys/wait.h>

#include <array>
#include <cstdio>
#include <string>

namespace nova {

// `hint`: where to look when it fails.
inline void RunScript(const std::string& command, const std::string& hint = "") {
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
  const size_t why = output.rfind("skipped: ");
  if (code == 77 && why != output.npos) GTEST_SKIP() << output.substr(why + 9);
  EXPECT_EQ(code, 0) << output << hint;
}

}  // namespace nova
