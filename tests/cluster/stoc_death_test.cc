// A StoC dies under load: how long the longest put takes, and the longest get (docs/testing.md, rows 13 and
// 18). A put waits for the change of its log group (L4); a get reads the other copy of what it needs, and
// waits for nobody.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdio>
#include <filesystem>
#include <functional>

#include "client/client.h"
#include "common/base/mutex.h"
#include "common/base/random.h"
#include "common/base/thread.h"
#include "tests/cluster/connect_client.h"
#include "tests/cluster/machine_watch.h"
#include "tests/cluster/process_cluster.h"

namespace nova {
namespace {

constexpr int kThreads = 8;  // that put, and that get
constexpr int kKeys = 4000;
constexpr Nanos kWatched = 4 * kSecond;  // from the death on: longer than the lease of a StoC
// Of an operation, beside what the machine holds up. Nobody else has to know of the death for either.
constexpr Nanos kLongestPut = 300 * kMillisecond;
constexpr Nanos kLongestGet = 250 * kMillisecond;

// All ranges have some; they lie between those of `what` else.
std::string KeyOf(uint64_t i, const char* what) {
  return StrCat("user", 1'000'000'000'000'000'000 + i * (8'200'000'000'000'000'000 / kKeys), what);
}

// Threads that do one operation after another, each with a client of its own.
class Callers {
 public:
  using Operation = std::function<Result(Client* client, Random* random)>;
  Callers(const std::string& coordinators, Operation operation) : operation_(std::move(operation)) {
    for (size_t i = 0; i < kThreads; ++i) {
      clients_.push_back(ConnectClient(coordinators));
      if (clients_.back() == nullptr) return;
    }
    for (size_t i = 0; i < kThreads; ++i) {
      begun_[i].store(Now());
      threads_.push_back(std::make_unique<Thread>("caller", [this, i] { Call(i); }));
    }
  }
  ~Callers() { stop_.store(true); }

  struct Seen {
    Nanos longest_ns = 0;  // of the operations that ended, and of those under way
    uint64_t ended = 0;
    uint64_t failed = 0;
  };
  // Since the last call.
  Seen Take() {
    Seen seen{longest_.exchange(0), ended_.exchange(0), failed_.exchange(0)};
    for (const auto& begun : begun_) seen.longest_ns = std::max(seen.longest_ns, Now() - begun.load());
    return seen;
  }

 private:
  void Call(size_t i) {
    Random random(i);
    while (!stop_.load()) {
      const Nanos begun = Now();
      begun_[i].store(begun);
      const Result r = operation_(clients_[i].get(), &random);
      const Nanos took = Now() - begun;
      for (Nanos longest = longest_.load();
           took > longest && !longest_.compare_exchange_weak(longest, took);) {
      }
      ++ended_;
      if (!r.ok()) ++failed_;
      SleepFor(2 * kMillisecond);
    }
  }

  const Operation operation_;
  std::vector<std::unique_ptr<Client>> clients_;
  std::atomic<bool> stop_{false};
  std::array<std::atomic<Nanos>, kThreads> begun_{};
  std::atomic<Nanos> longest_{0};
  std::atomic<uint64_t> ended_{0}, failed_{0};
  std::vector<std::unique_ptr<Thread>> threads_;
};

// Their tables lie on StoCs, and in no cache.
void Fill(ProcessCluster* cluster) {
  const auto client = ConnectClient(cluster->coordinators());
  ASSERT_NE(client, nullptr);
  std::atomic<int> left{kKeys}, failed{0};
  Notification all;
  for (int i = 0; i < kKeys; ++i) {
    client->PutAsync(KeyOf(static_cast<uint64_t>(i), ""), std::string(8000, 'v'), [&](const Result& r) {
      if (!r.ok()) ++failed;
      if (--left == 0) all.Notify();
    });
  }
  all.Wait();
  ASSERT_EQ(failed.load(), 0);
  for (const std::string name : {"ltc-0", "ltc-1"}) {
    const auto code = cluster->Stop(name, Now() + 60 * kSecond);
    ASSERT_TRUE(code.ok() && *code == 0) << name;
    ASSERT_TRUE(cluster->Restart(name).ok()) << name;
    ASSERT_TRUE(cluster->WaitOpen(Now() + 30 * kSecond).ok());
  }
}

TEST(StocDeathTest, HoldsUpPutsForAGroupChangeAndGetsHardly) {
  ProcessClusterOptions options;
  options.stocs = 5;
  options.ltc_flags = {"--block_cache_mb=1"};
  auto started = ProcessCluster::Start(options);
  if (absl::IsNotFound(started.status())) GTEST_SKIP() << started.status().message();
  ASSERT_TRUE(started.ok()) << started.status();
  ProcessCluster* const cluster = started->get();
  ASSERT_NO_FATAL_FAILURE(Fill(cluster));
  MachineWatch machine(std::filesystem::temp_directory_path().string());
  Callers puts(cluster->coordinators(), [](Client* client, Random* random) {
    return client->Put(KeyOf(random->Uniform(kKeys), ".put"), std::string(1000, 'p'));
  });
  Callers gets(cluster->coordinators(), [](Client* client, Random* random) -> Result {
    return client->Get(KeyOf(random->Uniform(kKeys), ""));
  });
  const auto look = [&](const std::string& when) {
    const Callers::Seen put = puts.Take(), get = gets.Take();
    const auto ms = [](Nanos ns) { return static_cast<long long>(ns / kMillisecond); };
    std::printf("%s: longest put %lld ms of %d, longest get %lld ms of %d (the machine: %lld)\n",
                when.c_str(), ms(put.longest_ns), static_cast<int>(put.ended), ms(get.longest_ns),
                static_cast<int>(get.ended), ms(machine.worst()));
    EXPECT_EQ(put.failed + get.failed, 0u) << when;
    return std::pair(put.longest_ns, get.longest_ns);
  };
  SleepFor(2 * kSecond);
  look("before");
  for (const std::string stoc : {"stoc-1", "stoc-3"}) {
    cluster->Kill(stoc);
    SleepFor(kWatched);
    const auto [put, get] = look(stoc + " killed");
    EXPECT_LT(put, kLongestPut + 2 * machine.worst());
    EXPECT_LT(get, kLongestGet + 2 * machine.worst());
    ASSERT_TRUE(cluster->Restart(stoc).ok());
    SleepFor(3 * kSecond);
    look(stoc + " back");
  }
}

}  // namespace
}  // namespace nova
