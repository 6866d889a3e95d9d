// A slow or hostile neighbour of an Xchg, over tcp and in simulation: what it takes, what others notice.
#include <gtest/gtest.h>

#include <atomic>
#include <string>
#include <vector>

#include "common/rdma/xchg.h"
#include "tests/rdma/blocking_call.h"
#include "tests/rdma/fabric_world.h"

namespace nova {
namespace {

constexpr uint16_t kEcho = 0x10;
constexpr uint16_t kPage = 0x11;    // answered with kPageBytes
constexpr uint16_t kSilent = 0x12;  // never answered
constexpr uint16_t kWhole = 0x13;   // answered with most of the send memory
constexpr size_t kPageBytes = 256 << 10;
constexpr size_t kPoolBytes = 16 << 20;
constexpr size_t kWholeBytes = 15 << 20;
constexpr Nanos kProgressTimeout = 1500 * kMillisecond;  // longer than a busy machine keeps a reader waiting

XchgOptions ServerOptions() {
  XchgOptions o;
  o.name = "server.xchg.0";
  o.send_pool_bytes = kPoolBytes;
  o.progress_timeout_ns = kProgressTimeout;
  return o;
}

struct Server {
  explicit Server(FabricWorld* world, const XchgOptions& options = ServerOptions())
      : fabric(world->NewFabric("server")),
        xchg(*Xchg::Open(fabric.get(), TestHello(Role::kLtc, "server", 1), options)) {
    const auto answer = [this](const IncomingCall& call, std::string_view body) {
      ++answered;
      xchg->Reply(call.connection, call.request_id, Outcome::kOk, {{body}});
    };
    xchg->Handle(kEcho, [answer](const IncomingCall& call) { answer(call, call.body); });
    // As a scan does: later, when what it reads has come.
    xchg->Handle(kPage, [this, answer](const IncomingCall& call) {
      ++begun;
      most_begun = std::max(most_begun, begun);
      xchg->ExpectReply(call.request_id, kPageBytes);
      xchg->RunAt(xchg->turn_time_ns() + kMillisecond, [this, answer, call] {
        --begun;
        answer(call, page);
      });
    });
    xchg->Handle(kWhole, [this, answer](const IncomingCall& call) { answer(call, whole); });
    xchg->Handle(kSilent, [this](const IncomingCall&) { ++silent; });
    xchg->HandleDisconnect([this](ConnectionId) { ++disconnected; });
    auto bound = fabric->Listen(world->AnyAddress("server"), TestHello(Role::kLtc, "server", 1),
                                {xchg->port()}, nullptr);
    EXPECT_TRUE(bound.ok()) << bound.status();
    address = *bound;
    xchg->Start();
  }
  ~Server() { xchg->Stop(); }

