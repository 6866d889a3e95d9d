// What only sockets can show: raw peers, real processes that are killed or stopped, threads, idle cost.
#include "common/rdma/tcp/tcp_fabric.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>

#include "common/base/thread.h"
#include "common/rdma/tcp/frame.h"
#include "tests/rdma/fabric_world.h"

namespace nova {
namespace {

void InTcpWorld(const std::function<void(FabricWorld*)>& test) { InFabricWorld(FabricKind::kTcp, test); }

// A peer that speaks bytes.
class RawPeer {
 public:
  explicit RawPeer(const std::string& address) : fd_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = htons(static_cast<uint16_t>(std::stoi(address.substr(address.rfind(':') + 1))));
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(connect(fd_, reinterpret_cast<sockaddr*>(&to), sizeof(to)), 0);
    timeval patience{5, 0};
    setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
  }
  ~RawPeer() { Close(); }
  void Close() {
    if (fd_ >= 0) close(fd_);
    fd_ = -1;
  }
  void Send(std::string_view bytes) const {
    EXPECT_EQ(send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL), static_cast<ssize_t>(bytes.size()));
  }
  // Up to n bytes; fewer at the end of the connection.
  std::string Receive(size_t n) const {
    std::string out(n, '\0');
    size_t have = 0;
    while (have < n) {
      const ssize_t got = recv(fd_, out.data() + have, n - have, 0);
      if (got <= 0) break;
      have += static_cast<size_t>(got);
    }
    out.resize(have);
    return out;
  }
  bool ClosedWithin(TestNode& node, Nanos time_ns) const {
    char c;
    return PumpUntil(
        {&node},
        [&] {
          const ssize_t n = recv(fd_, &c, 1, MSG_DONTWAIT);
          return n == 0 || (n < 0 && errno != EAGAIN);
        },
        time_ns);
  }
  // Says hello and takes the welcome. The node has to be polled meanwhile.
  void Join(TestNode& node) const {
    Send(EncodeHello(HandshakeKind::kHello, TestHello(Role::kClient, "raw"), 65536));
    const size_t before = node.OfKind(CompletionKind::kConnected).size();
    EXPECT_TRUE(PumpUntil({&node}, [&] { return node.OfKind(CompletionKind::kConnected).size() > before; }));
    EXPECT_EQ(Receive(kHelloBytes).size(), kHelloBytes);
  }
  int fd() const { return fd_; }

 private:
  int fd_;
};

std::string FrameBytes(FrameHeader header) {
  return {reinterpret_cast<const char*>(&header), sizeof(header)};
}
FrameHeader WriteFrame(uint32_t length, const RemoteBuffer& to, uint32_t rest) {
  FrameHeader h;
  h.type = static_cast<uint8_t>(FrameType::kWrite);
  h.flags = rest > 0 ? FrameHeader::kMore : 0;
  h.length = length;
  h.immediate = rest;
  h.rkey = to.rkey;
  h.address = to.address;
  return h;
}

TEST(TcpFabricTest, F1_AWriterPausedInTheMiddleNeitherBlocksRevokeNorLandsAfterIt) {
  InTcpWorld([](FabricWorld* world) {
    TestNode server(world, "server");
    server.Listen();
    constexpr uint32_t kMega = 1 << 20;
    for (const size_t before :
         {size_t{0}, size_t{1}, size_t{5000}, size_t{100000}, size_t{kMaxWriteFrameBytes} - 1}) {
      const MemoryRegion target = server.Memory(kMega, Access::kRemoteWrite, '.');
      RawPeer peer(server.address);
      peer.Join(server);
      server.events.clear();
      peer.Send(FrameBytes(WriteFrame(kMaxWriteFrameBytes, target.remote(), kMega - kMaxWriteFrameBytes)));
      if (before > 0) peer.Send(std::string(before, 'x'));
      ASSERT_TRUE(PumpUntil(
          {&server}, [&] { return server.Contents(target).substr(0, before) == std::string(before, 'x'); }));
      const Nanos begin = Now();
      server.fabric->Revoke(target);
      EXPECT_LT(Now() - begin, 500 * kMillisecond);
      std::memset(target.address, '!', kMega);
      peer.Send(std::string(kMaxWriteFrameBytes - before, 'y'));
      ASSERT_TRUE(
          PumpUntil({&server}, [&] { return !server.OfKind(CompletionKind::kDisconnected).empty(); }));
      EXPECT_EQ(server.Contents(target), std::string(kMega, '!'));
      const std::string answer = peer.Receive(sizeof(FrameHeader));
      ASSERT_EQ(answer.size(), sizeof(FrameHeader)) << "the writer is told by name";
      EXPECT_EQ(answer[0], static_cast<char>(FrameType::kNak));
    }
  });
}

