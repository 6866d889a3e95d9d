// The programs as a user types them: the tool's commands, bad input, bad flags, values up to 16 MB, malformed
// bytes on ports.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "absl/strings/str_split.h"
#include "client/client.h"
#include "client/exit_codes.h"
#include "client/nova.h"
#include "common/base/random.h"
#include "tests/cluster/connect_client.h"
#include "tests/cluster/process_cluster.h"

namespace nova {
namespace {

class ToolTest : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    ProcessClusterOptions options;
    options.ltc_flags = {"--max_value_bytes=16777216", "--table_replicas=2"};
    options.coordinator_flags = {"--max_value_bytes=16777216"};
    auto cluster = ProcessCluster::Start(options);
    if (absl::IsNotFound(cluster.status())) return;
    ASSERT_TRUE(cluster.ok()) << cluster.status();
    cluster_ = cluster->release();
  }
  static void TearDownTestSuite() {
    delete cluster_;
    cluster_ = nullptr;
  }
  void SetUp() override {
    if (cluster_ == nullptr) GTEST_SKIP() << "ZooKeeper is not installed";
  }
  static int Nova(const std::vector<std::string>& arguments, std::string* output,
                  const std::string& input = "") {
    return cluster_->Nova(arguments, output, input);
  }
  static ProcessCluster* cluster_;
};
ProcessCluster* ToolTest::cluster_ = nullptr;

TEST_F(ToolTest, PutGetDeleteScanStatus) {
  std::string out;
  EXPECT_EQ(Nova({"put", "tool/a", "1"}, &out), 0) << out;
  EXPECT_EQ(Nova({"put", "tool/b", "two words"}, &out), 0) << out;
  EXPECT_EQ(Nova({"get", "tool/b"}, &out), 0);
  EXPECT_EQ(out, "two words\n");
  EXPECT_EQ(Nova({"scan", "tool/", "2"}, &out), 0);
  EXPECT_EQ(out, "tool/a\t1\ntool/b\ttwo words\n");
  EXPECT_EQ(Nova({"delete", "tool/a"}, &out), 0);
  EXPECT_EQ(Nova({"get", "tool/a"}, &out), kExitNotFound);
  EXPECT_EQ(out, "get: NotFound\n");
  EXPECT_EQ(Nova({"status"}, &out), 0);
  for (const char* word :
       {"ltc-0", "stoc-2", "coordinator-0", "durability", "open", "memtables", "block_cache"})
    EXPECT_NE(out.find(word), std::string::npos) << word;
}

TEST_F(ToolTest, ShellReadsCommandsFromItsInput) {
  std::string out;
  EXPECT_EQ(Nova({"shell"}, &out, "put \"shell key\" \"a \\\"quoted\\\" value\"\nget \"shell key\"\nquit\n"),
            0);
  EXPECT_EQ(out, "a \"quoted\" value\n");
  EXPECT_EQ(Nova({"shell"}, &out, "get nothing-here\n"), kExitNotFound);
  EXPECT_EQ(Nova({"shell"}, &out, "frobnicate\n"), 2);
}

