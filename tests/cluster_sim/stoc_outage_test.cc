// StoCs that go together, stand still together, flap, or come back at the worst moment: who is held up, and
// for how long; what is copied, and what is deleted.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <iterator>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "common/base/failpoint.h"
#include "tests/cluster_sim/copies_world.h"

namespace nova {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr Nanos kDownAfter = 4 * kSecond;
constexpr Nanos kAtOnce = 1500 * kMillisecond;  // of a get: a read that goes to the other copy, once or twice

// Counts files that a manifest names, and that a StoC which runs has not, in two looks in a row: a look takes
// a moment in which tables come and go.
class MissingWatch {
 public:
  explicit MissingWatch(SimCluster* cluster)
      : watch_("watch", [this, cluster] {
          for (Pairs before; !stop_; SleepFor(kSecond / 10)) {
            const TableFiles look = LookAtTables(cluster);
            const Pairs now = look.error.empty() ? look.MissingCopies() : before;
            std::set_intersection(now.begin(), now.end(), before.begin(), before.end(),
                                  std::inserter(missing_, missing_.end()));
            before = now;
          }
        }) {}
  ~MissingWatch() { Stop(); }
  size_t Stop() {
    stop_ = true;
    watch_.Join();
    return missing_.size();
  }

 private:
  using Pairs = std::set<std::pair<StocFileId, StocId>>;
  bool stop_ = false;
  Pairs missing_;
  Thread watch_;
};

// Puts one after another, until Stop.
class Puts {
 public:
  explicit Puts(CopiesWorld* w)
      : client_(w->cluster.NewClient("client-puts", 60'000)), thread_("puts", [this, w] { Run(w); }) {}
  ~Puts() { Stop(); }
  void Stop() {
    stop_ = true;
    thread_.Join();
  }
  Nanos longest_ns() const { return longest_ns_; }
  int done() const { return done_; }

 private:
  void Run(CopiesWorld* w) {
    for (int i = 0; !stop_; ++i) {
      const std::string key = KeyOf(i * 7 % 1000), value = StrCat("put-", i);
      const Nanos begun = Now();
      const Result put = client_->Put(key, value);
      EXPECT_TRUE(put.ok()) << put.message;
      longest_ns_ = std::max(longest_ns_, Now() - begun);
      w->values[key] = value;
      ++done_;
      SleepFor(5 * kMillisecond);
    }
  }

  bool stop_ = false;
  Nanos longest_ns_ = 0;
  int done_ = 0;
  std::unique_ptr<Client> client_;
  Thread thread_;
};

// Two StoCs that have both copies of some part of a table, and not of every one.
std::pair<std::string, std::string> PairWithBothCopies(CopiesWorld* w) {
  const TableFiles tables = LookAtTables(&w->cluster);
  for (const auto& [file, stocs] : tables.named) {
    if (stocs.size() != 2) continue;
    const std::string a = w->StocOf(*stocs.begin()), b = w->StocOf(*stocs.rbegin());
    if (!a.empty() && !b.empty() && w->cluster.MayLose({a, b})) return {a, b};
  }
  return {};
}

nlohmann::json TablesBy(CopiesWorld* w) {
  const auto status = w->cluster.NewCoordinatorClient().StatusJson(Now() + 5 * kSecond);
  EXPECT_TRUE(status.ok()) << status.status();
  return status.ok() ? nlohmann::json::parse(*status)["copies"]["tables"] : nlohmann::json();
}

// Gets of all keys, each in a fiber of its own: how many were answered, and the longest time that took.
struct Answers {
  int ok = 0;
  int unavailable = 0;
  Nanos longest_ok_ns = 0;
  std::string message;  // of one that was not
};
Answers GetAll(CopiesWorld* w, int64_t timeout_ms) {
  Answers answers;
  std::vector<std::unique_ptr<Thread>> threads;
  const auto client = w->cluster.NewClient("client-gets", timeout_ms);
  for (const auto& [key, value] : w->values) {
    threads.push_back(std::make_unique<Thread>("get", [&, key = key, value = value] {
      const Nanos begun = Now();
      const auto got = client->Get(key);
      if (got.ok()) {
        EXPECT_EQ(got.value, value) << key;
        ++answers.ok;
        answers.longest_ok_ns = std::max(answers.longest_ok_ns, Now() - begun);
        return;
      }
      EXPECT_EQ(got.outcome, Outcome::kUnavailable) << key << ": " << got.message;
      ++answers.unavailable;
      answers.message = got.message;
    }));
  }
  for (auto& t : threads) t->Join();
  return answers;
}

// Row 19 of the faults, with copies in place of parity.
TEST(StocOutageTest, BothCopiesGoneCostWhatTheyHeldAndNothingElse) {
  for (uint64_t seed = 1; seed <= 3; ++seed) {
    Simulate(seed, [] {
      CopiesWorld w(FiveStocs(kDownAfter));
      ASSERT_NO_FATAL_FAILURE(w.Write(8));
      ASSERT_TRUE(w.WaitWholeAndTidy(30 * kSecond)) << w.last;
      const auto [first, second] = PairWithBothCopies(&w);
      ASSERT_FALSE(first.empty()) << "no two StoCs have both copies of a part";
      w.cluster.Kill(first);
      w.cluster.Kill(second);
      const Answers gone = GetAll(&w, 3000);
      EXPECT_GT(gone.ok, 0);
      EXPECT_GT(gone.unavailable, 0);
      EXPECT_LT(gone.longest_ok_ns, kAtOnce);
      EXPECT_THAT(gone.message, AllOf(HasSubstr("no good copy of "), HasSubstr("stoc ")));
      nlohmann::json tables;
      for (const Nanos until = Now() + 20 * kSecond; Now() < until; SleepFor(kSecond / 5)) {
        if (tables = TablesBy(&w); tables["all"] > 0 && tables["fewest"] == 0) break;
      }
      EXPECT_GT(tables["degraded"], 0) << tables;
      EXPECT_EQ(tables["fewest"], 0) << tables;
      ASSERT_TRUE(w.cluster.Start(second).ok());
      const Nanos back = Now();
      w.ExpectWhatWasWritten();
      EXPECT_LT(Now() - back, 15 * kSecond) << "the first get waits for the LTC to hear of it";
      ASSERT_TRUE(w.WaitWhole(60 * kSecond)) << w.last;
      ASSERT_TRUE(w.cluster.Start(first).ok());
      ASSERT_TRUE(w.WaitWholeAndTidy(60 * kSecond)) << w.last;
      w.ExpectWhatWasWritten();
    });
  }
}

// An owner that has just opened the range has loaded none of its tables: who reads one of the others does not
// wait behind those that cannot be had, whether their StoCs are gone or stand still.
TEST(StocOutageTest, NorMoreWhereTheOwnerIsNew) {
  for (const bool stands_still : {false, true}) {
    int before_ok = 0, after_ok = 0, unavailable = 0;
    for (uint64_t seed = 1; seed <= 12; ++seed) {
      Simulate(seed, [&] {
        SimClusterOptions options = FiveStocs(60 * kSecond);
        options.ltc.background.compaction_threads = 0;  // which would load them
        options.ltc.hosted.range.level0_slow_runs = 100;
        options.ltc.hosted.range.level0_stop_runs = 200;
        CopiesWorld w(options);
        ASSERT_NO_FATAL_FAILURE(w.Write(8));
        ASSERT_TRUE(w.WaitWholeAndTidy(30 * kSecond)) << w.last;
        const auto [first, second] = PairWithBothCopies(&w);
        ASSERT_FALSE(first.empty()) << "no two StoCs have both copies of a part";
        const std::string owner = w.Record().owner;
        for (const std::string& stoc : {first, second})
          stands_still ? w.cluster.Pause(stoc) : w.cluster.Kill(stoc);
        before_ok += GetAll(&w, 3000).ok;
        w.cluster.Kill(owner);
        ASSERT_TRUE(w.WaitForOtherOwner(owner));
        const Answers after = GetAll(&w, 3000);
        after_ok += after.ok;
        unavailable += after.unavailable;
        EXPECT_LT(after.longest_ok_ns, kAtOnce) << "seed " << seed;
      });
    }
    EXPECT_GT(unavailable, 0) << "the test tests nothing";
    // The first owner had the metadata of tables that have both copies of these there.
    EXPECT_GT(after_ok, before_ok * 3 / 4) << "stand still: " << stands_still;
  }
}

// As by SIGSTOP of all of them. Their leases end, and so may their sessions.
TEST(StocOutageTest, AllStocsStandStillAndGoOn) {
  for (uint64_t seed = 1; seed <= 3; ++seed) {
    Simulate(seed, [] {
      CopiesWorld w(FiveStocs(60 * kSecond));
      ASSERT_NO_FATAL_FAILURE(w.Write(6));
      ASSERT_TRUE(w.WaitWhole(30 * kSecond)) << w.last;
      const RangeRecord before = w.Record();
      Puts puts(&w);
      SleepFor(kSecond);
      for (const std::string& stoc : w.cluster.Names("stoc")) w.cluster.Pause(stoc);
      SleepFor(5 * kSecond);
      const int standing = puts.done();
      for (const std::string& stoc : w.cluster.Names("stoc")) w.cluster.Resume(stoc);
      for (const Nanos until = Now() + 20 * kSecond; puts.done() < standing + 100 && Now() < until;)
        SleepFor(kSecond / 10);
      EXPECT_GE(puts.done(), standing + 100) << "puts go on";
      puts.Stop();
      ASSERT_TRUE(w.WaitFor(60 * kSecond, [&](const TableFiles& copies) {
        return CopiesWorld::IsWhole(copies) && w.Record().log_groups.size() == 1;
      })) << w.last;
      EXPECT_EQ(w.Record().log_groups[0].members.size(), 3u);
      EXPECT_EQ(w.Copied(), 0);
      EXPECT_EQ(w.Record().epoch, before.epoch) << "no other owner would do better";
      w.ExpectWhatWasWritten();
    });
  }
}

// While the store is away no log group can be replaced (group change, L4). A StoC that stands still
// meanwhile, for longer than a WRITE's deadline and a ping's, holds puts up for as long, and not until the
// store is back. It has no copy of the manifest: an edit that falls into that time would wait for the store,
// and puts for memory (docs/operations.md).
TEST(StocOutageTest, L4AStocThatStoodStillServesOnWhileTheStoreIsAway) {
  int seen = 0;
  for (uint64_t seed = 1; seen < 3 && seed <= 100; ++seed) {
    Simulate(seed, [&seen] {
      SimClusterOptions options = FiveStocs(60 * kSecond);
      options.config.session_timeout_ns = 60 * kSecond;
      CopiesWorld w(options);
      ASSERT_NO_FATAL_FAILURE(w.Write(6));
      ASSERT_TRUE(w.WaitWhole(30 * kSecond)) << w.last;
      const RangeRecord before = w.Record();
      const std::vector<StocId>& manifest = before.manifest.members;
      const std::vector<LogMember>& members = before.log_groups.back().members;
      const auto member = std::find_if(members.begin(), members.end(), [&](const LogMember& m) {
        return std::find(manifest.begin(), manifest.end(), m.stoc) == manifest.end();
      });
      if (member == members.end()) return;
      ++seen;
      Puts puts(&w);
      for (const std::string& ltc : w.cluster.Names("ltc")) w.cluster.CutConfig(ltc, true);
      const std::string stoc = w.StocOf(member->stoc);
      w.cluster.Pause(stoc);
      SleepFor(3 * kSecond);
      w.cluster.Resume(stoc);
      SleepFor(20 * kSecond);
      EXPECT_EQ(w.Record().version, before.version) << "nobody could change it";
      const int while_away = puts.done();
      EXPECT_GT(while_away, 2000) << "of a put each 5 ms";
      for (const std::string& ltc : w.cluster.Names("ltc")) w.cluster.CutConfig(ltc, false);
      ASSERT_TRUE(w.WaitFor(60 * kSecond, [&](const TableFiles& copies) {
        return CopiesWorld::IsWhole(copies) && w.Record().log_groups.size() == 1;
      })) << w.last;
      puts.Stop();
      EXPECT_LT(puts.longest_ns(), 5 * kSecond);
      EXPECT_EQ(w.Record().epoch, before.epoch);
      w.ExpectWhatWasWritten();
    });
  }
  EXPECT_EQ(seen, 3);
}

// The same StoC stands still again and again, each time for long enough to be suspected (deadline, L5), and
// not for a manifest's append to fail. Each time logs get successors; what they hold goes with their rounds,
// which are flushed though the store is away.
TEST(StocOutageTest, L4LogsThatGoOnInTheirGroupDoNotPileUp) {
  Simulate(1, [] {
    SimClusterOptions options = FiveStocs(3600 * kSecond);
    options.config.session_timeout_ns = 3600 * kSecond;
    CopiesWorld w(options);
    ASSERT_NO_FATAL_FAILURE(w.Write(6));
    ASSERT_TRUE(w.WaitWhole(30 * kSecond)) << w.last;
    const std::string stoc = w.StocOf(w.Record().log_groups.back().members.at(1).stoc);
    const auto opened = [&w] { return w.cluster.Metric("stoc", "nova_stoc_segments_opened_total"); };
    Puts puts(&w);
    for (const std::string& ltc : w.cluster.Names("ltc")) w.cluster.CutConfig(ltc, true);
    const double opened_before = opened();
    double most = 0;
    for (int i = 0; i < 40; ++i) {
      w.cluster.Pause(stoc);
      SleepFor(1500 * kMillisecond);
      w.cluster.Resume(stoc);
      SleepFor(3 * kSecond);
      most = std::max(most, w.cluster.Metric("stoc", "nova_stoc_segments"));
    }
    puts.Stop();
    EXPECT_GT(puts.done(), 5000);
    EXPECT_GT(opened() - opened_before, 120) << "one at each of three members each time, at least";
    EXPECT_LT(most, 60) << "segments at all StoCs";
    for (const std::string& ltc : w.cluster.Names("ltc")) w.cluster.CutConfig(ltc, false);
    ASSERT_TRUE(w.WaitWhole(60 * kSecond)) << w.last;
    w.ExpectWhatWasWritten();
  });
}

// Row 44: a link that is down for a part of each second, of a StoC that lives. Where that is shorter than a
// WRITE's deadline and a ping's together (deadline, L5) the StoC answers each time, and each time puts wait
// for it; else its groups leave it.
TEST(StocOutageTest, AFlappingLinkMovesNothingAndHoldsUpNoPutForLong) {
  for (const Nanos down : {500 * kMillisecond, 700 * kMillisecond}) {
    Simulate(1, [down] {
      CopiesWorld w(FiveStocs(kDownAfter));
      ASSERT_NO_FATAL_FAILURE(w.Write(6));
      ASSERT_TRUE(w.WaitWhole(30 * kSecond)) << w.last;
      const RangeRecord before = w.Record();
      const std::string flaps = w.StocOf(before.log_groups.back().members.at(0).stoc);
      const double changes = w.cluster.Metric("ltc", "nova_logc_group_changes_total{cause=\"dead\"}");
      Puts puts(&w);
      size_t most_groups = 0;
      for (int second = 0; second < 60; ++second) {
        for (const std::string& ltc : w.cluster.Names("ltc")) w.cluster.network()->Partition(ltc, flaps);
        SleepFor(down);
        for (const std::string& ltc : w.cluster.Names("ltc")) {
          w.cluster.network()->Mend(ltc, flaps);
          w.cluster.network()->Mend(flaps, ltc);
        }
        SleepFor(kSecond - down);
        most_groups = std::max(most_groups, w.Record().log_groups.size());
      }
      puts.Stop();
      const double left = w.cluster.Metric("ltc", "nova_logc_group_changes_total{cause=\"dead\"}") - changes;
      EXPECT_GT(puts.done(), left > 0 ? 9000 : 4000) << "of a put each 5 ms; " << left << " groups left it";
      EXPECT_EQ(left > 0, down > 600 * kMillisecond);
      EXPECT_LT(puts.longest_ns(), 2 * kSecond);
      EXPECT_EQ(w.Copied(), 0) << "its StoC was never away";
      EXPECT_EQ(w.Record().epoch, before.epoch);
      EXPECT_LE(most_groups, 8u) << "each change of the group lists one more, until its records are flushed";
      ASSERT_TRUE(w.WaitFor(60 * kSecond, [&](const TableFiles& copies) {
        return CopiesWorld::IsWhole(copies) && w.Record().log_groups.size() == 1;
      })) << w.last;
      for (const std::string& ltc : w.cluster.Names("ltc"))
        EXPECT_LE(w.cluster.fabric_counters(ltc).connections, 40) << ltc;
      w.ExpectWhatWasWritten();
    });
  }
}

TEST(StocOutageTest, S5ARebuildOutlivesTwoLeaders) {
  for (uint64_t seed = 1; seed <= 4; ++seed) {
    Simulate(seed, [seed] {
      SimClusterOptions options = FiveStocs(kDownAfter);
      options.coordinators = 3;
      options.stoc.server.copy_bytes_per_second = 20'000;  // it takes a while
      CopiesWorld w(options);
      ASSERT_NO_FATAL_FAILURE(w.Write(6));
      ASSERT_TRUE(w.WaitWhole(30 * kSecond)) << w.last;
      MissingWatch missing(&w.cluster);
      w.cluster.Kill("stoc-1");
      // One dies while it listens for the StoC or just after, the next one while copies are made.
      SleepFor(static_cast<Nanos>(seed) * 2 * kSecond);
      for (int leaders = 0; leaders < 2; ++leaders) {
        std::string leader;
        for (const Nanos until = Now() + 20 * kSecond; leader.empty() && Now() < until;) {
          SleepFor(kSecond / 10);
          leader = w.cluster.Leader();
        }
        ASSERT_FALSE(leader.empty());
        if (leaders == 1) {
          for (const Nanos until = Now() + 60 * kSecond; w.Copied() == 0 && Now() < until;)
            SleepFor(kSecond / 10);
          EXPECT_GT(w.Copied(), 0);
        }
        w.cluster.Kill(leader);
        SleepFor(kSecond);
        ASSERT_TRUE(w.cluster.Start(leader).ok());
      }
      ASSERT_TRUE(w.WaitWholeAndTidy(120 * kSecond)) << w.last;
      EXPECT_EQ(missing.Stop(), 0u);
      w.ExpectWhatWasWritten();
    });
  }
}

// The last copy is there, and the edit that names it is not, or has just been made.
TEST(StocOutageTest, S5AStocThatReturnsAsItsLastCopyIsMadeUpForLosesNothing) {
  for (uint64_t seed = 1; seed <= 12; ++seed) {
    Simulate(seed, [seed] {
      const bool before_the_edit = seed % 2 == 0;
      CopiesWorld w(FiveStocs(kDownAfter));
      ASSERT_NO_FATAL_FAILURE(w.Write(6));
      ASSERT_TRUE(w.WaitWholeAndTidy(30 * kSecond)) << w.last;
      MissingWatch missing(&w.cluster);
      w.cluster.Kill("stoc-2");
      Notification held, go_on;
      DisarmFailPoints();
      if (before_the_edit) {
        ASSERT_TRUE(ArmFailPoint("rebuild.copied", 0, [&] {
                      if (LookAtTables(&w.cluster).ShortOf(2) > 3 || held.HasBeenNotified())
                        return OkStatus();
                      held.Notify();
                      go_on.Wait();
                      return OkStatus();
                    }).ok());
      }
      const auto made_up_for = [&] {
        const TableFiles look = LookAtTables(&w.cluster);
        return held.HasBeenNotified() || (look.error.empty() && look.ShortOf(2) == 0);
      };
      for (const Nanos until = Now() + 60 * kSecond; !made_up_for() && Now() < until;) SleepFor(kMillisecond);
      ASSERT_TRUE(made_up_for());
      ASSERT_TRUE(w.cluster.Start("stoc-2").ok());
      if (held.HasBeenNotified()) go_on.Notify();
      ASSERT_TRUE(w.WaitWholeAndTidy(60 * kSecond)) << w.last;
      DisarmFailPoints();
      EXPECT_EQ(missing.Stop(), 0u) << "files that were named went";
      w.ExpectWhatWasWritten();
    });
  }
}

}  // namespace
}  // namespace nova
