// LogC over real StoCs: what was acknowledged is found by recovery, whoever died in between.
#include "logc/log_client.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <map>
#include <set>

#include "common/base/failpoint.h"
#include "common/base/fault_disk.h"
#include "common/base/log.h"
#include "logc/log_recovery.h"
#include "tests/stoc/stoc_rig.h"

namespace nova {
namespace {

constexpr RangeId kRange(7);
constexpr int kLanes = 2;

struct Mode {
  FabricKind fabric;
  LogMedia media;
};

std::vector<Mode> Modes(const std::vector<LogMedia>& all = {LogMedia::kMemory, LogMedia::kFiles,
                                                            LogMedia::kMemoryAndFiles}) {
  std::vector<Mode> modes;
  for (const FabricKind fabric : FabricKinds()) {
    for (const LogMedia media : all) modes.push_back({fabric, media});
  }
  return modes;
}

std::string ModeName(const testing::TestParamInfo<Mode>& param) {
  const std::string fabric = FabricKindName(param.param.fabric);
  return param.param.media == LogMedia::kMemory
             ? fabric
             : fabric + (param.param.media == LogMedia::kFiles ? "Files" : "MemoryAndFiles");
}

class LogClientTest : public testing::TestWithParam<Mode> {
 protected:
  void Run(const std::function<void(FabricWorld*)>& test) { InFabricWorld(GetParam().fabric, test); }
  bool tcp() const { return GetParam().fabric == FabricKind::kTcp; }
  uint64_t Many() const { return GetParam().fabric == FabricKind::kSim ? 1'500 : 20'000; }
  bool memory() const { return HasMemory(GetParam().media); }
  bool files() const { return HasFiles(GetParam().media); }
};

INSTANTIATE_TEST_SUITE_P(Fabrics, LogClientTest, testing::ValuesIn(Modes()), ModeName);

class LogSegmentTest : public LogClientTest {};  // of groups with memory
INSTANTIATE_TEST_SUITE_P(Fabrics, LogSegmentTest,
                         testing::ValuesIn(Modes({LogMedia::kMemory, LogMedia::kMemoryAndFiles})), ModeName);

class LogFileTest : public LogClientTest {};  // of groups with files
INSTANTIATE_TEST_SUITE_P(Fabrics, LogFileTest,
                         testing::ValuesIn(Modes({LogMedia::kFiles, LogMedia::kMemoryAndFiles})), ModeName);

class LogOutageTest : public LogClientTest {};  // of what takes half a minute
INSTANTIATE_TEST_SUITE_P(Simulated, LogOutageTest,
                         testing::Values(Mode{FabricKind::kSim, LogMedia::kMemory},
                                         Mode{FabricKind::kSim, LogMedia::kFiles},
                                         Mode{FabricKind::kSim, LogMedia::kMemoryAndFiles}),
                         ModeName);

std::string KeyOf(SequenceNumber s) { return StrCat("key", s); }
std::string ValueOf(SequenceNumber s) { return std::string(s % 200, static_cast<char>('a' + s % 26)); }

bool NothingDone(MemTableId) { return false; }

// Five StoCs and an LTC that logs for one range at epoch 3, into groups of three.
struct Rig {
  explicit Rig(FabricWorld* w, LogMedia log_media, LogOptions options = {}, bool may_change = true,
               Nanos file_deadline = 2 * kSecond)
      : world(w), media(log_media), can_change(may_change) {
    for (uint32_t i = 0; i < 5; ++i) {
      machines.push_back(std::make_unique<SimDisk>());
      Mount(i);
      stocs.push_back(std::make_unique<TestStoc>(w, i + 1, 100 + i, disks.back().get()));
    }
    options.write_deadline_ns = options.open_deadline_ns = 500 * kMillisecond * w->patience();
    options.file_deadline_ns = file_deadline * w->patience();
    options.ping_deadline_ns *= w->patience();
    ltc = std::make_unique<TestClient>(w, "ltc-1", 10, kLanes, [&](TestClient* c) {
      std::vector<Xchg*> xchgs;
      for (auto& x : c->xchgs) xchgs.push_back(x.get());
      logs = std::make_unique<LogClient>(c->fabric.get(), c->stocs.get(), xchgs, options, &metrics);
    });
    other = std::make_unique<TestClient>(w, "ltc-2", 11);
    std::vector<TestStoc*> all;
    for (auto& s : stocs) all.push_back(s.get());
    ltc->Update(all);
    other->Update(all);
    LogGroup first{
        GroupId(1), {stocs[0]->member(media), stocs[1]->member(media), stocs[2]->member(media)}, media};
    record.id = kRange;
    record.epoch = Epoch(3);
    record.log_groups = {first};
    log = logs->Open(
        kRange, Epoch(3), first,
        [this](const LogGroup& current, StocId failed, std::function<void(StatusOr<LogGroup>)> answer) {
          Change(current, failed, std::move(answer));
        });
  }
  ~Rig() {
    log = nullptr;
    waiting.clear();  // they hold the log, which must go before what all logs share
    ltc->Stop();
    logs = nullptr;
  }

  void Change(const LogGroup& current, StocId failed, std::function<void(StatusOr<LogGroup>)> answer) {
    LogGroup next{GroupId(current.id.value() + 1), {}, media};
    {
      MutexLock lock(&mu);
      if (store_away) {
        waiting.push_back([=, this, answer = std::move(answer)] { Change(current, failed, answer); });
        return;
      }
      if (!can_change) return answer(absl::FailedPreconditionError("the epoch is over"));
      dead.insert(failed);
      for (const auto& s : stocs) {
        const bool takes_part = s != nullptr && !dead.contains(s->id());  // null: it starts again
        if (takes_part && next.members.size() < 3) next.members.push_back(s->member(media));
      }
      record.log_groups.push_back(next);
    }
    answer(next);
  }

  // Changes that were asked for while the store was away are made.
  void StoreIsBack() {
    std::vector<std::function<void()>> changes;
    {
      MutexLock lock(&mu);
      store_away = false;
      changes.swap(waiting);
    }
    for (const auto& change : changes) change();
  }

