// Xchg over both fabrics: calls, one-sided operations, deadlines, reconnection, bounds.
#include "common/rdma/xchg.h"

#include <gtest/gtest.h>

#include <atomic>
#include <map>
#include <string>
#include <vector>

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
    xchg = std::make_unique<Xchg>(fabric.get(), hello, options);
    xchg->Handle(kEcho, [this](const IncomingCall& call) {
      ++echoed;
      xchg->Reply(call.connection, call.request_id, Outcome::kOk, {{call.body}});
    });
    xchg->Handle(kSilent, [this](const IncomingCall&) { ++ignored; });
    xchg->Handle(kLate, [this](const IncomingCall& call) {
      xchg->RunAt(xchg->round_time_ns() + 100 * kMillisecond, [this, connection = call.connection, id = call.request_id] {
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

BlockingResult Echo(Node& client, const std::string& address, std::string_view body, Nanos timeout_ns = 5 * kSecond) {
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
      const std::vector<std::string_view> parts{all.substr(0, n / 3), {}, all.substr(n / 3, n / 7), all.substr(n / 3 + n / 7)};
      const BlockingResult r = BlockingCall(client.xchg.get(), server.address, kEcho, parts, Now() + 20 * kSecond);
      ASSERT_EQ(r.outcome, Outcome::kOk) << n;
      ASSERT_TRUE(r.body == body) << n;
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Fabrics, XchgTest, ::testing::Values(FabricKind::kTcp, FabricKind::kSim),
                         [](const auto& info) { return FabricKindName(info.param); });

}  // namespace
}  // namespace nova
