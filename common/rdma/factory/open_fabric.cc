#include "common/rdma/factory/open_fabric.h"

#include "common/base/log.h"
#include "common/rdma/resolver.h"
#include "common/rdma/tcp/tcp_fabric.h"
#include "common/rdma/verbs/verbs_fabric.h"

namespace nova {

StatusOr<OpenedFabric> OpenFabric(const FabricChoice& choice) {
  if (choice.fabric != "auto" && choice.fabric != "verbs" && choice.fabric != "tcp") {
    return absl::InvalidArgumentError(StrCat("--fabric=", choice.fabric, " must be auto, verbs or tcp"));
  }
  OpenedFabric out;
  if (choice.fabric == "tcp") {
    if (!choice.rdma_device.empty())
      return absl::InvalidArgumentError("--rdma_device is given, and --fabric=tcp");
    out.fabric = NewTcpFabric();
    out.text = "fabric tcp, as asked for";
    return out;
  }
  VerbsFabricOptions options;
  options.device = choice.rdma_device;
  uint16_t port = 0;
  SplitHostPort(choice.address, &options.address, &port);
  StatusOr<std::unique_ptr<Fabric>> verbs = NewVerbsFabric(options);
  if (verbs.ok()) {
    out.text = StrCat("fabric verbs: ", VerbsFabricText(**verbs));
    out.fabric = *std::move(verbs);
    return out;
  }
  // Who names a device wants that one.
  if (choice.fabric == "verbs" || !choice.rdma_device.empty()) return verbs.status();
  out.fabric = NewTcpFabric();
  out.fell_back = true;
  out.text =
      StrCat("fabric tcp: ", verbs.status().message(),
             "; lost: log records and reads now take CPU time of the StoCs, and an RDMA NIC's latency");
  return out;
}

void LogFabric(const std::string& node, const OpenedFabric& opened) {
  if (opened.fell_back) {
    NOVA_LOG(WARNING) << node << ": " << opened.text;
  } else {
    NOVA_LOG(INFO) << node << ": " << opened.text;
  }
}

}  // namespace nova