  // Appends sequence numbers first .. first + count - 1, each lane every second one; waits until all have
  // ended. The second half of them begins once `progress` was told of a third.
  std::map<SequenceNumber, Outcome> Append(SequenceNumber first, uint64_t count, RoundNumber round = 1,
                                           const std::function<void(uint64_t ended)>& progress = nullptr) {
    struct State {
      Mutex mu;
      CondVar changed;
      std::map<SequenceNumber, Outcome> ended;
      std::atomic<bool> told{false};
    };
    auto state = std::make_shared<State>();
    state->told = progress == nullptr;
    for (size_t lane = 0; lane < kLanes; ++lane) {
      auto next = std::make_shared<SequenceNumber>(first + lane);
      auto step = std::make_shared<std::function<void()>>();
      *step = [this, state, next, weak = std::weak_ptr(step), lane, round, half = first + count / 2,
               end = first + count] {
        const auto step = weak.lock();  // whoever runs it holds it
        Executor* const on = ltc->executors[lane].get();
        const SequenceNumber until = state->told ? end : half;
        for (int i = 0; i < 20 && *next < until; ++i) {
          const SequenceNumber s = *next;
          const std::string key = KeyOf(s), value = ValueOf(s);
          const LogEntry entry{MemTableId(round), ValueType::kPut, key, value};
          const Outcome taken = log->Append(on, {round, s, 1, s, sync, {&entry, 1}}, [state, s](Outcome o) {
            MutexLock lock(&state->mu);
            EXPECT_TRUE(state->ended.emplace(s, o).second) << s << " ended twice";
            state->changed.SignalAll();
          });
          EXPECT_TRUE(taken == Outcome::kOk || taken == Outcome::kBusy) << OutcomeName(taken);
          if (taken != Outcome::kOk) return on->RunAt(Now() + kMillisecond, [step] { (*step)(); });
          *next += kLanes;
        }
        if (*next < end) on->RunAt(Now() + 200 * kMicrosecond, [step] { (*step)(); });
      };
      ltc->executors[lane]->Submit([step] { (*step)(); });
    }
    const Nanos until = Now() + 30 * kSecond;
    MutexLock lock(&state->mu);
    while (state->ended.size() < count) {
      if (progress) {
        const uint64_t ended = state->ended.size();
        state->mu.Unlock();
        progress(ended);
        if (ended >= count / 3) state->told = true;
        state->mu.Lock();
      }
      if (state->ended.size() == count) break;
      if (!state->changed.WaitUntil(&state->mu, std::min(until, Now() + 50 * kMillisecond)) &&
          Now() >= until) {
        ADD_FAILURE() << state->ended.size() << " of " << count << " appends have ended";
        break;
      }
    }
    return state->ended;
  }

  // As recovery at `epoch` sees it, by sequence number; also checks what was recovered.
  std::set<SequenceNumber> Recover(RangeRecord r, Epoch epoch) {
    r.epoch = epoch;
    const auto records = RecoverLogs(other->stocs.get(), r, NothingDone, Now() + 10 * kSecond);
    EXPECT_TRUE(records.ok()) << records.status();
    std::set<SequenceNumber> found;
    if (!records.ok()) return found;
    for (const RecoveredRecord& rec : *records) {
      found.insert(rec.sequence);
      EXPECT_EQ(rec.key, KeyOf(rec.sequence));
      EXPECT_EQ(rec.value, ValueOf(rec.sequence));
    }
    return found;
  }
  RangeRecord Record() {
    MutexLock lock(&mu);
    return record;
  }
  uint64_t Changes(const std::string& cause) {
    return metrics.counter("nova_logc_group_changes_total{cause=\"" + cause + "\"}")->value();
  }
  // The StoC does nothing for so long, or until `sooner` if that is given.
  void Stall(size_t stoc, Nanos ns, const Notification* sooner = nullptr) {
    const auto stand_still = [ns, sooner] {
      sooner != nullptr ? (void)sooner->WaitUntil(Now() + ns) : SleepFor(ns);
    };
    if (const auto network = world->network()) {
      network->Pause(stocs[stoc]->info().name);
      stalls.push_back(std::make_unique<Thread>("stall", [this, network, stoc, stand_still] {
        stand_still();
        network->Resume(stocs[stoc]->info().name);
      }));
      return;
    }
    const auto still = std::make_shared<std::atomic<size_t>>(0);
    for (auto& x : stocs[stoc]->xchgs) {
      x->Submit([stand_still, still] {
        ++*still;
        stand_still();
      });
    }
    while (still->load() < stocs[stoc]->xchgs.size()) SleepFor(kMillisecond);
  }
  // Another process on its store. With `power_loss` what was not synced is gone.
  void Restart(size_t stoc, bool power_loss) {
    const uint64_t incarnation = stocs[stoc]->info().incarnation.value() + 100;
    std::unique_ptr<TestStoc> ends, starts;
    {
      MutexLock lock(&mu);
      ends = std::move(stocs[stoc]);
    }
    ends = nullptr;
    disks[stoc] = nullptr;
    mounts[stoc] = nullptr;
    if (power_loss) machines[stoc]->Crash();
    Mount(stoc);
    starts =
        std::make_unique<TestStoc>(world, static_cast<uint32_t>(stoc + 1), incarnation, disks[stoc].get());
    {
      MutexLock lock(&mu);
      stocs[stoc] = std::move(starts);
    }
    std::vector<TestStoc*> all;
    for (auto& s : stocs) all.push_back(s.get());
    ltc->Update(all);
    other->Update(all);
  }
  void Mount(size_t stoc) {
    mounts.resize(std::max(mounts.size(), stoc + 1));
    disks.resize(std::max(disks.size(), stoc + 1));
    mounts[stoc] = machines[stoc]->Mount();
    disks[stoc] = std::make_unique<FaultDisk>(mounts[stoc].get());
  }
  // As the coordinator would tell of it: the StoCs from `first` on are live.
  void TellLive(size_t first) {
    std::vector<TestStoc*> live;
    for (size_t i = first; i < stocs.size(); ++i) live.push_back(stocs[i].get());
    ltc->Update(live);
  }

