// Coordinators and nodes as they are, in virtual time, with faults.
#include <gtest/gtest.h>

#include "coordinator/coordinator.pb.h"
#include "coordinator/leader_channel.h"
#include "coordinator/znodes.h"
#include "tests/coordinator/sim_cluster.h"

namespace nova {
namespace {

Nanos Soon() { return Now() + 20 * kSecond; }

void InSimulation(uint64_t seed, const std::function<void()>& body) {
  SCOPED_TRACE(StrCat("seed ", seed));
  Simulation sim(seed);
  sim.Run(body);
}

std::vector<std::string> Splits(int ranges) {
  std::vector<std::string> splits;
  for (int i = 1; i < ranges; ++i) splits.push_back(std::string(1, '\0') + static_cast<char>('a' + i));
  return splits;
}

TEST(CoordinatorSimTest, FirstBootGivesEachLtcItsShare) {
  InSimulation(1, [] {
    SimCluster cluster;
    cluster.StartCoordinator("c1");
    SimLtc* a = cluster.StartLtc("ltc-1");
    SimLtc* b = cluster.StartLtc("ltc-2");
    CoordinatorClient client = cluster.NewClient();
    ASSERT_TRUE(client.CreateRanges(Splits(6), Soon()).ok());
    Configuration at_once;
    ASSERT_TRUE(client.Refresh(&at_once, Soon()).ok());
    EXPECT_EQ(at_once.ranges.size(), 6u);
    EXPECT_TRUE(absl::IsAlreadyExists(client.CreateRanges({}, Soon())));
    ASSERT_TRUE(cluster.AllServed(6, 3 * kSecond));
    EXPECT_EQ(a->open().size(), 3u);
    EXPECT_EQ(b->open().size(), 3u);
    Configuration config;
    ASSERT_TRUE(client.Refresh(&config, Soon()).ok());
    EXPECT_EQ(config.ranges.size(), 6u);
    EXPECT_EQ(config.nodes.size(), 2u);
    EXPECT_EQ(config.cluster, a->session()->cluster());
    for (const auto& [lower, route] : config.ranges) {
      EXPECT_TRUE(route.open);
      EXPECT_TRUE(route.address == "ltc-1:1" || route.address == "ltc-2:1") << route.address;
    }
  });
}

TEST(CoordinatorSimTest, BadSplitPointsAreRefused) {
  InSimulation(2, [] {
    SimCluster cluster;
    cluster.StartCoordinator("c1");
    CoordinatorClient client = cluster.NewClient();
    EXPECT_TRUE(absl::IsInvalidArgument(client.CreateRanges({"b", "a"}, Soon())));
    EXPECT_TRUE(absl::IsInvalidArgument(client.CreateRanges({"a", "a"}, Soon())));
    EXPECT_TRUE(absl::IsInvalidArgument(client.CreateRanges({""}, Soon())));
    EXPECT_TRUE(absl::IsInvalidArgument(client.CreateRanges({std::string(5000, 'x')}, Soon())));
    EXPECT_TRUE(client.CreateRanges({}, Soon()).ok());
  });
}

// Row 1: the ranges of a dead LTC are open elsewhere within its lease and a moment; row 2: when it comes back
// it serves nothing.
TEST(CoordinatorSimTest, ADeadLtcsRangesAreSpreadOverTheOthers) {
  for (uint64_t seed = 1; seed <= 10; ++seed) {
    InSimulation(seed, [] {
      SimCluster cluster;
      cluster.StartCoordinator("c1");
      SimLtc* a = cluster.StartLtc("ltc-1");
      SimLtc* b = cluster.StartLtc("ltc-2");
      SimLtc* c = cluster.StartLtc("ltc-3");
      ASSERT_TRUE(cluster.NewClient().CreateRanges(Splits(6), Soon()).ok());
      ASSERT_TRUE(cluster.AllServed(6, 3 * kSecond));
      SleepFor(kSecond);
      a->Cut();
      SleepFor(2100 * kMillisecond);
      EXPECT_TRUE(a->serving().empty());
      EXPECT_TRUE(cluster.AllServed(6, 1500 * kMillisecond));
      EXPECT_EQ(b->open().size(), 3u);
      EXPECT_EQ(c->open().size(), 3u);
      a->Heal();
      SleepFor(5 * kSecond);
      EXPECT_TRUE(a->open().empty());
    });
  }
}

// Row 33: no range moves, and everything works again, within the session timeout and a moment.
TEST(CoordinatorSimTest, AKilledLeaderIsReplacedAndNothingMoves) {
  for (uint64_t seed = 1; seed <= 10; ++seed) {
    InSimulation(seed, [] {
      SimCluster cluster;
      cluster.StartCoordinator("c1");
      SleepFor(kSecond);
      CoordinatorService* c2 = cluster.StartCoordinator("c2");
      cluster.StartLtc("ltc-1");
      cluster.StartLtc("ltc-2");
      ASSERT_TRUE(cluster.NewClient().CreateRanges(Splits(4), Soon()).ok());
      ASSERT_TRUE(cluster.AllServed(4, 3 * kSecond));
      const auto before = cluster.Records();
      cluster.CutCoordinator("c1", true);
      const Nanos killed = Now();
      while (!c2->leading() && Now() < killed + 10 * kSecond) SleepFor(10 * kMillisecond);
      EXPECT_LE(Now() - killed, 4 * kSecond + 200 * kMillisecond);
      EXPECT_TRUE(cluster.AllServed(4, 2 * kSecond));
      SleepFor(10 * kSecond);
      for (const auto& [id, r] : cluster.Records()) EXPECT_EQ(r.Encode(), before.at(id).Encode());
      EXPECT_EQ(c2->coord_epoch(), CoordEpoch(2));
    });
  }
}

// A node that was told of coordinators which are all gone finds the one that leads in the store.
TEST(CoordinatorSimTest, ALeaderThatNoNodeWasToldOfIsFound) {
  for (uint64_t seed = 1; seed <= 10; ++seed) {
    InSimulation(seed, [] {
      SimCluster cluster;
      cluster.StartCoordinator("c1");
      SimLtc* ltc = cluster.StartLtc("ltc-1");
      cluster.StartLtc("ltc-2");
      ASSERT_TRUE(cluster.NewClient().CreateRanges(Splits(4), Soon()).ok());
      ASSERT_TRUE(cluster.AllServed(4, 3 * kSecond));
      std::string leader = "c1";
      for (const char* next : {"c2", "c3"}) {  // twice: what was learned is gone, too
        CoordinatorService* const other = cluster.StartCoordinator(next);
        cluster.CutCoordinator(std::exchange(leader, next), true);
        const Nanos killed = Now();
        while (!other->leading() && Now() < killed + 10 * kSecond) SleepFor(10 * kMillisecond);
        ASSERT_TRUE(other->leading());
        EXPECT_TRUE(cluster.AllServed(4, 2 * kSecond)) << next;
      }
      SleepFor(10 * kSecond);
      EXPECT_EQ(ltc->serving().size(), 2u);
      EXPECT_EQ(ltc->lost(), "");
      // One that starts with stale addresses alone becomes a member all the same.
      SimLtc late(&cluster.config(), &cluster.network(), "ltc-3", {"c1:7400"});
      SleepFor(3 * kSecond);
      EXPECT_GT(late.session()->lease_expiry_ns(), Now());
    });
  }
}

// C2: leader and LTC die together; the new leader has never heard of the LTC, and its ranges move all the
// same.
TEST(CoordinatorSimTest, LeaderAndLtcDieTogether) {
  InSimulation(3, [] {
    SimCluster cluster;
    cluster.StartCoordinator("c1");
    SleepFor(kSecond);
    CoordinatorService* c2 = cluster.StartCoordinator("c2");
    SimLtc* a = cluster.StartLtc("ltc-1");
    SimLtc* b = cluster.StartLtc("ltc-2");
    ASSERT_TRUE(cluster.NewClient().CreateRanges(Splits(4), Soon()).ok());
    ASSERT_TRUE(cluster.AllServed(4, 3 * kSecond));
    cluster.CutCoordinator("c1", true);
    a->Cut();
    while (!c2->leading()) SleepFor(10 * kMillisecond);
    const Nanos elected = Now();
    SleepFor(1900 * kMillisecond);
    EXPECT_EQ(b->open().size(), 2u);  // not yet
    EXPECT_TRUE(cluster.AllServed(4, 2 * kSecond));
    EXPECT_EQ(b->open().size(), 4u);
    EXPECT_GE(Now() - elected, 2070 * kMillisecond);
  });
}

// H17, C3: a leader cut off from the store grants nothing once its session may have expired, although it
// still answers.
TEST(CoordinatorSimTest, AZombieLeaderGrantsNothing) {
  InSimulation(4, [] {
    SimCluster cluster;
    CoordinatorService* c1 = cluster.StartCoordinator("c1");
    SleepFor(kSecond);
    CoordinatorService* c2 = cluster.StartCoordinator("c2");
    cluster.StartLtc("ltc-1");
    ASSERT_TRUE(cluster.NewClient().CreateRanges({}, Soon()).ok());
    ASSERT_TRUE(cluster.AllServed(1, 3 * kSecond));
    cluster.CutCoordinator("c1", false);
    const Nanos cut = Now();
    while (!c2->leading()) {
      EXPECT_FALSE(c1->leading() && c2->leading());
      SleepFor(5 * kMillisecond);
      ASSERT_LT(Now(), cut + 10 * kSecond);
    }
    proto::HeartbeatRequest request;
    request.set_name("ltc-1");
    request.set_incarnation(1);
    std::string leader;
    EXPECT_TRUE(IsNotLeading(c1->Handle("Heartbeat", request.SerializeAsString()).status(), &leader));
    ASSERT_TRUE(cluster.AllServed(1, 3 * kSecond));
    EXPECT_EQ(cluster.Records().begin()->second.epoch, Epoch(1));
    // It follows once it is back.
    cluster.HealCoordinator("c1");
    SleepFor(3 * kSecond);
    EXPECT_FALSE(c1->leading());
    EXPECT_TRUE(c2->leading());
    EXPECT_TRUE(IsNotLeading(c1->Handle("Heartbeat", request.SerializeAsString()).status(), &leader));
    EXPECT_EQ(leader, "c2:7400");
  });
}

// C1: two believe they lead, with living sessions; what the former one decides is refused by check(/coord).
TEST(CoordinatorSimTest, ADeposedLeadersMovesAreRefused) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    InSimulation(seed, [] {
      SimCluster cluster({.session_timeout_ns = 4 * kSecond, .max_delay_ns = 5 * kMillisecond});
      CoordinatorService* c1 = cluster.StartCoordinator("c1");
      SleepFor(kSecond);
      CoordinatorService* c2 = cluster.StartCoordinator("c2");
      SimLtc* a = cluster.StartLtc("ltc-1");
      cluster.StartLtc("ltc-2");
      ASSERT_TRUE(cluster.NewClient().CreateRanges(Splits(4), Soon()).ok());
      ASSERT_TRUE(cluster.AllServed(4, 5 * kSecond));
      ASSERT_TRUE(cluster.admin()->Delete(kCoordLeaderPath).ok());  // c2 takes over in the midst of c1's term
      const Epoch before = cluster.Records().at(a->open().begin()->first).epoch;
      RangeRecord record = cluster.Records().at(a->open().begin()->first);
      record.released = true;
      ASSERT_TRUE(cluster.admin()->Set(RangePath(record.id), record.Encode(), record.version).ok());
      SleepFor(2 * kSecond);
      EXPECT_FALSE(c1->leading());
      EXPECT_TRUE(c2->leading());
      const RangeRecord after = cluster.Records().at(record.id);
      EXPECT_EQ(after.epoch, Epoch(before.value() + 1));  // moved once
    });
  }
}

