// The same as kill_test.cc, for as long as the acceptance asks: twenty rounds, and a death at each failpoint.
// Label "long".
#include "common/base/failpoint.h"
#include "tests/cluster/kill_rounds.h"

namespace nova {
namespace {

TEST_F(KillTest, NoAcknowledgedWriteIsLostOverTwentyKills) {
  Start({});
  if (cluster_ != nullptr) KillRounds(cluster_.get(), 20);
}

// D: a process ends in the middle of each step that a cluster comes by, every second time all others with it;
// what was acknowledged is found in the end. The others' deaths make the steps of recoveries, fences and
// changed groups come.
TEST_F(KillTest, NoAcknowledgedWriteIsLostWhereverAProcessDies) {
  Start({});
  if (cluster_ == nullptr) return;
  Checker checker(cluster_->coordinators(), 8, 2000, 4000);
  const auto go_on = [&] {
    checker.SkipToNow();
    uint64_t ok = 0;
    for (int second = 0; second < 60 && ok == 0; ++second) ok += checker.Next().ok;
    EXPECT_GT(ok, 0u) << "nothing goes on";
  };
  int number = 0;
  for (const FailPointInfo& point : kFailPoints) {
    const bool of_stoc = point.name.starts_with("stoc.");
    const bool of_ltc = point.name.starts_with("logc.") || point.name.starts_with("flush.") ||
                        point.name.starts_with("compaction.") || point.name.starts_with("edit.");
    if (!of_stoc && !of_ltc) continue;
    // Nothing is copied as long as every StoC comes back: tests/stoc/copy_test.cc.
    if (point.name.starts_with("stoc.copy_")) continue;
    SCOPED_TRACE(point.name);
    ++number;
    const std::string victim = of_stoc ? "stoc-0" : "ltc-0";
    cluster_->Kill(victim);
    // A start comes by once: its steps die there, others at the first or second time.
    const int hit = point.name == "stoc.journal_replayed" ? 1 : 1 + number % 2;
    const Status started = cluster_->Restart(victim, StrCat(std::string(point.name), "=crash@", hit));
    if (!started.ok()) {  // a step of the start itself: its output ends before the process is gone
      for (const Nanos until = Now() + 10 * kSecond; cluster_->Runs(victim) && Now() < until;)
        SleepFor(kMillisecond);
      ASSERT_FALSE(cluster_->Runs(victim)) << started;
    }
    for (int i = 0; i < 12 && cluster_->Runs(victim); ++i) {
      // Whichever LTC has the ranges, its death brings the fences at the StoC.
      const std::string other = i % 2 == 1 ? "stoc-1" : of_stoc && i % 4 == 2 ? "ltc-0" : "ltc-1";
      if (i < 6) cluster_->Kill(other);
      for (const Nanos until = Now() + 4 * kSecond; cluster_->Runs(victim) && Now() < until;)
        SleepFor(20 * kMillisecond);
      if (i < 6) {
        ASSERT_TRUE(cluster_->Restart(other).ok());
      }
    }
    EXPECT_FALSE(cluster_->Runs(victim)) << "the step never came";
    if (number % 2 == 0) {
      for (const std::string& name : cluster_->names()) cluster_->Kill(name);
    } else {
      cluster_->Kill(victim);
    }
    for (const char* role : {"coordinator-", "stoc-", "ltc-"}) {
      for (const std::string& name : cluster_->names()) {
        if (!name.starts_with(role) || cluster_->Runs(name)) continue;
        const Status back = cluster_->Restart(name);
        ASSERT_TRUE(back.ok()) << back;
      }
    }
    go_on();
  }
  const std::string verdict = checker.Verify();
  EXPECT_TRUE(verdict.starts_with("verified 2000 keys")) << verdict;
  std::printf("%d steps; %s\n", number, verdict.c_str());
}

}  // namespace
}  // namespace nova