TEST(TcpFabricTest, F1_RevokeFencesWhileThePortStreamsInItsOwnThread) {
  InTcpWorld([](FabricWorld* world) {
    TestNode server(world, "server"), client(world, "client");
    server.Listen();
    constexpr size_t kBytes = 1 << 20;
    const MemoryRegion m = client.Memory(kBytes, Access::kLocal, 'x');
    std::atomic<bool> stop{false};
    const Joined c = Join(client, server);
    ConnectionId connection = c.client;
    for (int round = 0; round < 20; ++round) {
      const MemoryRegion target = server.Memory(kBytes, Access::kRemoteWrite, '.');
      stop = false;
      Thread owner("server.xchg.0", [&] {
        while (!stop) {
          if (server.Poll() == 0) server.port->Wait(Now() + kMillisecond);
        }
      });
      client.events.clear();
      std::vector<WorkRequest> batch;
      for (uint64_t i = 0; i < 50; ++i)
        batch.push_back(RequestOf(Opcode::kWrite, i, {PieceOf(m, 0, kBytes)}, target.remote()));
      ASSERT_TRUE(client.port->Post(connection, batch).ok());
      PumpFor({&client}, round * 200 * kMicrosecond);
      const Nanos begin = Now();
      server.fabric->Revoke(target);
      EXPECT_LT(Now() - begin, 2 * kSecond);
      std::memset(target.address, '!', kBytes);
      ASSERT_TRUE(PumpUntil({&client}, [&] { return client.OfKind(CompletionKind::kRequest).size() == 50; }));
      EXPECT_EQ(server.Contents(target), std::string(kBytes, '!'));
      stop = true;
      server.port->Wake();
      owner.Join();
      connection = Join(client, server).client;
    }
  });
}

