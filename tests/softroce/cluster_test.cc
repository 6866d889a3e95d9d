// A cluster of processes over real queue pairs: LTCs on one RDMA device, StoCs on the other, clients on the
// first. Run by tests/softroce/guest.sh in the emulated guest, so patience is long and nothing is judged by
// time.
#include <cstdlib>

#include "tests/cluster/kill_rounds.h"

namespace nova {
namespace {

StatusOr<std::unique_ptr<ProcessCluster>> StartCluster() {
  ProcessClusterOptions options;
  options.coordinators = 1;
  options.ltcs = 2;
  options.stocs = 3;
  options.ranges = 0;
  options.zookeeper_session_ms = 20'000;
  options.start_ns = 180 * kSecond;
  options.coordinator_flags = {"--lease_ms=30000", "--zookeeper_connect_ms=120000"};
  const std::vector<std::string> common = {"--fabric=verbs", "--zookeeper_connect_ms=120000"};
  options.ltc_flags = {StrCat("--address=", std::getenv("NOVA_VERBS_ADDRESS"), ":0"),
                       "--memtable_mb=1",
                       "--table_mb=1",
                       "--level1_mb=4",
                       "--table_replicas=2",
                       "--memtable_limit_mb=64",
                       "--block_cache_mb=32",
                       "--log_write_deadline_ms=3000"};
  options.stoc_flags = {StrCat("--address=", std::getenv("NOVA_VERBS_SERVER"), ":0"), "--log_memory_mb=128",
                        "--file_buffer_mb=64"};
  options.ltc_flags.insert(options.ltc_flags.end(), common.begin(), common.end());
  options.stoc_flags.insert(options.stoc_flags.end(), common.begin(), common.end());
  NOVA_ASSIGN_OR_RETURN(auto cluster, ProcessCluster::Start(options));
  // A command that was slow was sent twice, and says that they are there: what counts is that they open.
  [[maybe_unused]] const Status made = cluster->CreateRanges(4);
  NOVA_RETURN_IF_ERROR(cluster->WaitOpen(Now() + 180 * kSecond));
  return cluster;
}

void Say(const std::string& text) {
  std::printf("%5.0f s: %s\n", static_cast<double>(Now()) / 1e9, text.c_str());
  std::fflush(stdout);
}

TEST(VerbsClusterTest, BenchAndKills) {
  setenv("NOVA_FABRIC", "verbs", 1);
  setenv("NOVA_RDMA_DEVICE", "rxe0", 1);
  auto started = StartCluster();
  if (absl::IsNotFound(started.status())) GTEST_SKIP() << started.status().message();
  ASSERT_TRUE(started.ok()) << started.status();
  ProcessCluster* cluster = started->get();
  Say("the cluster is up");

  Checker checker(cluster->coordinators(), 4, 200, 300);
  const auto go_on = [&](const char* what, int seconds) {  // until operations end again, and a while more
    uint64_t ok = 0;
    for (int i = 0; i < 150 && !testing::Test::HasFailure(); ++i) {
      ok += checker.Next().ok;
      if (ok > 0 && i + 1 >= seconds) break;
    }
    EXPECT_GT(ok, 0u) << what;
    Say(StrCat(what, ": ", ok, " operations"));
  };
  go_on("before", 5);
  cluster->Kill("stoc-1");
  go_on("stoc-1 was killed", 10);
  ASSERT_TRUE(cluster->Restart("stoc-1").ok());
  go_on("stoc-1 is back", 5);
  cluster->Kill("ltc-0");
  go_on("ltc-0 was killed", 45);  // its lease of 30 s, and what recovery takes
  ASSERT_TRUE(cluster->Restart("ltc-0").ok());
  go_on("ltc-0 is back", 3);
  if (testing::Test::HasFailure()) return;
  // A guest without processor time for as long as a lease: a range is between two owners for a while.
  ASSERT_TRUE(cluster->WaitOpen(Now() + 180 * kSecond).ok());
  const std::string verdict = checker.Verify();
  EXPECT_TRUE(verdict.starts_with("verified 200 keys")) << verdict;
  Say(verdict);

  // After the checker: it knows what its own keys may hold, and nothing of others'.
  std::string output;
  ASSERT_EQ(cluster->Nova({"--timeout_ms=60000", "bench", "--workload=LOAD", "--records=1000", "--threads=4",
                           "--noprogress"},
                          &output),
            0)
      << output;
  EXPECT_EQ(cluster->Nova({"--timeout_ms=60000", "bench", "--workload=RW50", "--records=1000",
                           "--operations=2000", "--threads=4", "--noprogress"},
                          &output),
            0)
      << output;
  std::printf("%s\n", output.c_str());
  EXPECT_NE(HttpGet(cluster->metrics_address("ltc-0"), "/metrics").find("nova_fabric_verbs 1"),
            std::string::npos);

  Say("the bench is done");
  EXPECT_EQ(cluster->Nova({"--timeout_ms=60000", "status"}, &output), 0);
  std::printf("%s\n", output.c_str());
}

}  // namespace
}  // namespace nova
