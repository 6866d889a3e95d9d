// nova: the user's tool: put, get, delete, scan, status, an interactive shell, bench, admin commands.
#include <gflags/gflags.h>
#include <signal.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "absl/strings/str_split.h"
#include "client/bench.h"
#include "client/doctor.h"
#include "client/shell.h"
#include "common/base/failpoint.h"
#include "common/base/flags.h"

DEFINE_string(coordinators, "",
              "gRPC addresses of the coordinators, host:port,host:port; default: $NOVA_COORDINATORS");
DEFINE_string(fabric, "", "verbs, tcp or auto, as the cluster's nodes; default: $NOVA_FABRIC, else auto");
DEFINE_string(rdma_device, "",
              "NAME or NAME:PORT, as mlx5_0:1; default: $NOVA_RDMA_DEVICE, else the first that is up");
DEFINE_int32(timeout_ms, 10'000, "deadline of one operation");
DEFINE_bool(sync, true,
            "of writes, bench's too; false: where the log is on disks, acknowledged when written: survives "
            "processes, not hosts");
DEFINE_string(zookeeper, "", "doctor: host:port,... to look at");
DEFINE_string(address, "", "doctor: host:port that a node is to serve at");
DEFINE_int32(lock_mb, 1280,
             "doctor: memory that a node is to register (--log_memory_mb, --file_buffer_mb, buffers)");
DEFINE_string(fence_test, "",
              "doctor: tries which revocation of rights RDMA devices really honour: of host:port, where "
              "--fence_serve runs; or: here");
DEFINE_bool(fence_serve, false, "doctor: is the far end of one --fence_test, at --address");
DEFINE_string(workload, "RW50", "bench: LOAD, R100, RW50, SW50 or W100");
DEFINE_string(distribution, "uniform", "bench: uniform, zipfian (ranked) or scrambled");
DEFINE_int64(records, 100'000, "bench: records in the store");
DEFINE_int64(operations, 0, "bench: operations in all; 0: run for --seconds");
DEFINE_double(seconds, 10, "bench: how long to run");
DEFINE_int32(threads, 16, "bench: client threads");
DEFINE_int32(value_bytes, 1024, "bench: size of a value");
DEFINE_int32(scan_length, 10, "bench: entries of a scan");
DEFINE_bool(progress, true, "bench: a line a second on stderr");

namespace nova {
namespace {

int Bench(Client* client) {
  BenchOptions o;
  o.workload = FLAGS_workload;
  o.distribution = FLAGS_distribution;
  o.records = static_cast<uint64_t>(FLAGS_records);
  o.operations = static_cast<uint64_t>(FLAGS_operations);
  o.seconds = FLAGS_seconds;
  o.threads = FLAGS_threads;
  o.value_bytes = static_cast<size_t>(FLAGS_value_bytes);
  o.scan_length = static_cast<size_t>(FLAGS_scan_length);
  o.progress = FLAGS_progress;
  o.write.sync = FLAGS_sync;
  const auto report = RunBench(client, o);
  if (!report.ok()) ExitWithError(std::string(report.status().message()));
  std::fputs(report->c_str(), stdout);
  return report->find("\nfailed 0 ") != std::string::npos ? 0 : 1;
}

int Doctor() {
  DoctorOptions o;
  if (!FLAGS_fabric.empty()) o.fabric = FLAGS_fabric;
  o.rdma_device = FLAGS_rdma_device;
  o.address = FLAGS_address;
  o.zookeeper = FLAGS_zookeeper;
  o.coordinators = absl::StrSplit(FLAGS_coordinators, ',', absl::SkipEmpty());
  o.lock_bytes = static_cast<uint64_t>(FLAGS_lock_mb) << 20;
  o.fence_test = FLAGS_fence_test;
  o.fence_serve = FLAGS_fence_serve;
  return RunDoctor(o);
}

void CheckFlags() {
  CheckFlagOneOf("fabric", FLAGS_fabric, {"", "auto", "verbs", "tcp"});
  CheckFlagRange("timeout_ms", FLAGS_timeout_ms, 1, 86'400'000);
  if (!FLAGS_address.empty()) CheckFlagHostPort("address", FLAGS_address);
  CheckFlagRange("lock_mb", FLAGS_lock_mb, 0, 1 << 30);
  CheckFlagOneOf("workload", FLAGS_workload, {"LOAD", "R100", "RW50", "SW50", "W100"});
  CheckFlagOneOf("distribution", FLAGS_distribution, {"uniform", "zipfian", "scrambled"});
  CheckFlagRange("records", FLAGS_records, 1, 1'000'000'000'000);
  CheckFlagRange("operations", FLAGS_operations, 0, 1'000'000'000'000'000);
  CheckFlagRange("seconds", FLAGS_seconds, 0.001, 1e7);
  CheckFlagRange("threads", FLAGS_threads, 1, 4096);
  CheckFlagRange("value_bytes", FLAGS_value_bytes, 0, 16 << 20);
  CheckFlagRange("scan_length", FLAGS_scan_length, 1, 1'000'000);
}

int Main(int argc, char** argv) {
  const std::string usage =
      StrCat("[flags] COMMAND\n", CommandHelp(),
             "  shell                  the same, typed one a line\n"
             "  bench                  load in the paper's workloads (--workload, --threads ...)\n"
             "  doctor                 what this machine lacks to be a node, and the fix (--fabric, "
             "--address, --fence_test ...)\n"
             "  debug failpoints       steps at which $NOVA_FAILPOINTS can stop a node, as log.written=crash "
             "(docs/testing.md)\n");
  // The flags of commands' own: the last one long enough that nobody types it by accident.
  std::vector<std::string> command_flags;
  argc = static_cast<int>(std::remove_if(argv + 1, argv + argc,
                                         [&](const char* a) {
                                           const std::string_view flag = a;
                                           const bool match = flag == "--absent" || flag == "--delete" ||
                                                              flag == "--list" ||
                                                              flag == "--accept-data-loss";
                                           if (match) command_flags.emplace_back(flag);
                                           return match;
                                         }) -
                          argv);
  ParseFlags(usage, &argc, &argv);
  CheckFlags();
  signal(SIGPIPE, SIG_IGN);
  std::vector<std::string> words(argv + 1, argv + argc);
  if (!words.empty()) words.insert(words.end(), command_flags.begin(), command_flags.end());
  if (argc == 2 && std::string_view(argv[1]) == "doctor") return Doctor();
  if (argc == 3 && std::string_view(argv[1]) == "debug" && std::string_view(argv[2]) == "failpoints") {
    std::printf("%s", FailPointsText().c_str());
    return 0;
  }
  if (words.empty()) ExitWithError("no command: see nova --help");
  if (FLAGS_coordinators.empty()) {
    const char* from_environment = std::getenv("NOVA_COORDINATORS");
    if (from_environment == nullptr)
      ExitWithError("--coordinators=host:port or $NOVA_COORDINATORS is needed");
    FLAGS_coordinators = from_environment;
  }
  ClientOptions options;
  options.coordinators = absl::StrSplit(FLAGS_coordinators, ',', absl::SkipEmpty());
  options.timeout_ms = FLAGS_timeout_ms;
  options.fabric = FLAGS_fabric;
  options.rdma_device = FLAGS_rdma_device;
  auto client = Client::Connect(options);
  if (!client.ok()) ExitWithError(std::string(client.status().message()));
  WriteOptions write;
  write.sync = FLAGS_sync;
  Shell shell(client->get(), write);
  if (words[0] == "shell") return shell.Run();
  if (words[0] == "bench") return Bench(client->get());
  return shell.RunCommand(words);
}

}  // namespace
}  // namespace nova

int main(int argc, char** argv) { return nova::Main(argc, argv); }
