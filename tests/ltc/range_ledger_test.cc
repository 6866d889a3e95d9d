// The ledger of an LTC's ranges, driven by random events: what its header says of each moment.
#include "ltc/server/range_ledger.h"

#include <gtest/gtest.h>

#include "common/base/random.h"
#include "common/base/status.h"

namespace nova {
namespace {

struct FakeRange {
  FakeRange(RangeId r, Epoch e) : range(r), at(e) {}
  RangeId id() const { return range; }
  Epoch epoch() const { return at; }
  void Abandon() { is_abandoned = true; }
  bool abandoned() const { return is_abandoned; }
  const RangeId range;
  const Epoch at;
  bool is_abandoned = false;
};
using Ref = std::shared_ptr<FakeRange>;
using Ledger = RangeLedger<FakeRange>;

constexpr RangeId kRange(1);

Ref Opened(Ledger* ledger, RangeId id, Epoch epoch) {
  EXPECT_TRUE(ledger->Assigned(id, epoch));
  const auto handle = std::make_shared<FakeRange>(id, epoch);
  EXPECT_TRUE(ledger->BeginToOpen(handle));
  EXPECT_TRUE(ledger->Opened(handle, true));
  return handle;
}

TEST(RangeLedgerTest, AnAssignmentThatComesAgainOpensOnce) {
  size_t changes = 0;
  Ledger ledger([&](const Ledger::Held&) { ++changes; });
  EXPECT_TRUE(ledger.Assigned(kRange, Epoch(2)));
  EXPECT_FALSE(ledger.Assigned(kRange, Epoch(2))) << "it waits for a thread";
  const auto first = std::make_shared<FakeRange>(kRange, Epoch(2));
  EXPECT_TRUE(ledger.BeginToOpen(first));
  EXPECT_FALSE(ledger.Assigned(kRange, Epoch(2))) << "it is opening";
  EXPECT_EQ(ledger.Find(kRange), nullptr);
  EXPECT_TRUE(ledger.Opened(first, true));
  EXPECT_EQ(ledger.Find(kRange), first);
  EXPECT_FALSE(ledger.Assigned(kRange, Epoch(2))) << "it is open";
  EXPECT_EQ(changes, 1u);
}

TEST(RangeLedgerTest, AnOpeningThatNobodyCouldQueueIsAssignedAgain) {
  Ledger ledger([](const Ledger::Held&) {});
  EXPECT_TRUE(ledger.Assigned(kRange, Epoch(2)));
  ledger.NotBegun(kRange, Epoch(1));
  EXPECT_FALSE(ledger.Assigned(kRange, Epoch(2))) << "that was another";
  ledger.NotBegun(kRange, Epoch(2));
  EXPECT_TRUE(ledger.Assigned(kRange, Epoch(2)));
  const auto handle = std::make_shared<FakeRange>(kRange, Epoch(2));
  EXPECT_TRUE(ledger.BeginToOpen(handle));
  ledger.NotBegun(kRange, Epoch(2));
  EXPECT_FALSE(ledger.Assigned(kRange, Epoch(2))) << "it has begun";
  EXPECT_TRUE(ledger.Opened(handle, true));
}

TEST(RangeLedgerTest, ALaterEpochTakesThePlaceOfAnOpeningAndOfWhatIsHeld) {
  Ledger ledger([](const Ledger::Held&) {});
  EXPECT_TRUE(ledger.Assigned(kRange, Epoch(2)));
  const auto second = std::make_shared<FakeRange>(kRange, Epoch(2));
  EXPECT_TRUE(ledger.BeginToOpen(second));
  EXPECT_TRUE(ledger.Assigned(kRange, Epoch(4)));
  EXPECT_TRUE(second->abandoned());
  EXPECT_FALSE(ledger.BeginToOpen(std::make_shared<FakeRange>(kRange, Epoch(3)))) << "nobody asked for it";
  const auto fourth = std::make_shared<FakeRange>(kRange, Epoch(4));
  EXPECT_TRUE(ledger.BeginToOpen(fourth));
  EXPECT_FALSE(ledger.Opened(second, true)) << "it came too late";
  EXPECT_TRUE(ledger.Opened(fourth, true));
  EXPECT_TRUE(ledger.BeginToGiveBack().empty()) << "the record names the later one";
  EXPECT_TRUE(ledger.Assigned(kRange, Epoch(6)));
  EXPECT_FALSE(fourth->abandoned()) << "it serves until an open thread begins";
  ledger.Drop(kRange, Epoch(5));
  EXPECT_TRUE(fourth->abandoned());
  EXPECT_EQ(ledger.Find(kRange), nullptr);
}

TEST(RangeLedgerTest, C3WhatIsExcludedIsAbandonedAtOnceAndNotOpenedAgain) {
  Ledger ledger([](const Ledger::Held&) {});
  const Ref held = Opened(&ledger, kRange, Epoch(3));
  EXPECT_FALSE(ledger.Excluded(kRange, Epoch(2))) << "an epoch of long ago";
  EXPECT_FALSE(held->abandoned());
  EXPECT_TRUE(ledger.Excluded(kRange, Epoch(3)));
  EXPECT_TRUE(held->abandoned());
  EXPECT_FALSE(ledger.Assigned(kRange, Epoch(3)));
  ledger.Drop(kRange, Epoch(3));
  ASSERT_EQ(ledger.BeginToGiveBack(), std::vector<Ref>{held});
  EXPECT_FALSE(ledger.Assigned(kRange, Epoch(4))) << "it is being given back";
  ledger.GaveBack(held, false);
  EXPECT_TRUE(ledger.Assigned(kRange, Epoch(4)));
  EXPECT_TRUE(ledger.BeginToGiveBack().empty()) << "it was assigned again";
}

// Assignments, exclusions, drops, openings that end well, badly and out of order, handles that are lost by
// themselves, and give-backs that fail.
TEST(RangeLedgerTest, WhateverComesInWhicheverOrder) {
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    SCOPED_TRACE(StrCat("seed ", seed));
    Random random(seed);
    Ledger::Held told;
    Ledger ledger([&](const Ledger::Held& held) { told = held; });
    std::map<RangeId, Epoch> newest, excluded;
    std::vector<std::pair<RangeId, Epoch>> assigned;  // and not begun with
    std::vector<std::pair<RangeId, Epoch>> ever_assigned;
    std::vector<Ref> opening, giving_back, begun;  // begun: all that ever began
    std::set<Ref> given_back;
    const auto take = [&](auto* from) {
      const size_t i = random.Uniform(from->size());
      auto one = std::move((*from)[i]);
      from->erase(from->begin() + static_cast<ptrdiff_t>(i));
      return one;
    };
    const auto step = [&] {
      const RangeId id(1 + random.Uniform(3));
      switch (random.Uniform(9)) {
        case 0:
        case 1: {
          Epoch epoch(newest[id].value() + random.Uniform(3));
          if (epoch == Epoch(0)) epoch = Epoch(1);
          const bool is_given_back = std::any_of(giving_back.begin(), giving_back.end(),
                                                 [&](const Ref& h) { return h->range == id; });
          if (ledger.Assigned(id, epoch)) {
            EXPECT_GT(epoch, excluded[id]);
            EXPECT_FALSE(is_given_back);
            assigned.emplace_back(id, epoch);
            ever_assigned.emplace_back(id, epoch);
          }
          newest[id] = std::max(newest[id], epoch);
          break;
        }
        case 2: {
          if (assigned.empty()) break;
          const auto [range, epoch] = take(&assigned);
          ledger.Drop(range, Epoch(epoch.value() - 1));
          const auto handle = std::make_shared<FakeRange>(range, epoch);
          if (!ledger.BeginToOpen(handle)) break;
          EXPECT_GT(epoch, excluded[range]);
          opening.push_back(handle);
          begun.push_back(handle);
          break;
        }
        case 3:
        case 4: {
          if (opening.empty()) break;
          const Ref handle = take(&opening);
          const bool was_abandoned = handle->abandoned(), ok = !random.OneIn(4);
          EXPECT_EQ(ledger.Opened(handle, ok), ok && !was_abandoned);
          break;
        }
        case 5: {
          const Epoch epoch(random.Uniform(newest[id].value() + 2));
          excluded[id] = std::max(excluded[id], epoch);
          if (ledger.Excluded(id, epoch) && !random.OneIn(3)) ledger.Drop(id, epoch);
          break;
        }
        case 6:
          if (const Ref held = ledger.Find(id)) {  // its log was fenced
            held->Abandon();
            ledger.Drop(id, held->epoch());
          }
          break;
        case 7:
          for (Ref& handle : ledger.BeginToGiveBack()) {
            EXPECT_TRUE(handle->abandoned());
            giving_back.push_back(std::move(handle));
          }
          break;
        case 8: {
          if (giving_back.empty()) break;
          const Ref handle = take(&giving_back);
          const bool done = !random.OneIn(3);
          ledger.GaveBack(handle, done);
          if (done) given_back.insert(handle);
          break;
        }
      }
    };
    for (int i = 0; i < 300; ++i) {
      step();
      std::set<Ref> held;
      for (const Ref& handle : ledger.held()) {
        held.insert(handle);
        EXPECT_EQ(told[handle->range], handle) << "what serves is not what is held";
        EXPECT_TRUE(handle->abandoned() || handle->epoch() > excluded[handle->range]) << "a lease (C3)";
      }
      EXPECT_EQ(told.size(), held.size());
      for (const Ref& handle : begun) {
        const bool is_opening = std::find(opening.begin(), opening.end(), handle) != opening.end();
        EXPECT_TRUE(handle->abandoned() || is_opening || held.contains(handle)) << "a handle got lost";
      }
      if (testing::Test::HasFailure()) return;
    }
    // Nothing comes any more: every handle that was abandoned is given back, or was assigned again later.
    while (!opening.empty()) ledger.Opened(take(&opening), false);
    for (const auto& [id, epoch] : newest) {
      ledger.Excluded(id, epoch);
      ledger.Drop(id, epoch);
    }
    while (!giving_back.empty()) {
      const Ref handle = take(&giving_back);
      ledger.GaveBack(handle, true);
      given_back.insert(handle);
    }
    for (const Ref& handle : ledger.BeginToGiveBack()) given_back.insert(handle);
    EXPECT_TRUE(ledger.held().empty());
    for (const Ref& handle : begun) {
      const auto tries = std::count_if(ever_assigned.begin(), ever_assigned.end(), [&](const auto& a) {
        return a.first == handle->range && a.second >= handle->epoch();
      });
      EXPECT_TRUE(given_back.contains(handle) || tries > 1)
          << "range " << handle->range.value() << " at " << handle->epoch().value();
    }
    if (testing::Test::HasFailure()) return;
  }
}

}  // namespace
}  // namespace nova
