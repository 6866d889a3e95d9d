// A client that reads none of its answers, beside one that does, at an LTC that is a process.
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <fstream>

#include "absl/strings/match.h"
#include "client/client.h"
#include "common/rdma/message.h"
#include "common/rdma/tcp/tcp_fabric.h"
#include "coordinator/coordinator_client.h"
#include "coordinator/grpc_channel.h"
#include "ltc/wire/protocol.h"
#include "tests/cluster/connect_client.h"
#include "tests/cluster/process_cluster.h"

namespace nova {
namespace {

constexpr int kRows = 20'000;
constexpr size_t kValueBytes = 1000;

// A connection to an LTC whose program does nothing any more once it has sent its scans.
class SilentClient {
 public:
  SilentClient(const Configuration& configuration, const RangeRoute& range)
      : fabric_(NewTcpFabric()), port_(*fabric_->OpenPort({})), range_(range) {
    Hello self;
    self.role = Role::kClient;
    self.cluster = configuration.cluster;
    connection_ = port_->Connect(range.address, self, Now() + 10 * kSecond);
    EXPECT_TRUE(Sees(CompletionKind::kConnected, 10 * kSecond));
  }
  void SendScans(int count) {
    ScanRequest scan;
    scan.range = range_.id;
    scan.epoch = range_.epoch;
    scan.limit = 10'000;
    scan.from = range_.lower;
    scan.from = scan.from.empty() ? std::string_view("\0\0", 2) : scan.from;
    const std::string body = scan.Encode();
    MessageHeader h;
    h.type = static_cast<uint16_t>(LtcRequest::kScan);
    h.body_length = static_cast<uint32_t>(body.size());
    h.deadline_or_depth = MessageHeader::kNoDeadline;
    message_.assign(reinterpret_cast<const char*>(&h), sizeof(h));
    message_ += body;
    const MemoryRegion memory = *fabric_->Register(message_.data(), message_.size(), Access::kLocal);
    WorkRequest send;
    send.opcode = Opcode::kSend;
    send.piece_count = 1;
    send.pieces[0] = {message_.data(), static_cast<uint32_t>(message_.size()), memory.lkey};
    for (int i = 0; i < count; ++i) ASSERT_TRUE(port_->Post(connection_, {&send, 1}).ok());
  }
  // Reads what came, too.
  bool Sees(CompletionKind kind, Nanos wait_ns) {
    std::array<Completion, 64> out;
    for (const Nanos until = Now() + wait_ns; Now() < until; SleepFor(kMillisecond)) {
      for (size_t n; (n = port_->Poll(out)) > 0;) {
        for (size_t i = 0; i < n; ++i) {
          if (out[i].kind == kind) return true;
        }
      }
    }
    return false;
  }

 private:
  const std::unique_ptr<Fabric> fabric_;
  const std::unique_ptr<Port> port_;
  const RangeRoute range_;
  ConnectionId connection_;
  std::string message_;
};

size_t ResidentMb(pid_t pid) {
  std::ifstream status(StrCat("/proc/", pid, "/status"));
  std::string word;
  size_t kb = 0;
  while (status >> word) {
    if (word == "VmRSS:") status >> kb;
  }
  return kb >> 10;
}

std::string KeyOf(int i) {
  std::string digits = std::to_string(1'000'000 + i);
  return "user" + digits;
}

// The p99 of scans of 100 rows for so long; each must succeed.
Nanos ScanFor(Client* client, Nanos time_ns) {
  std::vector<Nanos> times;
  for (const Nanos until = Now() + time_ns; Now() < until;) {
    const Nanos begin = Now();
    const ScanResult r =
        client->Scan(KeyOf(static_cast<int>(times.size()) * 37 % (kRows - 200)), {.limit = 100});
    EXPECT_EQ(r.outcome, Outcome::kOk) << r.message;
    EXPECT_EQ(r.entries.size(), 100u);
    times.push_back(Now() - begin);
  }
  std::sort(times.begin(), times.end());
  return times.empty() ? 0 : times[times.size() * 99 / 100];
}

TEST(NeighbourTest, ScansOfAClientThatReadsNoneOfItsAnswersAreNotNoticedByOthers) {
  ProcessClusterOptions options;
  options.ltcs = 1;
  options.ranges = 1;
  options.ltc_flags = {"--memory_limit_mb=512"};
  auto started = ProcessCluster::Start(options);
  if (absl::IsNotFound(started.status())) GTEST_SKIP() << "ZooKeeper is not installed";
  ASSERT_TRUE(started.ok()) << started.status();
  ProcessCluster* const cluster = started->get();
  auto client = ConnectClient(cluster->coordinators());
  ASSERT_NE(client, nullptr);
  for (int i = 0; i < kRows;) {
    WriteBatch batch;
    for (const int end = std::min(i + 500, kRows); i < end; ++i)
      batch.Put(KeyOf(i), std::string(kValueBytes, 'v'));
    ASSERT_EQ(client->Write(batch).outcome, Outcome::kOk);
  }
  Configuration configuration;
  CoordinatorClient coordinator(OpenGrpcChannel({cluster->coordinators()}));
  ASSERT_TRUE(coordinator.Refresh(&configuration, Now() + 10 * kSecond).ok());
  ASSERT_EQ(configuration.ranges.size(), 1u);
  const RangeRoute range = configuration.ranges.begin()->second;

  ScanFor(client.get(), kSecond);
  const Nanos alone = ScanFor(client.get(), 4 * kSecond);
  const size_t memory_before = ResidentMb(cluster->pid("ltc-0"));
  std::vector<std::unique_ptr<SilentClient>> silent;
  for (int i = 0; i < 4; ++i) {
    silent.push_back(std::make_unique<SilentClient>(configuration, range));
    silent.back()->SendScans(700);
  }
  const Nanos beside = ScanFor(client.get(), 6 * kSecond);
  const size_t memory_beside = ResidentMb(cluster->pid("ltc-0"));
  std::printf(
      "p99 of scans of 100 rows: %.1f ms alone, %.1f ms beside 2800 scans that nobody reads; the LTC: %zu "
      "MB, then %zu MB\n",
      static_cast<double>(alone) * 1e-6, static_cast<double>(beside) * 1e-6, memory_before, memory_beside);
  EXPECT_LT(beside, 4 * alone + 20 * kMillisecond) << "2x on a quiet machine";
  EXPECT_LT(memory_beside, memory_before + 200) << "they would bring 2800 MB";
  SleepFor(8 * kSecond);
  for (const auto& s : silent) EXPECT_TRUE(s->Sees(CompletionKind::kDisconnected, 10 * kSecond));
  ScanFor(client.get(), kSecond);
}

}  // namespace
}  // namespace nova
