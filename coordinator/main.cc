// nova_coordinator: the control plane. Several may run; one leads.
#include <gflags/gflags.h>
#include <signal.h>
#include <unistd.h>

#include <cstdio>

#include "absl/strings/str_replace.h"
#include "common/base/exit.h"
#include "common/base/glog_output.h"
#include "common/base/http_server.h"
#include "common/base/log.h"
#include "common/config/zookeeper_store.h"
#include "coordinator/coordinator_service.h"
#include "coordinator/grpc_server.h"

DEFINE_string(zookeeper, "", "ZooKeeper ensemble, host:port,host:port");
DEFINE_string(chroot, "/nova", "the cluster's path in ZooKeeper");
DEFINE_int32(zookeeper_session_ms, 4000, "ZooKeeper session timeout; the time after which a killed leader is replaced");
DEFINE_int32(zookeeper_connect_ms, 10000, "how long to wait for ZooKeeper at start");
DEFINE_string(address, "127.0.0.1:7400", "where to serve gRPC, host:port; port 0 picks one");
DEFINE_string(advertise, "", "where others reach this coordinator, host:port; empty: --address");
DEFINE_string(metrics_address, "127.0.0.1:0", "where to serve /metrics and the status page, host:port; port 0 picks one");
DEFINE_string(name, "", "of this coordinator; empty: coord-<host>-<port>");
DEFINE_int32(lease_ms, 2000, "T: how long a heartbeat's lease lasts");
DEFINE_int32(lease_margin_ms, 50, "delta: what a lease is shortened by at its holder and lengthened by here");
DEFINE_double(clock_rate_error, 0.01, "rho: how much faster or slower than real time a clock may run");
DEFINE_int32(settle_ms, 1000, "wait after the first LTC was heard, before ranges without an owner are given out");
DEFINE_int32(max_value_bytes, 1 << 20, "largest value clients may put");

namespace google {
extern void (*gflags_exitfunc)(int);  // what gflags calls when it does not like a flag
}

