// StoCs' records (N5) and drains, in virtual time: coordinators and the membership of nodes as they are.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include "absl/strings/match.h"
#include "tests/coordinator/sim_cluster.h"

namespace nova {
namespace {

constexpr Nanos kDownAfter = 20 * kSecond;

Nanos Soon() { return Now() + 20 * kSecond; }

void InSimulation(uint64_t seed, const std::function<void()>& body) {
  SCOPED_TRACE(StrCat("seed ", seed));
  Simulation sim(seed);
  sim.Run(body);
}

// Two coordinators, of which c1 leads, two LTCs, StoCs.
struct World {
  explicit World(int stoc_count, MemoryConfigOptions config = {.session_timeout_ns = 4 * kSecond})
      : cluster(config) {
    cluster.cluster_options.stoc_down_after_ns = kDownAfter;
    cluster.StartCoordinator("c1");
    SleepFor(kSecond);
    cluster.StartCoordinator("c2");
    for (int i = 1; i <= 2; ++i) ltcs.push_back(cluster.StartLtc(StrCat("ltc-", i)));
    for (int i = 1; i <= stoc_count; ++i) stocs.push_back(cluster.StartStoc(StrCat("stoc-", i)));
    SleepFor(2 * kSecond);
  }
  // At every LTC, within the time; how long that took.
  Nanos WaitFor(const std::function<bool(const StocList&)>& is_so, Nanos within) {
    const Nanos start = Now();
    for (; Now() < start + within; SleepFor(10 * kMillisecond)) {
      bool everywhere = true;
      for (SimLtc* ltc : ltcs) everywhere = everywhere && is_so(ltc->stocs());
      if (everywhere) return Now() - start;
    }
    ADD_FAILURE() << "not within " << within / kSecond << " s: " << Status();
    return within;
  }
  std::string Status() { return cluster.NewClient().StatusText(Soon()).value_or("no status"); }
  StocRecord Record(int stoc) { return cluster.StocRecordOf(stocs.at(static_cast<size_t>(stoc - 1))->id()); }
  SimStoc* stoc(int n) { return stocs.at(static_cast<size_t>(n - 1)); }
  absl::Status Drain(const std::string& node, bool force = false) {
    return cluster.NewClient().Drain(node, Soon(), &left, force);
  }

