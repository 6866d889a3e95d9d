// nova_stoc: a storage component: log segments in memory, files on a disk.
#include <gflags/gflags.h>

#include <cstdio>

#include "absl/strings/str_split.h"
#include "common/base/limited_disk.h"
#include "common/base/log.h"
#include "common/base/program.h"
#include "common/base/server_flags.h"
#include "common/config/zookeeper_store.h"
#include "common/rdma/factory/open_fabric.h"
#include "coordinator/grpc_channel.h"
#include "stoc/stoc_node.h"

DEFINE_string(data, "", "directory of the files; made, and formatted, when absent or empty");
DEFINE_int32(disk_reserve_mb, 64,
             "free disk space below which new files are refused; appends are below a quarter of it");
DEFINE_int32(disk_bandwidth_mb, 0,
             "MB/s of a modelled disk that reads and writes share; 0: the disk as it is");
DEFINE_bool(disk_reads_cached, false,
            "reads cost the modelled disk nothing, as where the page cache holds all that is stored");
DEFINE_int32(open_files, 512, "files kept open");
DEFINE_int32(log_memory_mb, 1024, "memory for log segments");
DEFINE_int32(segment_kb, 1024, "smallest log segment, a power of two");
DEFINE_int32(spare_segments, 8, "log segments kept registered ahead");
DEFINE_int32(file_buffer_mb, 256, "memory that tables arrive in");
DEFINE_int32(rebuild_mb_per_s, 100,
             "MB/s that copies of files from and to other StoCs take together (rebuilds, drains)");
DEFINE_int32(scrub_period, 7 * 86'400,
             "seconds in which all that is stored is read once, and looked at for damage; 0: it is not");
DEFINE_int32(scrub_mb_per_s, 20, "MB/s that these reads take at most");
DEFINE_int32(xchg_threads, 1, "exchange threads: they serve requests");
DEFINE_int32(storage_threads, 4, "threads that wait for the disk; one of several takes short reads alone");
DEFINE_int32(compaction_threads, 2,
             "threads that run compactions for LTCs, which ask for it; 0: none is run");
DEFINE_int32(compaction_memory_mb, 512, "memory of these compactions together");
DEFINE_int32(storage_queue, 1024, "disk operations that wait for them; more are answered Busy");

