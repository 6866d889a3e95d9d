// Xchg over both fabrics: calls, one-sided operations, deadlines, reconnection, bounds.
#include "common/rdma/xchg.h"

#include <gtest/gtest.h>

#include <atomic>
#include <map>
#include <string>
#include <vector>

#include "tests/rdma/blocking_call.h"
#include "tests/rdma/fabric_world.h"

namespace nova {
namespace {

constexpr uint16_t kEcho = 0x10;
constexpr uint16_t kSilent = 0x11;  // never answered
constexpr uint16_t kLate = 0x12;    // answered after 100 ms

// An Xchg of a node with a fabric of its own, started.
struct Node {
  Node(FabricWorld* world, const std::string& name, XchgOptions options = {}, Hello hello = {}) {
    fabric = world->NewFabric(name);
    options.name = name + ".xchg.0";
    if (NameIsEmpty(hello)) hello = TestHello(Role::kStoc, name, 1);
    xchg = *Xchg::Open(fabric.get(), hello, options);
    xchg->Handle(kEcho, [this](const IncomingCall& call) {
      ++echoed;
      xchg->Reply(call.connection, call.request_id, Outcome::kOk, {{call.body}});
    });
    xchg->Handle(kSilent, [this](const IncomingCall&) { ++ignored; });
    xchg->Handle(kLate, [this](const IncomingCall& call) {
      xchg->RunAt(xchg->turn_time_ns() + 100 * kMillisecond,
                  [this, connection = call.connection, id = call.request_id] {
                    xchg->Reply(connection, id, Outcome::kOk, {});
                  });
    });
  }
  static bool NameIsEmpty(const Hello& h) { return h.name[0] == '\0'; }
  void Listen(const std::string& at) {
    auto bound = fabric->Listen(at, TestHello(Role::kStoc, "server", 1), {xchg->port()}, nullptr);
    ASSERT_TRUE(bound.ok()) << bound.status();
    address = *bound;
  }
  // Runs fn on the xchg thread and waits for it.
  void OnXchg(std::function<void()> fn) {
    Notification done;
    xchg->Submit([&] {
      fn();
      done.Notify();
    });
    done.Wait();
  }

