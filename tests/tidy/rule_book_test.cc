// docs/protocol.md is the rule book: each rule has a number and names, says where it is enforced and which
// tests show it, and whoever cites a number cites one that is there.
//
// The syntax that is checked:
//   definition   a line that begins with  **K3 (recency order).**  or a row  | H5 | name | ... | tests |
//   where        *Where:* `Function`, `Other` (path/to/file.cc); `Third` (path/to/another.cc).
//   tests        *Red without it:* Suite.Test, OtherTestOfTheSuite; Suite; path; "no test ..."; words in
//                parentheses are for people
//   citation     in comments, in string literals and in documents: a letter of the rule book and a number.
//                Nothing else may be called so there. D, which has no number, is cited as "durability (D)".
#include <gtest/gtest.h>

#include <cctype>
#include <map>
#include <regex>

#include "tests/tidy/tree.h"

namespace {

using tidy::ReadSource;
using tidy::SourceFile;
using tidy::Sources;
using tidy::StartsWith;
namespace fs = std::filesystem;

constexpr char kBook[] = "docs/protocol.md";

std::string Trimmed(std::string s) {
  while (!s.empty() && (std::isspace(static_cast<unsigned char>(s.back())) || s.back() == '.')) s.pop_back();
  size_t begin = 0;
  while (begin < s.size() && std::isspace(static_cast<unsigned char>(s[begin]))) ++begin;
  return s.substr(begin);
}

std::vector<std::string> Split(const std::string& s, const std::string& separators) {
  std::vector<std::string> parts;
  for (size_t at = 0; at <= s.size();) {
    const size_t end = std::min(s.find_first_of(separators, at), s.size());
    if (std::string part = Trimmed(s.substr(at, end - at)); !part.empty()) parts.push_back(std::move(part));
    at = end + 1;
  }
  return parts;
}

std::string WithoutParentheses(const std::string& s) {
  std::string out;
  int depth = 0;
  for (const char c : s) {
    depth += c == '(';
    if (depth == 0) out += c;
    depth -= c == ')';
  }
  return out;
}

struct Rule {
  std::vector<std::string> names;
  bool is_row = false;     // of a table: it says its tests, and no more
  bool not_built = false;  // as a whole
  std::string where, tests;
};

// From behind `from` to `to`, or to the end; empty: `from` is not there.
std::string Between(const std::string& s, const std::string& from, const std::string& to) {
  const size_t begin = s.find(from);
  if (begin == std::string::npos) return "";
  const size_t end = to.empty() ? std::string::npos : s.find(to, begin);
  return s.substr(begin + from.size(), end == std::string::npos ? end : end - begin - from.size());
}

std::map<std::string, Rule> RuleBook() {
  std::map<std::string, Rule> rules;
  std::istringstream lines(ReadSource(kBook));
  const std::regex definition("\\*\\*([A-Z][0-9]*[a-d]?'?) \\(([^)]*)\\)\\.\\*\\*.*"),
      row("\\| ([HT][0-9]+[a-d]?) \\| ([^|]*) \\|.*\\| ([^|]*) \\|");
  std::string number, body;
  const auto end_rule = [&] {
    if (number.empty()) return;
    Rule& rule = rules[number];
    rule.not_built = body.find("*Not built.*") != std::string::npos;
    rule.where = Between(body, "*Where:*", "*Red without it:*");
    rule.tests = Between(body, "*Red without it:*", "");
    number.clear();
    body.clear();
  };
  for (std::string line; std::getline(lines, line);) {
    std::smatch found;
    if (std::regex_match(line, found, definition)) {
      end_rule();
      number = found[1];
      EXPECT_FALSE(rules.contains(number)) << number << " is defined twice";
      rules[number].names = Split(found[2], ",");
    } else if (StartsWith(line, "## ")) {
      end_rule();
    } else if (std::regex_match(line, found, row)) {
      EXPECT_FALSE(rules.contains(found[1])) << found[1] << " is defined twice";
      rules[found[1]] = {{Trimmed(found[2])}, true, false, "", found[3]};
    }
    if (!number.empty()) body += line + " ";
  }
  end_rule();
  return rules;
}

// --- what a file says to people: its comments, joined over lines, and its string literals

struct Said {
  std::vector<std::string> comments;
  std::vector<std::string> literals;
};

Said SaidInCpp(const std::string& text) {
  Said said;
  bool line_had_only_comment = false;  // so far: a comment on the next line goes on with it
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '/' && i + 1 < text.size() && text[i + 1] == '/') {
      const size_t end = std::min(text.find('\n', i), text.size());
      const std::string comment = Trimmed(text.substr(i + 2, end - i - 2));
      const bool goes_on = line_had_only_comment && !said.comments.empty();
      goes_on ? void(said.comments.back() += " " + comment) : said.comments.push_back(comment);
      // Only white space may stand between this comment and one that goes on with it.
      const size_t next = text.find_first_not_of(" \n", end);
      line_had_only_comment = next != std::string::npos && text.compare(next, 2, "//") == 0 &&
                              std::count(text.begin() + static_cast<ptrdiff_t>(end),
                                         text.begin() + static_cast<ptrdiff_t>(next), '\n') == 1;
      i = end == text.size() ? end : end - 1;
    } else if (text[i] == '"') {
      size_t end = i + 1;
      while (end < text.size() && text[end] != '"' && text[end] != '\n') end += text[end] == '\\' ? 2 : 1;
      said.literals.push_back(text.substr(i + 1, std::min(end, text.size()) - i - 1));
      i = end;
    } else if (text[i] == '\'' && (i == 0 || !std::isalnum(static_cast<unsigned char>(text[i - 1])))) {
      const size_t end = text.find('\'', i + (text[i + 1] == '\\' ? 3 : 2));  // '"' is no string
      if (end != std::string::npos && end - i <= 6) i = end;
    }
  }
  return said;
}

