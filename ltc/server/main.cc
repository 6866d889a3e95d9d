// nova_ltc: an LSM-tree component: serves the ranges that the coordinator assigns to it.
#include <gflags/gflags.h>

#include <algorithm>
#include <map>

#include "absl/strings/str_split.h"
#include "common/base/log.h"
#include "common/base/program.h"
#include "common/base/server_flags.h"
#include "common/config/zookeeper_store.h"
#include "common/rdma/factory/open_fabric.h"
#include "common/sstable/compression.h"
#include "coordinator/grpc_channel.h"
#include "coordinator/ltc_settings.h"
#include "ltc/server/ltc_node.h"

DEFINE_string(log_mode, "auto",
              "where log records go: none; memory or persistent: of StoCs; memory+persistent; auto: "
              "memory+persistent where all StoCs share one host, else memory");
DEFINE_int32(log_write_deadline_ms, 0,
             "L5: of a log WRITE, after which its StoC is replaced; 0: 200 on verbs, 1000 on tcp, 300 there "
             "to a StoC of the same host");
DEFINE_int32(
    segment_kb, 1024,
    "size of a log's segments in StoCs' memory; a larger record has one of its own size. A StoC gives "
    "no smaller ones than its --segment_kb");
DEFINE_int32(log_replicas, 3, "R: members of a log group");
DEFINE_int32(
    min_replicas, 0,
    "members of a log group without which writes wait, at most R; R is the strict choice; 0: max(2, R - 1)");
DEFINE_int32(manifest_replicas, 3, "M: copies of a manifest");
DEFINE_int32(table_replicas, 2, "copies of a table's fragments and metadata, as far as there are StoCs");
DEFINE_int32(scatter_width, 1, "rho: StoCs over which a table is scattered, at most");
DEFINE_bool(scatter_by_load, true,
            "a table is scattered over as many StoCs as will have stored it first; false: over "
            "scatter_width, however busy they are");
DEFINE_int32(power_of_d, 2, "d: StoCs looked at for each one picked for a table (for logs and manifests: 2)");
DEFINE_bool(near_tables, false,
            "first copies of tables lie on StoCs of this host, while one takes tables: nothing is shared");
DEFINE_int32(memtable_mb, 4, "tau: size of a memtable");
DEFINE_int32(active_memtables, 2, "alpha: memtables of a range that take writes at once");
DEFINE_string(memtable_partitioning, "hash",
              "which of its active memtables a range puts a key into: hash: by a hash of the key; drange: by "
              "Dranges of the writes seen, with several for a hot key");
DEFINE_int32(max_rounds, 6, "delta / alpha: rounds of memtables of a range, the active one included");
DEFINE_int32(memory_limit_mb, 0,
             "memory of this process: unless they are given, a half is for memtables, a quarter for the "
             "cache, and the rest "
             "for log records and messages on their way; 0: each as its own flag says");
DEFINE_int32(memtable_limit_mb, 512, "memory of all memtables of this process");
DEFINE_int32(block_cache_mb, 256, "memory of index and filter of all tables, and of the block cache");
DEFINE_int32(table_mb, 4, "size at which a table ends");
DEFINE_int32(
    level1_mb, 64,
    "target size of Level1 at the least: it may have more where Level2 is far larger; Level2's is ten "
    "times of this, and so on");
DEFINE_string(compression, "none",
              "of tables by level, as none,lz4,zstd: Level0, Level1 and all below; a table that is moved as "
              "it is stays as it was");
DEFINE_int32(level0_runs, 4, "runs of Level0 that start a compaction");
DEFINE_int32(
    dranges, 1,
    "theta: Dranges that Level0 of a range is cut into at most, each compacted by itself; 1: it is not "
    "cut");
DEFINE_int32(least_table_kb, 4096,
             "where Level0 is cut, flushes make fewer cuts than leave each table so much");
DEFINE_int32(table_lag_s, 20,
             "for so long, and what is in memory then, tables may lack what younger writes of the same keys "
             "replace again and again");
DEFINE_bool(
    merge_rounds, true,
    "rounds that wait for flushes are merged in memory, where they hold the same keys again and again, "
    "as far as log_share lets logs stay");
DEFINE_bool(lookup_index, false,
            "gets pass by memtables and tables that are younger than the key's last write, for a 24th of the "
            "memory of a range's memtables");
