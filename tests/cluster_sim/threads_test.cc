// A cluster's parts in one process, on threads and sockets of their own, while LTCs come and go: for
// ThreadSanitizer, to which a simulation is one thread, and which knows nothing of the locks that gRPC and
// ZooKeeper's client wait for. A ConfigStore in memory and calls within the process stand for these two.
#include <gtest/gtest.h>

#include "client/client_core.h"
#include "common/rdma/tcp/tcp_fabric.h"
#include "tests/cluster_sim/scenario.h"

namespace nova {
namespace {

constexpr int kRanges = 4;
constexpr int kWorkers = 2;
constexpr int kKeysEach = 1000 / kWorkers;
constexpr int kKeysOfRange = 1000 / kRanges;
constexpr char kCoordinator[] = "coordinator-0:7400";

class ThreadsTest : public testing::Test {
 protected:
  struct Node {
    Metrics metrics;
    std::unique_ptr<Fabric> fabric = NewTcpFabric();
    SimDisk medium;
    std::unique_ptr<Disk> disk = medium.Mount();
    std::unique_ptr<LtcNode> ltc;
    std::unique_ptr<StocNode> stoc;
  };

  ThreadsTest() {
    CoordinatorOptions options;
    options.name = "coordinator-0";
    options.address = kCoordinator;
    auto coordinator = CoordinatorService::Start(options, OpenStore(), &metrics_);
    EXPECT_TRUE(coordinator.ok()) << coordinator.status();
    coordinator_ = *std::move(coordinator);
    control_.Register(kCoordinator, [this](const std::string& method, const std::string& request) {
      return coordinator_->Handle(method, request);
    });
    for (int i = 0; i < 3; ++i) StartStoc(StrCat("stoc-", i));
    for (int i = 0; i < 2; ++i) StartLtc(StrCat("ltc-", i));
  }
  ~ThreadsTest() override {
    clients_.clear();
    for (auto& [name, node] : nodes_) node.ltc = nullptr;
    nodes_.clear();
    control_.Unregister(kCoordinator);
  }

  std::function<StatusOr<std::unique_ptr<ConfigStore>>()> OpenStore() {
    return [this] { return std::unique_ptr<ConfigStore>(config_.NewSession()); };
  }
  std::unique_ptr<ControlChannel> OpenChannel(const std::string& from) {
    return control_.NewChannel(from, {kCoordinator});
  }
  void StartStoc(const std::string& name) {
    Node& node = nodes_[name];
    StocOptions options = small_.stoc;
    options.name = name;
    options.xchg_threads = 2;
    auto stoc = StocNode::Start(options, {OpenStore(), [this, name] { return OpenChannel(name); },
                                          node.fabric.get(), node.disk.get(), &node.metrics});
    ASSERT_TRUE(stoc.ok()) << stoc.status();
    node.stoc = *std::move(stoc);
  }
  void StartLtc(const std::string& name) {
    nodes_.erase(name);
    Node& node = nodes_[name];
    LtcOptions options = small_.ltc;
    options.name = name;
    options.xchg_threads = 2;
    options.background.flush_threads = options.background.compaction_threads = 2;
    auto ltc = LtcNode::Start(
        options, {OpenStore(), [this, name] { return OpenChannel(name); }, node.fabric.get(), &node.metrics});
    ASSERT_TRUE(ltc.ok()) << ltc.status();
    node.ltc = *std::move(ltc);
  }
  Client* NewClient(const std::string& name) {
    ClientOptions options;
    options.timeout_ms = 60'000;
    options.threads = 2;
    const ClientEnvironment environment{[] { return StatusOr<std::unique_ptr<Fabric>>(NewTcpFabric()); },
                                        [this, name] { return OpenChannel(name); }};
    auto client = Client::Connect(options, environment);
    EXPECT_TRUE(client.ok()) << client.status();
    clients_.push_back(*std::move(client));
    return clients_.back().get();
  }

