// M1 (renewal): a manifest that has lost members returns to M of them, while the range is written to, and
// whoever takes the range over meanwhile has every acknowledged write.
#include <gtest/gtest.h>

#include <algorithm>

#include "common/base/failpoint.h"
#include "tests/cluster_sim/scenario.h"

namespace nova {
namespace {

class RenewalTest : public testing::Test {
 protected:
  ~RenewalTest() override { DisarmFailPoints(); }
};

SimClusterOptions Small(int stocs) {
  SimClusterOptions options = SmallCluster();
  options.stocs = stocs;
  options.ltc.hosted.placement.replicas = 3;
  options.client.timeout_ms = 20'000;
  return options;
}

size_t LivingMembers(OneRange* world, const RangeRecord& record) {
  const auto& members = record.manifest.members;
  const auto lives = [world](StocId stoc) { return !world->StocOf(stoc).empty(); };
  return static_cast<size_t>(std::count_if(members.begin(), members.end(), lives));
}

bool WaitForMembers(OneRange* world, size_t members, Nanos within = 40 * kSecond) {
  return world->WaitFor(within, [&](const RangeRecord& r) {
    return r.state == RangeState::kOpen && LivingMembers(world, r) >= members;
  });
}

void Put(OneRange* world, int first, int last, char value) {
  for (int i = first; i < last; ++i) {
    const Result r = world->client->Put(KeyOf(i), std::string(200, value));
    ASSERT_TRUE(r.ok()) << r.message;
  }
}

void ExpectAll(OneRange* world, int keys, char value) {
  for (int i = 0; i < keys; ++i) {
    const GetResult got = world->client->Get(KeyOf(i));
    ASSERT_TRUE(got.ok()) << KeyOf(i) << ": " << got.message;
    ASSERT_EQ(got.value, std::string(200, value)) << KeyOf(i);
  }
}

// The next owner has nothing but the manifest, the tables and the logs.
void ExpectAllAtTheNextOwner(OneRange* world, int keys, char value) {
  const std::string owner = world->Record().owner;
  world->cluster.Kill(owner);
  ASSERT_TRUE(world->WaitForOtherOwner(owner));
  ExpectAll(world, keys, value);
}

// With one of three StoCs away: until its lease is over, and an edit has found that it is away.
void WriteUntilTwoMembers(OneRange* world, char value) {
  SleepFor(3 * kSecond);
  for (const Nanos until = Now() + 20 * kSecond; Now() < until; SleepFor(kSecond)) {
    ASSERT_NO_FATAL_FAILURE(Put(world, 0, 300, value));
    if (world->Record().manifest.members.size() == 2) return;
  }
  FAIL() << "the manifest has " << world->Record().manifest.members.size() << " members";
}

// Three StoCs, one after another, are away for long, and edits come all the while.
TEST_F(RenewalTest, M1AfterARollingRestartTheManifestHasMMembersAgain) {
  Simulate(1, [] {
    OneRange w(Small(3));
    ASSERT_NO_FATAL_FAILURE(Put(&w, 0, 300, 'a'));
    for (const std::string& stoc : w.cluster.Names("stoc")) {
      w.cluster.Kill(stoc);
      ASSERT_NO_FATAL_FAILURE(WriteUntilTwoMembers(&w, 'b'));
      ASSERT_TRUE(w.cluster.Start(stoc).ok());
      SleepFor(3 * kSecond);
    }
    ASSERT_NO_FATAL_FAILURE(Put(&w, 0, 300, 'c'));
    EXPECT_TRUE(WaitForMembers(&w, 3)) << w.Record().manifest.members.size() << " members";
    ASSERT_NO_FATAL_FAILURE(Put(&w, 0, 300, 'd'));
    ExpectAllAtTheNextOwner(&w, 300, 'd');
  });
}

// Of an idle range nobody finds out by writing.
TEST_F(RenewalTest, M1OneStocOfFourIsLostForGoodAndTheManifestOfAnIdleRangeLeavesIt) {
  Simulate(2, [] {
    OneRange w(Small(4));
    ASSERT_NO_FATAL_FAILURE(Put(&w, 0, 300, 'a'));
    SleepFor(5 * kSecond);
    const std::string lost = w.StocOf(w.Record().manifest.members[0]);
    w.cluster.Kill(lost);
    w.cluster.LoseDisk(lost);
    ASSERT_EQ(LivingMembers(&w, w.Record()), 2u);
    EXPECT_TRUE(WaitForMembers(&w, 3));
    ExpectAllAtTheNextOwner(&w, 300, 'a');
  });
}

TEST_F(RenewalTest, M1AShortAbsenceIsWaitedOut) {
  Simulate(3, [] {
    SimClusterOptions options = Small(4);
    options.ltc.hosted.log_mode = LogMode::kNone;  // a log group that is replaced is flushed: an edit
    OneRange w(options);
    ASSERT_NO_FATAL_FAILURE(Put(&w, 0, 300, 'a'));
    SleepFor(5 * kSecond);
    const Uuid before = w.Record().manifest.file;
    const std::string away = w.StocOf(w.Record().manifest.members[0]);
    w.cluster.Kill(away);
    SleepFor(4 * kSecond);  // its lease, and half of the time that is given
    ASSERT_TRUE(w.cluster.Start(away).ok());
    SleepFor(20 * kSecond);
    EXPECT_EQ(w.Record().manifest.file, before);
    EXPECT_EQ(LivingMembers(&w, w.Record()), 3u);
  });
}

// The old file is on two of three members, the third is back: a renewal is due.
void MakeShort(OneRange* world) {
  ASSERT_NO_FATAL_FAILURE(Put(world, 0, 300, 'a'));
  world->cluster.Kill("stoc-1");
  ASSERT_NO_FATAL_FAILURE(WriteUntilTwoMembers(world, 'b'));
  ASSERT_TRUE(world->cluster.Start("stoc-1").ok());
}

constexpr const char* kSteps[] = {"ltc.renewal_cut", "ltc.renewal_written", "ltc.renewal_caught_up",
                                  "ltc.renewal_installed"};

// The owner dies at each step, with edits before, and beside it where they go on.
TEST_F(RenewalTest, M1TheDeathOfTheOwnerAtEachStepLosesNothingAcknowledged) {
  uint64_t seed = 10;
  for (const char* const step : kSteps) {
    Simulate(++seed, [step] {
      OneRange w(Small(3));
      ASSERT_NO_FATAL_FAILURE(MakeShort(&w));
      const std::string owner = w.Record().owner;
      Notification hit, killed;
      ASSERT_TRUE(ArmFailPoint(step, 0, [&]() -> Status {
                    if (w.Record().owner != owner || hit.HasBeenNotified()) return OkStatus();
                    hit.Notify();
                    killed.Wait();  // while others of the process go on
                    return OkStatus();
                  }).ok());
      const bool met = hit.WaitUntil(Now() + 40 * kSecond);
      EXPECT_TRUE(met) << step;
      // Edits go on until the owner has all that the new file lacks.
      const std::string_view at(step);
      const bool edits = at == "ltc.renewal_cut" || at == "ltc.renewal_written";
      if (met && edits) Put(&w, 0, 300, 'c');
      {
        Thread killer("test.killer", [&] { w.cluster.Kill(owner); });
        SleepFor(kMillisecond);
        killed.Notify();
      }
      DisarmFailPoints();
      ASSERT_TRUE(w.WaitForOtherOwner(owner)) << step;
      ExpectAll(&w, 300, met && edits ? 'c' : 'b');
      EXPECT_TRUE(WaitForMembers(&w, 3)) << step;
    });
  }
}

// Edits that come while the new file is written are in it.
TEST_F(RenewalTest, M1EditsThatComeMeanwhileAreInTheNewFile) {
  Simulate(20, [] {
    OneRange w(Small(3));
    ASSERT_NO_FATAL_FAILURE(MakeShort(&w));
    Notification written, go_on;
    ASSERT_TRUE(ArmFailPoint("ltc.renewal_written", 1, [&] {
                  written.Notify();
                  go_on.Wait();
                  return OkStatus();
                }).ok());
    ASSERT_TRUE(written.WaitUntil(Now() + 40 * kSecond));
    const Uuid before = w.Record().manifest.file;
    Put(&w, 0, 300, 'c');
    EXPECT_EQ(w.Record().manifest.file, before) << "the edits rolled the file: nothing is shown";
    go_on.Notify();
    ASSERT_TRUE(WaitForMembers(&w, 3));
    EXPECT_NE(w.Record().manifest.file, before);
    ExpectAllAtTheNextOwner(&w, 300, 'c');
  });
}

// The store is asked to install the new file, and its answers, or the requests, are lost for a while.
TEST_F(RenewalTest, M1WhileTheStoreIsInDoubtNothingIsLostAndTheRangeGoesOn) {
  for (const bool requests : {false, true}) {
    Simulate(requests ? 31 : 30, [requests] {
      OneRange w(Small(3));
      ASSERT_NO_FATAL_FAILURE(MakeShort(&w));
      const std::string owner = w.Record().owner;
      Notification asked;
      ASSERT_TRUE(ArmFailPoint("ltc.renewal_caught_up", 1, [&] {
                    if (requests) w.cluster.LoseConfigRequests(owner, 3);
                    if (!requests) w.cluster.LoseConfigReplies(owner, 3);
                    asked.Notify();
                    return OkStatus();
                  }).ok());
      ASSERT_TRUE(asked.WaitUntil(Now() + 40 * kSecond));
      ASSERT_NO_FATAL_FAILURE(Put(&w, 0, 300, 'c'));  // flushes, hence edits
      EXPECT_TRUE(WaitForMembers(&w, 3));
      EXPECT_EQ(w.Record().owner, owner) << "the range was lost";
      ASSERT_NO_FATAL_FAILURE(Put(&w, 0, 300, 'd'));
      ExpectAllAtTheNextOwner(&w, 300, 'd');
      DisarmFailPoints();  // forgets the hits
    });
  }
}

// No renewal begins while the control plane does not answer; edits go on in the old file.
TEST_F(RenewalTest, M1NoRenewalBeginsWhileNobodyAnswers) {
  Simulate(40, [] {
    OneRange w(Small(3));
    ASSERT_NO_FATAL_FAILURE(MakeShort(&w));
    w.cluster.Kill("coordinator-0");
    SleepFor(3 * kSecond);  // the lease is over
    std::atomic<int> begun{0};
    ASSERT_TRUE(ArmFailPoint("ltc.renewal_cut", 0, [&] {
                  ++begun;
                  return OkStatus();
                }).ok());
    const Uuid before = w.Record().manifest.file;
    Put(&w, 0, 300, 'c');
    SleepFor(15 * kSecond);
    EXPECT_EQ(begun.load(), 0);
    EXPECT_EQ(w.Record().manifest.file, before);
    ASSERT_TRUE(w.cluster.Start("coordinator-0").ok());
    EXPECT_TRUE(WaitForMembers(&w, 3, 90 * kSecond));
    ExpectAll(&w, 300, 'c');
  });
}

}  // namespace
}  // namespace nova
