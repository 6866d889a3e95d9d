#include "ltc/engine/lookup_index.h"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <memory>
#include <vector>

#include "common/base/mutex.h"
#include "common/base/random.h"
#include "common/base/thread.h"

namespace nova {
namespace {

constexpr size_t kBytes = ArenaPool::kChunkBytes;

// Rounds of a thousand numbers: round r has [1000 r, 1000 r + 999].
constexpr SequenceNumber kRound = 1000;
SequenceNumber EndOf(uint64_t round) { return (round + 1) * kRound - 1; }

class LookupIndexTest : public testing::Test {
 protected:
  // Opens rounds up to this one.
  void OpenUpTo(uint64_t round) {
    for (; opened_ < round; ++opened_) ASSERT_EQ(index_.OpenRound((opened_ + 1) * kRound), opened_ + 1);
  }
  // Keys with one bucket, and a fingerprint each.
  static uint64_t InOneBucket(uint64_t key) { return key << 32 | 5; }

  ArenaPool pool_{0};
  LookupIndex index_{kBytes, &pool_};
  uint64_t opened_ = 0;
};

TEST_F(LookupIndexTest, AKeysBoundIsTheEndOfTheRoundItWasWrittenInLast) {
  const uint64_t key = 77, never = uint64_t{99} << 32 | 78;
  OpenUpTo(1);
  EXPECT_EQ(index_.UpperBound(key), EndOf(0)) << "runs from before the opening may have it";
  index_.Insert(key, 1);
  EXPECT_EQ(index_.UpperBound(key), kMaxSequenceNumber) << "the round is open";
  OpenUpTo(3);
  EXPECT_EQ(index_.UpperBound(key), EndOf(1));
  index_.Insert(key, 3);
  EXPECT_EQ(index_.UpperBound(key), kMaxSequenceNumber);
  OpenUpTo(9);
  EXPECT_EQ(index_.UpperBound(key), EndOf(3));
  EXPECT_EQ(index_.UpperBound(never), EndOf(0));
}

TEST_F(LookupIndexTest, K5AWriterOfAnOlderRoundDoesNotTakeAKeyBack) {
  OpenUpTo(9);
  index_.Insert(77, 5);
  index_.Insert(77, 3);
  EXPECT_EQ(index_.UpperBound(77), EndOf(5));
}

TEST_F(LookupIndexTest, AFullBucketLetsGoOfItsOldestEntryAndForgetsNoBound) {
  constexpr uint64_t kFull = LookupIndex::kEntries;
  OpenUpTo(30);
  for (uint64_t key = 1; key <= kFull; ++key) index_.Insert(InOneBucket(key), static_cast<uint32_t>(key));
  EXPECT_EQ(index_.UpperBound(InOneBucket(100)), EndOf(0));
  index_.Insert(InOneBucket(20), 20);
  for (uint64_t key = 1; key <= kFull; ++key) EXPECT_EQ(index_.UpperBound(InOneBucket(key)), EndOf(key));
  EXPECT_EQ(index_.UpperBound(InOneBucket(20)), EndOf(20));
  EXPECT_EQ(index_.UpperBound(InOneBucket(100)), EndOf(1)) << "it may be what the bucket let go of";
  index_.Insert(InOneBucket(21), 1);  // of an older round than all that is there
  EXPECT_EQ(index_.UpperBound(InOneBucket(2)), EndOf(2)) << "which took no entry";
  EXPECT_EQ(index_.UpperBound(InOneBucket(21)), EndOf(1));
  EXPECT_EQ(index_.UpperBound(uint64_t{100} << 32 | 6), EndOf(0)) << "another bucket";
}

TEST_F(LookupIndexTest, ABucketFullOfOneRoundCallsNothingYoungerThanThat) {
  OpenUpTo(4);
  for (uint64_t key = 1; key <= 3 * LookupIndex::kEntries; ++key) index_.Insert(InOneBucket(key), 4);
  for (uint64_t key = 1; key <= 30; ++key)
    EXPECT_EQ(index_.UpperBound(InOneBucket(key)), kMaxSequenceNumber) << key;
  OpenUpTo(5);
  for (uint64_t key = 1; key <= 30; ++key) EXPECT_EQ(index_.UpperBound(InOneBucket(key)), EndOf(4)) << key;
}

TEST_F(LookupIndexTest, ARoundOfLongAgoEndsNoEarlierThanItDid) {
  OpenUpTo(1);
  index_.Insert(77, 1);
  for (uint64_t round = 2; round < 3 * LookupIndex::kEndsKept; ++round) {
    OpenUpTo(round);
    ASSERT_GE(index_.UpperBound(77), EndOf(1));
    index_.Insert(78, static_cast<uint32_t>(round));
    ASSERT_EQ(index_.UpperBound(78), kMaxSequenceNumber) << "not what another round left there";
  }
  EXPECT_LT(index_.UpperBound(77), kMaxSequenceNumber);
}

TEST_F(LookupIndexTest, ItsMemoryIsThatOfMemtables) {
  EXPECT_EQ(LookupIndex::BytesFor(0), ArenaPool::kChunkBytes);
  EXPECT_EQ(LookupIndex::BytesFor(512 << 20), 16u << 20);
  const size_t before = pool_.bytes_used();
  {
    const LookupIndex other(4 * kBytes, &pool_);
    EXPECT_EQ(pool_.bytes_used(), before + 4 * kBytes);
  }
  EXPECT_EQ(pool_.bytes_used(), before);
}

// Few buckets, which overflow; rounds open meanwhile. Who knows that a key was written in a round finds a
// bound that is not below it.
TEST_F(LookupIndexTest, K5NoBoundIsBelowAWriteThatIsKnownUnderConcurrentWritersAndOpenings) {
  constexpr uint64_t kKeys = 64, kEach = 60'000, kWritesOfARound = 32;
  std::array<std::atomic<uint64_t>, kKeys> newest = {};  // round that it was written in
  std::atomic<uint64_t> open{1}, wrong{0};
  Mutex opening;
  OpenUpTo(1);
  const auto hash_of = [](uint64_t key) { return (key + 1) << 32 | key % 4; };
  std::vector<std::unique_ptr<Thread>> threads;
  for (uint64_t w = 0; w < 3; ++w) {
    threads.push_back(std::make_unique<Thread>("w", [&, w] {
      Random random(w + 1);
      for (uint64_t i = 0; i < kEach; ++i) {
        if (i % kWritesOfARound == 0) {
          MutexLock lock(&opening);
          OpenUpTo(opened_ + 1);
          open.store(opened_);
        }
        const uint64_t round = open.load();  // or, as of a late writer, one that is sealed
        const uint64_t of = round - std::min(round - 1, random.OneIn(4) ? random.Uniform(3) : 0);
        const uint64_t key = random.Uniform(kKeys);
        index_.Insert(hash_of(key), static_cast<uint32_t>(of));
        uint64_t was = newest[key].load();
        while (was < of && !newest[key].compare_exchange_weak(was, of)) {
        }
        const uint64_t other = random.Uniform(kKeys);
        const uint64_t known = newest[other].load();
        if (known > 0 && index_.UpperBound(hash_of(other)) < EndOf(known)) wrong.fetch_add(1);
      }
    }));
  }
  threads.clear();
  EXPECT_EQ(wrong.load(), 0u);
  OpenUpTo(opened_ + 1);
  for (uint64_t key = 0; key < kKeys; ++key)
    EXPECT_GE(index_.UpperBound(hash_of(key)), EndOf(newest[key].load()));
}

}  // namespace
}  // namespace nova
