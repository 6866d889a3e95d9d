// nova_fabric_bench: what the fabric costs beside a bare loop on the same device, in the same run.
//
//   nova_fabric_bench --fabric=tcp                       judged: exit 1 where the fabric is too far from the bare loop
//   nova_fabric_bench --fabric=verbs --address=10.0.0.1  the RDMA device with that address, both ends on it; printed, not judged
//
// WRITE, READ and SEND: median latency one at a time, asleep (both sides wait for the event) and spinning; bandwidth by depth.
// The client is this thread; the server's port has a thread of its own, as an xchg thread would be.
#include <gflags/gflags.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <vector>

#include "common/base/exit.h"
#include "common/base/log.h"
#include "common/base/thread.h"
#include "common/rdma/open_fabric.h"
#include "experiments/fabric_bench/bare.h"
#include "experiments/fabric_bench/log_replication.h"

DEFINE_string(fabric, "tcp", "tcp or verbs");
DEFINE_string(address, "127.0.0.1", "of the device: the server listens there");
DEFINE_int32(operations, 2000, "of each latency; of a bandwidth: as many bytes as 64 KiB of each would be, at most");
DEFINE_bool(judge, true, "tcp: exit 1 where a bound is missed");

namespace google {
extern void (*gflags_exitfunc)(int);
}

namespace nova {
namespace {

constexpr double kLatencyBound = 1.2;      // of the bare loop's, one at a time
constexpr double kBandwidthBound = 0.9;    // of the bare loop's, at 64 KiB and more
constexpr double kSmallWrites = 1e6;       // a second, at depth 32

const char* NameOf(BenchOp op) { return op == BenchOp::kWrite ? "WRITE" : op == BenchOp::kRead ? "READ" : "SEND"; }

class Bench {
 public:
  Bench() {
    FabricChoice choice;
    choice.fabric = FLAGS_fabric;
    choice.address = FLAGS_address + ":0";
    for (Side* side : {&server_, &client_}) {
      auto opened = OpenFabric(choice);
      if (!opened.ok()) ExitWithError(std::string(opened.status().message()));
      side->fabric = std::move(opened->fabric);
      side->text = opened->text;
      side->memory.resize(kBenchBytes);
      side->region = *side->fabric->Register(side->memory.data(), kBenchBytes, Access::kRemoteReadWrite);
      side->port = *side->fabric->OpenPort({});
    }
    Hello hello;
    hello.role = Role::kTool;
    auto bound = server_.fabric->Listen(FLAGS_address + ":0", hello, {server_.port.get()}, nullptr);
    if (!bound.ok()) ExitWithError(std::string(bound.status().message()));
    thread_ = std::make_unique<Thread>("bench.server.0", [this] { Serve(); });
    connection_ = client_.port->Connect(*bound, hello, Now() + 5 * kSecond);
    for (bool up = false; !up;) {
      const size_t n = client_.port->Poll(completions_);
      for (size_t i = 0; i < n; ++i) {
        if (completions_[i].kind == CompletionKind::kDisconnected) ExitWithError(completions_[i].reason);
        up |= completions_[i].kind == CompletionKind::kConnected;
      }
      if (n == 0) client_.port->Wait(Now() + kMillisecond);
    }
  }
  ~Bench() {
    stop_.store(true);
    server_.port->Wake();
    thread_.reset();
  }
  const std::string& text() const { return client_.text; }

  void PingPong(BenchOp op, size_t bytes, bool spin, int count, double* micros) {
    spin_.store(spin);
    server_.port->Wake();
    const WorkRequest request = RequestOf(op, bytes);
    for (int i = 0; i < count; ++i) {
      const Nanos begin = Now();
      Post(request, 1);
      while (Reap(spin) == 0) continue;
      micros[i] = static_cast<double>(Now() - begin) / 1e3;
    }
    spin_.store(false);
  }
  void Stream(BenchOp op, size_t bytes, int depth, int count) {
    const WorkRequest request = RequestOf(op, bytes);
    int posted = 0;
    for (int done = 0; done < count;) {
      const int more = std::min(count - posted, done + depth - posted);
      if (more > 0 && (more >= depth / 4 || posted + more == count)) {
        Post(request, more);
        posted += more;
      }
      done += Reap(false);
    }
  }

