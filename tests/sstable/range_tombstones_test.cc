// The list of range tombstones against a loop over them; and what a version filter drops because of them.
#include "common/sstable/range_tombstones.h"

#include <gtest/gtest.h>

#include "common/base/clock.h"
#include "common/base/random.h"
#include "common/sstable/compaction_job.h"

namespace nova {
namespace {

RangeTombstoneRef Tombstone(std::string begin, std::string end, SequenceNumber sequence) {
  return std::make_shared<const RangeTombstone>(RangeTombstone{std::move(begin), std::move(end), sequence});
}

// Keys of one or two letters, so that ends meet.
std::string SomeKey(Random* random) {
  std::string key(1, static_cast<char>('a' + random->Uniform(8)));
  if (random->OneIn(2)) key.push_back(static_cast<char>('a' + random->Uniform(8)));
  return key;
}

struct List {
  explicit List(Random* random) {
    for (uint64_t n = 1 + random->Uniform(20); n > 0; --n) {
      std::string a = SomeKey(random), b = SomeKey(random);
      if (a == b) b += 'x';
      all.push_back(Tombstone(std::min(a, b), std::max(a, b), last += 1 + random->Uniform(5)));
    }
    tombstones = RangeTombstones::Of(all);
  }
  SequenceNumber Covering(std::string_view key, SequenceNumber at) const {
    SequenceNumber newest = 0;
    for (const auto& t : all) {
      if (t->begin <= key && key < t->end && t->sequence <= at) newest = std::max(newest, t->sequence);
    }
    return newest;
  }
  std::vector<RangeTombstoneRef> all;
  RangeTombstonesRef tombstones;
  SequenceNumber last = 0;
};

// All keys of up to two letters and one beside each.
std::vector<std::string> AllKeys() {
  std::vector<std::string> keys;
  for (char a = 'a'; a <= 'i'; ++a) {
    keys.emplace_back(1, a);
    keys.push_back({a, 'x'});
    for (char b = 'a'; b <= 'i'; ++b) {
      keys.push_back({a, b});
      keys.push_back({a, b, 'x'});
    }
  }
  return keys;
}

TEST(RangeTombstonesTest, NoneIsNull) { EXPECT_EQ(RangeTombstones::Of({}), nullptr); }

TEST(RangeTombstonesTest, CoversWhatALoopOverThemCovers) {
  const auto keys = AllKeys();
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    Random random(seed);
    const List list(&random);
    for (const std::string& key : keys) {
      const SequenceNumber at = random.OneIn(2) ? kMaxSequenceNumber : random.Uniform(list.last + 2);
      ASSERT_EQ(list.tombstones->Covering(key, at), list.Covering(key, at))
          << "seed " << seed << " key " << key << " at " << at;
    }
    const SequenceNumber upto = random.Uniform(list.last + 2);
    const auto some = RangeTombstones::UpTo(list.tombstones, upto);
    for (const std::string& key : keys)
      ASSERT_EQ(some == nullptr ? 0 : some->Covering(key, kMaxSequenceNumber), list.Covering(key, upto));
  }
}

TEST(RangeTombstonesTest, OverlappingAndCoversAllAreOfEveryKeyBetween) {
  const auto keys = AllKeys();
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    Random random(seed);
    const List list(&random);
    for (int i = 0; i < 50; ++i) {
      std::string smallest = SomeKey(&random), largest = SomeKey(&random);
      if (largest < smallest) std::swap(smallest, largest);
      const SequenceNumber at = random.Uniform(list.last + 2), above = random.Uniform(list.last + 1);
      SequenceNumber newest = 0;
      bool all = true;
      for (const std::string& key : keys) {
        if (key < smallest || key > largest) continue;
        newest = std::max(newest, list.Covering(key, at));
        all &= list.Covering(key, at) > above;
      }
      ASSERT_EQ(list.tombstones->Overlapping({smallest, largest}, at), newest)
          << "seed " << seed << " " << smallest << " " << largest;
      ASSERT_EQ(list.tombstones->CoversAll({smallest, largest}, above, at), all)
          << "seed " << seed << " " << smallest << " " << largest;
    }
  }
}

