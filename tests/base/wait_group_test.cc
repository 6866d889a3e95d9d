#include "common/base/wait_group.h"

#include <gtest/gtest.h>

#include <atomic>
#include <optional>
#include <vector>

#include "common/base/thread.h"

namespace nova {
namespace {

TEST(WaitGroupTest, WaitsForEveryPart) {
  const auto group = std::make_shared<WaitGroup>();
  group->Wait();  // of no parts
  std::atomic<int> ended{0};
  std::vector<std::unique_ptr<Thread>> threads;
  for (int i = 0; i < 4; ++i) {
    auto part = std::make_shared<WaitGroup::Part>(group);
    threads.push_back(std::make_unique<Thread>("part", [part, &ended] {
      SleepFor(kMillisecond);
      ++ended;
      part->End();
    }));
  }
  group->Wait();
  EXPECT_EQ(ended.load(), 4);
  for (auto& t : threads) t->Join();
}

TEST(WaitGroupTest, APartThatIsDestroyedUndoneHasEnded) {
  const auto group = std::make_shared<WaitGroup>();
  std::optional<WaitGroup::Part> first(std::in_place, group);
  {
    const WaitGroup::Part moved = std::move(*first);
    first.reset();  // what was moved from counts no more
  }
  group->Wait();
}

}  // namespace
}  // namespace nova