 private:
  struct Side {
    std::unique_ptr<Fabric> fabric;
    std::string text;
    std::vector<char> memory;
    MemoryRegion region;
    std::unique_ptr<Port> port;
  };

  WorkRequest RequestOf(BenchOp op, size_t bytes) const {
    WorkRequest r;
    r.opcode = op == BenchOp::kWrite ? Opcode::kWrite : op == BenchOp::kRead ? Opcode::kRead : Opcode::kSend;
    r.piece_count = 1;
    r.pieces[0] = {client_.region.address, static_cast<uint32_t>(bytes), client_.region.lkey};
    r.remote_address = server_.region.remote().address;
    r.rkey = server_.region.rkey;
    return r;
  }
  void Post(const WorkRequest& request, int count) {
    batch_.assign(static_cast<size_t>(count), request);
    const Status s = client_.port->Post(connection_, batch_);
    NOVA_CHECK(s.ok()) << s;
  }
  int Reap(bool spin) {
    size_t n = client_.port->Poll(completions_);
    if (n == 0 && !spin) {
      client_.port->Wait(Now() + kSecond);
      n = client_.port->Poll(completions_);
    }
    for (size_t i = 0; i < n; ++i) {
      NOVA_CHECK(completions_[i].kind == CompletionKind::kRequest && completions_[i].status == CompletionStatus::kOk);
    }
    return static_cast<int>(n);
  }
  void Serve() {
    std::array<Completion, 64> completions;
    while (!stop_.load()) {
      if (server_.port->Poll(completions) == 0 && !spin_.load()) server_.port->Wait(Now() + kSecond);
    }
  }