Said SaidBehindHash(const std::string& text) {
  Said said;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (const size_t at = line.find('#'); at != std::string::npos)
      said.comments.push_back(line.substr(at + 1));
  }
  return said;
}

// Without what is code: indented by four, or between backticks.
std::string SaidInDocument(const std::string& text) {
  std::string out;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (StartsWith(line, "    ")) continue;
    bool code = false;
    for (const char c : line) {
      if (c == '`') code = !code;
      if (!code) out += c;
    }
    out += ' ';
  }
  return out;
}

struct Citation {
  std::string number;
  size_t at = 0;
  size_t length = 0;
};

std::vector<Citation> CitationsIn(const std::string& text) {
  static const std::regex kNumber(
      "\\b(?:A1|[NCFLMKRS][1-9][a-d]?|[HT][1-9][0-9]?[a-d]?)(?![\\w(])|[Dd]urability,? \\(?D\\b");
  std::vector<Citation> all;
  for (auto it = std::sregex_iterator(text.begin(), text.end(), kNumber); it != std::sregex_iterator();
       ++it) {
    const auto at = static_cast<size_t>(it->position());
    if (at > 0 && std::string("/.'-_").find(text[at - 1]) != std::string::npos) continue;
    Citation c{it->str().size() > 4 ? "D" : it->str(), at, static_cast<size_t>(it->length())};
    if (c.number == "C2" && at + 2 < text.size() && text[at + 2] == '\'' &&
        (at + 3 == text.size() || !std::isalpha(static_cast<unsigned char>(text[at + 3])))) {
      c.number += '\'';
      ++c.length;
    }
    all.push_back(std::move(c));
  }
  return all;
}

const std::set<std::string> kExtensions = {".h", ".cc", ".proto", ".java", ".go", ".py", ".sh", ".txt"};

Said SaidIn(const SourceFile& f) {
  const std::string extension = fs::path(f.path).extension();
  return extension == ".py" || extension == ".sh" || extension == ".txt" ? SaidBehindHash(f.text)
                                                                         : SaidInCpp(f.text);
}

// The numbers that tests are named by: K4KeepWhatASnapshotSees, F1_AfterRevoke.
std::vector<std::string> NumbersOfTests(const std::string& text) {
  static const std::regex kTest("\\bTEST(?:_F|_P)?\\(\\s*\\w+,\\s*([A-Z][0-9]+[a-d]?)[A-Z_]\\w*\\)");
  std::vector<std::string> numbers;
  for (auto it = std::sregex_iterator(text.begin(), text.end(), kTest); it != std::sregex_iterator(); ++it)
    numbers.push_back((*it)[1]);
  return numbers;
}

std::map<std::string, std::set<std::string>> TestsBySuite() {
  std::map<std::string, std::set<std::string>> tests;
  const std::regex test("\\bTEST(?:_F|_P)?\\(\\s*(\\w+),\\s*(\\w+)\\)");
  for (const SourceFile& f : Sources({".cc"})) {
    for (auto it = std::sregex_iterator(f.text.begin(), f.text.end(), test); it != std::sregex_iterator();
         ++it)
      tests[(*it)[1]].insert((*it)[2]);
  }
  return tests;
}

// --- the rules of the book

