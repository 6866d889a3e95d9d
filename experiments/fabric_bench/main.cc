// nova_fabric_bench: what the fabric costs beside a bare loop on the same device, in the same run.
//
//   nova_fabric_bench --fabric=tcp
//       judged: exit 1 where the fabric is too far from the bare loop
//   nova_fabric_bench --fabric=verbs --address=10.0.0.1
//       the RDMA device with that address, both ends on it; printed, not judged
//
// WRITE, READ and SEND: median latency one at a time, throughput by depth; asleep (both ends wait for the
// event, without a deadline, as a blocking recv does) on one core and on a core each, and spinning on a core
// each. The client is this thread; the server's port has a thread of its own, as an xchg thread would be.
//
// Asleep on a core each, every turn of depth operations pays two wakes from one core to the other, whatever
// the fabric does.
#include <gflags/gflags.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <vector>

#include "common/base/flags.h"
#include "common/base/log.h"
#include "common/base/thread.h"
#include "common/rdma/factory/open_fabric.h"
#include "experiments/fabric_bench/bare.h"
#include "experiments/fabric_bench/cores.h"
#include "experiments/fabric_bench/log_replication.h"

DEFINE_string(fabric, "tcp", "tcp or verbs");
DEFINE_string(address, "127.0.0.1", "of the device: the server listens there");
DEFINE_int32(operations, 2000,
             "of each latency; of a bandwidth: as many bytes as 64 KiB of each would be, at most");
DEFINE_bool(judge, true, "tcp: exit 1 where a bound is missed");

