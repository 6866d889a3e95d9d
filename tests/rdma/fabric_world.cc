#include "tests/rdma/fabric_world.h"

namespace nova {
namespace {

class TcpWorld final : public FabricWorld {
 public:
  std::unique_ptr<Fabric> NewFabric(const std::string&) override { return NewTcpFabric(); }
  std::string AnyAddress(const std::string&) override { return "127.0.0.1:0"; }
  std::string NobodysAddress() override { return "127.0.0.1:1"; }
};

}  // namespace

void InFabricWorld(FabricKind, const std::function<void(FabricWorld*)>& test) {
  TcpWorld world;
  test(&world);
}

}  // namespace nova