// C1 at the node: what a leader of a lower coord_epoch says is not heard.
TEST(NodeSessionTest, ALeaseOfALowerCoordEpochIsIgnored) {
  InSimulation(5, [] {
    struct Scripted : ControlChannel {
      uint64_t coord_epoch = 5;
      uint64_t excluded = 0;
      StatusOr<std::string> Call(const std::string&, const std::string&, Nanos) override {
        proto::HeartbeatReply reply;
        reply.set_coord_epoch(coord_epoch);
        reply.set_standing(proto::HeartbeatReply::REGISTERED);
        reply.set_lease_ns(2 * kSecond);
        if (excluded != 0) {
          reply.add_excluded()->set_range(excluded);
          reply.mutable_excluded(0)->set_epoch(1);
        }
        return reply.SerializeAsString();
      }
    };
    SimCluster cluster;
    cluster.StartCoordinator("c1");
    auto store = cluster.config().NewSession();
    auto channel = std::make_unique<Scripted>();
    Scripted* leader = channel.get();
    NodeOptions options;
    options.node.name = "ltc-1";
    options.node.role = Role::kLtc;
    NodeEvents events;
    NodeSession* joined = nullptr;
    Nanos expiry_when_excluded = -1;
    events.excluded = [&](RangeId, Epoch) {
      if (expiry_when_excluded == -1) expiry_when_excluded = joined->lease_expiry_ns();
    };
    auto session = std::move(JoinCluster(store.get(), std::move(channel), options, events)).value();
    joined = session.get();
    SleepFor(kSecond);
    const Nanos expiry = session->lease_expiry_ns();
    EXPECT_GT(expiry, Now());
    EXPECT_LE(expiry, Now() + 1930 * kMillisecond);  // C3: T (1 - rho) - delta from the sending
    leader->coord_epoch = 4;
    leader->excluded = 7;
    SleepFor(kSecond);
    EXPECT_LE(session->lease_expiry_ns(), expiry + 500 * kMillisecond);
    EXPECT_EQ(expiry_when_excluded, -1);
    const Nanos unheard = session->lease_expiry_ns();
    leader->coord_epoch = 6;
    SleepFor(600 * kMillisecond);
    EXPECT_EQ(expiry_when_excluded, unheard);  // given up before the lease that excludes it begins
    EXPECT_GT(session->lease_expiry_ns(), unheard);
  });
}