TEST_F(ToolTest, BatchesSwapsMultiGetsExpiriesAndPrefixes) {
  std::string out;
  EXPECT_EQ(Nova({"batch", "put", "sem/a", "1", "put", "sem/b", "2", "put-ttl", "sem/c", "3", "600000",
                  "delete", "sem/a"},
                 &out),
            0)
      << out;
  EXPECT_EQ(Nova({"mget", "sem/c", "sem/b"}, &out), 0) << out;
  EXPECT_EQ(out, "sem/c\t3\nsem/b\t2\n");
  EXPECT_EQ(Nova({"mget", "sem/a"}, &out), kExitNotFound);
  EXPECT_EQ(out, "mget: NotFound: sem/a\n");
  EXPECT_EQ(Nova({"cas", "sem/b", "2", "two"}, &out), 0) << out;
  EXPECT_EQ(Nova({"cas", "sem/b", "2", "x"}, &out), kExitConditionFailed);
  EXPECT_EQ(out, "compare-and-swap: ConditionFailed\n");
  EXPECT_EQ(Nova({"cas", "sem/d", "--absent", "new"}, &out), 0) << out;
  EXPECT_EQ(Nova({"cas", "sem/d", "--absent", "new"}, &out), kExitConditionFailed);
  EXPECT_EQ(Nova({"cas", "sem/d", "new", "--delete"}, &out), 0) << out;
  EXPECT_EQ(Nova({"get", "sem/d"}, &out), kExitNotFound);
  EXPECT_EQ(Nova({"cas", "sem/d", "x"}, &out), 2);
  EXPECT_EQ(Nova({"put", "sem/e", "x", "1"}, &out), 0) << out;
  SleepFor(20 * kMillisecond);
  EXPECT_EQ(Nova({"scan", "", "10", "--prefix=sem/"}, &out), 0);
  EXPECT_EQ(out, "sem/b\ttwo\nsem/c\t3\n");
  EXPECT_EQ(Nova({"scan", "sem/", "1", "--reverse", "--to", "sem/c"}, &out), 0);
  EXPECT_EQ(out, "sem/b\ttwo\n");
  EXPECT_EQ(Nova({"put", "sem/e", "x", "soon"}, &out), 2);
  EXPECT_EQ(Nova({"batch", "put", "sem/a"}, &out), 2);
  EXPECT_EQ(Nova({"batch", "put", "\x01", "x", "put", "zzz", "y"}, &out), 2) << "over ranges";
  EXPECT_NE(out.find("more than one range"), std::string::npos) << out;
  EXPECT_EQ(Nova({"get", "zzz"}, &out), kExitNotFound);
  EXPECT_EQ(Nova({"batch", "put", "del/a", "1", "delete-range", "del/", "del0", "put", "del/b", "2", "put",
                  "del/c", "3"},
                 &out),
            0)
      << out;
  EXPECT_EQ(Nova({"scan", "", "10", "--prefix=del/"}, &out), 0);
  EXPECT_EQ(out, "del/b\t2\ndel/c\t3\n");
  EXPECT_EQ(Nova({"delete-range", "del/", "del/c"}, &out), 0) << out;
  EXPECT_EQ(Nova({"scan", "", "10", "--prefix=del/"}, &out), 0);
  EXPECT_EQ(out, "del/c\t3\n");
  EXPECT_EQ(Nova({"delete-range", "del/c", "del/c"}, &out), 2);
  EXPECT_EQ(Nova({"delete-range", "del/c"}, &out), 2);
  EXPECT_EQ(Nova({"get", "del/c"}, &out), 0);
}

TEST_F(ToolTest, CheckpointAndRestore) {
  std::string out;
  EXPECT_EQ(Nova({"put", "cp/a", "1"}, &out), 0) << out;
  EXPECT_EQ(Nova({"checkpoint", "before"}, &out), 0) << out;
  EXPECT_EQ(Nova({"checkpoint", "before"}, &out), kExitConditionFailed);
  EXPECT_NE(out.find("there is a checkpoint before"), std::string::npos) << out;
  EXPECT_EQ(Nova({"put", "cp/a", "2"}, &out), 0) << out;
  EXPECT_EQ(Nova({"put", "cp/b", "2"}, &out), 0) << out;
  EXPECT_EQ(Nova({"checkpoint", "--list"}, &out), 0) << out;
  EXPECT_TRUE(out.starts_with("before\t")) << out;
  EXPECT_TRUE(out.ends_with("\tcomplete\n")) << out;
  EXPECT_EQ(Nova({"restore", "before"}, &out), 0) << out;
  EXPECT_EQ(Nova({"scan", "cp/", "10", "--prefix=cp/"}, &out), 0);
  EXPECT_EQ(out, "cp/a\t1\n");
  EXPECT_EQ(Nova({"checkpoint", "--delete", "before"}, &out), 0) << out;
  EXPECT_EQ(Nova({"checkpoint", "--delete", "before"}, &out), kExitNotFound);
  EXPECT_EQ(Nova({"restore", "before"}, &out), kExitNotFound);
  EXPECT_NE(out.find("nothing was restored"), std::string::npos) << out;
  EXPECT_EQ(Nova({"checkpoint", "a/b"}, &out), 2);
  EXPECT_EQ(Nova({"checkpoint"}, &out), 2);
  EXPECT_EQ(Nova({"checkpoint", "--list"}, &out), 0);
  EXPECT_EQ(out, "");
}

TEST_F(ToolTest, AShellReadsAtItsSnapshot) {
  std::string out;
  EXPECT_EQ(Nova({"snapshot", "take"}, &out), 2);
  EXPECT_EQ(Nova({"shell"}, &out,
                 "put snap/a 1\nsnapshot take\nput snap/a 2\nput snap/b 2\nget snap/a\nscan snap/ 5 --prefix "
                 "snap/\nmget snap/a\n"
                 "snapshot drop\nget snap/a\nquit\n"),
            0)
      << out;
  EXPECT_EQ(out, "1\nsnap/a\t1\nsnap/a\t1\n2\n");
}

