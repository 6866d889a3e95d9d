// nova_coordinator as a process, with a real ZooKeeper and gRPC.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>

#include "absl/strings/str_split.h"
#include "common/base/mutex.h"
#include "common/config/zookeeper_store.h"
#include "coordinator/coordinator_client.h"
#include "coordinator/grpc_channel.h"
#include "tests/cluster/process.h"
#include "tests/cluster/zookeeper_server.h"

namespace nova {
namespace {

constexpr char kProgram[] = NOVA_BINARY_DIR "/bin/nova_coordinator";
constexpr Nanos kSession = 2 * kSecond;

Nanos In(Nanos ns) { return Now() + ns; }

// An LTC that opens what it is given.
class Ltc {
 public:
  Ltc(const std::string& zookeeper, const std::string& name, std::vector<std::string> coordinators) {
    store_ = std::move(OpenZookeeper(zookeeper, "/nova", 4 * kSession, In(20 * kSecond))).value();
    NodeOptions options;
    options.node.name = name;
    options.node.role = Role::kLtc;
    options.node.address = name + ":1";
    NodeEvents events;
    events.assigned = [this](const RangeAssignment& a) {
      RangeRecord r = a.record;
      if (Now() < a.old_lease_ends_ns) return;
      r.state = RangeState::kOpen;
      MutexLock lock(&mu_);
      opens_[r.id] = r;
    };
    events.report = [this] {
      // Not the heartbeat's business to write; a test may.
      std::map<RangeId, RangeRecord> opens;
      {
        MutexLock lock(&mu_);
        opens.swap(opens_);
      }
      NodeReport report;
      for (const auto& [id, r] : opens) {
        if (session_ != nullptr && session_->UpdateRange(r).ok()) open_[id] = r.epoch;
      }
      for (const auto& [id, epoch] : open_) report.ranges.push_back({id, epoch, true, 0, 0, 0});
      return report;
    };
    auto session = JoinCluster(store_.get(), OpenGrpcChannel(std::move(coordinators)), options, events);
    EXPECT_TRUE(session.ok()) << session.status();
    session_ = *std::move(session);
  }
  ~Ltc() { session_.reset(); }
  NodeSession* session() { return session_.get(); }

 private:
  std::unique_ptr<ConfigStore> store_;
  Mutex mu_;
  std::map<RangeId, RangeRecord> opens_ ABSL_GUARDED_BY(mu_);
  std::map<RangeId, Epoch> open_;  // heartbeat thread
  std::unique_ptr<NodeSession> session_;
};

class CoordinatorProcessTest : public testing::Test {
 protected:
  void SetUp() override {
    StatusOr<std::unique_ptr<ZookeeperServer>> server = ZookeeperServer::Start();
    if (absl::IsNotFound(server.status())) GTEST_SKIP() << server.status().message();
    ASSERT_TRUE(server.ok()) << server.status();
    zookeeper_ = *std::move(server);
    errors_ =
        (std::filesystem::temp_directory_path() / StrCat("nova-coordinator-", getpid(), ".err")).string();
  }
  void TearDown() override { std::filesystem::remove(errors_); }

  StatusOr<std::unique_ptr<Process>> Run(std::vector<std::string> flags) {
    std::filesystem::remove(errors_);
    flags.insert(flags.begin(), kProgram);
    return Process::Start(flags, errors_);
  }
  // Started and serving; its gRPC address.
  std::string StartCoordinator(const std::string& name, const std::vector<std::string>& more = {}) {
    std::vector<std::string> flags = {"--zookeeper=" + zookeeper_->hosts(),
                                      StrCat("--zookeeper_session_ms=", kSession / kMillisecond),
                                      "--address=127.0.0.1:0", "--name=" + name};
    flags.insert(flags.end(), more.begin(), more.end());
    auto process = Run(flags);
    EXPECT_TRUE(process.ok()) << process.status();
    const StatusOr<std::string> line = (*process)->ReadLine(In(30 * kSecond));
    EXPECT_TRUE(line.ok()) << line.status() << Errors();
    const std::vector<std::string> words = absl::StrSplit(line.ok() ? *line : "", ' ');
    EXPECT_EQ(words.size(), 4u);
    if (words.size() != 4) return "";
    EXPECT_EQ(words[0], "ready");
    EXPECT_EQ(words[1], name);
    coordinators_[name] = *std::move(process);
    http_[name] = words[3];
    return words[2];
  }
  std::string Errors() const {
    std::stringstream text;
    text << std::ifstream(errors_).rdbuf();
    return text.str();
  }