DEFINE_double(
    log_share, 0,
    "of the memory of a range's memtables, so many times as much may its logs hold where rounds are "
    "merged in memory; 1: none are; 0: 2 where logs are in files alone, else 1, for StoCs may not "
    "have the memory");
DEFINE_double(level0_share, 0.5,
              "of the bytes it overlaps in Level1, the part that Level0 must have to be merged into it: with "
              "less it is merged within itself; 0: any");
DEFINE_int32(max_value_bytes, 1 << 20, "largest value accepted");
DEFINE_int32(max_snapshots, 1000, "snapshots that clients may hold of one range");
DEFINE_int32(max_snapshot_lease_ms, 600'000,
             "longest lease of a snapshot, renewals aside; a client that asks for more has this");
DEFINE_int32(
    audit_period, 180,
    "seconds from one look at what StoCs have of a range, too much, missing or damaged, to the next");
DEFINE_int32(xchg_threads, 1, "exchange threads: they serve requests");
DEFINE_int32(flush_threads, 2, "threads that write memtables to StoCs");
DEFINE_int32(compaction_threads, 0,
             "threads that merge tables, or wait for StoCs that do; 0: at least 2, and as long as they "
             "mostly wait for disks two for each StoC, 16 at most");
DEFINE_string(compaction_offload, "never",
              "which StoC runs a part of a compaction: never: it runs here; round_robin; least_loaded; "
              "most_input: the one that has most of what is read; cost: where least is to be moved, or here");

