// nova_ltc: an LSM-tree component: serves the ranges that the coordinator assigns to it.
#include <gflags/gflags.h>
#include <signal.h>
#include <unistd.h>

#include <cstdio>

#include "absl/strings/str_split.h"
#include "common/base/exit.h"
#include "common/base/glog_output.h"
#include "common/base/http_server.h"
#include "common/base/log.h"
#include "common/config/zookeeper_store.h"
#include "common/rdma/tcp_fabric.h"
#include "coordinator/grpc_channel.h"
#include "ltc/ltc_node.h"

DEFINE_string(zookeeper, "", "ZooKeeper ensemble, host:port,host:port");
DEFINE_string(chroot, "/nova", "the cluster's path in ZooKeeper");
DEFINE_int32(zookeeper_session_ms, 4000, "ZooKeeper session timeout");
DEFINE_int32(zookeeper_connect_ms, 10000, "how long to wait for ZooKeeper at start");
DEFINE_string(coordinators, "", "gRPC addresses of the coordinators, host:port,host:port");
DEFINE_string(name, "", "of this node, unique in the cluster");
DEFINE_string(address, "127.0.0.1:0", "where to serve, host:port; port 0 picks one");
DEFINE_string(advertise, "", "where others reach this node, host:port; empty: --address as bound");
DEFINE_string(host, "", "the machine, for placing copies on distinct ones; empty: of the address");
DEFINE_string(metrics_address, "127.0.0.1:0", "where to serve /metrics and a status page");
DEFINE_string(log_mode, "memory", "none, or memory: log records in the memory of StoCs");
DEFINE_int32(log_replicas, 3, "R: members of a log group");
DEFINE_bool(strict_replicas, false, "never log to fewer than R members; writes wait instead");
DEFINE_int32(manifest_replicas, 3, "M: copies of a manifest");
DEFINE_int32(table_replicas, 1, "copies of a table's fragments and metadata");
DEFINE_int32(scatter_width, 1, "rho: StoCs over which a table is scattered");
DEFINE_int32(power_of_d, 2, "d: StoCs looked at for each one picked");
DEFINE_int32(memtable_mb, 4, "tau: size of a memtable");
DEFINE_int32(active_memtables, 2, "alpha: memtables of a range that take writes at once");
DEFINE_int32(max_rounds, 6, "delta / alpha: rounds of memtables of a range, the active one included");
DEFINE_int32(memtable_limit_mb, 512, "memory of all memtables of this process");
DEFINE_int32(block_cache_mb, 256, "memory of the block cache");
DEFINE_int32(table_mb, 4, "size at which a table ends");
DEFINE_int32(level1_mb, 64, "target size of Level1; deeper levels are ten times the one above");
DEFINE_int32(level0_runs, 4, "runs of Level0 that start a compaction");
DEFINE_int32(max_value_bytes, 1 << 20, "largest value accepted");
DEFINE_int32(xchg_threads, 1, "exchange threads: they serve requests");
DEFINE_int32(flush_threads, 2, "threads that write memtables to StoCs");
DEFINE_int32(compaction_threads, 2, "threads that merge tables");

namespace google {
extern void (*gflags_exitfunc)(int);
}

