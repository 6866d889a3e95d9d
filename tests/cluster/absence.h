// Absence: a cluster whose only coordinator, or whose ZooKeeper, goes away and comes back, under puts and
// gets that are timed (absence is not death, C2').
//
// Thread safety: one thread.   Errors: GoogleTest failures.
#pragma once

#include <gtest/gtest.h>
#include <signal.h>

#include <atomic>
#include <filesystem>
#include <memory>
#include <string>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "client/client.h"
#include "common/base/thread.h"
#include "tests/cluster/connect_client.h"
#include "tests/cluster/machine_watch.h"
#include "tests/cluster/process_cluster.h"

namespace nova {

// One client that puts and one that gets, one operation after another, over keys of all ranges.
class Traffic {
 public:
  explicit Traffic(const std::string& coordinators) {
    for (const bool puts : {true, false}) {
      auto client = ConnectClient(coordinators, puts ? 20'000 : 300);  // a get that is refused shows soon
      if (client == nullptr) return;
      clients_.push_back(std::move(client));
    }
    for (int i = 0; i < kKeys; ++i) EXPECT_TRUE(clients_[0]->Put(Key(i), "v").ok());
    last_put_ns_.store(Now());
    threads_.push_back(std::make_unique<Thread>("puts", [this] { Put(); }));
    threads_.push_back(std::make_unique<Thread>("gets", [this] { Get(); }));
  }
  ~Traffic() { stop_.store(true); }  // and the threads join

  // The longest time without an acknowledged put since the last call, the running one included.
  Nanos TakeLongestPutGap() { return std::max(longest_put_gap_ns_.exchange(0), Now() - last_put_ns_.load()); }
  Nanos last_failed_get_ns() const { return last_failed_get_ns_.load(); }
  uint64_t gets() const { return gets_.load(); }

 private:
  static constexpr int kKeys = 320;
  static std::string Key(int i) {
    return StrCat("user", 1'000'000'000'000'000'000 + static_cast<uint64_t>(i) * 25'000'000'000'000'000);
  }
  void Put() {
    for (int i = 0; !stop_.load(); i = (i + 1) % kKeys) {
      if (!clients_[0]->Put(Key(i), "v").ok()) continue;
      const Nanos now = Now();
      const Nanos gap = now - last_put_ns_.exchange(now);
      if (gap > longest_put_gap_ns_.load()) longest_put_gap_ns_.store(gap);
      SleepFor(kMillisecond);
    }
  }
  void Get() {
    for (int i = 0; !stop_.load(); i = (i + 1) % kKeys) {
      clients_[1]->Get(Key(i)).ok() ? gets_.fetch_add(1) : last_failed_get_ns_.exchange(Now());
      SleepFor(kMillisecond);
    }
  }

  std::vector<std::unique_ptr<Client>> clients_;
  std::atomic<bool> stop_{false};
  std::atomic<Nanos> last_put_ns_{0}, longest_put_gap_ns_{0}, last_failed_get_ns_{0};
  std::atomic<uint64_t> gets_{0};
  std::vector<std::unique_ptr<Thread>> threads_;
};

class AbsenceTest : public testing::Test {
 protected:
  enum class Kind { kStopped, kKilled };
  enum class Who { kLeader, kZookeeper };
  void SetUp() override {
    ProcessClusterOptions options;
    options.zookeeper_session_ms = 0;
    auto cluster = ProcessCluster::Start(options);
    if (absl::IsNotFound(cluster.status())) GTEST_SKIP() << cluster.status().message();
    ASSERT_TRUE(cluster.ok()) << cluster.status();
    cluster_ = *std::move(cluster);
    traffic_ = std::make_unique<Traffic>(cluster_->coordinators());
  }
  void TearDown() override { traffic_ = nullptr; }

  uint64_t Moves() {
    for (const auto& line :
         absl::StrSplit(HttpGet(cluster_->metrics_address("coordinator-0"), "/metrics"), '\n')) {
      uint64_t value;
      const std::vector<std::string> words = absl::StrSplit(line, ' ');
      if (words.size() == 2 && words[0] == "nova_coordinator_range_moves_total" &&
          absl::SimpleAtoi(words[1], &value))
        return value;
    }
    ADD_FAILURE() << "no count of moves";
    return 0;
  }
  void Leave(Who who, Kind kind) {
    if (who == Who::kZookeeper) {
      return kind == Kind::kStopped ? cluster_->zookeeper()->Pause() : cluster_->zookeeper()->Kill();
    }
    kind == Kind::kStopped ? cluster_->Signal(kLeader, SIGSTOP) : cluster_->Kill(kLeader);
  }
  void Return(Who who, Kind kind) {
    if (kind == Kind::kStopped) {
      return who == Who::kZookeeper ? cluster_->zookeeper()->Resume() : cluster_->Signal(kLeader, SIGCONT);
    }
    const Status back =
        who == Who::kZookeeper ? cluster_->zookeeper()->Restart() : cluster_->Restart(kLeader);
    ASSERT_TRUE(back.ok()) << back;
  }

  // Nobody who lives loses a range, puts never stop, and gets are back soon after the leader is.
  void ExpectNotMissed(Who who, Kind kind, Nanos away_ns, Nanos watched_ns = 3 * kSecond) {
    const std::string what =
        StrCat(who == Who::kLeader ? "coordinator" : "ZooKeeper",
               kind == Kind::kStopped ? " stopped for " : " killed for ", away_ns / kSecond, " s");
    SCOPED_TRACE(what);
    // A new process counts anew.
    const uint64_t moves = who == Who::kLeader && kind == Kind::kKilled ? 0 : Moves();
    traffic_->TakeLongestPutGap();
    Leave(who, kind);
    SleepFor(away_ns);
    Return(who, kind);
    const Nanos back = Now();
    SleepFor(watched_ns);
    const Nanos put_gap = traffic_->TakeLongestPutGap();
    const Nanos gets_back = std::max<Nanos>(0, traffic_->last_failed_get_ns() - back);
    std::printf("%s: longest time without a put %lld ms, gets back after %lld ms\n", what.c_str(),
                static_cast<long long>(put_gap / kMillisecond),
                static_cast<long long>(gets_back / kMillisecond));
    EXPECT_LT(put_gap, kMostPutGap + machine_.worst());
    EXPECT_LT(gets_back, kMostGetDelay + machine_.worst());
    EXPECT_EQ(Moves(), moves) << "a range of a living LTC moved";
  }

  // An LTC that dies while nobody leads is replaced once somebody does: after C2's wait and those 10 s, at
  // the latest.
  void ExpectReplaced(Who who, Kind kind, Nanos away_ns) {
    Leave(who, kind);
    cluster_->Kill("ltc-1");
    SleepFor(away_ns);
    Return(who, kind);
    const Nanos back = Now();
    const Status open = cluster_->WaitOpen(back + 25 * kSecond);
    EXPECT_TRUE(open.ok()) << open;
    std::printf("an LTC that died meanwhile was replaced %lld ms after the leader was back\n",
                static_cast<long long>((Now() - back) / kMillisecond));
  }

  static constexpr char kLeader[] = "coordinator-0";
  static constexpr Nanos kMostPutGap = 1500 * kMillisecond;
  static constexpr Nanos kMostGetDelay = 2 * kSecond;
  MachineWatch machine_{std::filesystem::temp_directory_path().string()};
  std::unique_ptr<ProcessCluster> cluster_;
  std::unique_ptr<Traffic> traffic_;
};

}  // namespace nova