  FabricWorld* const world;
  Metrics metrics;
  const LogMedia media;
  std::vector<std::unique_ptr<SimDisk>> machines;
  std::vector<std::unique_ptr<Disk>> mounts;
  std::vector<std::unique_ptr<FaultDisk>> disks;  // over them
  std::vector<std::unique_ptr<TestStoc>> stocs;
  std::unique_ptr<TestClient> ltc;
  std::unique_ptr<TestClient> other;
  std::unique_ptr<LogClient> logs;
  std::unique_ptr<ReplicatedLog> log;
  std::atomic<bool> sync{true};  // of the records appended
  Mutex mu;
  bool can_change;
  bool store_away = false;                     // changes of the group wait
  std::vector<std::function<void()>> waiting;  // the changes
  std::vector<std::unique_ptr<Thread>> stalls;
  std::set<StocId> dead;
  RangeRecord record;
};

std::set<SequenceNumber> Range(SequenceNumber first, uint64_t count) {
  std::set<SequenceNumber> all;
  for (uint64_t i = 0; i < count; ++i) all.insert(first + i);
  return all;
}

void ExpectAllOk(const std::map<SequenceNumber, Outcome>& ended) {
  for (const auto& [s, o] : ended) ASSERT_EQ(o, Outcome::kOk) << s << ": " << OutcomeName(o);
}

TEST_P(LogClientTest, EveryMemberHasWhatWasAcknowledged) {  // L3
  Run([&](FabricWorld* world) {
    Rig rig(world, GetParam().media);
    ExpectAllOk(rig.Append(1, Many(), 1));
    ExpectAllOk(rig.Append(1 + Many(), 100, 2));
    EXPECT_EQ(rig.log->bytes_in_flight(), 0u);
    EXPECT_LT(rig.metrics.counter("nova_logc_writes_total")->value(), 3 * Many())
        << "records of a round share a WRITE";
    for (size_t m = 0; m < 3; ++m) {
      RangeRecord one = rig.Record();
      one.log_groups[0].members = {one.log_groups[0].members[m]};
      EXPECT_EQ(rig.Recover(one, Epoch(4)), Range(1, Many() + 100)) << "member " << m;
    }
  });
}

// Also at the moment at which it is acknowledged: not before the slowest member has it, whichever that is.
TEST_P(LogClientTest, NothingIsAcknowledgedWhileOneMemberStandsStill) {  // L3
  // a NIC takes a WRITE while its host stands still
  if (GetParam().fabric == FabricKind::kVerbs && !files()) return;
  Run([&](FabricWorld* world) {
    Rig rig(world, GetParam().media);
    SequenceNumber next = 1;
    const auto append = [&](const std::function<void(uint64_t)>& progress) {
      ExpectAllOk(rig.Append(next, 20, 1, progress));
      next += 20;
    };
    append(nullptr);  // the logs are open everywhere
    for (size_t m = 0; m < 3; ++m) {
      const Nanos still = 200 * kMillisecond * world->patience();
      const Nanos until = Now() + still;
      rig.Stall(m, still);
      append([&](uint64_t ended) {
        if (Now() < until) {
          EXPECT_EQ(ended, 0u) << "without member " << m;
        }
      });
      EXPECT_GE(Now(), until);
    }
    EXPECT_EQ(rig.Record().log_groups.size(), 1u) << "a member was replaced";
  });
}

// After a group change records wait for their log. Members that open the next round's at the same time would
// keep them waiting for twice as long.
TEST_P(LogSegmentTest, L4TheSpareLogIsOpenedOnceTheFirstIsOpen) {
  Run([&](FabricWorld* world) {
    Rig rig(world, GetParam().media);
    const auto opened = [&] {
      return rig.stocs[1]->metrics.counter("nova_stoc_requests_total{type=\"open_segment\"}")->value();
    };
    const Nanos still = 200 * kMillisecond * world->patience();
    const Nanos until = Now() + still;
    rig.Stall(0, still);
    uint64_t meanwhile = 0;
    ExpectAllOk(rig.Append(1, 20, 1, [&](uint64_t) {
      const uint64_t now = opened();
      if (Now() < until) meanwhile = now;
    }));
    EXPECT_LE(meanwhile, uint64_t{kLanes});
    for (const Nanos end = Soon(); opened() < 2 * kLanes && Now() < end;) SleepFor(kMillisecond);
    EXPECT_EQ(opened(), uint64_t{2 * kLanes}) << "each lane has one for the next round";
  });
}

// What recovery finds of ten records that were acknowledged while the thread that had changed the group stood
// still, and whoever maintains the record had taken out of it what was said to be unused.
std::set<SequenceNumber> FoundOfTenWrittenBeforeTheLanesMoved(FabricWorld* world, LogMedia media,
                                                              const RulesOff& off) {
  LogOptions options;
  options.off = off;
  Rig rig(world, media, options);
  {
    MutexLock lock(&rig.mu);  // another group altogether
    for (size_t i = 0; i < 3; ++i) rig.dead.insert(rig.stocs[i]->id());
  }
  Notification replaced, go_on;
  NOVA_CHECK(ArmFailPoint("logc.group_replaced", 1, [&] {
               replaced.Notify();
               go_on.WaitUntil(Now() + 60 * kSecond);
               return OkStatus();
             }).ok());
  Thread change("change", [&] { rig.log->RequestGroupChange(); });
  EXPECT_TRUE(replaced.WaitUntil(Now() + 10 * kSecond));
  const std::vector<GroupId> unused = rig.log->UnusedGroups();
  {
    MutexLock lock(&rig.mu);
    std::erase_if(rig.record.log_groups, [&](const LogGroup& g) {
      return std::find(unused.begin(), unused.end(), g.id) != unused.end();
    });
  }
  ExpectAllOk(rig.Append(1, 10));
  std::set<SequenceNumber> found = rig.Recover(rig.Record(), Epoch(4));
  go_on.Notify();
  change.Join();
  DisarmFailPoints();
  return found;
}

TEST_P(LogClientTest, L4AGroupStaysListedUntilEveryThreadHasMoved) {
  Run([&](FabricWorld* world) {
    EXPECT_EQ(FoundOfTenWrittenBeforeTheLanesMoved(world, GetParam().media, {}), Range(1, 10));
  });
}

TEST_P(LogClientTest, L4WithoutThatWhatIsAcknowledgedIsLost) {
  Run([&](FabricWorld* world) {
    const RulesOff off{.l4_all_lanes = true};
    EXPECT_NE(FoundOfTenWrittenBeforeTheLanesMoved(world, GetParam().media, off), Range(1, 10));
  });
}

TEST_P(LogClientTest, AStocDiesAndNothingAcknowledgedIsLost) {  // L4, rows 13 and 15
  Run([&](FabricWorld* world) {
    Rig rig(world, GetParam().media);
    bool killed = false;
    const auto ended = rig.Append(1, Many(), 1, [&](uint64_t n) {
      if (n < Many() / 3 || killed) return;
      killed = true;
      rig.stocs[1]->Stop();
    });
    ASSERT_TRUE(killed);
    ExpectAllOk(ended);
    ASSERT_EQ(rig.Record().log_groups.size(), 2u);
    EXPECT_THAT(rig.log->UnusedGroups(), testing::IsEmpty());
    EXPECT_THAT(rig.log->ExposedRounds(), testing::ElementsAre(ExposedRound{1, 3}))
        << "nobody has told of the death yet";
    // A StoC that stops in order refuses appends to files a moment before it is gone.
    EXPECT_EQ(rig.Changes("dead") + (files() ? rig.Changes("slow") : 0), 1u);
    EXPECT_TRUE(files() || rig.Changes("slow") == 0);
    // One survivor of each group is enough, whichever.
    for (const size_t first : {0, 2}) {
      for (size_t second = 0; second < 3; ++second) {
        RangeRecord two = rig.Record();
        two.log_groups[0].members = {two.log_groups[0].members[first]};
        two.log_groups[1].members = {two.log_groups[1].members[second]};
        EXPECT_EQ(rig.Recover(two, Epoch(4)), Range(1, Many()));
      }
    }
    EXPECT_EQ(rig.Recover(rig.Record(), Epoch(5)), Range(1, Many()));
  });
}

// What is in flight has to be in memory twice for a moment. Over verbs a StoC's memory takes WRITEs while its
// threads stand still, so that nothing is held up.
TEST_P(LogClientTest, L4AGroupChangeWithStagingMemoryFullLosesNoRecord) {
  if (GetParam().fabric == FabricKind::kVerbs) return;
  Run([&](FabricWorld* world) {
    LogOptions options;
    options.staging_bytes = 1 << 20;
    Notification changed;  // what stood still goes on
    Rig rig(world, GetParam().media, options);
    ExpectAllOk(rig.Append(1, 10));
    rig.Stall(0, 3 * kSecond * world->patience(), &changed);
    bool was_full = false;
    const size_t nearly_all = options.staging_bytes - (100 << 10);
    ExpectAllOk(rig.Append(11, 12'000, 1, [&](uint64_t) {
      was_full |= rig.log->bytes_in_flight() * 10 > nearly_all * 8;
      if (rig.Record().log_groups.size() >= 2) changed.Notify();
    }));
    EXPECT_TRUE(was_full);
    EXPECT_GE(rig.Record().log_groups.size(), 2u);
    EXPECT_EQ(rig.Recover(rig.Record(), Epoch(4)), Range(1, 12'010));
  });
}

TEST_P(LogClientTest, ASecondStocDiesToo) {  // row 15
  Run([&](FabricWorld* world) {
    Rig rig(world, GetParam().media);
    SequenceNumber next = 1;
    for (const size_t dying : {0, 1}) {
      bool killed = false;
      ExpectAllOk(rig.Append(next, Many(), 1, [&](uint64_t n) {
        if (n <= Many() / 4 || std::exchange(killed, true)) return;
        rig.stocs[dying]->Stop();
      }));
      next += Many();
      ASSERT_TRUE(killed);
      ExpectAllOk(rig.Append(next, kLanes, 1));  // all the others may have ended before it was gone
      next += kLanes;
      EXPECT_GE(rig.Record().log_groups.size(), dying + 2);
    }
    EXPECT_EQ(rig.Recover(rig.Record(), Epoch(4)), Range(1, next - 1));
  });
}

TEST_P(LogClientTest, L5ADeathReplacesTheMemberWithoutWaitingForADeadline) {
  Run([&](FabricWorld* world) {
    Rig rig(world, GetParam().media);
    ExpectAllOk(rig.Append(1, 10));
    rig.stocs[1]->Stop();
    const Nanos begin = Now();
    ExpectAllOk(rig.Append(11, 10));
    EXPECT_LT(Now() - begin, 250 * kMillisecond * world->patience())
        << "the deadline of a WRITE is twice that";
    EXPECT_EQ(rig.Changes("dead"), 1u);
    // The next one right after it: no limit holds up what every put waits for.
    rig.stocs[2]->Stop();
    ExpectAllOk(rig.Append(21, 10));
    EXPECT_LT(Now() - begin, 500 * kMillisecond * world->patience());
    EXPECT_EQ(rig.Changes("dead"), 2u);
    EXPECT_EQ(rig.Recover(rig.Record(), Epoch(4)), Range(1, 30));
  });
}

// A StoC whose process stands still for longer than the deadline, and answers the ping after it.
TEST_P(LogClientTest, L5AMemberThatAnswersThePingIsNotReplaced) {
  Run([&](FabricWorld* world) {
    Rig rig(world, GetParam().media, {}, /*may_change=*/true, /*file_deadline=*/500 * kMillisecond);
    ExpectAllOk(rig.Append(1, 100));
    const bool nic = GetParam().fabric == FabricKind::kVerbs && !files();
    // The deadline: 500 ms, in the guest 10 s.
    const Nanos stall = nic ? 5 * kSecond : 650 * kMillisecond * (tcp() ? world->patience() : 1);
    rig.Stall(1, stall);
    const Nanos begin = Now();
    ExpectAllOk(rig.Append(101, 100));
    EXPECT_EQ(rig.Record().log_groups.size(), 1u) << "the group was changed for a hiccup";
    if (nic) {
      EXPECT_LT(Now() - begin, stall) << "a NIC takes a WRITE while its host stands still";
    } else {
      EXPECT_GT(Now() - begin, 500 * kMillisecond);
      EXPECT_GE(rig.metrics.counter("nova_logc_reposts_total")->value(), 1u);
      EXPECT_GE(rig.metrics.counter("nova_logc_pings_total{result=\"answered\"}")->value(), 1u);
    }
    ExpectAllOk(rig.Append(201, 100));
    SleepUntil(begin + stall);
    for (size_t m = 0; m < 3; ++m) {  // L3: also the one that was late has it all
      RangeRecord one = rig.Record();
      one.log_groups[0].members = {one.log_groups[0].members[m]};
      EXPECT_EQ(rig.Recover(one, Epoch(4)), Range(1, 300)) << "member " << m;
    }
  });
}

// Records 1 to 200. A member stands still, and the group cannot be replaced, from the middle on.
void LogWhileTheStoreIsAway(Rig* rig) {
  ExpectAllOk(rig->Append(1, 100));
  {
    MutexLock lock(&rig->mu);
    rig->store_away = true;
  }
  rig->Stall(1, 2 * kSecond * rig->world->patience());
  ExpectAllOk(rig->Append(101, 100));
}

// A StoC whose process stands still for longer than the deadline and the ping, while its group cannot be
// replaced: it is as good as before once it answers.
TEST_P(LogClientTest, L4AMemberThatWasSilentServesOnWhileItsGroupCannotBeReplaced) {
  Run([&](FabricWorld* world) {
    if (GetParam().fabric == FabricKind::kVerbs) return;  // its NIC would take the WRITEs
    Rig rig(world, GetParam().media, {}, /*may_change=*/true, /*file_deadline=*/500 * kMillisecond);
    LogWhileTheStoreIsAway(&rig);
    ExpectAllOk(rig.Append(201, 100, /*round=*/2));
    EXPECT_EQ(rig.Changes("dead"), 1u);
    RangeRecord record = rig.Record();
    ASSERT_EQ(record.log_groups.size(), 1u);
    for (size_t m = 0; m < 3; ++m) {
      RangeRecord one = record;
      one.log_groups[0].members = {record.log_groups[0].members[m]};
      EXPECT_EQ(rig.Recover(one, Epoch(4)), Range(1, 300)) << "member " << m;
    }
  });
}

// The same, and then the group is replaced after all: records are in logs of both.
TEST_P(LogClientTest, L4AGroupThatServedOnIsReplacedOnceItCanBe) {
  Run([&](FabricWorld* world) {
    if (GetParam().fabric == FabricKind::kVerbs) return;
    Rig rig(world, GetParam().media, {}, /*may_change=*/true, /*file_deadline=*/500 * kMillisecond);
    LogWhileTheStoreIsAway(&rig);
    rig.StoreIsBack();
    rig.stocs[1]->Stop();
    ExpectAllOk(rig.Append(201, 100));
    const RangeRecord record = rig.Record();
    ASSERT_EQ(record.log_groups.size(), 2u);
    EXPECT_EQ(rig.Recover(record, Epoch(4)), Range(1, 300));
    rig.log->DeleteRound(1);
    for (const Nanos until = Now() + 10 * kSecond; rig.log->UnusedGroups().empty() && Now() < until;)
      SleepFor(kMillisecond);
    EXPECT_THAT(rig.log->UnusedGroups(), testing::ElementsAre(GroupId(1)));
  });
}

// A StoC's process stands still for longer than the one deadline, and shorter than the other.
TEST_P(LogSegmentTest, L5AStocOfTheSameHostHasTheShorterDeadline) {
  for (const bool near : {false, true}) {
    Run([&](FabricWorld* world) {
      LogOptions options;
      options.near_write_deadline_ns = 50 * kMillisecond;
      options.host = near ? "stoc-2" : "ltc-1";
      Rig rig(world, GetParam().media, options);
      ASSERT_EQ(rig.stocs[1]->info().host, "stoc-2");
      ExpectAllOk(rig.Append(1, 100));
      rig.Stall(1, 250 * kMillisecond);
      ExpectAllOk(rig.Append(101, 100));
      const uint64_t suspicions = rig.metrics.counter("nova_logc_suspicions_total")->value();
      // it takes a WRITE while its host stands still
      const bool nic = GetParam().fabric == FabricKind::kVerbs;
      if (near && !nic) {
        EXPECT_GE(suspicions, 1u);
      } else if (world->network() != nullptr) {  // elsewhere a busy machine may have stood still too
        EXPECT_EQ(suspicions, 0u);
      }
    });
  }
}

// Members that answer pings and take no WRITE: their memory was revoked.
TEST_P(LogSegmentTest, L5LivingMembersAreReplacedAtMostOnceInAWhile) {
  Run([&](FabricWorld* world) {
    LogOptions options;
    options.change_pause_ns = 2 * kSecond;
    Rig rig(world, GetParam().media, options);
    ExpectAllOk(rig.Append(1, 10));
    ASSERT_TRUE(rig.stocs[0]->segments->Seal(kRange, Epoch(9)).ok());
    const Nanos begin = Now();
    ExpectAllOk(rig.Append(11, 10));
    EXPECT_LT(Now() - begin, kSecond * world->patience());
    EXPECT_EQ(rig.Changes("slow"), 1u);
    ASSERT_TRUE(rig.stocs[1]->segments->Seal(kRange, Epoch(9)).ok());
    ExpectAllOk(rig.Append(21, 10));
    EXPECT_GT(Now() - begin, 1900 * kMillisecond);
    EXPECT_EQ(rig.Changes("slow"), 2u);
    EXPECT_EQ(rig.Changes("dead"), 0u);
    EXPECT_EQ(rig.Record().log_groups.size(), 3u);
    EXPECT_EQ(rig.Recover(rig.Record(), Epoch(10)), Range(1, 30));
  });
}

TEST_P(LogClientTest, L4TheMostExposedRoundComesFirst) {
  Run([&](FabricWorld* world) {
    Rig rig(world, GetParam().media);
    ExpectAllOk(rig.Append(1, 10, /*round=*/900));
    rig.stocs[0]->Stop();
    rig.TellLive(1);
    ExpectAllOk(rig.Append(11, 10, 900));
    ExpectAllOk(rig.Append(21, 10, 200));  // in the second group only
    EXPECT_THAT(rig.log->ExposedRounds(), testing::ElementsAre(ExposedRound{900, 2}));
    rig.stocs[1]->Stop();
    rig.TellLive(2);
    ExpectAllOk(rig.Append(31, 10, 200));
    EXPECT_THAT(rig.log->ExposedRounds(), testing::ElementsAre(ExposedRound{900, 1}, ExposedRound{200, 2}));
    rig.log->DeleteRound(900);
    for (const Nanos until = Soon(); rig.log->ExposedRounds().size() > 1 && Now() < until;)
      SleepFor(kMillisecond);
    EXPECT_THAT(rig.log->ExposedRounds(), testing::ElementsAre(ExposedRound{200, 2}));
  });
}

TEST_P(LogClientTest, AfterAFenceAppendsEndAsNotOwner) {  // F1, row 3
  Run([&](FabricWorld* world) {
    Rig rig(world, GetParam().media, {}, /*may_change=*/false);
    bool fenced = false;
    const auto ended = rig.Append(1, Many(), 1, [&](uint64_t n) {
      if (n < Many() / 3 || fenced) return;
      fenced = true;
      EXPECT_TRUE(rig.other->stocs->Fence(StocId(2), kRange, Epoch(4), Soon()).ok());
    });
    ASSERT_TRUE(fenced);
    std::set<SequenceNumber> acknowledged;
    for (const auto& [s, o] : ended) {
      ASSERT_TRUE(o == Outcome::kOk || o == Outcome::kNotOwner) << OutcomeName(o);
      if (o == Outcome::kOk) acknowledged.insert(s);
    }
    EXPECT_GE(acknowledged.size(), Many() / 3);
    EXPECT_LT(acknowledged.size(), Many());
    // The one that was fenced has them all; more may be there (R4 keeps them).
    RangeRecord one = rig.Record();
    one.log_groups[0].members = {one.log_groups[0].members[1]};
    const std::set<SequenceNumber> found = rig.Recover(one, Epoch(4));
    EXPECT_TRUE(std::includes(found.begin(), found.end(), acknowledged.begin(), acknowledged.end()));
    ExpectAllOk({});
    for (const auto& [s, o] : rig.Append(1 + Many(), 10)) EXPECT_EQ(o, Outcome::kNotOwner) << s;
  });
}

TEST_P(LogClientTest, LogsOfADeletedRoundAreFreedInOrder) {  // M3, F2
  const size_t copies = 3 * kLanes;
  Run([&](FabricWorld* world) {
    Rig rig(world, GetParam().media);
    const auto open = [&] {
      size_t n = 0;
      for (const auto& s : rig.stocs) n += s->segments->open_segments();
      return n;
    };
    const auto kept = [&] {
      size_t n = 0;
      for (const auto& s : rig.stocs) n += s->files->List(kRange, Epoch(9)).size();
      return n;
    };
    const size_t segments = memory() ? copies : 0, log_files = files() ? copies : 0;
    uint64_t registrations = 0;
    for (RoundNumber round = 1; round <= 12; ++round) {
      ExpectAllOk(rig.Append(round * 1000, 100, round));
      rig.log->DeleteRound(round);
      for (const Nanos until = Soon(); (open() != segments || kept() != log_files) && Now() < until;)
        SleepFor(kMillisecond);
      ASSERT_EQ(open(), segments) << "the spare logs of the next round";
      ASSERT_EQ(kept(), log_files);
      const uint64_t now = rig.stocs[0]->log_memory->counts().registrations;
      EXPECT_TRUE(round <= 6 || now == registrations) << "reused under the same keys";
      registrations = now;
    }
    EXPECT_EQ(rig.Recover(rig.Record(), Epoch(4)).size(), 0u) << "no stale record parses (H5)";
  });
}

// It has none of this while it stands still, for longer than a request waits, and its memory is still what it
// was when it goes on.
TEST_P(LogOutageTest, R6LogsOfAStocThatStoodStillAreFreedOnceItGoesOn) {
  Run([&](FabricWorld* world) {
    Rig rig(world, GetParam().media);
    const auto left = [&] {
      return rig.stocs[0]->segments->open_segments() + rig.stocs[0]->files->List(kRange, Epoch(9)).size();
    };
    ExpectAllOk(rig.Append(1, 100));
    EXPECT_GT(left(), 0u);
    rig.Stall(0, 15 * kSecond);
    ExpectAllOk(rig.Append(101, 100));
    EXPECT_EQ(rig.Record().log_groups.size(), 2u) << "it was not replaced";
    rig.log->DeleteRound(1);
    ExpectAllOk(rig.Append(201, 100, 2));
    for (const Nanos until = Now() + 60 * kSecond; left() > 0 && Now() < until;) SleepFor(kSecond);
    EXPECT_EQ(left(), 0u);
  });
}

TEST_P(LogClientTest, LogsOverflowIntoFurtherSegments) {
  Run([&](FabricWorld* world) {
    LogOptions options;
    options.segment_bytes = 16 << 10;
    Rig rig(world, GetParam().media, options);
    ExpectAllOk(rig.Append(1, 1'200));
    EXPECT_EQ(rig.Recover(rig.Record(), Epoch(4)), Range(1, 1'200));
  });
}

TEST_P(LogClientTest, NoMemberOfAGroupLeftIsLoud) {  // row 16
  Run([&](FabricWorld* world) {
    Rig rig(world, GetParam().media);
    ExpectAllOk(rig.Append(1, 100));
    for (size_t i = 0; i < 3; ++i) rig.stocs[i]->Stop();
    RangeRecord r = rig.Record();
    r.epoch = Epoch(4);
    const Status s = RecoverLogs(rig.other->stocs.get(), r, NothingDone, Now() + kSecond).status();
    EXPECT_TRUE(absl::IsUnavailable(s)) << s;
    EXPECT_THAT(std::string(s.message()),
                testing::AllOf(testing::HasSubstr("stoc-1"), testing::HasSubstr("log group 1")));
  });
}

TEST_P(LogClientTest, ARestartedStocHasItsFilesAndNotItsMemory) {  // N1, H8, row 14
  Run([&](FabricWorld* world) {
    Rig rig(world, GetParam().media);
    ExpectAllOk(rig.Append(1, 100));
    rig.Restart(0, /*power_loss=*/false);
    EXPECT_EQ(rig.Recover(rig.Record(), Epoch(4)), Range(1, 100));
    RangeRecord r = rig.Record();
    r.epoch = Epoch(5);
    r.log_groups[0].members.resize(1);  // it alone
    if (files()) {
      EXPECT_EQ(rig.Recover(r, Epoch(5)), Range(1, 100));
      return;
    }
    EXPECT_TRUE(
        absl::IsUnavailable(RecoverLogs(rig.other->stocs.get(), r, NothingDone, Now() + kSecond).status()))
        << "\"empty\" is not \"complete\"";
  });
}

TEST_P(LogFileTest, SyncedRecordsSurviveTheLossOfPowerOfEveryMember) {  // D
  Run([&](FabricWorld* world) {
    Rig rig(world, GetParam().media);
    ExpectAllOk(rig.Append(1, 200));
    rig.sync = false;
    ExpectAllOk(rig.Append(201, 50));
    for (size_t i = 0; i < 3; ++i) rig.Restart(i, /*power_loss=*/true);
    for (size_t m = 0; m < 3; ++m) {
      RangeRecord one = rig.Record();
      one.log_groups[0].members = {one.log_groups[0].members[m]};
      const std::set<SequenceNumber> found = rig.Recover(one, Epoch(4 + m));
      const std::set<SequenceNumber> synced = Range(1, 200);
      EXPECT_TRUE(std::includes(found.begin(), found.end(), synced.begin(), synced.end()))
          << "member " << m << " has " << found.size();
    }
  });
}

// Two records that come together and that no message holds.
TEST_P(LogFileTest, LargeRecordsThatComeTogetherGoOneByOne) {
  Run([&](FabricWorld* world) {
    Rig rig(world, GetParam().media);
    ExpectAllOk(rig.Append(1, 2));
    std::vector<Outcome> ended;
    Mutex mu;
    rig.ltc->executors[0]->Submit([&] {
      for (const size_t bytes : {size_t{16} << 20, size_t{2} << 20, size_t{2} << 20}) {
        const std::string value(bytes, 'v');
        const SequenceNumber s = 3 + bytes % 7;
        const LogEntry entry{MemTableId(1), ValueType::kPut, "key", value};
        const auto done = [&](Outcome o) {
          MutexLock lock(&mu);
          ended.push_back(o);
        };
        const Outcome taken =
            rig.log->Append(rig.ltc->executors[0].get(), {1, s, 1, s, true, {&entry, 1}}, done);
        if (taken != Outcome::kOk) done(taken);
      }
    });
    for (const Nanos until = Now() + 20 * kSecond; Now() < until; SleepFor(10 * kMillisecond)) {
      MutexLock lock(&mu);
      if (ended.size() == 3) break;
    }
    MutexLock lock(&mu);
    EXPECT_EQ(ended, std::vector<Outcome>(3, Outcome::kOk));
    EXPECT_EQ(rig.Record().log_groups.size(), 1u) << "no member is to blame";
  });
}

// Row 20: what waits for a full disk may be found by a recovery; what comes later is told at once.
TEST_P(LogFileTest, WhileAllDisksAreFullAppendsAreRefusedAndTheyGoOnOnceThereIsRoom) {
  Run([&](FabricWorld* world) {
    LogOptions options;
    options.change_pause_ns = 60 * kSecond;  // the rig never takes back a StoC that was replaced
    Rig rig(world, GetParam().media, options);
    ExpectAllOk(rig.Append(1, 100));
    for (auto& disk : rig.disks) disk->Add({.op = DiskOp::kFreeBytes, .action = FaultAction::kNoSpace});
    struct State {
      Mutex mu;
      std::vector<Outcome> ended, taken;
    };
    const auto state = std::make_shared<State>();
    const auto append = [&](SequenceNumber s) {
      Notification asked;
      Executor* const on = rig.ltc->executors[0].get();
      on->Submit([&, state, s, on] {
        const std::string key = KeyOf(s), value = ValueOf(s);
        const LogEntry entry{MemTableId(1), ValueType::kPut, key, value};
        const Outcome taken = rig.log->Append(on, {1, s, 1, s, true, {&entry, 1}}, [state](Outcome o) {
          MutexLock lock(&state->mu);
          state->ended.push_back(o);
        });
        MutexLock lock(&state->mu);
        state->taken.push_back(taken);
        asked.Notify();
      });
      asked.Wait();
      MutexLock lock(&state->mu);
      return state->taken.back();
    };
    EXPECT_EQ(append(101), Outcome::kOk);
    SequenceNumber next = 103;
    Outcome taken = Outcome::kOk;
    for (const Nanos until = Now() + 10 * kSecond * world->patience(); Now() < until; next += kLanes) {
      taken = append(next);
      if (taken != Outcome::kOk) break;
      SleepFor(20 * kMillisecond);
    }
    EXPECT_EQ(taken, Outcome::kNoSpace) << OutcomeName(taken);
    SleepFor(kSecond);
    EXPECT_EQ(append(next), Outcome::kNoSpace);
    {
      MutexLock lock(&state->mu);
      EXPECT_TRUE(state->ended.empty()) << "acknowledged, with every disk full";
    }
    for (auto& disk : rig.disks) disk->Clear();
    const uint64_t waiting = (next - 101) / kLanes;
    for (const Nanos until = Now() + 20 * kSecond * world->patience(); Now() < until;
         SleepFor(10 * kMillisecond)) {
      MutexLock lock(&state->mu);
      if (state->ended.size() == waiting) break;
    }
    {
      MutexLock lock(&state->mu);
      EXPECT_EQ(state->ended, std::vector<Outcome>(waiting, Outcome::kOk));
    }
    ExpectAllOk(rig.Append(next + 100, 10));
  });
}

// A member whose disk is full for a while: it is to be replaced though it lives, and cannot be.
TEST_P(LogFileTest, L4AMemberThatWasSlowServesOnWhileItsGroupCannotBeReplaced) {
  Run([&](FabricWorld* world) {
    Rig rig(world, GetParam().media);
    ExpectAllOk(rig.Append(1, 10));
    {
      MutexLock lock(&rig.mu);
      rig.store_away = true;
    }
    rig.disks[0]->Add({.path = "files", .op = DiskOp::kWrite, .action = FaultAction::kNoSpace});
    std::atomic<bool> ended{false};
    Thread others("others", [&] {
      for (const Nanos until = Now() + 20 * kSecond; rig.Changes("slow") == 0 && Now() < until;)
        SleepFor(kMillisecond);
      SleepFor(kSecond);
      rig.disks[0]->Clear();
      for (const Nanos until = Now() + 20 * kSecond; !ended && Now() < until;) SleepFor(kMillisecond);
      rig.StoreIsBack();
    });
    ExpectAllOk(rig.Append(11, 10));
    EXPECT_EQ(rig.Changes("slow"), 1u);
    const RangeRecord record = rig.Record();
    ASSERT_EQ(record.log_groups.size(), 1u) << "they waited for the store";
    for (size_t m = 0; m < 3; ++m) {  // L3
      RangeRecord one = record;
      one.log_groups[0].members = {record.log_groups[0].members[m]};
      EXPECT_EQ(rig.Recover(one, Epoch(4)), Range(1, 20)) << "member " << m;
    }
    ended = true;
  });
}

TEST_P(LogFileTest, RecordsThatWereNotSyncedSurviveTheDeathOfEveryProcess) {  // D
  Run([&](FabricWorld* world) {
    Rig rig(world, GetParam().media);
    rig.sync = false;
    ExpectAllOk(rig.Append(1, 200));
    for (size_t i = 0; i < 3; ++i) rig.Restart(i, /*power_loss=*/false);
    EXPECT_EQ(rig.Recover(rig.Record(), Epoch(4)), Range(1, 200));
  });
}

TEST_P(LogFileTest, WritersOfALogShareASync) {
  Run([&](FabricWorld* world) {
    Rig rig(world, GetParam().media);
    ExpectAllOk(rig.Append(1, Many()));
    const uint64_t groups = rig.stocs[0]->metrics.counter("nova_stoc_log_batches_total")->value();
    EXPECT_GT(groups, 0u);
    EXPECT_LT(groups, Many()) << "records of a round share an append, appends that wait share a sync";
  });
}

// A process that stands still holds puts for a WRITE's deadline and a ping's, not for that of its disk.
TEST_P(LogFileTest, L5AStocThatStandsStillIsReplacedBeforeTheDeadlineOfAFile) {
  Run([&](FabricWorld* world) {
    Rig rig(world, GetParam().media, {}, /*may_change=*/true, /*file_deadline=*/20 * kSecond);
    ExpectAllOk(rig.Append(1, 10));
    rig.Stall(1, 4 * kSecond * world->patience());
    const Nanos begin = Now();
    ExpectAllOk(rig.Append(11, 10));
    EXPECT_LT(Now() - begin, 2 * kSecond * world->patience());
    EXPECT_EQ(rig.Changes("dead"), 1u);
    // One that is asked to open the file of the next round's log, too.
    rig.Stall(2, 4 * kSecond * world->patience());
    const Nanos again = Now();
    ExpectAllOk(rig.Append(21, 10, 2));
    ExpectAllOk(rig.Append(31, 10, 3));
    EXPECT_LT(Now() - again, 2 * kSecond * world->patience());
    EXPECT_EQ(rig.Changes("dead"), 2u);
    SleepUntil(begin + 5 * kSecond * world->patience());
    EXPECT_EQ(rig.Recover(rig.Record(), Epoch(4)), Range(1, 40));
  });
}

// A member that restarts takes no more appends to logs it has: its group is replaced, and what it had before
// counts.
TEST_P(LogFileTest, L4AMemberThatRestartsIsReplacedAndStillCounts) {
  Run([&](FabricWorld* world) {
    Rig rig(world, GetParam().media);
    ExpectAllOk(rig.Append(1, 100));
    rig.Restart(0, /*power_loss=*/false);
    ExpectAllOk(rig.Append(101, 100));
    ASSERT_EQ(rig.Record().log_groups.size(), 2u);
    RangeRecord r = rig.Record();
    r.log_groups[0].members.resize(1);  // the one that restarted
    EXPECT_EQ(rig.Recover(r, Epoch(4)), Range(1, 200));
  });
}

// Bit rot in one copy of a log, or in all at other places: another copy has what is missing. In all at the
// same place: nothing but an error will do, and it names them.
TEST_P(LogFileTest, L3DamagedFilesLoseNothingAndAreNeverPassedOver) {
  Run([&](FabricWorld* world) {
    Rig rig(world, GetParam().media);
    ExpectAllOk(rig.Append(1, 200));
    ExpectAllOk(rig.Append(201, kLanes));  // says of those before that they were acknowledged
    const auto rot = [&](size_t stoc, uint64_t at) {
      for (const SealedLogFile& f : rig.stocs[stoc]->files->logs()->SealLogs(kRange, Epoch(4))) {
        const auto file =
            rig.disks[stoc]->Open(StrCat("files/", StocFileId{f.log, 0}.ToString()), /*writable=*/true);
        ASSERT_TRUE(file.ok()) << file.status();
        char byte;
        ASSERT_TRUE(f.size == 0 || (*file)->Read(kFileHeaderBytes + at, 1, &byte).ok());
        byte ^= 4;
        ASSERT_TRUE(f.size == 0 || (*file)->Write(kFileHeaderBytes + at, {&byte, 1}).ok());
      }
    };
    // Segments would be read first; and a start puts back what the journal has.
    for (size_t i = 0; i < 3; ++i) rig.Restart(i, /*power_loss=*/false);
    for (size_t i = 0; i < 3; ++i) rot(i, 60 + i * 1'000);
    EXPECT_EQ(rig.Recover(rig.Record(), Epoch(4)), Range(1, 200 + kLanes));
    const auto refused = [&](RangeRecord r, uint64_t epoch) {
      r.epoch = Epoch(epoch);
      return RecoverLogs(rig.other->stocs.get(), r, NothingDone, Now() + 10 * kSecond).status();
    };
    RangeRecord one = rig.Record();
    one.log_groups[0].members.resize(1);
    EXPECT_TRUE(absl::IsDataLoss(refused(one, 5)));
    rot(1, 60);
    rot(2, 60);
    const Status all = refused(rig.Record(), 6);
    EXPECT_TRUE(absl::IsDataLoss(all)) << all;
    EXPECT_THAT(std::string(all.message()),
                testing::AllOf(testing::HasSubstr("record 1,"), testing::HasSubstr("on stoc-1 from offset 0"),
                               testing::HasSubstr("on stoc-2 from"), testing::HasSubstr("on stoc-3 from")));
    rot(1, 60);  // whole again, there
    EXPECT_EQ(rig.Recover(rig.Record(), Epoch(7)), Range(1, 200 + kLanes));
  });
}

// A hole that sync=false may leave in a file after a loss of power is no damage; where a synced record is
// missing, it is.
TEST_P(LogFileTest, DAHoleInWhatWasNotSyncedEndsTheLogAndInWhatWasIsLoud) {
  Run([&](FabricWorld* world) {
    Rig rig(world, GetParam().media);
    ExpectAllOk(rig.Append(1, 100));
    rig.sync = false;
    ExpectAllOk(rig.Append(101, 100));
    for (size_t i = 0; i < 3; ++i) rig.Restart(i, /*power_loss=*/false);
    for (const bool synced : {false, true}) {
      for (size_t i = 0; i < 3; ++i) {
        for (const SealedLogFile& f : rig.stocs[i]->files->logs()->SealLogs(kRange, Epoch(4))) {
          if (f.size == 0) continue;
          const auto file =
              rig.disks[i]->Open(StrCat("files/", StocFileId{f.log, 0}.ToString()), /*writable=*/true);
          ASSERT_TRUE(file.ok()) << file.status();
          ASSERT_TRUE(
              (*file)
                  ->Write(kFileHeaderBytes + (synced ? f.size / 4 : f.size * 3 / 4), std::string(64, '\0'))
                  .ok());
        }
      }
      RangeRecord r = rig.Record();
      r.epoch = Epoch(synced ? 5 : 4);
      const auto records = RecoverLogs(rig.other->stocs.get(), r, NothingDone, Now() + 10 * kSecond);
      ASSERT_EQ(records.ok(), !synced) << records.status();
      if (synced) continue;
      std::set<SequenceNumber> found;
      for (const RecoveredRecord& rec : *records) found.insert(rec.sequence);
      const std::set<SequenceNumber> durable = Range(1, 100);
      EXPECT_TRUE(std::includes(found.begin(), found.end(), durable.begin(), durable.end()));
      EXPECT_LT(found.size(), 200u) << "the hole was no hole";
    }
  });
}

// A StoC that has lost a log's file altogether, its header rotten, does not take the log's records with it.
TEST_P(LogFileTest, AFileThatIsGoneOnOneMemberIsReadFromAnother) {
  Run([&](FabricWorld* world) {
    Rig rig(world, GetParam().media);
    ExpectAllOk(rig.Append(1, 200));
    // segments would be read first; and a start puts back what the journal has
    rig.Restart(0, /*power_loss=*/false);
    for (const SealedLogFile& f : rig.stocs[0]->files->logs()->SealLogs(kRange, Epoch(4))) {
      const auto file =
          rig.disks[0]->Open(StrCat("files/", StocFileId{f.log, 0}.ToString()), /*writable=*/true);
      ASSERT_TRUE(file.ok()) << file.status();
      ASSERT_TRUE((*file)->Write(20, "rot").ok());
    }
    for (size_t i = 0; i < 3; ++i) rig.Restart(i, /*power_loss=*/false);
    EXPECT_TRUE(rig.stocs[0]->files->logs()->SealLogs(kRange, Epoch(4)).empty()) << "the header is whole";
    EXPECT_EQ(rig.Recover(rig.Record(), Epoch(4)), Range(1, 200));
  });
}

// The same, while the others are away: nobody can say what is missing, so the range waits for them. A group
// that was made since the StoC started has no log among what could not be read then.
TEST_P(LogFileTest, R2AHeaderThatCannotBeReadIsNoLogThatNeverWas) {
  Run([&](FabricWorld* world) {
    Rig rig(world, GetParam().media);
    ExpectAllOk(rig.Append(1, 200));
    rig.Restart(0, /*power_loss=*/false);
    for (const SealedLogFile& f : rig.stocs[0]->files->logs()->SealLogs(kRange, Epoch(4))) {
      const auto file =
          rig.disks[0]->Open(StrCat("files/", StocFileId{f.log, 0}.ToString()), /*writable=*/true);
      ASSERT_TRUE(file.ok()) << file.status();
      ASSERT_TRUE((*file)->Write(20, "rot").ok());
    }
    rig.Restart(0, /*power_loss=*/false);
    ExpectAllOk(rig.Append(201, 100));
    const RangeRecord record = rig.Record();
    ASSERT_EQ(record.log_groups.size(), 2u);
    for (size_t i = 1; i < 3; ++i) rig.stocs[i]->Stop();
    RangeRecord r = record;
    r.epoch = Epoch(4);
    const auto records = RecoverLogs(rig.other->stocs.get(), r, NothingDone, Now() + 10 * kSecond);
    EXPECT_TRUE(absl::IsUnavailable(records.status()))
        << records.status() << ", " << (records.ok() ? records->size() : 0) << " records";
    EXPECT_THAT(std::string(records.status().message()),
                testing::AllOf(testing::HasSubstr("log group 1 {"),
                               testing::HasSubstr("cannot read the header of files/")));
    r.log_groups.erase(r.log_groups.begin());
    EXPECT_EQ(rig.Recover(r, Epoch(5)), Range(201, 100)) << "the younger group";
    rig.Restart(1, /*power_loss=*/false);
    EXPECT_EQ(rig.Recover(record, Epoch(6)), Range(1, 300)) << "another member is back";
  });
}

// A StoC was away while a flushed log was freed, and then cannot read the file that it still has. Members
// that have had the group's memory all the while do not know the log: it is over. Of files alone nobody can
// tell.
TEST_P(LogFileTest, R3AFreedLogThatCannotBeReadKeepsNoRangeClosed) {
  Run([&](FabricWorld* world) {
    Rig rig(world, GetParam().media);
    ExpectAllOk(rig.Append(1, 200));
    rig.stocs[0]->Stop();
    ExpectAllOk(rig.Append(201, 100, /*round=*/2));
    ASSERT_EQ(rig.Record().log_groups.size(), 2u);
    rig.log->DeleteRound(1);
    const auto left = [&] {
      size_t n = 0;
      for (size_t i = 1; i < 3; ++i) n += rig.stocs[i]->files->List(kRange, Epoch(9)).size();
      return n;
    };
    const size_t before = left();
    for (const Nanos until = Soon(); left() == before && Now() < until;) SleepFor(kMillisecond);
    SleepFor(100 * kMillisecond);
    ASSERT_TRUE(
        ArmFailPoint("stoc.journal_replayed", 0, [] { return absl::ResourceExhaustedError("full"); }).ok());
    rig.Restart(0, /*power_loss=*/false);
    RangeRecord r = rig.Record();
    r.epoch = Epoch(4);
    const auto records = RecoverLogs(rig.other->stocs.get(), r, NothingDone, Now() + 10 * kSecond);
    DisarmFailPoints();
    if (!HasMemory(GetParam().media)) {
      EXPECT_TRUE(absl::IsDataLoss(records.status())) << records.status();
      return;
    }
    ASSERT_TRUE(records.ok()) << records.status();
    std::set<SequenceNumber> found;
    for (const RecoveredRecord& rec : *records) found.insert(rec.sequence);
    const std::set<SequenceNumber> needed = Range(201, 100);
    EXPECT_TRUE(std::includes(found.begin(), found.end(), needed.begin(), needed.end()));
  });
}

// Memory that went bad in one member, or in all at the same place.
TEST_P(LogSegmentTest, L3DamagedSegmentsLoseNothingAndAreNeverPassedOver) {
  Run([&](FabricWorld* world) {
    Rig rig(world, GetParam().media);
    ExpectAllOk(rig.Append(1, 200));
    ExpectAllOk(rig.Append(201, kLanes));
    const auto rot = [&](size_t stoc) {
      const auto segments = rig.stocs[stoc]->segments->Seal(kRange, Epoch(4));
      ASSERT_TRUE(segments.ok()) << segments.status();
      ASSERT_FALSE(segments->empty());
      for (const SealedSegment& s : *segments) *reinterpret_cast<char*>(s.memory.address + 300) ^= 1;
    };
    for (size_t i = 0; i < 2; ++i) rot(i);
    EXPECT_EQ(rig.Recover(rig.Record(), Epoch(4)), Range(1, 200 + kLanes));
    rot(2);
    RangeRecord r = rig.Record();
    r.epoch = Epoch(5);
    const auto records = RecoverLogs(rig.other->stocs.get(), r, NothingDone, Now() + 10 * kSecond);
    EXPECT_EQ(records.ok(), files()) << "the files have it";
    EXPECT_TRUE(records.ok() || absl::IsDataLoss(records.status())) << records.status();
  });
}

}  // namespace
}  // namespace nova