  const std::string page = std::string(kPageBytes, 'p'), whole = std::string(kWholeBytes, 'w');
  std::unique_ptr<Fabric> fabric;
  std::unique_ptr<Xchg> xchg;
  std::string address;
  int begun = 0;  // pages
  int most_begun = 0;
  std::atomic<int> answered{0}, silent{0}, disconnected{0};
};

struct Client {
  Client(FabricWorld* world, const std::string& name, XchgOptions options = {})
      : fabric(world->NewFabric(name)),
        xchg(*Xchg::Open(fabric.get(), TestHello(Role::kClient, name), options)) {
    xchg->Start();
  }
  ~Client() { xchg->Stop(); }
  BlockingResult Call(const Server& server, uint16_t type, std::string_view body = {},
                      Nanos timeout_ns = 20 * kSecond) {
    return BlockingCall(xchg.get(), server.address, type, {{body}}, Now() + timeout_ns);
  }
  std::unique_ptr<Fabric> fabric;
  std::unique_ptr<Xchg> xchg;
};

// A peer whose program takes nothing unless it is polled, and sends what it likes.
struct Raw {
  Raw(FabricWorld* world, const std::string& name, const Server& server) : node(world, name) {
    connection = node.port->Connect(server.address, TestHello(Role::kClient, name), Now() + 5 * kSecond);
    EXPECT_TRUE(
        PumpUntil({&node}, [&] { return node.Last(CompletionKind::kConnected, connection) != nullptr; }));
  }
  // One message of its own, or the first piece of a longer one.
  void Send(uint16_t type, size_t body_bytes = 0, size_t whole_bytes = 0) {
    MessageHeader h;
    h.type = type;
    h.request_id = ++sent;
    h.body_length = static_cast<uint32_t>(std::max(body_bytes, whole_bytes));
    h.flags = whole_bytes > body_bytes ? MessageHeader::kMorePieces : 0;
    h.deadline_or_depth = MessageHeader::kNoDeadline;
    const MemoryRegion m = node.Memory(sizeof(h) + body_bytes, Access::kLocal);
    std::memcpy(node.At(m), &h, sizeof(h));
    const WorkRequest r = RequestOf(Opcode::kSend, sent, {PieceOf(m, 0, m.size)});
    posted = node.port->Post(connection, {&r, 1}).ok();
  }
  // Its program does nothing any more. (Unless it is paused, a simulated device takes in what comes.)
  void FallSilentSoon() {
    SimNetwork* const network = node.world->network();
    if (network == nullptr) return;
    PumpUntil({&node}, [&] { return node.OfKind(CompletionKind::kRequest).size() == sent; });
    network->Pause(node.name);
  }
  bool Closed() {
    node.Poll();
    return node.Last(CompletionKind::kDisconnected, connection) != nullptr;
  }
  // Ends of messages that came.
  size_t Replies() const {
    size_t n = 0;
    for (const Event& e : node.OfKind(CompletionKind::kReceive)) {
      MessageHeader h;
      std::memcpy(&h, e.data.data(), sizeof(h));
      n += (h.flags & MessageHeader::kMorePieces) == 0;
    }
    return n;
  }
  TestNode node;
  ConnectionId connection;
  uint64_t sent = 0;
  bool posted = false;
};

class NeighbourTest : public ::testing::TestWithParam<FabricKind> {
 protected:
  void Run(const std::function<void(FabricWorld*)>& test) { InFabricWorld(GetParam(), test); }
};

bool WaitFor(const std::function<bool()>& done, Nanos time_ns = 10 * kSecond) {
  for (const Nanos until = Now() + time_ns; !done(); SleepFor(kMillisecond)) {
    if (Now() >= until) return false;
  }
  return true;
}

// Some that ask for 700 pages each and read none; who reads has all its answers, before, while and after they
// are cut off.
TEST_P(NeighbourTest, WhoDoesNotReadItsRepliesTakesNobodyElses) {
  Run([](FabricWorld* world) {
    for (const int count : {1, 12}) {
      Server server(world);
      Client healthy(world, "healthy");
      ASSERT_EQ(healthy.Call(server, kPage).outcome, Outcome::kOk);
      std::vector<std::unique_ptr<Raw>> hostile;
      for (int i = 0; i < count; ++i)
        hostile.push_back(std::make_unique<Raw>(world, StrCat("hostile-", count, "-", i), server));
      for (const auto& h : hostile) {
        for (int i = 0; i < 700; ++i) h->Send(kPage);
        h->FallSilentSoon();
      }
      for (const Nanos until = Now() + 2 * kSecond; Now() < until;) {
        const BlockingResult r = healthy.Call(server, kPage);
        ASSERT_EQ(r.outcome, Outcome::kOk) << count;
        ASSERT_TRUE(r.body == server.page);
        SleepFor(10 * kMillisecond);
      }
      EXPECT_TRUE(WaitFor([&] { return server.disconnected == count; }))
          << server.disconnected << " of " << count;
      const XchgCounters counters = server.xchg->counters();
      EXPECT_EQ(counters.cut_off, static_cast<uint64_t>(count));
      EXPECT_GT(counters.waited_requests, 600u * static_cast<uint64_t>(count));
      server.xchg->Stop();
      EXPECT_LE(server.most_begun * kPageBytes, kPoolBytes) << "pages begun at a time";
    }
  });
}

// F4: its memory has other users when its connection is gone.
TEST_P(NeighbourTest, F4_WhatAPeerDidNotReadIsFreeWhenItsConnectionIsGone) {
  Run([](FabricWorld* world) {
    Server server(world);
    Client healthy(world, "healthy");
    Raw hostile(world, "hostile", server);
    for (int i = 0; i < 100; ++i) hostile.Send(kPage);
    hostile.FallSilentSoon();
    ASSERT_TRUE(WaitFor([&] { return server.disconnected == 1; }));
    const BlockingResult r = healthy.Call(server, kWhole);
    EXPECT_EQ(r.outcome, Outcome::kOk);
    EXPECT_EQ(r.body.size(), kWholeBytes);
    EXPECT_TRUE(WaitFor([&] { return server.fabric->counters().pending_requests == 0; }));
  });
}

TEST_P(NeighbourTest, WhoReadsSlowlyIsNotClosed) {
  Run([](FabricWorld* world) {
    Server server(world);
    Raw slow(world, "slow", server);
    constexpr size_t kPages = 60;
    for (size_t i = 0; i < kPages; ++i) slow.Send(kPage);
    ASSERT_TRUE(
        PumpUntil({&slow.node}, [&] { return slow.node.OfKind(CompletionKind::kRequest).size() == kPages; }));
    const Nanos begin = Now();
    while (slow.Replies() < kPages) {
      ASSERT_FALSE(slow.Closed()) << slow.Replies() << " of " << kPages << " replies";
      ASSERT_LT(Now(), begin + 60 * kSecond);
      SleepFor(200 * kMillisecond);
    }
    EXPECT_GT(Now() - begin, 2 * kProgressTimeout) << "it was slow";
    EXPECT_EQ(server.xchg->counters().cut_off, 0u);
    EXPECT_EQ(server.xchg->counters().dropped_replies, 0u);
  });
}

// What it has too much of waits its turn; nothing is refused, and nothing comes twice.
TEST_P(NeighbourTest, WhoPipelinesAndReadsIsAnsweredInFull) {
  Run([](FabricWorld* world) {
    XchgOptions options = ServerOptions();
    options.max_calls_per_connection = 16;
    Server server(world, options);
    Raw raw(world, "raw", server);
    for (int i = 0; i < 900; ++i) raw.Send(i % 20 == 0 ? kPage : kEcho, 100);
    EXPECT_TRUE(PumpUntil(
        {&raw.node}, [&] { return raw.Replies() == 900; }, 60 * kSecond))
        << raw.Replies();
    EXPECT_GT(server.xchg->counters().waited_requests, 100u);
    EXPECT_EQ(server.xchg->counters().cut_off, 0u);
    EXPECT_EQ(server.answered, 900);
  });
}

// What handlers keep of requests that they do not answer is bounded, also where a peer sends as much as it
// likes; others are served.
TEST_P(NeighbourTest, WhatRequestsLeaveWithHandlersIsBounded) {
  Run([](FabricWorld* world) {
    constexpr size_t kBody = 1 << 20;
    XchgOptions options = ServerOptions();
    options.max_call_bytes_per_connection = 4 * kBody;
    options.max_begun_bytes = 40 * kBody;
    Server server(world, options);
    XchgOptions greedy;
    greedy.max_call_bytes_per_connection = 64 * kBody;
    Client sender(world, "sender", greedy), other(world, "other");
    std::atomic<int> ended{0};
    const std::string body(kBody, 'b');
    sender.xchg->Submit([&] {
      for (int i = 0; i < 24; ++i) {
        sender.xchg->Call(sender.xchg->peer(server.address), kSilent, {{body}}, Now() + 2 * kSecond,
                          [&](const CallResult&) { ++ended; });
      }
    });
    ASSERT_TRUE(WaitFor([&] { return server.silent == 4; }));
    EXPECT_EQ(other.Call(server, kEcho, body).outcome, Outcome::kOk);
    EXPECT_EQ(server.silent, 4);
    EXPECT_EQ(server.xchg->counters().cut_off, 0u);
    ASSERT_TRUE(WaitFor([&] { return ended == 24; }));
  });
}

// Nor does it grow with each connection anew: a handler that parks requests keeps them when their peer goes.
TEST_P(NeighbourTest, WhatRequestsLeaveWithHandlersIsBoundedOverConnections) {
  Run([](FabricWorld* world) {
    constexpr size_t kBody = 1 << 20;
    XchgOptions options = ServerOptions();
    options.max_call_bytes_per_connection = 4 * kBody;
    options.max_begun_bytes = 10 * kBody;
    options.progress_timeout_ns = 500 * kMillisecond;
    Server server(world, options);
    const std::string body(kBody, 'b');
    const Nanos deadline = Now() + 3 * kSecond;
    for (int i = 0; i < 8; ++i) {
      Client sender(world, StrCat("sender-", i));
      sender.xchg->Submit([&] {
        for (int n = 0; n < 4; ++n) {
          sender.xchg->Call(sender.xchg->peer(server.address), kSilent, {{body}}, deadline,
                            [](const CallResult&) {});
        }
      });
      WaitFor([&] { return server.silent == 4 * (i + 1); }, 100 * kMillisecond);
    }
    EXPECT_GE(server.silent, 8);
    EXPECT_LE(server.silent, 12);
    Client other(world, "other");
    const auto served = [&] { return other.Call(server, kEcho, body, kSecond).outcome == Outcome::kOk; };
    ASSERT_TRUE(WaitFor(served, 20 * kSecond)) << "the deadlines of the others are over";
  });
}

// An Xchg posts no more than may be under way, so that its requests wait on its own side.
TEST_P(NeighbourTest, AnXchgSendsNoMoreThanMayBeUnderWay) {
  Run([](FabricWorld* world) {
    XchgOptions options;
    options.max_calls_per_connection = 20;
    options.max_call_bytes_per_connection = 10'000;
    Server server(world);
    Client client(world, "client", options);
    std::atomic<int> ended{0}, good{0};
    const std::string body(1000, 'b');
    const auto call = [&](uint16_t type, Nanos deadline_ns) {
      client.xchg->Submit([&, type, deadline_ns] {
        client.xchg->Call(client.xchg->peer(server.address), type, {{body}}, deadline_ns,
                          [&](const CallResult& r) {
                            good += r.outcome == Outcome::kOk && r.body == body;
                            ++ended;
                          });
      });
    };
    for (int i = 0; i < 500; ++i) call(kEcho, kNever);
    ASSERT_TRUE(WaitFor([&] { return ended == 500; }));
    EXPECT_EQ(good, 500);
    // One that is longer than may be under way goes alone.
    EXPECT_EQ(client.Call(server, kEcho, std::string(50'000, 'l')).outcome, Outcome::kOk);
    for (int i = 0; i < 30; ++i) call(kSilent, Now() + 2 * kSecond);
    SleepFor(200 * kMillisecond);
    EXPECT_EQ(server.silent, 10);
    ASSERT_TRUE(WaitFor([&] { return ended == 530; }));
    EXPECT_EQ(good, 500);
    EXPECT_EQ(client.Call(server, kEcho, body).outcome, Outcome::kOk)
        << "who has given up has nothing under way";
  });
}

// A server that hangs leaves send memory for the others', and its connection is given up.
TEST_P(NeighbourTest, CallsToAHungPeerLeaveSendMemoryForOthers) {
  Run([](FabricWorld* world) {
    XchgOptions options;
    options.send_pool_bytes = 8 << 20;
    options.progress_timeout_ns = 400 * kMillisecond;
    Server server(world);
    Client client(world, "client", options);
    TestNode hung(world, "stoc-hung");
    hung.Listen();
    std::atomic<int> ended{0};
    const std::string body(60'000, 'b');
    client.xchg->Submit([&] {
      for (int i = 0; i < 400; ++i) {
        client.xchg->Call(client.xchg->peer(hung.address), kEcho, {{body}}, kNever,
                          [&](const CallResult&) { ++ended; });
      }
    });
    EXPECT_EQ(client.Call(server, kEcho, body).outcome, Outcome::kOk);
    // It accepts, and then takes nothing any more.
    PumpUntil({&hung}, [&] { return !hung.OfKind(CompletionKind::kConnected).empty(); });
    if (SimNetwork* network = world->network()) network->Pause("stoc-hung");
    for (int i = 0; i < 20; ++i) {
      EXPECT_EQ(client.Call(server, kEcho, body).outcome, Outcome::kOk) << i;
      SleepFor(10 * kMillisecond);
    }
    EXPECT_TRUE(WaitFor([&] { return ended == 400; })) << ended << " calls without a deadline have ended";
  });
}

TEST_P(NeighbourTest, WhoAsksForMoreThanMayWaitIsClosed) {
  Run([](FabricWorld* world) {
    XchgOptions options = ServerOptions();
    options.max_calls_per_connection = 4;
    options.max_waiting_bytes_per_connection = 1 << 20;
    options.progress_timeout_ns = 100 * kSecond;
    Server server(world, options);
    Client healthy(world, "healthy");
    Raw raw(world, "raw", server);
    for (int i = 0; i < 4; ++i) raw.Send(kSilent);
    for (int i = 0; i < 900 && !raw.Closed(); ++i) raw.Send(kEcho, 60'000);
    EXPECT_TRUE(PumpUntil({&raw.node}, [&] { return raw.Closed(); }));
    EXPECT_EQ(server.xchg->counters().cut_off, 1u);
    EXPECT_LT(server.xchg->counters().waited_requests, 30u);
    EXPECT_EQ(healthy.Call(server, kEcho, "x").outcome, Outcome::kOk);
  });
}

TEST_P(NeighbourTest, WhoDoesNotEndItsMessageIsClosed) {
  Run([](FabricWorld* world) {
    Server server(world);
    Raw raw(world, "raw", server), idle(world, "idle", server);
    raw.Send(kEcho, 60'000, 10 << 20);
    const Nanos begin = Now();
    EXPECT_TRUE(PumpUntil({&raw.node}, [&] { return raw.Closed(); }));
    EXPECT_GE(Now() - begin, kProgressTimeout);
    EXPECT_FALSE(idle.Closed()) << "who sends nothing may stay";
    EXPECT_EQ(server.xchg->counters().cut_off, 1u);
  });
}

// A handler that drops a request does not use up its connection: who is long past its deadline waits no more.
TEST_P(NeighbourTest, RequestsThatNobodyAnswersAreForgottenAfterTheirDeadline) {
  Run([](FabricWorld* world) {
    XchgOptions options = ServerOptions();
    options.max_calls_per_connection = 4;
    Server server(world, options);
    Client client(world, "client");
    for (int i = 0; i < 4; ++i)
      EXPECT_EQ(client.Call(server, kSilent, {}, 20 * kMillisecond).outcome, Outcome::kUnknown);
    EXPECT_EQ(client.Call(server, kEcho, "x", 100 * kMillisecond).outcome, Outcome::kUnknown) << "it waits";
    SleepFor(kProgressTimeout + 100 * kMillisecond);
    EXPECT_EQ(client.Call(server, kEcho, "x").outcome, Outcome::kOk);
    EXPECT_EQ(server.answered, 1) << "what nobody waits for any more is not begun";
    EXPECT_EQ(client.xchg->counters().connects, 1u);
  });
}

// Not on verbs, whose devices take in some hundred messages though their program takes none, and then have a
// deadline of their own (H28).
INSTANTIATE_TEST_SUITE_P(Fabrics, NeighbourTest, ::testing::Values(FabricKind::kTcp, FabricKind::kSim),
                         [](const auto& info) { return FabricKindName(info.param); });

}  // namespace
}  // namespace nova
