// Zipfian: how often ranks come, against the sums of their weights.
#include "common/base/zipfian.h"

#include <gtest/gtest.h>

#include <vector>

#include "common/base/random.h"

namespace nova {
namespace {

constexpr uint64_t kRanks = 10'000;
constexpr int kDraws = 1'000'000;

// The share that the first `count` ranks should have.
double ExpectedShare(uint64_t count, double theta) {
  double sum = 0, all = 0;
  for (uint64_t i = 1; i <= kRanks; ++i) {
    const double weight = std::pow(static_cast<double>(i), -theta);
    all += weight;
    if (i <= count) sum += weight;
  }
  return sum / all;
}

// The constants of the paper's Figures 1 and 12, and YCSB's.
TEST(ZipfianTest, RanksComeAsOftenAsTheirWeightsSay) {
  for (const double theta : {0.27, 0.73, 0.99}) {
    SCOPED_TRACE(theta);
    Random random(1);
    const Zipfian zipfian(kRanks, theta);
    std::vector<int> drawn(kRanks);
    for (int i = 0; i < kDraws; ++i) ++drawn.at(zipfian.Next(&random));
    double share = 0;
    uint64_t counted = 0;
    for (const uint64_t count : {1, 2, 10, 100, 1'000, 5'000}) {
      while (counted < count) share += static_cast<double>(drawn[counted++]) / kDraws;
      EXPECT_NEAR(share, ExpectedShare(count, theta), 0.02) << "of the first " << count;
    }
  }
}

// The paper's section 8: 85 % of the requests go to a tenth of the keys, and 53 % with 0.73.
TEST(ZipfianTest, ATenthOfTheKeysHasTheShareThatThePaperStates) {
  Random random(2);
  for (const auto& [theta, stated] : {std::pair(0.99, 0.85), std::pair(0.73, 0.53)}) {
    const Zipfian zipfian(10'000'000, theta);
    int hot = 0;
    for (int i = 0; i < kDraws / 10; ++i) hot += zipfian.Next(&random) < 1'000'000;
    EXPECT_NEAR(hot / (kDraws / 10.0), stated, 0.02) << theta;
  }
}

}  // namespace
}  // namespace nova