// A store that hangs, and is not gone, while a call is lost: the next heartbeat is not later for it.
TEST(NodeSessionTest, AStoreThatHangsHoldsUpNoHeartbeat) {
  InSimulation(7, [] {
    struct Hangs : TrackedSession {
      using TrackedSession::TrackedSession;
      StatusOr<Znode> Get(const std::string& path) override {
        if (path == kCoordPath && hangs.load()) {
          asked.Notify();
          released.WaitUntil(kNever);
        }
        return TrackedSession::Get(path);
      }
      std::atomic<bool> hangs{false};
      Notification asked, released;
    };
    struct Loses : ControlChannel {
      StatusOr<std::string> Call(const std::string&, const std::string&, Nanos) override {
        if (loses.exchange(false)) return absl::UnavailableError("lost");
        proto::HeartbeatReply reply;
        reply.set_standing(proto::HeartbeatReply::REGISTERED);
        reply.set_lease_ns(2 * kSecond);
        return reply.SerializeAsString();
      }
      std::atomic<bool> loses{false};
    };
    SimCluster cluster;
    cluster.StartCoordinator("c1");
    std::atomic<MemorySession*> place{nullptr};
    Hangs store(cluster.config().NewSession(), &place);
    auto channel = std::make_unique<Loses>();
    Loses* const leader = channel.get();
    NodeOptions options;
    options.node.name = "ltc-1";
    options.node.role = Role::kLtc;
    auto session = std::move(JoinCluster(&store, std::move(channel), options, NodeEvents())).value();
    SleepFor(kSecond);
    store.hangs = true;
    leader->loses = true;
    ASSERT_TRUE(store.asked.WaitUntil(Now() + 2 * kSecond));
    SleepFor(5 * kSecond);
    EXPECT_GT(session->lease_expiry_ns(), Now());
    store.released.Notify();
  });
}

