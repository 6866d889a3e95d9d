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

}  // namespace
}  // namespace nova
