// Rules of the repository, as tests: who may include whom, where threads and clocks may appear, what
// documents may name.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <regex>
#include <sstream>

#include "tests/tidy/tree.h"

namespace {

using tidy::ReadAll;
using tidy::ReadSource;
using tidy::SourceFile;
using tidy::Sources;
using tidy::StartsWith;
namespace fs = std::filesystem;

std::vector<std::string> ProjectIncludes(const std::string& text) {
  static const std::regex kInclude("#include \"([^\"]+)\"");
  std::vector<std::string> out;
  for (auto it = std::sregex_iterator(text.begin(), text.end(), kInclude); it != std::sregex_iterator(); ++it)
    out.push_back((*it)[1]);
  return out;
}

// The include table (docs/architecture.md): per folder, what it may include beside itself: a file, a folder
// ("a/b/") or a folder with all below it ("a/*").
const std::map<std::string, std::vector<std::string>> kMayInclude = {
    {"common/base", {}},
    {"common/config", {"common/base/"}},
    {"common/log", {"common/base/"}},
    {"common/rdma", {"common/base/"}},
    {"common/rdma/sim", {"common/base/", "common/rdma/"}},
    {"common/rdma/tcp", {"common/base/", "common/rdma/"}},
    {"common/rdma/verbs", {"common/base/", "common/rdma/"}},
    {"common/rdma/factory", {"common/base/", "common/rdma/*"}},
    {"common/sstable", {"common/base/"}},
    {"coordinator", {"common/base/", "common/config/", "common/rdma/"}},
    {"stoc",
     {"common/*", "coordinator/coordinator_client.h", "coordinator/cluster_types.h",
      "coordinator/grpc_channel.h"}},
    {"logc", {"common/*", "stoc/stoc_client.h", "coordinator/cluster_types.h"}},
    {"ltc/engine", {"common/base/", "common/log/", "common/sstable/"}},
    {"ltc/embedded", {"common/base/", "common/log/", "common/sstable/", "ltc/engine/", "logc/local_log.h"}},
    {"ltc/wire", {"common/base/", "common/rdma/"}},
    {"ltc/server",
     {"common/*", "ltc/engine/", "ltc/wire/", "logc/", "stoc/stoc_client.h", "stoc/stoc_load.h",
      "stoc/stoc_table_store.h", "coordinator/coordinator_client.h", "coordinator/cluster_types.h",
      "coordinator/ltc_settings.h", "coordinator/grpc_channel.h"}},
    {"ltc/fsck",
     {"common/*", "ltc/engine/", "logc/log_copies.h", "stoc/stoc_client.h", "stoc/log_journal.h",
      "stoc/store_identity.h", "stoc/stored_files.h", "coordinator/cluster_types.h",
      "coordinator/stoc_record.h", "coordinator/znodes.h"}},
    {"client", {"common/*", "coordinator/coordinator_client.h", "coordinator/grpc_channel.h", "ltc/wire/"}},
    {"experiments", {"common/*", "coordinator/", "stoc/", "logc/", "ltc/*", "client/"}},
};

bool MayInclude(const std::string& allowed, const std::string& include) {
  if (allowed.ends_with("/*")) return StartsWith(include, allowed.substr(0, allowed.size() - 1));
  if (allowed.back() != '/') return include == allowed;
  return StartsWith(include, allowed) && include.find('/', allowed.size()) == std::string::npos;
}

TEST(TidyTest, FoldersIncludeOnlyWhatTheTableAllows) {
  for (const SourceFile& f : Sources()) {
    if (StartsWith(f.folder, "tests")) continue;
    const auto rule = kMayInclude.find(StartsWith(f.folder, "experiments/") ? "experiments" : f.folder);
    ASSERT_NE(rule, kMayInclude.end()) << f.path << ": folder " << f.folder << " is not in the include table";
    for (const std::string& include : ProjectIncludes(f.text)) {
      if (include.find('/') == std::string::npos || StartsWith(include, "absl/")) continue;
      const std::string folder = include.substr(0, include.rfind('/'));
      const bool allowed = folder == f.folder ||
                           (rule->first == "experiments" && StartsWith(include, "experiments/")) ||
                           std::any_of(rule->second.begin(), rule->second.end(),
                                       [&](const std::string& a) { return MayInclude(a, include); });
      EXPECT_TRUE(allowed) << f.path << " may not include " << include;
    }
  }
}

// Nor do two folders include each other: of each pair one is below the other.
TEST(TidyTest, NoTwoFoldersIncludeEachOther) {
  std::map<std::string, std::set<std::string>> includes;
  for (const SourceFile& f : Sources()) {
    if (StartsWith(f.folder, "tests")) continue;
    for (const std::string& include : ProjectIncludes(f.text)) {
      if (include.find('/') != std::string::npos)
        includes[f.folder].insert(include.substr(0, include.rfind('/')));
    }
  }
  for (const auto& [folder, others] : includes) {
    for (const std::string& other : others) {
      EXPECT_TRUE(other == folder || !includes.contains(other) || !includes.at(other).contains(folder))
          << folder << " and " << other << " include each other";
    }
  }
}

// What an application that embeds the engine compiles: the interface and plain data, nothing of the engine.
TEST(TidyTest, TheEmbeddedDatabasesHeaderDrawsInPlainDataOnly) {
  const std::set<std::string> data = {"common/sstable/table_options.h", "ltc/engine/compaction_options.h",
                                      "ltc/engine/memory_use.h", "ltc/engine/range_options.h"};
  std::set<std::string> seen;
  std::vector<std::string> queue = {"ltc/embedded/db.h"};
  while (!queue.empty()) {
    const std::string path = queue.back();
    queue.pop_back();
    if (!seen.insert(path).second || StartsWith(path, "absl/")) continue;
    EXPECT_TRUE(StartsWith(path, "ltc/embedded/db") || StartsWith(path, "common/base/") ||
                data.contains(path))
        << "ltc/embedded/db.h draws in " << path;
    for (const std::string& include : ProjectIncludes(ReadAll(fs::path(NOVA_SOURCE_DIR) / path))) {
      queue.push_back(include);
    }
  }
  EXPECT_TRUE(seen.contains("ltc/engine/range_options.h"));
}

TEST(TidyTest, NothingIncludesExperimentsOrTests) {
  for (const SourceFile& f : Sources()) {
    for (const std::string& include : ProjectIncludes(f.text)) {
      EXPECT_TRUE(StartsWith(f.folder, "experiments") || !StartsWith(include, "experiments/")) << f.path;
      EXPECT_TRUE(StartsWith(f.folder, "tests") || !StartsWith(include, "tests/")) << f.path;
    }
  }
}

struct WordRule {
  std::string pattern;
  // of the paths where it may stand: a prefix; a suffix when it begins with '*'; a part when with '/'
  std::string where;
  std::string why;
};

bool IsAllowedAt(const std::string& path, const std::string& where) {
  if (where[0] == '/') return path.find(where) != std::string::npos;
  return where[0] == '*' ? path.ends_with(where.substr(1)) : StartsWith(path, where);
}

TEST(TidyTest, WhatBlocksRunsOrIsRandomStandsOnlyInCommonBase) {
  const std::vector<WordRule> rules = {
      {"std::(jthread|thread)\\b", "common/base/", "use nova::Thread: a simulation must be able to run it"},
      {"std::(mutex|shared_mutex|recursive_mutex|condition_variable)\\b", "common/base/",
       "use nova::Mutex and nova::CondVar"},
      {"absl::(Mutex|CondVar|Notification)\\b", "common/base/", "use nova::Mutex"},
      {"std::chrono\\b", "common/base/", "use common/base/clock.h"},
      {"std::random_device\\b", "common/base/", "use common/base/random.h"},
      {"\\b(usleep|nanosleep|sleep_for)\\(", "common/base/", "use SleepFor"},
      {"#include <(infiniband|rdma)/", "/verbs_", "verbs headers stay in files named verbs_*"},
      {"#include <zookeeper", "common/config/zookeeper_store.cc", "ZooKeeper stays behind ConfigStore"},
      {"#include <gflags/|#include \"common/base/([a-z]+_)?flags.h\"", "*main.cc",
       "flags are parsed where main is"},
  };
  for (const SourceFile& f : Sources()) {
    if (StartsWith(f.path, "tests/tidy/")) continue;
    for (const WordRule& rule : rules) {
      if (IsAllowedAt(f.path, rule.where)) continue;
      if ((StartsWith(f.path, "tests/") || f.path.find("flags.") != std::string::npos) &&
          rule.pattern.find("gflags") != std::string::npos)
        continue;
      EXPECT_FALSE(std::regex_search(f.text, std::regex(rule.pattern)))
          << f.path << ": " << rule.pattern << ": " << rule.why;
    }
  }
}

TEST(TidyTest, HeadersOpenWithWhatTheyAreFor) {
  for (const SourceFile& f : Sources({".h"})) {
    EXPECT_TRUE(StartsWith(f.text, "// ") || StartsWith(f.text, "/* "))
        << f.path << " must open with its purpose";
  }
}

TEST(TidyTest, NoLineIsLongerThan110Columns) {
  for (const SourceFile& f : Sources()) {
    std::istringstream lines(f.text);
    int number = 0;
    for (std::string line; std::getline(lines, line);) {
      ++number;
      EXPECT_LE(line.size(), 110u) << f.path << ":" << number;
    }
  }
}

TEST(TidyTest, NoCorpses) {
  for (const SourceFile& f : Sources()) {
    if (StartsWith(f.path, "tests/tidy/")) continue;
    static const std::regex kCorpse("\\b(TODO|FIXME|XXX)\\b|#if 0|using namespace std\\b");
    std::smatch found;
    EXPECT_FALSE(std::regex_search(f.text, found, kCorpse)) << f.path << " holds " << found.str();
  }
}

// A range-for keeps what its expression gives, not what the expression takes that from (until C++23): of
// `MakeX()->parts()` the X is gone before the first turn. Accessors, in lower case, give what others own.
TEST(TidyTest, NoLoopWalksThroughPartsOfATemporary) {
  static const std::regex kLoop(
      "for \\((?:[^;:()]|::)+ : (?:\\w+(?:\\.|->))*[A-Z]\\w*\\(\\)(?:\\.|->)\\w+[^\n]*");
  std::smatch found;
  const std::string bad = "for (const std::string& n : CurrentView()->version->names()) {}",
                    good = "for (const auto& h : Hosted()) h->Stop();";
  EXPECT_TRUE(std::regex_search(bad, kLoop));
  EXPECT_FALSE(std::regex_search(good, kLoop));
  for (const SourceFile& f : Sources()) {
    if (StartsWith(f.path, "tests/tidy/")) continue;
    EXPECT_FALSE(std::regex_search(f.text, found, kLoop)) << f.path << ": " << found.str();
  }
}

TEST(TidyTest, TopLevelHoldsNothingElse) {
  const std::set<std::string> allowed = {"CMakeLists.txt", "CMakePresets.json",
                                         "LICENSE",        "README.md",
                                         "client",         "common",
                                         "coordinator",    "deploy",
                                         "docs",           "experiments",
                                         "logc",           "ltc",
                                         "stoc",           "tests",
                                         "build"};
  for (const auto& e : fs::directory_iterator(NOVA_SOURCE_DIR)) {
    const std::string name = e.path().filename();
    EXPECT_TRUE(name[0] == '.' || allowed.contains(name)) << name;
  }
}

// Every path of a source file that a document names exists.
TEST(TidyTest, DocumentsNameFilesThatExist) {
  const fs::path root = NOVA_SOURCE_DIR;
  std::vector<fs::path> documents = {root / "README.md", root / "client/ycsb/README.md"};
  for (const auto& e : fs::directory_iterator(root / "docs")) documents.push_back(e.path());
  const std::regex path(
      "\\b(?:common|coordinator|stoc|logc|ltc|client|deploy|tests|experiments|docs)/[A-Za-z0-9_/"
      ".-]*\\.(?:h|cc|sh|md|java|proto|txt)\\b");
  int named = 0;
  for (const fs::path& d : documents) {
    const std::string text = ReadAll(d);
    for (auto it = std::sregex_iterator(text.begin(), text.end(), path); it != std::sregex_iterator();
         ++it, ++named) {
      EXPECT_TRUE(fs::exists(root / it->str())) << d.filename() << " names " << it->str();
    }
  }
  EXPECT_GE(named, 40);
}

// Each program that install.yml puts on a host is built by the line of docs/deploy.md.
TEST(TidyTest, TheDeploymentBuildsWhatItInstalls) {
  std::smatch installed, built;
  const std::string archive = ReadSource("deploy/ansible/archive.sh");
  const std::string deploy = ReadSource("docs/deploy.md");
  ASSERT_TRUE(std::regex_search(archive, installed, std::regex("for program in ([a-z_ ]+);")));
  ASSERT_TRUE(std::regex_search(deploy, built, std::regex("ninja -C build/release ([a-z_ ]+)")));
  std::istringstream programs(installed[1]);
  for (std::string program; programs >> program;) {
    EXPECT_TRUE(std::regex_search(built[1].str(), std::regex("\\b" + program + "(_main)?\\b"))) << program;
  }
}

}  // namespace