// Row 37.
TEST(NodeSessionTest, AnExpiredSessionIsLostAndTheNameCanBeTakenAnew) {
  InSimulation(6, [] {
    SimCluster cluster;
    cluster.StartCoordinator("c1");
    SimLtc* a = cluster.StartLtc("ltc-1");
    ASSERT_TRUE(cluster.NewClient().CreateRanges({}, Soon()).ok());
    ASSERT_TRUE(cluster.AllServed(1, 3 * kSecond));
    a->store()->Expire();
    SleepFor(kSecond);
    EXPECT_NE(a->lost(), "");
    SimLtc* again = cluster.StartLtc("ltc-1");
    EXPECT_GT(again->session()->self().incarnation, a->session()->self().incarnation);
    EXPECT_TRUE(cluster.AllServed(1, 5 * kSecond));
    EXPECT_EQ(again->open().size(), 1u);
    EXPECT_EQ(cluster.Records().begin()->second.epoch, Epoch(2));
  });
}

TEST(NodeSessionTest, ALaterProcessReplacesTheRegistrationOfAFormerOne) {
  InSimulation(7, [] {
    SimCluster cluster;
    cluster.StartCoordinator("c1");
    SimLtc* a = cluster.StartLtc("ltc-1");
    SimLtc* again = cluster.StartLtc("ltc-1");  // the former one's ephemeral node is still there
    SleepFor(2 * kSecond);
    EXPECT_NE(a->lost(), "");
    EXPECT_EQ(again->lost(), "");
    EXPECT_GT(again->session()->lease_expiry_ns(), Now());
    EXPECT_LE(a->session()->lease_expiry_ns(), Now());
  });
}

TEST(NodeSessionTest, WithoutAClusterJoiningIsUnavailable) {
  InSimulation(8, [] {
    MemoryConfig config;
    SimControlNetwork network;
    auto store = config.NewSession();
    NodeOptions options;
    options.node.name = "ltc-1";
    EXPECT_TRUE(
        absl::IsUnavailable(JoinCluster(store.get(), network.NewChannel("ltc-1", {}), options, {}).status()));
    options.node.name = "a/b";
    EXPECT_TRUE(absl::IsInvalidArgument(
        JoinCluster(store.get(), network.NewChannel("ltc-1", {}), options, {}).status()));
  });
}

// Row 38.
TEST(NodeSessionTest, UpdateRangeSettlesALostReply) {
  InSimulation(9, [] {
    SimCluster cluster;
    cluster.StartCoordinator("c1");
    SimLtc* a = cluster.StartLtc("ltc-1");
    ASSERT_TRUE(cluster.NewClient().CreateRanges({}, Soon()).ok());
    ASSERT_TRUE(cluster.AllServed(1, 3 * kSecond));
    RangeRecord record = std::move(a->session()->ReadRange(RangeId(1))).value();
    for (uint64_t g = 1; g <= 6; ++g) {
      record.log_groups.push_back({GroupId(g), {}});
      g % 2 == 0 ? a->store()->LoseReplies(1) : a->store()->LoseRequests(2);
      const StatusOr<RangeRecord> written = a->session()->UpdateRange(record);
      ASSERT_TRUE(written.ok()) << written.status();
      EXPECT_EQ(written->version, record.version + 1);
      record = *written;
      EXPECT_EQ(cluster.Records().at(RangeId(1)).Encode(), record.Encode());
    }
    RangeRecord stale = record;
    --stale.version;
    stale.log_groups.clear();
    EXPECT_TRUE(absl::IsAborted(a->session()->UpdateRange(stale).status()));
    EXPECT_EQ(a->session()->ReadRanges()->size(), 1u);
    EXPECT_TRUE(absl::IsNotFound(a->session()->ReadRange(RangeId(99)).status()));
  });
}

