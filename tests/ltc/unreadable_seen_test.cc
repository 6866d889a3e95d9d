#include "ltc/server/unreadable_seen.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>

namespace nova {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr StocId kStoc(1), kOther(2);
constexpr Incarnation kStart(10), kNextStart(11);
constexpr StocFileId kFile{{1, 1}, 0}, kLater{{1, 2}, 0};

TEST(UnreadableSeenTest, N4AFileIsSettledWhenAllJobsHaveEndedThatWereBegunWhenItWasListedFirst) {
  JobBook jobs;
  UnreadableSeen seen;
  EXPECT_THAT(seen.Settled(kStoc, kStart, {kFile}, jobs), ElementsAre(kFile)) << "no job is under way";
  EXPECT_THAT(seen.Settled(kStoc, kNextStart, {}, jobs), IsEmpty());
  std::optional<JobBook::Job> first(std::in_place, &jobs), second(std::in_place, &jobs);
  EXPECT_THAT(seen.Settled(kStoc, kNextStart, {kFile}, jobs), IsEmpty());
  const JobBook::Job third(&jobs);
  first.reset();
  EXPECT_THAT(seen.Settled(kStoc, kNextStart, {kFile, kLater}, jobs), IsEmpty());
  EXPECT_THAT(seen.Settled(kOther, kNextStart, {kFile}, jobs), IsEmpty()) << "there it is new";
  second.reset();
  EXPECT_THAT(seen.Settled(kStoc, kNextStart, {kFile, kLater}, jobs), ElementsAre(kFile))
      << "the third job may have made the other one only";
}

// It was written anew, and is not to be read again: whoever wrote it may be under way.
TEST(UnreadableSeenTest, N4AnotherStartOfTheStocBeginsAnew) {
  JobBook jobs;
  UnreadableSeen seen;
  std::optional<JobBook::Job> first(std::in_place, &jobs);
  EXPECT_THAT(seen.Settled(kStoc, kStart, {kFile}, jobs), IsEmpty());
  const JobBook::Job second(&jobs);
  first.reset();
  EXPECT_THAT(seen.Settled(kStoc, kNextStart, {kFile}, jobs), IsEmpty());
  EXPECT_THAT(seen.Settled(kStoc, kStart, {kFile}, jobs), IsEmpty());
}

}  // namespace
}  // namespace nova