  SimCluster cluster;
  std::vector<SimLtc*> ltcs;
  std::vector<SimStoc*> stocs;
  std::string left;
};

bool IsLost(const StocList& list, StocId id) {
  return std::find(list.lost.begin(), list.lost.end(), id) != list.lost.end();
}
// Null: it is not among those to place on.
const NodeInfo* FindLive(const StocList& list, StocId id) {
  for (const NodeInfo& n : list.live) {
    if (n.stoc_id == id) return &n;
  }
  return nullptr;
}
bool Drains(const StocList& list, StocId id) {
  const NodeInfo* const node = FindLive(list, id);
  return node != nullptr && node->draining;
}

TEST(StocSimTest, N5ADeadStocIsAwayThenLostAtEveryLtcAndUpWhenItIsBack) {
  for (uint64_t seed = 1; seed <= 5; ++seed) {
    InSimulation(seed, [] {
      World w(3);
      EXPECT_EQ(w.Record(1).host, "host-of-stoc-1");
      EXPECT_EQ(w.ltcs[0]->stocs().live.size(), 3u);
      const StocId id = w.stoc(1)->id();
      w.stoc(1)->Cut();
      const Nanos cut = Now();
      w.WaitFor([&](const StocList& list) { return FindLive(list, id) == nullptr; }, 4 * kSecond);
      SleepFor(kSecond);
      EXPECT_EQ(w.Record(1).presence, StocPresence::kAway);
      EXPECT_EQ(w.ltcs[0]->stocs().lost.size(), 0u);
      EXPECT_TRUE(absl::StrContains(w.Status(), "stoc 1, away since ")) << w.Status();
      w.WaitFor([&](const StocList& list) { return IsLost(list, id); }, kDownAfter);
      EXPECT_GE(Now() - cut, kDownAfter - kSecond);
      EXPECT_LE(Now() - cut, kDownAfter + kSecond);
      EXPECT_EQ(w.Record(1).presence, StocPresence::kLost);
      EXPECT_TRUE(absl::StrContains(w.Status(), "stoc 1, lost, away since ")) << w.Status();
      w.stoc(1)->Start();
      w.WaitFor([&](const StocList& list) { return FindLive(list, id) != nullptr && !IsLost(list, id); },
                3 * kSecond);
      SleepFor(kSecond);
      EXPECT_EQ(w.Record(1).presence, StocPresence::kUp);
      EXPECT_EQ(w.Record(1).away_ms, 0);
    });
  }
}

// The time that the leader that died has listened counts, but for a quarter; the time without a leader
// does not.
TEST(StocSimTest, N5TheNextLeaderGoesOnListening) {
  InSimulation(1, [] {
    World w(2);
    const StocId id = w.stoc(2)->id();
    w.stoc(2)->Cut();
    const Nanos cut = Now();
    SleepFor(12 * kSecond);
    w.cluster.CutCoordinator("c1", true);
    w.WaitFor([&](const StocList& list) { return IsLost(list, id); }, kDownAfter);
    EXPECT_GE(Now() - cut, kDownAfter + 3 * kSecond) << "a session went by without a leader";
    EXPECT_LE(Now() - cut, kDownAfter + kDownAfter / 4 + 6 * kSecond);
  });
}

// A restart, and a leader that is replaced, say nothing against a StoC.
TEST(StocSimTest, N5ARestartLosesNothing) {
  InSimulation(2, [] {
    World w(3);
    w.stoc(1)->Stop();
    SleepFor(kSecond);
    w.stoc(1)->Start();
    w.cluster.CutCoordinator("c1", true);
    const Nanos until = Now() + 2 * kDownAfter;
    for (; Now() < until; SleepFor(50 * kMillisecond)) {
      for (SimLtc* ltc : w.ltcs) EXPECT_TRUE(ltc->stocs().lost.empty());
    }
    for (int i = 1; i <= 3; ++i) EXPECT_EQ(w.Record(i).presence, StocPresence::kUp) << i;
    EXPECT_EQ(w.ltcs[1]->stocs().live.size(), 3u);
  });
}

TEST(StocSimTest, N5AReplacedDiskIsLostAtOnce) {
  InSimulation(3, [] {
    World w(2);
    w.stoc(1)->Stop();
    SimStoc* const fresh = w.cluster.StartStoc("stoc-1");
    ASSERT_NE(fresh->id(), w.stoc(1)->id());
    w.WaitFor(
        [&](const StocList& list) {
          return IsLost(list, w.stoc(1)->id()) && FindLive(list, fresh->id()) != nullptr;
        },
        3 * kSecond);
  });
}

TEST(StocSimTest, N5ADrainOutlivesARestartUntilItIsUndone) {
  InSimulation(4, [] {
    World w(4);
    const StocId id = w.stoc(1)->id();
    const auto drains = [&](const StocList& list) { return Drains(list, id); };
    ASSERT_TRUE(w.Drain("stoc-1").ok());
    EXPECT_EQ(w.left, "");
    w.WaitFor(drains, 2 * kSecond);
    w.stoc(1)->Stop();
    SleepFor(500 * kMillisecond);
    w.stoc(1)->Start();
    w.WaitFor(drains, 2 * kSecond);
    w.cluster.CutCoordinator("c1", true);
    SleepFor(8 * kSecond);
    w.WaitFor(drains, kSecond);
    EXPECT_TRUE(absl::StrContains(w.Status(), "stoc 1, drained")) << w.Status();
    CoordinatorClient client = w.cluster.NewClient();
    Configuration config;
    const auto client_sees = [&] {
      EXPECT_TRUE(client.Refresh(&config, Soon()).ok());
      return std::any_of(config.nodes.begin(), config.nodes.end(),
                         [&](const NodeInfo& n) { return n.stoc_id == id && n.draining; });
    };
    EXPECT_TRUE(client_sees());
    ASSERT_TRUE(client.Undrain("stoc-1", Soon()).ok());
    ASSERT_TRUE(client.Undrain("1", Soon()).ok()) << "it does not drain any more: as is asked for";
    EXPECT_FALSE(client_sees());
    w.WaitFor([&](const StocList& list) { return FindLive(list, id) && !Drains(list, id); }, 2 * kSecond);
    EXPECT_FALSE(absl::StrContains(w.Status(), "drain")) << w.Status();
    EXPECT_TRUE(absl::IsNotFound(client.Undrain("stoc-9", Soon())));
  });
}

// The operator says that it will not come back.
TEST(StocSimTest, N5ADrainOfTheDeadMakesThemLostAtOnce) {
  InSimulation(5, [] {
    World w(4);
    const StocId id = w.stoc(1)->id();
    w.stoc(1)->Cut();
    SleepFor(6 * kSecond);  // its session has ended
    EXPECT_EQ(w.Record(1).presence, StocPresence::kAway);
    ASSERT_TRUE(w.Drain("stoc-1").ok());
    w.WaitFor([&](const StocList& list) { return IsLost(list, id); }, 2 * kSecond);
    EXPECT_TRUE(absl::StrContains(w.Status(), ", drained")) << w.Status();
    // By its number too, and more than once.
    ASSERT_TRUE(w.Drain(StrCat(id.value())).ok());
    ASSERT_TRUE(w.cluster.NewClient().Undrain(StrCat(id.value()), Soon()).ok());
    w.stoc(1)->Start();
    w.WaitFor([&](const StocList& list) { return FindLive(list, id) && !Drains(list, id); }, 3 * kSecond);
    EXPECT_TRUE(absl::IsNotFound(w.Drain("99")));
  });
}

TEST(StocSimTest, N5ADrainThatLeavesTooFewStocsIsRefusedUnlessForced) {
  InSimulation(6, [] {
    World w(4);
    w.ltcs[0]->set_copies({3, 3, 2});
    SleepFor(kSecond);
    ASSERT_TRUE(w.Drain("stoc-1").ok());
    const absl::Status refused = w.Drain("stoc-2");
    EXPECT_TRUE(absl::IsFailedPrecondition(refused)) << refused;
    EXPECT_EQ(
        refused.message(),
        "stoc-2: 2 StoCs would be left to place on, too few for the 3 copies that are configured: add a "
        "StoC first, or drain with --force");
    EXPECT_FALSE(w.Record(2).draining);
    EXPECT_TRUE(w.Drain("stoc-1").ok()) << "it drains already: only what is left is asked for";
    EXPECT_TRUE(w.Drain("stoc-2", true).ok());
    EXPECT_TRUE(w.Drain("stoc-3", true).ok());
    const absl::Status last = w.Drain("stoc-4", true);
    EXPECT_EQ(last, absl::FailedPreconditionError("stoc-4: no other StoC is there to take what it holds"));
  });
}

// Of two StoCs that may be drained one at a time one is; of two who drain one StoC, or one LTC, both are
// told so.
TEST(StocSimTest, OperatorsWhoDrainAtOnceDoNotDisturbEachOther) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    InSimulation(seed, [] {
      World w(
          4, {.session_timeout_ns = 4 * kSecond, .max_delay_ns = 20 * kMillisecond, .lost_reply_one_in = 10});
      w.ltcs[0]->set_copies({3, 3, 2});
      SleepFor(kSecond);
      for (const std::string node : {"stoc-1", "ltc-1"}) {
        absl::Status done[2];
        {
          std::string left[2];
          std::vector<std::unique_ptr<Thread>> operators;
          for (int i = 0; i < 2; ++i) {
            operators.push_back(std::make_unique<Thread>(StrCat("operator.", i), [&, i] {
              done[i] = w.cluster.NewClient().Drain(node, Soon(), &left[i]);
            }));
          }
          for (const auto& op : operators) op->Join();
        }
        EXPECT_TRUE(done[0].ok() && done[1].ok()) << node << ": " << done[0] << ", " << done[1];
      }
      ASSERT_TRUE(w.cluster.NewClient().Undrain("stoc-1", Soon()).ok());
      absl::Status done[2];
      std::string left[2];
      std::vector<std::unique_ptr<Thread>> operators;
      for (int i = 0; i < 2; ++i) {
        operators.push_back(std::make_unique<Thread>(StrCat("operator.", i), [&, i] {
          done[i] = w.cluster.NewClient().Drain(StrCat("stoc-", 2 + i), Soon(), &left[i]);
        }));
      }
      for (const auto& op : operators) op->Join();
      EXPECT_EQ(done[0].ok() + done[1].ok(), 1) << done[0] << ", " << done[1];
      EXPECT_EQ(w.Record(2).draining + w.Record(3).draining, 1);
      w.cluster.config().set_faults(0, 0);
    });
  }
}

