// nova_fsck: reads a cluster, living or stopped, and says whether it is whole. `nova fsck` is the same.
//
// Exit code: 0 nothing was found; 1 there are findings, a line each on stdout; 2 it could not look.
#include <fcntl.h>
#include <gflags/gflags.h>
#include <sys/file.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>

#include "absl/strings/str_split.h"
#include "common/base/flags.h"
#include "common/base/log.h"
#include "common/config/zookeeper_store.h"
#include "common/rdma/factory/open_fabric.h"
#include "coordinator/znodes.h"
#include "ltc/fsck/cluster_check.h"
#include "ltc/fsck/stoc_connection.h"

namespace {

std::string FromEnvironment(const char* variable, const char* otherwise) {
  const char* const text = std::getenv(variable);
  return text == nullptr ? otherwise : text;
}

}  // namespace

DEFINE_string(zookeeper, FromEnvironment("NOVA_ZOOKEEPER", ""),
              "ZooKeeper ensemble, host:port,host:port; else $NOVA_ZOOKEEPER");
DEFINE_string(chroot, "/nova", "the cluster's path in ZooKeeper");
DEFINE_int32(zookeeper_connect_ms, 10000, "how long to wait for ZooKeeper");
DEFINE_string(fabric, FromEnvironment("NOVA_FABRIC", "auto"),
              "verbs, tcp or auto, as the cluster's nodes; else $NOVA_FABRIC");
DEFINE_string(rdma_device, FromEnvironment("NOVA_RDMA_DEVICE", ""),
              "NAME or NAME:PORT, as mlx5_0:1; else $NOVA_RDMA_DEVICE, or the first that is up");
DEFINE_string(store_dirs, "",
              "directories of StoCs that do not run (their --data), on this machine: DIR,DIR; they are read, "
              "and nothing is written there");
DEFINE_int64(range, 0, "look at this range alone; 0: at all");
DEFINE_bool(quick, false, "no bytes of tables and logs: whether files are there, and their sizes");
DEFINE_int32(mb_per_s, 50, "read no more than so many MB a second, of all StoCs together");
DEFINE_int32(settle_ms, 3000,
             "what is found in a cluster that runs counts if it is found again so much later");
DEFINE_int32(orphan_grace_s, 600,
             "a file that nothing names counts if its range's owner leaves it for so long while this looks");
DEFINE_bool(json, false, "one line of JSON");

