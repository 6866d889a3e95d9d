#include "common/base/token_bucket.h"

#include <gtest/gtest.h>

#include "common/base/random.h"

namespace nova {
namespace {

constexpr uint64_t kRate = 1'000'000;  // a microsecond each
constexpr uint64_t kBurst = 5000;

TEST(TokenBucketTest, ABurstPassesAtOnceAndTheRestAtTheRate) {
  TokenBucket bucket(kRate, kBurst);
  EXPECT_LE(bucket.Take(kBurst, 0), 0);
  EXPECT_EQ(bucket.Take(1, 0), kMicrosecond);
  EXPECT_EQ(bucket.Take(100, 0), 101 * kMicrosecond);
  EXPECT_EQ(bucket.Take(100, 50 * kMicrosecond), 201 * kMicrosecond) << "behind what was taken before";
}

TEST(TokenBucketTest, IdleTimeSavesUpNoMoreThanABurst) {
  TokenBucket bucket(kRate, kBurst);
  EXPECT_LE(bucket.Take(kBurst, 0), 0);
  const Nanos later = 1000 * kSecond;
  EXPECT_LE(bucket.Take(kBurst, later), later);
  EXPECT_EQ(bucket.Take(kBurst, later), later + bucket.TimeOf(kBurst));
}

TEST(TokenBucketTest, MoreThanABurstWaitsForItsRest) {
  TokenBucket bucket(kRate, kBurst);
  EXPECT_EQ(bucket.Take(kBurst + 1000, 0), 1000 * kMicrosecond);
}

TEST(TokenBucketTest, WithoutABurstEachWaitsForItself) {
  TokenBucket bucket(3, 0);
  EXPECT_EQ(bucket.Take(1, 0), 333'333'334) << "rounded up: never faster than the rate";
  EXPECT_EQ(bucket.Take(0, kSecond), kSecond);
}

// Takers of all sizes at random times, each of which waits for its turn: what has passed never exceeds the
// burst and the rate's share, over any stretch of time between two passes.
TEST(TokenBucketTest, NoStretchOfTimeSeesMoreThanItsShareAndABurst) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    Random random(seed);
    TokenBucket bucket(kRate, kBurst);
    std::vector<std::pair<Nanos, uint64_t>> passes;
    Nanos now = 0;
    for (int i = 0; i < 200; ++i) {
      now += static_cast<Nanos>(random.Uniform(random.OneIn(10) ? 20 * kMillisecond : 2 * kMillisecond));
      const uint64_t amount = random.Uniform(kBurst + 1);
      now = std::max(now, bucket.Take(amount, now));
      passes.emplace_back(now, amount);
    }
    for (size_t from = 0; from < passes.size(); ++from) {
      uint64_t passed = 0;
      for (size_t to = from; to < passes.size(); ++to) {
        passed += passes[to].second;
        const Nanos stretch = passes[to].first - passes[from].first;
        ASSERT_LE(passed, kBurst + static_cast<uint64_t>(stretch) / 1000 + 1)
            << "seed " << seed << ": " << from << " to " << to;
      }
    }
  }
}

}  // namespace
}  // namespace nova