// Its record is not shown any more; if it comes back with its disk, it is as any other.
TEST(StocSimTest, N5OneThatIsLostAndNeededByNobodyIsForgottenAndMayComeBack) {
  for (uint64_t seed = 1; seed <= 10; ++seed) {
    InSimulation(seed, [] {
      World w(
          3, {.session_timeout_ns = 4 * kSecond, .max_delay_ns = 20 * kMillisecond, .lost_reply_one_in = 10});
      CoordinatorClient client = w.cluster.NewClient();
      const StocId id = w.stoc(1)->id();
      const auto why_not = [&] { return std::string(client.Forget(id, Soon()).message()); };
      const std::string name = StrCat("StoC ", id.value(), " (stoc-1)");
      EXPECT_EQ(why_not(), name + " is up, and not lost");
      w.stoc(1)->Cut();
      SleepFor(6 * kSecond);
      EXPECT_EQ(why_not(), name + " is away, and not lost");
      RangeRecord record;
      record.id = RangeId(1);
      record.log_groups = {{GroupId(1), {{id, Incarnation(70)}}}};
      w.cluster.config().set_faults(0, 0);
      ASSERT_TRUE(w.cluster.admin()->Create(RangePath(record.id), record.Encode()).ok());
      ASSERT_TRUE(w.Drain("stoc-1").ok());
      w.WaitFor([&](const StocList& list) { return IsLost(list, id); }, 2 * kSecond);
      EXPECT_EQ(why_not(), name + ": 1 log group left");
      ASSERT_TRUE(w.cluster.admin()->Delete(RangePath(record.id)).ok());
      SleepFor(kSecond);
      w.cluster.config().set_faults(20 * kMillisecond, 10);
      ASSERT_TRUE(client.Forget(id, Soon()).ok());
      w.cluster.config().set_faults(0, 0);
      EXPECT_TRUE(absl::IsNotFound(w.cluster.admin()->Get(StocPath(id)).status()));
      EXPECT_FALSE(absl::StrContains(w.Status(), "stoc-1")) << w.Status();
      w.WaitFor([&](const StocList& list) { return !IsLost(list, id); }, 2 * kSecond);
      EXPECT_TRUE(absl::IsNotFound(client.Forget(id, Soon())));

      w.stoc(1)->Start();
      w.WaitFor([&](const StocList& list) { return FindLive(list, id) && !Drains(list, id); }, 3 * kSecond);
      SleepFor(kSecond);
      EXPECT_EQ(w.Record(1).presence, StocPresence::kUp);
      EXPECT_EQ(w.Record(1).name, "stoc-1");
      w.stoc(1)->Cut();
      w.WaitFor([&](const StocList& list) { return IsLost(list, id); }, kDownAfter + 3 * kSecond);
    });
  }
}