namespace nova {
namespace {

constexpr Nanos kSession = 30 * kSecond;
constexpr int64_t kMostRanges = 1'000'000'000;

void CheckFlags() {
  CheckFlagGiven("zookeeper", FLAGS_zookeeper, "host:port,...");
  if (FLAGS_chroot.empty() || FLAGS_chroot[0] != '/')
    ExitWithError(StrCat("--chroot = ", FLAGS_chroot, ": must be a path like /nova"));
  CheckFlagRange("zookeeper_connect_ms", FLAGS_zookeeper_connect_ms, 1, 600'000);
  CheckFlagOneOf("fabric", FLAGS_fabric, {"auto", "verbs", "tcp"});
  CheckFlagRange("range", FLAGS_range, 0, kMostRanges);
  CheckFlagRange("mb_per_s", FLAGS_mb_per_s, 1, 1 << 20);
  CheckFlagRange("settle_ms", FLAGS_settle_ms, 0, 600'000);
  CheckFlagRange("orphan_grace_s", FLAGS_orphan_grace_s, 0, 86'400);
}

// A StoC that runs has the lock. It is tried for, shared, and let go of at once: a StoC that starts in these
// microseconds would be refused, and start again.
bool IsInUse(const std::string& directory) {
  const int fd = open((directory + "/LOCK").c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return false;
  const bool in_use = flock(fd, LOCK_SH | LOCK_NB) != 0;
  close(fd);
  return in_use;
}

// The StoCs whose directories were given.
struct Directories {
  std::vector<std::unique_ptr<Disk>> disks;
  std::vector<std::unique_ptr<StoredStoc>> stocs;

  void Open(const std::string& directory) {
    if (!std::filesystem::is_directory(directory))
      ExitWithError(StrCat("--store_dirs: ", directory, " is no directory"));
    if (IsInUse(directory)) {
      std::fprintf(stderr, "%s: a StoC runs on it, and is asked instead\n", directory.c_str());
      return;
    }
    auto disk = OpenPosixDisk(directory);
    if (!disk.ok()) ExitWithError(StrCat("--store_dirs: ", disk.status().message()));
    disks.push_back(*std::move(disk));
    auto stoc = StoredStoc::Open(disks.back().get(), directory);
    if (!stoc.ok()) ExitWithError(StrCat("--store_dirs: ", directory, ": ", stoc.status().message()));
    stocs.push_back(*std::move(stoc));
  }
};

Uuid ReadCluster(ConfigStore* store) {
  const auto node = store->Get(kClusterPath);
  if (absl::IsNotFound(node.status()))
    ExitWithError(StrCat("there is no cluster at ", FLAGS_zookeeper, FLAGS_chroot));
  if (!node.ok()) ExitWithError(StrCat("ZooKeeper: ", node.status().message()));
  const auto record = ClusterRecord::Decode(node->data);
  if (!record.ok()) ExitWithError(std::string(record.status().message()));
  return record->uuid;
}

int Run(int argc, char** argv) {
  ParseFlags("reads a Nova cluster, living or stopped, and says whether it is whole", &argc, &argv);
  RefuseArguments(argc, argv);
  CheckFlags();
  SetLogOutput([](LogSeverity, const char*, int, std::string_view) {});  // what counts is a finding

  Directories directories;
  for (const auto directory : absl::StrSplit(FLAGS_store_dirs, ',', absl::SkipEmpty()))
    directories.Open(std::string(directory));
  auto store = OpenZookeeper(FLAGS_zookeeper, FLAGS_chroot, kSession,
                             Now() + FLAGS_zookeeper_connect_ms * kMillisecond, AbsentChroot::kLeave);
  if (!store.ok()) ExitWithError(StrCat("--zookeeper=", FLAGS_zookeeper, ": ", store.status().message()));
  const Uuid cluster = ReadCluster(store->get());
  const auto opened = OpenFabric({FLAGS_fabric, FLAGS_rdma_device, ""});
  if (!opened.ok()) ExitWithError(std::string(opened.status().message()));
  const auto connection = StocConnection::Open(opened->fabric.get(), cluster);
  if (!connection.ok()) ExitWithError(std::string(connection.status().message()));

  std::vector<CheckedStoc*> stored;
  for (const auto& stoc : directories.stocs) {
    if (stoc->identity().cluster != cluster)
      ExitWithError(StrCat("--store_dirs: ", stoc->name(), " is of another cluster"));
    stored.push_back(stoc.get());
  }
  StocReader reader((*connection)->client(), stored, static_cast<uint64_t>(FLAGS_mb_per_s) * 1'000'000);
  CheckOptions options;
  options.quick = FLAGS_quick;
  if (FLAGS_range > 0) options.range = RangeId(static_cast<uint64_t>(FLAGS_range));
  options.settle_ns = FLAGS_settle_ms * kMillisecond;
  options.orphan_grace_ns = FLAGS_orphan_grace_s * kSecond;
  options.say = [](const std::string& line) { std::fprintf(stderr, "%s\n", line.c_str()); };
  const auto report = CheckCluster(store->get(), &reader, options);
  if (!report.ok()) ExitWithError(std::string(report.status().message()));
  const std::string text = FLAGS_json ? RenderReportJson(*report) : RenderReport(*report);
  std::fwrite(text.data(), 1, text.size(), stdout);
  return report->findings.empty() ? 0 : 1;
}

}  // namespace
}  // namespace nova

int main(int argc, char** argv) { return nova::Run(argc, argv); }