TEST(CoordinatorSimTest, DrainMovesEverythingAndServesOn) {
  InSimulation(10, [] {
    SimCluster cluster;
    cluster.StartCoordinator("c1");
    SimLtc* a = cluster.StartLtc("ltc-1");
    SimLtc* b = cluster.StartLtc("ltc-2");
    CoordinatorClient client = cluster.NewClient();
    ASSERT_TRUE(client.CreateRanges(Splits(8), Soon()).ok());
    ASSERT_TRUE(cluster.AllServed(8, 3 * kSecond));
    std::string left;
    EXPECT_TRUE(absl::IsNotFound(client.Drain("ltc-9", Soon(), &left)));
    ASSERT_TRUE(client.Drain("ltc-1", Soon(), &left).ok());
    EXPECT_TRUE(left.ends_with(" ranges")) << left;
    ASSERT_TRUE(client.Drain("ltc-1", Soon(), &left).ok());  // again: the same
    const Nanos start = Now();
    while (!a->open().empty() && Now() < start + 10 * kSecond) SleepFor(50 * kMillisecond);
    EXPECT_TRUE(cluster.AllServed(8, 3 * kSecond));
    EXPECT_EQ(b->open().size(), 8u);
    ASSERT_TRUE(client.Drain("ltc-1", Soon(), &left).ok());
    EXPECT_EQ(left, "");
    EXPECT_NE(client.StatusText(Soon())->find("drained"), std::string::npos);
  });
}

// An operator who drains it in that moment is not told that there is no such node.
TEST(CoordinatorSimTest, ANodeThatRegistersAnewIsNotUnknown) {
  InSimulation(13, [] {
    SimCluster cluster;
    cluster.StartCoordinator("c1");
    SimLtc* const a = cluster.StartLtc("ltc-1");
    CoordinatorClient client = cluster.NewClient();
    ASSERT_TRUE(client.CreateRanges(Splits(4), Soon()).ok());
    ASSERT_TRUE(cluster.AllServed(4, 3 * kSecond));
    a->store()->Expire();
    std::string left;
    const Status s = client.Drain("ltc-1", Now() + kSecond, &left);
    EXPECT_TRUE(absl::IsUnavailable(s)) << s;
    EXPECT_NE(s.message().find("ltc-1 is not registered at the moment"), s.message().npos) << s;
    SleepFor(20 * kSecond);  // its lease has ended, and it did not come back
    EXPECT_TRUE(absl::IsNotFound(client.Drain("ltc-1", Soon(), &left)));
  });
}

TEST(CoordinatorSimTest, DeltasLeadToTheSameConfigurationAsTheWhole) {
  InSimulation(11, [] {
    SimCluster cluster;
    cluster.StartCoordinator("c1");
    SleepFor(kSecond);
    cluster.StartCoordinator("c2");
    CoordinatorClient client = cluster.NewClient();
    Configuration known;
    ASSERT_TRUE(client.Refresh(&known, Soon()).ok());
    EXPECT_TRUE(known.ranges.empty());
    ASSERT_TRUE(client.CreateRanges(Splits(5), Soon()).ok());
    const auto expect_same = [&] {
      Configuration whole;
      ASSERT_TRUE(client.Refresh(&known, Soon()).ok());
      ASSERT_TRUE(client.Refresh(&whole, Soon()).ok());
      EXPECT_EQ(known.ranges, whole.ranges);
      EXPECT_EQ(known.nodes, whole.nodes);
      EXPECT_EQ(known.version, whole.version);
    };
    expect_same();
    cluster.StartLtc("ltc-1");
    SimLtc* b = cluster.StartLtc("ltc-2");
    ASSERT_TRUE(cluster.AllServed(5, 5 * kSecond));
    expect_same();
    b->Cut();
    SleepFor(8 * kSecond);
    expect_same();
    EXPECT_EQ(known.nodes.size(), 1u);
    cluster.CutCoordinator("c1", true);  // another coordinator's versions: all anew
    SleepFor(6 * kSecond);
    expect_same();
  });
}

