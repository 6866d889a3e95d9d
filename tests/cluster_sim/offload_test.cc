// Compactions that run on StoCs (attempt, M6), in a whole cluster: what is read afterwards is what was
// written, whoever dies, hangs, is fenced, is full or does not know such jobs, and at whatever step; nothing
// is left over; and no fail-over waits for a job.
#include <gtest/gtest.h>

#include <algorithm>

#include "common/base/failpoint.h"
#include "tests/cluster_sim/copies_world.h"

namespace nova {
namespace {

constexpr OffloadPolicy kPolicies[] = {OffloadPolicy::kRoundRobin, OffloadPolicy::kLeastLoaded,
                                       OffloadPolicy::kMostInput, OffloadPolicy::kCost};

SimClusterOptions Options(OffloadPolicy policy = OffloadPolicy::kRoundRobin) {
  SimClusterOptions options = FiveStocs(/*down_after=*/3600 * kSecond);
  options.ltc.offload.policy = policy;
  options.ltc.offload.pause_after_failure_ns = 2 * kSecond;
  return options;
}

struct World : CopiesWorld {
  explicit World(const SimClusterOptions& options = Options()) : CopiesWorld(options) {}
  // A put whose outcome is unknown, for its owner has died, is done again: nobody else writes.
  void Write(int rounds) {
    for (int i = 0; i < 100 * rounds; ++i) {
      const std::string key = KeyOf(i % 100 * 10);
      values[key] = StrCat(++written, std::string(400, 'v'));
      Result put = client->Put(key, values[key]);
      for (const Nanos until = Now() + 60 * kSecond; !put.ok() && Now() < until; SleepFor(kMillisecond))
        put = client->Put(key, values[key]);
      ASSERT_TRUE(put.ok()) << put.message;
    }
  }
  double Jobs(const char* what) { return cluster.Metric("ltc", StrCat("nova_ltc_jobs_", what)); }
  bool WaitForJobs(const char* what, double at_least, Nanos within = 60 * kSecond) {
    for (const Nanos until = Now() + within; Jobs(what) < at_least; SleepFor(kSecond / 10)) {
      if (Now() >= until) return false;
    }
    return true;
  }
  // All lost attempts are cancelled.
  bool WaitUntilCertain() {
    for (const Nanos until = Now() + 200 * kSecond; Jobs("uncertain") > 0; SleepFor(kSecond / 10)) {
      if (Now() >= until) return false;
    }
    return true;
  }
  // Writes until a job has come to the step at which something was armed.
  void WriteUntil(const Notification& met) {
    for (int r = 0; r < 40 && !met.HasBeenNotified(); ++r) ASSERT_NO_FATAL_FAILURE(Write(1));
    ASSERT_TRUE(met.WaitUntil(Now() + 20 * kSecond)) << "no job came to that step";
  }
  // The range's record does not name the StoC, so that no fail-over fences it.
  bool IsInNoGroup(const std::string& stoc) {
    const StocId id = cluster.stoc(stoc)->self().stoc_id;
    const RangeRecord record = Record();
    const auto& members = record.manifest.members;
    return std::find(members.begin(), members.end(), id) == members.end() &&
           std::none_of(record.log_groups.begin(), record.log_groups.end(), [id](const LogGroup& group) {
             return std::any_of(group.members.begin(), group.members.end(),
                                [id](const LogMember& m) { return m.stoc == id; });
           });
  }
};

// Holds who comes to a failpoint: at its `nth` hit, or all (0), or the first of which `where` is true; until
// they are let go.
class Hold {
 public:
  Hold(const char* point, uint64_t nth, std::function<bool()> where = nullptr) {
    DisarmFailPoints();
    EXPECT_TRUE(ArmFailPoint(point, nth, [gate = gate_, where = std::move(where)] {
                  const std::shared_ptr<Gate> mine = gate;  // the point may be disarmed meanwhile
                  if (where != nullptr && (mine->met.HasBeenNotified() || !where())) return OkStatus();
                  mine->met.Notify();
                  mine->go_on.Wait();
                  return OkStatus();
                }).ok());
  }
  ~Hold() { LetGo(); }
  const Notification& met() const { return gate_->met; }
  void LetGo() {
    gate_->go_on.Notify();
    DisarmFailPoints();
  }

