// The parts of a coordinator, each driven without the others where it can be.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/base/simulation.h"
#include "common/config/memory_store.h"
#include "coordinator/cluster_mirror.h"
#include "coordinator/election.h"
#include "coordinator/leader_channel.h"
#include "coordinator/range_movers.h"
#include "coordinator/znode_session.h"

namespace nova {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr Nanos kLease = 2 * kSecond;
constexpr Uuid kCluster{1, 2};

void InSimulation(const std::function<void()>& body) {
  Simulation sim(1);
  sim.Run(body);
}

void MakeZnodes(ConfigStore* store) {
  ASSERT_TRUE(store->Create(kClusterPath, ClusterRecord{kClusterFormat, kCluster}.Encode()).ok());
  for (const char* path : {kNodesPath, kStocsPath, kRangesPath, kEpochsPath, kCoordPath})
    ASSERT_TRUE(store->Create(path, "").ok());
}

// --- ZnodeSession

TEST(ZnodeSessionTest, APathIsToBeReadAgainWhenItsZnodeChanges) {
  InSimulation([] {
    MemoryConfig config;
    ZnodeSession session;
    session.WatchOnce("/a");  // without a session: nothing
    session.Begin(config.NewSession());
    ASSERT_TRUE(session.store()->Create("/a", "1").ok());
    session.WatchOnce("/a");
    session.WatchOnce("/a");
    EXPECT_THAT(session.TakeDirty(Now() + kMillisecond), IsEmpty());
    ASSERT_TRUE(session.store()->Set("/a", "2", -1).ok());
    EXPECT_THAT(session.TakeDirty(Now() + kSecond), ElementsAre("/a"));
    EXPECT_THAT(session.TakeDirty(Now() + kMillisecond), IsEmpty()) << "taken";
    session.MarkDirty("/b");
    session.Clear();
    EXPECT_THAT(session.TakeDirty(Now() + kMillisecond), IsEmpty());
  });
}

TEST(ZnodeSessionTest, AWatchOfAnEarlierSessionTellsNothing) {
  InSimulation([] {
    MemoryConfig config;
    const auto writer = config.NewSession();
    ASSERT_TRUE(writer->Create("/a", "1").ok());
    ZnodeSession session;
    session.Begin(config.NewSession());
    session.WatchOnce("/a");
    const std::shared_ptr<ConfigStore> kept = session.store();  // so that its callbacks go on
    session.End();
    session.Begin(config.NewSession());
    ASSERT_TRUE(writer->Set("/a", "2", -1).ok());
    EXPECT_THAT(session.TakeDirty(Now() + 100 * kMillisecond), IsEmpty());
    session.WatchOnce("/a");
    ASSERT_TRUE(writer->Set("/a", "3", -1).ok());
    EXPECT_THAT(session.TakeDirty(Now() + kSecond), ElementsAre("/a"));
  });
}

TEST(ZnodeSessionTest, StopEndsEveryWait) {
  InSimulation([] {
    ZnodeSession session;
    session.Stop();
    EXPECT_TRUE(session.stopping());
    session.TakeDirty(kNever);
    session.WaitForDirty("/a", kNever);
  });
}

// --- Election

TEST(ElectionTest, C1OneLeadsAndTheNextTermHasAHigherNumber) {
  InSimulation([] {
    MemoryConfig config;
    const std::shared_ptr<ConfigStore> mine = config.NewSession(), others = config.NewSession();
    MakeZnodes(mine.get());
    Election a({"c1", "host:1", kLease, 0.01, kCluster}), b({"c2", "host:2", kLease, 0.01, kCluster});
    const StatusOr<Term> first = a.Campaign(mine);
    ASSERT_TRUE(first.ok()) << first.status();
    EXPECT_TRUE(absl::IsAlreadyExists(b.Campaign(others).status()));
    std::string leader;
    EXPECT_TRUE(IsNotLeading(b.CheckLeading(), &leader));
    EXPECT_EQ(leader, "host:1");
    a.Begin(*first);
    EXPECT_FALSE(a.CheckLeading().ok()) << "it has not read what there is";
    a.Lead();
    EXPECT_TRUE(a.CheckLeading().ok());
    EXPECT_TRUE(a.ProveAuthority().ok());
    a.StepDown();
    a.Vacate(mine.get());
    const StatusOr<Term> second = b.Campaign(others);
    ASSERT_TRUE(second.ok()) << second.status();
    EXPECT_GT(second->coord_epoch, first->coord_epoch);
    EXPECT_TRUE(absl::IsAborted(a.ProveAuthority()));
  });
}

TEST(ElectionTest, C3AuthorityEndsBeforeTheSessionDoes) {
  InSimulation([] {
    MemoryConfig config({.session_timeout_ns = 4 * kSecond});
    const std::shared_ptr<ConfigStore> store = config.NewSession();
    MakeZnodes(store.get());
    Election election({"c1", "host:1", kLease, 0.01, kCluster});
    EXPECT_EQ(election.AuthorityUntil(), 0) << "of no term";
    const StatusOr<Term> term = election.Campaign(store);
    ASSERT_TRUE(term.ok());
    election.Begin(*term);
    election.Lead();
    EXPECT_EQ(election.AuthorityUntil(), store->last_answered_send_ns() + 4 * kSecond - 40 * kMillisecond);
    Term out;
    EXPECT_TRUE(election.CarriesOut(term->coord_epoch, &out));
    EXPECT_FALSE(election.CarriesOut(CoordEpoch(term->coord_epoch.value() + 1), &out));
    election.DropStore();
    EXPECT_FALSE(election.CheckLeading().ok());
  });
}

// --- ClusterMirror, RangeMovers

// One that leads an empty cluster, but for range 1.
struct Leader {
  Leader() {
    session.Begin(config.NewSession());
    MakeZnodes(session.store().get());
    record.id = RangeId(1);
    EXPECT_TRUE(session.store()->Create(RangePath(record.id), record.Encode()).ok());
    term = *election.Campaign(session.store());
    election.Begin(term);
    mirror.Begin(term);
    EXPECT_TRUE(mirror.LoadAll().ok());
    election.Lead();
  }
  ~Leader() {
    election.DropStore();
    term.store.reset();
  }
  std::optional<RangeRecord> Range() {
    std::optional<RangeRecord> found;
    mirror.Look([&](const ClusterMirror::View& view) {
      const auto it = view.state.ranges.find(record.id);
      if (it != view.state.ranges.end()) found = it->second.record;
    });
    return found;
  }
  uint64_t version() {
    uint64_t version = 0;
    mirror.Look([&](const ClusterMirror::View& view) { version = view.config_version; });
    return version;
  }

