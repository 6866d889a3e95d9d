// OpenFabric: the fabric that --fabric=auto|verbs|tcp and --rdma_device=NAME:PORT name.
//
// auto takes verbs where the device that has the address (without one: any) is up, else tcp; `text` says
// which and why. All nodes and clients of a cluster use one fabric: name it where machines differ.
//
// Thread safety: pure but for the devices it opens.
// Errors: InvalidArgument: no such fabric; else one line: why verbs cannot be had, and the fix.
#pragma once

#include <memory>
#include <string>

#include "common/rdma/fabric.h"

namespace nova {

struct FabricChoice {
  std::string fabric = "auto";
  std::string rdma_device;  // empty: by address
  std::string address;      // host:port to be served at; empty: none, a client
};

struct OpenedFabric {
  std::unique_ptr<Fabric> fabric;
  std::string text;        // "fabric verbs: mlx5_0:1 (RoCE, active, MTU 4096)"
  bool fell_back = false;  // auto, and verbs could not be had
};

StatusOr<OpenedFabric> OpenFabric(const FabricChoice& choice);
// One line in the log of a node that has started: which fabric it has, a warning if it fell back.
void LogFabric(const std::string& node, const OpenedFabric& opened);

}  // namespace nova