namespace nova {
namespace {

void CheckRange(const char* flag, int64_t value, int64_t min, int64_t max) {
  if (value < min || value > max) ExitWithError(StrCat("--", flag, "=", value, " must be in [", min, ", ", max, "]"));
}

LtcOptions OptionsFromFlags(int argc, char** argv) {
  if (argc > 1) ExitWithError(StrCat("unexpected argument '", argv[1], "'"));
  if (FLAGS_zookeeper.empty()) ExitWithError("--zookeeper=host:port,... is needed");
  if (FLAGS_coordinators.empty()) ExitWithError("--coordinators=host:port,... is needed");
  if (FLAGS_name.empty()) ExitWithError("--name is needed");
  if (FLAGS_log_mode != "none" && FLAGS_log_mode != "memory") {
    ExitWithError(StrCat("--log_mode=", FLAGS_log_mode, " must be none or memory"));
  }
  CheckRange("zookeeper_session_ms", FLAGS_zookeeper_session_ms, 100, 600'000);
  CheckRange("zookeeper_connect_ms", FLAGS_zookeeper_connect_ms, 1, 600'000);
  CheckRange("log_replicas", FLAGS_log_replicas, 1, 7);
  CheckRange("manifest_replicas", FLAGS_manifest_replicas, 1, 7);
  CheckRange("table_replicas", FLAGS_table_replicas, 1, 7);
  CheckRange("scatter_width", FLAGS_scatter_width, 1, 1000);
  CheckRange("power_of_d", FLAGS_power_of_d, 1, 100);
  CheckRange("memtable_mb", FLAGS_memtable_mb, 1, 1024);
  CheckRange("active_memtables", FLAGS_active_memtables, 1, 64);
  CheckRange("max_rounds", FLAGS_max_rounds, 2, 1024);
  CheckRange("memtable_limit_mb", FLAGS_memtable_limit_mb, 16, 1 << 20);
  CheckRange("block_cache_mb", FLAGS_block_cache_mb, 1, 1 << 20);
  CheckRange("table_mb", FLAGS_table_mb, 1, 1024);
  CheckRange("level1_mb", FLAGS_level1_mb, 1, 1 << 20);
  CheckRange("level0_runs", FLAGS_level0_runs, 1, 16);
  CheckRange("max_value_bytes", FLAGS_max_value_bytes, 1, 16 << 20);
  CheckRange("xchg_threads", FLAGS_xchg_threads, 1, 64);
  CheckRange("flush_threads", FLAGS_flush_threads, 1, 256);
  CheckRange("compaction_threads", FLAGS_compaction_threads, 1, 256);

  LtcOptions o;
  o.name = FLAGS_name;
  o.address = FLAGS_address;
  o.advertise = FLAGS_advertise;
  o.host = FLAGS_host;
  o.xchg_threads = FLAGS_xchg_threads;
  o.block_cache_bytes = static_cast<size_t>(FLAGS_block_cache_mb) << 20;
  o.memtable_limit_bytes = static_cast<size_t>(FLAGS_memtable_limit_mb) << 20;
  o.background.flush_threads = FLAGS_flush_threads;
  o.background.compaction_threads = FLAGS_compaction_threads;
  HostedRangeOptions& h = o.hosted;
  h.log_mode = FLAGS_log_mode == "none" ? LogMode::kNone : LogMode::kMemory;
  h.log_replicas = FLAGS_log_replicas;
  h.strict_replicas = FLAGS_strict_replicas;
  h.manifest_replicas = FLAGS_manifest_replicas;
  h.placement.replicas = FLAGS_table_replicas;
  h.placement.scatter_width = FLAGS_scatter_width;
  h.placement.choices = FLAGS_power_of_d;
  h.range.memtable_size_bytes = static_cast<size_t>(FLAGS_memtable_mb) << 20;
  h.range.active_memtables = FLAGS_active_memtables;
  h.range.max_rounds = FLAGS_max_rounds;
  h.range.max_value_bytes = static_cast<uint32_t>(FLAGS_max_value_bytes);
  h.range.compaction.table_size_bytes = static_cast<uint64_t>(FLAGS_table_mb) << 20;
  h.range.compaction.level1_bytes = static_cast<uint64_t>(FLAGS_level1_mb) << 20;
  h.range.compaction.level0_runs_trigger = FLAGS_level0_runs;
  return o;
}

std::string StatusPage(const std::string& text) {
  return StrCat("<!doctype html><meta charset=\"utf-8\"><title>nova_ltc</title><pre>", text, "</pre><a href=\"/metrics\">metrics</a>\n");
}

int Main(int argc, char** argv) {
  google::gflags_exitfunc = [](int code) { _exit(code == 0 ? 0 : kExitBadInput); };
  google::SetUsageMessage("an LSM-tree component of a Nova cluster");
  google::ParseCommandLineFlags(&argc, &argv, true);
  LtcOptions options = OptionsFromFlags(argc, argv);
  sigset_t stop;
  sigemptyset(&stop);
  sigaddset(&stop, SIGTERM);
  sigaddset(&stop, SIGINT);
  pthread_sigmask(SIG_BLOCK, &stop, nullptr);
  signal(SIGPIPE, SIG_IGN);
  InstallGlog(argv[0]);

  Metrics metrics;
  // The page is asked for before the node is there, and its address is part of what the node registers.
  struct {
    Mutex mu;
    LtcNode* node = nullptr;
  } serving;
  auto http = HttpServer::Start(FLAGS_metrics_address,
                                {{"/",
                                  {"text/html; charset=utf-8",
                                   [&serving] {
                                     MutexLock lock(&serving.mu);
                                     return StatusPage(serving.node == nullptr ? "starting" : serving.node->StatusText());
                                   }}},
                                 {"/metrics", {"text/plain; version=0.0.4", [&metrics] { return metrics.PrometheusText(); }}}});
  if (!http.ok()) ExitWithError(std::string(http.status().message()));
  options.metrics_address = (*http)->address();

  const std::unique_ptr<Fabric> fabric = NewTcpFabric();
  LtcEnvironment environment;
  environment.fabric = fabric.get();
  environment.metrics = &metrics;
  environment.open_store = [] {
    return OpenZookeeper(FLAGS_zookeeper, FLAGS_chroot, FLAGS_zookeeper_session_ms * kMillisecond,
                         Now() + FLAGS_zookeeper_connect_ms * kMillisecond);
  };
  environment.open_channel = [] { return OpenGrpcChannel(absl::StrSplit(FLAGS_coordinators, ',')); };
  auto node = LtcNode::Start(options, environment);
  if (!node.ok()) ExitWithError(std::string(node.status().message()));
  {
    MutexLock lock(&serving.mu);
    serving.node = node->get();
  }
  std::printf("ready %s %s %s\n", options.name.c_str(), (*node)->address().c_str(), options.metrics_address.c_str());
  std::fflush(stdout);

  int received = 0;
  while (sigwait(&stop, &received) != 0) {
  }
  NOVA_LOG(INFO) << options.name << ": stops (signal " << received << ")";
  const Status stopped = (*node)->Stop(Now() + 60 * kSecond);
  if (!stopped.ok()) NOVA_LOG(WARNING) << options.name << ": stopped with ranges not released: " << stopped;
  http->reset();
  node->reset();
  return stopped.ok() ? 0 : 1;
}

}  // namespace
}  // namespace nova

int main(int argc, char** argv) { return nova::Main(argc, argv); }