TEST(CoordinatorSimTest, ForceOpenDropsTheLostGroupsOnlyWhenAccepted) {
  InSimulation(12, [] {
    SimCluster cluster;
    cluster.StartCoordinator("c1");
    SimLtc* a = cluster.StartLtc("ltc-1");
    CoordinatorClient client = cluster.NewClient();
    ASSERT_TRUE(client.CreateRanges({}, Soon()).ok());
    ASSERT_TRUE(cluster.AllServed(1, 3 * kSecond));
    RangeRecord record = cluster.Records().at(RangeId(1));
    record.log_groups = {{GroupId(1), {{StocId(7), Incarnation(70)}}}};
    ASSERT_TRUE(cluster.admin()->Set(RangePath(record.id), record.Encode(), record.version).ok());
    std::string report;
    EXPECT_TRUE(absl::IsFailedPrecondition(client.ForceOpen(RangeId(1), true, Soon(), &report)));
    EXPECT_EQ(report, "range 1 epoch 1: is open at ltc-1\n");
    a->Cut();
    SleepFor(3 * kSecond);
    EXPECT_TRUE(absl::IsFailedPrecondition(client.ForceOpen(RangeId(1), false, Soon(), &report)));
    EXPECT_NE(report.find("log group 1 is LOST: StoC 7 incarnation 70"), std::string::npos) << report;
    EXPECT_TRUE(report.ends_with("to open it all the same: nova force-open 1 --accept-data-loss\n"))
        << report;
    EXPECT_EQ(cluster.Records().at(RangeId(1)).log_groups.size(), 1u);
    ASSERT_TRUE(client.ForceOpen(RangeId(1), true, Soon(), &report).ok()) << report;
    EXPECT_TRUE(cluster.Records().at(RangeId(1)).log_groups.empty());
    SimLtc* b = cluster.StartLtc("ltc-2");
    EXPECT_TRUE(cluster.AllServed(1, 5 * kSecond));
    EXPECT_EQ(b->open().at(RangeId(1)), Epoch(3));
  });
}

// The one who asks is told why nobody leads, by the one who led and by the one who did not.
TEST(CoordinatorSimTest, AStoreThatDoesNotAnswerIsNamedByEachCoordinator) {
  InSimulation(14, [] {
    SimCluster cluster;
    cluster.StartCoordinator("c1");
    SleepFor(kSecond);
    CoordinatorService* const c2 = cluster.StartCoordinator("c2");
    SleepFor(kSecond);
    EXPECT_EQ(c2->StatusText(), "coordinator c2 does not lead; c1 at c1:7400 does\n");
    for (const char* name : {"c1", "c2"}) cluster.CutCoordinator(name, false);
    SleepFor(9 * kSecond);
    const Status s = cluster.NewClient().StatusText(Now() + kSecond).status();
    EXPECT_TRUE(absl::IsUnavailable(s)) << s;
    const std::string why = "no leader is known: the configuration store has not answered for ";
    EXPECT_NE(s.message().find(why), s.message().npos) << s;
    for (const char* name : {"c1", "c2"}) {
      const std::string page = cluster.coordinator(name)->StatusText();
      EXPECT_EQ(page.find(StrCat("coordinator ", name, " does not lead; ", why)), 0u) << page;
    }
  });
}

// Somebody has deleted /coord, say.
TEST(CoordinatorSimTest, WhyNoCoordinatorCanBecomeTheLeaderIsTold) {
  InSimulation(15, [] {
    SimCluster cluster;
    CoordinatorService* const c1 = cluster.StartCoordinator("c1");
    SleepFor(kSecond);
    ASSERT_TRUE(c1->leading());
    ASSERT_TRUE(cluster.admin()->Delete(kCoordPath).ok());
    cluster.coordinator_session("c1")->Expire();
    SleepFor(8 * kSecond);
    const std::string why = "no leader is known: /coord: ";
    EXPECT_EQ(c1->StatusText().find(StrCat("coordinator c1 does not lead; ", why)), 0u) << c1->StatusText();
    const Status s = cluster.NewClient().StatusText(Now() + kSecond).status();
    EXPECT_NE(s.message().find(why), s.message().npos) << s;
    ASSERT_TRUE(cluster.admin()->Create(kCoordPath, "").ok());
    SleepFor(8 * kSecond);
    EXPECT_TRUE(c1->leading());
    EXPECT_EQ(c1->StatusText().find("does not lead"), std::string::npos);
  });
}

