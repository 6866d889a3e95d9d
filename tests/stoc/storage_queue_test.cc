#include "stoc/storage_queue.h"

#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "common/base/thread.h"

namespace nova {
namespace {

using Lane = StorageQueue::Lane;

// Adds its name to what was done.
StorageQueue::Work Name(const char* name, std::string* done) {
  return [name, done] { *done += name; };
}

// What the thread of that number takes next does; "" where it would end.
std::string Take(StorageQueue* queue, int thread, std::string* done) {
  done->clear();
  if (StorageQueue::Work work = queue->Pop(thread)) work();
  return *done;
}

TEST(StorageQueueTest, EachThreadTakesWhatItPrefersAndTheLastOneShortReadsAlone) {
  std::string done;
  StorageQueue queue(4, 10);
  const auto push = [&](Lane lane, const char* name) { EXPECT_TRUE(queue.TryPush(lane, Name(name, &done))); };
  for (const char* name : {"a", "b", "c"}) push(Lane::kOther, name);
  for (const char* name : {"1", "2", "3"}) push(Lane::kShortReads, name);
  EXPECT_EQ(Take(&queue, 3, &done), "1");
  EXPECT_EQ(Take(&queue, 0, &done), "a");
  EXPECT_EQ(Take(&queue, 2, &done), "2");
  EXPECT_EQ(Take(&queue, 1, &done), "b");
  EXPECT_EQ(Take(&queue, 3, &done), "3");
  EXPECT_EQ(Take(&queue, 2, &done), "c");
  push(Lane::kShortReads, "4");
  EXPECT_EQ(Take(&queue, 0, &done), "4");
  push(Lane::kOther, "d");
  queue.Close();
  EXPECT_EQ(Take(&queue, 3, &done), "") << "not even at the end";
  EXPECT_EQ(Take(&queue, 1, &done), "d");
  EXPECT_EQ(Take(&queue, 1, &done), "");
  EXPECT_FALSE(queue.TryPush(Lane::kOther, Name("e", &done)));
}

TEST(StorageQueueTest, AThreadThatIsAloneTakesAllInOrder) {
  std::string done;
  StorageQueue queue(1, 10);
  for (const char* name : {"a", "1", "b", "2"})
    EXPECT_TRUE(queue.TryPush(*name < 'a' ? Lane::kShortReads : Lane::kOther, Name(name, &done)));
  for (const char* name : {"a", "1", "b", "2"}) EXPECT_EQ(Take(&queue, 0, &done), name);
}

TEST(StorageQueueTest, BothLanesTogetherHoldSoMuchAndNoMore) {
  std::string done;
  StorageQueue queue(2, 2);
  EXPECT_TRUE(queue.TryPush(Lane::kOther, Name("a", &done)));
  EXPECT_TRUE(queue.TryPush(Lane::kShortReads, Name("1", &done)));
  EXPECT_FALSE(queue.TryPush(Lane::kShortReads, Name("2", &done)));
  EXPECT_FALSE(queue.TryPush(Lane::kOther, Name("b", &done)));
  EXPECT_EQ(Take(&queue, 1, &done), "1");
  EXPECT_TRUE(queue.TryPush(Lane::kOther, Name("b", &done)));
}

// Every piece of work finds a thread, whoever waits just then; and what was taken in before the end is done.
TEST(StorageQueueTest, NoThreadSleepsWhileItHasWork) {
  for (const int n : {1, 2, 3, 4, 8}) {
    StorageQueue queue(n, 1'000'000);
    std::vector<std::unique_ptr<Thread>> threads;
    for (int i = 0; i < n; ++i) {
      threads.push_back(std::make_unique<Thread>("worker", [&queue, i] {
        while (StorageQueue::Work work = queue.Pop(i)) work();
      }));
    }
    for (int round = 0; round < 2000; ++round) {
      Notification done;
      ASSERT_TRUE(queue.TryPush(round % 3 == 0 ? Lane::kOther : Lane::kShortReads, [&] { done.Notify(); }));
      ASSERT_TRUE(done.WaitUntil(Now() + 60 * kSecond)) << round;
    }
    // All but the last one are held up; short reads go on.
    Notification go_on;
    for (int i = 0; i < 2 * n; ++i)
      ASSERT_TRUE(queue.TryPush(Lane::kOther, [&] { go_on.WaitUntil(kNever); }));
    for (int round = 0; n > 1 && round < 100; ++round) {
      Notification done;
      ASSERT_TRUE(queue.TryPush(Lane::kShortReads, [&] { done.Notify(); }));
      ASSERT_TRUE(done.WaitUntil(Now() + 60 * kSecond)) << round;
    }
    go_on.Notify();
    std::atomic<int> done{0};
    for (int i = 0; i < 1000; ++i)
      ASSERT_TRUE(queue.TryPush(i % 2 == 0 ? Lane::kOther : Lane::kShortReads, [&] { ++done; }));
    queue.Close();
    threads.clear();
    EXPECT_EQ(done.load(), 1000) << n;
  }
}

// Short reads without end keep no other work waiting.
TEST(StorageQueueTest, OtherWorkIsDoneBesideShortReadsWithoutEnd) {
  StorageQueue queue(2, 1000);
  std::atomic<bool> stop{false};
  const std::function<void()> read_again = [&] {
    if (!stop) queue.TryPush(Lane::kShortReads, [&] { read_again(); });
  };
  for (int i = 0; i < 10; ++i) read_again();
  std::vector<std::unique_ptr<Thread>> threads;
  for (int i = 0; i < 2; ++i) {
    threads.push_back(std::make_unique<Thread>("worker", [&queue, i] {
      while (StorageQueue::Work work = queue.Pop(i)) work();
    }));
  }
  for (int i = 0; i < 100; ++i) {
    Notification done;
    ASSERT_TRUE(queue.TryPush(Lane::kOther, [&] { done.Notify(); }));
    ASSERT_TRUE(done.WaitUntil(Now() + 60 * kSecond)) << i;
  }
  stop = true;
  queue.Close();
  threads.clear();
}

}  // namespace
}  // namespace nova