  MemoryConfig config;
  Metrics metrics;
  ZnodeSession session;
  Election election{{"c1", "host:1", kLease, 0.01, kCluster}};
  ClusterMirror mirror{{}, &session, &election};
  RangeRecord record;
  Term term;
};

TEST(ClusterMirrorTest, FollowsTheZnodesAndCountsWhatRoutingHasToKnow) {
  InSimulation([] {
    Leader leader;
    ASSERT_TRUE(leader.Range().has_value());
    const uint64_t before = leader.version();
    EXPECT_EQ(before >> 32, leader.term.coord_epoch.value());
    ASSERT_TRUE(leader.session.store()->Delete(RangePath(leader.record.id)).ok());
    const std::set<std::string> dirty = leader.session.TakeDirty(Now() + kSecond);
    EXPECT_FALSE(dirty.empty());
    ASSERT_TRUE(leader.mirror.ReadDirty(dirty).ok());
    EXPECT_FALSE(leader.Range().has_value());
    EXPECT_GT(leader.version(), before);
  });
}

TEST(ClusterMirrorTest, C1WhatAnEarlierTermHasDoneIsNotTaken) {
  InSimulation([] {
    Leader leader;
    RangeRecord later = leader.record;
    later.version = 5;
    later.owner = "ltc-1";
    leader.mirror.RangesWritten(CoordEpoch(leader.term.coord_epoch.value() - 1), {later});
    EXPECT_EQ(leader.Range()->owner, "");
    leader.mirror.RangesWritten(leader.term.coord_epoch, {later});
    EXPECT_EQ(leader.Range()->owner, "ltc-1");
  });
}

// The process leads again, and has not read the cluster anew yet: others may have moved ranges meanwhile.
TEST(ClusterMirrorTest, C3AStateOfAnEarlierTermGrantsNoLeaseByTheNextTermsAuthority) {
  InSimulation([] {
    Leader leader;
    CoordEpoch epoch;
    const HeartbeatEvent heartbeat{"ltc-1", Incarnation(1), 0, {}};
    EXPECT_TRUE(leader.mirror.Heartbeat(heartbeat, &epoch).ok());
    leader.election.StepDown();
    Term next = leader.term;
    next.coord_epoch = CoordEpoch(leader.term.coord_epoch.value() + 2);
    leader.election.Begin(next);
    leader.election.Lead();
    std::string other;
    EXPECT_TRUE(IsNotLeading(leader.mirror.Heartbeat(heartbeat, &epoch).status(), &other));
    EXPECT_TRUE(IsNotLeading(leader.mirror.LookAsLeader([](const ClusterMirror::View&) { FAIL(); }), &other));
    leader.mirror.Begin(next);
    EXPECT_TRUE(leader.mirror.Heartbeat(heartbeat, &epoch).ok());
    EXPECT_EQ(epoch, next.coord_epoch);
  });
}

TEST(ClusterMirrorTest, OneThatStepsDownShowsNothing) {
  InSimulation([] {
    Leader leader;
    EXPECT_TRUE(leader.mirror.LookAsLeader([](const ClusterMirror::View&) {}).ok());
    leader.election.StepDown();
    std::string other;
    EXPECT_TRUE(IsNotLeading(leader.mirror.LookAsLeader([](const ClusterMirror::View&) { FAIL(); }), &other));
  });
}

TEST(ClusterMirrorTest, N5FollowsTheRecordsOfStocs) {
  InSimulation([] {
    Leader leader;
    const auto stocs = [&] {
      std::map<StocId, StocRecord> found;
      leader.mirror.Look([&](const ClusterMirror::View& view) {
        for (const auto& [id, stoc] : view.state.stocs) found[id] = stoc.record;
      });
      return found;
    };
    EXPECT_TRUE(stocs().empty());
    StocRecord record;
    record.id = StocId(7);
    record.store = Uuid{1, 2};
    record.name = "stoc-1";
    ConfigStore* const store = leader.session.store().get();
    ASSERT_TRUE(store->Create(StocPath(record.id), record.Encode()).ok());
    ASSERT_TRUE(store->Create(StrCat(kStocsPath, "/8"), "no record").ok());
    ASSERT_TRUE(store->Create(StrCat(kStocsPath, "/09"), record.Encode()).ok());
    ASSERT_TRUE(leader.mirror.ReadDirty(leader.session.TakeDirty(Now() + kSecond)).ok());
    ASSERT_EQ(stocs().size(), 1u) << "what is no record is left out";
    record.draining = true;
    ASSERT_TRUE(store->Set(StocPath(record.id), record.Encode(), 0).ok());
    ASSERT_TRUE(leader.mirror.ReadDirty(leader.session.TakeDirty(Now() + kSecond)).ok());
    EXPECT_TRUE(stocs()[record.id].draining);
    // What an earlier term's mover has done is not taken; this one's is.
    StocRecord later = stocs()[record.id];
    later.version = 5;
    later.presence = StocPresence::kLost;
    leader.mirror.StocChangeDone(CoordEpoch(leader.term.coord_epoch.value() - 1), {record.id, later});
    EXPECT_EQ(stocs()[record.id].presence, StocPresence::kUp);
    leader.mirror.StocChangeDone(leader.term.coord_epoch, {record.id, later});
    EXPECT_EQ(stocs()[record.id].presence, StocPresence::kLost);
    ASSERT_TRUE(store->Delete(StocPath(record.id)).ok());
    ASSERT_TRUE(leader.mirror.ReadDirty(leader.session.TakeDirty(Now() + kSecond)).ok());
    EXPECT_TRUE(stocs().empty());
  });
}

TEST(RangeMoversTest, N5AStocsRecordIsReplacedAtItsVersionByTheLeaderAlone) {
  InSimulation([] {
    Leader leader;
    StocChange change;
    change.before.id = change.after.id = StocId(7);
    change.before.name = change.after.name = "stoc-1";
    change.after.presence = StocPresence::kAway;
    ASSERT_TRUE(leader.session.store()->Create(StocPath(StocId(7)), change.before.Encode()).ok());
    const StatusOr<StocRecord> written = RangeMovers::WriteStoc(leader.term, change);
    ASSERT_TRUE(written.ok()) << written.status();
    EXPECT_EQ(written->version, 1);
    EXPECT_TRUE(absl::IsAborted(RangeMovers::WriteStoc(leader.term, change).status()))
        << "somebody was first";
    change.before = change.after = *written;
    Term deposed = leader.term;
    --deposed.coord_version;
    EXPECT_TRUE(absl::IsAborted(RangeMovers::WriteStoc(deposed, change).status()));
  });
}

TEST(RangeMoversTest, R1AMoveReplacesTheVersionItWasDecidedOn) {
  InSimulation([] {
    Leader leader;
    RangeMove move{*leader.Range(), *leader.Range()};
    move.after.epoch = Epoch(1);
    move.after.owner = "ltc-1";
    const StatusOr<RangeRecord> written = RangeMovers::WriteMove(leader.term, move);
    ASSERT_TRUE(written.ok()) << written.status();
    EXPECT_EQ(written->version, move.before.version + 1);
    EXPECT_FALSE(RangeMovers::WriteMove(leader.term, move).ok()) << "somebody was first";
    Term deposed = leader.term;
    --deposed.coord_version;
    move.before = move.after = *written;
    EXPECT_FALSE(RangeMovers::WriteMove(deposed, move).ok());
  });
}

}  // namespace
}  // namespace nova