  std::unique_ptr<ZookeeperServer> zookeeper_;
  std::map<std::string, std::unique_ptr<Process>> coordinators_;
  std::map<std::string, std::string> http_;  // address of the pages
  std::string errors_;
};

bool AllOpen(CoordinatorClient* client, size_t n, Nanos deadline_ns) {
  Configuration config;
  while (Now() < deadline_ns) {
    if (client->Refresh(&config, In(kSecond)).ok() && config.ranges.size() == n) {
      size_t open = 0;
      for (const auto& [lower, route] : config.ranges) open += route.open && !route.address.empty();
      if (open == n) return true;
    }
    SleepFor(20 * kMillisecond);
  }
  return false;
}

// The answer to a GET, headers and all.
std::string HttpGet(const std::string& address, const std::string& path) {
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_port = htons(static_cast<uint16_t>(std::stoi(address.substr(address.rfind(':') + 1))));
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const std::string request = StrCat("GET ", path, " HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n");
  std::string answer;
  if (connect(fd, reinterpret_cast<sockaddr*>(&to), sizeof(to)) == 0 &&
      write(fd, request.data(), request.size()) == static_cast<ssize_t>(request.size())) {
    char bytes[4096];
    for (ssize_t n = read(fd, bytes, sizeof(bytes)); n > 0; n = read(fd, bytes, sizeof(bytes))) {
      answer.append(bytes, static_cast<size_t>(n));
    }
  }
  close(fd);
  return answer;
}

TEST_F(CoordinatorProcessTest, ShowsMetricsAndAPageForPeople) {
  CoordinatorClient client(OpenGrpcChannel({StartCoordinator("c1")}));
  ASSERT_TRUE(client.CreateRanges({}, In(5 * kSecond)).ok());
  const std::string metrics = HttpGet(http_["c1"], "/metrics");
  EXPECT_NE(metrics.find("200 OK"), std::string::npos);
  EXPECT_NE(metrics.find("\nnova_coordinator_leading 1\n"), std::string::npos) << metrics;
  const std::string page = HttpGet(http_["c1"], "/");
  EXPECT_NE(page.find("coordinator c1 at "), std::string::npos) << page;
  EXPECT_NE(page.find("no owner"), std::string::npos) << page;
  EXPECT_NE(HttpGet(http_["c1"], "/nothing").find("404"), std::string::npos);
}

// Row 33: the other one leads within the session timeout + 2 s, and no range moved.
TEST_F(CoordinatorProcessTest, AKilledLeaderIsReplaced) {
  const std::string a = StartCoordinator("c1");
  SleepFor(500 * kMillisecond);
  const std::string b = StartCoordinator("c2");
  const std::vector<std::string> both = {a, b};
  Ltc ltc1(zookeeper_->hosts(), "ltc-1", both);
  Ltc ltc2(zookeeper_->hosts(), "ltc-2", both);
  CoordinatorClient client(OpenGrpcChannel(both));
  ASSERT_TRUE(client.CreateRanges({std::string("\0m", 2)}, In(5 * kSecond)).ok());
  ASSERT_TRUE(AllOpen(&client, 2, In(10 * kSecond)));
  const auto before = std::move(ltc1.session()->ReadRanges()).value();

  coordinators_.at("c1")->Kill();
  const Nanos killed = Now();
  StatusOr<std::string> text = client.StatusText(In(10 * kSecond));
  const Nanos took = Now() - killed;
  ASSERT_TRUE(text.ok()) << text.status();
  EXPECT_NE(text->find("coordinator c2 at "), std::string::npos) << *text;
  EXPECT_LE(took, kSession + 2 * kSecond);
  RecordProperty("failover_ms", static_cast<int>(took / kMillisecond));
  SleepFor(4 * kSecond);
  EXPECT_GT(ltc1.session()->lease_expiry_ns(), Now());
  EXPECT_GT(ltc2.session()->lease_expiry_ns(), Now());
  const auto after = std::move(ltc1.session()->ReadRanges()).value();
  ASSERT_EQ(after.size(), before.size());
  for (size_t i = 0; i < after.size(); ++i) EXPECT_EQ(after[i].Encode(), before[i].Encode());
}

// The only coordinator is killed and started again, at another address: a new range can be made within the
// session timeout + 2 s, and an LTC that was told of the old address opens it.
TEST_F(CoordinatorProcessTest, AKilledLeaderThatIsStartedAgainServesSoon) {
  const std::string before = StartCoordinator("c1");
  Ltc ltc(zookeeper_->hosts(), "ltc-1", {before});
  const auto has_lease = [&] { return ltc.session()->lease_expiry_ns() > Now(); };
  for (const Nanos until = In(5 * kSecond); !has_lease() && Now() < until;) SleepFor(10 * kMillisecond);
  ASSERT_TRUE(has_lease());
  coordinators_.at("c1")->Kill();
  const Nanos killed = Now();
  CoordinatorClient client(OpenGrpcChannel({StartCoordinator("c1")}));
  const Status s = client.CreateRanges({}, In(10 * kSecond));
  EXPECT_TRUE(s.ok()) << s;
  EXPECT_LE(Now() - killed, kSession + 2 * kSecond);
  EXPECT_TRUE(AllOpen(&client, 1, In(5 * kSecond)));
  EXPECT_TRUE(has_lease());
}

TEST_F(CoordinatorProcessTest, StopsInOrderAndTheNextLeadsAtOnce) {
  const std::string a = StartCoordinator("c1");
  SleepFor(500 * kMillisecond);
  const std::string b = StartCoordinator("c2");
  coordinators_.at("c1")->Signal(SIGTERM);
  EXPECT_EQ(*coordinators_.at("c1")->Wait(In(10 * kSecond)), 0);
  const Nanos stopped = Now();
  CoordinatorClient client(OpenGrpcChannel({b}));
  EXPECT_TRUE(client.StatusText(In(5 * kSecond)).ok());
  EXPECT_LT(Now() - stopped, kSecond);
}

// Row 33: stopped for longer than its session, it wakes as a follower.
TEST_F(CoordinatorProcessTest, AStoppedLeaderWakesAsAFollower) {
  const std::string a = StartCoordinator("c1");
  SleepFor(500 * kMillisecond);
  const std::string b = StartCoordinator("c2");
  coordinators_.at("c1")->Signal(SIGSTOP);
  CoordinatorClient second(OpenGrpcChannel({b}));
  ASSERT_TRUE(second.StatusText(In(10 * kSecond)).ok());
  coordinators_.at("c1")->Signal(SIGCONT);
  CoordinatorClient first(OpenGrpcChannel({a}));
  for (int i = 0; i < 20; ++i) {
    const StatusOr<std::string> text = first.StatusText(In(10 * kSecond));  // by way of the leader it names
    ASSERT_TRUE(text.ok()) << text.status();
    EXPECT_NE(text->find("coordinator c2 at "), std::string::npos) << *text;
    SleepFor(50 * kMillisecond);
  }
}

// Row 36: ZooKeeper away for longer than a session, and back.
TEST_F(CoordinatorProcessTest, AZookeeperThatComesBackIsUsedAgain) {
  const std::string a = StartCoordinator("c1");
  CoordinatorClient client(OpenGrpcChannel({a}));
  ASSERT_TRUE(client.CreateRanges({}, In(5 * kSecond)).ok());
  zookeeper_->Kill();
  SleepFor(kSession + kSecond);
  EXPECT_FALSE(client.StatusText(In(500 * kMillisecond)).ok());  // no session: it does not lead (C3)
  ASSERT_TRUE(zookeeper_->Restart().ok());
  const StatusOr<std::string> text = client.StatusText(In(15 * kSecond));
  ASSERT_TRUE(text.ok()) << text.status();
  EXPECT_NE(text->find("coord_epoch"), std::string::npos);
}

// A StoC's membership: its process serves nothing.
class Stoc {
 public:
  // Formats a store where `id` is 0.
  Stoc(const std::string& zookeeper, const std::string& name, const std::vector<std::string>& coordinators,
       StocId id = {}) {
    store_ = std::move(OpenZookeeper(zookeeper, "/nova", kSession, In(20 * kSecond))).value();
    NodeOptions options;
    options.node.name = name;
    options.node.role = Role::kStoc;
    options.node.address = name + ":1";
    options.node.store = Uuid{1, name.back() - uint64_t{'0'}};
    options.node.stoc_id =
        id != StocId() ? id : std::move(DrawStocId(store_.get(), options.node.store, name)).value();
    auto session = JoinCluster(store_.get(), OpenGrpcChannel(coordinators), options, {});
    EXPECT_TRUE(session.ok()) << session.status();
    session_ = *std::move(session);
  }
  StocId id() const { return session_->self().stoc_id; }

