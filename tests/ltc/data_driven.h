// Decisions as text in, text out: a file of cases under tests/ltc/testdata, each command lines, "----", the
// expected output, an empty line. A test run with --rewrite writes what it got; a person reads the diff.
//
// Thread safety: one thread.   Ownership: none.   Errors: test failures.
#pragma once

#include <gtest/gtest.h>

#include <fstream>
#include <functional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace nova {

inline bool Rewrite() {
  for (const std::string& a : testing::internal::GetArgvs()) {
    if (a == "--rewrite") return true;
  }
  return false;
}

inline void RunFile(const std::string& name,
                    const std::function<std::string(const std::vector<std::string>&)>& run) {
  const std::string path = std::string(NOVA_SOURCE_DIR "/tests/ltc/testdata/") + name;
  std::ifstream in(path);
  ASSERT_TRUE(in.good()) << path;
  std::string line, rewritten;
  std::vector<std::string> commands;
  while (std::getline(in, line)) {
    if (line.starts_with("#") || (line.empty() && commands.empty())) {
      rewritten += line + "\n";
      continue;
    }
    if (line != "----") {
      commands.push_back(line);
      continue;
    }
    std::string expected;
    while (std::getline(in, line) && !line.empty()) expected += line + "\n";
    const std::string actual = run(commands);
    EXPECT_TRUE(Rewrite() || actual == expected) << absl::StrJoin(commands, "\n") << "\n---- expected\n"
                                                 << expected << "---- got\n"
                                                 << actual;
    rewritten += absl::StrJoin(commands, "\n") + "\n----\n" + actual + "\n";
    commands.clear();
  }
  if (Rewrite()) std::ofstream(path) << rewritten;
}

}  // namespace nova
