// What the history of clients allows, and what it does not (protocol.md A1, H6).
#include "tests/cluster_sim/history.h"

#include <gtest/gtest.h>

namespace nova {
namespace {

struct Register {
  uint64_t Write(Effect effect, bool remove = false) {
    const uint64_t version = history.Begin("k", remove);
    history.End("k", version, effect);
    return version;
  }
  uint64_t Delete(Effect effect) { return Write(effect, /*remove=*/true); }
  // True if the history allows a read to find that version, or nothing (0).
  bool Finds(uint64_t version) { return Finds(version, history.Settled("k")); }
  bool Finds(uint64_t version, const History::Place& before) {
    const auto value = version > 0 ? std::optional(History::ValueOf("k", version, 100)) : std::nullopt;
    return history.Check("k", before, value).empty();
  }
  History history;
};

TEST(HistoryTest, AnAcknowledgedWriteStays) {
  Register r;
  EXPECT_TRUE(r.Finds(0));
  EXPECT_EQ(r.Write(Effect::kApplied), 1u);
  EXPECT_EQ(r.Write(Effect::kApplied), 2u);
  EXPECT_FALSE(r.Finds(0));
  EXPECT_FALSE(r.Finds(1));
  EXPECT_TRUE(r.Finds(2));
  EXPECT_EQ(r.Delete(Effect::kApplied), 3u);
  EXPECT_FALSE(r.Finds(2));
  EXPECT_TRUE(r.Finds(0));
}

TEST(HistoryTest, ARefusedWriteIsNeverSeen) {
  Register r;
  r.Write(Effect::kApplied);
  EXPECT_EQ(r.Write(Effect::kNotApplied), 2u);
  r.Delete(Effect::kNotApplied);
  EXPECT_FALSE(r.Finds(2));
  EXPECT_FALSE(r.Finds(0));
  EXPECT_TRUE(r.Finds(1));
}

TEST(HistoryTest, H6AnUnknownWriteOnceReadStays) {
  Register r;
  r.Write(Effect::kApplied);
  EXPECT_EQ(r.Write(Effect::kUnknown), 2u);
  EXPECT_TRUE(r.Finds(1));
  EXPECT_TRUE(r.Finds(2));
  EXPECT_FALSE(r.Finds(1));
}

TEST(HistoryTest, A1AnUnknownWriteMayComeAfterALaterAcknowledgedOneOnce) {
  Register r;
  EXPECT_EQ(r.Write(Effect::kUnknown), 1u);
  EXPECT_EQ(r.Write(Effect::kApplied), 2u);
  EXPECT_TRUE(r.Finds(2));
  EXPECT_TRUE(r.Finds(1));
  EXPECT_FALSE(r.Finds(2)) << "it was replaced";
  EXPECT_TRUE(r.Finds(1));
  EXPECT_EQ(r.Write(Effect::kApplied), 3u);
  EXPECT_FALSE(r.Finds(1)) << "it came already";
  EXPECT_TRUE(r.Finds(3));
}

TEST(HistoryTest, A1AnUnknownWriteThatWasReadDoesNotComeAgain) {
  Register r;
  EXPECT_EQ(r.Write(Effect::kUnknown), 1u);
  EXPECT_TRUE(r.Finds(1));
  EXPECT_EQ(r.Write(Effect::kApplied), 2u);
  EXPECT_FALSE(r.Finds(1));
}

// A read that began before the later one was acknowledged does not say which of them came first.
TEST(HistoryTest, A1AnUnknownWriteThatWasReadBesideALaterOneMayHaveComeAfterIt) {
  Register r;
  EXPECT_EQ(r.Write(Effect::kUnknown), 1u);
  const History::Place before = r.history.Settled("k");
  EXPECT_EQ(r.Write(Effect::kApplied), 2u);
  EXPECT_TRUE(r.Finds(1, before));
  EXPECT_TRUE(r.Finds(1)) << "it came late";
  EXPECT_FALSE(r.Finds(2)) << "it was replaced";
}

TEST(HistoryTest, A1AnUnknownDeleteMayComeLateOnce) {
  Register r;
  r.Write(Effect::kApplied);
  r.Delete(Effect::kUnknown);
  EXPECT_EQ(r.Write(Effect::kApplied), 3u);
  EXPECT_TRUE(r.Finds(0));
  EXPECT_FALSE(r.Finds(3));
  EXPECT_EQ(r.Write(Effect::kApplied), 4u);
  EXPECT_FALSE(r.Finds(0));
}

// A read that began before another one found the late write may still find what that replaced.
TEST(HistoryTest, AReadUnderWayMayFindWhatALateWriteReplaces) {
  Register r;
  EXPECT_EQ(r.Write(Effect::kUnknown), 1u);
  EXPECT_EQ(r.Write(Effect::kApplied), 2u);
  const History::Place before = r.history.Settled("k");
  EXPECT_TRUE(r.Finds(1, before));
  EXPECT_TRUE(r.Finds(2, before));
  EXPECT_TRUE(r.Finds(1));
  EXPECT_FALSE(r.Finds(2));
}

// --- several writers

struct Shared {
  // [begin, end] each.
  void Write(const std::string& value, Nanos begin, Nanos end, Effect effect = Effect::kApplied) {
    shared.EndWrite(shared.BeginWrite(value, begin), effect, end);
  }
  void Read(const std::string& value, Nanos begin, Nanos end) {
    shared.Read(value.empty() ? std::nullopt : std::optional(value), begin, end);
  }
  bool Holds() const { return shared.CheckAll().empty(); }
  SharedRegister shared;
};

TEST(SharedRegisterTest, OrdersThatExistHold) {
  Shared r;
  r.Read("", 0, 1);
  r.Write("a", 2, 10);
  r.Write("b", 3, 9);
  r.Read("a", 4, 5);
  r.Read("b", 6, 7);
  r.Read("b", 20, 21);
  EXPECT_TRUE(r.Holds()) << r.shared.CheckAll();
}

TEST(SharedRegisterTest, AReadOfWhatWasOverwrittenBeforeItBeganDoesNot) {
  Shared r;
  r.Write("a", 0, 1);
  r.Write("b", 2, 3);
  r.Read("a", 4, 5);
  EXPECT_FALSE(r.Holds());
}

TEST(SharedRegisterTest, NorDoesWhatGoesBack) {
  Shared r;
  r.Write("a", 0, 10);
  r.Write("b", 0, 10);
  r.Read("a", 1, 2);
  r.Read("b", 3, 4);
  r.Read("a", 5, 6);
  EXPECT_FALSE(r.Holds());
}

TEST(SharedRegisterTest, NorDoesAnAcknowledgedWriteThatIsGone) {
  Shared r;
  r.Write("a", 0, 1);
  r.Read("", 2, 3);
  EXPECT_FALSE(r.Holds());
}

TEST(SharedRegisterTest, NorDoesWhatWasRefusedOrNeverWritten) {
  Shared refused;
  refused.Write("a", 0, 1, Effect::kNotApplied);
  refused.Read("a", 2, 3);
  EXPECT_FALSE(refused.Holds());
  Shared nobodys;
  nobodys.Read("x", 2, 3);
  EXPECT_FALSE(nobodys.Holds());
}

TEST(SharedRegisterTest, AnUnknownWriteMayComeLateOrNever) {
  Shared never;
  never.Write("a", 0, 1, Effect::kUnknown);
  never.Read("", 2, 3);
  EXPECT_TRUE(never.Holds());
  Shared late;
  late.Write("a", 0, 1, Effect::kUnknown);
  late.Write("b", 2, 3);
  late.Read("b", 4, 5);
  late.Read("a", 6, 7);
  EXPECT_TRUE(late.Holds());
  late.Read("b", 8, 9);
  EXPECT_FALSE(late.Holds());
}

}  // namespace
}  // namespace nova