TEST(TcpFabricTest, MalformedBytesCloseOnlyTheirConnection) {
  InTcpWorld([](FabricWorld* world) {
    TestNode server(world, "server"), client(world, "client");
    server.Listen();
    const Joined good = Join(client, server);
    uint64_t errors = 0;
    const auto counted = [&] { return server.fabric->counters().protocol_errors == errors; };
    // In place of a handshake.
    for (const std::string& garbage :
         {std::string("GET / HTTP/1.1\r\n\r\n"), std::string(200, '\0'), std::string(500, '\xff'),
          EncodeRefusal(Hello(), "no"), EncodeHello(HandshakeKind::kWelcome, Hello(), 1)}) {
      RawPeer peer(server.address);
      peer.Send(garbage);
      EXPECT_TRUE(peer.ClosedWithin(server, 5 * kSecond));
      ++errors;
      EXPECT_TRUE(counted()) << errors;
    }
    // In place of a frame.
    FrameHeader unknown, too_long, early, nak, data, flags;
    unknown.type = 99;
    too_long.type = static_cast<uint8_t>(FrameType::kSend);
    too_long.length = 70000;
    early.type = static_cast<uint8_t>(FrameType::kAck);
    early.acknowledged = 1;
    nak.type = static_cast<uint8_t>(FrameType::kNak);
    data.type = static_cast<uint8_t>(FrameType::kReadData);
    data.length = 10;
    flags.type = static_cast<uint8_t>(FrameType::kAck);
    flags.flags = 0x80;
    for (const FrameHeader& bad : {unknown, too_long, early, nak, data, flags}) {
      RawPeer peer(server.address);
      peer.Join(server);
      peer.Send(FrameBytes(bad));
      EXPECT_TRUE(peer.ClosedWithin(server, 5 * kSecond));
      ++errors;
      EXPECT_TRUE(counted()) << errors;
    }
    // A write whose second frame is not its continuation.
    const MemoryRegion target = server.Memory(1000, Access::kRemoteWrite, '.');
    RawPeer peer(server.address);
    peer.Join(server);
    peer.Send(FrameBytes(WriteFrame(10, target.remote(), 10)) + std::string(10, 'x') +
              FrameBytes(WriteFrame(10, target.remote().Slice(500, 10), 0)) + std::string(10, 'y'));
    EXPECT_TRUE(peer.ClosedWithin(server, 5 * kSecond));
    ++errors;
    EXPECT_TRUE(counted());
    EXPECT_EQ(server.Contents(target).find('y'), std::string::npos);

    EXPECT_EQ(server.Last(CompletionKind::kDisconnected, good.server), nullptr);
    const MemoryRegion m = client.Memory(10, Access::kLocal);
    EXPECT_EQ(PostAndWait(client, server, good.client, RequestOf(Opcode::kSend, 1, {PieceOf(m, 0, 10)})),
              CompletionStatus::kOk);
  });
}

TEST(TcpFabricTest, RandomBytesNeverDoMoreThanCloseTheirConnection) {
  InTcpWorld([](FabricWorld* world) {
    TestNode server(world, "server");
    server.Listen();
    const MemoryRegion target = server.Memory(4096, Access::kRemoteReadWrite, '.');
    Random random(11);
    for (int round = 0; round < 150; ++round) {
      RawPeer peer(server.address);
      peer.Join(server);
      std::string bytes;
      for (int i = 0; i < 20; ++i) {
        FrameHeader h;
        h.type = static_cast<uint8_t>(random.Uniform(9));
        h.flags = random.OneIn(4);
        h.length = static_cast<uint32_t>(random.OneIn(10) ? random.Next() : random.Uniform(200));
        h.acknowledged = random.OneIn(5);
        h.rkey = random.OneIn(2) ? target.rkey : static_cast<uint32_t>(random.Next());
        h.immediate = static_cast<uint32_t>(random.Uniform(100));
        h.address = target.remote().address + random.Uniform(4200);
        bytes += FrameBytes(h) +
                 std::string(random.OneIn(3) ? random.Uniform(300) : std::min<uint32_t>(h.length, 500), 'z');
      }
      for (size_t at = 0; at < bytes.size();) {
        const size_t n = std::min<size_t>(1 + random.Uniform(700), bytes.size() - at);
        if (send(peer.fd(), bytes.data() + at, n, MSG_NOSIGNAL | MSG_DONTWAIT) < 0) break;
        at += n;
        server.Poll();
      }
      peer.Close();
      ASSERT_TRUE(PumpUntil({&server}, [&] { return server.fabric->counters().connections == 0; }));
    }
  });
}

TEST(TcpFabricTest, AHalfOpenHandshakeHasADeadlineAndAStormIsBounded) {
  TcpFabricOptions options;
  options.handshake_timeout_ns = 100 * kMillisecond;
  options.max_handshakes = 8;
  struct World final : FabricWorld {
    explicit World(const TcpFabricOptions& o) : options(o) {}
    std::unique_ptr<Fabric> NewFabric(const std::string&) override { return NewTcpFabric(options); }
    std::string AnyAddress(const std::string&) override { return "127.0.0.1:0"; }
    std::string NobodysAddress() override { return "127.0.0.1:1"; }
    TcpFabricOptions options;
  } world(options);
  TestNode server(&world, "server"), client(&world, "client");
  server.Listen();
  std::vector<std::unique_ptr<RawPeer>> silent;
  for (int i = 0; i < 40; ++i) silent.push_back(std::make_unique<RawPeer>(server.address));
  for (auto& peer : silent) EXPECT_TRUE(peer->ClosedWithin(server, 10 * kSecond));
  Join(client, server);
  EXPECT_EQ(server.OfKind(CompletionKind::kDisconnected).size(), 0u) << "they never were connections";
}