  // One writer of the keys from `first` on, who repeats what is unknown, and knows what is there.
  void Work(Client* client, int first, const std::atomic<bool>* stop) {
    std::map<std::string, std::string> model;
    Random random(static_cast<uint64_t>(first));
    const auto until_known = [&](const std::function<Result()>& attempt) {
      Result r = attempt();
      while (r.effect() == Effect::kUnknown) r = attempt();
      ASSERT_TRUE(r.ok()) << r.message;
    };
    while (!stop->load() && !HasFailure()) {
      ++operations_;
      const int i = static_cast<int>(random.Uniform(kKeysEach));
      const std::string key = KeyOf(first + i), other = KeyOf(first + i / 100 * 100),
                        end = KeyOf(std::min(first + i + 5, 999));
      const std::string value(1 + random.Uniform(400), static_cast<char>('a' + random.Uniform(26)));
      switch (random.Uniform(12)) {
        case 0:
          until_known([&] { return client->Delete(key); });
          model.erase(key);
          break;
        case 1:
          if (i + 5 > kKeysEach) break;
          until_known([&] { return client->DeleteRange(key, end); });
          model.erase(model.lower_bound(key), model.lower_bound(end));
          break;
        case 2: {
          if ((first + i) / kKeysOfRange != (first + i / 100 * 100) / kKeysOfRange) break;  // K6
          WriteBatch batch;
          batch.Put(key, value);
          batch.Put(other, value);
          until_known([&] { return client->Write(batch); });
          model[key] = model[other] = value;
          break;
        }
        case 3:
        case 4:
        case 5: {
          const GetResult r = client->Get(key);
          const auto expected = model.find(key);
          ASSERT_EQ(r.outcome, expected == model.end() ? Outcome::kNotFound : Outcome::kOk)
              << key << " " << r.message;
          ASSERT_TRUE(expected == model.end() || r.value == expected->second) << key;
          break;
        }
        default:
          until_known([&] { return client->Put(key, value); });
          model[key] = value;
      }
    }
    const ScanResult all = client->Scan(
        KeyOf(first), ScanOptions{.to = first + kKeysEach < 1000 ? KeyOf(first + kKeysEach) : ""});
    ASSERT_TRUE(all.ok()) << all.message;
    EXPECT_EQ((std::map<std::string, std::string>(all.entries.begin(), all.entries.end())), model);
    EXPECT_FALSE(model.empty());
  }
  // Reads of all kinds, of what the workers write; through a client that others use as well.
  void Read(Client* client, const std::atomic<bool>* stop) {
    const auto expect = [](const Result& r) {
      ASSERT_TRUE(r.ok() || r.outcome == Outcome::kSnapshotEnded) << r.message;
    };
    for (int n = 0; !stop->load() && !HasFailure(); ++n) {
      const SnapshotResult taken = client->TakeSnapshot();
      ASSERT_NO_FATAL_FAILURE(expect(taken));
      if (!taken.ok()) continue;
      ASSERT_NO_FATAL_FAILURE(
          expect(client->Scan("", ScanOptions{.reverse = n % 2 == 0, .snapshot = taken.snapshot})));
      const std::string one = KeyOf(n % 1000), two = KeyOf(n * 7 % 1000);
      const std::string_view keys[] = {one, two};
      ASSERT_NO_FATAL_FAILURE(expect(client->MultiGet(keys, {taken.snapshot})));
      ++reads_;
    }
  }

  // What a person or Prometheus asks for meanwhile.
  void WatchFor(Nanos time) {
    for (const Nanos until = Now() + time; Now() < until && !HasFailure(); SleepFor(20 * kMillisecond)) {
      EXPECT_NE(clients_[0]->StatusText().find("stoc-0"), std::string::npos);
      EXPECT_FALSE(coordinator_->StatusText().empty());
      for (const auto& [name, node] : nodes_) {
        if (node.ltc == nullptr && node.stoc == nullptr) continue;
        EXPECT_FALSE((node.ltc != nullptr ? node.ltc->StatusText() : node.stoc->StatusText()).empty());
        EXPECT_FALSE(node.metrics.PrometheusText().empty());
      }
    }
  }

  const SimClusterOptions small_ = SmallCluster();
  MemoryConfig config_{{.session_timeout_ns = 2 * kSecond}};
  SimControlNetwork control_;
  Metrics metrics_;
  std::unique_ptr<CoordinatorService> coordinator_;
  std::map<std::string, Node> nodes_;
  std::vector<std::unique_ptr<Client>> clients_;
  std::atomic<uint64_t> operations_{0}, reads_{0};
};

TEST_F(ThreadsTest, ClientsWorkWhileLtcsStopStartAndDie) {
  std::atomic<bool> stop{false};
  ASSERT_TRUE(NewClient("client-0")->CreateRanges(SplitKeys(kRanges)).ok());
  std::vector<std::unique_ptr<Thread>> threads;
  for (int w = 0; w < kWorkers; ++w) {
    Client* const client = w == 0 ? clients_[0].get() : NewClient(StrCat("client-", w));
    threads.push_back(std::make_unique<Thread>(
        StrCat("worker.", w), [this, client, w, &stop] { Work(client, w * kKeysEach, &stop); }));
  }
  threads.push_back(std::make_unique<Thread>("reader", [this, &stop] { Read(clients_[0].get(), &stop); }));
  WatchFor(3 * kSecond);
  EXPECT_TRUE(nodes_.at("ltc-0").ltc->Stop(Now() + 60 * kSecond).ok());
  StartLtc("ltc-0");
  WatchFor(kSecond);
  nodes_.at("ltc-1").ltc = nullptr;  // as a crash
  WatchFor(5 * kSecond);
  stop = true;
  threads.clear();
  EXPECT_GT(operations_.load(), 500u);
  EXPECT_GT(reads_.load(), 10u);
}

}  // namespace
}  // namespace nova