// Nobody would take its ranges, and the drain would never end.
TEST(StocSimTest, TheLastLtcIsNotDrainedWhileThereAreRanges) {
  for (uint64_t seed = 1; seed <= 10; ++seed) {
    InSimulation(seed, [] {
      World w(1, {.session_timeout_ns = 4 * kSecond, .max_delay_ns = 20 * kMillisecond});
      CoordinatorClient client = w.cluster.NewClient();
      ASSERT_TRUE(w.Drain("ltc-1").ok());
      ASSERT_TRUE(w.Drain("ltc-2").ok()) << "there is no range";
      for (const char* ltc : {"ltc-1", "ltc-2"}) ASSERT_TRUE(client.Undrain(ltc, Soon()).ok());
      ASSERT_TRUE(client.CreateRanges({}, Soon()).ok());
      absl::Status done[2];
      {
        std::string left[2];
        std::vector<std::unique_ptr<Thread>> operators;
        for (int i = 0; i < 2; ++i) {
          operators.push_back(std::make_unique<Thread>(StrCat("operator.", i), [&, i] {
            done[i] = w.cluster.NewClient().Drain(w.ltcs[static_cast<size_t>(i)]->name(), Soon(), &left[i]);
          }));
        }
        for (const auto& op : operators) op->Join();
      }
      EXPECT_EQ(done[0].ok() + done[1].ok(), 1) << done[0] << ", " << done[1];
      const absl::Status& refused = done[0].ok() ? done[1] : done[0];
      const std::string drained = done[0].ok() ? "ltc-1" : "ltc-2", last = done[0].ok() ? "ltc-2" : "ltc-1";
      EXPECT_EQ(refused, absl::FailedPreconditionError(last + ": no other LTC is there to take its ranges"));
      EXPECT_FALSE(w.Drain(last, true).ok()) << "by force neither";
      EXPECT_TRUE(w.Drain(drained).ok()) << "it drains already: only what is left is asked for";
    });
  }
}

