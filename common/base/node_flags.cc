#include <gflags/gflags.h>

#include "common/base/server_flags.h"

DEFINE_string(coordinators, "", "gRPC addresses of the coordinators, host:port,host:port");
DEFINE_string(host, "", "the machine, for placing copies on distinct ones; empty: of the address");
DEFINE_string(fabric, "auto",
              "verbs, tcp, or auto: verbs where --address is that of an RDMA device that is up, else tcp; "
              "the log says which and why");
DEFINE_string(rdma_device, "", "NAME or NAME:PORT, as mlx5_0:1; empty: the one that has --address");

namespace nova {

void CheckNodeFlags() {
  CheckServerFlags();
  CheckFlagGiven("coordinators", FLAGS_coordinators, "host:port,...");
  CheckFlagGiven("name", FLAGS_name, "NAME");
  CheckFlagOneOf("fabric", FLAGS_fabric, {"auto", "verbs", "tcp"});
}

}  // namespace nova
