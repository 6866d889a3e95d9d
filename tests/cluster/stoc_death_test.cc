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
#include <utility>

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
    for (Caller& caller : callers_) {
      caller.client = ConnectClient(coordinators);
      if (caller.client == nullptr) return;
    }
    for (Caller& caller : callers_) {
      caller.thread = std::make_unique<Thread>("caller", [this, &caller] { Call(&caller); });
    }
  }
  ~Callers() { stop_.store(true); }

  struct Seen {
    Nanos longest_ns = 0;  // of the operations that ended, and of those under way
    Nanos begun_ns = 0;    // when that one began
    uint64_t ended = 0;
    uint64_t failed = 0;

    void Add(Nanos begun) {
      const Nanos took = Now() - begun;
      if (took > longest_ns) longest_ns = took, begun_ns = begun;
    }
  };
  // Since the last call.
  Seen Take() {
    Seen all;
    for (Caller& caller : callers_) {
      MutexLock l(&caller.mu);
      const Seen seen = std::exchange(caller.seen, {});
      all.ended += seen.ended;
      all.failed += seen.failed;
      if (seen.longest_ns > all.longest_ns) all.longest_ns = seen.longest_ns, all.begun_ns = seen.begun_ns;
      all.Add(caller.begun_ns);
    }
    return all;
  }

 private:
  struct Caller {
    std::unique_ptr<Client> client;
    Mutex mu;
    Nanos begun_ns ABSL_GUARDED_BY(mu) = Now();  // of the operation under way
    Seen seen ABSL_GUARDED_BY(mu);
    std::unique_ptr<Thread> thread;
  };

  void Call(Caller* caller) {
    Random random(static_cast<uint64_t>(caller - callers_.data()));
    while (!stop_.load()) {
      {
        MutexLock l(&caller->mu);
        caller->begun_ns = Now();
      }
      const Result r = operation_(caller->client.get(), &random);
      {
        MutexLock l(&caller->mu);
        caller->seen.Add(caller->begun_ns);
        ++caller->seen.ended;
        if (!r.ok()) ++caller->seen.failed;
      }
      SleepFor(2 * kMillisecond);
    }
  }

  const Operation operation_;
  std::atomic<bool> stop_{false};
  std::array<Caller, kThreads> callers_;
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
  const auto code = cluster->Stop("ltc-0", Now() + 60 * kSecond);
  ASSERT_TRUE(code.ok() && *code == 0);
  ASSERT_TRUE(cluster->Restart("ltc-0").ok());
  ASSERT_TRUE(cluster->WaitOpen(Now() + 30 * kSecond).ok());
}

TEST(StocDeathTest, HoldsUpPutsForAGroupChangeAndGetsHardly) {
  ProcessClusterOptions options;
  options.stocs = 5;
  options.ltcs = 1;  // no range moves while the deaths are watched
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
  Nanos happened = Now();
  const auto look = [&](const std::string& when) {
    const Callers::Seen put = puts.Take(), get = gets.Take();
    const auto ms = [](Nanos ns) { return static_cast<long long>(ns / kMillisecond); };
    std::printf("%s: longest put %lld ms of %d, begun after %lld; get %lld of %d, %lld (the machine: %lld)\n",
                when.c_str(), ms(put.longest_ns), static_cast<int>(put.ended), ms(put.begun_ns - happened),
                ms(get.longest_ns), static_cast<int>(get.ended), ms(get.begun_ns - happened),
                ms(machine.worst()));
    EXPECT_EQ(put.failed + get.failed, 0u) << when;
    return std::pair(put.longest_ns, get.longest_ns);
  };
  SleepFor(2 * kSecond);
  look("before");
  for (const std::string stoc : {"stoc-1", "stoc-3"}) {
    cluster->Kill(stoc);
    happened = Now();
    SleepFor(kWatched);
    const auto [put, get] = look(stoc + " killed");
    EXPECT_LT(put, kLongestPut + 2 * machine.worst());
    EXPECT_LT(get, kLongestGet + 2 * machine.worst());
    ASSERT_TRUE(cluster->Restart(stoc).ok());
    happened = Now();
    SleepFor(3 * kSecond);
    look(stoc + " back");
  }
}

}  // namespace
}  // namespace nova