// What lies behind an address may be another store by the time that a session has ended.
TEST(CoordinatorSimTest, ACoordinatorLeadsNoOtherCluster) {
  InSimulation(16, [] {
    SimCluster cluster;
    CoordinatorService* const c1 = cluster.StartCoordinator("c1");
    SleepFor(kSecond);
    ASSERT_TRUE(c1->leading());
    const Znode own = *cluster.admin()->Get(kClusterPath);
    const std::string other = ClusterRecord{kClusterFormat, Uuid{1, 2}}.Encode();
    ASSERT_TRUE(cluster.admin()->Set(kClusterPath, other, own.version).ok());
    cluster.coordinator_session("c1")->Expire();
    SleepFor(8 * kSecond);
    EXPECT_FALSE(c1->leading());
    EXPECT_NE(c1->StatusText().find(StrCat("the store is of cluster ", Uuid{1, 2}.ToString())),
              std::string::npos)
        << c1->StatusText();
    ASSERT_TRUE(cluster.admin()->Set(kClusterPath, own.data, own.version + 1).ok());
    SleepFor(8 * kSecond);
    EXPECT_TRUE(c1->leading());
  });
}

TEST(CoordinatorSimTest, AClusterOfALaterFormatIsRefused) {
  InSimulation(13, [] {
    MemoryConfig config;
    auto admin = config.NewSession();
    ASSERT_TRUE(admin->Create(kClusterPath, "format=2\nuuid=00000000000000000000000000000001\n").ok());
    Metrics metrics;
    CoordinatorOptions options;
    options.name = "c1";
    const auto service = CoordinatorService::Start(
        options,
        [&]() -> StatusOr<std::unique_ptr<ConfigStore>> {
          return std::unique_ptr<ConfigStore>(config.NewSession());
        },
        &metrics);
    EXPECT_TRUE(absl::IsFailedPrecondition(service.status())) << service.status();
  });
}

// The same with real threads and real time, for ThreadSanitizer: failover of the leader and of an LTC.
TEST(CoordinatorThreadsTest, LeaderAndLtcAreReplaced) {
  SimCluster cluster({.session_timeout_ns = kSecond});
  cluster.StartCoordinator("c1");
  SleepFor(200 * kMillisecond);
  CoordinatorService* c2 = cluster.StartCoordinator("c2");
  SimLtc* a = cluster.StartLtc("ltc-1");
  SimLtc* b = cluster.StartLtc("ltc-2");
  ASSERT_TRUE(cluster.NewClient().CreateRanges(Splits(4), Soon()).ok());
  ASSERT_TRUE(cluster.AllServed(4, 10 * kSecond));
  cluster.CutCoordinator("c1", true);
  const Nanos cut = Now();
  while (!c2->leading() && Now() < cut + 5 * kSecond) SleepFor(10 * kMillisecond);
  EXPECT_TRUE(c2->leading());
  a->Cut();
  SleepFor(2500 * kMillisecond);
  EXPECT_TRUE(cluster.AllServed(4, 10 * kSecond));
  EXPECT_EQ(b->open().size(), 4u);
}

// Everything at once: cuts of LTCs and coordinators, lost, late and doubled messages, lost answers of the
// store. SimCluster checks; in the end all is well again.
void Chaos() {
  SimCluster cluster(
      {.session_timeout_ns = 3 * kSecond, .max_delay_ns = 20 * kMillisecond, .lost_reply_one_in = 20},
      {.max_delay_ns = 50 * kMillisecond, .drop_one_in = 20, .duplicate_one_in = 10});
  const std::vector<std::string> names = {"c1", "c2"};
  for (const std::string& name : names) cluster.StartCoordinator(name);
  for (int i = 1; i <= 3; ++i) cluster.StartLtc(StrCat("ltc-", i));
  SimStoc* const stoc = cluster.StartStoc("stoc-1");
  CoordinatorClient client = cluster.NewClient();
  const Status created = client.CreateRanges(Splits(6), Soon());
  // the answer to a first try may have been lost
  ASSERT_TRUE(created.ok() || absl::IsAlreadyExists(created)) << created;
  Random random;
  for (int round = 0; round < 15; ++round) {
    SleepFor(static_cast<Nanos>(random.Uniform(4 * kSecond)));
    const std::string name = names[random.Uniform(2)];
    switch (random.Uniform(5)) {
      case 4:
        stoc->Cut();
        SleepFor(static_cast<Nanos>(random.Uniform(5 * kSecond)));
        stoc->Start();
        break;
      case 0: {
        SimLtc* ltc = cluster.ltcs()[random.Uniform(cluster.ltcs().size())];
        ltc->Cut();
        SleepFor(static_cast<Nanos>(random.Uniform(5 * kSecond)));
        ltc->Heal();
        break;
      }
      case 1:
        cluster.CutCoordinator(name, false);
        SleepFor(static_cast<Nanos>(random.Uniform(6 * kSecond)));
        cluster.HealCoordinator(name);
        break;
      case 2:
        if (MemorySession* s = cluster.coordinator_session(name)) s->Expire();
        break;
      default:
        for (SimLtc* ltc : cluster.ltcs()) {
          if (ltc->lost().empty()) continue;
          // a process in the place of one that ended
          cluster.StartLtc(StrCat("ltc-", cluster.ltcs().size() + 1));
          break;
        }
    }
  }
  cluster.config().set_faults(0, 0);
  cluster.network().SetFaults({});
  SimLtc* const last = cluster.StartLtc("last");
  EXPECT_TRUE(cluster.AllServed(6, 30 * kSecond));
  stoc->Start();
  SleepFor(12 * kSecond);
  EXPECT_EQ(cluster.StocRecordOf(stoc->id()).presence, StocPresence::kUp);
  EXPECT_EQ(last->stocs().live.size(), 1u);
}

