// docs/life_of_a_put_and_get.md is true to the code, from each step to the next: the function is there, and
// the row before calls it; or the row says by which message, callback or thread it is reached, and what it
// names for that is there.
#include <gtest/gtest.h>

#include <regex>

#include "tests/tidy/tree.h"

namespace {

using tidy::ReadSource;
using tidy::StartsWith;

struct Step {
  std::string file, function, reached;
  std::string Name() const {
    return function.substr(function.rfind(':') == std::string::npos ? 0 : function.rfind(':') + 1);
  }
};

std::vector<std::vector<Step>> Tables() {
  const std::regex row(
      "\\| ([0-9]+) \\| `([a-z_0-9/]+\\.(?:cc|h))` \\| `([~A-Za-z_0-9:]+)` \\| [^|]* \\| ([^|]*) \\|.*");
  std::vector<std::vector<Step>> tables;
  std::istringstream lines(ReadSource("docs/life_of_a_put_and_get.md"));
  for (std::string line; std::getline(lines, line);) {
    std::smatch m;
    if (StartsWith(line, "|--:")) tables.emplace_back();
    if (!std::regex_match(line, m, row)) {
      EXPECT_FALSE(line.size() > 2 && line[0] == '|' && std::isdigit(static_cast<unsigned char>(line[2])))
          << "a row that does not parse: " << line;
      continue;
    }
    tables.back().push_back({m[2], m[3], m[4]});
    EXPECT_EQ(std::stoul(m[1]), tables.back().size()) << line;
  }
  return tables;
}

size_t CountCalls(const std::string& text, const std::string& name) {
  const std::regex call((name[0] == '~' ? "" : "\\b") + name + "\\(");
  return static_cast<size_t>(std::distance(std::sregex_iterator(text.begin(), text.end(), call), {}));
}

// What a row says between backticks, of what carries it from one thread or process to another.
std::vector<std::string> Named(const std::string& reached) {
  static const std::regex kName("`(\\w+)`");
  std::vector<std::string> names;
  for (auto it = std::sregex_iterator(reached.begin(), reached.end(), kName); it != std::sregex_iterator();
       ++it)
    names.push_back((*it)[1]);
  return names;
}

TEST(LifeTest, EachStepIsReachedFromTheOneBeforeIt) {
  const std::regex call("call(?: from ([0-9]+))?.*");
  size_t steps = 0, calls = 0;
  for (const std::vector<Step>& table : Tables()) {
    for (size_t i = 0; i < table.size(); ++i, ++steps) {
      const Step& step = table[i];
      const std::string here = step.file + " " + step.function, text = ReadSource(step.file);
      EXPECT_GE(CountCalls(text, step.Name()), 1u) << step.file << " has no " << step.function;
      if (i == 0) continue;
      std::smatch m;
      const bool is_call = std::regex_match(step.reached, m, call);
      size_t from = i - 1;
      if (is_call && m[1].matched) from = std::stoul(m[1]) - 1;
      ASSERT_LT(from, i) << here << " is reached from a later row";
      const std::string before = ReadSource(table[from].file);
      if (is_call) {
        ++calls;
        const size_t least = table[from].file == step.file ? 2 : 1;  // beside the function itself
        EXPECT_GE(CountCalls(before, step.Name()), least) << table[from].file << " does not call " << here;
      }
      const std::vector<std::string> names = Named(step.reached);
      EXPECT_TRUE(is_call || !names.empty()) << here << " does not say how it is reached";
      for (const std::string& name : names) {
        EXPECT_TRUE(before.find(name) != std::string::npos || text.find(name) != std::string::npos)
            << here << " is reached by " << name << ", which is gone";
      }
    }
  }
  EXPECT_GE(steps, 100u);
  EXPECT_GE(calls, 60u);
}

}  // namespace
