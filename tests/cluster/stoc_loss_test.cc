// A StoC that holds logs is lost under load: the ranges that log there wait shortly, the others not at all
// (docs/testing.md, rows 13 and 17).
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <filesystem>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "client/client.h"
#include "common/base/thread.h"
#include "tests/cluster/connect_client.h"
#include "tests/cluster/machine_watch.h"
#include "tests/cluster/process_cluster.h"

namespace nova {
namespace {

constexpr int kRanges = 8;

// A client a range, which puts one record after another there.
class Putters {
 public:
  explicit Putters(const std::string& coordinators) {
    for (int r = 0; r < kRanges; ++r) {
      auto client = ConnectClient(coordinators);
      if (client == nullptr) return;
      clients_.push_back(std::move(client));
    }
    for (int r = 0; r < kRanges; ++r) {
      last_[r].store(Now());
      threads_.push_back(std::make_unique<Thread>("putter", [this, r] { Put(r); }));
    }
  }
  ~Putters() { stop_.store(true); }

  // The longest time without an acknowledged put of each range since the last call, the longest last.
  std::vector<Nanos> TakeGaps() {
    std::vector<Nanos> gaps;
    for (int r = 0; r < kRanges; ++r)
      gaps.push_back(std::max(longest_[r].exchange(0), Now() - last_[r].load()));
    std::sort(gaps.begin(), gaps.end());
    return gaps;
  }

 private:
  void Put(int range) {
    const std::string key =
        StrCat("user", 1'000'000'000'000'000'000 +
                           8'200'000'000'000'000'000 / kRanges * static_cast<uint64_t>(range) + 77);
    for (uint64_t i = 0; !stop_.load(); ++i) {
      if (!clients_[static_cast<size_t>(range)]->Put(StrCat(key, i % 100), std::string(100, 'v')).ok())
        continue;
      const Nanos now = Now();
      const Nanos gap = now - last_[range].exchange(now);
      if (gap > longest_[range].load()) longest_[range].store(gap);
      SleepFor(2 * kMillisecond);
    }
  }

  std::vector<std::unique_ptr<Client>> clients_;
  std::atomic<bool> stop_{false};
  std::array<std::atomic<Nanos>, kRanges> last_{}, longest_{};
  std::vector<std::unique_ptr<Thread>> threads_;
};

// Processes that do nothing but use processors, at the priority of everybody.
class Spinners {
 public:
  explicit Spinners(int n) {
    for (int i = 0; i < n; ++i) {
      const pid_t pid = fork();
      if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        for (volatile uint64_t turns = 0;;) turns = turns + 1;
      }
      pids_.push_back(pid);
    }
  }
  ~Spinners() {
    for (const pid_t pid : pids_) {
      kill(pid, SIGKILL);
      waitpid(pid, nullptr, 0);
    }
  }