TEST(CoordinatorSimTest, ChaosEndsWellAndBreaksNoRule) {
  for (uint64_t seed = 1; seed <= 30; ++seed) InSimulation(seed, Chaos);
}

TEST(CoordinatorSimTest, SameSeedSameTrace) {
  const auto run = [](uint64_t seed) {
    Simulation sim(seed);
    sim.Run(Chaos);
    return sim.trace_hash();
  };
  EXPECT_EQ(run(77), run(77));
  EXPECT_NE(run(77), run(78));
}

std::string SettingsOf(const SimLtc& ltc) { return ltc.settings().Encode(); }

TEST(CoordinatorSimTest, SettingsReachEveryLtcAndOutliveTheirLeader) {
  InSimulation(5, [] {
    SimCluster cluster;
    cluster.StartCoordinator("c1");
    SleepFor(kSecond);
    CoordinatorService* c2 = cluster.StartCoordinator("c2");
    SimLtc* a = cluster.StartLtc("ltc-1");
    CoordinatorClient client = cluster.NewClient();
    SleepFor(kSecond);
    EXPECT_EQ(SettingsOf(*a), "");
    ASSERT_TRUE(client.ChangeSetting("dranges", 64, Soon()).ok());
    ASSERT_TRUE(client.ChangeSetting("scatter_width", 3, Soon()).ok());
    ASSERT_TRUE(client.ChangeSetting("scatter_width", 3, Soon()).ok()) << "it is so already";
    EXPECT_TRUE(absl::IsInvalidArgument(client.ChangeSetting("dranges", 0, Soon())));
    EXPECT_TRUE(absl::IsInvalidArgument(client.ChangeSetting("gamma", 3, Soon())));
    EXPECT_TRUE(absl::IsInvalidArgument(client.ChangeSetting("", std::nullopt, Soon())));
    SleepFor(kSecond);
    EXPECT_EQ(SettingsOf(*a), "dranges=64\nscatter_width=3\n");
    const StatusOr<std::string> text = client.StatusText(Soon());
    ASSERT_TRUE(text.ok());
    EXPECT_NE(text->find("set for all LTCs: dranges = 64, scatter_width = 3\n"), std::string::npos) << *text;
    const StatusOr<std::string> json = client.StatusJson(Soon());
    ASSERT_TRUE(json.ok());
    EXPECT_NE(json->find(R"("settings":{"dranges":64,"scatter_width":3})"), std::string::npos) << *json;

    cluster.CutCoordinator("c1", true);
    SleepFor(kSecond);
    EXPECT_EQ(SettingsOf(*a), "dranges=64\nscatter_width=3\n") << "while nobody leads";
    for (const Nanos until = Now() + 10 * kSecond; !c2->leading() && Now() < until;)
      SleepFor(10 * kMillisecond);
    SimLtc* const b = cluster.StartLtc("ltc-2");
    SleepFor(2 * kSecond);
    for (const SimLtc* const ltc : {a, b}) EXPECT_EQ(SettingsOf(*ltc), "dranges=64\nscatter_width=3\n");
    ASSERT_TRUE(cluster.NewClient().ChangeSetting("dranges", std::nullopt, Soon()).ok());
    SleepFor(kSecond);
    for (const SimLtc* const ltc : {a, b}) EXPECT_EQ(SettingsOf(*ltc), "scatter_width=3\n");
  });
}

// Each read what was there: none overwrites what another one has set.
TEST(CoordinatorSimTest, SettingsThatAreChangedAtOnceAllHold) {
  for (uint64_t seed = 1; seed <= 10; ++seed) {
    InSimulation(seed, [] {
      SimCluster cluster;
      cluster.StartCoordinator("c1");
      SimLtc* const ltc = cluster.StartLtc("ltc-1");
      SleepFor(kSecond);
      std::vector<std::unique_ptr<Thread>> operators;
      for (const LtcSettings::Kind& kind : LtcSettings::Kinds()) {
        operators.push_back(std::make_unique<Thread>("operator", [&cluster, &kind] {
          EXPECT_TRUE(cluster.NewClient().ChangeSetting(kind.name, kind.most, Soon()).ok());
        }));
      }
      operators.clear();  // joins
      SleepFor(kSecond);
      EXPECT_EQ(ltc->settings().Given().size(), LtcSettings::Kinds().size());
    });
  }
}

}  // namespace
}  // namespace nova