namespace nova {
namespace {

constexpr double kLatencyBound = 1.2;    // of the bare loop's, one at a time
constexpr double kBandwidthBound = 0.9;  // of the bare loop's, at 64 KiB and more
constexpr double kSmallWrites = 1e6;     // a second, at depth 32
constexpr int kSlices = 20;              // of a measurement: fabric and bare turn about

const char* NameOf(BenchOp op) {
  return op == BenchOp::kWrite ? "WRITE" : op == BenchOp::kRead ? "READ" : "SEND";
}

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
    const WorkRequest request = RequestOf(op, bytes);
    SetSpin(spin);
    for (int i = 0; i < count; ++i) {
      const Nanos begin = Now();
      Post(request, 1);
      while (Reap(spin) == 0) continue;
      micros[i] = static_cast<double>(Now() - begin) / 1e3;
    }
    SetSpin(false);
  }
  // What a poll freed is posted at once, as an xchg thread does at the end of its round.
  void Stream(BenchOp op, size_t bytes, bool spin, int depth, int count) {
    const WorkRequest request = RequestOf(op, bytes);
    SetSpin(spin);
    int posted = 0;
    for (int done = 0; done < count; done += Reap(spin)) {
      const int more = std::min(count, done + depth) - posted;
      if (more > 0) Post(request, more);
      posted += more;
    }
    SetSpin(false);
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
  void SetSpin(bool spin) {
    spin_.store(spin);
    server_.port->Wake();
  }
  void Post(const WorkRequest& request, int count) {
    batch_.assign(static_cast<size_t>(count), request);
    const Status s = client_.port->Post(connection_, batch_);
    NOVA_CHECK(s.ok()) << s;
  }
  int Reap(bool spin) {
    if (!spin) client_.port->Wait(kNever);
    const size_t n = client_.port->Poll(completions_);
    for (size_t i = 0; i < n; ++i) {
      NOVA_CHECK(completions_[i].kind == CompletionKind::kRequest &&
                 completions_[i].status == CompletionStatus::kOk);
    }
    return static_cast<int>(n);
  }
  void Serve() {
    RunOnCore(kServerCore);
    std::array<Completion, 64> completions;
    while (!stop_.load()) {
      if (server_.port->Poll(completions) == 0 && !spin_.load()) server_.port->Wait(kNever);
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
  return bytes >= (1 << 20) ? StrCat(bytes >> 20, " MiB")
         : bytes >= 1024    ? StrCat(bytes >> 10, " KiB")
                            : StrCat(bytes, " B");
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

struct Both {
  double fabric = 0;
  double bare = 0;
  double ratio() const { return fabric / bare; }
};

// How the two ends wait, and where they run.
struct Place {
  const char* name;
  int client_core;
  bool spin;
};
constexpr Place kOneCore{"asleep, both on one core", kServerCore, false};
constexpr Place kApart{"asleep, a core each", kClientCore, false};
constexpr Place kSpinning{"spinning, a core each", kClientCore, true};

// Turn about in short slices, so that what else runs on the machine hits both alike. Medians.
Both Latency(Bench* bench, Bare* bare, BenchOp op, size_t bytes, const Place& place) {
  RunOnCore(place.client_core);
  const int slice = FLAGS_operations / kSlices;
  std::vector<double> fabric(static_cast<size_t>(slice * kSlices)), plain(fabric.size());
  for (int i = 0; i < kSlices; ++i) {
    bench->PingPong(op, bytes, place.spin, slice, &fabric[static_cast<size_t>(i * slice)]);
    bare->PingPong(op, bytes, place.spin, slice, &plain[static_cast<size_t>(i * slice)]);
  }
  return {MedianOf(fabric), MedianOf(plain)};
}
template <typename Loop>
double PerSecond(Loop* loop, BenchOp op, size_t bytes, bool spin, int depth, int count) {
  const Nanos begin = Now();
  loop->Stream(op, bytes, spin, depth, count);
  return count / (static_cast<double>(Now() - begin) / 1e9);
}
Both Throughput(Bench* bench, Bare* bare, BenchOp op, size_t bytes, const Place& place, int depth) {
  RunOnCore(place.client_core);
  const auto operations = static_cast<size_t>(FLAGS_operations);
  const int slice = static_cast<int>(std::min(operations * 65536 / bytes, operations * 20)) / kSlices;
  // whole turns: the bare loop knows no others
  const int count = std::max(2, (slice + depth - 1) / depth) * depth;
  std::vector<double> fabric, plain;
  for (int i = 0; i < kSlices; ++i) {
    fabric.push_back(PerSecond(bench, op, bytes, place.spin, depth, count));
    plain.push_back(PerSecond(bare, op, bytes, place.spin, depth, count));
  }
  return {MedianOf(fabric), MedianOf(plain)};
}

void PrintHead(const std::vector<Place>& places, const char* first, const char* second, const char* third) {
  std::printf("%-6s %8s  %5s", "", "", "");
  for (const Place& place : places) std::printf("  %28s", place.name);
  std::printf("\n%-6s %8s  %5s", "", "", "depth");
  for (size_t i = 0; i < places.size(); ++i) std::printf("  %10s %8s %8s", first, second, third);
  std::printf("\n");
}

int Run() {
  const bool verbs = FLAGS_fabric == "verbs";
  auto made = verbs ? NewBareVerbs(FLAGS_address) : NewBareTcp();
  if (!made.ok()) ExitWithError(std::string(made.status().message()));
  Bare* bare = made->get();
  Bench bench;
  const bool judged = !verbs && FLAGS_judge;
  std::printf("%s; bare: %s\n", bench.text().c_str(),
              verbs ? "post and poll the queue" : "a socket over loopback, ping-pong and stream");
  // One thread drives both ends of the bare queue pairs: it has no two cores. And a stream between two that
  // spin leaves no core to a device that is software.
  const std::vector<Place> all{kOneCore, kApart, kSpinning};
  const std::vector<Place> places = verbs ? std::vector<Place>{kApart, kSpinning} : all;
  const std::vector<Place> streams = verbs ? std::vector<Place>{kApart} : all;

  std::printf("\nlatency, median of one at a time, us\n");
  PrintHead(places, "fabric", "bare", "ratio");
  for (const BenchOp op : {BenchOp::kWrite, BenchOp::kRead, BenchOp::kSend}) {
    for (const size_t bytes : {size_t{64}, size_t{256}, size_t{1024}, size_t{4096}, size_t{65536}}) {
      std::printf("%-6s %8s  %5d", NameOf(op), Size(bytes).c_str(), 1);
      double worst = 0;
      for (const Place& place : places) {
        const Both b = Latency(&bench, bare, op, bytes, place);
        std::printf("  %10.1f %8.1f %8.2f", b.fabric, b.bare, b.ratio());
        worst = std::max(worst, b.ratio());
      }
      std::printf("%s\n", Judge(judged, worst <= kLatencyBound));
      std::fflush(stdout);
    }
  }

  std::printf("\nthroughput: the fabric's operations and MB a second, and how many times the bare loop's\n");
  PrintHead(streams, "fabric/s", "MB/s", "ratio");
  for (const BenchOp op : {BenchOp::kWrite, BenchOp::kRead, BenchOp::kSend}) {
    for (const size_t bytes : {size_t{64}, size_t{1024}, size_t{65536}, size_t{262144}, size_t{1} << 20}) {
      for (const int depth : {8, 32}) {
        if (op == BenchOp::kSend && bytes > 65536) continue;
        std::printf("%-6s %8s  %5d", NameOf(op), Size(bytes).c_str(), depth);
        double most = 0, worst = 1e9;
        for (const Place& place : streams) {
          const Both b = Throughput(&bench, bare, op, bytes, place, depth);
          std::printf("  %10.0f %8.1f %8.2f", b.fabric, b.fabric * static_cast<double>(bytes) / 1e6,
                      b.ratio());
          most = std::max(most, b.fabric);
          worst = std::min(worst, b.ratio());
        }
        const bool small = op == BenchOp::kWrite && bytes == 64 && depth == 32;
        const bool large = bytes >= 65536 && depth == 32;
        std::printf("%s\n", Judge(judged && (small || large),
                                  small ? most >= kSmallWrites : worst >= kBandwidthBound));
        std::fflush(stdout);
      }
    }
  }
  RunOnCore(kClientCore);  // threads inherit it
  std::printf(
      "\nlog replication, median of one record at a time, us, asleep, all on one core\n"
      "  record    R        LogC   R WRITEs on a port   ratio\n");
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
      std::printf("  %6s  %3d  %10.1f  %17.1f  %6.2f\n", Size(bytes).c_str(), replicas, t.log_us, t.writes_us,
                  t.log_us / t.writes_us);
      std::fflush(stdout);
    }
  }
  if (judged) {
    std::printf(
        "\njudged: each latency within %.1f, each bandwidth from 64 KiB at depth 32 at least %.1f of the "
        "bare loop's; 64 B WRITEs\n"
        "at depth 32 at least %.0f/s in one column: %d missed\n",
        kLatencyBound, kBandwidthBound, kSmallWrites, missed);
  }
  return missed == 0 ? 0 : 1;
}

int Main(int argc, char** argv) {
  ParseFlags("the fabric beside a bare loop", &argc, &argv);
  RefuseArguments(argc, argv);
  CheckFlagOneOf("fabric", FLAGS_fabric, {"tcp", "verbs"});
  CheckFlagRange("operations", FLAGS_operations, 50, 10'000'000);
  return Run();
}

}  // namespace
}  // namespace nova

int main(int argc, char** argv) { return nova::Main(argc, argv); }
