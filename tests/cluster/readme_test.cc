// The C++ and C programs of README.md: taken from it, compiled as a user would, linked with libnova_client,
// run.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "tests/cluster/process_cluster.h"

namespace nova {
namespace {

namespace fs = std::filesystem;

// The first fenced block of that language.
std::string BlockOf(const std::string& markdown, const std::string& language) {
  const std::string fence = "```" + language + "\n";
  const size_t begin = markdown.find(fence);
  if (begin == std::string::npos) return "";
  const size_t start = begin + fence.size();
  return markdown.substr(start, markdown.find("```", start) - start);
}

std::string RunShell(const std::string& command, int* code) {
  FILE* pipe = popen((command + " 2>&1").c_str(), "r");
  std::string output;
  char piece[4096];
  for (size_t n; (n = fread(piece, 1, sizeof(piece), pipe)) > 0;) output.append(piece, n);
  *code = pclose(pipe);
  return output;
}

TEST(ReadmeTest, ItsProgramsCompileAndRun) {
  std::ifstream in(NOVA_SOURCE_DIR "/README.md");
  std::stringstream readme;
  readme << in.rdbuf();
  ProcessClusterOptions options;
  options.stocs = 2;
  options.ltcs = 1;
  options.ranges = 2;
  options.ltc_flags = {"--log_replicas=2"};
  auto cluster = ProcessCluster::Start(options);
  if (absl::IsNotFound(cluster.status())) GTEST_SKIP() << cluster.status().message();
  ASSERT_TRUE(cluster.ok()) << cluster.status();

  const fs::path directory = fs::temp_directory_path() / StrCat("nova-readme-", getpid());
  fs::create_directories(directory);
  const std::string lib = NOVA_BINARY_DIR "/lib";
  const auto run = [&](const std::string& language, const std::string& compiler, const std::string& extension,
                       const std::string& libraries) {
    const std::string source = (directory / ("program." + extension)).string(),
                      program = (directory / language).string();
    const std::string text = BlockOf(readme.str(), language);
    EXPECT_FALSE(text.empty()) << "README.md has no " << language << " program";
    std::ofstream(source) << text;
    int code;
    const std::string compiled = RunShell(compiler + " -I " NOVA_SOURCE_DIR " " + source + " -o " + program +
                                              " -L " + lib + " " + libraries + " -Wl,-rpath," + lib,
                                          &code);
    EXPECT_EQ(code, 0) << compiled;
    const std::string output = RunShell(program + " " + (*cluster)->coordinators(), &code);
    EXPECT_EQ(code, 0) << output;
    return output;
  };
  const std::string cpp = run("cpp", "g++ -std=c++20 -Wall -Wextra -Werror", "cc",
                              "-lnova_client $(pkg-config --libs absl_statusor)");
  EXPECT_NE(cpp.find("apple is sweet\nfruit/apple = sweet\nfruit/plum = sweet\n"), std::string::npos) << cpp;
  EXPECT_NE(cpp.find("then the fig was eaten, there was no plum\nfruit/grape is sour\n"), std::string::npos)
      << cpp;
  const std::string c = run("c", "gcc -std=c99 -Wall -Wextra -Werror -pedantic", "c", "-lnova_client");
  EXPECT_EQ(c, "green tea is hot\ntea/green\nConditionFailed\n");
  const std::string archive =  // the README's line for libnova_client.a
      run("c", "gcc -std=c99", "c",
          "-l:libnova_client.a $(pkg-config --libs grpc++ protobuf absl_statusor absl_raw_hash_set absl_hash "
          "libisal libibverbs librdmacm) -lstdc++ -lm");
  EXPECT_EQ(archive, c);
  fs::remove_all(directory);
}

}  // namespace
}  // namespace nova
