#include "tests/rdma/fabric_world.h"

#include <cstdlib>

#include "common/base/log.h"

namespace nova {
namespace {

class TcpWorld final : public FabricWorld {
 public:
  std::unique_ptr<Fabric> NewFabric(const std::string&) override { return NewTcpFabric(); }
  std::string AnyAddress(const std::string&) override { return "127.0.0.1:0"; }
  std::string NobodysAddress() override { return "127.0.0.1:1"; }
#ifdef __SANITIZE_THREAD__
  int64_t patience() const override { return 5; }
#endif
};

// Nodes lie on two devices, so that what they say to each other crosses a wire.
class VerbsWorld final : public FabricWorld {
 public:
  explicit VerbsWorld(const VerbsFabricOptions& options) : options_(options) {}
  std::unique_ptr<Fabric> NewFabric(const std::string& node) override {
    VerbsFabricOptions options = options_;
    options.address = AddressOf(node);
    auto fabric = NewVerbsFabric(options);
    NOVA_CHECK(fabric.ok()) << fabric.status();
    return *std::move(fabric);
  }
  std::string AnyAddress(const std::string& node) override { return AddressOf(node) + ":0"; }
  std::string NobodysAddress() override { return AddressOf("server") + ":1"; }
  int64_t patience() const override { return 20; }

 private:
  static std::string AddressOf(const std::string& node) {
    const char* other = std::getenv("NOVA_VERBS_SERVER");
    const bool serves = node == "server" || node == "b" || node.starts_with("stoc");
    return serves && other != nullptr ? other : std::getenv("NOVA_VERBS_ADDRESS");
  }
  const VerbsFabricOptions options_;
};

class SimWorld final : public FabricWorld {
 public:
  std::unique_ptr<Fabric> NewFabric(const std::string& node) override {
    return NewSimFabric(&network_, node);
  }
  std::string AnyAddress(const std::string& node) override { return node + ":0"; }
  std::string NobodysAddress() override { return "nobody:1"; }
  SimNetwork* network() override { return &network_; }

