#include "stoc/known_stocs.h"

#include <gtest/gtest.h>

#include "tests/stoc/stoc_rig.h"

namespace nova {
namespace {

NodeInfo Stoc(uint32_t id, uint64_t incarnation, const std::string& address) {
  NodeInfo info;
  info.name = StrCat("stoc-", id);
  info.role = Role::kStoc;
  info.stoc_id = StocId(id);
  info.incarnation = Incarnation(incarnation);
  info.address = address;
  return info;
}

TEST(KnownStocsTest, OfAStocThatIsGoneTheLastAddressIsKept) {
  KnownStocs stocs({});
  stocs.Update({Stoc(1, 10, "a"), Stoc(2, 20, "b")});
  stocs.Update({Stoc(2, 20, "b")});
  EXPECT_EQ(stocs.live().size(), 1u);
  EXPECT_FALSE(stocs.IsLive(StocId(1)));
  EXPECT_EQ(stocs.Find(StocId(1))->address, "a");
  EXPECT_EQ(stocs.NameOf(StocId(1)), "stoc 1 (stoc-1)");
  EXPECT_EQ(stocs.NameOf(StocId(3)), "stoc 3");
  EXPECT_EQ(stocs.Find(StocId(3)), std::nullopt);
}

TEST(KnownStocsTest, N1AnEarlierIncarnationReplacesNoLaterOne) {
  KnownStocs stocs({});
  stocs.Update({Stoc(1, 11, "new")});
  stocs.Update({Stoc(1, 10, "old")});
  EXPECT_EQ(stocs.Find(StocId(1))->address, "new");
}

// What is away comes last, then the worse disk, then the longer queue.
TEST(KnownStocsTest, CopiesAreReadFromTheBestDisks) {
  KnownStocs stocs({});
  NodeInfo failing = Stoc(2, 20, "b"), slow = Stoc(3, 30, "c");
  failing.disk = DiskState::kFailing;
  slow.disk = DiskState::kSlow;
  stocs.Update({Stoc(1, 10, "a")});
  stocs.Update({failing, slow, Stoc(4, 40, "d")});
  EXPECT_LT(stocs.RankOf(StocId(4)), stocs.RankOf(StocId(3)));
  EXPECT_LT(stocs.RankOf(StocId(3)), stocs.RankOf(StocId(2)));
  EXPECT_LT(stocs.RankOf(StocId(2)), stocs.RankOf(StocId(1))) << "it is away";
  EXPECT_TRUE(stocs.RankOf(StocId(1)).away && stocs.RankOf(StocId(9)).away);
  stocs.Update({Stoc(2, 20, "b")});
  EXPECT_EQ(stocs.RankOf(StocId(2)).disk, DiskState::kOk) << "in the same process, too";
}

TEST(KnownStocsTest, WhatIsUnreachableIsReadLastUntilItIsNewlyLive) {
  InFabricWorld(FabricKind::kSim, [](FabricWorld* world) {
    TestClient client(world, "ltc-1", 10);
    Xchg* const xchg = client.xchgs[0].get();
    KnownStocs stocs({xchg});
    NodeInfo failing = Stoc(2, 20, "b:1");
    failing.disk = DiskState::kFailing;
    const NodeInfo other = Stoc(1, 10, "a:1"), again = Stoc(1, 11, "a:1");
    KnownStocs::Signs* signs = nullptr;
    const auto lose = [&](uint64_t start) {
      client.On(0, [&] { signs = stocs.FindTarget(xchg, StocId(1))->signs; });
      return KnownStocs::NoteUnreachable(signs, Incarnation(start));
    };
    const auto is_last = [&] { return stocs.RankOf(StocId(2)) < stocs.RankOf(StocId(1)); };
    stocs.Update({other, failing});
    EXPECT_FALSE(is_last());
    EXPECT_TRUE(lose(10));
    EXPECT_FALSE(lose(10)) << "not the first";
    EXPECT_TRUE(is_last());
    stocs.Update({other, failing});
    EXPECT_TRUE(is_last()) << "the coordinator has not heard of it yet";
    stocs.Update({again, failing});
    EXPECT_FALSE(is_last()) << "it has started anew";
    lose(10);
    EXPECT_FALSE(is_last()) << "a call to the start before has ended late";
    lose(11);
    KnownStocs::NoteReply(signs, Incarnation(10), 0);
    EXPECT_TRUE(is_last()) << "so has one that was answered";
    KnownStocs::NoteReply(signs, Incarnation(11), 0);
    EXPECT_FALSE(is_last()) << "it has answered";
    lose(10);
    KnownStocs::NoteReply(signs, Incarnation(11), 0);
    EXPECT_EQ(signs->unreachable_start.load(), 0u) << "nobody has to ask for the start before";
    lose(11);
    EXPECT_TRUE(is_last());
    stocs.Update({failing});
    stocs.Update({again, failing});
    EXPECT_FALSE(is_last()) << "it was away, and is back";
  });
}

TEST(KnownStocsTest, N1APeerIsOfOneIncarnationAndFollowsUpdates) {
  InFabricWorld(FabricKind::kSim, [](FabricWorld* world) {
    TestClient client(world, "ltc-1", 10);
    Xchg* const xchg = client.xchgs[0].get();
    KnownStocs stocs({xchg});
    client.On(0, [&] { EXPECT_EQ(stocs.FindTarget(xchg, StocId(1)), nullptr); });
    stocs.Update({Stoc(1, 10, "stoc-1:1"), Stoc(2, 20, "")});
    client.On(0, [&] {
      EXPECT_NE(stocs.FindPeer(xchg, StocId(1), Incarnation(10)), nullptr);
      EXPECT_EQ(stocs.FindPeer(xchg, StocId(1), Incarnation(11)), nullptr);
      EXPECT_EQ(stocs.FindTarget(xchg, StocId(2)), nullptr) << "its address is not known";
    });
    stocs.Update({Stoc(1, 11, "stoc-1:1")});
    client.On(0, [&] {
      EXPECT_EQ(stocs.FindPeer(xchg, StocId(1), Incarnation(10)), nullptr);
      EXPECT_NE(stocs.FindPeer(xchg, StocId(1), Incarnation(11)), nullptr);
    });
  });
}

}  // namespace
}  // namespace nova