TEST(RuleBookTest, EachRuleSaysWhereItIsEnforcedAndWhatShowsIt) {
  const auto rules = RuleBook();
  EXPECT_GE(rules.size(), 80u);
  for (const auto& [number, rule] : rules) {
    EXPECT_FALSE(rule.names.empty()) << number << " has no name";
    EXPECT_FALSE(Trimmed(rule.tests).empty()) << number << " says of no test that it is red without it";
    if (!rule.is_row && !rule.not_built) {
      EXPECT_FALSE(Trimmed(rule.where).empty()) << number << " does not say where it is enforced";
    }
  }
}

TEST(RuleBookTest, TheFilesAndFunctionsThatItNamesExist) {
  const std::regex named("`([\\w:]+)`|\\(([a-z][\\w/]*\\.(?:cc|h))\\)");
  int functions = 0;
  for (const auto& [number, rule] : RuleBook()) {
    std::vector<std::string> names;
    for (auto it = std::sregex_iterator(rule.where.begin(), rule.where.end(), named);
         it != std::sregex_iterator(); ++it) {
      if ((*it)[1].matched) {
        names.push_back((*it)[1]);
        continue;
      }
      const std::string path = (*it)[2], text = ReadSource(path);
      EXPECT_FALSE(text.empty()) << number << " names " << path << ", which is gone";
      for (const std::string& name : names) {
        const std::string last = name.substr(name.rfind(':') == std::string::npos ? 0 : name.rfind(':') + 1);
        EXPECT_TRUE(std::regex_search(text, std::regex("\\b" + last + "\\s*[({:;]")))
            << number << ": " << path << " has no " << name;
        ++functions;
      }
      names.clear();
    }
    for (const std::string& name : names) ADD_FAILURE() << number << ": " << name << " of no file";
  }
  EXPECT_GE(functions, 100);
}

TEST(RuleBookTest, TheTestsThatItNamesExist) {
  auto tests = TestsBySuite();
  const std::regex one("(\\w+)\\.(\\w+)"), word("\\w+");
  int named = 0;
  for (const auto& [number, rule] : RuleBook()) {
    std::string suite;
    bool any = false;
    for (std::string item : Split(WithoutParentheses(rule.tests), ";,")) {
      if (StartsWith(item, "and with too much of it")) continue;
      std::smatch m;
      if (StartsWith(item, "no test")) {
        any = true;
      } else if (std::regex_match(item, m, one)) {
        suite = m[1];
        EXPECT_TRUE(tests[suite].contains(m[2])) << number << " names " << item << ", which is gone";
        any = true;
        ++named;
      } else if (std::regex_match(item, word)) {
        const bool of_suite = tests[suite].contains(item);
        EXPECT_TRUE(of_suite || !tests[item].empty())
            << number << " names " << item << ", which is no test of " << suite << " and no suite";
        if (!of_suite) suite = item;
        any = true;
        ++named;
      } else if (StartsWith(item, "tests/")) {
        item = item.substr(0, item.find(' '));
        EXPECT_TRUE(fs::exists(fs::path(NOVA_SOURCE_DIR) / item)) << number << " names " << item;
        any = true;
      } else {
        EXPECT_TRUE(any) << number << ": '" << item << "' is no test";
      }
    }
    EXPECT_TRUE(any) << number << " names no test";
  }
  EXPECT_GE(named, 150);
}

// What is in parentheses behind a model are variants of it. docs/retention.md has rules of what is not built.
TEST(RuleBookTest, TheVariantsOfModelsThatAreNamedExist) {
  const std::regex model("(tests/model/\\w+\\.py)\\s+\\(([^)]*)\\)");
  int named = 0;
  for (const char* path : {kBook, "docs/retention.md"}) {
    const std::string book = ReadSource(path);
    for (auto it = std::sregex_iterator(book.begin(), book.end(), model); it != std::sregex_iterator();
         ++it) {
      const std::string text = ReadSource((*it)[1]);
      for (const std::string& variant : Split((*it)[2], ",")) {
        EXPECT_NE(text.find("\n    \"" + variant + "\": "), std::string::npos)
            << path << " names " << variant << ", which is no variant of " << (*it)[1];
        ++named;
      }
    }
  }
  EXPECT_GE(named, 40);
}