TEST(TcpFabricTest, ATakenPortIsOneClearError) {
  InTcpWorld([](FabricWorld* world) {
    TestNode a(world, "a"), b(world, "b");
    a.Listen();
    const Status s = b.fabric->Listen(a.address, Hello(), {b.port}, nullptr).status();
    EXPECT_TRUE(absl::IsUnavailable(s));
    EXPECT_EQ(s.message(), "cannot listen at " + a.address + ": Address already in use");
    EXPECT_TRUE(absl::IsInvalidArgument(b.fabric->Listen("nonsense", Hello(), {b.port}, nullptr).status()));
    EXPECT_FALSE(b.fabric->Listen("no-such-host.invalid:0", Hello(), {b.port}, nullptr).ok());
  });
}

TEST(TcpFabricTest, HostNamesAreLookedUpBesideThePortsThread) {
  InTcpWorld([](FabricWorld* world) {
    TestNode server(world, "server"), client(world, "client");
    server.Listen();
    const std::string port = server.address.substr(server.address.rfind(':'));
    server.address = "localhost" + port;
    Join(client, server);
    for (const std::string& bad :
         {"no-such-host.invalid" + port, std::string("nonsense"), std::string("1.2.3.4:99999")}) {
      const ConnectionId c = client.port->Connect(bad, TestHello(Role::kClient, "c"), Now() + 5 * kSecond);
      ASSERT_TRUE(
          PumpUntil({&client}, [&] { return client.Last(CompletionKind::kDisconnected, c) != nullptr; }));
    }
  });
}

// --- Real processes

// A child process that listens and serves its port with 4 MB of memory until it is killed; told over a pipe.
struct Served {
  RemoteBuffer memory;
  char address[64];
};

pid_t ForkServer(Served* served) {
  int fds[2];
  EXPECT_EQ(pipe(fds), 0);
  const pid_t child = fork();
  if (child == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    auto fabric = NewTcpFabric();
    static char memory[4 << 20];
    Served out{};
    out.memory = fabric->Register(memory, sizeof(memory), Access::kRemoteReadWrite)->remote();
    auto port = std::move(fabric->OpenPort({})).value();
    const std::string address =
        *fabric->Listen("127.0.0.1:0", TestHello(Role::kStoc, "child", 1), {port.get()}, nullptr);
    std::memcpy(out.address, address.data(), address.size());
    if (write(fds[1], &out, sizeof(out)) != sizeof(out)) _exit(1);
    std::array<Completion, 64> completions;
    for (;;) {
      if (port->Poll(completions) == 0) port->Wait(kNever);
    }
  }
  EXPECT_EQ(read(fds[0], served, sizeof(*served)), static_cast<ssize_t>(sizeof(*served)));
  close(fds[0]);
  close(fds[1]);
  return child;
}

ConnectionId JoinChild(TestNode& client, const Served& served) {
  const ConnectionId c =
      client.port->Connect(served.address, TestHello(Role::kClient, "c"), Now() + 5 * kSecond);
  EXPECT_TRUE(PumpUntil({&client}, [&] { return client.Last(CompletionKind::kConnected, c) != nullptr; }));
  return c;
}

