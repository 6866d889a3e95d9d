// nova_linear tells a history that is linearizable from one that is not.
#include <gtest/gtest.h>

#include "absl/strings/str_split.h"
#include "tests/linear/register_history.h"

namespace nova {
namespace {

// Of key k: lines "CLIENT CALL RETURN operation", split by ';'.
bool Linearizable(const std::string& history) {
  RegisterHistory h;
  for (const std::string& line : std::vector<std::string>(absl::StrSplit(history, absl::ByString("; ")))) {
    const std::vector<std::string> words = absl::StrSplit(line, absl::MaxSplits(' ', 3));
    h.Add(std::stoi(words[0]), std::stoi(words[1]),
          words[2] == "-" ? std::nullopt : std::optional<Nanos>(std::stoi(words[2])), "k", words[3]);
  }
  std::string verdict;
  const bool yes = h.Judge(&verdict);
  EXPECT_TRUE(verdict.starts_with(yes ? "linearizable: " : "not linearizable: k\n")) << verdict;
  return yes;
}

TEST(LinearTest, ReadsReturnTheLastWrite) {
  EXPECT_TRUE(Linearizable("0 1 2 put a; 1 3 4 get a; 0 5 6 delete; 1 7 8 get -"));
  EXPECT_FALSE(Linearizable("0 1 2 put a; 1 3 4 get -"));
  EXPECT_FALSE(Linearizable("0 1 2 put a; 0 3 4 put b; 1 5 6 get a"));
}

TEST(LinearTest, OperationsAtOneTimeHaveAnyOrderButOne) {
  EXPECT_TRUE(Linearizable("0 1 5 put a; 1 2 6 put b; 2 7 8 get a"));
  EXPECT_TRUE(Linearizable("0 1 5 put a; 1 2 6 put b; 2 7 8 get b"));
  EXPECT_FALSE(Linearizable("0 1 5 put a; 1 2 6 put b; 2 7 8 get a; 2 9 10 get b")) << "a value came back";
  EXPECT_FALSE(Linearizable("0 1 9 put a; 1 2 3 get a; 2 4 5 get -")) << "what was once read stays";
}

TEST(LinearTest, AnUnknownOutcomeTakesEffectLateOrNever) {
  EXPECT_TRUE(Linearizable("0 1 - put a; 1 3 4 get -; 1 5 6 get a"));
  EXPECT_TRUE(Linearizable("0 1 - put a; 1 3 4 get -; 1 5 6 get -"));
  EXPECT_FALSE(Linearizable("0 1 - put a; 1 3 4 get a; 1 5 6 put b; 1 7 8 get a")) << "it took effect twice";
}

TEST(LinearTest, OneOfTwoCompareAndSwapsOfAValueWins) {
  EXPECT_TRUE(Linearizable("0 1 4 cas - a yes; 1 2 5 cas - b no; 2 6 7 get a"));
  EXPECT_FALSE(Linearizable("0 1 4 cas - a yes; 1 2 5 cas - b yes")) << "both won";
  EXPECT_FALSE(Linearizable("0 1 4 cas - a no; 2 6 7 get -")) << "refused without a cause";
  EXPECT_TRUE(Linearizable("0 1 - cas - a; 1 2 5 cas - b no; 2 6 7 get a")) << "the unknown one won";
  EXPECT_TRUE(Linearizable("0 1 - cas - a; 1 2 5 cas - b yes; 2 6 7 get b")) << "it found another value";
  EXPECT_TRUE(Linearizable("0 1 2 put a; 0 3 4 cas a - yes; 1 5 6 get -")) << "a deletion";
}

// A refused write is left out of the history: whoever sees it sees what nobody wrote.
TEST(LinearTest, ARefusedWriteIsNotSeen) { EXPECT_FALSE(Linearizable("1 3 4 get a")); }

TEST(LinearTest, AnEmptyHistoryIsNoProof) {
  std::string verdict;
  EXPECT_FALSE(RegisterHistory().Judge(&verdict));
  EXPECT_NE(verdict.find("at least one operation"), std::string::npos) << verdict;
}

}  // namespace
}  // namespace nova
