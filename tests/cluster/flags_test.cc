// Every number that a program takes as a flag, far below and far above what can be meant: exit 2, one line
// that names the flag, nothing on disk. The flags are those that the program itself lists (--helpxml): one
// that is added and not checked fails here.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <regex>
#include <sstream>

#include "absl/strings/str_split.h"
#include "common/base/clock.h"
#include "tests/cluster/process.h"

namespace nova {
namespace {

const std::string kBin = NOVA_BINARY_DIR "/bin/";

std::string ReadAll(const std::string& path) {
  std::stringstream s;
  s << std::ifstream(path).rdbuf();
  return s.str();
}

struct Ended {
  int code = -1;
  std::string errors;
};

class FlagsTest : public testing::Test {
 protected:
  FlagsTest() : directory_(testing::TempDir() + StrCat("nova-flags-", getpid())) {
    std::filesystem::create_directories(directory_);
  }
  ~FlagsTest() override { std::filesystem::remove_all(directory_); }

  Ended Run(std::vector<std::string> argv) {
    const std::string errors = directory_ + "/errors";
    std::filesystem::remove(errors);
    auto process = Process::Start(argv, errors);
    EXPECT_TRUE(process.ok()) << argv[0];
    if (!process.ok()) return {};
    const auto code = (*process)->Wait(Now() + 20 * kSecond);
    EXPECT_TRUE(code.ok()) << argv[0] << " " << argv.back() << " does not end";
    return {code.ok() ? *code : -1, ReadAll(errors)};
  }
  // Numbers among the flags of our own files.
  std::vector<std::string> NumbersOf(const std::string& program) {
    std::string all;
    RunToEnd({kBin + program, "--helpxml"}, &all);
    const std::regex flag(
        "<flag><file>[^<]*(main|flags)\\.cc</file><name>([^<]*)</name>.*?<type>(int32|int64|uint64|double)</"
        "type></flag>");
    std::vector<std::string> names;
    for (const std::string& one : std::vector<std::string>(absl::StrSplit(all, "</flag>"))) {
      std::smatch found;
      const std::string text = one + "</flag>";
      if (std::regex_search(text, found, flag)) names.push_back(found[2]);
    }
    return names;
  }
  // Numbers among the options of the tool, or of one of its commands.
  std::vector<std::string> NumbersOfTool(const std::string& command) {
    std::vector<std::string> help = {kBin + "nova", "--help"};
    if (!command.empty()) help.insert(help.begin() + 1, command);
    std::string all;
    EXPECT_EQ(RunToEnd(help, &all), 0);
    static const std::regex number("--(\\w+) (?:INT|UINT|FLOAT)");
    std::vector<std::string> names;
    for (auto it = std::sregex_iterator(all.begin(), all.end(), number); it != std::sregex_iterator(); ++it)
      names.push_back((*it)[1]);
    return names;
  }
  // What each of them has no use for.
  void ExpectEachRefusesWhatIsOutOfRange(const std::vector<std::string>& begin,
                                         const std::vector<std::string>& flags, size_t at_least) {
    EXPECT_GE(flags.size(), at_least) << begin[0];
    for (const std::string& flag : flags) {
      for (const char* value : {"-2147483648", "2147483647", "99999999999999999999999999"}) {
        std::vector<std::string> argv = begin;
        argv.push_back(StrCat("--", flag, "=", value));
        const Ended ended = Run(argv);
        // Numbers that count records, operations or seconds may be as large as the second.
        const bool large = value[0] == '2' && (flag == "records" || flag == "operations");
        if (!large) ExpectOneLineOf(ended, flag, begin[0] + " " + argv.back());
      }
    }
  }
  void ExpectOneLineOf(const Ended& ended, const std::string& flag, const std::string& argument) {
    EXPECT_EQ(ended.code, 2) << argument << ": " << ended.errors;
    EXPECT_NE(ended.errors.find(flag), std::string::npos) << argument << ": " << ended.errors;
    const std::vector<std::string> lines = absl::StrSplit(ended.errors, '\n', absl::SkipEmpty());
    EXPECT_EQ(lines.size(), 1u) << argument << ": " << ended.errors;
  }