TEST(TcpFabricProcessTest, AKilledPeerIsReportedAtOnce) {
  InTcpWorld([](FabricWorld* world) {
    Served served{};
    const pid_t child = ForkServer(&served);
    TestNode client(world, "client");
    const MemoryRegion m = client.Memory(4 << 20, Access::kLocal, 'x');
    const ConnectionId c = JoinChild(client, served);
    kill(child, SIGSTOP);
    std::vector<WorkRequest> batch;
    for (uint64_t i = 0; i < 4; ++i)
      batch.push_back(RequestOf(Opcode::kWrite, i, {PieceOf(m, 0, m.size)}, served.memory));
    ASSERT_TRUE(client.port->Post(c, batch).ok());
    PumpFor({&client}, 20 * kMillisecond);
    EXPECT_TRUE(client.OfKind(CompletionKind::kRequest).empty());
    kill(child, SIGKILL);
    const Nanos begin = Now();
    ASSERT_TRUE(
        PumpUntil({&client}, [&] { return client.Last(CompletionKind::kDisconnected, c) != nullptr; }));
    EXPECT_LT(Now() - begin, kSecond);
    for (const Event& e : client.OfKind(CompletionKind::kRequest))
      EXPECT_EQ(e.status, CompletionStatus::kFlushed);
    waitpid(child, nullptr, 0);
  });
}

TEST(TcpFabricProcessTest, H28_AStoppedPeerCompletesNothingUntilItGoesOn) {
  InTcpWorld([](FabricWorld* world) {
    Served served{};
    const pid_t child = ForkServer(&served);
    TestNode client(world, "client");
    const MemoryRegion m = client.Memory(1 << 20, Access::kLocal, 'x');
    const ConnectionId c = JoinChild(client, served);
    kill(child, SIGSTOP);
    std::vector<WorkRequest> batch{RequestOf(Opcode::kWrite, 1, {PieceOf(m, 0, 100)}, served.memory),
                                   RequestOf(Opcode::kRead, 2, {PieceOf(m, 0, 100)}, served.memory)};
    ASSERT_TRUE(client.port->Post(c, batch).ok());
    PumpFor({&client}, 300 * kMillisecond);
    EXPECT_TRUE(client.OfKind(CompletionKind::kRequest).empty());
    EXPECT_EQ(client.Last(CompletionKind::kDisconnected, c), nullptr);
    kill(child, SIGCONT);
    ASSERT_TRUE(PumpUntil({&client}, [&] { return client.OfKind(CompletionKind::kRequest).size() == 2; }));
    for (const Event& e : client.OfKind(CompletionKind::kRequest)) EXPECT_EQ(e.status, CompletionStatus::kOk);
    kill(child, SIGKILL);
    waitpid(child, nullptr, 0);
  });
}

TEST(TcpFabricProcessTest, F1_AWriterStoppedInTheMiddleIsFencedWhenItGoesOn) {
  InTcpWorld([](FabricWorld* world) {
    TestNode server(world, "server");
    server.Listen();
    constexpr size_t kBytes = 4 << 20;
    const MemoryRegion target = server.Memory(kBytes, Access::kRemoteWrite, '.');
    const RemoteBuffer remote = target.remote();
    const pid_t child = fork();
    if (child == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      auto fabric = NewTcpFabric();
      std::vector<char> memory(kBytes, 'x');
      const MemoryRegion m = *fabric->Register(memory.data(), kBytes, Access::kLocal);
      auto port = std::move(fabric->OpenPort({})).value();
      const ConnectionId c =
          port->Connect(server.address, TestHello(Role::kLtc, "zombie", 1, 1), Now() + 5 * kSecond);
      std::array<Completion, 64> completions;
      std::vector<WorkRequest> batch(4, RequestOf(Opcode::kWrite, 1, {PieceOf(m, 0, kBytes)}, remote));
      for (;;) {
        const size_t n = port->Poll(completions);
        for (size_t i = 0; i < n; ++i) {
          if (completions[i].kind == CompletionKind::kDisconnected) _exit(7);
        }
        if (n == 0) port->Wait(Now() + kMillisecond);
        [[maybe_unused]] const Status posted = port->Post(c, batch);
      }
    }
    ASSERT_TRUE(PumpUntil({&server}, [&] { return *server.At(target) == 'x'; }));
    kill(child, SIGSTOP);
    server.Poll();
    server.fabric->Revoke(target);
    std::memset(target.address, '!', kBytes);
    PumpFor({&server}, 20 * kMillisecond);
    kill(child, SIGCONT);
    int status = 0;
    ASSERT_TRUE(PumpUntil({&server}, [&] { return waitpid(child, &status, WNOHANG) == child; }));
    EXPECT_EQ(WEXITSTATUS(status), 7);
    EXPECT_EQ(server.Contents(target), std::string(kBytes, '!'));
  });
}