TEST(StocSimTest, AnLtcIsUndrainedToo) {
  InSimulation(7, [] {
    World w(2);
    ASSERT_TRUE(w.Drain("ltc-1").ok());
    EXPECT_TRUE(absl::StrContains(w.Status(), "0 ranges, drained")) << w.Status();
    ASSERT_TRUE(w.cluster.NewClient().Undrain("ltc-1", Soon()).ok());
    EXPECT_FALSE(absl::StrContains(w.Status(), "drain")) << w.Status();
  });
}

// Coordinators before wrote the store and the name.
TEST(StocSimTest, ARecordOfAnEarlierVersionIsLeftAsItIsUntilSomethingChanges) {
  InSimulation(8, [] {
    World w(1);
    const StocRecord r = w.Record(1);
    const std::string early = StrCat("store=", r.store.ToString(), "\nname=stoc-1\n");
    ASSERT_TRUE(w.cluster.admin()->Set(StocPath(r.id), early, r.version).ok());
    SleepFor(12 * kSecond);
    EXPECT_EQ(w.cluster.admin()->Get(StocPath(r.id))->data, early);
    w.stoc(1)->Cut();
    SleepFor(4 * kSecond);
    EXPECT_EQ(w.Record(1).presence, StocPresence::kAway);
    EXPECT_FALSE(w.Record(1).early);
  });
}

TEST(StocSimTest, ACoordinatorThatWouldCallEachStocLostDoesNotStart) {
  InSimulation(9, [] {
    MemoryConfig config;
    Metrics metrics;
    CoordinatorOptions options;
    options.name = "c1";
    options.cluster.stoc_down_after_ns = 0;
    const auto service = CoordinatorService::Start(
        options,
        [&]() -> StatusOr<std::unique_ptr<ConfigStore>> {
          return std::unique_ptr<ConfigStore>(config.NewSession());
        },
        &metrics);
    EXPECT_TRUE(absl::IsInvalidArgument(service.status())) << service.status();
  });
}