  const std::string directory_;
};

TEST_F(FlagsTest, ANumberOutOfRangeIsNamedOnOneLineAndNothingIsMade) {
  const std::vector<std::string> server = {"--zookeeper=127.0.0.1:1", "--zookeeper_connect_ms=1"};
  const std::vector<std::string> node = {"--zookeeper=127.0.0.1:1", "--zookeeper_connect_ms=1",
                                         "--coordinators=127.0.0.1:1", "--name=x"};
  std::vector<std::string> stoc = node;
  stoc.push_back("--data=" + directory_ + "/data");
  const std::vector<std::tuple<std::string, std::vector<std::string>, size_t>> programs = {
      {"nova_coordinator", server, 6},
      {"nova_fsck", server, 5},
      {"nova_ltc", node, 20},
      {"nova_stoc", stoc, 10}};
  for (const auto& [program, needed, at_least] : programs) {
    std::vector<std::string> begin = {kBin + program};
    begin.insert(begin.end(), needed.begin(), needed.end());
    ExpectEachRefusesWhatIsOutOfRange(begin, NumbersOf(program), at_least);
  }
  const std::vector<std::string> nova = {kBin + "nova", "--coordinators=127.0.0.1:1"};
  for (const auto& [command, at_least] : {std::pair{"", 1}, {"bench", 6}, {"doctor", 1}}) {
    std::vector<std::string> begin = nova;
    if (*command != '\0') begin.push_back(command);
    ExpectEachRefusesWhatIsOutOfRange(begin, NumbersOfTool(command), static_cast<size_t>(at_least));
  }
  EXPECT_FALSE(std::filesystem::exists(directory_ + "/data"));
}

TEST_F(FlagsTest, ClientsAreToldOfNoLongerValuesThanAnLtcTakes) {
  const std::string longer = "--max_value_bytes=16777217";
  std::vector<std::string> argv = {kBin + "nova_coordinator", "--zookeeper=127.0.0.1:1",
                                   "--zookeeper_connect_ms=1", longer};
  ExpectOneLineOf(Run(argv), "max_value_bytes", argv[0] + " " + longer);
  argv[0] = kBin + "nova_ltc";
  argv.insert(argv.end(), {"--coordinators=127.0.0.1:1", "--name=x"});
  ExpectOneLineOf(Run(argv), "max_value_bytes", argv[0] + " " + longer);
}

// --helpshort: the flags of our own files, and not where they were compiled.
TEST_F(FlagsTest, TheShortHelpShowsOwnFlagsOnly) {
  for (const auto& [program, flag] :
       std::vector<std::pair<std::string, std::string>>{{"nova_coordinator", "lease_ms"},
                                                        {"nova_fsck", "quick"},
                                                        {"nova_ltc", "max_rounds"},
                                                        {"nova_stoc", "data"}}) {
    auto process = Process::Start({kBin + program, "--helpshort"});
    ASSERT_TRUE(process.ok()) << program;
    std::string all;
    for (auto line = (*process)->ReadLine(Now() + 20 * kSecond); line.ok();
         line = (*process)->ReadLine(Now() + 20 * kSecond))
      all += *line + '\n';
    EXPECT_NE(all.find("-" + flag + " ("), std::string::npos) << program << ": " << all;
    EXPECT_EQ(all.find("-logbufsecs ("), std::string::npos) << program << ": " << all;
    EXPECT_EQ(all.find(NOVA_SOURCE_DIR), std::string::npos) << program << ": " << all;
  }
}

TEST_F(FlagsTest, AWordThatIsNoneOfThoseAllowedIsNamedOnOneLine) {
  const std::vector<std::string> node = {"--zookeeper=127.0.0.1:1", "--coordinators=127.0.0.1:1", "--name=x",
                                         "--data=" + directory_ + "/data"};
  for (const auto& [program, flag, value] : std::vector<std::tuple<std::string, std::string, std::string>>{
           {"nova_coordinator", "chroot", "nova"},
           {"nova_coordinator", "address", "here"},
           {"nova_coordinator", "address", "0.0.0.0:0"},
           {"nova_coordinator", "advertise", ":1"},
           {"nova_coordinator", "metrics_address", "127.0.0.1:65536"},
           {"nova_fsck", "chroot", "nova"},
           {"nova_fsck", "fabric", "none"},
           {"nova_ltc", "address", "[::]:0"},
           {"nova_ltc", "metrics_address", "::1:0"},
           {"nova_stoc", "advertise", "[fe80::1]:7000"},
           {"nova_ltc", "chroot", ""},
           {"nova_ltc", "fabric", "carrier-pigeon"},
           {"nova_ltc", "log_mode", "most"},
           {"nova_ltc", "compression", "none,gzip"},
           {"nova_ltc", "min_replicas", "4"},
           {"nova_ltc", "segment_kb", "3"},
           {"nova_ltc", "name", ""},
           {"nova_stoc", "data", ""},
           {"nova_stoc", "segment_kb", "5"},
           {"nova_stoc", "fabric", ""},
           {"nova", "fabric", "rdma"},
           {"nova bench", "workload", "W50"},
           {"nova bench", "distribution", "normal"},
       }) {
    std::vector<std::string> argv = absl::StrSplit(kBin + program, ' ');
    const size_t needed = program == "nova_stoc"          ? 4
                          : program == "nova_ltc"         ? 3
                          : program == "nova_coordinator" ? 1
                          : program == "nova_fsck"        ? 1
                                                          : 0;
    argv.insert(argv.end(), node.begin(), node.begin() + static_cast<ptrdiff_t>(needed));
    argv.push_back(StrCat("--", flag, "=", value));
    ExpectOneLineOf(Run(argv), flag, program + " " + argv.back());
  }
  EXPECT_FALSE(std::filesystem::exists(directory_ + "/data"));
}

}  // namespace
}  // namespace nova