// --- Cost

long VoluntarySwitches() {
  rusage usage{};
  getrusage(RUSAGE_THREAD, &usage);
  return usage.ru_nvcsw;
}

TEST(TcpFabricTest, AnIdlePortWithConnectionsSleeps) {
  InTcpWorld([](FabricWorld* world) {
    TestNode server(world, "server"), client(world, "client");
    server.Listen();
    for (int i = 0; i < 20; ++i) Join(client, server);
    PumpFor({&client, &server}, 5 * kMillisecond);
    const long before = VoluntarySwitches();
    const Nanos begin = Now();
    int waits = 0;
    while (Now() < begin + 300 * kMillisecond) {
      server.port->Wait(begin + 300 * kMillisecond);
      server.Poll();
      ++waits;
    }
    EXPECT_LE(waits, 3);
    EXPECT_LE(VoluntarySwitches() - before, 5);
  });
}

// A connection that alone has traffic is read without asking epoll; one that begins to speak meanwhile is
// heard soon.
TEST(TcpFabricTest, OneBusyConnectionDoesNotKeepTheOthersWaiting) {
  InTcpWorld([](FabricWorld* world) {
    TestNode server(world, "server"), busy(world, "busy"), quiet(world, "quiet");
    server.Listen();
    const Joined b = Join(busy, server, TestHello(Role::kClient, "busy"));
    const Joined q = Join(quiet, server, TestHello(Role::kClient, "quiet"));
    const MemoryRegion from = busy.Memory(64, Access::kLocal), other = quiet.Memory(64, Access::kLocal);
    const WorkRequest r = RequestOf(Opcode::kSend, 1, {PieceOf(from, 0, 64)}),
                      s = RequestOf(Opcode::kSend, 2, {PieceOf(other, 0, 64)});
    constexpr int kBusy = 200, kBegins = 100;
    int heard = -1;
    for (int i = 0; i < kBusy; ++i) {
      ASSERT_TRUE(busy.port->Post(b.client, {&r, 1}).ok());
      if (i == kBegins) {
        ASSERT_TRUE(quiet.port->Post(q.client, {&s, 1}).ok());
      }
      server.Poll();
      busy.Poll();
      if (heard < 0 && server.Last(CompletionKind::kReceive, q.server) != nullptr) heard = i;
    }
    EXPECT_GE(heard, kBegins);
    EXPECT_LT(heard, kBegins + 20);
    EXPECT_EQ(ReceiveAll(server, kBusy + 1).size(), size_t{kBusy + 1});
  });
}