TEST(RuleBookTest, EachNumberThatIsCitedIsDefined) {
  const auto rules = RuleBook();
  int cited = 0;
  const auto check = [&](const std::string& path, const std::string& text) {
    for (const Citation& c : CitationsIn(text)) {
      EXPECT_TRUE(rules.contains(c.number))
          << path << " cites " << c.number << ": ..." << text.substr(c.at - std::min<size_t>(c.at, 40), 80);
      ++cited;
    }
  };
  for (const SourceFile& f : Sources(kExtensions)) {
    if (StartsWith(f.path, "tests/tidy/")) continue;
    const Said said = SaidIn(f);
    for (const std::string& comment : said.comments) check(f.path, comment);
    for (const std::string& literal : said.literals) check(f.path, literal);
    if (!StartsWith(f.path, "tests/")) continue;
    for (const std::string& number : NumbersOfTests(f.text))
      EXPECT_TRUE(rules.contains(number)) << f.path << " has a test named by " << number;
  }
  for (const std::string& path : tidy::Documents()) check(path, SaidInDocument(ReadSource(path)));
  EXPECT_GE(cited, 500);
}

TEST(RuleBookTest, EachRuleIsCitedByASource) {
  std::set<std::string> cited;
  for (const SourceFile& f : Sources(kExtensions)) {
    if (StartsWith(f.path, "tests/")) continue;
    for (const std::string& comment : SaidIn(f).comments) {
      for (const Citation& c : CitationsIn(comment)) cited.insert(c.number);
    }
  }
  for (const auto& [number, rule] : RuleBook()) {
    EXPECT_TRUE(rule.is_row || rule.not_built || cited.contains(number)) << "no source cites " << number;
  }
}

// The name stands before the number, "recency order (K3)", "(salt, L1)", "(handshake F3, salt L1)"; or behind
// it: "L1 (salt)".
bool IsNamed(const std::string& text, const Citation& c, const Rule& rule) {
  const auto lower = [](std::string s) {
    for (char& ch : s) ch = static_cast<char>(std::tolower(static_cast<unsigned char>(ch)));
    return s;
  };
  std::string before = lower(text.substr(0, c.at));
  while (!before.empty() && std::string(" (,").find(before.back()) != std::string::npos) before.pop_back();
  const std::string after = lower(text.substr(c.at + c.length, 60));
  return std::any_of(rule.names.begin(), rule.names.end(), [&](const std::string& one) {
    const std::string name = lower(one);
    const auto ends_with = [&](const std::string& ending) {
      return before.ends_with(ending) &&
             (before.size() == ending.size() ||
              !std::isalnum(static_cast<unsigned char>(before[before.size() - ending.size() - 1])));
    };
    return ends_with(name) || ends_with(name + "s") || StartsWith(after, " (" + name);
  });
}

// A reader who meets a number for the first time in a file learns its name there.
TEST(RuleBookTest, SourcesCiteRulesByName) {
  const auto rules = RuleBook();
  for (const SourceFile& f : Sources({".h", ".cc", ".proto"})) {
    if (StartsWith(f.path, "tests/")) continue;
    std::set<std::string> seen;
    for (const std::string& comment : SaidIn(f).comments) {
      for (const Citation& c : CitationsIn(comment)) {
        const auto rule = rules.find(c.number);
        if (rule == rules.end() || rule->second.is_row || c.number == "D" || !seen.insert(c.number).second)
          continue;
        EXPECT_TRUE(IsNamed(comment, c, rule->second))
            << f.path << " cites " << c.number << " without its name (" << rule->second.names[0] << "): ..."
            << comment.substr(c.at - std::min<size_t>(c.at, 50), 90);
      }
    }
  }
}

// docs/formats.md names a golden test of each format, or says that there is none.
TEST(FormatsTest, TheGoldenTestsThatAreNamedExist) {
  auto tests = TestsBySuite();
  const std::regex row("\\| [^|]+ \\| [^|]+ \\| [^|]+ \\| [^|]+ \\| ([^|]+) \\| ([^|]+) \\|"),
      one("(\\w+Test)\\.(\\w+)"), word("[A-Z]\\w+");
  std::istringstream lines(ReadSource("docs/formats.md"));
  int named = 0;
  for (std::string line; std::getline(lines, line);) {
    std::smatch cells, m;
    if (!std::regex_match(line, cells, row) || StartsWith(line, "| format ")) continue;
    std::string suite;
    for (const std::string& item : Split(WithoutParentheses(cells[2]), ";,")) {
      if (std::regex_match(item, m, one)) suite = m[1];
      if (suite == "RecordTest") continue;  // Java's
      if (std::regex_match(item, m, one)) {
        EXPECT_TRUE(tests[suite].contains(m[2])) << "docs/formats.md names " << item;
        ++named;
      } else if (std::regex_match(item, word)) {
        EXPECT_TRUE(tests[suite].contains(item)) << "docs/formats.md names " << suite << "." << item;
        ++named;
      }
    }
  }
  EXPECT_GE(named, 25);
}

}  // namespace
