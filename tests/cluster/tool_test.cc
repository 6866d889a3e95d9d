// The programs as a user types them: the tool's commands, bad input, bad flags, values up to 16 MB, malformed bytes on ports.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "absl/strings/str_split.h"
#include "client/client.h"
#include "common/base/random.h"
#include "tests/cluster/process_cluster.h"

namespace nova {
namespace {

class ToolTest : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    ProcessClusterOptions options;
    options.ltc_flags = {"--max_value_bytes=16777216", "--table_replicas=2"};
    options.coordinator_flags = {"--max_value_bytes=16777216"};
    auto cluster = ProcessCluster::Start(options);
    if (absl::IsNotFound(cluster.status())) return;
    ASSERT_TRUE(cluster.ok()) << cluster.status();
    cluster_ = cluster->release();
  }
  static void TearDownTestSuite() {
    delete cluster_;
    cluster_ = nullptr;
  }
  void SetUp() override {
    if (cluster_ == nullptr) GTEST_SKIP() << "ZooKeeper is not installed";
  }
  static int Nova(const std::vector<std::string>& arguments, std::string* output, const std::string& input = "") {
    return cluster_->Nova(arguments, output, input);
  }
  static ProcessCluster* cluster_;
};
ProcessCluster* ToolTest::cluster_ = nullptr;

TEST_F(ToolTest, PutGetDeleteScanStatus) {
  std::string out;
  EXPECT_EQ(Nova({"put", "tool/a", "1"}, &out), 0) << out;
  EXPECT_EQ(Nova({"put", "tool/b", "two words"}, &out), 0) << out;
  EXPECT_EQ(Nova({"get", "tool/b"}, &out), 0);
  EXPECT_EQ(out, "two words\n");
  EXPECT_EQ(Nova({"scan", "tool/", "2"}, &out), 0);
  EXPECT_EQ(out, "tool/a\t1\ntool/b\ttwo words\n");
  EXPECT_EQ(Nova({"delete", "tool/a"}, &out), 0);
  EXPECT_EQ(Nova({"get", "tool/a"}, &out), 1);
  EXPECT_EQ(out, "get: NotFound\n");
  EXPECT_EQ(Nova({"status"}, &out), 0);
  for (const char* word : {"ltc-0", "stoc-2", "coordinator-0", "durability", "open"}) EXPECT_NE(out.find(word), std::string::npos) << word;
}

TEST_F(ToolTest, ShellReadsCommandsFromItsInput) {
  std::string out;
  EXPECT_EQ(Nova({"shell"}, &out, "put \"shell key\" \"a \\\"quoted\\\" value\"\nget \"shell key\"\nquit\n"), 0);
  EXPECT_EQ(out, "a \"quoted\" value\n");
  EXPECT_EQ(Nova({"shell"}, &out, "get nothing-here\n"), 1);
  EXPECT_EQ(Nova({"shell"}, &out, "frobnicate\n"), 2);
}

TEST_F(ToolTest, BadInputIsOneLineAndWritesNothing) {
  std::string out;
  EXPECT_EQ(Nova({"put", "", "x"}, &out), 2);
  EXPECT_EQ(out, "the key is empty\n");
  EXPECT_EQ(Nova({"put", std::string(4097, 'k'), "x"}, &out), 2);
  EXPECT_EQ(out, "the key has 4097 bytes, the limit is 4096\n");
  EXPECT_EQ(Nova({"put", std::string(4096, 'k'), "x"}, &out), 0) << out;
  EXPECT_EQ(Nova({"get", std::string(4096, 'k')}, &out), 0);
  EXPECT_EQ(Nova({"delete", std::string(4096, 'k')}, &out), 0);
  EXPECT_EQ(Nova({"--nonsense", "get", "x"}, &out), 2);
  EXPECT_EQ(Nova({"--timeout_ms=fast", "get", "x"}, &out), 2);
}

TEST_F(ToolTest, ValuesUpToTheLimitOf16MbRoundTripAndLargerAreRefused) {
  ClientOptions options;
  options.coordinators = {cluster_->coordinators()};
  auto client = Client::Connect(options);
  ASSERT_TRUE(client.ok()) << client.status();
  Random random(301);
  for (const size_t bytes : {0u, 1u, 4096u, 65'535u, 65'536u, 1'000'000u, 1u << 20, 5'000'000u, 16u << 20}) {
    std::string value(bytes, '\0');
    for (size_t i = 0; i < bytes; i += 97) value[i] = static_cast<char>(random.Next());
    const std::string key = StrCat("big/", bytes);
    const Result put = (*client)->Put(key, value);
    ASSERT_TRUE(put.ok()) << bytes << ": " << put.message;
    const GetResult got = (*client)->Get(key);
    ASSERT_TRUE(got.ok()) << bytes << ": " << got.message;
    ASSERT_TRUE(got.value == value) << bytes;
  }
  EXPECT_EQ((*client)->Put("big/too", std::string((16 << 20) + 1, 'x')).outcome, Outcome::kInvalidArgument);
  EXPECT_EQ((*client)->Get("big/too").outcome, Outcome::kNotFound);
  const ScanResult scan = (*client)->Scan("big/", 9);
  ASSERT_TRUE(scan.ok()) << scan.message;
  EXPECT_EQ(scan.entries.size(), 9u) << "a scan over values larger than its pages";
}

