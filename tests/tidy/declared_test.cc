// What headers declare is defined somewhere, and called by something that is no test. Textual: words and the
// words around them, not types; two functions of one name stand for each other.
#include <gtest/gtest.h>

#include <cctype>
#include <map>
#include <regex>
#include <set>

#include "tests/tidy/tree.h"

namespace {

using tidy::SourceFile;
using tidy::StartsWith;

using Words = std::vector<std::string_view>;

bool IsWordPart(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

// Past a string, character or raw string that begins at `i`.
size_t EndOfQuoted(std::string_view text, size_t i) {
  if (i > 0 && text[i - 1] == 'R' && text[i] == '"') {
    const std::string close = ")" + std::string(text.substr(i + 1, text.find('(', i) - i - 1)) + "\"";
    return text.find(close, i) + close.size();
  }
  const char quote = text[i];
  for (++i; i < text.size() && text[i] != quote; ++i) i += text[i] == '\\';
  return i + 1;
}

// Names, numbers, "::", "->" and single characters; without comments, strings and preprocessor lines.
Words WordsOf(std::string_view text) {
  Words words;
  for (size_t i = 0; i < text.size();) {
    const char c = text[i];
    if (text.substr(i, 2) == "//" || (c == '#' && (i == 0 || text[i - 1] == '\n'))) {
      while (i < text.size() && text[i] != '\n') i += 1 + (text[i] == '\\');
    } else if (text.substr(i, 2) == "/*") {
      i = text.find("*/", i) + 2;
    } else if (c == '"' || (c == '\'' && (i == 0 || !IsWordPart(text[i - 1])))) {
      i = EndOfQuoted(text, i);
    } else if (IsWordPart(c)) {
      const size_t begin = i;
      while (i < text.size() && IsWordPart(text[i])) ++i;
      words.push_back(text.substr(begin, i - begin));
    } else {
      const size_t size = text.substr(i, 2) == "::" || text.substr(i, 2) == "->" ? 2 : 1;
      if (std::isspace(static_cast<unsigned char>(c)) == 0) words.push_back(text.substr(i, size));
      i += size;
    }
  }
  return words;
}

bool IsName(std::string_view word) {
  static const std::set<std::string_view> kNone = {
      "return", "else", "case", "co_return", "new",      "delete",   "throw",    "do",      "not",
      "and",    "or",   "goto", "sizeof",    "typename", "template", "operator", "decltype"};
  return (std::isalpha(static_cast<unsigned char>(word[0])) != 0 || word[0] == '_') && !kNone.contains(word);
}

// The ">" at `i` closes a list of template arguments: it compares nothing.
bool ClosesTemplate(const Words& words, size_t i) {
  int depth = 0;
  for (size_t at = i; at > 0 && words[at] != ";" && words[at] != "}"; --at) {
    if (words[at] == ">") ++depth;
    if (words[at] == "<" && --depth == 0) return true;
  }
  return false;
}

// The word at `i`, which a parenthesis follows, is declared or defined there: a type stands before it, or
// before the class it is of. Else it is called.
bool IsDeclaredAt(const Words& words, size_t i) {
  if (i + 1 >= words.size() || words[i + 1] != "(" || i == 0) return false;
  const auto ends_a_type = [&](size_t at) {
    return IsName(words[at]) || words[at] == ">" || words[at] == "*" || words[at] == "&";
  };
  if (words[i - 1] == "::") {
    while (i >= 2 && words[i - 1] == "::" && IsName(words[i - 2])) i -= 2;
    return i >= 1 && ends_a_type(i - 1);
  }
  if (IsName(words[i - 1])) return true;
  if (words[i - 1] == ">") return ClosesTemplate(words, i - 1);
  const bool both = words[i - 1] == "&" && i >= 2 && words[i - 2] == "&";  // of two conditions
  return !both && ends_a_type(i - 1) && i >= 2 && ends_a_type(i - 2);
}

size_t PastParentheses(const Words& words, size_t i) {
  int depth = 0;
  for (; i < words.size(); ++i) {
    if (words[i] == "(") ++depth;
    if (words[i] == ")" && --depth == 0) return i + 1;
  }
  return i;
}

// A body follows the declaration at `i`, or "= 0", "= default", "= delete".
bool IsDefinedAt(const Words& words, size_t i) {
  for (i = PastParentheses(words, i + 1); i < words.size() && words[i] != ";";) {
    if (words[i] == "{" || words[i] == "=") return true;
    i = words[i] == "(" ? PastParentheses(words, i) : i + 1;
  }
  return false;
}

struct Names {
  std::map<std::string, std::string> declared;  // functions, in headers; the file of the first
  std::set<std::string> defined, called;
};

Names NamesOf(const std::vector<SourceFile>& files) {
  Names names;
  std::set<std::string, std::less<>> types;
  for (const SourceFile& f : files) {
    if (StartsWith(f.folder, "tests")) continue;
    const Words words = WordsOf(f.text);
    for (size_t i = 0; i < words.size(); ++i) {
      if (!IsName(words[i])) continue;
      if (i > 0 && (words[i - 1] == "class" || words[i - 1] == "struct")) types.emplace(words[i]);
      const std::string name(words[i]);
      if (!IsDeclaredAt(words, i)) {
        names.called.insert(name);
        continue;
      }
      if (IsDefinedAt(words, i)) names.defined.insert(name);
      const bool getter = i + 2 < words.size() && words[i + 2] == ")";
      const bool capital = std::isupper(static_cast<unsigned char>(name[0])) != 0;  // else perhaps a variable
      if (f.path.ends_with(".h") && words[i - 1] != "::" && (capital || getter))
        names.declared.emplace(name, f.path);
    }
  }
  std::erase_if(names.declared, [&](const auto& d) { return types.contains(d.first); });  // constructors
  return names;
}

TEST(DeclaredTest, EachDeclaredFunctionIsDefined) {
  const Names names = NamesOf(tidy::Sources());
  ASSERT_GT(names.declared.size(), 300u);
  for (const auto& [name, path] : names.declared) {
    // What is defined when it is built: VersionText.
    EXPECT_TRUE(names.defined.contains(name) || StartsWith(name, "ABSL_") || path == "common/base/version.h")
        << path << " declares " << name << ", which is defined nowhere";
  }
}

// What only tests call says so where it is declared: "for tests".
TEST(DeclaredTest, EachDeclaredFunctionIsCalledByMoreThanTests) {
  // What applications call; and what only simulations and tests are made of.
  const std::set<std::string> exempt = {"client/client.h",
                                        "client/nova.h",
                                        "ltc/embedded/db.h",
                                        "common/base/failpoint.h",
                                        "common/base/sim_disk.h",
                                        "common/base/simulation.h",
                                        "common/config/memory_store.h",
                                        "common/rdma/sim/sim_fabric.h",
                                        "coordinator/sim_channel.h"};
  static const std::regex kForTests("for(\\s|//)+tests");
  const std::vector<SourceFile> sources = tidy::Sources();
  const Names names = NamesOf(sources);
  std::map<std::string, const SourceFile*> files;
  for (const SourceFile& f : sources) files[f.path] = &f;
  for (const auto& [name, path] : names.declared) {
    if (names.called.contains(name) || exempt.contains(path) || StartsWith(name, "ABSL_") ||
        name == "AbslHashValue")
      continue;
    const std::string& text = files.at(path)->text;
    const size_t at = text.find(" " + name + "(");
    const size_t begin = text.rfind(";\n", at);  // of the comment before it
    EXPECT_TRUE(std::regex_search(text.substr(begin, text.find('\n', at) - begin), kForTests))
        << path << " declares " << name << ", which nothing but tests calls";
  }
}

TEST(DeclaredTest, TellsDeclarationsFromCalls) {
  const std::string text =
      "int Used(int a); int Unused(); int Missing();\n"
      "int Used(int a) { return a; }\nint Unused() { return Used(1) + x->y.Other(2); }  // Missing()\n";
  const Names names = NamesOf({{"a.h", "common", text}});
  EXPECT_TRUE(names.defined.contains("Used") && names.called.contains("Used"));
  EXPECT_TRUE(names.defined.contains("Unused") && !names.called.contains("Unused"));
  EXPECT_TRUE(names.declared.contains("Missing") && !names.defined.contains("Missing"));
  EXPECT_TRUE(names.called.contains("Other") && !names.declared.contains("Other"));
}

}  // namespace