namespace nova {
namespace {

const std::map<std::string, LogMode> kLogModes = {{"none", LogMode::kNone},
                                                  {"memory", LogMode::kMemory},
                                                  {"persistent", LogMode::kPersistent},
                                                  {"memory+persistent", LogMode::kMemoryAndPersistent},
                                                  {"auto", LogMode::kAuto}};

// What one limit leaves for each.
void DeriveMemory(LtcOptions* o) {
  if (FLAGS_memory_limit_mb == 0) return;
  const int threads = FLAGS_xchg_threads;
  // a message of 20 MB fits the eighth of a thread's
  CheckFlagRange("memory_limit_mb", FLAGS_memory_limit_mb, 256 * threads, 1 << 21);
  if (!IsFlagGiven("memtable_limit_mb")) FLAGS_memtable_limit_mb = FLAGS_memory_limit_mb / 2;
  if (!IsFlagGiven("block_cache_mb")) FLAGS_block_cache_mb = FLAGS_memory_limit_mb / 4;
  const int on_their_way_mb = FLAGS_memory_limit_mb - FLAGS_memtable_limit_mb - FLAGS_block_cache_mb;
  if (on_their_way_mb < 64 * threads) {
    ExitWithError(StrCat("--memory_limit_mb = ", FLAGS_memory_limit_mb,
                         ": must be at least --memtable_limit_mb + --block_cache_mb + ", 64 * threads, " = ",
                         FLAGS_memtable_limit_mb + FLAGS_block_cache_mb + 64 * threads));
  }
  o->log.staging_bytes = static_cast<size_t>(on_their_way_mb) << 19;
  o->log.lane_in_flight_bytes = std::min(o->log.lane_in_flight_bytes, o->log.staging_bytes / 2);
  o->xchg.send_pool_bytes = (static_cast<size_t>(on_their_way_mb) << 19) / static_cast<size_t>(threads);
  // Taken only while writes wait, or somebody sends too much.
  o->xchg.max_begun_bytes = std::min(o->xchg.max_begun_bytes, 2 * o->xchg.send_pool_bytes);
  o->xchg.max_waiting_bytes = std::min(o->xchg.max_waiting_bytes, 2 * o->xchg.send_pool_bytes);
}

LtcOptions OptionsFromFlags() {
  CheckNodeFlags();
  CheckFlagOneOf("log_mode", FLAGS_log_mode, {"none", "memory", "persistent", "memory+persistent", "auto"});
  CheckFlagRange("log_write_deadline_ms", FLAGS_log_write_deadline_ms, 0, 600'000);
  CheckFlagRange("segment_kb", FLAGS_segment_kb, 4, 1 << 20);
  CheckFlagRange("log_replicas", FLAGS_log_replicas, 1, 7);
  CheckFlagRange("min_replicas", FLAGS_min_replicas, 0, FLAGS_log_replicas);
  CheckFlagRange("manifest_replicas", FLAGS_manifest_replicas, 1, 7);
  CheckFlagRange("table_replicas", FLAGS_table_replicas, 1, 7);
  // These four an operator may set while it runs, within the same bounds.
  const LtcSettings settings{FLAGS_active_memtables, FLAGS_dranges, FLAGS_power_of_d, FLAGS_scatter_width};
  for (const LtcSettings::Kind& kind : LtcSettings::Kinds())
    CheckFlagRange(kind.name, *(settings.*kind.value), kind.least, kind.most);
  CheckFlagRange("memtable_mb", FLAGS_memtable_mb, 1, 1024);
  CheckFlagRange("max_rounds", FLAGS_max_rounds, 2, 1024);
  CheckFlagRange("memory_limit_mb", FLAGS_memory_limit_mb, 0, 1 << 21);
  CheckFlagRange("memtable_limit_mb", FLAGS_memtable_limit_mb, 16, 1 << 20);
  CheckFlagRange("block_cache_mb", FLAGS_block_cache_mb, 1, 1 << 20);
  CheckFlagRange("table_mb", FLAGS_table_mb, 1, 64);  // StoCs have to take one at once: --file_buffer_mb
  CheckFlagRange("level1_mb", FLAGS_level1_mb, 1, 1 << 20);
  CheckFlagRange("level0_runs", FLAGS_level0_runs, 1, 16);
  CheckFlagRange("least_table_kb", FLAGS_least_table_kb, 1, 1 << 20);
  CheckFlagRange("table_lag_s", FLAGS_table_lag_s, 0, 3600);
  CheckFlagRange("level0_share", FLAGS_level0_share, 0, 10);
  CheckFlagRange("log_share", FLAGS_log_share, 0, 1000);
  CheckFlagRange("max_value_bytes", FLAGS_max_value_bytes, 1, 16 << 20);
  CheckFlagRange("max_snapshots", FLAGS_max_snapshots, 1, 1'000'000);
  CheckFlagRange("max_snapshot_lease_ms", FLAGS_max_snapshot_lease_ms, kSureSnapshotLeaseMs, 86'400'000);
  CheckFlagRange("audit_period", FLAGS_audit_period, 1, 86'400);
  CheckFlagRange("xchg_threads", FLAGS_xchg_threads, 1, 64);
  CheckFlagRange("flush_threads", FLAGS_flush_threads, 1, 256);
  CheckFlagRange("compaction_threads", FLAGS_compaction_threads, 0, 256);

  LtcOptions o;
  DeriveMemory(&o);
  o.name = FLAGS_name;
  o.address = FLAGS_address;
  o.advertise = FLAGS_advertise;
  o.host = FLAGS_host;
  o.near_tables = FLAGS_near_tables;
  o.xchg_threads = FLAGS_xchg_threads;
  o.log.segment_bytes = static_cast<uint64_t>(FLAGS_segment_kb) << 10;
  o.block_cache_bytes = static_cast<size_t>(FLAGS_block_cache_mb) << 20;
  o.memtable_limit_bytes = static_cast<size_t>(FLAGS_memtable_limit_mb) << 20;
  o.max_snapshots_per_range = static_cast<size_t>(FLAGS_max_snapshots);
  o.max_snapshot_lease_ms = FLAGS_max_snapshot_lease_ms;
  o.orphan_period_ns = FLAGS_audit_period * kSecond;
  o.background.flush_threads = FLAGS_flush_threads;
  if (FLAGS_compaction_threads > 0) {
    o.background.compaction_threads = FLAGS_compaction_threads;
  } else {
    o.background.most_compaction_threads = 16;
  }
  const auto offload = ParseOffloadPolicy(FLAGS_compaction_offload);
  if (!offload) {
    ExitWithError(StrCat("--compaction_offload = ", FLAGS_compaction_offload,
                         ": must be never, round_robin, least_loaded, most_input or cost"));
  }
  o.offload.policy = *offload;
  HostedRangeOptions& h = o.hosted;
  h.log_mode = kLogModes.at(FLAGS_log_mode);
  h.log_replicas = FLAGS_log_replicas;
  h.min_replicas = FLAGS_min_replicas;
  h.manifest_replicas = FLAGS_manifest_replicas;
  h.placement.replicas = FLAGS_table_replicas;
  h.placement.scatter_width = FLAGS_scatter_width;
  h.placement.scatter_by_load = FLAGS_scatter_by_load;
  h.placement.choices = FLAGS_power_of_d;
  h.range.memtable_size_bytes = static_cast<size_t>(FLAGS_memtable_mb) << 20;
  h.range.active_memtables = FLAGS_active_memtables;
  if (FLAGS_memtable_partitioning != "hash" && FLAGS_memtable_partitioning != "drange") {
    ExitWithError(
        StrCat("--memtable_partitioning = ", FLAGS_memtable_partitioning, ": must be hash or drange"));
  }
  h.range.memtable_partitioning =
      FLAGS_memtable_partitioning == "drange" ? MemtablePartitioning::kDrange : MemtablePartitioning::kHash;
  h.range.max_rounds = FLAGS_max_rounds;
  h.range.max_value_bytes = static_cast<uint32_t>(FLAGS_max_value_bytes);
  h.range.compaction.table_size_bytes = static_cast<uint64_t>(FLAGS_table_mb) << 20;
  h.range.compaction.level1_bytes = static_cast<uint64_t>(FLAGS_level1_mb) << 20;
  h.range.compaction.level0_runs_trigger = FLAGS_level0_runs;
  h.range.compaction.dranges = FLAGS_dranges;
  h.range.compaction.least_table_bytes = static_cast<uint64_t>(FLAGS_least_table_kb) << 10;
  h.range.table_lag_ns = FLAGS_table_lag_s * kSecond;
  h.range.merge_rounds = FLAGS_merge_rounds ? MergeRounds::kAuto : MergeRounds::kNever;
  h.range.lookup_index = FLAGS_lookup_index;
  h.range.compaction.level0_share = FLAGS_level0_share;
  h.range.log_share = FLAGS_log_share != 0                 ? std::max(FLAGS_log_share, 1.0)
                      : h.log_mode == LogMode::kPersistent ? 2
                                                           : 1;
  // a compaction begins before writers are slowed down for want of one
  h.range.level0_slow_runs = 2 * FLAGS_level0_runs;
  h.range.level0_stop_runs = 5 * FLAGS_level0_runs;
  auto compression = ParseCompressionList(FLAGS_compression);
  if (!compression.ok()) ExitWithError(StrCat("--compression: ", compression.status().message()));
  h.range.compression = *std::move(compression);
  return o;
}

int Main(int argc, char** argv) {
  ParseFlags("an LSM-tree component of a Nova cluster", &argc, &argv);
  RefuseArguments(argc, argv);
  LtcOptions options = OptionsFromFlags();
  Program program(argv[0], "nova_ltc " + options.name);
  program.ServePages(FLAGS_metrics_address);
  options.metrics_address = program.pages_address();

  const auto opened = OpenFabric({FLAGS_fabric, FLAGS_rdma_device, FLAGS_address});
  if (!opened.ok()) ExitWithError(std::string(opened.status().message()));
  Fabric* const fabric = opened->fabric.get();
  const int64_t deadline_ms = FLAGS_log_write_deadline_ms != 0 ? FLAGS_log_write_deadline_ms
                              : fabric->name() == "verbs"      ? 200
                                                               : 1000;
  options.log.write_deadline_ns = deadline_ms * kMillisecond;
  if (FLAGS_log_write_deadline_ms != 0 ||
      options.log.write_deadline_ns < options.log.near_write_deadline_ns) {
    options.log.near_write_deadline_ns = options.log.write_deadline_ns;
  }
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
  program.BeWatched([&node] { return (*node)->Responds(); });

  // Of a name that a later process has nothing is to be released: ranges are that one's, or are recovered.
  const bool orderly = program.WaitForSignalOr((*node)->superseded());
  const Status stopped = (*node)->Stop(orderly ? Now() + 60 * kSecond : 0);
  if (orderly && !stopped.ok())
    NOVA_LOG(WARNING) << options.name << ": stopped with ranges not released: " << stopped;
  program.StopPages();
  node->reset();
  if (!orderly) ExitWithError(StrCat(FLAGS_name, ": a later process has this name"));
  return stopped.ok() ? 0 : 1;
}

}  // namespace
}  // namespace nova

int main(int argc, char** argv) { return nova::Main(argc, argv); }
