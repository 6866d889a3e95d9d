// FabricWorld: what a test of the fabric seam needs to run the same over sockets and real time, and in a
// simulation. TestNode: one process of such a test: a fabric, its ports, and what they reported.
//
// Thread safety: none; the test's thread or main fiber polls all ports.   Ownership: nodes end before the
// world.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "common/base/simulation.h"
#include "common/rdma/handshake.h"
#include "common/rdma/sim/sim_fabric.h"
#include "common/rdma/tcp/tcp_fabric.h"
#include "common/rdma/verbs/verbs_fabric.h"

namespace nova {

enum class FabricKind { kTcp, kSim, kVerbs };

// tcp and sim; verbs alone where $NOVA_VERBS_ADDRESS is the address of an RDMA device here (tests/softroce).
// Nodes that serve lie on the device of $NOVA_VERBS_SERVER, where it is set.
std::vector<FabricKind> FabricKinds();

class FabricWorld {
 public:
  virtual ~FabricWorld() = default;
  virtual std::unique_ptr<Fabric> NewFabric(const std::string& node) = 0;  // of the process named so
  virtual std::string AnyAddress(const std::string& node) = 0;             // to listen at
  virtual std::string NobodysAddress() = 0;                                // refuses connections
  virtual SimNetwork* network() { return nullptr; }
  // a test's short times are to be multiplied with: an emulated machine is slow
  virtual int64_t patience() const { return 1; }
};

// Runs `test` in a world of that kind: directly, or as the main fiber of a simulation.
void InFabricWorld(FabricKind kind, const std::function<void(FabricWorld*)>& test);
// On the RDMA devices of $NOVA_VERBS_ADDRESS and $NOVA_VERBS_SERVER. InFabricWorld gives its verbs more time
// than the fabric does.
std::unique_ptr<FabricWorld> NewVerbsWorld(const VerbsFabricOptions& options);

inline std::string FabricKindName(FabricKind kind) {
  return kind == FabricKind::kTcp ? "Tcp" : kind == FabricKind::kSim ? "Sim" : "Verbs";
}

inline Hello TestHello(Role role, const std::string& name, uint64_t incarnation = 0,
                       uint64_t generation = 0) {
  Hello h;
  h.role = role;
  h.incarnation = incarnation;
  h.generation = generation;
  std::memcpy(h.name.data(), name.data(), std::min(name.size(), h.name.size()));
  return h;
}

inline std::string Pattern(size_t n, uint64_t seed) {
  Random random(seed);
  std::string out(n, '\0');
  for (char& c : out) c = static_cast<char>(random.Next());
  return out;
}

// What a Completion said, kept.
struct Event {
  CompletionKind kind;
  CompletionStatus status;
  bool accepted;
  uint32_t immediate;
  ConnectionId connection;
  uint64_t id;
  std::string data;
  std::string peer;
  std::string reason;
};

struct TestNode {
  TestNode(FabricWorld* world, const std::string& name, size_t port_count = 1, PortOptions options = {});
  ~TestNode();

  void Listen(AcceptCheck check = nullptr, Hello self = TestHello(Role::kStoc, "server", 1));
  // Memory of the node, registered; filled with `fill`.
  MemoryRegion Memory(size_t bytes, Access access, char fill = 0);
  char* At(const MemoryRegion& region) const { return reinterpret_cast<char*>(region.address); }
  std::string Contents(const MemoryRegion& region) const { return {At(region), region.size}; }

  size_t Poll();  // records what arrived; how much
  std::vector<Event> OfKind(CompletionKind kind) const;
  const Event* Last(CompletionKind kind, ConnectionId connection) const;

  FabricWorld* const world;
  std::string name;
  std::unique_ptr<Fabric> fabric;
  std::vector<std::unique_ptr<Port>> ports;
  Port* port;
  std::string address;
  std::vector<Event> events;
  std::vector<std::unique_ptr<char[]>> memory;
};

// Polls the nodes in turn until `done`; false when it took longer than the time.
bool PumpUntil(const std::vector<TestNode*>& nodes, const std::function<bool()>& done,
               Nanos time_ns = 10 * kSecond);
void PumpFor(const std::vector<TestNode*>& nodes, Nanos time_ns);
// Polls `node` until it has had `n` messages in all; those it had. (A SEND completes when the peer's NIC has
// it; the peer's program learns of it when it polls, a bounded number at a time.)
std::vector<Event> ReceiveAll(TestNode& node, size_t n);

// Connects and waits for both ends.
struct Joined {
  ConnectionId client;
  ConnectionId server;
};
Joined Join(TestNode& client, TestNode& server, Hello hello = TestHello(Role::kClient, "client"));

inline LocalBuffer PieceOf(const MemoryRegion& region, size_t offset, size_t n) {
  return {region.address + offset, static_cast<uint32_t>(n), region.lkey};
}
WorkRequest RequestOf(Opcode opcode, uint64_t id, std::initializer_list<LocalBuffer> pieces,
                      const RemoteBuffer& remote = {}, uint32_t immediate = 0);
// Posts one request and waits for its completion.
CompletionStatus PostAndWait(TestNode& node, TestNode& peer, ConnectionId connection,
                             const WorkRequest& request);

}  // namespace nova
