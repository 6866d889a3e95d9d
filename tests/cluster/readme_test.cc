// README.md, tried as a new user would: its shell lines are run; its programs are compiled by
// the lines beside them, linked with what these installed, and run.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "absl/strings/match.h"
#include "tests/cluster/process_cluster.h"

namespace nova {
namespace {

namespace fs = std::filesystem;

std::string Readme() {
  std::ifstream in(NOVA_SOURCE_DIR "/README.md");
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

// The n-th fenced block of that language, from 0.
std::string BlockOf(const std::string& markdown, const std::string& language, int n) {
  const std::string fence = "```" + language + "\n";
  size_t begin = markdown.find(fence);
  for (; n > 0 && begin != std::string::npos; --n) begin = markdown.find(fence, begin + 1);
  if (begin == std::string::npos) return "";
  const size_t start = begin + fence.size();
  return markdown.substr(start, markdown.find("```", start) - start);
}

// The indented lines that follow a heading, up to the first other line.
std::vector<std::string> ShellLines(const std::string& markdown, const std::string& heading) {
  std::vector<std::string> lines;
  std::istringstream rest(markdown.substr(std::min(markdown.find("\n" + heading + "\n"), markdown.size())));
  std::string line;
  while (std::getline(rest, line) && line != heading) {
  }
  while (std::getline(rest, line) && absl::StartsWith(line, "    ")) lines.push_back(line.substr(4));
  return lines;
}

std::string RunShell(const std::string& command, int* code) {
  FILE* pipe = popen(StrCat("(", command, "\n) 2>&1").c_str(), "r");
  std::string output;
  char piece[4096];
  for (size_t n; (n = fread(piece, 1, sizeof(piece), pipe)) > 0;) output.append(piece, n);
  *code = pclose(pipe);
  return output;
}

std::string Succeed(const std::string& command) {
  int code;
  const std::string output = RunShell(command, &code);
  EXPECT_EQ(code, 0) << command << "\n" << output;
  return output;
}

class ReadmeTest : public testing::Test {
 protected:
  void SetUp() override {
    ProcessClusterOptions options;
    options.stocs = 2;
    options.ltcs = 1;
    options.ranges = 2;
    options.ltc_flags = {"--log_replicas=2"};
    auto cluster = ProcessCluster::Start(options);
    if (absl::IsNotFound(cluster.status())) GTEST_SKIP() << cluster.status().message();
    ASSERT_TRUE(cluster.ok()) << cluster.status();
    cluster_ = *std::move(cluster);
    fs::create_directories(home_ / "build");
    fs::create_directory_symlink(NOVA_BINARY_DIR, home_ / "build" / "release");
  }
  ~ReadmeTest() override { fs::remove_all(home_); }
  // In a directory where the tree's builds are seen, and where it is at home.
  std::string InHome(const std::string& command) const {
    return StrCat("cd ", home_.string(), " && export HOME=", home_.string(),
                  " NOVA_COORDINATORS=", cluster_->coordinators(),
                  " NOVA_ZOOKEEPER=", cluster_->zookeeper()->hosts(), " && ", command);
  }
  void Write(const std::string& name, const std::string& text) {
    EXPECT_FALSE(text.empty()) << "README.md has no program " << name;
    std::ofstream(home_ / name) << text;
  }

  const std::string readme_ = Readme();
  const fs::path home_ = fs::temp_directory_path() / StrCat("nova-readme-", getpid());
  std::unique_ptr<ProcessCluster> cluster_;
};

TEST_F(ReadmeTest, ItsCommandsOfTheToolRun) {
  int tried = 0;
  for (const std::string& line : ShellLines(readme_, "## Use it")) {
    if (!absl::StartsWith(line, "build/release/bin/nova ") || absl::EndsWith(line, " shell")) continue;
    Succeed(InHome(line));
    ++tried;
  }
  EXPECT_GE(tried, 8);
}

TEST_F(ReadmeTest, ItsProgramsCompileAgainstWhatIsInstalledAndRun) {
  Write("program.cc", BlockOf(readme_, "cpp", 0));
  Write("program.c", BlockOf(readme_, "c", 0));
  Write("embedded.cc", BlockOf(readme_, "cpp", 1));
  const std::vector<std::string> lines = ShellLines(readme_, "## Link it");
  ASSERT_GE(lines.size(), 6u);
  std::string environment;
  for (const std::string& line : lines) {
    if (absl::StartsWith(line, "export ")) environment = line + " && ";
    Succeed(InHome(environment + line));
  }
  const auto run = [&](const std::string& command) { return Succeed(InHome(environment + command)); };
  const std::string cpp = run(StrCat("./program ", cluster_->coordinators()));
  EXPECT_NE(cpp.find("apple is sweet\nfruit/apple = sweet\nfruit/plum = sweet\n"), std::string::npos) << cpp;
  EXPECT_NE(cpp.find("then the fig was eaten, there was no plum\nfruit/grape is sour\n"
                     "there is fruit/apple\nthere is fruit/grape\n"),
            std::string::npos)
      << cpp;
  const std::string c = run(StrCat("./program_c ", cluster_->coordinators()));
  EXPECT_EQ(c, "green tea is hot\ntea/green\nbackwards: tea/green\nConditionFailed\n");
  EXPECT_EQ(run("./embedded $HOME/db"), "apple is sweet\n");

  // The archives, and CMake.
  run("gcc program.c -o static_c $(pkg-config --cflags nova-client) -l:libnova_client.a "
      "$(pkg-config --static --libs nova-client | sed s/-lnova_client//)");
  EXPECT_EQ(run(StrCat("./static_c ", cluster_->coordinators())), c);
  run("g++ -std=c++20 embedded.cc -o static_embedded $(pkg-config --cflags nova-embedded) "
      "-l:libnova_embedded.a "
      "$(pkg-config --static --libs nova-embedded | sed s/-lnova_embedded//)");
  EXPECT_EQ(run("./static_embedded $HOME/db"), "apple is sweet\n");
  Write("CMakeLists.txt",
        "cmake_minimum_required(VERSION 3.25)\nproject(user CXX)\n" + BlockOf(readme_, "cmake", 0));
  run("cmake -G Ninja -B by_cmake -DCMAKE_PREFIX_PATH=$HOME/.local && ninja -C by_cmake");
  EXPECT_EQ(run("by_cmake/embedded $HOME/db"), "apple is sweet\n");
}

TEST_F(ReadmeTest, SharedLibrariesExportTheirInterfaceOnly) {
  for (const std::string name : {"client", "embedded"}) {
    const std::string symbols =
        Succeed(StrCat("nm -DC --defined-only " NOVA_BINARY_DIR "/lib/libnova_", name, ".so"));
    std::istringstream in(symbols);
    int count = 0;
    for (std::string line; std::getline(in, line); ++count) {
      const std::string symbol = line.substr(std::min<size_t>(line.size(), 19));
      EXPECT_TRUE(absl::StartsWith(symbol, "nova_") || absl::StartsWith(symbol, "nova::")) << line;
    }
    EXPECT_GT(count, 20) << name;
    EXPECT_LT(count, 120) << name;
  }
}

}  // namespace
}  // namespace nova
