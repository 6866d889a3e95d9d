// KillRounds: a load judged by nova_checker while processes of a cluster are killed with -9 and come back.
//
// Thread safety: one thread.   Errors: GoogleTest failures.
#pragma once

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "common/base/random.h"
#include "tests/cluster/machine_watch.h"
#include "tests/cluster/process_cluster.h"

namespace nova {

// nova_checker, its input a pipe.
class Checker {
 public:
  Checker(const std::string& coordinators, int threads, int keys, int value_bytes) {
    const std::string fifo = StrCat("/tmp/nova-checker-", getpid(), ".in");
    unlink(fifo.c_str());
    EXPECT_EQ(mkfifo(fifo.c_str(), 0600), 0);
    auto process = Process::Start({"/bin/sh", "-c",
                                   StrCat("exec " NOVA_BINARY_DIR "/bin/nova_checker ", coordinators, " ",
                                          threads, " ", keys, " ", value_bytes, " <", fifo)});
    EXPECT_TRUE(process.ok()) << process.status();
    process_ = *std::move(process);
    input_ = fopen(fifo.c_str(), "w");
    unlink(fifo.c_str());
  }
  ~Checker() { fclose(input_); }

  struct Second {
    uint64_t ok = 0, failed = 0, unknown = 0;
    // the longest gap of a client thread, beyond what the machine has held up a thread so far
    uint64_t worst_ms = 0;
  };
  // The report of the next second; reports wait unread in a pipe, so this may be one of long ago.
  Second Next() {
    const auto line = process_->ReadLine(Now() + 60 * kSecond);
    Second s;
    if (!line.ok()) {
      ADD_FAILURE() << "the checker ended: " << line.status();
      return s;
    }
    const std::vector<std::string> w = absl::StrSplit(*line, ' ');
    if (w.size() != 10 || w[0] != "second") {
      ADD_FAILURE() << *line;
      return s;
    }
    EXPECT_TRUE(absl::SimpleAtoi(w[3], &s.ok) && absl::SimpleAtoi(w[5], &s.failed) &&
                absl::SimpleAtoi(w[7], &s.unknown) && absl::SimpleAtoi(w[9], &s.worst_ms));
    s.worst_ms -= std::min(s.worst_ms, static_cast<uint64_t>(machine_.worst() / kMillisecond));
    return s;
  }
  // Leaves out the reports that wait: Next() is then a second that begins about now.
  void SkipToNow() {
    while (process_->ReadLine(Now() + kMillisecond).ok()) {
    }
  }
  // Stops the load and checks everything.
  std::string Verify() {
    fputs("verify\n", input_);
    fflush(input_);
    for (;;) {
      const auto line = process_->ReadLine(Now() + 120 * kSecond);
      if (!line.ok()) return std::string(line.status().message());
      if (!line->starts_with("second ")) return *line;
    }
  }

 private:
  MachineWatch machine_{std::filesystem::temp_directory_path().string()};
  std::unique_ptr<Process> process_;
  FILE* input_ = nullptr;
};

class KillTest : public testing::Test {
 protected:
  void Start(ProcessClusterOptions options) {
    options.coordinators = 2;
    options.ltc_flags.insert(options.ltc_flags.end(),
                             {"--table_replicas=2", "--memtable_mb=1", "--table_mb=1", "--level1_mb=4"});
    // Ranges go from an LTC with Dranges in memory and in Level0 to others, one of which has StoCs compact,
    // and back.
    options.node_flags["ltc-1"] = {"--dranges=16", "--least_table_kb=64", "--memtable_partitioning=drange",
                                   "--active_memtables=4", "--lookup_index"};
    options.node_flags["ltc-0"] = {"--compaction_offload=round_robin"};
    auto cluster = ProcessCluster::Start(options);
    if (absl::IsNotFound(cluster.status())) GTEST_SKIP() << cluster.status().message();
    ASSERT_TRUE(cluster.ok()) << cluster.status();
    cluster_ = *std::move(cluster);
  }
  std::unique_ptr<ProcessCluster> cluster_;
};

// `rounds` kills in turn: a StoC, an LTC, the leading coordinator; each comes back after some seconds.
inline void KillRounds(ProcessCluster* cluster, int rounds) {
  Checker checker(cluster->coordinators(), 8, 4000, 500);
  Random random(301);
  for (int i = 0; i < 3; ++i) checker.Next();
  for (int round = 0; round < rounds && !testing::Test::HasFailure(); ++round) {
    std::string victim;
    switch (round % 3) {
      case 0:
        victim = StrCat("stoc-", random.Uniform(3));
        break;
      case 1:
        victim = StrCat("ltc-", round / 3 % 2);
        break;  // in turn: the one killed last has no ranges
      default:
        victim = cluster->LeadingCoordinator();
        break;
    }
    if (victim.empty()) continue;  // an election is under way
    cluster->Kill(victim);
    uint64_t ok = 0;
    int worst = 0;
    for (int second = 0; second < 4; ++second) {
      const Checker::Second s = checker.Next();
      ok += s.ok;
      worst = std::max(worst, static_cast<int>(s.worst_ms));
    }
    EXPECT_GT(ok, 0u) << "nothing went on after " << victim << " was killed";
    const Status back = cluster->Restart(victim);
    ASSERT_TRUE(back.ok()) << back;
    for (int second = 0; second < 3; ++second)
      worst = std::max(worst, static_cast<int>(checker.Next().worst_ms));
    std::printf("round %d: %s killed and back, longest gap of a client thread %d ms\n", round, victim.c_str(),
                worst);
    std::fflush(stdout);
    // Lease 2 s and 5 s to open (issue's bound), and what a read's own try waits.
    EXPECT_LT(worst, round % 3 == 0 ? 4000 : 9000) << victim;
  }
  const std::string verdict = checker.Verify();
  EXPECT_TRUE(verdict.starts_with("verified 4000 keys")) << verdict;
  std::printf("%s\n", verdict.c_str());
}

}  // namespace nova