// What a turn reads is bounded: two that always have more than that to be read leave the others their turns.
TEST(TcpFabricTest, TwoThatNeverPauseDoNotKeepTheOthersWaiting) {
  InTcpWorld([](FabricWorld* world) {
    constexpr uint64_t kBytes = 8 << 10;
    TestNode server(world, "server"), first(world, "first"), second(world, "second"), quiet(world, "quiet");
    server.Listen();
    const Joined busy[] = {Join(first, server, TestHello(Role::kClient, "first")),
                           Join(second, server, TestHello(Role::kClient, "second"))};
    const Joined q = Join(quiet, server, TestHello(Role::kClient, "quiet"));
    TestNode* const nodes[] = {&first, &second};
    const MemoryRegion memory[] = {first.Memory(kBytes, Access::kLocal),
                                   second.Memory(kBytes, Access::kLocal)};
    const MemoryRegion other = quiet.Memory(64, Access::kLocal);
    const WorkRequest s = RequestOf(Opcode::kSend, 2, {PieceOf(other, 0, 64)});
    constexpr int kTurns = 60, kBegins = 20;
    int heard = -1;
    for (int i = 0; i < kTurns; ++i) {
      for (size_t b = 0; b < 2; ++b) {
        const WorkRequest r = RequestOf(Opcode::kSend, 1, {PieceOf(memory[b], 0, kBytes)});
        for (int n = 0; n < 200; ++n) nodes[b]->port->Post(busy[b].client, {&r, 1}).IgnoreError();
        nodes[b]->Poll();
      }
      if (i == kBegins) {
        ASSERT_TRUE(quiet.port->Post(q.client, {&s, 1}).ok());
      }
      quiet.Poll();
      server.Poll();
      if (heard < 0 && server.Last(CompletionKind::kReceive, q.server) != nullptr) heard = i;
    }
    EXPECT_GE(heard, kBegins);
    EXPECT_LT(heard, kTurns);
  });
}

TEST(TcpFabricTest, PortsOfOneFabricRunInThreadsOfTheirOwn) {
  InTcpWorld([](FabricWorld* world) {
    constexpr size_t kPorts = 3;
    constexpr uint64_t kWrites = 2000;
    TestNode server(world, "server", kPorts), client(world, "client", kPorts);
    server.Listen();
    const MemoryRegion target = server.Memory(kPorts * 4096, Access::kRemoteWrite, '.');
    std::atomic<bool> stop{false};
    std::atomic<uint64_t> done{0};
    std::vector<std::unique_ptr<Thread>> threads;
    for (size_t i = 0; i < kPorts; ++i) {
      threads.push_back(std::make_unique<Thread>("server.xchg." + std::to_string(i), [&, i] {
        std::array<Completion, 64> out;
        while (!stop) {
          if (server.ports[i]->Poll(out) == 0) server.ports[i]->Wait(Now() + 10 * kMillisecond);
        }
      }));
      threads.push_back(std::make_unique<Thread>("client.xchg." + std::to_string(i), [&, i] {
        std::vector<char> memory(4096, static_cast<char>('a' + i));
        const MemoryRegion m = *client.fabric->Register(memory.data(), memory.size(), Access::kLocal);
        const ConnectionId c =
            client.ports[i]->Connect(server.address, TestHello(Role::kLtc, "ltc", 1, 1), Now() + 5 * kSecond);
        std::array<Completion, 64> out;
        uint64_t posted = 0, completed = 0;
        bool up = false;
        while (completed < kWrites) {
          const size_t n = client.ports[i]->Poll(out);
          for (size_t k = 0; k < n; ++k) {
            up |= out[k].kind == CompletionKind::kConnected;
            if (out[k].kind != CompletionKind::kRequest) continue;
            EXPECT_EQ(out[k].status, CompletionStatus::kOk);
            ++completed;
          }
          while (up && posted < kWrites && posted - completed < 16) {
            const WorkRequest r = RequestOf(Opcode::kWrite, posted++, {PieceOf(m, 0, 4096)},
                                            target.remote().Slice(i * 4096, 4096));
            ASSERT_TRUE(client.ports[i]->Post(c, {&r, 1}).ok());
          }
          if (n == 0) client.ports[i]->Wait(Now() + 10 * kMillisecond);
        }
        client.fabric->Revoke(m);
        ++done;
      }));
    }
    // Registration and revocation go on meanwhile.
    while (done < kPorts) {
      char memory[64];
      server.fabric->Revoke(*server.fabric->Register(memory, sizeof(memory), Access::kRemoteRead));
      SleepFor(100 * kMicrosecond);
    }
    stop = true;
    threads.clear();
    for (size_t i = 0; i < kPorts; ++i) {
      EXPECT_EQ(server.Contents(target).substr(i * 4096, 4096),
                std::string(4096, static_cast<char>('a' + i)));
    }
  });
}

}  // namespace
}  // namespace nova
