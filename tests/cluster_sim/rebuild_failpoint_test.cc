// A StoC is drained, and its tables leave it (rebuild, S5). At each step of that the owner dies, or the StoC
// that is left, or the one that gives the copy, or the one that takes it; or the step fails, or takes longer
// than anybody waits for it; once. In the end the tables have their copies elsewhere, nothing is too much,
// and what was written is found. A step that no run meets fails.
#include <gtest/gtest.h>

#include <algorithm>

#include "common/base/failpoint.h"
#include "tests/cluster_sim/copies_world.h"

namespace nova {
namespace {

constexpr char kLeft[] = "stoc-0";  // is drained
constexpr char kReadAtTheSource[] = "stoc.copy_read";
constexpr Nanos kSlow = 20 * kSecond;

// A failpoint; one that other work passes too counts from the first hit of `after` on.
struct Step {
  const char* name;
  const char* point;
  const char* after = nullptr;
  uint64_t times = 2;  // that it comes, at least
};
constexpr Step kSteps[] = {
    {"ReadAtTheSource", kReadAtTheSource},
    {"Fetched", "stoc.copy_fetched"},
    {"CopyHalfWritten", "stoc.file_written", "stoc.copy_fetched"},
    {"CopySynced", "stoc.file_synced", "stoc.copy_fetched"},
    {"CopyRenamed", "stoc.file_renamed", "stoc.copy_fetched"},
    {"CopyWritten", "stoc.copy_written"},
    {"Copied", "rebuild.copied"},
    {"EditWrittenSomewhere", "stoc.append_written", "rebuild.copied"},
    {"EditSyncedSomewhere", "stoc.append_synced", "rebuild.copied"},
    {"EditInTheManifest", "edit.appended", "rebuild.copied"},
    {"EditCommitted", "rebuild.committed"},
    {"LeftDeleted", "stoc.drop_begun", "rebuild.committed", 1},
};
enum class Fault { kError, kSlow, kOwnerDies, kLeftDies, kSourceDies, kTargetDies };
constexpr Fault kFaults[] = {Fault::kError,    Fault::kSlow,       Fault::kOwnerDies,
                             Fault::kLeftDies, Fault::kSourceDies, Fault::kTargetDies};
constexpr const char* kFaultNames[] = {"Error", "Slow", "OwnerDies", "LeftDies", "SourceDies", "TargetDies"};

struct Case {
  const Step* step;
  Fault fault;
};
std::vector<Case> AllCases() {
  std::vector<Case> cases;
  for (const Step& step : kSteps) {
    const bool may_fail = std::any_of(kFailPoints.begin(), kFailPoints.end(), [&](const FailPointInfo& p) {
      return p.name == step.point && p.may_fail;
    });
    for (const Fault fault : kFaults) {
      if (may_fail || fault != Fault::kError) cases.push_back({&step, fault});
    }
  }
  return cases;
}

struct World : CopiesWorld {
  World() : CopiesWorld(FiveStocs(/*down_after=*/4 * kSecond)) {}
  void Drain() {
    std::string left;
    while (!cluster.NewCoordinatorClient().Drain(kLeft, Now() + kSecond, &left).ok()) SleepFor(kSecond / 10);
  }
  // It dies, and is there again three seconds later.
  void KillAndRestart(const std::string& node) {
    cluster.Kill(node);
    SleepFor(3 * kSecond);
    while (!cluster.Start(node).ok()) SleepFor(kSecond / 10);
  }
  // A StoC that makes a copy just now.
  std::string CopyingStoc() {
    for (const std::string& stoc : cluster.Names("stoc")) {
      const auto metric = [&](const char* name) { return cluster.Metric(stoc, name); };
      if (metric("nova_stoc_requests_total{type=\"copy_file\"}") >
          metric("nova_stoc_copies_total") + metric("nova_stoc_copy_failures_total"))
        return stoc;
    }
    return "";
  }
  // Whole and tidy, and nothing of it on the StoC that was drained.
  bool WaitLeft(Nanos within) {
    return WaitFor(within, [this](const TableFiles& c) {
      if (!IsWhole(c) || c.Surplus() > 0 || cluster.stoc(kLeft) == nullptr) return false;
      const StocId left = cluster.stoc(kLeft)->self().stoc_id;
      return std::none_of(c.named.begin(), c.named.end(),
                          [left](const auto& part) { return part.second.contains(left); });
    });
  }
};

class RebuildFailPointTest : public testing::TestWithParam<Case> {
 protected:
  ~RebuildFailPointTest() override { DisarmFailPoints(); }
};
INSTANTIATE_TEST_SUITE_P(All, RebuildFailPointTest, testing::ValuesIn(AllCases()), [](const auto& p) {
  return StrCat(p.param.step->name, kFaultNames[static_cast<size_t>(p.param.fault)]);
});

TEST_P(RebuildFailPointTest, S5LosesNothingAndEndsWell) {
  const Step& step = *GetParam().step;
  const Fault fault = GetParam().fault;
  for (uint64_t seed = 1; seed <= 2; ++seed) {
    Simulate(seed, [&] {
      World w;
      ASSERT_NO_FATAL_FAILURE(w.Write(4));
      ASSERT_TRUE(w.WaitWholeAndTidy(60 * kSecond)) << w.last;
      std::string source, target;  // of the copy that was asked for last
      Notification hit;
      std::string victim;
      uint64_t met = 0;
      const auto note_copy = [&] {
        source = Simulation::Current()->host()->name;
        target = w.CopyingStoc();
        return OkStatus();
      };
      const auto at_step = [&] {
        if (std::string_view(step.point) == kReadAtTheSource) note_copy().IgnoreError();
        if (++met != std::min(seed, step.times)) return OkStatus();
        victim = fault == Fault::kOwnerDies    ? w.Record().owner
                 : fault == Fault::kLeftDies   ? kLeft
                 : fault == Fault::kSourceDies ? source
                 : fault == Fault::kTargetDies ? target
                                               : "";
        hit.Notify();
        if (fault == Fault::kError) return Status(absl::DataLossError("failpoint"));
        if (fault == Fault::kSlow) {
          SleepFor(kSlow);
          return OkStatus();
        }
        // The thread waits for the death of its process, as one that is not scheduled any more.
        const Thread killer("test.killer", [&] { w.cluster.Kill(victim); });
        return OkStatus();
      };
      ASSERT_TRUE(ArmFailPoint(kReadAtTheSource, 0, note_copy).ok());
      const auto arm = [&] { ASSERT_TRUE(ArmFailPoint(step.point, 0, at_step).ok()); };
      if (step.after == nullptr) {
        arm();
      } else {
        ASSERT_TRUE(ArmFailPoint(step.after, 1, [&] {
                      arm();
                      return OkStatus();
                    }).ok());
      }
      w.Drain();
      ASSERT_TRUE(hit.WaitUntil(Now() + 60 * kSecond)) << step.point << " was not met";
      if (!victim.empty()) w.KillAndRestart(victim);
      // Nobody writes, so that no compaction leaves it either.
      EXPECT_TRUE(w.WaitLeft(120 * kSecond)) << w.last;
      ASSERT_NO_FATAL_FAILURE(w.Write(1));
      w.ExpectWhatWasWritten();
      DisarmFailPoints();
    });
  }
}

}  // namespace
}  // namespace nova
