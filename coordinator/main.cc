// nova_coordinator: the control plane. Several may run; one leads.
#include <gflags/gflags.h>
#include <unistd.h>

#include "common/base/program.h"
#include "common/base/server_flags.h"
#include "common/config/zookeeper_store.h"
#include "coordinator/coordinator_service.h"
#include "coordinator/grpc_server.h"

DEFINE_int32(lease_ms, 2000, "T: how long a heartbeat's lease lasts");
DEFINE_int32(lease_margin_ms, 50, "delta: what a lease is shortened by at its holder and lengthened by here");
DEFINE_double(clock_rate_error, 0.01, "rho: how much faster or slower than real time a clock may run");
DEFINE_int32(settle_ms, 1000,
             "wait after the first LTC was heard, before ranges without an owner are given out");
DEFINE_int32(
    stoc_down_after, 300,
    "seconds for which coordinators listen in vain for a StoC before it counts as lost, and its copies "
    "are made anew on others");
DEFINE_int32(
    share_after, 10,
    "seconds for which an LTC has to be heard before others hand ranges over to it, until all have as "
    "many; 0: ranges stay where they are while their LTC lives");
DEFINE_int32(max_value_bytes, 1 << 20, "largest value clients may put");

namespace nova {
namespace {

void CheckFlags() {
  CheckFlagRange("lease_ms", FLAGS_lease_ms, 100, 600'000);
  if (google::GetCommandLineFlagInfoOrDie("zookeeper_session_ms").is_default) {
    FLAGS_zookeeper_session_ms = FLAGS_lease_ms;
  }
  CheckServerFlags();
  CheckFlagRange("lease_margin_ms", FLAGS_lease_margin_ms, 0, FLAGS_lease_ms / 4);
  CheckFlagRange("clock_rate_error", FLAGS_clock_rate_error, 0, 0.2);
  CheckFlagRange("settle_ms", FLAGS_settle_ms, 0, 600'000);
  CheckFlagRange("stoc_down_after", FLAGS_stoc_down_after, 1, 30 * 86'400);
  CheckFlagRange("share_after", FLAGS_share_after, 0, 86'400);
  CheckFlagRange("max_value_bytes", FLAGS_max_value_bytes, 1, 16 << 20);
}

std::string DefaultName(const std::string& address) {
  char host[256] = "host";
  gethostname(host, sizeof(host) - 1);
  return StrCat("coord-", host, "-", address.substr(address.rfind(':') + 1));
}

int Run(int argc, char** argv) {
  // clients are told it
  google::SetCommandLineOptionWithMode("address", "127.0.0.1:7401", google::SET_FLAGS_DEFAULT);
  ParseFlags("the control plane of a Nova cluster", &argc, &argv);
  RefuseArguments(argc, argv);
  CheckFlags();
  Program program(argv[0], "Nova");

  // The address is known only once the port is bound, and calls must not reach a service that is not there
  // yet.
  struct {
    Mutex mu;
    CoordinatorService* service = nullptr;
  } serving;
  StatusOr<std::unique_ptr<GrpcServer>> grpc = GrpcServer::Start(
      FLAGS_address,
      [&serving](const std::string& method, const std::string& request) -> StatusOr<std::string> {
        CoordinatorService* service = nullptr;
        {
          MutexLock lock(&serving.mu);
          service = serving.service;
        }
        if (service == nullptr) return absl::UnavailableError("the coordinator is starting");
        return service->Handle(method, request);
      });
  if (!grpc.ok()) ExitWithError(std::string(grpc.status().message()));

  CoordinatorOptions options;
  options.address = FLAGS_advertise.empty() ? (*grpc)->address() : FLAGS_advertise;
  options.name = FLAGS_name.empty() ? DefaultName((*grpc)->address()) : FLAGS_name;
  options.store = "ZooKeeper " + FLAGS_zookeeper;
  options.cluster.lease_ns = FLAGS_lease_ms * kMillisecond;
  options.cluster.lease_margin_ns = FLAGS_lease_margin_ms * kMillisecond;
  options.cluster.clock_rate_error = FLAGS_clock_rate_error;
  options.cluster.settle_ns = FLAGS_settle_ms * kMillisecond;
  options.cluster.stoc_down_after_ns = FLAGS_stoc_down_after * kSecond;
  options.cluster.share_after_ns = FLAGS_share_after * kSecond;
  options.max_value_bytes = static_cast<uint32_t>(FLAGS_max_value_bytes);
  StatusOr<std::unique_ptr<CoordinatorService>> service = CoordinatorService::Start(
      options,
      [] {
        return OpenZookeeper(FLAGS_zookeeper, FLAGS_chroot, FLAGS_zookeeper_session_ms * kMillisecond,
                             Now() + FLAGS_zookeeper_connect_ms * kMillisecond);
      },
      program.metrics());
  if (!service.ok()) ExitWithError(std::string(service.status().message()));
  program.metrics()->AddCallback("nova_coordinator_leading",
                                 [s = service->get()] { return s->leading() ? 1.0 : 0.0; });

  program.ServePages(FLAGS_metrics_address);
  program.SetPage([s = service->get()] { return s->StatusText(); });
  {
    MutexLock lock(&serving.mu);
    serving.service = service->get();
  }
  program.Ready(options.name, options.address);
  program.BeWatched([s = service->get()] { return !s->StatusText().empty(); });

  program.WaitForSignal();
  program.StopPages();
  grpc->reset();
  service->reset();
  return 0;
}

}  // namespace
}  // namespace nova

int main(int argc, char** argv) { return nova::Run(argc, argv); }
