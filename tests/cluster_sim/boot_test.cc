// A cluster boots in simulation, serves, and survives the loss of an LTC and of a StoC.
#include <gtest/gtest.h>

#include <optional>

#include "coordinator/znodes.h"
#include "tests/cluster_sim/scenario.h"

namespace nova {
namespace {

struct FourRanges {
  FourRanges() {
    cluster.StartAll();
    client = cluster.NewClient("client-0");
    EXPECT_TRUE(client->CreateRanges(SplitKeys(4)).ok());
    EXPECT_TRUE(cluster.WaitOpen(4, 20 * kSecond));
  }
  SimCluster cluster{SmallCluster()};
  std::unique_ptr<Client> client;
};

TEST(ClusterSimTest, BootsAndServes) {
  Simulation sim(1);
  SetUpSimLog(&sim);
  sim.Run([] {
    FourRanges w;
    Client* const client = w.client.get();
    for (int i = 0; i < 200; ++i) {
      const Result r = client->Put(KeyOf(i), std::string(300, 'v'));
      ASSERT_TRUE(r.ok()) << r.message;
    }
    for (int i = 0; i < 200; ++i) EXPECT_EQ(client->Get(KeyOf(i)).value, std::string(300, 'v'));
    EXPECT_EQ(client->Get("none").outcome, Outcome::kNotFound);
    EXPECT_EQ(client->Scan("", 1000).entries.size(), 200u);
  });
}

TEST(ClusterSimTest, KeepsWhatWasAcknowledgedWhenAnLtcAndAStocDie) {
  Simulation sim(2);
  SetUpSimLog(&sim);
  sim.Run([] {
    FourRanges w;
    SimCluster& cluster = w.cluster;
    Client* const client = w.client.get();
    for (int i = 0; i < 300; ++i) {
      if (i == 100) cluster.Kill("stoc-1");
      if (i == 200) cluster.Kill("ltc-0");
      const Result r = client->Put(KeyOf(i), std::string(300, 'v'));
      ASSERT_TRUE(r.ok() || r.effect() == Effect::kUnknown) << i << " " << r.message;
      if (!r.ok()) {
        ASSERT_TRUE(client->Put(KeyOf(i), std::string(300, 'v')).ok());
      }
    }
    ASSERT_TRUE(cluster.Start("stoc-1").ok());
    ASSERT_TRUE(cluster.WaitOpen(4, 20 * kSecond));
    for (int i = 0; i < 300; ++i) {
      const GetResult r = client->Get(KeyOf(i));
      EXPECT_EQ(r.value, std::string(300, 'v')) << i << " " << r.message;
    }
  });
}

// Or else it would take the name back and forth with the later one.
TEST(ClusterSimTest, AnLtcWhoseNameALaterProcessHasIsToEnd) {
  Simulation sim(1);
  SetUpSimLog(&sim);
  sim.Run([] {
    FourRanges w;
    SimCluster& cluster = w.cluster;
    Client* const client = w.client.get();
    const auto store = cluster.config()->NewSession();
    NodeInfo later = *DecodeNodeInfo(store->Get(NodePath("ltc-0"))->data);
    later.incarnation = Incarnation(later.incarnation.value() + 10);
    ASSERT_TRUE(store->Delete(NodePath("ltc-0")).ok());
    ASSERT_TRUE(store->Create(NodePath("ltc-0"), EncodeNodeInfo(later), true).ok());
    EXPECT_TRUE(cluster.ltc("ltc-0")->superseded().WaitUntil(Now() + 10 * kSecond));
    EXPECT_FALSE(cluster.ltc("ltc-1")->superseded().WaitUntil(0));
    cluster.Kill("ltc-0");
    store->Expire();
    ASSERT_TRUE(cluster.WaitOpen(4, 20 * kSecond)) << "the other one has its ranges";
    EXPECT_TRUE(client->Put(KeyOf(1), "v").ok());
  });
}

// What the store says of the node; nullopt: it is not registered.
std::optional<NodeInfo> RegisteredAs(ConfigStore* store, const std::string& node) {
  const StatusOr<Znode> znode = store->Get(NodePath(node));
  return znode.ok() ? std::optional(*DecodeNodeInfo(znode->data)) : std::nullopt;
}

// The node's session with the store ends, and it learns of that.
void ExpireSession(SimCluster* cluster, const std::string& node) {
  cluster->CutConfig(node, true);
  SleepFor(6 * kSecond);
  cluster->CutConfig(node, false);
  SleepFor(3 * kSecond);
}

// A drain that nobody asks for again, for its command gave up watching, goes on.
TEST(ClusterSimTest, ADrainOfAnLtcOutlivesItsSessionAndNotItsProcess) {
  Simulation sim(1);
  SetUpSimLog(&sim);
  sim.Run([] {
    FourRanges w;
    SimCluster& cluster = w.cluster;
    const auto store = cluster.config()->NewSession();
    CoordinatorClient coordinators = cluster.NewCoordinatorClient();
    std::string left;
    ASSERT_TRUE(coordinators.Drain("ltc-0", Now() + 5 * kSecond, &left).ok());
    SleepFor(5 * kSecond);
    const Incarnation incarnation = RegisteredAs(store.get(), "ltc-0")->incarnation;
    const int64_t created = store->Get(NodePath("ltc-0"))->created;
    ExpireSession(&cluster, "ltc-0");
    ASSERT_GT(store->Get(NodePath("ltc-0"))->created, created) << "it has registered anew";
    EXPECT_EQ(RegisteredAs(store.get(), "ltc-0")->incarnation, incarnation);
    EXPECT_TRUE(RegisteredAs(store.get(), "ltc-0")->draining);
    SleepFor(30 * kSecond);  // it would be given its share again
    for (const auto& [id, record] : cluster.Records()) EXPECT_EQ(record.owner, "ltc-1");
    ASSERT_TRUE(coordinators.Undrain("ltc-0", Now() + 5 * kSecond).ok());
    SleepFor(kSecond);
    ExpireSession(&cluster, "ltc-0");
    EXPECT_FALSE(RegisteredAs(store.get(), "ltc-0")->draining);
    ASSERT_TRUE(coordinators.Drain("ltc-0", Now() + 5 * kSecond, &left).ok());
    SleepFor(5 * kSecond);
    cluster.Kill("ltc-0");
    ASSERT_TRUE(cluster.Start("ltc-0").ok());
    EXPECT_FALSE(RegisteredAs(store.get(), "ltc-0")->draining) << "another process of that name";
  });
}

// The store behind the address is another cluster's, or was made anew.
TEST(ClusterSimTest, NodesThatRunJoinNoOtherCluster) {
  Simulation sim(1);
  SetUpSimLog(&sim);
  sim.Run([] {
    FourRanges w;
    SimCluster& cluster = w.cluster;
    const auto store = cluster.config()->NewSession();
    const std::string own = store->Get(kClusterPath)->data;
    ASSERT_TRUE(store->Set(kClusterPath, ClusterRecord{kClusterFormat, Uuid{9, 9}}.Encode(), -1).ok());
    for (const char* node : {"ltc-0", "stoc-0"}) {
      ExpireSession(&cluster, node);
      SleepFor(5 * kSecond);
      EXPECT_FALSE(RegisteredAs(store.get(), node).has_value()) << node;
    }
    EXPECT_FALSE(cluster.ltc("ltc-0")->superseded().HasBeenNotified()) << "it waits for its own";
    EXPECT_FALSE(cluster.stoc("stoc-0")->superseded().HasBeenNotified());
    ASSERT_TRUE(store->Set(kClusterPath, own, -1).ok());
    SleepFor(5 * kSecond);
    for (const char* node : {"ltc-0", "stoc-0"})
      EXPECT_TRUE(RegisteredAs(store.get(), node).has_value()) << node;
    ASSERT_TRUE(cluster.WaitOpen(4, 20 * kSecond));
    EXPECT_TRUE(w.client->Put(KeyOf(1), "v").ok());
  });
}

// Of its only range.
int Level0RunsOf(const LtcNode& ltc) {
  const std::string text = ltc.StatusText();
  const size_t end = text.find(" Level0 runs"), begin = text.rfind(' ', end - 1);
  return end == std::string::npos ? -1 : std::stoi(text.substr(begin, end - begin));
}

TEST(ClusterSimTest, AnIdleLtcMergesLevel0Down) {
  Simulate(1, [] {
    SimClusterOptions options = SmallCluster();
    options.ltc.hosted.range.compaction.level0_runs_trigger = 16;
    options.ltc.hosted.range.level0_slow_runs = 32;
    options.ltc.hosted.range.level0_stop_runs = 64;
    OneRange w(options);
    const LtcNode& owner = *w.cluster.ltc(w.Record().owner);
    for (int i = 0; i < 2000 && Level0RunsOf(owner) < 3; ++i)
      ASSERT_TRUE(w.client->Put(KeyOf(i % 50), std::string(1000, 'v')).ok());
    ASSERT_GE(Level0RunsOf(owner), 3) << owner.StatusText();
    SleepFor(5 * kSecond);
    EXPECT_LE(Level0RunsOf(owner), 1) << owner.StatusText();
  });
}

}  // namespace
}  // namespace nova
