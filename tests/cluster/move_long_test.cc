// A range moves, and at each step of it the source, the destination or the leading coordinator dies
// (docs/testing.md, row 41). Label "long".
#include <gtest/gtest.h>

#include "tests/cluster/kill_rounds.h"
#include "tests/cluster/range_probe.h"
#include "tests/cluster/writers.h"

namespace nova {
namespace {

constexpr int kRanges = 8;

class MoveTest : public testing::Test {
 protected:
  void SetUp() override {
    ProcessClusterOptions options;
    options.coordinators = 2;
    options.ranges = kRanges;
    options.ltc_flags = {"--memtable_mb=1", "--table_mb=1"};
    auto started = ProcessCluster::Start(options);
    if (absl::IsNotFound(started.status())) GTEST_SKIP() << started.status().message();
    ASSERT_TRUE(started.ok()) << started.status();
    cluster_ = *std::move(started);
  }
  // All ranges are on ltc-0: the other one was drained, stopped, and is back with `failpoints`.
  void GatherOnTheSource(const std::string& failpoints) {
    std::string said;
    ASSERT_EQ(cluster_->Nova({"drain", kDestination}, &said), 0) << said;
    const auto code = cluster_->Stop(kDestination, Now() + 60 * kSecond);
    ASSERT_TRUE(code.ok()) << code.status();
    const Status back = cluster_->Restart(kDestination, failpoints);
    ASSERT_TRUE(back.ok()) << back;
  }
  // The coordinator that is to die leads.
  std::string ArmTheLeader(const std::string& failpoints) {
    const std::string armed = Leader();
    const std::string other = armed == "coordinator-0" ? "coordinator-1" : "coordinator-0";
    cluster_->Kill(armed);
    EXPECT_EQ(Leader(), other);
    EXPECT_TRUE(cluster_->Restart(armed, failpoints).ok());
    cluster_->Kill(other);
    EXPECT_EQ(Leader(), armed);
    EXPECT_TRUE(cluster_->Restart(other).ok());
    return armed;
  }
  std::string Leader() {
    std::string leader;
    for (const Nanos until = Now() + 30 * kSecond; leader.empty() && Now() < until;
         SleepFor(50 * kMillisecond))
      leader = cluster_->LeadingCoordinator();
    EXPECT_FALSE(leader.empty());
    return leader;
  }
  static constexpr char kSource[] = "ltc-0";
  static constexpr char kDestination[] = "ltc-1";
  std::unique_ptr<ProcessCluster> cluster_;
};

TEST_F(MoveTest, WhoeverDiesAtAnyStepOfItARangeHasOneOwnerAndAllItsWrites) {
  if (cluster_ == nullptr) return;
  struct Step {
    const char* failpoint;
    enum { kOfSource, kOfDestination, kOfCoordinator } victim;
  };
  // A range that was released has no log, so that its new owner recovers none.
  const std::vector<Step> steps = {{"ltc.release_begun", Step::kOfSource},
                                   {"ltc.release_flushed", Step::kOfSource},
                                   {"ltc.record_released", Step::kOfSource},
                                   {"coordinator.move_decided", Step::kOfCoordinator},
                                   {"coordinator.move_written", Step::kOfCoordinator},
                                   {"logc.fenced", Step::kOfDestination},

                                   {"ltc.range_recovered", Step::kOfDestination},
                                   {"ltc.range_opened", Step::kOfDestination}};
  RegisterHistory history;
  Checker checker(cluster_->coordinators(), 4, 2000, 1000);
  {
    Writers writers(cluster_->coordinators(), &history, 5 * kMillisecond);
    RangeProbe probe(cluster_->coordinators(), kRanges);
    for (const Step& step : steps) {
      for (const int nth : {1, 3}) {
        SCOPED_TRACE(StrCat(step.failpoint, "@", nth));
        const std::string order = StrCat(step.failpoint, "=crash@", nth);
        // A new process: the old one may be draining still.
        cluster_->Kill(kSource);
        ASSERT_TRUE(cluster_->Restart(kSource, step.victim == Step::kOfSource ? order : "").ok());
        ASSERT_NO_FATAL_FAILURE(GatherOnTheSource(step.victim == Step::kOfDestination ? order : ""));
        ASSERT_GE(probe.Round("the ranges were gathered"), 0);
        const std::string victim = step.victim == Step::kOfSource        ? kSource
                                   : step.victim == Step::kOfDestination ? kDestination
                                                                         : ArmTheLeader(order);
        ASSERT_GE(probe.Round("the victim was armed"), 0);
        auto drain = Process::Start({NOVA_BINARY_DIR "/bin/nova",
                                     StrCat("--coordinators=", cluster_->coordinators()), "drain", kSource});
        ASSERT_TRUE(drain.ok()) << drain.status();
        for (const Nanos until = Now() + 30 * kSecond; cluster_->Runs(victim) && Now() < until;)
          SleepFor(5 * kMillisecond);
        ASSERT_FALSE(cluster_->Runs(victim)) << "the step never came";
        // Without a destination nobody else may have them: the source drains.
        if (step.victim != Step::kOfDestination) {
          ASSERT_GE(probe.Round(StrCat("the death of ", victim)), 0);
        }
        ASSERT_TRUE(cluster_->Restart(victim).ok());
        const Nanos took = probe.Round(StrCat("the return of ", victim));
        ASSERT_GE(took, 0);
        std::string unsettled = "?";
        for (const Nanos until = Now() + 30 * kSecond; !unsettled.empty() && Now() < until;) {
          const auto holdings = cluster_->Holdings();
          unsettled = holdings.size() == kRanges ? "" : "a range is missing";
          for (const auto& [range, now] : holdings) {
            if (now.state != "open" || !now.owner.starts_with("ltc-"))
              absl::StrAppend(&unsettled, "range ", range, ": ", now.state, " ", now.owner, "; ");
          }
        }
        EXPECT_EQ(unsettled, "");
        checker.SkipToNow();
        std::printf("%s=crash@%d: all ranges served %lld ms after %s was back\n", step.failpoint, nth,
                    static_cast<long long>(took / kMillisecond), victim.c_str());
        std::fflush(stdout);
      }
    }
    EXPECT_EQ(probe.stale(), 0);
  }
  const std::string checked = checker.Verify();
  EXPECT_TRUE(checked.starts_with("verified 2000 keys")) << checked;
  std::string linear;
  EXPECT_TRUE(history.Judge(&linear)) << linear;
  std::printf("%s\n%s", checked.c_str(), linear.c_str());
}

}  // namespace
}  // namespace nova