TEST_F(ToolTest, MalformedBytesOnAnyPortCloseThatConnectionAndTheServerLives) {
  Random random(7);
  for (const std::string& name : cluster_->names()) {
    const std::string address = cluster_->address(name);
    for (int i = 0; i < 20; ++i) {
      const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
      sockaddr_in to{};
      to.sin_family = AF_INET;
      to.sin_port = htons(static_cast<uint16_t>(std::stoi(address.substr(address.rfind(':') + 1))));
      to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
      ASSERT_EQ(connect(fd, reinterpret_cast<sockaddr*>(&to), sizeof(to)), 0) << name;
      std::string bytes(1 + random.Uniform(5000), '\0');
      for (char& c : bytes) c = static_cast<char>(random.Next());
      EXPECT_GT(send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL), 0);
      timeval wait{5, 0};
      setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof(wait));
      char answer[4096];
      ssize_t n;
      while ((n = recv(fd, answer, sizeof(answer), 0)) > 0) {
      }
      EXPECT_TRUE(n == 0 || errno == ECONNRESET) << name << " kept a malformed connection open";
      close(fd);
    }
  }
  std::string out;
  EXPECT_EQ(Nova({"put", "alive", "yes"}, &out), 0) << out;
}

// Each program, with each bad start: exit 2, and one line that names the cause.
TEST_F(ToolTest, BadStartsAreOneLineAndExitTwo) {
  struct Case {
    std::vector<std::string> argv;
    std::string says;
  };
  const std::string bin = NOVA_BINARY_DIR "/bin/";
  const std::string zookeeper = "--zookeeper=" + cluster_->zookeeper()->hosts();
  const std::string nobody = StrCat("--zookeeper=127.0.0.1:", FreePort());
  const std::string coordinators = "--coordinators=" + cluster_->coordinators();
  const std::string taken = "--address=" + cluster_->address("ltc-0");
  const std::vector<Case> cases = {
      {{bin + "nova_ltc", "--nonsense=1"}, "nonsense"},
      {{bin + "nova_ltc", zookeeper, coordinators, "--name=x", "--log_replicas=99"}, "log_replicas"},
      {{bin + "nova_ltc", zookeeper, coordinators, "--name=x", "--memtable_mb=4MB"}, "memtable_mb"},
      {{bin + "nova_ltc", nobody, coordinators, "--name=x", "--zookeeper_connect_ms=500"}, "ZooKeeper"},
      {{bin + "nova_ltc", zookeeper, coordinators, "--name=x", taken}, "in use"},
      {{bin + "nova_ltc", zookeeper, coordinators}, "--name"},
      {{bin + "nova_stoc", "--nonsense=1"}, "nonsense"},
      {{bin + "nova_stoc", zookeeper, coordinators, "--name=x"}, "--data"},
      {{bin + "nova_stoc", zookeeper, coordinators, "--name=x", "--data=/proc/nova"}, "/proc/nova"},
      {{bin + "nova_stoc", nobody, coordinators, "--name=x", "--data=/tmp/nova-never", "--zookeeper_connect_ms=500"}, "ZooKeeper"},
      {{bin + "nova_coordinator", nobody, "--zookeeper_connect_ms=500", "--address=127.0.0.1:0"}, "ZooKeeper"},
      {{bin + "nova_coordinator", zookeeper, "--address=" + cluster_->coordinators()}, "taken"},
      {{bin + "nova", "--coordinators=127.0.0.1:1", "--timeout_ms=1000", "get", "x"}, "coordinator"},
  };
  const std::string errors = testing::TempDir() + StrCat("nova-errors-", getpid());
  for (const Case& c : cases) {
    unlink(errors.c_str());
    auto process = Process::Start(c.argv, errors);
    ASSERT_TRUE(process.ok());
    const auto code = (*process)->Wait(Now() + 20 * kSecond);
    ASSERT_TRUE(code.ok()) << c.argv[0] << " " << c.says << ": " << code.status();
    EXPECT_EQ(*code, 2) << c.argv[0] << " " << c.says;
    FILE* f = fopen(errors.c_str(), "r");
    ASSERT_NE(f, nullptr);
    char text[8192];
    const std::string said(text, fread(text, 1, sizeof(text), f));
    fclose(f);
    EXPECT_NE(said.find(c.says), std::string::npos) << c.argv[0] << " said: " << said;
    int lines = 0;  // the log's information lines aside
    for (const std::string& line : std::vector<std::string>(absl::StrSplit(said, '\n', absl::SkipEmpty()))) lines += line[0] != 'I';
    EXPECT_EQ(lines, 1) << c.argv[0] << " said: " << said;
  }
  unlink(errors.c_str());
}

}  // namespace
}  // namespace nova
