// FabricWorld: what a test of the fabric seam needs to run the same over sockets and real time, and in a simulation.
//
// Thread safety: none; the test's thread or main fiber.   Ownership: fabrics belong to the test and end before the world.
#pragma once

#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "common/base/simulation.h"
#include "common/rdma/tcp_fabric.h"

namespace nova {

enum class FabricKind { kTcp, kSim };

class FabricWorld {
 public:
  virtual ~FabricWorld() = default;
  // `node` names the process that the fabric stands for.
  virtual std::unique_ptr<Fabric> NewFabric(const std::string& node) = 0;
  virtual std::string AnyAddress(const std::string& node) = 0;  // to listen at
  virtual std::string NobodysAddress() = 0;                     // refuses connections
};

// Runs `test` in a world of that kind: directly, or as the main fiber of a simulation.
void InFabricWorld(FabricKind kind, const std::function<void(FabricWorld*)>& test);

inline Hello TestHello(Role role, const std::string& name, uint64_t incarnation = 0, uint64_t generation = 0) {
  Hello h;
  h.role = role;
  h.incarnation = incarnation;
  h.generation = generation;
  std::memcpy(h.name.data(), name.data(), std::min(name.size(), h.name.size()));
  return h;
}

inline std::string FabricKindName(FabricKind kind) { return kind == FabricKind::kTcp ? "Tcp" : "Sim"; }

}  // namespace nova