namespace nova {
namespace {

StocOptions OptionsFromFlags() {
  CheckNodeFlags();
  CheckFlagGiven("data", FLAGS_data, "DIRECTORY");
  CheckFlagRange("disk_reserve_mb", FLAGS_disk_reserve_mb, 0, 1 << 20);
  CheckFlagRange("disk_bandwidth_mb", FLAGS_disk_bandwidth_mb, 0, 1 << 20);
  CheckFlagRange("open_files", FLAGS_open_files, 1, 1 << 20);
  CheckFlagRange("log_memory_mb", FLAGS_log_memory_mb, 1, 1 << 20);
  CheckFlagRange("segment_kb", FLAGS_segment_kb, 4, 1 << 20);
  if ((FLAGS_segment_kb & (FLAGS_segment_kb - 1)) != 0)
    ExitWithError(StrCat("--segment_kb = ", FLAGS_segment_kb, ": must be a power of two"));
  if (FLAGS_segment_kb / 1024 > FLAGS_log_memory_mb) {
    ExitWithError(StrCat("--segment_kb = ", FLAGS_segment_kb, ": must be at most --log_memory_mb, ",
                         FLAGS_log_memory_mb));
  }
  CheckFlagRange("spare_segments", FLAGS_spare_segments, 0, 1 << 16);
  CheckFlagRange("file_buffer_mb", FLAGS_file_buffer_mb, 1, 1 << 20);
  CheckFlagRange("rebuild_mb_per_s", FLAGS_rebuild_mb_per_s, 1, 1 << 20);
  CheckFlagRange("scrub_period", FLAGS_scrub_period, 0, 366 * 86'400);
  CheckFlagRange("scrub_mb_per_s", FLAGS_scrub_mb_per_s, 1, 1 << 20);
  CheckFlagRange("xchg_threads", FLAGS_xchg_threads, 1, 64);
  CheckFlagRange("storage_threads", FLAGS_storage_threads, 1, 256);
  CheckFlagRange("storage_queue", FLAGS_storage_queue, 1, 1 << 20);
  CheckFlagRange("compaction_threads", FLAGS_compaction_threads, 0, 64);
  CheckFlagRange("compaction_memory_mb", FLAGS_compaction_memory_mb, 1, 1 << 20);

  StocOptions o;
  o.name = FLAGS_name;
  o.address = FLAGS_address;
  o.advertise = FLAGS_advertise;
  o.host = FLAGS_host;
  o.xchg_threads = FLAGS_xchg_threads;
  o.log_memory_bytes = static_cast<uint64_t>(FLAGS_log_memory_mb) << 20;
  o.segment_bytes = static_cast<uint64_t>(FLAGS_segment_kb) << 10;
  o.spare_segments = static_cast<size_t>(FLAGS_spare_segments);
  o.file_buffer_bytes = static_cast<uint64_t>(FLAGS_file_buffer_mb) << 20;
  o.files.reserve_bytes = static_cast<uint64_t>(FLAGS_disk_reserve_mb) << 20;
  o.files.max_open_files = static_cast<size_t>(FLAGS_open_files);
  o.server.copy_bytes_per_second = static_cast<uint64_t>(FLAGS_rebuild_mb_per_s) * 1'000'000;
  o.scrub.period_ns = FLAGS_scrub_period * kSecond;
  o.scrub.bytes_per_second = static_cast<uint64_t>(FLAGS_scrub_mb_per_s) * 1'000'000;
  o.server.storage_threads = FLAGS_storage_threads;
  o.server.storage_queue = static_cast<size_t>(FLAGS_storage_queue);
  o.server.compactor.threads = FLAGS_compaction_threads;
  o.server.compactor.memory_bytes = static_cast<uint64_t>(FLAGS_compaction_memory_mb) << 20;
  return o;
}

int Main(int argc, char** argv) {
  ParseFlags("a storage component of a Nova cluster", &argc, &argv);
  RefuseArguments(argc, argv);
  StocOptions options = OptionsFromFlags();
  Program program(argv[0], "nova_stoc " + options.name);

  auto posix = OpenPosixDisk(FLAGS_data);
  if (!posix.ok()) ExitWithError(StrCat("--data: ", posix.status().message()));
  Disk* disk = posix->get();
  std::unique_ptr<Disk> limited;
  if (FLAGS_disk_bandwidth_mb > 0) {
    LimitedDiskOptions limits;
    limits.bytes_per_second = static_cast<uint64_t>(FLAGS_disk_bandwidth_mb) * 1'000'000;
    limits.reads_are_cached = FLAGS_disk_reads_cached;
    limited = std::make_unique<LimitedDisk>(disk, limits);
    disk = limited.get();
  }

  program.ServePages(FLAGS_metrics_address);
  options.metrics_address = program.pages_address();

  const auto opened = OpenFabric({FLAGS_fabric, FLAGS_rdma_device, FLAGS_address});
  if (!opened.ok()) ExitWithError(std::string(opened.status().message()));
  Fabric* const fabric = opened->fabric.get();
  StocEnvironment environment;
  environment.fabric = fabric;
  environment.disk = disk;
  environment.metrics = program.metrics();
  environment.open_store = [] {
    return OpenZookeeper(FLAGS_zookeeper, FLAGS_chroot, FLAGS_zookeeper_session_ms * kMillisecond,
                         Now() + FLAGS_zookeeper_connect_ms * kMillisecond);
  };
  environment.open_channel = [] { return OpenGrpcChannel(absl::StrSplit(FLAGS_coordinators, ',')); };
  auto node = StocNode::Start(options, environment);
  if (!node.ok()) ExitWithError(StrCat(FLAGS_name, ", data in ", FLAGS_data, ": ", node.status().message()));
  LogFabric(FLAGS_name, *opened);
  program.SetPage([&node] { return (*node)->StatusText(); });
  program.Ready(options.name, (*node)->self().address);

  const bool orderly = program.WaitForSignalOr((*node)->superseded());
  (*node)->Stop();
  program.StopPages();
  node->reset();
  if (!orderly) ExitWithError(StrCat(FLAGS_name, ": a later process has this name"));
  return 0;
}

}  // namespace
}  // namespace nova

int main(int argc, char** argv) { return nova::Main(argc, argv); }
