#include "ltc/fsck/stoc_connection.h"

namespace nova {

StatusOr<std::unique_ptr<StocConnection>> StocConnection::Open(Fabric* fabric, const Uuid& cluster) {
  Hello self;
  self.role = Role::kTool;
  self.cluster = cluster;
  self.name = ToNodeName("fsck");
  XchgOptions options;
  options.name = "fsck.xchg.0";
  NOVA_ASSIGN_OR_RETURN(auto xchg, Xchg::Open(fabric, self, options));
  xchg->Start();
  return std::unique_ptr<StocConnection>(new StocConnection(fabric, std::move(xchg)));
}

}  // namespace nova