// Without the needless ones every reader, of now or at a snapshot, finds an equally good one.
TEST(RangeTombstonesTest, NobodyMissesTheNeedlessOnesAndEachOtherIsMissed) {
  const auto keys = AllKeys();
  size_t needless_in_all = 0;
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    Random random(seed);
    const List list(&random);
    std::vector<SequenceNumber> snapshots;
    for (uint64_t n = random.Uniform(3); n > 0; --n) snapshots.push_back(random.Uniform(list.last + 1));
    std::sort(snapshots.begin(), snapshots.end());
    const auto needless = list.tombstones->Needless(snapshots);
    needless_in_all += needless.size();
    std::vector<SequenceNumber> readers = snapshots;
    readers.push_back(kMaxSequenceNumber);
    const auto without = [&](const std::vector<SequenceNumber>& numbers) {
      std::vector<RangeTombstoneRef> rest = list.all;
      std::erase_if(rest, [&](const auto& t) {
        return std::find(numbers.begin(), numbers.end(), t->sequence) != numbers.end();
      });
      return RangeTombstones::Of(rest);
    };
    // A reader at `at` with another list: all it has to know of a version is on which side of the newest
    // tombstone it lies, and versions between the newest of both lists are seen by no other reader.
    const auto same_for_all = [&](const RangeTombstonesRef& other) {
      for (const SequenceNumber at : readers) {
        for (const std::string& key : keys) {
          if (list.Covering(key, at) != (other == nullptr ? 0 : other->Covering(key, at))) return false;
        }
      }
      return true;
    };
    ASSERT_TRUE(same_for_all(without(needless))) << "seed " << seed;
    for (const auto& t : list.all) {
      if (std::find(needless.begin(), needless.end(), t->sequence) == needless.end()) {
        ASSERT_FALSE(same_for_all(without({t->sequence}))) << "seed " << seed << ", number " << t->sequence;
      }
    }
  }
  EXPECT_GT(needless_in_all, 300u);
}

TEST(RangeTombstonesTest, AVersionFilterDropsWhatNoReaderSees) {  // K7
  const auto tombstones = RangeTombstones::Of({Tombstone("a", "m", 10), Tombstone("c", "d", 20)});
  const auto kept = [&](std::vector<SequenceNumber> snapshots, std::string_view key,
                        SequenceNumber sequence) {
    return VersionFilter(std::move(snapshots), 100, false, 0, tombstones)
        .Keep({key, sequence, ValueType::kPut}, "value");
  };
  EXPECT_FALSE(kept({}, "b", 9));
  EXPECT_TRUE(kept({}, "b", 11));
  EXPECT_TRUE(kept({}, "m", 9));
  EXPECT_FALSE(kept({}, "c", 11));
  EXPECT_TRUE(kept({9}, "b", 9));  // the snapshot sees it
  EXPECT_TRUE(kept({9}, "b", 8));
  EXPECT_FALSE(kept({10}, "b", 9));  // the snapshot sees the tombstone
  EXPECT_FALSE(kept({8}, "b", 9));
  EXPECT_TRUE(kept({15}, "c", 11));
}

TEST(RangeTombstonesTest, ATableMayHoldHiddenUntilItIsWrittenUnderTheTombstone) {
  const auto tombstones = RangeTombstones::Of({Tombstone("b", "d", 10)});
  TableInfo info;
  AppendInternalKey(&info.smallest, "c", 5, ValueType::kPut);
  AppendInternalKey(&info.largest, "x", 7, ValueType::kPut);
  info.min_sequence = 5;
  info.max_sequence = 12;
  EXPECT_TRUE(MayHoldHidden(info, *tombstones, 10));
  EXPECT_FALSE(MayHoldHidden(info, *tombstones, 9));
  info.min_sequence = 11;
  EXPECT_FALSE(MayHoldHidden(info, *tombstones, 10));
  info.min_sequence = 5;
  SetTombstonesApplied(9, &info);
  EXPECT_TRUE(MayHoldHidden(info, *tombstones, 10));
  SetTombstonesApplied(10, &info);
  EXPECT_EQ(TombstonesApplied(info), 10u);
  EXPECT_FALSE(MayHoldHidden(info, *tombstones, 10));
}

// Tombstones that lie in one another, with a snapshot between each two: the dearest there are.
Nanos BusyWithNested(size_t n) {
  std::vector<RangeTombstoneRef> all;
  std::vector<SequenceNumber> snapshots;
  for (size_t i = 0; i < n; ++i) {
    all.push_back(std::make_shared<const RangeTombstone>(
        RangeTombstone{StrCat("a", 100'000 + i), StrCat("b", 900'000 - i), 2 * i + 1}));
    snapshots.push_back(2 * i + 2);
  }
  const Nanos begin = ThreadBusy();
  const RangeTombstonesRef list = RangeTombstones::Of(all);
  EXPECT_TRUE(list->Needless(snapshots).empty());
  for (size_t i = 0; i < n; ++i)
    EXPECT_EQ(list->Covering(StrCat("a", 100'000 + i), 2 * (n - 1) + 1), 2 * i + 1);
  return ThreadBusy() - begin;
}

TEST(RangeTombstonesTest, NestedOnesCostLittleMoreThanAsManyOthers) {
  constexpr Nanos kLeast = 4 * kMillisecond;  // of what a thread's time is told in
  BusyWithNested(500);                        // warm
  const Nanos few = std::max(BusyWithNested(500), kLeast), many = BusyWithNested(8'000);
  EXPECT_LT(many, 16 * 4 * few) << few / kMicrosecond << " us for few, " << many / kMicrosecond
                                << " for sixteen times as many";
}

}  // namespace
}  // namespace nova