  Side server_, client_;
  ConnectionId connection_;
  std::array<Completion, 64> completions_;
  std::vector<WorkRequest> batch_;
  std::atomic<bool> stop_{false};
  std::atomic<bool> spin_{false};
  std::unique_ptr<Thread> thread_;
};

std::string Size(size_t bytes) {
  return bytes >= (1 << 20) ? StrCat(bytes >> 20, " MiB") : bytes >= 1024 ? StrCat(bytes >> 10, " KiB") : StrCat(bytes, " B");
}

double MedianOf(std::vector<double> v) {
  std::nth_element(v.begin(), v.begin() + static_cast<ptrdiff_t>(v.size() / 2), v.end());
  return v[v.size() / 2];
}

int missed = 0;
const char* Judge(bool judged, bool good) {
  if (!judged) return "";
  missed += good ? 0 : 1;
  return good ? "  good" : "  MISSED";
}

// Turn about, so that what else runs on the machine hits both alike.
template <typename Loop>
double Latency(Loop* loop, BenchOp op, size_t bytes, bool spin, int count) {
  std::vector<double> micros(static_cast<size_t>(count));
  loop->PingPong(op, bytes, spin, count, micros.data());
  return MedianOf(micros);
}
template <typename Loop>
double PerSecond(Loop* loop, BenchOp op, size_t bytes, int depth, int count) {
  const Nanos begin = Now();
  loop->Stream(op, bytes, depth, count);
  return count / (static_cast<double>(Now() - begin) / 1e9);
}

int Run() {
  const bool verbs = FLAGS_fabric == "verbs";
  auto made = verbs ? NewBareVerbs(FLAGS_address) : NewBareTcp();
  if (!made.ok()) ExitWithError(std::string(made.status().message()));
  Bare* bare = made->get();
  Bench bench;
  const bool judged = !verbs && FLAGS_judge;
  std::printf("%s; bare: %s\n", bench.text().c_str(), verbs ? "post and poll the queue" : "a socket over loopback, ping-pong and stream");
  constexpr int kRounds = 5;

  std::printf("\nlatency, median of one at a time, us      asleep                 spinning\n");
  std::printf("%-6s %8s            fabric     bare   ratio     fabric     bare   ratio\n", "", "");
  for (const BenchOp op : {BenchOp::kWrite, BenchOp::kRead, BenchOp::kSend}) {
    for (const size_t bytes : {size_t{64}, size_t{256}, size_t{1024}, size_t{4096}, size_t{65536}}) {
      double us[2][2];  // [spin][bare]
      for (const bool spin : {false, true}) {
        std::vector<double> fabric, plain;
        for (int round = 0; round < kRounds; ++round) {
          fabric.push_back(Latency(&bench, op, bytes, spin, FLAGS_operations / kRounds));
          plain.push_back(Latency(bare, op, bytes, spin, FLAGS_operations / kRounds));
        }
        us[spin][0] = MedianOf(fabric);
        us[spin][1] = MedianOf(plain);
      }
      std::printf("%-6s %8s          %8.1f %8.1f %7.2f   %8.1f %8.1f %7.2f%s\n", NameOf(op), Size(bytes).c_str(), us[0][0], us[0][1],
                  us[0][0] / us[0][1], us[1][0], us[1][1], us[1][0] / us[1][1], Judge(judged, us[0][0] <= kLatencyBound * us[0][1]));
      std::fflush(stdout);
    }
  }

  std::printf("\nthroughput, asleep                 operations/s                    MB/s\n");
  std::printf("%-6s %8s  depth           fabric       bare            fabric     bare   ratio\n", "", "");
  for (const BenchOp op : {BenchOp::kWrite, BenchOp::kRead, BenchOp::kSend}) {
    for (const size_t bytes : {size_t{64}, size_t{1024}, size_t{65536}, size_t{262144}, size_t{1} << 20}) {
      for (const int depth : {8, 32}) {
        if (op == BenchOp::kSend && bytes > 65536) continue;
        const int count = static_cast<int>(std::clamp<size_t>(size_t(FLAGS_operations) * 65536 / bytes, 50, size_t(FLAGS_operations) * 50));
        std::vector<double> fabric, plain;
        for (int round = 0; round < kRounds; ++round) {
          fabric.push_back(PerSecond(&bench, op, bytes, depth, count / kRounds));
          plain.push_back(PerSecond(bare, op, bytes, depth, count / kRounds));
        }
        const double f = MedianOf(fabric), b = MedianOf(plain), mb = static_cast<double>(bytes) / 1e6;
        const bool small = op == BenchOp::kWrite && bytes == 64 && depth == 32;
        const bool large = bytes >= 65536 && depth == 32;
        std::printf("%-6s %8s  %5d     %12.0f %10.0f       %10.1f %8.1f %7.2f%s\n", NameOf(op), Size(bytes).c_str(), depth, f, b, f * mb, b * mb,
                    f / b, Judge(judged && (small || large), small ? f >= kSmallWrites : f >= kBandwidthBound * b));
        std::fflush(stdout);
      }
    }
  }
  std::printf("\nlog replication, median of one record at a time, us, asleep\n  record    R        LogC   R WRITEs on a port   ratio\n");
  for (const size_t bytes : {size_t{256}, size_t{1024}}) {
    for (const int replicas : {1, 3}) {
      const ReplicationTimes t = MeasureReplication(
          [] {
            FabricChoice choice;
            choice.fabric = FLAGS_fabric;
            choice.address = FLAGS_address + ":0";
            return std::move(OpenFabric(choice)->fabric);
          },
          FLAGS_address, replicas, bytes, FLAGS_operations);
      std::printf("  %6s  %3d  %10.1f  %17.1f  %6.2f\n", Size(bytes).c_str(), replicas, t.log_us, t.writes_us, t.log_us / t.writes_us);
      std::fflush(stdout);
    }
  }
  if (judged) std::printf("\njudged: latency asleep within %.1f, bandwidth from 64 KiB at depth 32 at least %.1f, 64 B WRITEs at depth 32 at least %.0f/s: %d missed\n",
                          kLatencyBound, kBandwidthBound, kSmallWrites, missed);
  return missed == 0 ? 0 : 1;
}

int Main(int argc, char** argv) {
  google::gflags_exitfunc = [](int code) { _exit(code == 0 ? 0 : kExitBadInput); };
  google::SetUsageMessage("the fabric beside a bare loop");
  google::ParseCommandLineFlags(&argc, &argv, true);
  if (argc > 1) ExitWithError(StrCat("unexpected argument '", argv[1], "'"));
  if (FLAGS_fabric != "tcp" && FLAGS_fabric != "verbs") ExitWithError("--fabric must be tcp or verbs");
  if (FLAGS_operations < 50 || FLAGS_operations > 10'000'000) ExitWithError("--operations must be in [50, 10000000]");
  return Run();
}

}  // namespace
}  // namespace nova

int main(int argc, char** argv) { return nova::Main(argc, argv); }
