// The parts of the log client, each driven by itself.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/base/simulation.h"
#include "logc/full_disks.h"
#include "logc/group_log.h"
#include "logc/member_probe.h"
#include "logc/range_groups.h"
#include "tests/stoc/stoc_rig.h"

namespace nova {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::Pair;
using Change = RangeGroups::Change;

constexpr RangeId kRange(7);

Uuid LogUuid(uint64_t n) { return {0x1090, n}; }

// --- RangeGroups

NodeInfo Stoc(uint32_t id, uint64_t incarnation) {
  NodeInfo info;
  info.role = Role::kStoc;
  info.stoc_id = StocId(id);
  info.incarnation = Incarnation(incarnation);
  return info;
}

LogGroup Group(uint64_t id, const std::vector<uint32_t>& stocs) {
  LogGroup group{GroupId(id), {}, LogMedia::kMemory};
  for (const uint32_t s : stocs) group.members.push_back({StocId(s), Incarnation(s), {}});
  return group;
}

TEST(RangeGroupsTest, OneChangeAtATimeAndALateLogMovesToWhatThereIs) {
  RangeGroups groups(Group(1, {1, 2, 3}), 2, {});
  EXPECT_EQ(groups.Begin(GroupId(1)), Change::kBegun);
  EXPECT_EQ(groups.Begin(GroupId(1)), Change::kUnderWay) << "another log lost a member meanwhile";
  EXPECT_EQ(groups.BeginAny(), std::nullopt);
  groups.Install(Group(2, {1, 2, 4}));
  EXPECT_EQ(groups.Begin(GroupId(1)), Change::kReplaced);
  EXPECT_EQ(groups.Current(), Group(2, {1, 2, 4}));
  EXPECT_EQ(groups.BeginAny(), Group(2, {1, 2, 4}));
}

TEST(RangeGroupsTest, L4AGroupIsUnusedWhenEveryLaneHasMovedAndItsLogsAreGone) {
  RangeGroups groups(Group(1, {1, 2, 3}), 2, {});
  groups.AddLog(GroupId(1), LogUuid(1), 5);
  groups.Install(Group(2, {1, 2, 4}));
  EXPECT_TRUE(groups.any_replaced());
  groups.LaneMoved(0, GroupId(2));
  groups.RemoveLog(GroupId(1), LogUuid(1));
  EXPECT_THAT(groups.Unused(), IsEmpty()) << "lane 1 may still open a log there";
  groups.AddLog(GroupId(1), LogUuid(2), 6);
  groups.LaneMoved(1, GroupId(2));
  EXPECT_THAT(groups.Unused(), IsEmpty()) << "round 6 is not flushed";
  groups.RemoveLog(GroupId(1), LogUuid(2));
  EXPECT_THAT(groups.Unused(), ElementsAre(GroupId(1)));
  EXPECT_THAT(groups.Unused(), ElementsAre(GroupId(1))) << "until it is off the record";
  groups.Forget({GroupId(1)});
  EXPECT_THAT(groups.Unused(), IsEmpty());
  EXPECT_FALSE(groups.any_replaced()) << "a range that changes its group for years keeps nothing of it";
}

TEST(RangeGroupsTest, L4OnlyRoundsOfReplacedGroupsAreExposedTheFewestMembersFirst) {
  RangeGroups groups(Group(1, {1, 2, 3}), 1, {});
  groups.AddLog(GroupId(1), LogUuid(1), 4);
  groups.AddLog(GroupId(1), LogUuid(2), 5);
  const std::vector<NodeInfo> live = {Stoc(1, 1), Stoc(2, 99), Stoc(4, 4)};
  EXPECT_THAT(groups.Exposed(live), IsEmpty());
  groups.Install(Group(2, {1, 4, 5}));
  groups.AddLog(GroupId(2), LogUuid(3), 5);
  groups.AddLog(GroupId(2), LogUuid(4), 3);
  groups.Install(Group(3, {1, 4, 6}));
  groups.AddLog(GroupId(3), LogUuid(5), 6);
  // 2 restarted and 3 is gone: of group 1 there is one; 5 is gone: of group 2 there are two
  EXPECT_THAT(groups.Exposed(live), ElementsAre(ExposedRound{4, 1}, ExposedRound{5, 1}, ExposedRound{3, 2}));
}

TEST(RangeGroupsTest, L5ALivingMemberIsReplacedAtMostOnceInAPause) {
  LogOptions options;
  options.change_pause_ns = 3600 * kSecond;
  RangeGroups groups(Group(1, {1, 2, 3}), 1, options);
  EXPECT_TRUE(groups.MayReplaceLiving(GroupId(1)));
  EXPECT_FALSE(groups.MayReplaceLiving(GroupId(1)));
  ASSERT_EQ(groups.Begin(GroupId(1)), Change::kBegun) << "a dead one is replaced at once";
  EXPECT_TRUE(groups.MayReplaceLiving(GroupId(1))) << "it is being replaced anyway";
  groups.Install(Group(2, {1, 2, 4}));
  EXPECT_TRUE(groups.MayReplaceLiving(GroupId(1)));
  EXPECT_FALSE(groups.MayReplaceLiving(GroupId(2)));
}

TEST(RangeGroupsTest, L5AMemberThatRefusesALogIsReplacedAFewTimesInAPause) {
  Simulation sim(1);
  sim.Run([] {
    LogOptions options;
    options.change_pause_ns = 5 * kSecond;
    RangeGroups groups(Group(1, {1, 2, 3}), 1, options);
    for (int pause = 0; pause < 2; ++pause) {
      for (int i = 0; i < RangeGroups::kMostRefusals; ++i)
        EXPECT_TRUE(groups.MayReplaceRefusing(GroupId(1))) << i;
      EXPECT_FALSE(groups.MayReplaceRefusing(GroupId(1)));
      EXPECT_TRUE(groups.MayReplaceRefusing(GroupId(7))) << "that group was replaced";
      SleepFor(options.change_pause_ns);
    }
    EXPECT_EQ(groups.Begin(GroupId(1)), RangeGroups::Change::kBegun);
    EXPECT_FALSE(groups.MayReplaceRefusing(GroupId(1))) << "it is being replaced, which may take long";
  });
}

// --- over StoCs

class LogPartsTest : public testing::TestWithParam<FabricKind> {
 protected:
  void Run(const std::function<void(FabricWorld*)>& test) { InFabricWorld(GetParam(), test); }
};
INSTANTIATE_TEST_SUITE_P(Fabrics, LogPartsTest, testing::ValuesIn(FabricKinds()),
                         [](const auto& p) { return FabricKindName(p.param); });

// Two StoCs, and the parts that a log needs.
struct Rig {
  explicit Rig(FabricWorld* w) : world(w) {
    for (uint32_t i = 0; i < 2; ++i) {
      disks.push_back(machine.Mount());
      stocs.push_back(std::make_unique<TestStoc>(w, i + 1, 100 + i, disks.back().get()));
    }
    options.ping_deadline_ns *= w->patience();
    options.write_deadline_ns *= w->patience();
    client = std::make_unique<TestClient>(w, "ltc-1", 10);
    std::vector<TestStoc*> all;
    for (auto& s : stocs) all.push_back(s.get());
    client->Update(all);
    probe = std::make_unique<MemberProbe>(client->stocs.get(), std::vector<Xchg*>{xchg()}, options, &metrics);
    services =
        std::make_unique<GroupLog::Services>(client->stocs.get(), probe.get(), &shortage, options, &metrics);
  }
  ~Rig() { client->Stop(); }