 private:
  struct Gate {
    Notification met, go_on;
  };
  const std::shared_ptr<Gate> gate_ = std::make_shared<Gate>();
};

class OffloadTest : public testing::Test {
 protected:
  ~OffloadTest() override { DisarmFailPoints(); }
};

TEST_F(OffloadTest, M6WhatIsReadIsWhatWasWrittenByEachPolicy) {
  for (const OffloadPolicy policy : kPolicies) {
    Simulate(1, [policy] {
      World w(Options(policy));
      ASSERT_NO_FATAL_FAILURE(w.Write(10));
      ASSERT_TRUE(w.WaitForJobs("offloaded_total", 3)) << static_cast<int>(policy);
      ASSERT_TRUE(w.WaitWholeAndTidy(60 * kSecond)) << w.last;
      EXPECT_EQ(w.Jobs("offloaded_total"), w.cluster.Metric("stoc", "nova_stoc_jobs_total"));
      EXPECT_EQ(w.Jobs("failed_total") + w.Jobs("lost_total") + w.Jobs("refused_total"), 0);
      EXPECT_GT(w.Jobs("read_bytes_total"), 0);
      w.ExpectWhatWasWritten();
      const ScanResult scan = w.client->Scan("", 1000);
      ASSERT_TRUE(scan.ok());
      EXPECT_TRUE(std::equal(
          scan.entries.begin(), scan.entries.end(), w.values.begin(), w.values.end(),
          [](const auto& a, const auto& b) { return a.first == b.first && a.second == b.second; }));
    });
  }
}

TEST_F(OffloadTest, NothingIsOffloadedUnlessItIsAskedFor) {
  Simulate(1, [] {
    World w(Options(OffloadPolicy::kNever));
    ASSERT_NO_FATAL_FAILURE(w.Write(10));
    ASSERT_TRUE(w.WaitWholeAndTidy(60 * kSecond)) << w.last;
    EXPECT_EQ(w.cluster.Metric("stoc", "nova_stoc_requests_total{type=\"compact\"}"), 0);
  });
}

// --- a fault at each step

enum class Fault { kAnswerLost, kSlow, kOwnerDies, kWorkerDies, kOwnerDiesAndWorkerToo };
constexpr const char* kFaultNames[] = {"AnswerLost", "Slow", "OwnerDies", "WorkerDies", "BothDie"};
constexpr const char* kSteps[] = {"offload.sent", "stoc.job_read", "stoc.job_written", "offload.done",
                                  "offload.lost"};

class OffloadFailPointTest : public testing::TestWithParam<std::tuple<const char*, Fault>> {
 protected:
  ~OffloadFailPointTest() override { DisarmFailPoints(); }
};
INSTANTIATE_TEST_SUITE_P(All, OffloadFailPointTest,
                         testing::Combine(testing::ValuesIn(kSteps),
                                          testing::Values(Fault::kAnswerLost, Fault::kSlow, Fault::kOwnerDies,
                                                          Fault::kWorkerDies, Fault::kOwnerDiesAndWorkerToo)),
                         [](const auto& p) {
                           std::string name = std::get<0>(p.param);
                           std::replace(name.begin(), name.end(), '.', '_');
                           return name + "_" + kFaultNames[static_cast<size_t>(std::get<1>(p.param))];
                         });

// The StoC that runs a job just now; empty: none does.
std::string BusyWorker(World* w) {
  for (const std::string& stoc : w->cluster.Names("stoc")) {
    const auto metric = [&](const char* name) { return w->cluster.Metric(stoc, name); };
    if (metric("nova_stoc_requests_total{type=\"compact\"}") >
        metric("nova_stoc_jobs_total") + metric("nova_stoc_job_failures_total"))
      return stoc;
  }
  return "";
}

TEST_P(OffloadFailPointTest, M6LosesNothingAndEndsWell) {
  const auto [step, fault] = GetParam();
  const bool at_owner = std::string_view(step).starts_with("offload.");
  for (uint64_t seed = 1; seed <= 2; ++seed) {
    Simulate(seed, [&, step = step, fault = fault] {
      World w;
      Notification met;
      std::vector<std::string> victims;
      uint64_t hits = 0;
      const auto at_step = [&] {
        if (++hits != seed) return OkStatus();
        const std::string owner = w.Record().owner;
        const std::string busy = BusyWorker(&w);
        const std::string worker =
            at_owner ? (busy.empty() ? "stoc-0" : busy) : Simulation::Current()->host()->name;
        if (fault == Fault::kOwnerDies || fault == Fault::kOwnerDiesAndWorkerToo) victims.push_back(owner);
        if (fault == Fault::kWorkerDies || fault == Fault::kOwnerDiesAndWorkerToo) victims.push_back(worker);
        met.Notify();
        if (fault == Fault::kAnswerLost) return Status(absl::UnavailableError("failpoint"));
        if (fault == Fault::kSlow) {
          SleepFor(at_owner ? 20 * kSecond : 100 * kSecond);
          return OkStatus();
        }
        // The thread waits for the death of its process, as one that is not scheduled any more.
        const Thread killer("test.killer", [&] {
          for (const std::string& node : victims) w.cluster.Kill(node);
        });
        return OkStatus();
      };
      ASSERT_TRUE(ArmFailPoint(step, 0, at_step).ok());
      if (std::string_view(step) == "offload.lost") {  // only after an answer was lost
        ASSERT_TRUE(ArmFailPoint("offload.done", 0, [] { return absl::UnavailableError("lost"); }).ok());
      }
      ASSERT_NO_FATAL_FAILURE(w.WriteUntil(met));
      ASSERT_NO_FATAL_FAILURE(w.Write(2));  // writers are not held up for ever
      SleepFor(3 * kSecond);
      DisarmFailPoints();
      for (const std::string& node : victims) {
        while (!w.cluster.Runs(node) && !w.cluster.Start(node).ok()) SleepFor(kSecond / 10);
      }
      ASSERT_NO_FATAL_FAILURE(w.Write(4));
      ASSERT_TRUE(w.cluster.WaitOpen(1, 60 * kSecond));
      ASSERT_TRUE(w.WaitWholeAndTidy(240 * kSecond)) << w.last;
      EXPECT_TRUE(w.WaitUntilCertain());
      w.ExpectWhatWasWritten();
    });
  }
}

// --- fences

// A job is in the middle, on every StoC that runs one, when its owner dies: the range opens as soon as
// without, and what the jobs still store is refused or collected.
TEST_F(OffloadTest, F1AFailOverDoesNotWaitForAJob) {
  for (uint64_t seed = 1; seed <= 3; ++seed) {
    Simulate(seed, [] {
      World w;
      Hold hold("stoc.job_read", 0);
      ASSERT_NO_FATAL_FAILURE(w.WriteUntil(hold.met()));
      const std::string worker = BusyWorker(&w), owner = w.Record().owner;
      ASSERT_FALSE(worker.empty());
      w.cluster.Kill(owner);
      const Nanos died = Now();
      ASSERT_TRUE(w.WaitForOtherOwner(owner));
      EXPECT_LT(Now() - died, 8 * kSecond) << "a lease, and the time to open";
      EXPECT_EQ(w.cluster.Metric("stoc", "nova_stoc_jobs_total"), 0) << "it is in the middle still";
      w.ExpectWhatWasWritten();
      hold.LetGo();
      ASSERT_TRUE(w.cluster.Start(owner).ok());
      ASSERT_NO_FATAL_FAILURE(w.Write(3));
      ASSERT_TRUE(w.WaitWholeAndTidy(60 * kSecond)) << w.last;
      EXPECT_GE(w.cluster.Metric(worker, "nova_stoc_job_failures_total"), 1);
      w.ExpectWhatWasWritten();
    });
  }
}

// The worker is in no group of the range, and hears of no epoch: it goes on under the old one. Outputs that
// go to StoCs that were fenced are refused; others are stored, named by nobody, and collected (N4).
TEST_F(OffloadTest, N4OutputsOfAWorkerThatNobodyFencesAreRefusedOrCollected) {
  int stored = 0, refused = 0;  // runs in which the worker stored a table late, and those where it could not
  for (uint64_t seed = 1; seed <= 8 || (seed <= 80 && (stored == 0 || refused == 0)); ++seed) {
    Simulate(seed, [&] {
      SimClusterOptions options = Options();
      options.stocs = 9;
      options.ltc.hosted.log_replicas = options.ltc.hosted.manifest_replicas = 2;
      options.ltc.hosted.placement.scatter_width = 1;
      World w(options);
      std::string worker;
      Hold hold("stoc.job_read", 0, [&w, &worker] {
        worker = Simulation::Current()->host()->name;
        return w.IsInNoGroup(worker);
      });
      ASSERT_NO_FATAL_FAILURE(w.WriteUntil(hold.met()));
      w.cluster.CutConfig(worker, true);
      const std::string owner = w.Record().owner;
      w.cluster.Kill(owner);
      ASSERT_TRUE(w.WaitForOtherOwner(owner));
      const auto metric = [&](const char* name) {
        return w.cluster.Metric(worker, StrCat("nova_stoc_", name));
      };
      const auto ended = [&] { return metric("jobs_total") + metric("job_failures_total"); };
      const double written = metric("job_written_bytes_total"), before = ended();
      hold.LetGo();
      for (const Nanos until = Now() + 30 * kSecond; ended() == before && Now() < until;)
        SleepFor(kMillisecond);
      EXPECT_GT(ended(), before);
      (metric("job_written_bytes_total") > written ? stored : refused) += 1;
      w.cluster.CutConfig(worker, false);
      ASSERT_TRUE(w.cluster.Start(owner).ok());
      ASSERT_NO_FATAL_FAILURE(w.Write(2));
      ASSERT_TRUE(w.WaitWholeAndTidy(60 * kSecond)) << w.last;
      w.ExpectWhatWasWritten();
    });
  }
  EXPECT_GT(stored, 0);
  EXPECT_GT(refused, 0);
}

// The owner lives, and is only taken for dead: it hears the answer, and must not use it.
TEST_F(OffloadTest, F1AnOwnerThatWasReplacedMakesNothingOfItsJob) {
  for (uint64_t seed = 1; seed <= 3; ++seed) {
    Simulate(seed, [] {
      World w;
      Hold hold("offload.done", 1);
      ASSERT_NO_FATAL_FAILURE(w.WriteUntil(hold.met()));
      const std::string owner = w.Record().owner;
      w.cluster.Pause(owner);
      ASSERT_TRUE(w.WaitForOtherOwner(owner));
      ASSERT_NO_FATAL_FAILURE(w.Write(2));
      w.cluster.Resume(owner);
      hold.LetGo();
      ASSERT_NO_FATAL_FAILURE(w.Write(2));
      ASSERT_TRUE(w.WaitWholeAndTidy(60 * kSecond)) << w.last;
      w.ExpectWhatWasWritten();
    });
  }
}

// --- workers that are not as one wants them

// They do not know the request, or take no jobs: each is asked once, and again when it has started anew.
TEST_F(OffloadTest, StocsThatTakeNoJobsAreAskedOnceInEachOfTheirStarts) {
  Simulate(1, [] {
    SimClusterOptions options = Options();
    options.stoc.server.compactor.threads = 0;
    World w(options);
    ASSERT_NO_FATAL_FAILURE(w.Write(20));
    ASSERT_TRUE(w.WaitWholeAndTidy(60 * kSecond)) << w.last;
    EXPECT_EQ(w.Jobs("refused_total"), 5);
    EXPECT_EQ(w.Jobs("offloaded_total") + w.Jobs("failed_total") + w.Jobs("lost_total"), 0);
    w.cluster.Kill("stoc-1");
    ASSERT_TRUE(w.cluster.Start("stoc-1").ok());
    ASSERT_NO_FATAL_FAILURE(w.Write(60));
    ASSERT_TRUE(w.WaitWholeAndTidy(60 * kSecond)) << w.last;
    EXPECT_EQ(w.Jobs("refused_total"), 6);
    w.ExpectWhatWasWritten();
  });
}

// It answers pings and does the job, in the end: the LTC has long had it done here.
TEST_F(OffloadTest, AWorkerThatIsSlowAndNotDeadIsGivenUpAtTheDeadline) {
  Simulate(1, [] {
    SimClusterOptions options = Options();
    options.ltc.offload.least_deadline_ns = 5 * kSecond;
    World w(options);
    Hold hold("stoc.job_read", 1);
    ASSERT_NO_FATAL_FAILURE(w.WriteUntil(hold.met()));
    ASSERT_TRUE(w.WaitForJobs("lost_total", 1, 15 * kSecond));
    EXPECT_EQ(w.Jobs("uncertain"), 1) << "it has not said that the attempt has ended";
    ASSERT_NO_FATAL_FAILURE(w.Write(4));
    hold.LetGo();
    ASSERT_TRUE(w.WaitWholeAndTidy(60 * kSecond)) << w.last;
    EXPECT_TRUE(w.WaitUntilCertain());
    EXPECT_EQ(w.Jobs("lost_total"), 1);
    w.ExpectWhatWasWritten();
  });
}

// It has stored some of its outputs, is given up, and drops them when the part has long been run here.
TEST_F(OffloadTest, M6TheDropOfALostAttemptTakesNothingOfTheOneThatCounts) {
  for (uint64_t seed = 1; seed <= 3; ++seed) {
    Simulate(seed, [] {
      SimClusterOptions options = Options();
      options.ltc.offload.least_deadline_ns = 5 * kSecond;
      World w(options);
      Hold hold("stoc.job_written", 1);
      ASSERT_NO_FATAL_FAILURE(w.WriteUntil(hold.met()));
      ASSERT_TRUE(w.WaitForJobs("lost_total", 1, 15 * kSecond));
      SleepFor(3 * kSecond);  // the part runs here, and its edit is made
      hold.LetGo();
      ASSERT_TRUE(w.WaitUntilCertain());
      SleepFor(100 * kMillisecond);  // what others were asked to drop is dropped
      const TableFiles look = LookAtTables(&w.cluster);
      EXPECT_EQ(look.Missing(), 0u) << look.ToString(2);
      EXPECT_EQ(w.cluster.Metric("ltc", "nova_table_copies_repaired_total"), 0);
      ASSERT_TRUE(w.WaitWholeAndTidy(60 * kSecond)) << w.last;
      w.ExpectWhatWasWritten();
    });
  }
}

TEST_F(OffloadTest, AWorkerThatStandsStillHoldsUpNobodyForLongerThanItsDeadline) {
  Simulate(1, [] {
    SimClusterOptions options = Options();
    options.ltc.offload.least_deadline_ns = 5 * kSecond;
    World w(options);
    Hold hold("stoc.job_read", 1);
    ASSERT_NO_FATAL_FAILURE(w.WriteUntil(hold.met()));
    const std::string worker = BusyWorker(&w);
    ASSERT_FALSE(worker.empty());
    w.cluster.Pause(worker);
    ASSERT_TRUE(w.WaitForJobs("lost_total", 1, 15 * kSecond));
    ASSERT_NO_FATAL_FAILURE(w.Write(4));
    w.cluster.Resume(worker);
    hold.LetGo();
    ASSERT_TRUE(w.WaitWholeAndTidy(90 * kSecond)) << w.last;
    EXPECT_TRUE(w.WaitUntilCertain());
    w.ExpectWhatWasWritten();
  });
}

}  // namespace
}  // namespace nova
