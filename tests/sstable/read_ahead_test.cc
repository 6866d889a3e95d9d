#include "common/sstable/read_ahead.h"

#include <gtest/gtest.h>

namespace nova {
namespace {

// Enters `blocks` from `position` on, and returns what was asked for with each, in KB.
std::vector<uint64_t> AskedKb(BlocksAhead* ahead, size_t position, int step, int blocks,
                              uint64_t expected = 0) {
  std::vector<uint64_t> kb;
  for (int i = 0; i < blocks; ++i, position += static_cast<size_t>(step)) {
    ahead->Enter(position);
    kb.push_back(ahead->Ask(expected) >> 10);
  }
  return kb;
}

TEST(BlocksAheadTest, AsksForMoreTheLongerBlocksFollowOneAnother) {
  for (const bool backward : {false, true}) {
    BlocksAhead ahead(backward);
    const int step = backward ? -1 : 1;
    const std::vector<uint64_t> from_a_seek{0, 0, 0, 16, 32, 64, 64};
    EXPECT_EQ(AskedKb(&ahead, 100, step, 7), from_a_seek);
    EXPECT_EQ(AskedKb(&ahead, 500, step, 7), from_a_seek) << "a jump is a seek";
    EXPECT_EQ(AskedKb(&ahead, 300, -step, 7), std::vector<uint64_t>(7, 0)) << "the other way nothing follows";
    EXPECT_EQ(AskedKb(&ahead, 900, step, 4, 8 << 10), std::vector<uint64_t>(4, 8)) << "no more than expected";
    EXPECT_EQ(AskedKb(&ahead, 1900, step, 1, 1 << 20), std::vector<uint64_t>(1, 64)) << "nor than the most";
  }
}

TEST(BlocksAheadTest, ABlockThatIsEnteredAgainDoesNotFollowItself) {
  BlocksAhead ahead(/*backward=*/false);
  EXPECT_FALSE(ahead.Enter(7));
  EXPECT_TRUE(ahead.Enter(8));
  EXPECT_FALSE(ahead.Enter(8));
  EXPECT_TRUE(ahead.Enter(9));
  EXPECT_FALSE(ahead.Enter(11));
}

}  // namespace
}  // namespace nova