 private:
  std::vector<pid_t> pids_;
};

// Sum of a metric, whatever its labels, over the nodes of a kind.
uint64_t Sum(ProcessCluster* cluster, const std::string& kind, const std::string& metric) {
  uint64_t sum = 0;
  for (const std::string& name : cluster->names()) {
    if (!name.starts_with(kind)) continue;
    for (const auto& line : absl::StrSplit(HttpGet(cluster->metrics_address(name), "/metrics"), '\n')) {
      uint64_t value;
      const std::vector<std::string> words = absl::StrSplit(line, ' ');
      if (words.size() == 2 && words[0].starts_with(metric) && absl::SimpleAtoi(words[1], &value))
        sum += value;
    }
  }
  return sum;
}

// How many ranges have no member of their log on the StoC: members are drawn at random, so it may be none.
size_t RangesWithoutLogOn(ProcessCluster* cluster, const std::string& stoc) {
  const std::vector<std::vector<std::string>> ranges = cluster->LogMembers();
  EXPECT_EQ(ranges.size(), static_cast<size_t>(kRanges));
  size_t without = 0;
  for (const std::vector<std::string>& members : ranges) {
    EXPECT_EQ(members.size(), 2u);
    if (std::find(members.begin(), members.end(), stoc) == members.end()) ++without;
  }
  return without;
}

// Row 54.
TEST(StarvedTest, NobodyIsTakenForDead) {
  ProcessClusterOptions options;
  options.zookeeper_session_ms = 0;
  options.ranges = kRanges;
  auto started = ProcessCluster::Start(options);
  if (absl::IsNotFound(started.status())) GTEST_SKIP() << started.status().message();
  ASSERT_TRUE(started.ok()) << started.status();
  ProcessCluster* const cluster = started->get();
  Putters putters(cluster->coordinators());
  SleepFor(2 * kSecond);
  putters.TakeGaps();
  const uint64_t moves = Sum(cluster, "coordinator", "nova_coordinator_range_moves_total");
  {
    const char* const seconds = getenv("NOVA_STARVED_SECONDS");
    const Spinners spinners(15);
    SleepFor((seconds == nullptr ? 20 : atoi(seconds)) * kSecond);
    const std::vector<Nanos> gaps = putters.TakeGaps();
    std::printf("longest time without a put of a range: %lld ms\n",
                static_cast<long long>(gaps.back() / kMillisecond));
  }
  SleepFor(2 * kSecond);
  EXPECT_EQ(Sum(cluster, "coordinator", "nova_coordinator_range_moves_total"), moves)
      << "a range of a living LTC moved";
  for (const std::string& name : cluster->names()) EXPECT_TRUE(cluster->Runs(name)) << name;
  std::string status;
  ASSERT_EQ(cluster->Nova({"status"}, &status), 0);
  for (const std::string& name : cluster->names())
    EXPECT_NE(status.find(name), std::string::npos) << name << " is no member\n" << status;
  std::printf("log groups changed: %llu\n",
              static_cast<unsigned long long>(Sum(cluster, "ltc", "nova_logc_group_changes_total")));
}

TEST(StocLossTest, HoldsUpItsOwnGroupsShortlyAndNoOthers) {
  ProcessClusterOptions options;
  options.stocs = 6;
  options.ranges = kRanges;
  options.ltc_flags = {"--log_replicas=2"};
  auto started = ProcessCluster::Start(options);
  if (absl::IsNotFound(started.status())) GTEST_SKIP() << started.status().message();
  ASSERT_TRUE(started.ok()) << started.status();
  ProcessCluster* const cluster = started->get();
  MachineWatch machine(std::filesystem::temp_directory_path().string());
  Putters putters(cluster->coordinators());
  SleepFor(2 * kSecond);
  // Beside what the machine itself held up, which is told as often as a range may have met it. `elsewhere`
  // ranges do not log at the StoC.
  const auto expect = [&](const std::string& what, Nanos most, size_t elsewhere) {
    const std::vector<Nanos> gaps = putters.TakeGaps();
    std::string text;
    for (const Nanos gap : gaps) absl::StrAppend(&text, " ", gap / kMillisecond);
    std::printf("%s: longest time without a put of each range, ms:%s (the machine: %lld)\n", what.c_str(),
                text.c_str(), static_cast<long long>(machine.worst() / kMillisecond));
    EXPECT_LT(gaps.back(), most + 2 * machine.worst()) << what;
    if (elsewhere == 0) return;
    EXPECT_LT(gaps[elsewhere - 1], 150 * kMillisecond + 2 * machine.worst())
        << what << ": a range of the " << elsewhere << " that do not log there";
  };
  putters.TakeGaps();
  for (const std::string stoc : {"stoc-0", "stoc-3"}) {
    const size_t elsewhere = RangesWithoutLogOn(cluster, stoc);
    cluster->Kill(stoc);
    SleepFor(4 * kSecond);
    expect(stoc + " killed", 300 * kMillisecond, elsewhere);
    ASSERT_TRUE(cluster->Restart(stoc).ok());
    SleepFor(2 * kSecond);
    expect(stoc + " back", 300 * kMillisecond, kRanges);
  }
  // The deadline of a WRITE to the same host, that of the ping, and the change of the group.
  for (const std::string stoc : {"stoc-1", "stoc-4"}) {
    const size_t elsewhere = RangesWithoutLogOn(cluster, stoc);
    cluster->Signal(stoc, SIGSTOP);
    SleepFor(6 * kSecond);
    expect(stoc + " stopped", 500 * kMillisecond, elsewhere);
    cluster->Signal(stoc, SIGCONT);
    SleepFor(2 * kSecond);
    expect(stoc + " goes on", 300 * kMillisecond, kRanges);
  }
}

}  // namespace
}  // namespace nova
