// The contract of the fabric seam (common/rdma/fabric.h), over every implementation.
#include "common/rdma/fabric.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "tests/rdma/fabric_world.h"

namespace nova {
namespace {

class FabricTest : public ::testing::TestWithParam<FabricKind> {
 protected:
  void Run(const std::function<void(FabricWorld*)>& test) { InFabricWorld(GetParam(), test); }
};

TEST_P(FabricTest, BothEndsLearnWhoTheOtherIs) {
  Run([](FabricWorld* world) {
    TestNode server(world, "server"), client(world, "client");
    server.Listen();
    const Joined c = Join(client, server);
    EXPECT_EQ(client.Last(CompletionKind::kConnected, c.client)->peer, "server");
    EXPECT_EQ(server.Last(CompletionKind::kConnected, c.server)->peer, "client");
    EXPECT_FALSE(client.Last(CompletionKind::kConnected, c.client)->accepted);
    EXPECT_TRUE(server.Last(CompletionKind::kConnected, c.server)->accepted);
    EXPECT_EQ(client.fabric->counters().connections, 1);
  });
}

TEST_P(FabricTest, MessagesArriveWholeAndInOrderOfPosting) {
  Run([](FabricWorld* world) {
    TestNode server(world, "server"), client(world, "client");
    server.Listen();
    const Joined c = Join(client, server);
    const MemoryRegion m = client.Memory(64 * 1024, Access::kLocal);
    const std::string bytes = Pattern(m.size, 5);
    std::memcpy(m.address, bytes.data(), bytes.size());
    // Empty, small, the longest; in several Posts.
    const std::vector<size_t> sizes{0, 1, 31, 32, 33, 1000, 5000, 65535, 65536, 7, 0, 40000, 64000, 3};
    std::vector<WorkRequest> batch;
    size_t posted = 0;
    for (int round = 0; round < 20; ++round) {
      batch.clear();
      for (const size_t n : sizes)
        batch.push_back(RequestOf(Opcode::kSend, posted++, {PieceOf(m, m.size - n, n)}));
      ASSERT_TRUE(client.port->Post(c.client, batch).ok());
    }
    ASSERT_TRUE(PumpUntil({&client, &server},
                          [&] { return client.OfKind(CompletionKind::kRequest).size() == posted; }));
    const auto received = ReceiveAll(server, posted);
    ASSERT_EQ(received.size(), posted) << "a SEND that completed lies in the peer's receive queue";
    for (size_t i = 0; i < posted; ++i) {
      ASSERT_TRUE(received[i].data == bytes.substr(m.size - sizes[i % sizes.size()])) << i;
      ASSERT_EQ(received[i].connection, c.server);
    }
    const auto completed = client.OfKind(CompletionKind::kRequest);
    for (size_t i = 0; i < posted; ++i) {
      ASSERT_EQ(completed[i].id, i);
      ASSERT_EQ(completed[i].status, CompletionStatus::kOk);
    }
    EXPECT_EQ(client.fabric->counters().pending_requests, 0);
  });
}

TEST_P(FabricTest, ReceivedDataIsValidUntilTheNextPoll) {
  Run([](FabricWorld* world) {
    TestNode server(world, "server"), client(world, "client");
    server.Listen();
    const Joined c = Join(client, server);
    const MemoryRegion m = client.Memory(20000, Access::kLocal);
    const std::string bytes = Pattern(m.size, 6);
    std::memcpy(m.address, bytes.data(), bytes.size());
    std::vector<WorkRequest> batch;
    for (uint64_t i = 0; i < 50; ++i)
      batch.push_back(RequestOf(Opcode::kSend, i, {PieceOf(m, i, m.size - i)}));
    ASSERT_TRUE(client.port->Post(c.client, batch).ok());
    uint64_t seen = 0;
    ASSERT_TRUE(PumpUntil({&client}, [&] {
      std::array<Completion, 3> out;
      const size_t n = server.port->Poll(out);
      SleepFor(10 * kMicrosecond);
      client.Poll();
      for (size_t i = 0; i < n; ++i) {
        if (out[i].kind != CompletionKind::kReceive) continue;
        const std::string_view data(reinterpret_cast<const char*>(out[i].data.data()), out[i].data.size());
        EXPECT_TRUE(data == std::string_view(bytes).substr(seen));
        ++seen;
      }
      return seen == 50;
    }));
  });
}

TEST_P(FabricTest, AMessageLongerThanAPortTakesFailsLocallyAndTheConnectionGoesOn) {
  Run([](FabricWorld* world) {
    PortOptions small;
    small.max_message_bytes = 1000;
    TestNode server(world, "server", 1, small), client(world, "client");
    server.Listen();
    const Joined c = Join(client, server);
    const MemoryRegion m = client.Memory(100000, Access::kLocal);
    const std::vector<WorkRequest> batch{RequestOf(Opcode::kSend, 1, {PieceOf(m, 0, 1000)}),
                                         RequestOf(Opcode::kSend, 2, {PieceOf(m, 0, 1001)}),
                                         RequestOf(Opcode::kSend, 3, {PieceOf(m, 0, 70000)}),
                                         RequestOf(Opcode::kSend, 4, {PieceOf(m, 0, 5)})};
    ASSERT_TRUE(client.port->Post(c.client, batch).ok());
    ASSERT_TRUE(
        PumpUntil({&client, &server}, [&] { return client.OfKind(CompletionKind::kRequest).size() == 4; }));
    const auto done = client.OfKind(CompletionKind::kRequest);
    EXPECT_EQ(done[0].status, CompletionStatus::kOk);
    EXPECT_EQ(done[1].status, CompletionStatus::kLocalError);
    EXPECT_EQ(done[2].status, CompletionStatus::kLocalError);
    EXPECT_EQ(done[3].status, CompletionStatus::kOk);
    EXPECT_EQ(ReceiveAll(server, 2).size(), 2u);
    EXPECT_EQ(PostAndWait(client, server, c.client, RequestOf(Opcode::kSend, 9, {PieceOf(m, 0, 1001)})),
              CompletionStatus::kLocalError);
  });
}

TEST_P(FabricTest, UnregisteredMemoryOfOursFailsLocally) {
  Run([](FabricWorld* world) {
    TestNode server(world, "server"), client(world, "client");
    server.Listen();
    const Joined c = Join(client, server);
    const MemoryRegion m = client.Memory(100, Access::kLocal);
    char elsewhere[10];
    for (const LocalBuffer& bad : {LocalBuffer{elsewhere, 10, m.lkey}, LocalBuffer{m.address, 101, m.lkey},
                                   LocalBuffer{m.address, 10, m.lkey + 1}, LocalBuffer{m.address, 10, 0}}) {
      EXPECT_EQ(PostAndWait(client, server, c.client, RequestOf(Opcode::kSend, 1, {bad})),
                CompletionStatus::kLocalError);
    }
    EXPECT_TRUE(server.OfKind(CompletionKind::kReceive).empty());
  });
}

TEST_P(FabricTest, AWriteThatCompletedIsInTheTargetsMemory) {
  Run([](FabricWorld* world) {
    TestNode server(world, "server"), client(world, "client");
    server.Listen();
    const Joined c = Join(client, server);
    const MemoryRegion source = client.Memory(8 << 20, Access::kLocal);
    const MemoryRegion target = server.Memory(8 << 20, Access::kRemoteWrite);
    const std::string bytes = Pattern(source.size, 8);
    std::memcpy(source.address, bytes.data(), bytes.size());
    size_t at = 0;
    for (const size_t n : {size_t{1}, size_t{64}, size_t{1000}, size_t{65536}, size_t{262144}, size_t{262145},
                           size_t{1} << 20, size_t{5} << 20}) {
      ASSERT_EQ(
          PostAndWait(client, server, c.client,
                      RequestOf(Opcode::kWrite, n, {PieceOf(source, at, n)}, target.remote().Slice(at, n))),
          CompletionStatus::kOk);
      ASSERT_TRUE(std::memcmp(target.address + at, bytes.data() + at, n) == 0) << n;
      at += n;
    }
    EXPECT_TRUE(server.OfKind(CompletionKind::kReceive).empty())
        << "one-sided: the target's application is not told";
    EXPECT_EQ(client.fabric->counters().bytes_written, at);
  });
}

TEST_P(FabricTest, WriteWithImmediateArrivesAfterItsBytes) {
  Run([](FabricWorld* world) {
    TestNode server(world, "server"), client(world, "client");
    server.Listen();
    const Joined c = Join(client, server);
    const MemoryRegion source = client.Memory(1 << 20, Access::kLocal, 'a');
    const MemoryRegion target = server.Memory(1 << 20, Access::kRemoteWrite);
    uint32_t expected = 0;
    for (const size_t n : {size_t{1}, size_t{100}, size_t{70000}, size_t{600000}, size_t{0}}) {
      std::memset(source.address, 'a' + static_cast<int>(expected), source.size);
      const WorkRequest r =
          RequestOf(Opcode::kWriteWithImm, 1, {PieceOf(source, 0, n)}, target.remote(), ++expected);
      ASSERT_TRUE(client.port->Post(c.client, {&r, 1}).ok());
      ASSERT_TRUE(PumpUntil({&server, &client}, [&] {
        const auto immediates = server.OfKind(CompletionKind::kImmediate);
        if (immediates.size() < expected) return false;
        EXPECT_EQ(immediates.back().immediate, expected);
        EXPECT_EQ(std::count(server.At(target), server.At(target) + n, 'a' + static_cast<int>(expected) - 1),
                  static_cast<ptrdiff_t>(n));
        return true;
      }));
    }
    ASSERT_TRUE(
        PumpUntil({&server, &client}, [&] { return client.OfKind(CompletionKind::kRequest).size() == 5; }));
  });
}

TEST_P(FabricTest, PiecesAreGatheredAndScatteredInOrder) {
  Run([](FabricWorld* world) {
    TestNode server(world, "server"), client(world, "client");
    server.Listen();
    const Joined c = Join(client, server);
    const MemoryRegion a = client.Memory(300000, Access::kLocal), b = client.Memory(100000, Access::kLocal);
    const MemoryRegion target = server.Memory(400000, Access::kRemoteReadWrite);
    const std::string bytes = Pattern(400000, 9);
    std::memcpy(a.address, bytes.data(), 300000);
    std::memcpy(b.address, bytes.data() + 300000, 100000);
    const auto four = {PieceOf(a, 0, 1), PieceOf(a, 1, 0), PieceOf(a, 1, 299999), PieceOf(b, 0, 100000)};
    ASSERT_EQ(PostAndWait(client, server, c.client, RequestOf(Opcode::kWrite, 1, four, target.remote())),
              CompletionStatus::kOk);
    EXPECT_TRUE(server.Contents(target) == bytes);
    std::memset(a.address, 0, a.size);
    std::memset(b.address, 0, b.size);
    ASSERT_EQ(PostAndWait(client, server, c.client, RequestOf(Opcode::kRead, 2, four, target.remote())),
              CompletionStatus::kOk);
    EXPECT_TRUE(client.Contents(a) == bytes.substr(0, 300000));
    EXPECT_TRUE(client.Contents(b) == bytes.substr(300000));
    ASSERT_EQ(PostAndWait(client, server, c.client,
                          RequestOf(Opcode::kSend, 3, {PieceOf(b, 5, 3), PieceOf(a, 7, 4)})),
              CompletionStatus::kOk);
    EXPECT_EQ(ReceiveAll(server, 1).back().data, bytes.substr(300005, 3) + bytes.substr(7, 4));
  });
}

TEST_P(FabricTest, ReadsBringTheTargetsBytesAndCompleteInOrder) {
  Run([](FabricWorld* world) {
    TestNode server(world, "server"), client(world, "client");
    server.Listen();
    const Joined c = Join(client, server);
    const MemoryRegion target = server.Memory(3 << 20, Access::kRemoteReadWrite);
    const MemoryRegion into = client.Memory(3 << 20, Access::kLocal);
    const std::string bytes = Pattern(target.size, 10);
    std::memcpy(target.address, bytes.data(), bytes.size());
    std::vector<WorkRequest> batch;
    size_t at = 0;
    uint64_t id = 0;
    for (const size_t n :
         {size_t{10}, size_t{0}, size_t{65536}, size_t{100000}, size_t{1} << 20, size_t{77}}) {
      batch.push_back(RequestOf(Opcode::kRead, id++, {PieceOf(into, at, n)}, target.remote().Slice(at, n)));
      batch.push_back(RequestOf(Opcode::kSend, id++, {PieceOf(into, 0, 0)}));
      at += n;
    }
    ASSERT_TRUE(client.port->Post(c.client, batch).ok());
    ASSERT_TRUE(
        PumpUntil({&client, &server}, [&] { return client.OfKind(CompletionKind::kRequest).size() == id; }));
    EXPECT_TRUE(client.Contents(into).substr(0, at) == bytes.substr(0, at));
    const auto done = client.OfKind(CompletionKind::kRequest);
    for (uint64_t i = 0; i < id; ++i) {
      EXPECT_EQ(done[i].id, i);
      EXPECT_EQ(done[i].status, CompletionStatus::kOk);
    }
    EXPECT_EQ(client.fabric->counters().bytes_read, at);
  });
}

TEST_P(FabricTest, RequestsExecuteAtTheTargetInOrder) {
  Run([](FabricWorld* world) {
    TestNode server(world, "server"), client(world, "client");
    server.Listen();
    const Joined c = Join(client, server);
    const MemoryRegion source = client.Memory(200 * 300, Access::kLocal);
    const MemoryRegion target = server.Memory(300, Access::kRemoteReadWrite);
    std::vector<WorkRequest> batch;
    for (uint64_t i = 0; i < 200; ++i) {
      std::memset(source.address + i * 300, static_cast<int>(i), 300);
      batch.push_back(RequestOf(Opcode::kWrite, i, {PieceOf(source, i * 300, 300)}, target.remote()));
    }
    batch.push_back(RequestOf(Opcode::kRead, 200, {PieceOf(source, 0, 300)}, target.remote()));
    ASSERT_TRUE(client.port->Post(c.client, batch).ok());
    ASSERT_TRUE(
        PumpUntil({&client, &server}, [&] { return client.OfKind(CompletionKind::kRequest).size() == 201; }));
    EXPECT_EQ(server.Contents(target), std::string(300, static_cast<char>(199)));
    EXPECT_EQ(client.Contents(source).substr(0, 300), std::string(300, static_cast<char>(199)));
  });
}

TEST_P(FabricTest, BothDirectionsAtOnceLoseNothing) {
  Run([](FabricWorld* world) {
    TestNode a(world, "a"), b(world, "b");
    b.Listen();
    const Joined c = Join(a, b);
    const MemoryRegion ma = a.Memory(4 << 20, Access::kRemoteReadWrite, 'a'),
                       mb = b.Memory(4 << 20, Access::kRemoteReadWrite, 'b');
    const size_t mega = 1 << 20;
    const auto batch = [&](const MemoryRegion& mine, const MemoryRegion& theirs) {
      std::vector<WorkRequest> out;
      for (uint64_t i = 0; i < 5; ++i) {
        out.push_back(
            RequestOf(Opcode::kWrite, 3 * i, {PieceOf(mine, 0, mega)}, theirs.remote().Slice(mega, mega)));
        out.push_back(RequestOf(Opcode::kRead, 3 * i + 1, {PieceOf(mine, 2 * mega, mega)},
                                theirs.remote().Slice(0, mega)));
        out.push_back(RequestOf(Opcode::kSend, 3 * i + 2, {PieceOf(mine, 0, 60000)}));
      }
      return out;
    };
    ASSERT_TRUE(a.port->Post(c.client, batch(ma, mb)).ok());
    ASSERT_TRUE(b.port->Post(c.server, batch(mb, ma)).ok());
    ASSERT_TRUE(PumpUntil({&a, &b}, [&] {
      return a.OfKind(CompletionKind::kRequest).size() == 15 &&
             b.OfKind(CompletionKind::kRequest).size() == 15;
    }));
    for (TestNode* n : {&a, &b}) {
      for (const Event& e : n->OfKind(CompletionKind::kRequest)) EXPECT_EQ(e.status, CompletionStatus::kOk);
      EXPECT_EQ(ReceiveAll(*n, 5).size(), 5u);
    }
    EXPECT_EQ(a.Contents(ma).substr(mega, 2 * mega), std::string(2 * mega, 'b'));
    EXPECT_EQ(b.Contents(mb).substr(mega, 2 * mega), std::string(2 * mega, 'a'));
  });
}

// --- Key, bounds and rights

TEST_P(FabricTest, AViolationFailsTheRequestFlushesTheRestAndBreaksTheConnection) {
  Run([](FabricWorld* world) {
    TestNode server(world, "server"), client(world, "client");
    server.Listen();
    const MemoryRegion m = client.Memory(1000, Access::kLocal, 'x');
    const MemoryRegion target = server.Memory(1000, Access::kRemoteReadWrite, '.');
    const MemoryRegion readable = server.Memory(1000, Access::kRemoteRead, '.');
    const MemoryRegion writable = server.Memory(1000, Access::kRemoteWrite, '.');
    const MemoryRegion local = server.Memory(1000, Access::kLocal, '.');
    const RemoteBuffer whole = target.remote();
    struct Case {
      const char* what;
      Opcode opcode;
      RemoteBuffer remote;
    };
    const std::vector<Case> cases{
        {"wrong key", Opcode::kWrite, {whole.address, 100, whole.rkey ^ 1, 0}},
        {"one byte beyond", Opcode::kWrite, {whole.address + 901, 100, whole.rkey, 0}},
        {"one byte before", Opcode::kWrite, {whole.address - 1, 100, whole.rkey, 0}},
        {"around the end of memory", Opcode::kWrite, {UINT64_MAX - 50, 100, whole.rkey, 0}},
        {"write with immediate beyond", Opcode::kWriteWithImm, {whole.address + 901, 100, whole.rkey, 0}},
        {"read beyond", Opcode::kRead, {whole.address + 901, 100, whole.rkey, 0}},
        {"write to read-only", Opcode::kWrite, readable.remote()},
        {"read of write-only", Opcode::kRead, writable.remote()},
        {"write to local memory by its lkey", Opcode::kWrite, {local.remote().address, 100, local.lkey, 0}},
        {"key 0", Opcode::kWrite, {local.remote().address, 100, 0, 0}},
    };
    uint64_t errors = 0;
    for (const Case& bad : cases) {
      SCOPED_TRACE(bad.what);
      const Joined c = Join(client, server);
      client.events.clear();
      const std::vector<WorkRequest> batch{
          RequestOf(Opcode::kWrite, 1, {PieceOf(m, 0, 10)}, whole),
          RequestOf(bad.opcode, 2, {PieceOf(m, 0, 100)}, bad.remote, 7),
          RequestOf(Opcode::kWrite, 3, {PieceOf(m, 0, 10)}, whole.Slice(500, 10)),
          RequestOf(Opcode::kSend, 4, {PieceOf(m, 0, 10)})};
      ASSERT_TRUE(client.port->Post(c.client, batch).ok());
      ASSERT_TRUE(PumpUntil({&client, &server}, [&] {
        return client.Last(CompletionKind::kDisconnected, c.client) &&
               server.Last(CompletionKind::kDisconnected, c.server);
      }));
      const auto done = client.OfKind(CompletionKind::kRequest);
      ASSERT_EQ(done.size(), 4u);
      EXPECT_EQ(done[0].status, CompletionStatus::kOk);
      EXPECT_EQ(done[1].status, CompletionStatus::kRemoteAccess);
      EXPECT_EQ(done[2].status, CompletionStatus::kFlushed);
      EXPECT_EQ(done[3].status, CompletionStatus::kFlushed);
      EXPECT_EQ(client.events.back().kind, CompletionKind::kDisconnected) << "after what was pending";
      EXPECT_NE(client.events.back().reason.find("key, bounds or rights"), std::string::npos)
          << client.events.back().reason;
      EXPECT_FALSE(client.port->Post(c.client, batch).ok());
      EXPECT_EQ(server.Contents(target), std::string(10, 'x') + std::string(990, '.'));
      EXPECT_EQ(server.fabric->counters().access_errors, ++errors);
    }
    for (const MemoryRegion& r : {readable, writable, local})
      EXPECT_EQ(server.Contents(r), std::string(1000, '.'));
    EXPECT_TRUE(server.OfKind(CompletionKind::kReceive).empty())
        << "nothing behind the violation was executed";
    EXPECT_TRUE(server.OfKind(CompletionKind::kImmediate).empty());
  });
}

TEST_P(FabricTest, F1_AfterRevokeTheKeyIsDeadForEver) {
  Run([](FabricWorld* world) {
    TestNode server(world, "server"), client(world, "client");
    server.Listen();
    const MemoryRegion m = client.Memory(1000, Access::kLocal, 'x');
    MemoryRegion target = server.Memory(1000, Access::kRemoteReadWrite, '.');
    EXPECT_EQ(server.fabric->counters().regions, 1);
    server.fabric->Revoke(target);
    EXPECT_EQ(server.fabric->counters().regions, 0);
    // H3: the same memory, registered anew, has another key.
    const MemoryRegion again =
        *server.fabric->Register(target.address, target.size, Access::kRemoteReadWrite);
    EXPECT_NE(again.rkey, target.rkey);
    for (const Opcode opcode : {Opcode::kWrite, Opcode::kRead, Opcode::kWriteWithImm}) {
      const Joined c = Join(client, server);
      EXPECT_EQ(
          PostAndWait(client, server, c.client, RequestOf(opcode, 1, {PieceOf(m, 0, 100)}, target.remote())),
          CompletionStatus::kRemoteAccess);
    }
    EXPECT_EQ(server.Contents(again), std::string(1000, '.'));
    const Joined c = Join(client, server);
    EXPECT_EQ(PostAndWait(client, server, c.client,
                          RequestOf(Opcode::kWrite, 1, {PieceOf(m, 0, 100)}, again.remote())),
              CompletionStatus::kOk);
  });
}

TEST_P(FabricTest, F1_NothingLandsAfterRevokeHoweverTheWriterStreams) {
  Run([](FabricWorld* world) {
    TestNode server(world, "server"), client(world, "client");
    server.Listen();
    const size_t bytes = 1 << 20;
    const MemoryRegion m = client.Memory(bytes, Access::kLocal, 'x');
    Random random(3);
    for (int round = 0; round < 20; ++round) {
      const Joined c = Join(client, server);
      const MemoryRegion target = server.Memory(bytes, Access::kRemoteWrite, '.');
      client.events.clear();
      std::vector<WorkRequest> batch;
      for (uint64_t i = 0; i < 8; ++i)
        batch.push_back(RequestOf(Opcode::kWrite, i, {PieceOf(m, 0, bytes)}, target.remote()));
      ASSERT_TRUE(client.port->Post(c.client, batch).ok());
      PumpFor({&client, &server}, static_cast<Nanos>(random.Uniform(300 * kMicrosecond)));
      server.fabric->Revoke(target);
      std::memset(target.address, '!', bytes);
      ASSERT_TRUE(
          PumpUntil({&client, &server}, [&] { return client.OfKind(CompletionKind::kRequest).size() == 8; }));
      PumpFor({&client, &server}, 200 * kMicrosecond);
      ASSERT_EQ(server.Contents(target), std::string(bytes, '!'));
      // What failed was refused, not lost; kOk is only what was whole before.
      const auto done = client.OfKind(CompletionKind::kRequest);
      bool failed = false;
      for (const Event& e : done) {
        if (e.status != CompletionStatus::kOk && !failed) {
          EXPECT_EQ(e.status, CompletionStatus::kRemoteAccess);
          failed = true;
        } else {
          EXPECT_EQ(e.status, failed ? CompletionStatus::kFlushed : CompletionStatus::kOk);
        }
      }
      client.port->Disconnect(c.client);
    }
  });
}

TEST_P(FabricTest, F1_NothingIsReadAfterRevoke) {
  Run([](FabricWorld* world) {
    TestNode server(world, "server"), client(world, "client");
    server.Listen();
    const size_t bytes = 4 << 20;
    const MemoryRegion into = client.Memory(bytes, Access::kLocal, '?');
    Random random(4);
    for (int round = 0; round < 10; ++round) {
      const Joined c = Join(client, server);
      const MemoryRegion target = server.Memory(bytes, Access::kRemoteRead, '.');
      client.events.clear();
      const WorkRequest r = RequestOf(Opcode::kRead, 1, {PieceOf(into, 0, bytes)}, target.remote());
      ASSERT_TRUE(client.port->Post(c.client, {&r, 1}).ok());
      for (uint64_t i = random.Uniform(4); i > 0; --i) server.Poll();
      server.fabric->Revoke(target);
      std::memset(target.address, '!', bytes);
      ASSERT_TRUE(
          PumpUntil({&client, &server}, [&] { return client.OfKind(CompletionKind::kRequest).size() == 1; }));
      // It had all left before, or it failed; the bytes of later are never seen.
      EXPECT_EQ(client.Contents(into).find('!'), std::string::npos);
      const CompletionStatus status = client.OfKind(CompletionKind::kRequest)[0].status;
      if (status == CompletionStatus::kOk) {
        EXPECT_TRUE(client.Contents(into) == std::string(bytes, '.'));
      }
      client.port->Disconnect(c.client);
    }
  });
}

TEST_P(FabricTest, RevokingOurOwnMemoryFailsWhatWasPostedFromIt) {
  Run([](FabricWorld* world) {
    TestNode server(world, "server"), client(world, "client");
    server.Listen();
    const size_t bytes = 8 << 20;
    const Joined c = Join(client, server);
    const MemoryRegion m = client.Memory(bytes, Access::kLocal, 'x');
    const MemoryRegion target = server.Memory(bytes, Access::kRemoteReadWrite, '.');
    const WorkRequest r = RequestOf(Opcode::kRead, 1, {PieceOf(m, 0, bytes)}, target.remote());
    ASSERT_TRUE(client.port->Post(c.client, {&r, 1}).ok());
    client.fabric->Revoke(m);
    std::memset(m.address, '!', bytes);
    ASSERT_TRUE(PumpUntil({&client, &server},
                          [&] { return client.Last(CompletionKind::kDisconnected, c.client) != nullptr; }));
    EXPECT_EQ(client.OfKind(CompletionKind::kRequest)[0].status, CompletionStatus::kLocalError);
    EXPECT_EQ(client.Contents(m), std::string(bytes, '!'));
  });
}

TEST_P(FabricTest, NothingIsSentFromMemoryOfOursThatWasRevoked) {
  Run([](FabricWorld* world) {
    TestNode server(world, "server"), client(world, "client");
    server.Listen();
    const size_t bytes = 32 << 20;  // more than lies in any socket's buffer while the peer does not read
    const Joined c = Join(client, server);
    const MemoryRegion m = client.Memory(bytes, Access::kLocal, 'x');
    const MemoryRegion target = server.Memory(bytes, Access::kRemoteWrite, '.');
    const WorkRequest r = RequestOf(Opcode::kWrite, 1, {PieceOf(m, 0, bytes)}, target.remote());
    ASSERT_TRUE(client.port->Post(c.client, {&r, 1}).ok());
    client.fabric->Revoke(m);
    std::memset(m.address, '!', bytes);
    ASSERT_TRUE(PumpUntil({&client, &server},
                          [&] { return server.Last(CompletionKind::kDisconnected, c.server) != nullptr; }));
    EXPECT_EQ(client.OfKind(CompletionKind::kRequest)[0].status, CompletionStatus::kLocalError);
    EXPECT_EQ(server.Contents(target).find('!'), std::string::npos);
  });
}

// --- Connections

TEST_P(FabricTest, PostTakesAllOrNothing) {
  Run([](FabricWorld* world) {
    PortOptions options;
    options.max_pending_requests = 4;
    TestNode server(world, "server"), client(world, "client", 1, options);
    server.Listen();
    const Joined c = Join(client, server);
    const MemoryRegion m = client.Memory(10, Access::kLocal);
    const std::vector<WorkRequest> five(5, RequestOf(Opcode::kSend, 1, {PieceOf(m, 0, 10)}));
    EXPECT_TRUE(absl::IsResourceExhausted(client.port->Post(c.client, five)));
    PumpFor({&client, &server}, kMillisecond);
    EXPECT_TRUE(server.OfKind(CompletionKind::kReceive).empty());
    EXPECT_TRUE(client.port->Post(c.client, std::span(five).first(4)).ok());
    ASSERT_TRUE(
        PumpUntil({&client, &server}, [&] { return client.OfKind(CompletionKind::kRequest).size() == 4; }));
    EXPECT_TRUE(client.port->Post(c.client, std::span(five).first(1)).ok());
    EXPECT_TRUE(absl::IsUnavailable(client.port->Post(ConnectionId(12345), std::span(five).first(1))));
  });
}

TEST_P(FabricTest, ConnectingToNobodyEndsWithAReason) {
  Run([](FabricWorld* world) {
    TestNode client(world, "client");
    const ConnectionId c =
        client.port->Connect(world->NobodysAddress(), TestHello(Role::kClient, "c"), Now() + kSecond);
    ASSERT_TRUE(
        PumpUntil({&client}, [&] { return client.Last(CompletionKind::kDisconnected, c) != nullptr; }));
    EXPECT_NE(client.events.back().reason.find("refused"), std::string::npos) << client.events.back().reason;
    EXPECT_EQ(client.fabric->counters().connections, 0);
  });
}

TEST_P(FabricTest, AListenerThatDoesNotPollMakesTheDialerTimeOut) {
  Run([](FabricWorld* world) {
    TestNode server(world, "server"), client(world, "client");
    server.Listen();
    const Nanos begin = Now();
    const ConnectionId c =
        client.port->Connect(server.address, TestHello(Role::kClient, "c"), begin + 50 * kMillisecond);
    ASSERT_TRUE(
        PumpUntil({&client}, [&] { return client.Last(CompletionKind::kDisconnected, c) != nullptr; }));
    EXPECT_GE(Now(), begin + 50 * kMillisecond);
    EXPECT_LT(Now(), begin + 2 * kSecond * world->patience());
  });
}

TEST_P(FabricTest, DisconnectFlushesWhatIsPendingAndThePeerLearnsIt) {
  Run([](FabricWorld* world) {
    TestNode server(world, "server"), client(world, "client");
    server.Listen();
    const Joined c = Join(client, server);
    const MemoryRegion m = client.Memory(8 << 20, Access::kLocal);
    const MemoryRegion target = server.Memory(8 << 20, Access::kRemoteWrite);
    std::vector<WorkRequest> batch;
    for (uint64_t i = 0; i < 3; ++i)
      batch.push_back(RequestOf(Opcode::kWrite, i, {PieceOf(m, 0, m.size)}, target.remote()));
    ASSERT_TRUE(client.port->Post(c.client, batch).ok());
    client.port->Disconnect(c.client);
    client.port->Disconnect(c.client);
    ASSERT_TRUE(PumpUntil({&client, &server}, [&] {
      return client.Last(CompletionKind::kDisconnected, c.client) &&
             server.Last(CompletionKind::kDisconnected, c.server);
    }));
    const auto done = client.OfKind(CompletionKind::kRequest);
    ASSERT_EQ(done.size(), 3u);
    for (const Event& e : done) EXPECT_EQ(e.status, CompletionStatus::kFlushed);
    EXPECT_EQ(client.OfKind(CompletionKind::kDisconnected).size(), 1u);
    for (TestNode* n : {&client, &server}) {
      EXPECT_EQ(n->fabric->counters().connections, 0);
      EXPECT_EQ(n->fabric->counters().pending_requests, 0);
    }
  });
}

TEST_P(FabricTest, APortThatIsDestroyedLeavesItsPeersDisconnected) {
  Run([](FabricWorld* world) {
    TestNode server(world, "server"), client(world, "client");
    server.Listen();
    const Joined c = Join(client, server);
    server.ports.clear();
    ASSERT_TRUE(PumpUntil({&client},
                          [&] { return client.Last(CompletionKind::kDisconnected, c.client) != nullptr; }));
    EXPECT_EQ(server.fabric->counters().connections, 0);
  });
}

TEST_P(FabricTest, F3_ANewerConnectionReplacesTheOlderAndALowerOneIsRefused) {
  Run([](FabricWorld* world) {
    TestNode server(world, "server"), old_client(world, "old"), new_client(world, "new");
    server.Listen();
    const Joined first = Join(old_client, server, TestHello(Role::kLtc, "ltc1", 5, 1));
    const Joined other = Join(old_client, server, TestHello(Role::kLtc, "ltc2", 5, 1));
    const Joined second = Join(new_client, server, TestHello(Role::kLtc, "ltc1", 5, 2));
    // The older was destroyed before the newer was up.
    std::vector<size_t> order;
    for (size_t i = 0; i < server.events.size(); ++i) {
      if (server.events[i].kind == CompletionKind::kDisconnected &&
          server.events[i].connection == first.server)
        order.push_back(i);
      if (server.events[i].kind == CompletionKind::kConnected && server.events[i].connection == second.server)
        order.push_back(i);
    }
    ASSERT_EQ(order.size(), 2u);
    EXPECT_EQ(server.events[order[0]].kind, CompletionKind::kDisconnected);
    ASSERT_TRUE(PumpUntil({&old_client, &server}, [&] {
      return old_client.Last(CompletionKind::kDisconnected, first.client) != nullptr;
    }));
    EXPECT_EQ(old_client.Last(CompletionKind::kDisconnected, other.client), nullptr)
        << "another name is not concerned";
    // Lower in generation, and lower in incarnation with a higher generation.
    for (const Hello& lower : {TestHello(Role::kLtc, "ltc1", 5, 1), TestHello(Role::kLtc, "ltc1", 4, 9)}) {
      const ConnectionId c = old_client.port->Connect(server.address, lower, Now() + kSecond);
      ASSERT_TRUE(PumpUntil({&old_client, &server},
                            [&] { return old_client.Last(CompletionKind::kDisconnected, c) != nullptr; }));
      EXPECT_NE(old_client.events.back().reason.find("F3"), std::string::npos)
          << old_client.events.back().reason;
    }
    EXPECT_EQ(new_client.Last(CompletionKind::kDisconnected, second.client), nullptr);
    EXPECT_EQ(server.fabric->counters().connections, 2);
    // A later incarnation starts from its first generation.
    Join(old_client, server, TestHello(Role::kLtc, "ltc1", 6, 1));
    EXPECT_EQ(server.fabric->counters().connections, 2);
  });
}

TEST_P(FabricTest, F3_NothingOfTheOlderConnectionLandsOnceTheNewerIsUp) {
  Run([](FabricWorld* world) {
    TestNode server(world, "server"), old_client(world, "old"), new_client(world, "new");
    server.Listen();
    const size_t bytes = 4 << 20;
    const Joined first = Join(old_client, server, TestHello(Role::kLtc, "ltc1", 5, 1));
    const MemoryRegion m = old_client.Memory(bytes, Access::kLocal, 'x');
    const MemoryRegion target = server.Memory(bytes, Access::kRemoteWrite, '.');
    std::vector<WorkRequest> batch;
    for (uint64_t i = 0; i < 8; ++i)
      batch.push_back(RequestOf(Opcode::kWrite, i, {PieceOf(m, 0, bytes)}, target.remote()));
    ASSERT_TRUE(old_client.port->Post(first.client, batch).ok());
    Join(new_client, server, TestHello(Role::kLtc, "ltc1", 5, 2));
    std::memset(target.address, '!', bytes);
    PumpFor({&old_client, &server}, 5 * kMillisecond);
    EXPECT_EQ(server.Contents(target), std::string(bytes, '!'));
  });
}

TEST_P(FabricTest, ClientsWithoutAnIncarnationMayShareAName) {
  Run([](FabricWorld* world) {
    TestNode server(world, "server"), client(world, "client");
    server.Listen();
    Join(client, server, TestHello(Role::kClient, "app"));
    Join(client, server, TestHello(Role::kClient, "app"));
    EXPECT_EQ(server.fabric->counters().connections, 2);
  });
}

TEST_P(FabricTest, ARefusedPeerIsToldTheReason) {
  Run([](FabricWorld* world) {
    TestNode server(world, "server"), client(world, "client");
    const Uuid ours{1, 2};
    server.Listen([&](const Hello& peer) {
      return peer.cluster == ours ? OkStatus()
                                  : absl::PermissionDeniedError("of cluster " + peer.cluster.ToString());
    });
    Hello hello = TestHello(Role::kLtc, "ltc1", 1, 1);
    hello.cluster = ours;
    Join(client, server, hello);
    hello.cluster = {3, 4};
    hello.generation = 2;
    const ConnectionId c = client.port->Connect(server.address, hello, Now() + kSecond);
    ASSERT_TRUE(PumpUntil({&client, &server},
                          [&] { return client.Last(CompletionKind::kDisconnected, c) != nullptr; }));
    EXPECT_EQ(client.events.back().reason, "refused: of cluster " + hello.cluster.ToString());
    EXPECT_EQ(server.OfKind(CompletionKind::kConnected).size(), 1u);
    EXPECT_EQ(server.fabric->counters().connections, 1);
  });
}

TEST_P(FabricTest, VersionsThatDoNotMeetAreRefused) {
  Run([](FabricWorld* world) {
    TestNode server(world, "server"), client(world, "client");
    Hello self = TestHello(Role::kStoc, "server", 1);
    self.min_version = 2;
    self.max_version = 3;
    server.Listen(nullptr, self);
    Hello hello = TestHello(Role::kClient, "c");
    const ConnectionId c = client.port->Connect(server.address, hello, Now() + kSecond);
    ASSERT_TRUE(PumpUntil({&client, &server},
                          [&] { return client.Last(CompletionKind::kDisconnected, c) != nullptr; }));
    EXPECT_NE(client.events.back().reason.find("1..1 offered, 2..3 spoken"), std::string::npos)
        << client.events.back().reason;
    hello.max_version = 2;
    Join(client, server, hello);
  });
}

TEST_P(FabricTest, ConnectionsGoToThePortOfTheirIndex) {
  Run([](FabricWorld* world) {
    TestNode server(world, "server", 3), client(world, "client", 5);
    server.Listen();
    for (size_t i = 0; i < 5; ++i)
      client.ports[i]->Connect(server.address, TestHello(Role::kLtc, "ltc", 1, 1), Now() + kSecond);
    ASSERT_TRUE(PumpUntil({&client, &server}, [&] {
      return client.OfKind(CompletionKind::kConnected).size() == 5 &&
             server.OfKind(CompletionKind::kConnected).size() == 5;
    }));
    EXPECT_EQ(server.fabric->counters().connections, 5);
    server.ports[1].reset();
    ASSERT_TRUE(PumpUntil({&client, &server},
                          [&] { return client.OfKind(CompletionKind::kDisconnected).size() == 2; }));
    EXPECT_EQ(server.fabric->counters().connections, 3) << "indices 1 and 4 went to port 1";
  });
}

TEST_P(FabricTest, TwoHundredConnectionsWorkAndLeaveNothingBehind) {
  Run([](FabricWorld* world) {
    TestNode server(world, "server"), client(world, "client");
    server.Listen();
    const MemoryRegion m = client.Memory(1000, Access::kLocal, 'x');
    const MemoryRegion target = server.Memory(200 * 1000, Access::kRemoteWrite, '.');
    std::vector<ConnectionId> connections;
    for (int i = 0; i < 200; ++i) {
      connections.push_back(client.port->Connect(
          server.address, TestHello(Role::kLtc, "ltc" + std::to_string(i), 1, 1), Now() + 10 * kSecond));
    }
    ASSERT_TRUE(PumpUntil({&client, &server},
                          [&] { return client.OfKind(CompletionKind::kConnected).size() == 200; }));
    for (size_t i = 0; i < 200; ++i) {
      const std::vector<WorkRequest> two{
          RequestOf(Opcode::kWrite, i, {PieceOf(m, 0, 1000)}, target.remote().Slice(i * 1000, 1000)),
          RequestOf(Opcode::kSend, i, {PieceOf(m, 0, 100)})};
      ASSERT_TRUE(client.port->Post(connections[i], two).ok());
    }
    ASSERT_TRUE(
        PumpUntil({&client, &server}, [&] { return client.OfKind(CompletionKind::kRequest).size() == 400; }));
    EXPECT_EQ(server.Contents(target), std::string(200 * 1000, 'x'));
    EXPECT_EQ(ReceiveAll(server, 200).size(), 200u);
    EXPECT_EQ(server.fabric->counters().connections, 200);
    for (const ConnectionId c : connections) client.port->Disconnect(c);
    ASSERT_TRUE(PumpUntil({&client, &server},
                          [&] { return server.OfKind(CompletionKind::kDisconnected).size() == 200; }));
    for (TestNode* n : {&client, &server}) {
      EXPECT_EQ(n->fabric->counters().connections, 0);
      EXPECT_EQ(n->fabric->counters().pending_requests, 0);
    }
  });
}

TEST_P(FabricTest, WaitEndsWhenSomethingArrivesOrIsWokenOrAtItsDeadline) {
  Run([](FabricWorld* world) {
    TestNode server(world, "server"), client(world, "client");
    server.Listen();
    const Joined c = Join(client, server);
    PumpFor({&client, &server}, kMillisecond);
    const Nanos begin = Now();
    client.port->Wait(begin + 20 * kMillisecond);
    EXPECT_GE(Now(), begin + 20 * kMillisecond);
    client.port->Wake();
    client.port->Wait(Now() + 100 * kSecond);  // woken before
    const MemoryRegion m = server.Memory(10, Access::kLocal);
    const WorkRequest r = RequestOf(Opcode::kSend, 1, {PieceOf(m, 0, 10)});
    ASSERT_TRUE(server.port->Post(c.server, {&r, 1}).ok());
    client.port->Wait(Now() + 100 * kSecond);
    EXPECT_LT(Now(), begin + 50 * kSecond);
  });
}

INSTANTIATE_TEST_SUITE_P(Fabrics, FabricTest, ::testing::ValuesIn(FabricKinds()),
                         [](const auto& info) { return FabricKindName(info.param); });

}  // namespace
}  // namespace nova