 private:
  SimNetwork network_;
};

}  // namespace

std::unique_ptr<FabricWorld> NewVerbsWorld(const VerbsFabricOptions& options) {
  return std::make_unique<VerbsWorld>(options);
}

std::vector<FabricKind> FabricKinds() {
  if (std::getenv("NOVA_VERBS_ADDRESS") != nullptr) return {FabricKind::kVerbs};
  return {FabricKind::kTcp, FabricKind::kSim};
}

void InFabricWorld(FabricKind kind, const std::function<void(FabricWorld*)>& test) {
  if (kind == FabricKind::kVerbs) {
    VerbsFabricOptions options;
    options.ack_timeout = 17;  // an emulated machine may stand still for longer than half a second
    options.request_timeout_ns = 10 * kSecond;
    return test(NewVerbsWorld(options).get());
  }
  if (kind == FabricKind::kTcp) {
    TcpWorld world;
    return test(&world);
  }
  for (uint64_t seed = 1; seed <= 5; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Simulation sim(seed);
    sim.Run([&] {
      SimWorld world;
      test(&world);
    });
  }
}

TestNode::TestNode(FabricWorld* w, const std::string& node_name, size_t port_count, PortOptions options)
    : world(w), name(node_name), fabric(w->NewFabric(node_name)) {
  for (size_t i = 0; i < port_count; ++i) {
    options.name = name + ".xchg." + std::to_string(i);
    options.index = static_cast<uint16_t>(i);
    auto opened = fabric->OpenPort(options);
    EXPECT_TRUE(opened.ok()) << opened.status();
    ports.push_back(std::move(opened).value());
  }
  port = ports[0].get();
}

TestNode::~TestNode() {
  ports.clear();
  fabric.reset();
}

void TestNode::Listen(AcceptCheck check, Hello self) {
  std::vector<Port*> all;
  for (auto& p : ports) all.push_back(p.get());
  const auto bound = fabric->Listen(world->AnyAddress(name), self, all, std::move(check));
  ASSERT_TRUE(bound.ok()) << bound.status();
  address = *bound;
}

MemoryRegion TestNode::Memory(size_t bytes, Access access, char fill) {
  memory.push_back(std::make_unique<char[]>(bytes));
  std::memset(memory.back().get(), fill, bytes);
  auto region = fabric->Register(memory.back().get(), bytes, access);
  EXPECT_TRUE(region.ok());
  return *region;
}

size_t TestNode::Poll() {
  size_t total = 0;
  for (auto& p : ports) {
    if (p == nullptr) continue;
    std::array<Completion, 16> completions;
    const size_t n = p->Poll(completions);
    for (size_t i = 0; i < n; ++i) {
      const Completion& c = completions[i];
      events.push_back({c.kind, c.status, c.accepted, c.immediate, c.connection, c.id,
                        std::string(reinterpret_cast<const char*>(c.data.data()), c.data.size()),
                        c.hello == nullptr ? "" : std::string(NameOf(*c.hello)),
                        c.reason == nullptr ? "" : c.reason});
    }
    total += n;
  }
  return total;
}

std::vector<Event> TestNode::OfKind(CompletionKind kind) const {
  std::vector<Event> out;
  for (const Event& e : events) {
    if (e.kind == kind) out.push_back(e);
  }
  return out;
}

const Event* TestNode::Last(CompletionKind kind, ConnectionId connection) const {
  for (auto it = events.rbegin(); it != events.rend(); ++it) {
    if (it->kind == kind && it->connection == connection) return &*it;
  }
  return nullptr;
}

bool PumpUntil(const std::vector<TestNode*>& nodes, const std::function<bool()>& done, Nanos time_ns) {
  const Nanos deadline = Now() + time_ns;
  Nanos pause = 3 * kMicrosecond;
  while (!done()) {
    if (Now() >= deadline) return false;
    size_t n = 0;
    for (TestNode* node : nodes) n += node->Poll();
    pause = n > 0 ? 3 * kMicrosecond : std::min(pause * 2, kMillisecond);
    if (n == 0) SleepUntil(std::min(Now() + pause, deadline));
  }
  return true;
}

void PumpFor(const std::vector<TestNode*>& nodes, Nanos time_ns) {
  PumpUntil(
      nodes, [] { return false; }, time_ns);
}

std::vector<Event> ReceiveAll(TestNode& node, size_t n) {
  PumpUntil({&node}, [&] { return node.OfKind(CompletionKind::kReceive).size() >= n; });
  return node.OfKind(CompletionKind::kReceive);
}

Joined Join(TestNode& client, TestNode& server, Hello hello) {
  const size_t before = server.OfKind(CompletionKind::kConnected).size();
  Joined out;
  out.client = client.port->Connect(server.address, hello, Now() + 5 * kSecond);
  EXPECT_TRUE(PumpUntil({&client, &server},
                        [&] {
                          return client.Last(CompletionKind::kConnected, out.client) != nullptr &&
                                 server.OfKind(CompletionKind::kConnected).size() > before;
                        }))
      << (client.Last(CompletionKind::kDisconnected, out.client)
              ? client.Last(CompletionKind::kDisconnected, out.client)->reason
              : "no answer");
  const auto accepted = server.OfKind(CompletionKind::kConnected);
  if (accepted.size() > before) out.server = accepted.back().connection;
  return out;
}

WorkRequest RequestOf(Opcode opcode, uint64_t id, std::initializer_list<LocalBuffer> pieces,
                      const RemoteBuffer& remote, uint32_t immediate) {
  WorkRequest r;
  r.id = id;
  r.opcode = opcode;
  for (const LocalBuffer& piece : pieces) r.pieces[r.piece_count++] = piece;
  r.remote_address = remote.address;
  r.rkey = remote.rkey;
  r.immediate = immediate;
  return r;
}

CompletionStatus PostAndWait(TestNode& node, TestNode& peer, ConnectionId connection,
                             const WorkRequest& request) {
  const size_t before = node.OfKind(CompletionKind::kRequest).size();
  EXPECT_TRUE(node.port->Post(connection, {&request, 1}).ok());
  EXPECT_TRUE(
      PumpUntil({&node, &peer}, [&] { return node.OfKind(CompletionKind::kRequest).size() > before; }));
  const auto requests = node.OfKind(CompletionKind::kRequest);
  if (requests.size() <= before) return CompletionStatus::kFlushed;
  EXPECT_EQ(requests[before].id, request.id);
  return requests[before].status;
}

}  // namespace nova
