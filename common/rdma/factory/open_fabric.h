// OpenFabric: opens the fabric named by --fabric=auto|verbs|tcp and --rdma_device=NAME:PORT.
//
// `auto` takes verbs if the device that has the address (without an address: any device) is up, else tcp;
// `text` says which and why. All nodes and clients of a cluster must use one fabric: name it where machines
// differ.
//
// Thread safety: pure, but for the devices it opens.
// Errors: InvalidArgument: there is no such fabric. Else one line: why verbs cannot be had, and the fix.
#pragma once

#include <memory>
#include <string>

#include "common/rdma/fabric.h"

namespace nova {

struct FabricChoice {
  std::string fabric = "auto";  // "auto", "verbs" or "tcp"
  std::string rdma_device;      // "NAME" or "NAME:PORT"; empty: chosen by address
  std::string address;          // host:port that is listened at; empty: none, of a client
};

struct OpenedFabric {
  std::unique_ptr<Fabric> fabric;
  std::string text;        // for people: "fabric verbs: mlx5_0:1 (RoCE, active, MTU 4096)"
  bool fell_back = false;  // auto, and verbs could not be had
};

StatusOr<OpenedFabric> OpenFabric(const FabricChoice& choice);
// Logs which fabric a node has: one line, a warning if it fell back.
void LogFabric(const std::string& node, const OpenedFabric& opened);

}  // namespace nova
