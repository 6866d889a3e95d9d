// nova: the user's tool: put, get, delete, scan, status, an interactive shell, bench, admin commands, fsck.
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>

#include "absl/strings/str_split.h"
#include "client/bench.h"
#include "client/commands.h"
#include "client/doctor.h"
#include "client/exit_codes.h"
#include "client/shell.h"
#include "common/base/failpoint.h"
#include "common/base/version.h"
#include "common/rdma/resolver.h"

namespace nova {
namespace {

constexpr char kTools[] = "Tools";

// The options of every command.
struct Common {
  std::string coordinators, fabric, rdma_device;
  int64_t timeout_ms = 10'000;
};

void AddCommon(CLI::App* app, Common* common) {
  AddText(app, "--coordinators", &common->coordinators, "their gRPC addresses, host:port,host:port")
      ->envname("NOVA_COORDINATORS");
  AddText(app, "--fabric", &common->fabric, "verbs, tcp or auto, as the cluster's nodes; else auto")
      ->check(CLI::IsMember({"", "auto", "verbs", "tcp"}).description(""))
      ->envname("NOVA_FABRIC");
  AddText(app, "--rdma_device", &common->rdma_device,
          "NAME or NAME:PORT, as mlx5_0:1; else the first that is up")
      ->envname("NOVA_RDMA_DEVICE");
  AddNumber<int64_t>(app, "--timeout_ms", &common->timeout_ms, 1, kMaxTimeoutMs, "deadline of one operation");
}

void AddBench(CLI::App* app, Command* chosen) {
  const auto o = std::make_shared<BenchOptions>();
  CLI::App* const bench = app->add_subcommand("bench", "Load in the paper's workloads.")->group(kTools);
  const CLI::IsMember workloads({"LOAD", "R100", "RW50", "SW50", "W100"});
  CLI::Option* const word = AddText(bench, "WORKLOAD", &o->workload, "LOAD, R100, RW50, SW50 or W100")
                                ->check(workloads)
                                ->capture_default_str();
  AddText(bench, "--workload", &o->workload, "the same, as an option")->check(workloads)->excludes(word);
  AddText(bench, "--distribution", &o->distribution, "uniform, zipfian (ranked) or scrambled")
      ->check(CLI::IsMember({"uniform", "zipfian", "scrambled"}).description(""))
      ->capture_default_str();
  AddNumber<double>(bench, "--zipf_constant", &o->zipf_constant, 0.01, 0.999,
                    "skew of zipfian and scrambled; 0.99: of 10 M records a tenth gets 85 % of the requests");
  AddNumber<uint64_t>(bench, "--records", &o->records, 1, 1'000'000'000'000, "records in the store");
  AddNumber<uint64_t>(bench, "--operations", &o->operations, 0, 1'000'000'000'000'000,
                      "operations in all; 0: run for --seconds");
  AddNumber<double>(bench, "--seconds", &o->seconds, 0.001, 1e7, "how long to run");
  AddNumber<double>(
      bench, "--rate", &o->rate, 0, 1e9,
      "operations a second, latencies from when each was to begin; 0: as fast as the threads can");
  AddNumber<int>(bench, "--threads", &o->threads, 1, 4096, "client threads");
  AddNumber<size_t>(bench, "--value_bytes", &o->value_bytes, 0, 16 << 20, "size of a value");
  AddNumber<size_t>(bench, "--scan_length", &o->scan_length, 1, 1'000'000, "entries of a scan");
  bench->add_flag("--progress,!--noprogress", o->progress, "a line a second on stderr (the default)");
  AddSync(bench, &o->write);
  bench->callback([=] {
    *chosen = [=](Session* session) -> int {
      static std::atomic<bool> stop{false};
      signal(SIGINT, [](int) { stop.store(true); });  // the report is made all the same
      o->stop = &stop;
      const auto report = RunBench(session->client, *o);
      if (!report.ok()) {
        std::fprintf(stderr, "error: %s\n", std::string(report.status().message()).c_str());
        return kExitUsage;
      }
      std::fputs(report->text.c_str(), stdout);
      return report->failed == 0 ? kExitOk : kExitFailed;
    };
  });
}

int Fail(std::string_view why, ExitCode code) {
  std::fprintf(stderr, "error: %.*s\n", static_cast<int>(why.size()), why.data());
  return code;
}

// `nova fsck WORDS` is nova_fsck WORDS, the program beside this one. Does not return where that is there.
int RunFsck(char** words) {
  std::error_code unknown;
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe", unknown);
  const std::string program = (self.parent_path() / "nova_fsck").string();
  words[0] = const_cast<char*>(program.c_str());
  execv(program.c_str(), words);
  return Fail(StrCat(program, ": ", std::strerror(errno)), kExitUsage);
}

// What needs no cluster.
using LocalCommand = std::function<int()>;

void AddDoctor(CLI::App* app, const Common* common, LocalCommand* chosen) {
  const auto o = std::make_shared<DoctorOptions>();
  const auto lock_mb = std::make_shared<int64_t>(1280);
  CLI::App* const doctor =
      app->add_subcommand("doctor", "Show what this machine lacks to be a node, and the fix.")->group(kTools);
  doctor->footer("Exit codes: 0 all is good, 1 there are warnings, 2 there are errors.");
  AddText(doctor, "--zookeeper", &o->zookeeper, "host:port,... to look at");
  AddText(doctor, "--address", &o->address, "host:port that a node is to serve at");
  AddText(doctor, "--data", &o->data, "directory that a StoC is to keep its files in, as its user");
  AddNumber<int64_t>(doctor, "--lock_mb", lock_mb.get(), 0, 1 << 30,
                     "memory that a node is to register (--log_memory_mb, --file_buffer_mb, buffers)");
  AddText(doctor, "--fence_test", &o->fence_test,
          "which revocation of rights RDMA devices really honour: of host:port, where --fence_serve runs; "
          "or: here");
  doctor->add_flag("--fence_serve", o->fence_serve, "be the far end of one --fence_test, at --address");
  doctor->callback([=] {
    std::string host;
    uint16_t port = 0;
    if (!o->address.empty() && !SplitHostPort(o->address, &host, &port))
      RefuseWords(StrCat("--address=", o->address, ": must be host:port"));
    if (!common->fabric.empty()) o->fabric = common->fabric;
    o->rdma_device = common->rdma_device;
    o->coordinators = absl::StrSplit(common->coordinators, ',', absl::SkipEmpty());
    o->lock_bytes = static_cast<uint64_t>(*lock_mb) << 20;
    *chosen = [o] { return RunDoctor(*o); };
  });
}

void AddDebug(CLI::App* app, LocalCommand* chosen) {
  CLI::App* const debug = app->add_subcommand("debug", "Show what tests can order of a node.")->group(kTools);
  debug->require_subcommand(1);
  debug
      ->add_subcommand(
          "failpoints",
          "Steps at which $NOVA_FAILPOINTS can stop a node, as log.written=crash (docs/testing.md).")
      ->callback([chosen] {
        *chosen = [] {
          std::fputs(FailPointsText().c_str(), stdout);
          return static_cast<int>(kExitOk);
        };
      });
}

int RunOnCluster(const Common& common, const Command& command) {
  ClientOptions options;
  options.coordinators = absl::StrSplit(common.coordinators, ',', absl::SkipEmpty());
  if (options.coordinators.empty())
    return Fail("--coordinators=host:port or $NOVA_COORDINATORS is needed", kExitUsage);
  options.timeout_ms = common.timeout_ms;
  options.fabric = common.fabric;
  options.rdma_device = common.rdma_device;
  const auto client = Client::Connect(options);
  if (!client.ok()) return Fail(std::string(client.status().message()), kExitFailed);
  Session session{client->get()};
  return command(&session);
}

int Main(int argc, char** argv) {
  if (argc > 1 && std::string_view(argv[1]) == "fsck") return RunFsck(argv + 1);
  CLI::App app("The user's tool of a Nova cluster.", "nova");
  app.set_help_flag("-h,--help", "this, or with a COMMAND what belongs to it");
  app.set_version_flag("--version", StrCat("nova ", VersionText()));
  app.footer("The options of every command, and exit codes: nova --help");
  app.require_subcommand(0, 1);
  app.fallthrough();  // the options of every command, also behind its name
  Common common;
  Command on_cluster;
  LocalCommand here;
  AddCommon(&app, &common);
  AddCommands(&app, &on_cluster);
  app.add_subcommand("shell", "The commands above, typed one a line.")->group(kTools)->callback([&] {
    on_cluster = RunShell;
  });
  AddBench(&app, &on_cluster);
  AddDoctor(&app, &common, &here);
  AddDebug(&app, &here);
  app.add_subcommand("fsck", "Read the whole cluster and say what is wrong: nova fsck --help.")
      ->group(kTools)
      ->callback([] { RefuseWords("the word fsck comes first, then its own options"); });
  app.footer(
      "Words behind -- are no options: nova put -- KEY -v.\n"
      "Exit codes: 0 done; 1 failed, and a write was not applied; or output is lost; 2 wrong words; 3 "
      "unknown:\n"
      "a write may be applied or not; 4 not found; 5 cas found another value, or the checkpoint was there.");
  if (const std::optional<int> code = ParseWords(&app, {argv + 1, argv + argc})) return *code;
  signal(SIGPIPE, SIG_IGN);
  if (here) return here();
  if (!on_cluster) return Fail("no command: see nova --help", kExitUsage);
  return RunOnCluster(common, on_cluster);
}

}  // namespace
}  // namespace nova

int main(int argc, char** argv) { return nova::EndOutput(nova::Main(argc, argv)); }