  Xchg* xchg() { return client->xchgs[0].get(); }
  uint64_t Count(const std::string& name) { return metrics.counter(name)->value(); }

  FabricWorld* const world;
  Metrics metrics;
  SimDisk machine;
  std::vector<std::unique_ptr<Disk>> disks;
  std::vector<std::unique_ptr<TestStoc>> stocs;
  LogOptions options;
  std::unique_ptr<TestClient> client;
  std::unique_ptr<MemberProbe> probe;
  MemoryShortage shortage;
  std::unique_ptr<GroupLog::Services> services;
};

bool IsAlive(Rig* rig, const LogMember& member) {
  bool alive = false;
  Notification answered;
  rig->client->On(0, [&] {
    rig->probe->Ask(0, member, /*near=*/false, [&](bool is_alive) {
      alive = is_alive;
      answered.Notify();
    });
  });
  answered.Wait();
  return alive;
}

TEST_P(LogPartsTest, AProbeTellsALivingProcessFromOneThatRestartedOrIsGone) {
  Run([](FabricWorld* world) {
    Rig rig(world);
    const LogMember member = rig.stocs[0]->member();
    EXPECT_TRUE(IsAlive(&rig, member));
    EXPECT_FALSE(IsAlive(&rig, {member.stoc, Incarnation(99), {}})) << "another incarnation answers";
    rig.stocs[1]->Stop();
    EXPECT_FALSE(IsAlive(&rig, rig.stocs[1]->member()));
  });
}

TEST_P(LogPartsTest, AllWhoAskAtATimeShareAPing) {
  Run([](FabricWorld* world) {
    Rig rig(world);
    int answers = 0;
    Notification answered;
    rig.client->On(0, [&] {
      for (int i = 0; i < 3; ++i) {
        rig.probe->Ask(0, rig.stocs[0]->member(), /*near=*/false, [&](bool alive) {
          EXPECT_TRUE(alive);
          if (++answers == 3) answered.Notify();
        });
      }
    });
    answered.Wait();
    EXPECT_EQ(rig.Count("nova_logc_pings_total{result=\"answered\"}"), 1u);
  });
}

TEST(FullDisksTest, LastFromAPauseAfterTheFirstWordUntilARecordIsInOrNobodyAsksAnyMore) {
  Simulation sim(1);
  sim.Run([] {
    FullDisks disks(kSecond);
    const auto told_for = [&](Nanos ns) {
      for (const Nanos until = Now() + ns; Now() < until; SleepFor(100 * kMillisecond)) disks.Told();
    };
    EXPECT_FALSE(disks.Last());
    told_for(900 * kMillisecond);
    EXPECT_FALSE(disks.Last()) << "a moment is no reason";
    told_for(400 * kMillisecond);
    EXPECT_TRUE(disks.Last());
    disks.Acknowledged();
    EXPECT_FALSE(disks.Last());
    told_for(900 * kMillisecond);
    EXPECT_FALSE(disks.Last()) << "it counts from anew";
    told_for(400 * kMillisecond);
    EXPECT_TRUE(disks.Last());
    SleepFor(3 * kSecond);
    EXPECT_FALSE(disks.Last()) << "what waited is gone";
    disks.Told();
    EXPECT_FALSE(disks.Last()) << "the first word after that";
  });
}

// Opens logs, and notes what they tell. On the thread of the xchg alone.
struct TestOwner : GroupLog::Owner {
  bool fenced() const override { return is_fenced; }
  void Fence() override { is_fenced = true; }
  void MemberFailed(const LogGroup&, StocId member, ChangeCause cause) override {
    failures.emplace_back(member, cause);
    changed.Notify();
  }
  bool MayReplaceLiving(GroupId) override { return true; }
  bool MayReplaceRefusing(GroupId) override {
    ++refusals;
    return may_replace_refusing;
  }
  void FlushSoon() override {
    if (log != nullptr) log->PostUnposted();
  }
  void WaitsForSpace() override { full = true; }
  void RecordEnded(size_t bytes) override { ended_bytes += bytes; }
  void RecordRefused(size_t bytes) override { refused_bytes += bytes; }

