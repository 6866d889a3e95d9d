#include "common/rdma/timer_wheel.h"

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <vector>

#include "common/base/random.h"

namespace nova {
namespace {

TEST(TimerWheelTest, NodesFireAfterTheirTimeWithinAMillisecondOrTwo) {
  Random random(7);
  Nanos now = 5 * kSecond + 123'456;
  TimerWheel wheel(now);
  struct Node : TimerNode {
    Nanos due = 0;
    bool fired = false;
  };
  std::vector<std::unique_ptr<Node>> nodes;
  size_t fired = 0;
  for (int step = 0; step < 20000; ++step) {
    if (nodes.size() < 2000) {
      auto node = std::make_unique<Node>();
      // Most within the wheel's turn, some in later turns.
      node->due = now + static_cast<Nanos>(random.Uniform(random.OneIn(10) ? 20 * kSecond : kSecond));
      wheel.Add(node.get(), node->due);
      if (random.OneIn(5)) {
        wheel.Remove(node.get());
      } else {
        nodes.push_back(std::move(node));
      }
    }
    now += static_cast<Nanos>(random.Uniform(3 * kMillisecond));
    const Nanos next = wheel.NextDue();
    const size_t n = wheel.Advance(now, [&](TimerNode* t) {
      auto* node = static_cast<Node*>(t);
      EXPECT_FALSE(node->fired);
      EXPECT_LE(node->due, now);
      EXPECT_GE(node->due, now - 5 * kMillisecond);
      node->fired = true;
      ++fired;
    });
    if (n > 0) {
      EXPECT_LE(next, now) << "a sleep until `next` would have been too long";
    }
  }
  for (int i = 0; i < 25; ++i) {
    now += kSecond;
    wheel.Advance(now, [&](TimerNode* t) {
      static_cast<Node*>(t)->fired = true;
      ++fired;
    });
  }
  EXPECT_EQ(fired, nodes.size());
  EXPECT_TRUE(wheel.empty());
  EXPECT_EQ(wheel.NextDue(), kNever);
}

TEST(TimerWheelTest, SleepingUntilNextDueFiresTheNodeAtOnce) {
  Random random(8);
  Nanos now = kSecond;
  TimerWheel wheel(now);
  for (int i = 0; i < 3000; ++i) {
    TimerNode node;
    wheel.Add(&node, now + static_cast<Nanos>(random.Uniform(15 * kSecond)));
    const Nanos next = wheel.NextDue();
    EXPECT_GE(next, node.when_ns);
    EXPECT_LE(next, std::max(node.when_ns, now) + 2 * kMillisecond);
    now = next;
    EXPECT_EQ(wheel.Advance(now, [](TimerNode*) {}), 1u);
  }
}

TEST(TimerWheelTest, FiringMayAddAndRemoveOthers) {
  Nanos now = kSecond;
  TimerWheel wheel(now);
  TimerNode a, b, c;
  wheel.Add(&a, now + kMillisecond);
  wheel.Add(&b, now + kMillisecond);
  int fired = 0;
  now += 10 * kMillisecond;
  wheel.Advance(now, [&](TimerNode*) {
    ++fired;
    wheel.Remove(&a);
    wheel.Remove(&b);
    wheel.Add(&c, now);
  });
  EXPECT_EQ(fired, 1);
  now += 2 * kMillisecond;
  EXPECT_EQ(wheel.Advance(now, [](TimerNode*) {}), 1u);
}

}  // namespace
}  // namespace nova