namespace nova {
namespace {

bool InRange(const char* flag, int64_t value, int64_t min, int64_t max) {
  if (value >= min && value <= max) return true;
  ExitWithError(StrCat("--", flag, "=", value, " must be in [", min, ", ", max, "]"));
}

bool IsHostPort(const std::string& address) {
  const size_t colon = address.rfind(':');
  if (colon == std::string::npos || colon == 0) return false;
  const std::string port = address.substr(colon + 1);
  return !port.empty() && port.size() <= 5 && port.find_first_not_of("0123456789") == std::string::npos &&
         std::stoi(port) <= 65535;
}

void CheckFlags(int argc, char** argv) {
  if (argc > 1) ExitWithError(StrCat("unexpected argument '", argv[1], "'"));
  if (FLAGS_zookeeper.empty()) ExitWithError("--zookeeper=host:port,... is needed");
  InRange("zookeeper_session_ms", FLAGS_zookeeper_session_ms, 100, 600'000);
  InRange("zookeeper_connect_ms", FLAGS_zookeeper_connect_ms, 1, 600'000);
  InRange("lease_ms", FLAGS_lease_ms, 100, 600'000);
  InRange("lease_margin_ms", FLAGS_lease_margin_ms, 0, FLAGS_lease_ms / 4);
  InRange("settle_ms", FLAGS_settle_ms, 0, 600'000);
  InRange("max_value_bytes", FLAGS_max_value_bytes, 1, 64 << 20);
  if (!(FLAGS_clock_rate_error >= 0 && FLAGS_clock_rate_error <= 0.2)) {
    ExitWithError(StrCat("--clock_rate_error=", FLAGS_clock_rate_error, " must be in [0, 0.2]"));
  }
  for (const auto& [flag, value] : {std::pair<const char*, std::string>{"address", FLAGS_address},
                                    {"metrics_address", FLAGS_metrics_address},
                                    {"advertise", FLAGS_advertise.empty() ? FLAGS_address : FLAGS_advertise}}) {
    if (!IsHostPort(value)) ExitWithError(StrCat("--", flag, "=", value, " is not host:port"));
  }
}

std::string DefaultName(const std::string& address) {
  char host[256] = "host";
  gethostname(host, sizeof(host) - 1);
  return StrCat("coord-", host, "-", address.substr(address.rfind(':') + 1));
}

std::string StatusPage(const std::string& text) {
  const std::string escaped = absl::StrReplaceAll(text, {{"&", "&amp;"}, {"<", "&lt;"}, {">", "&gt;"}});
  return StrCat("<!doctype html><html><head><meta charset=\"utf-8\"><meta http-equiv=\"refresh\" content=\"2\"><title>Nova</title>"
                "</head><body><pre>",
                escaped, "</pre><p><a href=\"/metrics\">metrics</a></p></body></html>\n");
}

int Run(int argc, char** argv) {
  google::gflags_exitfunc = [](int code) { _exit(code == 0 ? 0 : kExitBadInput); };
  google::SetUsageMessage("the control plane of a Nova cluster");
  google::ParseCommandLineFlags(&argc, &argv, true);
  CheckFlags(argc, argv);
  // Before any thread: all of them leave these two to the wait below.
  sigset_t stop;
  sigemptyset(&stop);
  sigaddset(&stop, SIGTERM);
  sigaddset(&stop, SIGINT);
  pthread_sigmask(SIG_BLOCK, &stop, nullptr);
  signal(SIGPIPE, SIG_IGN);
  InstallGlog(argv[0]);

  Metrics metrics;
  // The address is known only once the port is bound, and calls must not reach a service that is not there yet.
  struct {
    Mutex mu;
    CoordinatorService* service = nullptr;
  } serving;
  StatusOr<std::unique_ptr<GrpcServer>> grpc =
      GrpcServer::Start(FLAGS_address, [&serving](const std::string& method, const std::string& request) -> StatusOr<std::string> {
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
  options.cluster.lease_ns = FLAGS_lease_ms * kMillisecond;
  options.cluster.lease_margin_ns = FLAGS_lease_margin_ms * kMillisecond;
  options.cluster.clock_rate_error = FLAGS_clock_rate_error;
  options.cluster.settle_ns = FLAGS_settle_ms * kMillisecond;
  options.max_value_bytes = static_cast<uint32_t>(FLAGS_max_value_bytes);
  StatusOr<std::unique_ptr<CoordinatorService>> service = CoordinatorService::Start(
      options,
      [] {
        return OpenZookeeper(FLAGS_zookeeper, FLAGS_chroot, FLAGS_zookeeper_session_ms * kMillisecond,
                             Now() + FLAGS_zookeeper_connect_ms * kMillisecond);
      },
      &metrics);
  if (!service.ok()) ExitWithError(std::string(service.status().message()));
  metrics.AddCallback("nova_coordinator_leading", [s = service->get()] { return s->leading() ? 1.0 : 0.0; });

  StatusOr<std::unique_ptr<HttpServer>> http = HttpServer::Start(
      FLAGS_metrics_address,
      {{"/", {"text/html; charset=utf-8", [s = service->get()] { return StatusPage(s->StatusText()); }}},
       {"/metrics", {"text/plain; version=0.0.4", [&metrics] { return metrics.PrometheusText(); }}}});
  if (!http.ok()) ExitWithError(std::string(http.status().message()));
  {
    MutexLock lock(&serving.mu);
    serving.service = service->get();
  }
  std::printf("ready %s %s %s\n", options.name.c_str(), options.address.c_str(), (*http)->address().c_str());
  std::fflush(stdout);

  int received = 0;
  while (sigwait(&stop, &received) != 0) {
  }
  NOVA_LOG(INFO) << options.name << ": stops (signal " << received << ")";
  http->reset();
  grpc->reset();
  service->reset();
  return 0;
}

}  // namespace
}  // namespace nova

int main(int argc, char** argv) { return nova::Run(argc, argv); }