  std::shared_ptr<GroupLog> log;
  bool is_fenced = false;
  bool full = false;
  bool may_replace_refusing = true;
  int refusals = 0;
  std::vector<std::pair<StocId, ChangeCause>> failures;
  size_t ended_bytes = 0;
  size_t refused_bytes = 0;
  Notification changed;
};

// Appends a record of that sequence number, in staging memory of its own. `sent`: as one that is in an
// earlier log of its round.
void AppendTo(Rig* rig, GroupLog* log, SequenceNumber sequence, absl::AnyInvocable<void(Outcome)> done,
              bool sent = false) {
  const LogEntry entry{MemTableId(1), ValueType::kPut, "key", "value"};
  const LogRecord record{1, sequence, 1, sequence, false, {&entry, 1}};
  const size_t bytes = LogRecordBytes(record);
  PendingRecord pending{
      std::make_shared<Staging>(rig->client->buffers->Allocate(bytes)), 0, bytes, false, sent, {}};
  pending.done = std::move(done);
  log->Append(record, std::move(pending));
}

TEST_P(LogPartsTest, ALogAcknowledgesInOrderWhatEveryMemberHas) {
  Run([](FabricWorld* world) {
    Rig rig(world);
    const auto owner = std::make_shared<TestOwner>();
    std::vector<SequenceNumber> ended;
    Notification all;
    rig.client->On(0, [&] {
      const LogGroup group{GroupId(1), {rig.stocs[0]->member(), rig.stocs[1]->member()}, LogMedia::kMemory};
      owner->log = GroupLog::Open(rig.services.get(), rig.xchg(), kRange, Epoch(3), group, owner);
      for (SequenceNumber s = 1; s <= 20; ++s) {
        AppendTo(&rig, owner->log.get(), s, [&, s](Outcome o) {
          EXPECT_EQ(o, Outcome::kOk);
          ended.push_back(s);
          if (ended.size() == 20) all.Notify();
        });
      }
      EXPECT_TRUE(owner->log->has_pending());
      owner->log->PostUnposted();  // it is not open yet: goes on when it is
    });
    all.Wait();
    rig.client->On(0, [&] {
      EXPECT_FALSE(owner->log->has_pending());
      EXPECT_TRUE(std::is_sorted(ended.begin(), ended.end()));
      EXPECT_TRUE(owner->failures.empty());
      owner->log = nullptr;
    });
  });
}

TEST_P(LogPartsTest, ALogThatLosesAMemberClosesAndGivesUpWhatIsPending) {
  Run([](FabricWorld* world) {
    Rig rig(world);
    const auto owner = std::make_shared<TestOwner>();
    rig.stocs[1]->Stop();
    rig.client->On(0, [&] {
      const LogGroup group{GroupId(1), {rig.stocs[0]->member(), rig.stocs[1]->member()}, LogMedia::kMemory};
      owner->log = GroupLog::Open(rig.services.get(), rig.xchg(), kRange, Epoch(3), group, owner);
      for (SequenceNumber s = 1; s <= 3; ++s) AppendTo(&rig, owner->log.get(), s, [](Outcome) { FAIL(); });
      owner->log->PostUnposted();
    });
    owner->changed.Wait();
    rig.client->On(0, [&] {
      EXPECT_THAT(owner->failures, ElementsAre(std::pair(rig.stocs[1]->id(), ChangeCause::kDead)));
      EXPECT_EQ(owner->log->TakePending().size(), 3u);
      EXPECT_FALSE(owner->log->has_pending());
      EXPECT_EQ(owner->ended_bytes, 0u);
      owner->log = nullptr;
    });
  });
}

// A StoC without memory for logs. Once it has some again a log that waited goes on with the same members.
TEST_P(LogPartsTest, L5AMemberThatRefusesALogIsAskedAgainWhileItMayNotBeReplaced) {
  for (const bool may_replace : {true, false}) {
    SCOPED_TRACE(may_replace);
    Run([may_replace](FabricWorld* world) {
      Rig rig(world);
      constexpr RangeId kOther(9);
      const LogMember full = rig.stocs[1]->member();
      const Uuid hog = Uuid::Generate();
      Notification taken, acknowledged;
      rig.client->On(0, [&] {
        rig.client->stocs->OpenSegment(rig.xchg(), full, kOther, Epoch(3), hog, 0,
                                       rig.stocs[1]->log_memory->options().max_bytes, Soon(),
                                       [&](Outcome o, const RemoteBuffer&) {
                                         EXPECT_EQ(o, Outcome::kOk);
                                         taken.Notify();
                                       });
      });
      taken.Wait();
      const auto owner = std::make_shared<TestOwner>();
      owner->may_replace_refusing = may_replace;
      rig.client->On(0, [&] {
        const LogGroup group{GroupId(1), {rig.stocs[0]->member(), full}, LogMedia::kMemory};
        owner->log = GroupLog::Open(rig.services.get(), rig.xchg(), kRange, Epoch(3), group, owner);
        AppendTo(&rig, owner->log.get(), 1, [&](Outcome o) {
          EXPECT_EQ(o, Outcome::kOk);
          acknowledged.Notify();
        });
        owner->log->PostUnposted();
      });
      int refusals = 0;
      for (const Nanos until = Soon(); refusals < (may_replace ? 1 : 3) && Now() < until;
           SleepFor(kMillisecond))
        rig.client->On(0, [&] { refusals = owner->refusals; });
      if (may_replace) {
        EXPECT_EQ(refusals, 1);
        owner->changed.Wait();
        rig.client->On(0, [&] {
          EXPECT_THAT(owner->failures, ElementsAre(std::pair(full.stoc, ChangeCause::kRefused)));
          EXPECT_EQ(owner->log->TakePending().size(), 1u);
          owner->log = nullptr;
        });
        return;
      }
      EXPECT_GE(refusals, 3);
      rig.client->On(0, [&] {
        rig.client->stocs->FreeLogs(rig.xchg(), full.stoc, kOther, Epoch(3), {hog}, [](Outcome) {});
      });
      acknowledged.Wait();
      rig.client->On(0, [&] {
        EXPECT_TRUE(owner->failures.empty());
        owner->log = nullptr;
      });
    });
  }
}

// The rounds of records that wait for memory are pinned (pin, L6), and their logs hold memory that others
// wait for. What may be in an earlier log has to wait all the same: nobody knows how it ended.
TEST_P(LogPartsTest, L5WhatWaitsForMemoryAndWasSentNowhereEndsWithBusy) {
  Run([](FabricWorld* world) {
    Rig rig(world);
    constexpr RangeId kOther(9);
    const LogMember full = rig.stocs[1]->member();
    const Uuid hog = Uuid::Generate();
    ASSERT_EQ(rig.client
                  ->OpenSegment(*rig.stocs[1], kOther, Epoch(3), hog, 0,
                                rig.stocs[1]->log_memory->options().max_bytes)
                  .first,
              Outcome::kOk);
    const auto owner = std::make_shared<TestOwner>();
    owner->may_replace_refusing = false;
    std::vector<std::pair<SequenceNumber, Outcome>> ended;
    const auto append = [&](SequenceNumber s, bool sent) {
      AppendTo(
          &rig, owner->log.get(), s, [&ended, s](Outcome o) { ended.emplace_back(s, o); }, sent);
    };
    const auto wait_for = [&](const std::function<bool()>& what) {
      bool is = false;
      for (const Nanos until = Soon(); !is && Now() < until; SleepFor(kMillisecond))
        rig.client->On(0, [&] { is = what(); });
      return is;
    };
    rig.client->On(0, [&] {
      const LogGroup group{GroupId(1), {rig.stocs[0]->member(), full}, LogMedia::kMemory};
      owner->log = GroupLog::Open(rig.services.get(), rig.xchg(), kRange, Epoch(3), group, owner);
      append(1, /*sent=*/true);
      append(2, /*sent=*/false);
      append(3, /*sent=*/false);
      owner->log->PostUnposted();
      EXPECT_FALSE(owner->log->refuses());
    });
    ASSERT_TRUE(wait_for([&] { return owner->log->refuses(); }));
    rig.client->On(0, [&] {
      EXPECT_THAT(ended, ElementsAre(Pair(2, Outcome::kBusy), Pair(3, Outcome::kBusy)));
      EXPECT_GT(owner->refused_bytes, 0u);
      EXPECT_TRUE(owner->log->has_pending());
      EXPECT_TRUE(rig.shortage.Lasts());
      ended.clear();
    });
    EXPECT_EQ(rig.client->FreeLogs(*rig.stocs[1], kOther, Epoch(3), {hog}), Outcome::kOk);
    ASSERT_TRUE(wait_for([&] { return !ended.empty(); }));
    rig.client->On(0, [&] {
      EXPECT_FALSE(owner->log->refuses());
      append(4, /*sent=*/false);  // with the lsn that 2 had
      owner->log->PostUnposted();
    });
    ASSERT_TRUE(wait_for([&] { return ended.size() == 2; }));
    EXPECT_THAT(ended, ElementsAre(Pair(1, Outcome::kOk), Pair(4, Outcome::kOk)));
    std::vector<std::pair<uint64_t, SequenceNumber>> found;  // lsns and numbers of what the log holds
    rig.stocs[0]->segments->ForEach([&](const Uuid& log, uint32_t, std::string_view bytes) {
      while (const size_t length = PlausibleLogRecord(bytes, /*last_lsn=*/9)) {
        const auto record = CheckLogRecord(log, bytes, length);
        if (!record) break;
        const auto note = [&](const ParsedLogEntry& e) { found.emplace_back(record->lsn, e.sequence); };
        EXPECT_TRUE(ParseLogEntries(*record, note).ok());
        bytes.remove_prefix(length);
      }
    });
    EXPECT_THAT(found, ElementsAre(Pair(1, 1), Pair(2, 4))) << "no lsn is left out (one writer, L2)";
    rig.client->On(0, [&] { owner->log = nullptr; });
  });
}

TEST_P(LogPartsTest, F1ALogOfAFencedEpochTellsItsOwner) {
  Run([](FabricWorld* world) {
    Rig rig(world);
    const auto owner = std::make_shared<TestOwner>();
    ASSERT_TRUE(rig.client->stocs->Fence(rig.stocs[0]->id(), kRange, Epoch(4), Soon()).ok());
    rig.client->On(0, [&] {
      const LogGroup group{GroupId(1), {rig.stocs[0]->member()}, LogMedia::kMemory};
      owner->log = GroupLog::Open(rig.services.get(), rig.xchg(), kRange, Epoch(3), group, owner);
    });
    bool fenced = false;
    for (const Nanos until = Soon(); !fenced && Now() < until; SleepFor(kMillisecond))
      rig.client->On(0, [&] { fenced = owner->is_fenced; });
    EXPECT_TRUE(fenced);
    rig.client->On(0, [&] { owner->log = nullptr; });
  });
}

}  // namespace
}  // namespace nova
