// nova_ltc: an LSM-tree component: serves the ranges that the coordinator assigns to it.
#include <gflags/gflags.h>
#include <unistd.h>

#include "absl/strings/str_split.h"
#include "common/base/exit.h"
#include "common/base/log.h"
#include "common/base/program.h"
#include "common/config/zookeeper_store.h"
#include "common/rdma/open_fabric.h"
#include "common/sstable/compression.h"
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
DEFINE_string(fabric, "auto", "verbs, tcp, or auto: verbs where an RDMA device is up, else tcp; the log says which and why");
DEFINE_string(rdma_device, "", "NAME or NAME:PORT, as mlx5_0:1; empty: the one that has --address");
DEFINE_string(log_mode, "memory", "none, or memory: log records in the memory of StoCs");
DEFINE_int32(log_write_deadline_ms, 0, "L5: of a log WRITE, after which its StoC is replaced; 0: 200 on verbs, 1000 on tcp");
DEFINE_int32(log_replicas, 3, "R: members of a log group");
DEFINE_int32(min_replicas, 0, "members of a log group without which writes wait, at most R; R is the strict choice; 0: max(2, R - 1)");
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
DEFINE_string(compression, "none", "of tables by level, as none,lz4,zstd: Level0, Level1 and all below; a table that is moved as it is stays as it was");
DEFINE_int32(level0_runs, 4, "runs of Level0 that start a compaction");
DEFINE_int32(max_value_bytes, 1 << 20, "largest value accepted");
DEFINE_int32(max_snapshots, 1000, "snapshots that clients may hold of one range");
DEFINE_int32(max_snapshot_lease_ms, 600'000, "longest lease of a snapshot, renewals aside");
DEFINE_int32(xchg_threads, 1, "exchange threads: they serve requests");
DEFINE_int32(flush_threads, 2, "threads that write memtables to StoCs");
DEFINE_int32(compaction_threads, 2, "threads that merge tables");

namespace google {
extern void (*gflags_exitfunc)(int);
}

namespace nova {
namespace {

LtcOptions OptionsFromFlags(int argc, char** argv) {
  if (argc > 1) ExitWithError(StrCat("unexpected argument '", argv[1], "'"));
  CheckFlagGiven("zookeeper", FLAGS_zookeeper, "host:port,...");
  CheckFlagGiven("coordinators", FLAGS_coordinators, "host:port,...");
  CheckFlagGiven("name", FLAGS_name, "NAME");
  CheckFlagHostPort("address", FLAGS_address);
  CheckFlagHostPort("metrics_address", FLAGS_metrics_address);
  if (FLAGS_log_mode != "none" && FLAGS_log_mode != "memory") {
    ExitWithError(StrCat("--log_mode=", FLAGS_log_mode, " must be none or memory"));
  }
  CheckFlagRange("zookeeper_session_ms", FLAGS_zookeeper_session_ms, 100, 600'000);
  CheckFlagRange("zookeeper_connect_ms", FLAGS_zookeeper_connect_ms, 1, 600'000);
  CheckFlagRange("log_write_deadline_ms", FLAGS_log_write_deadline_ms, 0, 600'000);
  CheckFlagRange("log_replicas", FLAGS_log_replicas, 1, 7);
  CheckFlagRange("min_replicas", FLAGS_min_replicas, 0, FLAGS_log_replicas);
  CheckFlagRange("manifest_replicas", FLAGS_manifest_replicas, 1, 7);
  CheckFlagRange("table_replicas", FLAGS_table_replicas, 1, 7);
  CheckFlagRange("scatter_width", FLAGS_scatter_width, 1, 1000);
  CheckFlagRange("power_of_d", FLAGS_power_of_d, 1, 100);
  CheckFlagRange("memtable_mb", FLAGS_memtable_mb, 1, 1024);
  CheckFlagRange("active_memtables", FLAGS_active_memtables, 1, 64);
  CheckFlagRange("max_rounds", FLAGS_max_rounds, 2, 1024);
  CheckFlagRange("memtable_limit_mb", FLAGS_memtable_limit_mb, 16, 1 << 20);
  CheckFlagRange("block_cache_mb", FLAGS_block_cache_mb, 1, 1 << 20);
  CheckFlagRange("table_mb", FLAGS_table_mb, 1, 1024);
  CheckFlagRange("level1_mb", FLAGS_level1_mb, 1, 1 << 20);
  CheckFlagRange("level0_runs", FLAGS_level0_runs, 1, 16);
  CheckFlagRange("max_value_bytes", FLAGS_max_value_bytes, 1, 16 << 20);
  CheckFlagRange("max_snapshots", FLAGS_max_snapshots, 1, 1'000'000);
  CheckFlagRange("max_snapshot_lease_ms", FLAGS_max_snapshot_lease_ms, 1000, 86'400'000);
  CheckFlagRange("xchg_threads", FLAGS_xchg_threads, 1, 64);
  CheckFlagRange("flush_threads", FLAGS_flush_threads, 1, 256);
  CheckFlagRange("compaction_threads", FLAGS_compaction_threads, 1, 256);

  LtcOptions o;
  o.name = FLAGS_name;
  o.address = FLAGS_address;
  o.advertise = FLAGS_advertise;
  o.host = FLAGS_host;
  o.xchg_threads = FLAGS_xchg_threads;
  o.block_cache_bytes = static_cast<size_t>(FLAGS_block_cache_mb) << 20;
  o.memtable_limit_bytes = static_cast<size_t>(FLAGS_memtable_limit_mb) << 20;
  o.max_snapshots_per_range = static_cast<size_t>(FLAGS_max_snapshots);
  o.max_snapshot_lease_ms = FLAGS_max_snapshot_lease_ms;
  o.background.flush_threads = FLAGS_flush_threads;
  o.background.compaction_threads = FLAGS_compaction_threads;
  HostedRangeOptions& h = o.hosted;
  h.log_mode = FLAGS_log_mode == "none" ? LogMode::kNone : LogMode::kMemory;
  h.log_replicas = FLAGS_log_replicas;
  h.min_replicas = FLAGS_min_replicas;
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
  auto compression = ParseCompressionList(FLAGS_compression);
  if (!compression.ok()) ExitWithError(StrCat("--compression: ", compression.status().message()));
  h.range.compression = *std::move(compression);
  return o;
}

int Main(int argc, char** argv) {
  google::gflags_exitfunc = [](int code) { _exit(code == 0 ? 0 : kExitBadInput); };
  google::SetUsageMessage("an LSM-tree component of a Nova cluster");
  google::ParseCommandLineFlags(&argc, &argv, true);
  LtcOptions options = OptionsFromFlags(argc, argv);
  Program program(argv[0], "nova_ltc " + options.name);
  program.ServePages(FLAGS_metrics_address);
  options.metrics_address = program.pages_address();

  const auto opened = OpenFabric({FLAGS_fabric, FLAGS_rdma_device, FLAGS_address});
  if (!opened.ok()) ExitWithError(std::string(opened.status().message()));
  Fabric* const fabric = opened->fabric.get();
  const int64_t deadline_ms = FLAGS_log_write_deadline_ms != 0 ? FLAGS_log_write_deadline_ms : fabric->name() == "verbs" ? 200 : 1000;
  options.log.write_deadline_ns = deadline_ms * kMillisecond;
  program.metrics()->AddCallback("nova_fabric_verbs", [f = fabric] { return f->name() == "verbs" ? 1.0 : 0.0; });
  LtcEnvironment environment;
  environment.fabric = fabric;
  environment.metrics = program.metrics();
  environment.open_store = [] {
    return OpenZookeeper(FLAGS_zookeeper, FLAGS_chroot, FLAGS_zookeeper_session_ms * kMillisecond,
                         Now() + FLAGS_zookeeper_connect_ms * kMillisecond);
  };
  environment.open_channel = [] { return OpenGrpcChannel(absl::StrSplit(FLAGS_coordinators, ',')); };
  auto node = LtcNode::Start(options, environment);
  if (!node.ok()) ExitWithError(std::string(node.status().message()));
  LogFabric(FLAGS_name, *opened);
  program.SetPage([&node] { return (*node)->StatusText(); });
  program.Ready(options.name, (*node)->address());

  program.WaitForSignal();
  const Status stopped = (*node)->Stop(Now() + 60 * kSecond);
  if (!stopped.ok()) NOVA_LOG(WARNING) << options.name << ": stopped with ranges not released: " << stopped;
  program.StopPages();
  node->reset();
  return stopped.ok() ? 0 : 1;
}

}  // namespace
}  // namespace nova

int main(int argc, char** argv) { return nova::Main(argc, argv); }