  std::unique_ptr<Fabric> fabric;
  std::unique_ptr<Xchg> xchg;
  std::string address;
  std::atomic<int> echoed{0};
  std::atomic<int> ignored{0};
};

BlockingResult Echo(Node& client, const std::string& address, std::string_view body,
                    Nanos timeout_ns = 5 * kSecond) {
  return BlockingCall(client.xchg.get(), address, kEcho, {{body}}, Now() + timeout_ns);
}

class XchgTest : public ::testing::TestWithParam<FabricKind> {
 protected:
  void Run(const std::function<void(FabricWorld*)>& test) { InFabricWorld(GetParam(), test); }
};

TEST_P(XchgTest, CallIsAnsweredWithItsBody) {
  Run([](FabricWorld* world) {
    Node server(world, "server"), client(world, "client");
    server.Listen(world->AnyAddress("server"));
    server.xchg->SetQueueDepthSource([] { return 42u; });
    server.xchg->Start();
    client.xchg->Start();
    for (int i = 0; i < 100; ++i) {
      const std::string body = Pattern(static_cast<size_t>(i) * 7, static_cast<uint64_t>(i));
      const BlockingResult r = Echo(client, server.address, body);
      ASSERT_EQ(r.outcome, Outcome::kOk);
      ASSERT_EQ(r.body, body);
    }
    uint32_t depth = 0;
    Notification done;
    client.xchg->Submit([&] {
      client.xchg->Call(client.xchg->peer(server.address), kEcho, {}, kNever, [&](const CallResult& r) {
        depth = r.queue_depth;
        done.Notify();
      });
    });
    done.Wait();
    EXPECT_EQ(depth, 42u);
    EXPECT_EQ(client.xchg->counters().connects, 1u);
  });
}

TEST_P(XchgTest, LongMessagesTravelInPieces) {
  Run([](FabricWorld* world) {
    Node server(world, "server"), client(world, "client");
    server.Listen(world->AnyAddress("server"));
    server.xchg->Start();
    client.xchg->Start();
    for (const size_t n : {size_t{65503}, size_t{65504}, size_t{65505}, size_t{131008}, size_t{5} << 20}) {
      const std::string body = Pattern(n, n);
      // In uneven parts, so that pieces and parts do not end together.
      const std::string_view all = body;
      const std::vector<std::string_view> parts{
          all.substr(0, n / 3), {}, all.substr(n / 3, n / 7), all.substr(n / 3 + n / 7)};
      const BlockingResult r =
          BlockingCall(client.xchg.get(), server.address, kEcho, parts, Now() + 20 * kSecond);
      ASSERT_EQ(r.outcome, Outcome::kOk) << n;
      ASSERT_TRUE(r.body == body) << n;
    }
  });
}

// Collects what a call or operation ended with.
struct Ends {
  std::vector<Outcome> outcomes;
  CallDone Call() {
    return [this](const CallResult& r) { outcomes.push_back(r.outcome); };
  }
  OpDone Op() {
    return [this](Outcome o) { outcomes.push_back(o); };
  }
};

// Two nodes whose turns the test runs itself, in turn.
bool RunUntil(const std::vector<Xchg*>& xchgs, const std::function<bool()>& done,
              Nanos time_ns = 10 * kSecond) {
  const Nanos deadline = Now() + time_ns;
  while (!done()) {
    if (Now() >= deadline) return false;
    bool active = false;
    for (Xchg* x : xchgs) active |= x->RunOnce();
    if (!active) SleepFor(50 * kMicrosecond);
  }
  return true;
}

TEST_P(XchgTest, DoneNeverRunsInsideCall) {
  Run([](FabricWorld* world) {
    XchgOptions options;
    options.max_message_bytes = 1000;
    options.max_queued_calls_per_peer = 3;
    Node client(world, "client", options);
    client.xchg->RunOnce();
    Peer* peer = client.xchg->peer(world->NobodysAddress());
    Ends ends;
    client.xchg->Call(peer, kEcho, {{std::string(1001, 'x')}}, kNever, ends.Call());
    client.xchg->Call(peer, kEcho, {}, Now() - 1, ends.Call());
    for (int i = 0; i < 4; ++i) client.xchg->Call(peer, kEcho, {}, kNever, ends.Call());
    client.xchg->Write(peer, {}, 0, 0, Now() - 1, ends.Op());
    EXPECT_TRUE(ends.outcomes.empty());
    ASSERT_TRUE(RunUntil({client.xchg.get()}, [&] { return ends.outcomes.size() == 7; }));
    EXPECT_EQ(std::count(ends.outcomes.begin(), ends.outcomes.end(), Outcome::kInvalidArgument), 1);
    EXPECT_EQ(std::count(ends.outcomes.begin(), ends.outcomes.end(), Outcome::kUnavailable), 6);
  });
}

TEST_P(XchgTest, AnUnansweredCallEndsUnknownAndItsLateReplyIsCounted) {
  Run([](FabricWorld* world) {
    Node server(world, "server"), client(world, "client");
    server.Listen(world->AnyAddress("server"));
    server.xchg->Start();
    client.xchg->Start();
    ASSERT_EQ(Echo(client, server.address, "x").outcome, Outcome::kOk);
    const Nanos begin = Now();
    EXPECT_EQ(BlockingCall(client.xchg.get(), server.address, kSilent, {}, begin + 30 * kMillisecond).outcome,
              Outcome::kUnknown);
    EXPECT_GE(Now(), begin + 30 * kMillisecond);
    EXPECT_LT(Now(), begin + kSecond * world->patience());
    EXPECT_EQ(BlockingCall(client.xchg.get(), server.address, kLate, {}, Now() + 20 * kMillisecond).outcome,
              Outcome::kUnknown);
    SleepFor(200 * kMillisecond);
    EXPECT_EQ(client.xchg->counters().late_replies, 1u);
    EXPECT_EQ(client.xchg->counters().deadlines, 2u);
    EXPECT_EQ(Echo(client, server.address, "still up").body, "still up");
    EXPECT_EQ(client.xchg->counters().connects, 1u);
  });
}

// What one's caller ends early ends as at its deadline: what was sent is unknown, what was not is not.
TEST_P(XchgTest, CallsThatAreEndedEarlyEndAsAtTheirDeadlines) {
  Run([](FabricWorld* world) {
    Ends sent, other, unsent;  // what is under way at the end ends with its client
    Node server(world, "server"), client(world, "client");
    server.Listen(world->AnyAddress("server"));
    server.xchg->Start();
    client.xchg->RunOnce();
    const auto call = [&](const std::string& address, CallTag tag, Ends* ends) {
      client.xchg->Call(client.xchg->peer(address), kSilent, {}, kNever, ends->Call(), tag);
    };
    call(server.address, {5, 1}, &sent);
    call(server.address, {5, 2}, &other);
    ASSERT_TRUE(RunUntil({client.xchg.get()}, [&] { return server.ignored.load() == 2; }));
    call(world->NobodysAddress(), {5, 1}, &unsent);
    std::vector<std::pair<uint64_t, uint64_t>> seen;
    client.xchg->LookAtCalls([&](const CallTag& tag, Nanos since_ns) {
      seen.emplace_back(tag.subject, tag.version);
      EXPECT_LE(since_ns, Now());
      return tag.version == 1;
    });
    EXPECT_EQ(seen.size(), 3u);
    EXPECT_TRUE(sent.outcomes.empty()) << "done ran inside";
    ASSERT_TRUE(
        RunUntil({client.xchg.get()}, [&] { return !sent.outcomes.empty() && !unsent.outcomes.empty(); }));
    EXPECT_EQ(sent.outcomes, std::vector{Outcome::kUnknown});
    EXPECT_EQ(unsent.outcomes, std::vector{Outcome::kUnavailable});
    EXPECT_TRUE(other.outcomes.empty());
  });
}

TEST_P(XchgTest, ACallThatCannotBeSentEndsUnavailableSoon) {
  Run([](FabricWorld* world) {
    Node client(world, "client");
    client.xchg->Start();
    const Nanos begin = Now();
    for (int i = 0; i < 3; ++i)
      EXPECT_EQ(Echo(client, world->NobodysAddress(), "x").outcome, Outcome::kUnavailable);
    EXPECT_LT(Now(), begin + kSecond * world->patience());
  });
}

TEST_P(XchgTest, WhoCannotWaitEndsThePauseBetweenAttempts) {
  Run([](FabricWorld* world) {
    XchgOptions options;
    options.reconnect_min_ns = options.reconnect_max_ns = 100 * kSecond;
    Node client(world, "client", options);
    client.xchg->RunOnce();
    Peer* const peer = client.xchg->peer(world->NobodysAddress());
    Ends ends;
    const auto call = [&] { client.xchg->Call(peer, kEcho, {}, Now() + 50 * kSecond, ends.Call()); };
    const auto ended = [&](size_t n) {
      return RunUntil({client.xchg.get()}, [&] { return ends.outcomes.size() == n; });
    };
    call();
    ASSERT_TRUE(ended(1));
    const Nanos begin = Now();
    client.xchg->EndPause(peer);
    call();
    ASSERT_TRUE(ended(2));
    call();  // it waits
    client.xchg->RunOnce();
    client.xchg->EndPause(peer);
    ASSERT_TRUE(ended(3));
    EXPECT_LT(Now() - begin, 5 * kSecond);
    EXPECT_EQ(client.xchg->counters().connect_failures, 3u);
  });
}

TEST_P(XchgTest, ReconnectionBacksOffAndIsSingleFlight) {
  Run([](FabricWorld* world) {
    Node client(world, "client");
    client.xchg->Start();
    const Nanos begin = Now();
    // A caller that insists: hundreds of calls, a handful of attempts.
    int calls = 0;
    while (Now() < begin + 500 * kMillisecond) {
      Echo(client, world->NobodysAddress(), "x");
      ++calls;
      SleepFor(kMillisecond);
    }
    const uint64_t attempts = client.xchg->counters().connect_failures;
    EXPECT_GE(attempts, 3u);
    EXPECT_LE(attempts, 12u) << "20, 40, 80, 160 ... ms, halved at most by jitter; calls " << calls;
  });
}

TEST_P(XchgTest, CallsReachAPeerThatWasRestarted) {
  Run([](FabricWorld* world) {
    Node client(world, "client");
    client.xchg->Start();
    auto server = std::make_unique<Node>(world, "server");
    server->Listen(world->AnyAddress("server"));
    const std::string address = server->address;
    server->xchg->Start();
    ASSERT_EQ(Echo(client, address, "x").outcome, Outcome::kOk);
    for (int restart = 0; restart < 3; ++restart) {
      server = nullptr;
      const Outcome while_down = Echo(client, address, "x").outcome;
      EXPECT_TRUE(while_down == Outcome::kUnavailable || while_down == Outcome::kUnknown);
      server = std::make_unique<Node>(world, "server");
      server->Listen(address);
      server->xchg->Start();
      const Nanos begin = Now();
      while (Echo(client, address, "x").outcome != Outcome::kOk) {
        ASSERT_LT(Now(), begin + 5 * kSecond);
        SleepFor(kMillisecond);
      }
    }
    EXPECT_EQ(client.xchg->counters().connects, 4u);
  });
}

TEST_P(XchgTest, SentCallsOfABrokenConnectionEndUnknown) {
  Run([](FabricWorld* world) {
    auto server = std::make_unique<Node>(world, "server");
    Node client(world, "client");
    server->Listen(world->AnyAddress("server"));
    server->xchg->Start();
    client.xchg->Start();
    Ends ends;
    std::atomic<int> ended{0};
    client.OnXchg([&] {
      for (int i = 0; i < 10; ++i) {
        client.xchg->Call(client.xchg->peer(server->address), kSilent, {}, kNever, [&](const CallResult& r) {
          ends.outcomes.push_back(r.outcome);
          ++ended;
        });
      }
    });
    while (server->ignored < 10) SleepFor(100 * kMicrosecond);
    server.reset();
    while (ended < 10) SleepFor(100 * kMicrosecond);
    EXPECT_EQ(ends.outcomes, std::vector<Outcome>(10, Outcome::kUnknown));
  });
}

TEST_P(XchgTest, ThousandsOfCallsAreUnderWayAtOnce) {
  Run([](FabricWorld* world) {
    Node server(world, "server"), client(world, "client");
    server.Listen(world->AnyAddress("server"));
    server.xchg->Start();
    client.xchg->Start();
    constexpr int kCalls = 5000;
    std::atomic<int> good{0}, ended{0};
    std::vector<std::string> bodies;
    for (int i = 0; i < kCalls; ++i)
      bodies.push_back(Pattern(static_cast<size_t>(i % 300), static_cast<uint64_t>(i)));
    client.OnXchg([&] {
      for (const std::string& body : bodies) {
        client.xchg->Call(client.xchg->peer(server.address), kEcho, {{body}}, Now() + 20 * kSecond,
                          [&](const CallResult& r) {
                            good += r.outcome == Outcome::kOk && r.body == body;
                            ++ended;
                          });
      }
    });
    while (ended < kCalls) SleepFor(kMillisecond);
    EXPECT_EQ(good, kCalls) << "more than may be pending at the fabric: the rest waits its turn";
    EXPECT_EQ(client.fabric->counters().pending_requests, 0);
  });
}

TEST_P(XchgTest, UnknownTypesAreAnsweredInvalidArgument) {
  Run([](FabricWorld* world) {
    Node server(world, "server"), client(world, "client");
    server.Listen(world->AnyAddress("server"));
    server.xchg->Start();
    client.xchg->Start();
    for (const uint16_t type : {uint16_t{0x50}, uint16_t{0xfff}}) {
      EXPECT_EQ(BlockingCall(client.xchg.get(), server.address, type, {}, Now() + 5 * kSecond).outcome,
                Outcome::kInvalidArgument);
    }
    EXPECT_EQ(Echo(client, server.address, "x").outcome, Outcome::kOk);
  });
}

TEST_P(XchgTest, AMessageBeyondTheBoundClosesItsConnection) {
  Run([](FabricWorld* world) {
    XchgOptions small;
    small.max_message_bytes = 100000;
    Node server(world, "server", small), client(world, "client");
    server.Listen(world->AnyAddress("server"));
    server.xchg->Start();
    client.xchg->Start();
    EXPECT_EQ(Echo(client, server.address, std::string(100000, 'x')).outcome, Outcome::kOk);
    EXPECT_EQ(Echo(client, server.address, std::string(100001, 'x')).outcome, Outcome::kUnknown);
    EXPECT_EQ(server.xchg->counters().malformed, 1u);
    EXPECT_EQ(Echo(client, server.address, "x").outcome, Outcome::kOk) << "on a new connection";
  });
}

TEST_P(XchgTest, MalformedMessagesCloseOnlyTheirConnection) {
  Run([](FabricWorld* world) {
    std::vector<ConnectionId> gone;
    Node server(world, "server"), client(world, "client");
    TestNode raw(world, "raw");
    server.Listen(world->AnyAddress("server"));
    server.xchg->HandleDisconnect([&](ConnectionId c) { gone.push_back(c); });
    server.xchg->Start();
    client.xchg->Start();
    ASSERT_EQ(Echo(client, server.address, "x").outcome, Outcome::kOk);
    const MemoryRegion m = raw.Memory(100, Access::kLocal, 'z');
    const ConnectionId c =
        raw.port->Connect(server.address, TestHello(Role::kClient, "raw"), Now() + 5 * kSecond);
    ASSERT_TRUE(PumpUntil({&raw}, [&] { return raw.Last(CompletionKind::kConnected, c) != nullptr; }));
    const WorkRequest r = RequestOf(Opcode::kSend, 1, {PieceOf(m, 0, 100)});
    ASSERT_TRUE(raw.port->Post(c, {&r, 1}).ok());
    ASSERT_TRUE(PumpUntil({&raw}, [&] { return raw.Last(CompletionKind::kDisconnected, c) != nullptr; }));
    EXPECT_EQ(server.xchg->counters().malformed, 1u);
    EXPECT_EQ(Echo(client, server.address, "x").outcome, Outcome::kOk);
    EXPECT_EQ(client.xchg->counters().connects, 1u);
    server.OnXchg([&] { EXPECT_EQ(gone.size(), 1u); });
  });
}

TEST_P(XchgTest, OneSidedOperationsEndDelivered) {
  Run([](FabricWorld* world) {
    Node server(world, "server"), client(world, "client");
    std::vector<char> target(100000, '.'), mine(100000, 'x');
    const MemoryRegion remote =
        *server.fabric->Register(target.data(), target.size(), Access::kRemoteReadWrite);
    const MemoryRegion local = *client.fabric->Register(mine.data(), mine.size(), Access::kLocal);
    server.Listen(world->AnyAddress("server"));
    client.xchg->RunOnce();
    server.xchg->RunOnce();
    Peer* peer = client.xchg->peer(server.address);
    Ends ends;
    const std::vector<LocalBuffer> two{{mine.data(), 10, local.lkey}, {mine.data() + 10, 50000, local.lkey}};
    client.xchg->Write(peer, two, remote.remote().address, remote.rkey, kNever, ends.Op());
    client.xchg->Write(peer, {}, remote.remote().address, remote.rkey, kNever, [&](Outcome o) {
      ends.outcomes.push_back(o);
      EXPECT_EQ(std::string(target.data(), 50010), std::string(50010, 'x'));
    });
    // L2: what follows on the connection arrives after the bytes are in place.
    client.xchg->Call(peer, kEcho, {{"after"}}, kNever, ends.Call());
    ASSERT_TRUE(RunUntil({client.xchg.get(), server.xchg.get()}, [&] { return ends.outcomes.size() == 3; }));
    client.xchg->Read(peer, {mine.data(), 100000, local.lkey}, remote.remote().address, remote.rkey, kNever,
                      ends.Op());
    ASSERT_TRUE(RunUntil({client.xchg.get(), server.xchg.get()}, [&] { return ends.outcomes.size() == 4; }));
    EXPECT_EQ(ends.outcomes, std::vector<Outcome>(4, Outcome::kOk));
    EXPECT_EQ(mine[60000], '.');
    // F1: refused by key: not delivered.
    server.fabric->Revoke(remote);
    client.xchg->Write(peer, two, remote.remote().address, remote.rkey, kNever, ends.Op());
    ASSERT_TRUE(RunUntil({client.xchg.get(), server.xchg.get()}, [&] { return ends.outcomes.size() == 5; }));
    EXPECT_EQ(ends.outcomes.back(), Outcome::kUnknown);
    EXPECT_EQ(client.fabric->counters().pending_requests, 0);
  });
}

TEST_P(XchgTest, F4_AtItsDeadlineAWritesConnectionIsDestroyedBeforeDone) {
  Run([](FabricWorld* world) {
    Node client(world, "client");
    TestNode server(world, "server");  // its port does nothing unless polled: a stopped peer
    server.Listen();
    const MemoryRegion target = server.Memory(1000, Access::kRemoteReadWrite, '.');
    std::vector<char> mine(1000, 'x');
    const MemoryRegion local = *client.fabric->Register(mine.data(), mine.size(), Access::kLocal);
    Peer* peer = client.xchg->peer(server.address);
    Ends ends, other;
    client.xchg->RunOnce();
    client.xchg->Call(peer, kEcho, {}, kNever, other.Call());
    ASSERT_TRUE(PumpUntil({&server}, [&] {
      client.xchg->RunOnce();
      return client.fabric->counters().connections == 1 && !server.OfKind(CompletionKind::kReceive).empty();
    }));
    if (SimNetwork* network = world->network()) network->Pause("server");
    // H28; a stopped peer's device would answer
    if (server.fabric->name() == "verbs") BreakQueuePairs(server.fabric.get());
    const LocalBuffer piece{mine.data(), 1000, local.lkey};
    const Nanos deadline = Now() + 20 * kMillisecond;
    client.xchg->RunOnce();
    client.xchg->Read(peer, piece, target.remote().address, target.rkey, deadline, [&](Outcome o) {
      ends.outcomes.push_back(o);
      EXPECT_GE(Now(), deadline);
      EXPECT_EQ(client.fabric->counters().connections, 0) << "nothing can land any more";
    });
    ASSERT_TRUE(RunUntil({client.xchg.get()}, [&] { return ends.outcomes.size() == 1; }));
    EXPECT_EQ(ends.outcomes[0], Outcome::kUnknown);
    EXPECT_EQ(other.outcomes, std::vector<Outcome>{Outcome::kUnknown}) << "what else was pending pays for it";
    std::fill(mine.begin(), mine.end(), '!');
    if (SimNetwork* network = world->network()) network->Resume("server");
    PumpFor({&server}, 5 * kMillisecond);
    client.xchg->RunOnce();
    EXPECT_EQ(std::count(mine.begin(), mine.end(), '!'), 1000);
  });
}

TEST_P(XchgTest, AWriteThatWasNeverPostedEndsUnavailable) {
  Run([](FabricWorld* world) {
    Node client(world, "client");
    TestNode server(world, "server");
    server.Listen();  // and never answers the hello
    char byte = 'x';
    const MemoryRegion local = *client.fabric->Register(&byte, 1, Access::kLocal);
    client.xchg->RunOnce();
    Ends ends;
    const LocalBuffer piece{&byte, 1, local.lkey};
    client.xchg->Write(client.xchg->peer(server.address), {&piece, 1}, 1, 1, Now() + 20 * kMillisecond,
                       ends.Op());
    client.xchg->Call(client.xchg->peer(server.address), kEcho, {}, Now() + 20 * kMillisecond, ends.Call());
    ASSERT_TRUE(RunUntil(
        {client.xchg.get()}, [&] { return ends.outcomes.size() == 2; }, kSecond));
    EXPECT_EQ(ends.outcomes, std::vector<Outcome>(2, Outcome::kUnavailable));
    // The connection comes up afterwards: what had ended is not sent.
    ASSERT_TRUE(PumpUntil({&server}, [&] {
      client.xchg->RunOnce();
      return client.fabric->counters().connections == 1;
    }));
    PumpFor({&server}, kMillisecond);
    client.xchg->RunOnce();
    PumpFor({&server}, kMillisecond);
    EXPECT_TRUE(server.OfKind(CompletionKind::kReceive).empty());
  });
}

TEST_P(XchgTest, AnIdleXchgDoesNotWake) {
  Run([](FabricWorld* world) {
    Node server(world, "server"), client(world, "client");
    server.Listen(world->AnyAddress("server"));
    server.xchg->Start();
    client.xchg->Start();
    ASSERT_EQ(Echo(client, server.address, "x").outcome, Outcome::kOk);
    SleepFor(20 * kMillisecond);
    const uint64_t server_turns = server.xchg->counters().turns, client_turns = client.xchg->counters().turns;
    SleepFor(300 * kMillisecond);
    EXPECT_EQ(server.xchg->counters().turns, server_turns);
    EXPECT_EQ(client.xchg->counters().turns, client_turns);
  });
}

TEST_P(XchgTest, IdleConnectionsAreClosedAndComeBackWithTheNextCall) {
  Run([](FabricWorld* world) {
    XchgOptions options;
    options.idle_close_ns = 50 * kMillisecond;
    Node server(world, "server"), client(world, "client", options);
    server.Listen(world->AnyAddress("server"));
    server.xchg->Start();
    client.xchg->Start();
    ASSERT_EQ(Echo(client, server.address, "x").outcome, Outcome::kOk);
    EXPECT_EQ(BlockingCall(client.xchg.get(), server.address, kLate, {}, Now() + 5 * kSecond).outcome,
              Outcome::kOk)
        << "a call under way keeps its connection";
    SleepFor(300 * kMillisecond);
    EXPECT_EQ(client.fabric->counters().connections, 0);
    EXPECT_EQ(Echo(client, server.address, "x").outcome, Outcome::kOk);
    EXPECT_EQ(client.xchg->counters().connects, 2u);
  });
}

TEST_P(XchgTest, TimersRunAtTheirTime) {
  Run([](FabricWorld* world) {
    std::atomic<int> periodic{0};
    Node node(world, "node");
    node.xchg->AddTimer(10 * kMillisecond, [&] { ++periodic; });
    node.xchg->Start();
    std::vector<Nanos> late;
    std::atomic<int> fired{0};
    node.OnXchg([&] {
      for (const Nanos in : {30 * kMillisecond, 5 * kMillisecond, Nanos{0}, 60 * kMillisecond}) {
        const Nanos when = Now() + in;
        node.xchg->RunAt(when, [&, when] {
          late.push_back(Now() - when);
          ++fired;
        });
      }
    });
    while (fired < 4) SleepFor(kMillisecond);
    for (const Nanos ns : late) {
      EXPECT_GE(ns, 0);
      EXPECT_LT(ns, 200 * kMillisecond);
    }
    EXPECT_GE(periodic, 3);
    EXPECT_LE(periodic, 40);
  });
}

TEST_P(XchgTest, HooksRunOnceInEachRoundThatDidSomething) {
  Run([](FabricWorld* world) {
    Node node(world, "node");
    int hooks = 0, closures = 0;
    node.xchg->AddTurnHook([&] { ++hooks; });
    for (int i = 0; i < 5; ++i) {
      node.xchg->Submit([&] {
        ++closures;
        EXPECT_EQ(hooks, 0);
      });
    }
    EXPECT_TRUE(node.xchg->RunOnce());
    EXPECT_EQ(closures, 5);
    EXPECT_EQ(hooks, 1);
    EXPECT_FALSE(node.xchg->RunOnce());
    EXPECT_EQ(hooks, 1);
  });
}

TEST_P(XchgTest, ManyThreadsSubmitAndNothingIsLost) {
  Run([](FabricWorld* world) {
    Node node(world, "node");
    node.xchg->Start();
    int ran = 0;  // of the xchg thread
    {
      std::vector<std::unique_ptr<Thread>> threads;
      for (int t = 0; t < 4; ++t) {
        threads.push_back(std::make_unique<Thread>("submitter." + std::to_string(t), [&] {
          for (int i = 0; i < 1000; ++i) {
            node.xchg->Submit([&] {
              EXPECT_TRUE(node.xchg->IsCurrentThread());
              ++ran;
            });
            if (i % 50 == 0) SleepFor(100 * kMicrosecond);
          }
        }));
      }
    }
    node.OnXchg([&] { EXPECT_EQ(ran, 4000); });
    EXPECT_FALSE(node.xchg->IsCurrentThread());
  });
}

TEST_P(XchgTest, StopEndsWhatIsUnderWay) {
  Run([](FabricWorld* world) {
    Node server(world, "server"), client(world, "client");
    server.Listen(world->AnyAddress("server"));
    server.xchg->Start();
    client.xchg->Start();
    Ends sent, again;
    client.OnXchg([&] {
      client.xchg->Call(client.xchg->peer(server.address), kSilent, {}, kNever, [&](const CallResult& r) {
        sent.outcomes.push_back(r.outcome);
        // Callbacks may call again, and are told.
        client.xchg->Call(client.xchg->peer(server.address), kSilent, {}, kNever, again.Call());
      });
    });
    while (server.ignored < 1) SleepFor(100 * kMicrosecond);
    client.xchg->Stop();
    EXPECT_EQ(sent.outcomes, std::vector<Outcome>{Outcome::kUnknown});
    EXPECT_EQ(again.outcomes, std::vector<Outcome>{Outcome::kUnavailable});
    EXPECT_EQ(Echo(client, server.address, "x").outcome, Outcome::kUnavailable)
        << "submitted after Stop: destroyed unrun";
    EXPECT_EQ(client.fabric->counters().connections, 0);
  });
}

TEST_P(XchgTest, OutOfSendMemoryACallEndsUnavailable) {
  Run([](FabricWorld* world) {
    XchgOptions options;
    options.send_pool_bytes = 1 << 20;
    Node server(world, "server"), client(world, "client", options);
    server.Listen(world->AnyAddress("server"));
    server.xchg->Start();
    client.xchg->Start();
    EXPECT_EQ(Echo(client, server.address, std::string(2 << 20, 'x')).outcome, Outcome::kUnavailable);
    EXPECT_EQ(Echo(client, server.address, std::string(500000, 'x')).outcome, Outcome::kOk)
        << "and all of it came back";
  });
}

// By the time an address is dialled another process may have it: it takes no call for another, and keeps the
// connections it has.
TEST_P(XchgTest, F3_ACallReachesWhomItIsMeantForOrNobody) {
  Run([](FabricWorld* world) {
    Node server(world, "server"), client(world, "client");
    server.Listen(world->AnyAddress("server"));
    server.xchg->Start();
    client.xchg->Start();
    const auto call = [&](Node* from, std::optional<Role> role, std::string_view name) {
      return BlockingCall(from->xchg.get(), server.address, kEcho, {}, Now() + 10 * kSecond,
                          {role, ToNodeName(name)})
          .outcome;
    };
    EXPECT_EQ(call(&client, Role::kStoc, "server"), Outcome::kOk);
    EXPECT_EQ(call(&client, Role::kLtc, ""), Outcome::kUnavailable);
    EXPECT_EQ(call(&client, Role::kLtc, "server"), Outcome::kUnavailable);
    for (const char* name : {"serve", "server2"})
      EXPECT_EQ(call(&client, Role::kStoc, name), Outcome::kUnavailable) << name;
    EXPECT_EQ(client.xchg->counters().connect_failures, 4u);
    EXPECT_EQ(call(&client, Role::kStoc, "server"), Outcome::kOk);
    EXPECT_EQ(client.xchg->counters().connects, 1u);
    EXPECT_EQ(server.echoed, 2);
    for (const std::optional<Role> role : {std::optional<Role>(), std::optional(Role::kStoc)}) {
      Node other(world, role ? "other" : "another");
      other.xchg->Start();
      EXPECT_EQ(call(&other, role, ""), Outcome::kOk);
    }
    EXPECT_EQ(server.echoed, 4);
  });
}

// Keys of one incarnation's memory mean nothing to the next, or something else: the next one is not reached
// with them.
TEST_P(XchgTest, F3_AnotherIncarnationOfWhomItIsMeantForIsNotReached) {
  Run([](FabricWorld* world) {
    Node server(world, "server"), client(world, "client");
    server.Listen(world->AnyAddress("server"));
    server.xchg->Start();
    client.xchg->Start();
    const auto call = [&](uint64_t incarnation) {
      return BlockingCall(client.xchg.get(), server.address, kEcho, {}, Now() + 10 * kSecond,
                          {Role::kStoc, ToNodeName("server"), incarnation})
          .outcome;
    };
    for (const uint64_t other : {uint64_t{2}, uint64_t{1} << 32})
      EXPECT_EQ(call(other), Outcome::kUnavailable) << other;
    EXPECT_EQ(server.echoed, 0);
    EXPECT_EQ(call(1), Outcome::kOk);
    EXPECT_EQ(call(0), Outcome::kOk) << "whoever does not know";
  });
}

TEST_P(XchgTest, TheTimeFromARequestToItsReplyIsToldByType) {
  Run([](FabricWorld* world) {
    Histogram slow, fast;  // outlive the xchgs
    Node server(world, "server"), client(world, "client");
    server.xchg->Handle(
        0x20,
        [&](const IncomingCall& call) {
          server.xchg->RunAt(Now() + 50 * kMillisecond,
                             [&, connection = call.connection, id = call.request_id] {
                               server.xchg->Reply(connection, id, Outcome::kOk, {});
                             });
        },
        &slow);
    server.xchg->Handle(
        0x21,
        [&](const IncomingCall& call) {
          server.xchg->Reply(call.connection, call.request_id, Outcome::kOk, {});
        },
        &fast);
    server.Listen(world->AnyAddress("server"));
    server.xchg->Start();
    client.xchg->Start();
    for (const uint16_t type : {0x20, 0x21, 0x21, 0x21})
      EXPECT_EQ(BlockingCall(client.xchg.get(), server.address, type, {}, kNever).outcome, Outcome::kOk);
    server.xchg->Stop();
    EXPECT_EQ(slow.count(), 1u);
    EXPECT_GE(slow.max(), static_cast<uint64_t>(48 * kMillisecond));
    EXPECT_EQ(fast.count(), 3u);
    EXPECT_LT(fast.Percentile(50), static_cast<uint64_t>(40 * kMillisecond));
  });
}

TEST_P(XchgTest, DeadlinesTravelWithTheirCalls) {
  Run([](FabricWorld* world) {
    std::vector<Nanos> left;
    Node server(world, "server"), client(world, "client");
    server.xchg->Handle(0x20, [&](const IncomingCall& call) {
      left.push_back(call.deadline_ns == kNever ? kNever : call.deadline_ns - server.xchg->turn_time_ns());
      EXPECT_EQ(NameOf(*call.peer), "client");
      server.xchg->Reply(call.connection, call.request_id, Outcome::kBusy, {});
    });
    server.Listen(world->AnyAddress("server"));
    server.xchg->Start();
    client.xchg->Start();
    EXPECT_EQ(BlockingCall(client.xchg.get(), server.address, 0x20, {}, Now() + 10 * kSecond).outcome,
              Outcome::kBusy);
    EXPECT_EQ(BlockingCall(client.xchg.get(), server.address, 0x20, {}, kNever).outcome, Outcome::kBusy);
    server.xchg->Stop();
    ASSERT_EQ(left.size(), 2u);
    EXPECT_GT(left[0], 5 * kSecond);
    // Counted from the beginning of the turn in which the call is made, which is before that.
    EXPECT_LE(left[0], 10 * kSecond + kSecond / 10);
    EXPECT_EQ(left[1], kNever);
  });
}

TEST_P(XchgTest, BlockingReadBringsRemoteMemory) {
  Run([](FabricWorld* world) {
    Node server(world, "server"), client(world, "client");
    const std::string bytes = Pattern(1 << 20, 1);
    std::string target = bytes, mine(1 << 20, '?');
    const MemoryRegion remote = *server.fabric->Register(target.data(), target.size(), Access::kRemoteRead);
    const MemoryRegion local = *client.fabric->Register(mine.data(), mine.size(), Access::kLocal);
    server.Listen(world->AnyAddress("server"));
    server.xchg->Start();
    client.xchg->Start();
    EXPECT_EQ(BlockingRead(client.xchg.get(), server.address, {mine.data(), 1 << 20, local.lkey},
                           remote.remote().address, remote.rkey, Now() + 5 * kSecond),
              Outcome::kOk);
    EXPECT_TRUE(mine == bytes);
    server.fabric->Revoke(remote);
    EXPECT_EQ(BlockingRead(client.xchg.get(), server.address, {mine.data(), 1 << 20, local.lkey},
                           remote.remote().address, remote.rkey, Now() + 5 * kSecond),
              Outcome::kUnknown);
  });
}

INSTANTIATE_TEST_SUITE_P(Fabrics, XchgTest, ::testing::ValuesIn(FabricKinds()),
                         [](const auto& info) { return FabricKindName(info.param); });

}  // namespace
}  // namespace nova