TEST(StocSimTest, GaugesCountStocsByState) {
  InSimulation(10, [] {
    SimCluster cluster;
    cluster.StartCoordinator("c1");
    std::vector<SimStoc*> stocs;
    for (int i = 1; i <= 4; ++i) stocs.push_back(cluster.StartStoc(StrCat("stoc-", i)));
    SleepFor(kSecond);
    stocs[0]->Cut();
    std::string left;
    ASSERT_TRUE(cluster.NewClient().Drain("stoc-2", Soon(), &left).ok());
    SleepFor(4 * kSecond);
    const std::string page = cluster.metrics()->PrometheusText();
    for (const char* line :
         {"nova_cluster_stocs{state=\"up\"} 3\n", "nova_cluster_stocs{state=\"away\"} 1\n",
          "nova_cluster_stocs{state=\"lost\"} 0\n", "nova_cluster_stocs{state=\"draining\"} 1\n",
          "nova_cluster_stocs{state=\"emptied\"} 0\n", "nova_cluster_stoc_disks{state=\"ok\"} 4\n",
          "nova_cluster_stoc_disks{state=\"failing\"} 0\n", "nova_cluster_rebuild_bytes 0\n",
          "# HELP nova_cluster_stocs "}) {
      EXPECT_TRUE(absl::StrContains(page, line)) << line << page;
    }
  });
}

// What a coordinator does not know it does not call 0.
TEST(StocSimTest, MetricsOfTheClusterAreToldByTheLeaderAlone) {
  InSimulation(11, [] {
    World w(2);
    ASSERT_TRUE(w.cluster.NewClient().CreateRanges({}, Soon()).ok());
    ASSERT_TRUE(w.cluster.AllServed(1, 10 * kSecond));
    std::string page = w.cluster.metrics()->PrometheusText();  // c2's
    EXPECT_FALSE(absl::StrContains(page, "nova_cluster_")) << page;
    EXPECT_FALSE(absl::StrContains(page, "nova_range_")) << page;
    w.cluster.CutCoordinator("c1", true);
    SleepFor(10 * kSecond);
    page = w.cluster.metrics()->PrometheusText();
    for (const char* line : {"nova_cluster_tables_degraded 0\n", "nova_cluster_fabric_connections 0\n",
                             "nova_range_tables_below_replicas{range=\"1\"} 0\n"})
      EXPECT_TRUE(absl::StrContains(page, line)) << line << page;
  });
}

TEST(StocSimTest, GaugesCountRangesByStateAndLtcsThatAreHeard) {
  InSimulation(12, [] {
    SimCluster cluster;
    cluster.StartCoordinator("c1");
    SimLtc* const one = cluster.StartLtc("ltc-1");
    SimLtc* const two = cluster.StartLtc("ltc-2");
    ASSERT_TRUE(cluster.NewClient().CreateRanges({"b", "c"}, Soon()).ok());
    ASSERT_TRUE(cluster.AllServed(3, 10 * kSecond));
    const auto expect = [&](const std::vector<const char*>& lines) {
      const std::string page = cluster.metrics()->PrometheusText();
      for (const char* line : lines) EXPECT_TRUE(absl::StrContains(page, line)) << line << page;
    };
    expect({"nova_cluster_ltcs 2\n", "nova_cluster_ranges{state=\"open\"} 3\n",
            "nova_cluster_ranges{state=\"unavailable\"} 0\n", "# HELP nova_cluster_ranges ",
            "# HELP nova_cluster_ltcs "});
    one->Cut();
    SleepFor(6 * kSecond);
    expect({"nova_cluster_ltcs 1\n"});
    two->Cut();
    SleepFor(3 * kSecond);
    RangeRecord record = cluster.Records().at(RangeId(1));
    record.state = RangeState::kSealing;
    record.log_groups = {{GroupId(1), {{StocId(7), Incarnation(70)}}}};
    ASSERT_TRUE(cluster.admin()->Set(RangePath(record.id), record.Encode(), record.version).ok());
    SleepFor(kSecond);
    expect({"nova_cluster_ltcs 0\n", "nova_cluster_ranges{state=\"unavailable\"} 1\n"});
  });
}

}  // namespace
}  // namespace nova