 private:
  std::unique_ptr<ConfigStore> store_;
  std::unique_ptr<NodeSession> session_;
};

// With a real store and gRPC: lost, back, drained over restarts of itself and of the coordinator, undrained.
TEST_F(CoordinatorProcessTest, N5AStocIsLostComesBackAndDrainsOn) {
  const std::vector<std::string> flags = {"--stoc_down_after=3"};
  const std::string a = StartCoordinator("c1", flags);
  CoordinatorClient client(OpenGrpcChannel({a}));
  auto one = std::make_unique<Stoc>(zookeeper_->hosts(), "stoc-1", std::vector<std::string>{a});
  const Stoc two(zookeeper_->hosts(), "stoc-2", {a});
  const StocId id = one->id();
  const auto says = [&](CoordinatorClient* to, const std::string& what) {
    std::string text;
    for (const Nanos until = In(15 * kSecond); Now() < until; SleepFor(50 * kMillisecond)) {
      text = to->StatusText(In(5 * kSecond)).value_or("");
      if (text.find(what) != text.npos) return true;
    }
    ADD_FAILURE() << what << " is not in " << text;
    return false;
  };
  ASSERT_TRUE(says(&client, StrCat("stoc ", id.value(), "\n")));
  one.reset();
  ASSERT_TRUE(says(&client, StrCat("stoc ", id.value(), ", away since ")));
  ASSERT_TRUE(says(&client, StrCat("stoc ", id.value(), ", lost, away since ")));
  one = std::make_unique<Stoc>(zookeeper_->hosts(), "stoc-1", std::vector<std::string>{a}, id);
  ASSERT_TRUE(says(&client, StrCat("stoc ", id.value(), "\n")));
  std::string left;
  ASSERT_TRUE(client.Drain("stoc-1", In(5 * kSecond), &left).ok());
  EXPECT_TRUE(absl::IsFailedPrecondition(client.Drain("stoc-2", In(5 * kSecond), &left, true)));
  coordinators_.at("c1")->Kill();
  const std::string b = StartCoordinator("c2", flags);
  CoordinatorClient second(OpenGrpcChannel({b}));
  one.reset();
  one = std::make_unique<Stoc>(zookeeper_->hosts(), "stoc-1", std::vector<std::string>{b}, id);
  ASSERT_TRUE(says(&second, StrCat("stoc ", id.value(), ", drained\n")));
  ASSERT_TRUE(second.Undrain("stoc-1", In(5 * kSecond)).ok());
  ASSERT_TRUE(says(&second, StrCat("stoc ", id.value(), "\n")));
}

TEST_F(CoordinatorProcessTest, WhatItCannotStartWithIsOneLineAndExitCode2) {
  const std::string a = StartCoordinator("c1");
  const std::string zookeeper = "--zookeeper=" + zookeeper_->hosts();
  const std::vector<std::vector<std::string>> cases = {
      {},
      {zookeeper, "--no_such_flag=1"},
      {zookeeper, "--lease_ms=many"},
      {zookeeper, "--lease_ms=1"},
      {zookeeper, "--clock_rate_error=0.5"},
      {zookeeper, "--stoc_down_after=0"},
      {zookeeper, "--stoc_down_after=-5"},
      {zookeeper, "--address=nowhere"},
      {zookeeper, "--address=" + a},
      {zookeeper, "--address=127.0.0.1:0", "--metrics_address=" + a},
      {zookeeper, "--address=127.0.0.1:0", "--chroot=relative"},
      {zookeeper, "--address=127.0.0.1:0", "--name=two words"},
      {zookeeper, "--address=127.0.0.1:0", "stray"},
      {"--zookeeper=127.0.0.1:1", "--zookeeper_connect_ms=300", "--address=127.0.0.1:0"},
  };
  for (const auto& flags : cases) {
    SCOPED_TRACE(flags.empty() ? "" : flags.back());
    auto process = Run(flags);
    ASSERT_TRUE(process.ok());
    const StatusOr<int> code = (*process)->Wait(In(20 * kSecond));
    ASSERT_TRUE(code.ok());
    EXPECT_EQ(*code, 2);
    const std::string said = Errors();
    EXPECT_EQ(std::count(said.begin(), said.end(), '\n'), 1) << said;
  }
}

}  // namespace
}  // namespace nova