// The same by the C interface, whose program of README.md does the rest.
TEST_F(ToolTest, TheCInterfaceSaysTheSame) {
  char* error = nullptr;
  nova_client* c = nova_open(cluster_->coordinators().c_str(), &error);
  ASSERT_NE(c, nullptr) << error;
  EXPECT_EQ(nova_put_ttl(c, "c/ttl", 5, "x", 1, 0), NOVA_INVALID_ARGUMENT);
  EXPECT_EQ(nova_put_ttl(c, "c/ttl", 5, "x", 1, 600'000), NOVA_OK) << nova_last_error();
  EXPECT_EQ(nova_compare_and_swap(c, "c/k", 3, nullptr, 0, "", 0), NOVA_OK) << nova_last_error();
  EXPECT_EQ(nova_compare_and_swap(c, "c/k", 3, nullptr, 0, "new", 3), NOVA_CONDITION_FAILED);
  EXPECT_EQ(nova_effect_of(NOVA_CONDITION_FAILED), NOVA_NOT_APPLIED);
  nova_snapshot* snapshot = nullptr;
  ASSERT_EQ(nova_snapshot_take(c, &snapshot), NOVA_OK) << nova_last_error();
  nova_batch* batch = nova_batch_create();
  nova_batch_put(batch, "c/k", 3, "new", 3);
  nova_batch_put_ttl(batch, "c/l", 3, "new", 3, 600'000);
  nova_batch_delete(batch, "c/ttl", 5);
  EXPECT_EQ(nova_write(c, batch), NOVA_OK) << nova_last_error();
  const nova_write_options no_sync{600'000, 1}, none{0, 0};
  EXPECT_EQ(nova_put_with(c, &no_sync, "c/w", 3, "x", 1), NOVA_OK) << nova_last_error();
  EXPECT_EQ(nova_put_with(c, nullptr, "c/w", 3, "x", 1), NOVA_OK) << nova_last_error();
  EXPECT_EQ(nova_delete_with(c, &no_sync, "c/w", 3), NOVA_OK) << nova_last_error();
  EXPECT_EQ(nova_write_with(c, &none, batch), NOVA_OK) << nova_last_error();
  nova_batch_clear(batch);
  EXPECT_EQ(nova_write(c, batch), NOVA_OK);
  EXPECT_EQ(nova_put(c, "c/r/1", 5, "x", 1), NOVA_OK) << nova_last_error();
  nova_batch_delete_range(batch, "c/r/", 4, "c/r0", 4);
  nova_batch_put(batch, "c/r/2", 5, "x", 1);
  EXPECT_EQ(nova_write(c, batch), NOVA_OK) << nova_last_error();
  nova_batch_free(batch);
  char* in_range = nullptr;
  size_t in_range_size = 0;
  EXPECT_EQ(nova_get(c, "c/r/1", 5, &in_range, &in_range_size), NOVA_NOT_FOUND);
  EXPECT_EQ(nova_get(c, "c/r/2", 5, &in_range, &in_range_size), NOVA_OK) << nova_last_error();
  nova_free(in_range);
  EXPECT_EQ(nova_delete_range(c, "c/r/", 4, "c/r0", 4), NOVA_OK) << nova_last_error();
  EXPECT_EQ(nova_get(c, "c/r/2", 5, &in_range, &in_range_size), NOVA_NOT_FOUND);
  EXPECT_EQ(nova_delete_range(c, "c/r0", 4, "c/r/", 4), NOVA_INVALID_ARGUMENT);
  char* value = nullptr;
  size_t size = 9;
  EXPECT_EQ(nova_get_at(c, snapshot, "c/k", 3, &value, &size), NOVA_OK) << nova_last_error();
  EXPECT_EQ(size, 0u);
  nova_free(value);
  const char* const keys[] = {"c/ttl", "c/k", "c/l"};
  const size_t sizes[] = {5, 3, 3};
  for (const nova_snapshot* at :
       {static_cast<const nova_snapshot*>(snapshot), static_cast<const nova_snapshot*>(nullptr)}) {
    nova_values* values = nullptr;
    ASSERT_EQ(nova_multi_get(c, at, 3, keys, sizes, &values), NOVA_OK) << nova_last_error();
    const auto is = [&](size_t i) {
      size_t n;
      const char* v = nova_values_get(values, i, &n);
      return v == nullptr ? std::string("none") : "=" + std::string(v, n);
    };
    EXPECT_EQ(is(0) + is(1) + is(2), at != nullptr ? "=x=none" : "none=new=new");
    nova_values_free(values);
  }
  nova_scan_options options{};
  options.prefix = "c/";
  options.prefix_size = 2;
  options.snapshot = snapshot;
  nova_scan_result* scan = nullptr;
  ASSERT_EQ(nova_scan_with(c, &options, &scan), NOVA_OK) << nova_last_error();
  ASSERT_EQ(nova_scan_count(scan), 2u);
  EXPECT_EQ(std::string(nova_scan_key(scan, 1, &size)), "c/ttl");
  nova_scan_free(scan);
  nova_iterator_options bounds{};
  bounds.lower = "c/";
  bounds.lower_size = 2;
  bounds.upper = "c0";
  bounds.upper_size = 2;
  bounds.snapshot = snapshot;
  nova_iterator* it = nova_iterator_create(c, &bounds);
  ASSERT_NE(it, nullptr);
  EXPECT_EQ(nova_iterator_valid(it), 0);
  std::string seen;
  const auto take = [&] {
    const char* key = nova_iterator_key(it, &size);
    seen.append(key, size).append("=");
    const char* of_it = nova_iterator_value(it, &size);
    seen.append(of_it, size).append(" ");
  };
  for (nova_iterator_seek_to_first(it); nova_iterator_valid(it) != 0; nova_iterator_next(it)) take();
  EXPECT_EQ(seen, "c/k= c/ttl=x ");
  for (nova_iterator_seek_to_last(it); nova_iterator_valid(it) != 0; nova_iterator_prev(it)) take();
  EXPECT_EQ(seen, "c/k= c/ttl=x c/ttl=x c/k= ");
  nova_iterator_seek(it, "c/l", 3);
  ASSERT_NE(nova_iterator_valid(it), 0) << nova_last_error();
  take();
  nova_iterator_seek_for_prev(it, "c/l", 3);
  ASSERT_NE(nova_iterator_valid(it), 0) << nova_last_error();
  take();
  EXPECT_EQ(seen, "c/k= c/ttl=x c/ttl=x c/k= c/ttl=x c/k= ");
  EXPECT_EQ(nova_iterator_outcome(it), NOVA_OK);
  nova_iterator_free(it);
  nova_snapshot_drop(snapshot);
  nova_close(c);
}

// Success would say that what was asked for is there.
TEST_F(ToolTest, OutputThatIsLostIsNoSuccess) {
  std::string out;
  ASSERT_EQ(Nova({"put", "lost/a", "1"}, &out), 0) << out;
  const std::string nova = StrCat(NOVA_BINARY_DIR "/bin/nova --coordinators=", cluster_->coordinators(), " ");
  const auto bash = [&out](const std::string& line) { return RunToEnd({"/bin/bash", "-c", line}, &out); };
  ASSERT_EQ(Nova({"checkpoint", "lost"}, &out), 0) << out;
  for (const char* words :
       {"get lost/a", "mget lost/a", "scan lost/ 1", "status", "status --json", "checkpoint --list",
        "shell <<< 'get lost/a'", "--help", "debug failpoints", "bench LOAD --records=10 --operations=10"}) {
    EXPECT_EQ(bash(nova + words + " >/dev/full"), kExitFailed) << words << ": " << out;
    EXPECT_NE(out.find("error: output is lost"), out.npos) << words << ": " << out;
  }
  EXPECT_EQ(bash(nova + "get lost/b >/dev/full"), kExitNotFound);
  EXPECT_EQ(bash(nova + "put lost/b 1 >/dev/full"), kExitOk) << "it prints nothing";
  // Lines behind the one whose output was lost are not executed.
  EXPECT_EQ(bash(nova + "shell >/dev/full <<< $'get lost/a\ndelete lost/a'"), kExitFailed) << out;
  EXPECT_EQ(Nova({"get", "lost/a"}, &out), 0) << out;
  ASSERT_EQ(Nova({"checkpoint", "--delete", "lost"}, &out), 0) << out;
}

TEST_F(ToolTest, AScanEndsWithWhoReadsIt) {
  std::string out;
  std::string puts;
  for (int i = 0; i < 100; ++i) puts += StrCat("put head/", i, " ", std::string(4000, 'v'), "\n");
  ASSERT_EQ(Nova({"shell"}, &out, puts), 0) << out;
  const std::string scan =
      StrCat(NOVA_BINARY_DIR "/bin/nova --coordinators=", cluster_->coordinators(), " scan head/ 100");
  EXPECT_EQ(RunToEnd({"/bin/bash", "-c", scan + " | head -c 3; exit ${PIPESTATUS[0]}"}, &out), kExitFailed);
  EXPECT_EQ(out, "hea") << "nobody is to be told";
}

TEST_F(ToolTest, BadInputIsOneLineAndWritesNothing) {
  std::string out;
  EXPECT_EQ(Nova({"put", "", "x"}, &out), 2);
  EXPECT_EQ(out, "the key is empty\n");
  EXPECT_EQ(Nova({"put", std::string(4097, 'k'), "x"}, &out), 2);
  EXPECT_EQ(out, "the key has 4097 bytes, the limit is 4096\n");
  EXPECT_EQ(Nova({"put", std::string(4096, 'k'), "x"}, &out), 0) << out;
  EXPECT_EQ(Nova({"get", std::string(4096, 'k')}, &out), 0);
  EXPECT_EQ(Nova({"delete", std::string(4096, 'k')}, &out), 0);
  EXPECT_EQ(Nova({"--nonsense", "get", "x"}, &out), 2);
  EXPECT_EQ(Nova({"--timeout_ms=fast", "get", "x"}, &out), 2);
}

// Whatever is typed wrong is one line that names the command, exit 2, and writes nothing.
TEST_F(ToolTest, WrongWordsAreOneLineAndExitTwo) {
  std::string out;
  for (const std::vector<std::string>& words :
       std::vector<std::vector<std::string>>{{},
                                             {"frobnicate"},
                                             {"put"},
                                             {"put", "words/a"},
                                             {"put", "words/a", "1", "60000", "more"},
                                             {"put", "--delete", "words/a"},
                                             {"put", "words/a", "1", "--delete"},
                                             {"put", "words/a", "1", "-5"},
                                             {"get", "words/a", "get"},
                                             {"delete", "words/a", "words/b"},
                                             {"scan", "words/", "0"},
                                             {"scan", "words/", "--prefix"},
                                             {"cas", "words/a", "--absent"},
                                             {"cas", "words/a", "--delete", "--absent", "x"},
                                             {"batch", "put", "words/a", "1", "frobnicate"},
                                             {"checkpoint", "--list", "words"},
                                             {"status", "words"},
                                             {"snapshot", "keep"},
                                             {"force-open", "first"},
                                             {"bench", "W50"},
                                             {"bench", "W100", "R100"},
                                             {"bench", "W100", "--workload=R100"},
                                             {"bench", "--threads=0"},
                                             {"debug"},
                                             {"doctor", "--address=here"},
                                             {"get", "words/a", "--workload=R100"}}) {
    EXPECT_EQ(Nova(words, &out), 2) << (words.empty() ? "nothing" : words[0]) << ": " << out;
    EXPECT_EQ(std::count(out.begin(), out.end(), '\n'), 1) << out;
    EXPECT_TRUE(out.starts_with("error: ")) << out;
  }
  EXPECT_EQ(Nova({"scan", "", "10", "--prefix=words/"}, &out), 0);
  EXPECT_EQ(out, "");
}

// Texts that mean something to the parser: options, commands, its lists; an option's empty value.
TEST_F(ToolTest, AnyTextIsAKeyOrAValue) {
  std::string out;
  for (const std::string text : {"get", "put", "[1,2]", "[", "{}", "++", "-5", "\x01", "\x01\x01", "a=b",
                                 "--sync=false", "-v", "--", "%%"}) {
    EXPECT_EQ(Nova({"put", "--", text, text}, &out), 0) << text << ": " << out;
    EXPECT_EQ(Nova({"get", "--", text}, &out), 0) << text << ": " << out;
    EXPECT_EQ(out, text + "\n");
    EXPECT_EQ(Nova({"mget", "--", text}, &out), 0) << text << ": " << out;
    EXPECT_EQ(out, text + "\t" + text + "\n");
    EXPECT_EQ(Nova({"batch", "delete", "--", text}, &out), 0) << text << ": " << out;
    EXPECT_EQ(Nova({"get", "--", text}, &out), kExitNotFound) << text;
  }
  EXPECT_EQ(Nova({"put", "get", "[1,2]"}, &out), 0) << out;
  EXPECT_EQ(Nova({"mget", "get", "--rdma_device=", "--timeout_ms=9000"}, &out), 0) << out;
  EXPECT_EQ(out, "get\t[1,2]\n");
  EXPECT_EQ(Nova({"scan", "get", "1", "--prefix=", "--sync"}, &out), 2) << "scan does not write";
  EXPECT_EQ(Nova({"scan", "get", "1", "--prefix="}, &out), 0);
  EXPECT_EQ(out, "get\t[1,2]\n");
  EXPECT_EQ(Nova({"cas", "get", "[1,2]", ""}, &out), 0) << out;
  EXPECT_EQ(Nova({"get", "get"}, &out), 0);
  EXPECT_EQ(out, "\n");
  EXPECT_EQ(Nova({"delete", "get", "--sync=false"}, &out), 0) << out;
}

TEST_F(ToolTest, HelpAndVersionBelongToWhatIsAskedFor) {
  std::string out;
  EXPECT_EQ(Nova({"--help"}, &out), 0);
  for (const char* said : {"--timeout_ms", "delete-range", "NOVA_COORDINATORS", "Exit codes"})
    EXPECT_NE(out.find(said), std::string::npos) << said << ": " << out;
  EXPECT_EQ(out.find("--threads"), std::string::npos) << out;
  EXPECT_EQ(Nova({"bench", "--help"}, &out), 0);
  EXPECT_NE(out.find("--threads"), std::string::npos) << out;
  EXPECT_EQ(out.find("--timeout_ms INT"), std::string::npos) << out;
  EXPECT_EQ(Nova({"put", "--help"}, &out), 0);
  EXPECT_NE(out.find("KEY VALUE [TTL_MS]"), std::string::npos) << out;
  EXPECT_EQ(Nova({"shell"}, &out, "help\nput --help\n"), 0);
  EXPECT_NE(out.find("KEY VALUE [TTL_MS]"), std::string::npos) << out;
  EXPECT_EQ(out.find("--coordinators"), std::string::npos) << out;
  EXPECT_EQ(Nova({"--version"}, &out), 0);
  EXPECT_TRUE(out.starts_with("nova 0.") || out.starts_with("nova 1.")) << out;
  const std::string version = out.substr(5);
  for (const std::string program : {"nova_ltc", "nova_stoc", "nova_coordinator", "nova_fsck"}) {
    EXPECT_EQ(RunToEnd({StrCat(NOVA_BINARY_DIR "/bin/", program), "--version"}, &out), 0);
    EXPECT_EQ(out, StrCat(program, " version ", version));
  }
}

TEST_F(ToolTest, BenchRunsTheWorkloadThatIsNamed) {
  std::string out;
  const std::vector<std::string> rest = {"--records=100", "--operations=200", "--threads=2", "--noprogress"};
  const auto bench = [&](const std::vector<std::string>& words) {
    std::vector<std::string> all = {"bench"};
    all.insert(all.end(), words.begin(), words.end());
    all.insert(all.end(), rest.begin(), rest.end());
    EXPECT_EQ(Nova(all, &out), 0) << out;
    return out;
  };
  EXPECT_TRUE(bench({"LOAD"}).starts_with("LOAD ")) << out;
  EXPECT_TRUE(bench({"W100"}).starts_with("W100 ")) << out;
  EXPECT_TRUE(bench({"--workload=R100"}).starts_with("R100 ")) << out;
  EXPECT_TRUE(bench({}).starts_with("RW50 ")) << out;
  EXPECT_NE(bench({"--rate=1000"}).find("2 threads, an open loop of 1000 a second: 200 operations"), out.npos)
      << out;
}

// A port that somebody listens at is not enough.
TEST_F(ToolTest, DoctorKnowsAZookeeperFromAnotherListener) {
  std::string out;
  const auto doctor = [&](const std::string& zookeeper) {
    return RunToEnd({NOVA_BINARY_DIR "/bin/nova", "doctor", "--fabric=tcp", "--lock_mb=0",
                     StrCat("--zookeeper=", zookeeper)},
                    &out);
  };
  EXPECT_LE(doctor(cluster_->zookeeper()->hosts()), 1) << out;
  EXPECT_NE(out.find(StrCat("good     ZooKeeper ", cluster_->zookeeper()->hosts(), " answers")), out.npos)
      << out;
  for (const std::string& other : {cluster_->coordinators(), cluster_->address("stoc-0")}) {
    EXPECT_EQ(doctor(other), 2) << out;
    EXPECT_NE(out.find(StrCat("ERROR    ZooKeeper ", other, ": what listens there is no ZooKeeper")),
              out.npos)
        << out;
  }
}

TEST_F(ToolTest, StatusIsJsonForPrograms) {
  std::string out;
  ASSERT_EQ(Nova({"status", "--json"}, &out), 0) << out;
  const nlohmann::json status = nlohmann::json::parse(out, nullptr, false);
  ASSERT_FALSE(status.is_discarded()) << out;
  EXPECT_EQ(status["coordinator"]["address"], cluster_->coordinators());
  EXPECT_EQ(status["nodes"].size(), 5u) << out;
  for (const nlohmann::json& node : status["nodes"]) {
    EXPECT_EQ(node["address"], cluster_->address(node["name"])) << out;
    EXPECT_GT(node["lease_left_ms"], 0) << out;
  }
  ASSERT_EQ(status["ranges"].size(), 16u) << out;
  for (const nlohmann::json& range : status["ranges"]) {
    EXPECT_EQ(range["state"], "open") << out;
    EXPECT_EQ(std::set<std::string>(range["log_members"].begin(), range["log_members"].end()),
              (std::set<std::string>{"stoc-0", "stoc-1", "stoc-2"}))
        << out;
  }
  EXPECT_TRUE(status["ranges"][0]["from_stored_key"].is_null()) << out;
  EXPECT_EQ(status["ranges"][0]["to_stored_key"], status["ranges"][1]["from_stored_key"]) << out;
  EXPECT_EQ(status["copies"]["log_groups"],
            nlohmann::json({{"all", 16}, {"degraded", 0}, {"fewest", 3}, {"configured", 3}}));
}

TEST_F(ToolTest, CreateRangesWithoutKeysWarns) {
  std::string out;
  EXPECT_EQ(Nova({"create-ranges"}, &out), kExitFailed) << "this cluster has ranges";
  EXPECT_TRUE(out.starts_with("warning: without keys there is one range, at one LTC")) << out;
  EXPECT_EQ(Nova({"create-ranges", "m"}, &out), kExitFailed);
  EXPECT_EQ(out.find("warning"), std::string::npos) << out;
}

// The write reaches the LTC, and its log record no StoC in time: it may be applied.
TEST_F(ToolTest, AWriteWithoutAnAnswerHasAnExitCodeOfItsOwn) {
  std::string out;
  const std::vector<std::string> stocs = {"stoc-0", "stoc-1", "stoc-2"};
  for (const std::string& stoc : stocs) cluster_->Signal(stoc, SIGSTOP);
  EXPECT_EQ(Nova({"--timeout_ms=700", "put", "silent", "1"}, &out), kExitUnknown) << out;
  for (const std::string& stoc : stocs) cluster_->Signal(stoc, SIGCONT);
  EXPECT_EQ(Nova({"put", "silent", "2"}, &out), 0) << out;
  EXPECT_EQ(
      RunToEnd({NOVA_BINARY_DIR "/bin/nova", "--coordinators=127.0.0.1:1", "--timeout_ms=500", "get", "x"},
               &out),
      kExitFailed)
      << out;
}

TEST_F(ToolTest, ValuesUpToTheLimitOf16MbRoundTripAndLargerAreRefused) {
  auto client = ConnectClient(cluster_->coordinators());
  ASSERT_NE(client, nullptr);
  Random random(301);
  for (const size_t bytes : {0u, 1u, 4096u, 65'535u, 65'536u, 1'000'000u, 1u << 20, 5'000'000u, 16u << 20}) {
    std::string value(bytes, '\0');
    for (size_t i = 0; i < bytes; i += 97) value[i] = static_cast<char>(random.Next());
    const std::string key = StrCat("big/", bytes);
    const Result put = client->Put(key, value);
    ASSERT_TRUE(put.ok()) << bytes << ": " << put.message;
    const GetResult got = client->Get(key);
    ASSERT_TRUE(got.ok()) << bytes << ": " << got.message;
    ASSERT_TRUE(got.value == value) << bytes;
  }
  EXPECT_EQ(client->Put("big/too", std::string((16 << 20) + 1, 'x')).outcome, Outcome::kInvalidArgument);
  EXPECT_EQ(client->Get("big/too").outcome, Outcome::kNotFound);
  const ScanResult scan = client->Scan("big/", 9);
  ASSERT_TRUE(scan.ok()) << scan.message;
  EXPECT_EQ(scan.entries.size(), 9u) << "a scan over values larger than its pages";
}

TEST_F(ToolTest, MalformedBytesOnAnyPortCloseThatConnectionAndTheServerLives) {
  Random random(7);
  for (const std::string& name : cluster_->names()) {
    const std::string address = cluster_->address(name);
    for (int i = 0; i < 20; ++i) {
      const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
      sockaddr_in to{};
      to.sin_family = AF_INET;
      to.sin_port = htons(static_cast<uint16_t>(std::stoi(address.substr(address.rfind(':') + 1))));
      to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
      ASSERT_EQ(connect(fd, reinterpret_cast<sockaddr*>(&to), sizeof(to)), 0) << name;
      std::string bytes(1 + random.Uniform(5000), '\0');
      for (char& c : bytes) c = static_cast<char>(random.Next());
      EXPECT_GT(send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL), 0);
      timeval wait{5, 0};
      setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof(wait));
      char answer[4096];
      ssize_t n;
      while ((n = recv(fd, answer, sizeof(answer), 0)) > 0) {
      }
      EXPECT_TRUE(n == 0 || errno == ECONNRESET) << name << " kept a malformed connection open";
      close(fd);
    }
  }
  std::string out;
  EXPECT_EQ(Nova({"put", "alive", "yes"}, &out), 0) << out;
}

// Each program, with each bad start: exit 2, and one line that names the cause.
TEST_F(ToolTest, BadStartsAreOneLineAndExitTwo) {
  struct Case {
    std::vector<std::string> argv;
    std::string says;
  };
  const std::string bin = NOVA_BINARY_DIR "/bin/";
  const std::string zookeeper = "--zookeeper=" + cluster_->zookeeper()->hosts();
  const std::string nobody = StrCat("--zookeeper=127.0.0.1:", FreePort());
  const std::string coordinators = "--coordinators=" + cluster_->coordinators();
  const std::string taken = "--address=" + cluster_->address("ltc-0");
  const std::vector<Case> cases = {
      {{bin + "nova_ltc", "--nonsense=1"}, "nonsense"},
      {{bin + "nova_ltc", zookeeper, coordinators, "--name=x", "--log_replicas=99"}, "log_replicas"},
      {{bin + "nova_ltc", zookeeper, coordinators, "--name=x", "--memtable_mb=4MB"}, "memtable_mb"},
      {{bin + "nova_ltc", zookeeper, coordinators, "--name=x", "--compression=none,gzip"},
       "--compression: 'gzip'"},
      {{bin + "nova_ltc", nobody, coordinators, "--name=x", "--zookeeper_connect_ms=500"}, "ZooKeeper"},
      {{bin + "nova_ltc", zookeeper, coordinators, "--name=x", taken}, "in use"},
      {{bin + "nova_ltc", zookeeper, coordinators}, "--name"},
      {{bin + "nova_stoc", "--nonsense=1"}, "nonsense"},
      {{bin + "nova_stoc", zookeeper, coordinators, "--name=x"}, "--data"},
      {{bin + "nova_stoc", zookeeper, coordinators, "--name=x", "--data=/proc/nova"}, "/proc/nova"},
      {{bin + "nova_stoc", nobody, coordinators, "--name=x", "--data=" + cluster_->directory() + "/never",
        "--zookeeper_connect_ms=500"},
       "ZooKeeper"},
      {{bin + "nova_coordinator", nobody, "--zookeeper_connect_ms=500", "--address=127.0.0.1:0"},
       "ZooKeeper"},
      {{bin + "nova_coordinator", zookeeper, "--address=" + cluster_->coordinators()}, "taken"},
  };
  const std::string errors = testing::TempDir() + StrCat("nova-errors-", getpid());
  for (const Case& c : cases) {
    unlink(errors.c_str());
    auto process = Process::Start(c.argv, errors);
    ASSERT_TRUE(process.ok());
    const auto code = (*process)->Wait(Now() + 20 * kSecond);
    ASSERT_TRUE(code.ok()) << c.argv[0] << " " << c.says << ": " << code.status();
    EXPECT_EQ(*code, 2) << c.argv[0] << " " << c.says;
    FILE* f = fopen(errors.c_str(), "r");
    ASSERT_NE(f, nullptr);
    char text[8192];
    const std::string said(text, fread(text, 1, sizeof(text), f));
    fclose(f);
    EXPECT_NE(said.find(c.says), std::string::npos) << c.argv[0] << " said: " << said;
    int lines = 0;  // the log's information lines aside
    for (const std::string& line : std::vector<std::string>(absl::StrSplit(said, '\n', absl::SkipEmpty())))
      lines += line[0] != 'I';
    EXPECT_EQ(lines, 1) << c.argv[0] << " said: " << said;
  }
  unlink(errors.c_str());
}

}  // namespace
}  // namespace nova
