// An LTC that stands still (SIGSTOP) under requests whose own deadline is far away: they end once its ranges
// are elsewhere (A1).
#include <gtest/gtest.h>
#include <signal.h>

#include <atomic>
#include <cstdio>
#include <map>
#include <string>

#include "client/client.h"
#include "common/base/mutex.h"
#include "common/base/thread.h"
#include "tests/cluster/connect_client.h"
#include "tests/cluster/process_cluster.h"

namespace nova {
namespace {

constexpr int kKeys = 64;
constexpr Nanos kDeadline = 600 * kSecond;  // of the requests
constexpr Nanos kPatience = 100 * kSecond;  // of the test, where a request may take no longer than a failover

std::string Key(int i) {
  return StrCat("user", 1'000'000'000'000'000'000 + static_cast<uint64_t>(i) * 125'000'000'000'000'000);
}

TEST(SilenceTest, A1RequestsUnderWayAtAStoppedLtcEndOnceItsRangesAreElsewhere) {
  auto started = ProcessCluster::Start({});
  if (absl::IsNotFound(started.status())) GTEST_SKIP() << started.status().message();
  ASSERT_TRUE(started.ok()) << started.status();
  ProcessCluster* const cluster = started->get();
  // Who was there first may have all ranges until they are shared.
  const auto shared = [&] {
    std::map<std::string, int> open;
    for (const auto& [range, now] : cluster->Holdings()) open[now.owner] += now.state == "open" ? 1 : 0;
    return open["ltc-0"] > 0 && open["ltc-1"] > 0;
  };
  const Nanos until = Now() + kPatience;
  while (!shared() && Now() < until) SleepFor(100 * kMillisecond);
  ASSERT_TRUE(shared());
  auto client = ConnectClient(cluster->coordinators(), kDeadline / kMillisecond);
  ASSERT_NE(client, nullptr);
  for (int i = 0; i < kKeys; ++i) ASSERT_TRUE(client->Put(Key(i), "old").ok());

  cluster->Signal("ltc-0", SIGSTOP);
  std::atomic<int> left{2 * kKeys}, puts_ok{0}, puts_unknown{0}, gets_ok{0};
  Notification waited;
  const auto ended = [&](std::atomic<int>* counter) {
    if (counter != nullptr) ++*counter;
    if (--left == 0) waited.Notify();
  };
  for (int i = 0; i < kKeys; ++i) {
    client->PutAsync(Key(i), "new", [&](Result r) {
      ended(r.ok() ? &puts_ok : r.outcome == Outcome::kUnknown ? &puts_unknown : nullptr);
    });
    client->GetAsync(Key(i), [&](GetResult r) {
      ended(r.ok() && (r.value == "old" || r.value == "new") ? &gets_ok : nullptr);
    });
  }
  const bool all_ended = waited.WaitUntil(Now() + kPatience);
  std::printf("%d puts done, %d unknown, %d gets answered, %d requests left\n", puts_ok.load(),
              puts_unknown.load(), gets_ok.load(), left.load());
  EXPECT_TRUE(all_ended) << left.load() << " requests wait for a process that stands still";
  EXPECT_GT(puts_ok.load(), 0) << "those of the other LTC";
  EXPECT_GT(puts_unknown.load(), 0) << "those that the stopped one had, perhaps";
  cluster->Signal("ltc-0", SIGCONT);
  waited.Wait();
  EXPECT_EQ(puts_ok.load() + puts_unknown.load(), kKeys);
  EXPECT_EQ(gets_ok.load(), kKeys);
  for (int i = 0; i < kKeys; ++i) {
    const GetResult r = client->Get(Key(i));
    EXPECT_TRUE(r.ok() && (r.value == "old" || r.value == "new")) << r.message;
  }
}

}  // namespace
}  // namespace nova
