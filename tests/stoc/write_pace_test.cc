#include "stoc/write_pace.h"

#include <gtest/gtest.h>

namespace nova {
namespace {

constexpr uint64_t kMb = 1'000'000;

// Files of a megabyte, one after another, that take `each_ns`. Returns when the last is stored.
Nanos Store(WritePace* pace, int files, Nanos each_ns, Nanos now) {
  for (int i = 0; i < files; ++i) {
    pace->Begin(now);
    now += each_ns;
    pace->End(kMb, now);
  }
  return now;
}

TEST(WritePaceTest, IsTheTimeThatBytesTookHoweverManyFilesWereOnTheirWay) {
  WritePace one, four;
  EXPECT_EQ(one.Get(5 * kSecond).ns_per_byte, 0) << "nothing is known";
  Nanos now = Store(&one, 40, 250 * kMillisecond, 5 * kSecond);
  EXPECT_NEAR(one.Get(now).ns_per_byte, 250, 10);
  // A disk that takes four files at a time, and as long for all of them as for one after another.
  for (now = 5 * kSecond; now < 15 * kSecond; now += kSecond) {
    for (int i = 0; i < 4; ++i) four.Begin(now);
    for (int i = 0; i < 4; ++i) four.End(kMb, now + kSecond);
  }
  EXPECT_NEAR(four.Get(now).ns_per_byte, 250, 50);
}

TEST(WritePaceTest, TimeWithNothingOnItsWayIsNoTime) {
  WritePace pace;
  Nanos now = kSecond;
  for (int i = 0; i < 20; ++i) now = Store(&pace, 1, 100 * kMillisecond, now) + kSecond;
  EXPECT_NEAR(pace.Get(now).ns_per_byte, 100, 5);
  EXPECT_EQ(pace.Get(now).age_ns, kSecond);
  EXPECT_EQ(pace.Get(now + kSecond).age_ns, 2 * kSecond);
  pace.Begin(now);
  EXPECT_EQ(pace.Get(now).age_ns, 0);
}

TEST(WritePaceTest, FollowsADiskThatBecomesSlowAndFastAgain) {
  WritePace pace;
  Nanos now = Store(&pace, 100, 100 * kMillisecond, kSecond);
  now = Store(&pace, 10, kSecond, now);
  EXPECT_GT(pace.Get(now).ns_per_byte, 700);
  now = Store(&pace, 100, 100 * kMillisecond, now);
  EXPECT_LT(pace.Get(now).ns_per_byte, 130);
}

TEST(WritePaceTest, OfWhatHangsItBecomesWorseAndWhatIsRefusedSaysNothingGood) {
  WritePace pace;
  Nanos now = Store(&pace, 100, 100 * kMillisecond, kSecond);
  pace.Begin(now);
  EXPECT_GT(pace.Get(now + kSecond).ns_per_byte, 120);
  EXPECT_GT(pace.Get(now + 10 * kSecond).ns_per_byte, 1000);
  pace.End(0, now += 10 * kSecond);
  const double after = pace.Get(now).ns_per_byte;
  EXPECT_GT(after, 1000);
  for (int i = 0; i < 1000; ++i) {
    pace.Begin(now);
    pace.End(0, now);
  }
  EXPECT_EQ(pace.Get(now).ns_per_byte, after) << "refused at once";
}

TEST(WritePaceTest, OneThatHangsForLongIsNotForgotten) {
  WritePace pace, fresh;
  Nanos now = Store(&pace, 20, kSecond, kSecond);
  pace.Begin(now);
  EXPECT_GT(pace.Get(now + 60 * kSecond).ns_per_byte, 100'000);
  fresh.Begin(now);
  EXPECT_GT(fresh.Get(now + 10 * kSecond).ns_per_byte, 100'000) << "it has never stored anything";
  // Nor is one that stores no more than this.
  WritePace crawls;
  now = kSecond;
  for (int i = 0; i < 20; ++i) {
    crawls.Begin(now);
    crawls.End(WritePace::kLeastBytes, now += 2 * kSecond);
  }
  EXPECT_GT(crawls.Get(now).ns_per_byte, 10'000);
}

// A disk of 250 MB/s has stood still for 12 s; a hundred tables of a megabyte are half a second of its time.
TEST(WritePaceTest, OneThatHungIsTakenForFastAgainAfterAHundredMegabytes) {
  WritePace pace;
  Nanos now = Store(&pace, 1000, 4 * kMillisecond, kSecond);
  now = Store(&pace, 1, 12 * kSecond, now);
  EXPECT_GT(pace.Get(now).ns_per_byte, 40);
  for (int i = 0; i < 100; ++i) now = Store(&pace, 1, 4 * kMillisecond, now) + 100 * kMillisecond;
  EXPECT_LT(pace.Get(now).ns_per_byte, 6);
}

}  // namespace
}  // namespace nova
