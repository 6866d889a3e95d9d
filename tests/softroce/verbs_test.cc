// What only a real queue pair shows (docs/rdma.md; docs/testing.md, rows 3, 28, 30, 43, 44), on
// the RDMA devices of $NOVA_VERBS_ADDRESS and $NOVA_VERBS_SERVER: run by tests/softroce/guest.sh.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "common/base/crc32c.h"
#include "common/rdma/factory/open_fabric.h"
#include "common/rdma/verbs/verbs_fabric.h"
#include "common/rdma/verbs/verbs_fence.h"
#include "logc/log_client.h"
#include "logc/log_copies.h"
#include "stoc/exposed_memory.h"
#include "tests/cluster/process.h"
#include "tests/stoc/stoc_rig.h"

namespace nova {
namespace {

// With the fabric's own times: some of what follows is about them.
void InVerbs(const std::function<void(FabricWorld*)>& test) { test(NewVerbsWorld({}).get()); }
std::string ClientAddress() { return std::getenv("NOVA_VERBS_ADDRESS"); }
std::string ServerAddress() { return std::getenv("NOVA_VERBS_SERVER"); }
int Shell(const std::string& command) { return std::system(command.c_str()); }

// --- Which primitive fences

TEST(VerbsTest, T1_AStaleWriterIntoAReusedSlab) {
  InVerbs([](FabricWorld* world) {
    TestNode server(world, "server"), client(world, "client");
    server.Listen();
    const MemoryRegion m = client.Memory(100, Access::kLocal, 'x');
    // One registration over the whole slab, given to somebody else: the stale key still writes.
    const MemoryRegion slab = server.Memory(4096, Access::kRemoteWrite, '.');
    Joined c = Join(client, server);
    EXPECT_EQ(PostAndWait(client, server, c.client,
                          RequestOf(Opcode::kWrite, 1, {PieceOf(m, 0, 100)}, slab.remote())),
              CompletionStatus::kOk);
    EXPECT_EQ(server.Contents(slab).substr(0, 100), std::string(100, 'x'))
        << "nothing but the key stands in its way";
    // Our pool: what does not come back in order has another key when it is handed out again.
    ExposedMemory pool(server.fabric.get(), {1 << 20, 1 << 20, 0});
    auto piece = pool.Take(1 << 20, {0, c.server});
    ASSERT_TRUE(piece.ok()) << piece.status();
    const RemoteBuffer stale = piece->region().remote();
    EXPECT_EQ(
        PostAndWait(client, server, c.client, RequestOf(Opcode::kWrite, 2, {PieceOf(m, 0, 100)}, stale)),
        CompletionStatus::kOk);
    piece->Reset();
    while (pool.Recycle()) continue;
    auto reused = pool.Take(1 << 20, {0, c.server});
    ASSERT_TRUE(reused.ok()) << reused.status();
    ASSERT_EQ(reused->region().remote().address, stale.address) << "the same memory";
    std::memset(reused->data(), '!', 100);
    EXPECT_EQ(
        PostAndWait(client, server, c.client, RequestOf(Opcode::kWrite, 3, {PieceOf(m, 0, 100)}, stale)),
        CompletionStatus::kRemoteAccess);
    EXPECT_EQ(std::string(reinterpret_cast<char*>(reused->data()), 100), std::string(100, '!'));
  });
}

TEST(VerbsTest, T2_ARevokedKeyFailsAndNoKeyComesBackSoon) {
  InVerbs([](FabricWorld* world) {
    TestNode server(world, "server"), client(world, "client");
    server.Listen();
    const MemoryRegion m = client.Memory(100, Access::kLocal, 'x');
    std::vector<char> memory(4096, '.');
    std::set<uint32_t> keys;
    RemoteBuffer first;
    for (int i = 0; i < 1000; ++i) {
      const auto region = server.fabric->Register(memory.data(), memory.size(), Access::kRemoteWrite);
      ASSERT_TRUE(region.ok()) << region.status();
      EXPECT_TRUE(keys.insert(region->rkey).second) << "key " << region->rkey << " came back after " << i;
      if (i == 0) first = region->remote();
      server.fabric->Revoke(*region);
    }
    const Joined c = Join(client, server);
    EXPECT_EQ(
        PostAndWait(client, server, c.client, RequestOf(Opcode::kWrite, 1, {PieceOf(m, 0, 100)}, first)),
        CompletionStatus::kRemoteAccess);
    EXPECT_EQ(memory, std::vector<char>(4096, '.'));
  });
}

TEST(VerbsTest, T3_AQueuePairInErrorMayCompleteNothingAndOurDeadlineEndsIt) {  // H28, row 43
  InVerbs([](FabricWorld* world) {
    TestNode server(world, "server");
    server.Listen();
    VerbsFabricOptions options;
    options.request_timeout_ns = 500 * kMillisecond;
    const auto impatient = NewVerbsWorld(options);
    TestNode client(impatient.get(), "client");
    const MemoryRegion m = client.Memory(1000, Access::kLocal, 'x');
    const MemoryRegion target = server.Memory(1000, Access::kRemoteWrite, '.');
    Joined c = Join(client, server);
    EXPECT_EQ(QueuePairs(*client.fabric), 1);
    BreakQueuePairs(server.fabric.get());
    std::vector<WorkRequest> batch;
    for (uint64_t i = 0; i < 40; ++i)
      batch.push_back(RequestOf(Opcode::kWrite, i, {PieceOf(m, 0, 1000)}, target.remote()));
    const Nanos begin = Now();
    ASSERT_TRUE(client.port->Post(c.client, batch).ok());
    // The server's port is not polled: nobody closes the connection for it.
    ASSERT_TRUE(PumpUntil({&client}, [&] { return client.OfKind(CompletionKind::kRequest).size() == 40; }));
    for (const Event& e : client.OfKind(CompletionKind::kRequest))
      EXPECT_EQ(e.status, CompletionStatus::kFlushed);
    const Event* gone = client.Last(CompletionKind::kDisconnected, c.client);
    ASSERT_NE(gone, nullptr);
    std::printf("ended after %ld ms: %s\n", (Now() - begin) / kMillisecond, gone->reason.c_str());
    EXPECT_LT(Now() - begin, 3 * kSecond);
    EXPECT_EQ(server.Contents(target), std::string(1000, '.'));
    ASSERT_TRUE(PumpUntil({&client, &server},
                          [&] { return server.Last(CompletionKind::kDisconnected, c.server) != nullptr; }));
    EXPECT_EQ(QueuePairs(*client.fabric), 0);
    EXPECT_EQ(QueuePairs(*server.fabric), 0);
    EXPECT_EQ(server.fabric->counters().regions, 1);
    c = Join(client, server);
    EXPECT_EQ(PostAndWait(client, server, c.client,
                          RequestOf(Opcode::kWrite, 99, {PieceOf(m, 0, 1000)}, target.remote())),
              CompletionStatus::kOk);
  });
}

TEST(VerbsTest, T2toT6_WhatTheDeviceItselfDoes) {
  const auto results = RunFenceTests(ServerAddress());
  ASSERT_TRUE(results.ok()) << results.status();
  std::map<std::string, FenceResult> by_name;
  for (const FenceResult& r : *results) {
    std::printf("%-4s %-58s %s (%.0f us)\n", r.name.c_str(), r.what.c_str(), r.outcome.c_str(), r.micros);
    by_name[r.name] = r;
  }
  EXPECT_EQ(by_name["T1"].fences, Fences::kNo) << "the control: one registration over all protects nothing";
  EXPECT_EQ(by_name["T2"].fences, Fences::kYes) << "what F1 stands on";
  EXPECT_EQ(by_name["T3"].fences, Fences::kYes);
  EXPECT_EQ(by_name["T4"].fences, Fences::kYes);
  EXPECT_NE(by_name["T6b"].fences, Fences::kNo);
}

// --- T7: a child process writes 8 MiB and is killed in the middle

constexpr size_t kTornBytes = 8 << 20;

int WriterMain(const std::string& address, uint64_t target, uint32_t rkey) {
  VerbsFabricOptions options;
  options.address = ClientAddress();
  auto fabric = *NewVerbsFabric(options);
  std::vector<char> memory(kTornBytes);
  const std::string bytes = Pattern(kTornBytes - 4, 7);
  std::memcpy(memory.data(), bytes.data(), bytes.size());
  const uint32_t crc = Crc32c(bytes);
  std::memcpy(memory.data() + bytes.size(), &crc, sizeof(crc));
  const MemoryRegion m = *fabric->Register(memory.data(), kTornBytes, Access::kLocal);
  auto port = *fabric->OpenPort({});
  const ConnectionId c = port->Connect(address, TestHello(Role::kLtc, "writer", 1, 1), Now() + 5 * kSecond);
  std::array<Completion, 16> completions;
  for (;;) {
    const size_t n = port->Poll(completions);
    for (size_t i = 0; i < n; ++i) {
      if (completions[i].kind == CompletionKind::kConnected) {
        const WorkRequest r =
            RequestOf(Opcode::kWrite, 1, {PieceOf(m, 0, kTornBytes)}, {target, kTornBytes, rkey, 0});
        if (!port->Post(c, {&r, 1}).ok()) return 1;
      }
      if (completions[i].kind == CompletionKind::kRequest) return 0;
    }
    if (n == 0) port->Wait(Now() + kMillisecond);
  }
}

TEST(VerbsTest, T7_AWriterKilledInTheMiddleLeavesAWriteThatIsSeenAsTorn) {  // H4, row 28
  InVerbs([](FabricWorld* world) {
    TestNode server(world, "server");
    server.Listen();
    int torn = 0, whole = 0;
    Random random(9);
    for (int round = 0; round < 6; ++round) {
      const MemoryRegion target = server.Memory(kTornBytes, Access::kRemoteWrite, 0);
      auto writer = Process::Start(
          {"/proc/self/exe", "writer", server.address, StrCat(target.remote().address), StrCat(target.rkey)});
      ASSERT_TRUE(writer.ok()) << writer.status();
      ASSERT_TRUE(PumpUntil(
          {&server}, [&] { return *server.At(target) != 0; }, 20 * kSecond))
          << "the writer did not begin";
      SleepFor(static_cast<Nanos>(random.Uniform(60)) * kMillisecond);
      (*writer)->Kill();
      PumpFor({&server}, 100 * kMillisecond);  // what was on the wire has landed, or never will
      server.fabric->Revoke(target);
      const std::string_view bytes(server.At(target), kTornBytes - 4);
      uint32_t crc;
      std::memcpy(&crc, bytes.data() + bytes.size(), sizeof(crc));
      const bool complete = std::string_view(Pattern(kTornBytes - 4, 7)) == bytes;
      EXPECT_EQ(Crc32c(bytes) == crc, complete) << "the checksum says exactly whether all of it is there";
      ++(complete ? whole : torn);
    }
    std::printf("%d torn, %d whole\n", torn, whole);
    EXPECT_GT(torn, 0);
    PumpFor({&server}, 200 * kMillisecond);
    EXPECT_EQ(QueuePairs(*server.fabric), 0);
  });
}

// --- Faults

TEST(VerbsTest, AKilledPeerEndsWhatIsPendingAndLeavesNothingBehind) {
  InVerbs([](FabricWorld* world) {
    TestNode server(world, "server"), client(world, "client");
    server.Listen();
    const MemoryRegion target = server.Memory(kTornBytes, Access::kRemoteReadWrite, 0);
    auto writer = Process::Start(
        {"/proc/self/exe", "writer", server.address, StrCat(target.remote().address), StrCat(target.rkey)});
    ASSERT_TRUE(writer.ok()) << writer.status();
    ASSERT_TRUE(PumpUntil(
        {&server}, [&] { return !server.OfKind(CompletionKind::kConnected).empty(); }, 20 * kSecond));
    (*writer)->Kill();
    EXPECT_TRUE(PumpUntil(
        {&server}, [&] { return !server.OfKind(CompletionKind::kDisconnected).empty(); }, 10 * kSecond));
    EXPECT_EQ(QueuePairs(*server.fabric), 0);
    EXPECT_EQ(server.fabric->counters().connections, 0);
    EXPECT_EQ(server.fabric->counters().regions, 1);
  });
}

TEST(VerbsTest, TheInterfaceGoesDownAndUpAndTrafficResumes) {  // row 44
  InVerbs([](FabricWorld* world) {
    TestNode server(world, "server"), client(world, "client");
    server.Listen();
    const MemoryRegion m = client.Memory(1 << 20, Access::kLocal, 'x');
    const MemoryRegion target = server.Memory(1 << 20, Access::kRemoteWrite, '.');
    for (int round = 0; round < 2; ++round) {
      Joined c = Join(client, server);
      client.events.clear();
      ASSERT_EQ(Shell("ip link set v1 down"), 0);
      std::vector<WorkRequest> batch(8,
                                     RequestOf(Opcode::kWrite, 1, {PieceOf(m, 0, 1 << 20)}, target.remote()));
      const Nanos begin = Now();
      Status posted = client.port->Post(c.client, batch);
      EXPECT_TRUE(PumpUntil(
          {&client, &server}, [&] { return client.Last(CompletionKind::kDisconnected, c.client) != nullptr; },
          20 * kSecond));
      std::printf("round %d: ended after %ld ms\n", round, (Now() - begin) / kMillisecond);
      EXPECT_LT(Now() - begin, 8 * kSecond);
      if (posted.ok()) {
        EXPECT_EQ(client.OfKind(CompletionKind::kRequest).size(), 8u);
      }
      ASSERT_EQ(Shell("ip link set v1 up && ip neigh replace 10.77.0.1 lladdr $(cat "
                      "/sys/class/net/v0/address) dev v1 && "
                      "ip route replace 10.77.0.1 dev v1 src 10.77.0.2 table 101"),
                0);
      client.port->Disconnect(c.client);
      PumpFor({&client, &server}, 2 * kSecond);
      for (const Event& e : server.OfKind(CompletionKind::kConnected)) {
        if (server.Last(CompletionKind::kDisconnected, e.connection) == nullptr)
          server.port->Disconnect(e.connection);
      }
    }
    const Joined c = Join(client, server);
    EXPECT_EQ(PostAndWait(client, server, c.client,
                          RequestOf(Opcode::kWrite, 9, {PieceOf(m, 0, 1 << 20)}, target.remote())),
              CompletionStatus::kOk);
    EXPECT_EQ(QueuePairs(*client.fabric), 1);
    EXPECT_EQ(client.fabric->counters().regions, 1);
  });
}

TEST(VerbsTest, ASilentConnectionIsKeptAliveWithoutThePeersProcessor) {
  VerbsFabricOptions options;
  options.keepalive_ns = 300 * kMillisecond;
  options.request_timeout_ns = 500 * kMillisecond;
  const auto world = NewVerbsWorld(options);
  TestNode server(world.get(), "server"), client(world.get(), "client");
  server.Listen();
  const Joined c = Join(client, server);
  PumpFor({&client}, 2 * kSecond);  // the server's port does nothing
  EXPECT_EQ(client.Last(CompletionKind::kDisconnected, c.client), nullptr);
  BreakQueuePairs(server.fabric.get());
  EXPECT_TRUE(PumpUntil(
      {&client}, [&] { return client.Last(CompletionKind::kDisconnected, c.client) != nullptr; },
      5 * kSecond));
}

// --- Bad input

TEST(VerbsTest, WhatCannotBeHadIsOneLineWithItsFix) {
  const auto error = [](VerbsFabricOptions o) { return std::string(NewVerbsFabric(o).status().message()); };
  VerbsFabricOptions o;
  o.address = "127.0.0.1";
  EXPECT_NE(error(o).find(
                "127.0.0.1 is not the address of an RDMA device; of an RDMA device are: 10.77.0.1 on rxe0"),
            std::string::npos)
      << error(o);
  o.address = "";
  o.device = "mlx5_9:1";
  EXPECT_NE(error(o).find("no RDMA device mlx5_9:1"), std::string::npos) << error(o);
  o.device = "rxe0:x";
  EXPECT_NE(error(o).find("not NAME or NAME:PORT"), std::string::npos) << error(o);
  o.device = "rxe1";
  o.address = ClientAddress();
  EXPECT_NE(error(o).find("is the address of rxe0:1, not of --rdma_device=rxe1"), std::string::npos)
      << error(o);
  ASSERT_EQ(Shell("ip link add vd0 type dummy; ip addr add 10.99.0.1/24 dev vd0; rdma link add rxed type rxe "
                  "netdev vd0"),
            0);
  o.device = "rxed";
  o.address = "";
  EXPECT_NE(error(o).find("no RDMA port is up: rxed:1 (down)"), std::string::npos) << error(o);
  Shell("rdma link delete rxed; ip link delete vd0");
  // auto: tcp, and what was lost.
  const auto fallen = OpenFabric({"auto", "", "127.0.0.1:0"});
  ASSERT_TRUE(fallen.ok()) << fallen.status();
  EXPECT_TRUE(fallen->fell_back);
  EXPECT_EQ(fallen->fabric->name(), "tcp");
  EXPECT_NE(fallen->text.find("lost: "), std::string::npos) << fallen->text;
  const auto chosen = OpenFabric({"auto", "", ServerAddress() + ":0"});
  ASSERT_TRUE(chosen.ok()) << chosen.status();
  EXPECT_EQ(chosen->text, "fabric verbs: rxe1:1 (RoCE, active, MTU 4096)");
  EXPECT_FALSE(OpenFabric({"verbs", "", "127.0.0.1:0"}).ok());
  EXPECT_FALSE(OpenFabric({"sim", "", ""}).ok());
}

TEST(VerbsTest, LittleLockableMemoryIsOneLineWithItsFix) {
  // A user without CAP_IPC_LOCK and 64 KiB, as many distributions start one.
  const std::string program = StrCat("/dev/shm/nova-open-", getpid());
  ASSERT_EQ(Shell(StrCat("cp /proc/", getpid(), "/exe ", program, " && chmod 755 ", program)), 0);
  const int status =
      Shell(StrCat("setpriv --reuid=65534 --regid=65534 --clear-groups --inh-caps=-all --bounding-set=-all "
                   "sh -c 'ulimit -l 64; exec ",
                   program, " open' >/tmp/nova-memlock 2>&1"));
  Shell(StrCat("rm ", program));
  EXPECT_EQ(WEXITSTATUS(status), 2);
  std::ifstream in("/tmp/nova-memlock");
  std::string line;
  std::getline(in, line);
  EXPECT_NE(line.find("may lock 64 KiB"), std::string::npos) << line;
  EXPECT_NE(line.find("LimitMEMLOCK=infinity"), std::string::npos) << line;
}

// --- The StoC's processor takes no part

// A StoC in a process of its own: says where, and serves until it is killed.
int StocMain() {
  InVerbs([](FabricWorld* world) {
    SimDisk medium;
    auto disk = medium.Mount();
    TestStocOptions options;
    options.log_memory = {256 << 20, 64 << 20, 1};
    TestStoc stoc(world, 1, 100, disk.get(), options);
    std::printf("%s\n", stoc.info().address.c_str());
    std::fflush(stdout);
    for (;;) SleepFor(kSecond);
  });
  return 0;
}

struct Usage {
  uint64_t switches = 0;  // voluntary, all threads but the main one, which sleeps in a loop
  uint64_t user_ticks = 0;
  uint64_t system_ticks = 0;
};

Usage UsageOf(pid_t pid) {
  Usage out;
  for (const auto& task : std::filesystem::directory_iterator(StrCat("/proc/", pid, "/task"))) {
    if (task.path().filename() == StrCat(pid)) continue;
    std::ifstream status(task.path() / "status");
    for (std::string line; std::getline(status, line);) {
      uint64_t n = 0;
      if (line.starts_with("voluntary_ctxt_switches:") &&
          absl::SimpleAtoi(line.substr(line.find(':') + 1), &n))
        out.switches += n;
    }
    std::ifstream stat(task.path() / "stat");
    std::string text;
    std::getline(stat, text);
    const std::vector<std::string> words = absl::StrSplit(text.substr(text.rfind(')') + 2), ' ');
    uint64_t user = 0, system = 0;
    EXPECT_TRUE(absl::SimpleAtoi(words[11], &user) && absl::SimpleAtoi(words[12], &system));
    out.user_ticks += user;
    out.system_ticks += system;
  }
  return out;
}

TEST(VerbsTest, AppendingTakesNoneOfTheStocsTimeAndRecoveryNoneOfItsMessages) {  // L2, R3
  const uint64_t records = std::getenv("NOVA_BYPASS_RECORDS") != nullptr
                               ? std::strtoull(std::getenv("NOVA_BYPASS_RECORDS"), nullptr, 10)
                               : 100'000;
  InVerbs([&](FabricWorld* world) {
    auto child = Process::Start({"/proc/self/exe", "stoc"});
    ASSERT_TRUE(child.ok()) << child.status();
    const auto line = (*child)->ReadLine(Now() + 20 * kSecond);
    ASSERT_TRUE(line.ok()) << line.status();
    NodeInfo node;
    node.name = node.host = "stoc-1";
    node.role = Role::kStoc;
    node.stoc_id = StocId(1);
    node.incarnation = Incarnation(100);
    node.address = *line;

    Metrics metrics;
    LogOptions options;
    options.segment_bytes = 64 << 20;  // one segment: opened by a message, before the count begins
    options.write_deadline_ns = options.open_deadline_ns = 10 * kSecond;
    std::unique_ptr<LogClient> logs;
    TestClient ltc(world, "ltc-1", 10, 1, [&](TestClient* c) {
      logs = std::make_unique<LogClient>(c->fabric.get(), c->stocs.get(),
                                         std::vector<Xchg*>{c->xchgs[0].get()}, options, &metrics);
    });
    TestClient other(world, "ltc-2", 11);
    ltc.stocs->UpdateStocs({node});
    other.stocs->UpdateStocs({node});
    const LogGroup group{GroupId(1), {{StocId(1), Incarnation(100)}}};
    std::unique_ptr<RangeLog> log =
        logs->Open(RangeId(7), Epoch(3), group,
                   [](const LogGroup&, StocId, std::function<void(StatusOr<LogGroup>)> answer) {
                     answer(absl::FailedPreconditionError("no other StoC"));
                   });
    const std::string value(100, 'v');
    const auto append = [&](SequenceNumber first, uint64_t count) {
      struct State {
        Mutex mu;
        CondVar changed;
        uint64_t ok = 0, ended = 0, next = 0;
      } state;
      Executor* on = ltc.executors[0].get();
      std::function<void()> step = [&] {
        for (int i = 0; i < 64 && state.next < count; ++i) {
          LogRecord record;
          record.round = 1;
          record.first_sequence = first + state.next;
          const LogEntry entry{MemTableId(1), ValueType::kPut, "key", value};
          record.entries = {&entry, 1};
          const Outcome taken = log->Append(on, record, [&](Outcome o) {
            MutexLock lock(&state.mu);
            state.ok += o == Outcome::kOk;
            if (++state.ended == count) state.changed.SignalAll();
          });
          if (taken != Outcome::kOk) break;
          ++state.next;
        }
        if (state.next < count) on->RunAt(Now() + kMillisecond, step);
      };
      on->Submit(step);
      MutexLock lock(&state.mu);
      while (state.ended < count) {
        if (!state.changed.WaitUntil(&state.mu, Now() + 120 * kSecond)) break;
      }
      return state.ok;
    };
    ASSERT_EQ(append(1, 10), 10u);  // the segment is open, the connection up
    SleepFor(kSecond);
    const Usage before = UsageOf((*child)->pid());
    const FabricCounters ltc_before = ltc.fabric->counters();
    const Nanos begin = Now();
    ASSERT_EQ(append(11, records), records);
    const double seconds = static_cast<double>(Now() - begin) / 1e9;
    const Usage after = UsageOf((*child)->pid());
    const FabricCounters ltc_after = ltc.fabric->counters();
    std::printf(
        "%lu records in %.1f s: the StoC's threads switched %lu times, user %lu, system %lu ticks of 10 ms; "
        "SEND %lu bytes, WRITE %lu bytes\n",
        records, seconds, after.switches - before.switches, after.user_ticks - before.user_ticks,
        after.system_ticks - before.system_ticks, ltc_after.bytes_sent - ltc_before.bytes_sent,
        ltc_after.bytes_written - ltc_before.bytes_written);
    EXPECT_EQ(ltc_after.bytes_sent, ltc_before.bytes_sent) << "no message, so no completion at the StoC";
    EXPECT_GE(ltc_after.bytes_written - ltc_before.bytes_written, records * 100);
    // Its timers go on; nothing is per record.
    EXPECT_LT(after.switches - before.switches, records / 100 + static_cast<uint64_t>(seconds * 50));
    EXPECT_LE(after.user_ticks - before.user_ticks, 3u + static_cast<uint64_t>(seconds / 2));

    // R2 is a message; R3, the bytes, is not.
    const auto fenced = other.stocs->Fence(StocId(1), RangeId(7), Epoch(4), Now() + 20 * kSecond);
    ASSERT_TRUE(fenced.ok()) << fenced.status();
    const FabricCounters read_before = other.fabric->counters();
    const Usage stoc_before = UsageOf((*child)->pid());
    uint64_t bytes = 0, found = 0;
    for (const SealedSegment& s : fenced->segments) {
      const auto segment =
          other.stocs->ReadRemote(StocId(1), fenced->incarnation, s.memory, Now() + 60 * kSecond);
      ASSERT_TRUE(segment.ok()) << segment.status();
      bytes += segment->size();
      const MemTableDone nothing = [](MemTableId) { return false; };
      LogCopies log(s.log, nothing);
      log.Add(LogCopies::Keeps::kWritten, {{"the segment", *segment}});
      RecoveredLogs records_found;
      EXPECT_TRUE(log.Read(&records_found).ok());
      found += records_found.size();
    }
    const FabricCounters read_after = other.fabric->counters();
    const Usage stoc_after = UsageOf((*child)->pid());
    EXPECT_EQ(found, records + 10);
    EXPECT_EQ(read_after.bytes_sent, read_before.bytes_sent);
    EXPECT_EQ(read_after.bytes_read - read_before.bytes_read, bytes);
    std::printf("recovery: READ %lu bytes, SEND %lu; the StoC's threads: %lu switches, user %lu ticks\n",
                bytes, read_after.bytes_sent - read_before.bytes_sent,
                stoc_after.switches - stoc_before.switches, stoc_after.user_ticks - stoc_before.user_ticks);
    log = nullptr;
    ltc.Stop();
    logs = nullptr;
  });
}

}  // namespace
}  // namespace nova

int main(int argc, char** argv) {
  const std::string what = argc > 1 ? argv[1] : "";
  if (what == "writer" && argc == 5) {
    return nova::WriterMain(argv[2], std::strtoull(argv[3], nullptr, 10),
                            static_cast<uint32_t>(std::strtoul(argv[4], nullptr, 10)));
  }
  if (what == "stoc") return nova::StocMain();
  if (what == "open") {
    const auto fabric = nova::NewVerbsFabric({});
    std::printf("%s\n", fabric.ok() ? "opened" : std::string(fabric.status().message()).c_str());
    return fabric.ok() ? 0 : 2;
  }
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
