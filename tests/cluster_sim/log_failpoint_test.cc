// The log on the disks of StoCs stopped at every failpoint of its path, on a simulated cluster: by a loss of
// power of everything, by the death of the StoCs or of the LTCs alone, by an error of the step. What was
// acknowledged is found, and every failpoint there is was met.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "common/base/failpoint.h"
#include "tests/cluster_sim/scenario.h"

namespace nova {
namespace {

std::vector<size_t> PointsOfTheLog(bool that_may_fail = false) {
  std::vector<size_t> points;
  for (size_t i = 0; i < kFailPoints.size(); ++i) {
    const FailPointInfo& point = kFailPoints[i];
    // No steps of the log: tests/stoc/copy_test.cc, tests/cluster_sim/offload_test.cc.
    if (point.name.starts_with("stoc.copy_") || point.name.starts_with("stoc.job_")) continue;
    if ((point.name.starts_with("stoc.") || point.name.starts_with("logc.")) &&
        (point.may_fail || !that_may_fail))
      points.push_back(i);
  }
  return points;
}

std::string NameOfPoint(const testing::TestParamInfo<size_t>& p) {
  std::string name(kFailPoints[p.param].name);
  std::replace(name.begin(), name.end(), '.', '_');
  return name;
}

// One writer, whose puts change groups, flush and move the range, for members and owners are killed and come
// back.
class StoppedCluster {
 public:
  StoppedCluster(uint64_t seed, const FailPointInfo& point) : point_(point), world_(Options(seed)) {}

  // `at` is done at the nth hit, in the middle of the step; then all is as well again as it can be.
  void Until(uint64_t nth, const std::function<Status()>& at) {
    for (int i = 0; i < 2 * kKeys; ++i) WriteNext();
    Notification hit, stop;
    ASSERT_TRUE(ArmFailPoint(point_.name, nth, [&] {
                  if (hit.HasBeenNotified()) return OkStatus();
                  hit.Notify();
                  return at();
                }).ok());
    {
      Thread writer("test.writer", [&] {
        while (!stop.HasBeenNotified()) WriteNext();
      });
      Thread nemesis("test.nemesis", [&] {
        while (!stop.WaitUntil(Now() + 400 * kMillisecond)) {
          if (AllRun() && world_.cluster.WaitOpen(1, kMillisecond)) KillNext();
        }
      });
      EXPECT_TRUE(hit.WaitUntil(Now() + 120 * kSecond)) << point_.name << " was not met " << nth << " times";
      stop.WaitUntil(Now() + 50 * kMillisecond);
      stop.Notify();
    }
    DisarmFailPoints();
    // A StoC that could not put its journal back gives nobody its logs until a start succeeds.
    if (point_.name == "stoc.journal_replayed") Kill("stoc");
    world_.Restart();
    EXPECT_TRUE(world_.cluster.WaitOpen(1, 120 * kSecond)) << point_.name;
  }
  void ExpectKept() {
    for (const auto& [key, op] : kept_) {
      const GetResult found = world_.client->Get(KeyOf(key));
      // The one writer had at most one op of each key in doubt after it.
      bool right = false;
      for (uint64_t i = op; i <= issued_ && !right; ++i) {
        if (static_cast<int>(i % kKeys) != key) continue;
        right = IsDelete(i) ? found.outcome == Outcome::kNotFound : found.ok() && found.value == ValueOf(i);
      }
      EXPECT_TRUE(right) << point_.name << ": " << KeyOf(key) << " is " << found.value.substr(0, 12) << " ("
                         << found.message << "), it must be op " << op << " or later";
    }
    EXPECT_EQ(kept_.size(), static_cast<size_t>(kKeys));
  }
  void Kill(const char* kind) {
    for (const std::string& name : world_.cluster.Names(kind)) world_.cluster.Kill(name);
  }

 private:
  static constexpr int kKeys = 60;
  static bool IsDelete(uint64_t op) { return op % 11 == 3; }
  static std::string ValueOf(uint64_t op) { return StrCat(op, ":", std::string(100 + op % 100, 'v')); }
  static SimClusterOptions Options(uint64_t seed) {
    SimClusterOptions o = SmallCluster();
    o.stocs = 3 + static_cast<int>(seed % 2);
    o.ltc.hosted.log_mode = seed % 3 == 0 ? LogMode::kMemoryAndPersistent : LogMode::kPersistent;
    o.client.timeout_ms = 3000;
    return o;
  }
  void WriteNext() {
    const uint64_t op = ++issued_;
    const int key = static_cast<int>(op % kKeys);
    const Result r =
        IsDelete(op) ? world_.client->Delete(KeyOf(key)) : world_.client->Put(KeyOf(key), ValueOf(op));
    if (r.ok()) kept_[key] = op;
  }
  void KillNext() {
    const std::vector<std::string> stocs = world_.cluster.Names("stoc");
    const std::string node = kills_ % 2 == 0 ? stocs[kills_ / 2 % stocs.size()] : world_.Record().owner;
    ++kills_;
    if (!node.empty()) world_.cluster.Kill(node);
  }
  bool AllRun() {  // or tried to start: a name may still be taken by the process before
    for (const char* kind : {"stoc", "ltc"}) {
      for (const std::string& name : world_.cluster.Names(kind)) {
        if (!world_.cluster.Runs(name) && !world_.cluster.Start(name).ok()) return false;
      }
    }
    return true;
  }

  const FailPointInfo& point_;
  OneRange world_;
  std::map<int, uint64_t> kept_;  // the last op of each key that was acknowledged
  uint64_t issued_ = 0;
  size_t kills_ = 0;
};

class LogFailPointTest : public testing::TestWithParam<size_t> {
 protected:
  ~LogFailPointTest() override { DisarmFailPoints(); }
  const FailPointInfo& point() const { return kFailPoints[GetParam()]; }
};
INSTANTIATE_TEST_SUITE_P(All, LogFailPointTest, testing::ValuesIn(PointsOfTheLog()), NameOfPoint);
class LogFailPointErrorTest : public LogFailPointTest {};
INSTANTIATE_TEST_SUITE_P(All, LogFailPointErrorTest, testing::ValuesIn(PointsOfTheLog(true)), NameOfPoint);

TEST_P(LogFailPointTest, ADeathOfAllNodesThereLosesNothingAcknowledged) {  // D
  for (uint64_t seed = 1; seed <= 3; ++seed) {                             // an LTC, a StoC, both
    Simulate(seed, [&] {
      StoppedCluster run(seed, point());
      // A killed StoC loses what its disk had not synced. The step waits for that, as a thread that was not
      // scheduled any more.
      run.Until(seed, [&] {
        Thread killer("test.killer", [&] {
          if (seed % 3 != 1) run.Kill("stoc");
          if (seed % 3 != 2) run.Kill("ltc");
        });
        return OkStatus();
      });
      run.ExpectKept();
    });
  }
}

TEST_P(LogFailPointErrorTest, LosesNothingAcknowledged) {  // S1
  for (uint64_t seed = 1; seed <= 2; ++seed) {
    Simulate(seed, [&] {
      StoppedCluster run(seed, point());
      run.Until(seed, [&] { return absl::DataLossError("failpoint"); });
      run.ExpectKept();
    });
  }
}

}  // namespace
}  // namespace nova
