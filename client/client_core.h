// What differs between the client of an application and the same client in a simulation: its fabric, its way
// to the coordinator.
//
// Thread safety: a value; its functions are called once each, inside Client::Connect.
// Ownership:     the Client owns what they return.   Errors: none.
#pragma once

#include <functional>
#include <memory>

#include "common/rdma/fabric.h"
#include "coordinator/coordinator_client.h"

namespace nova {

// See the head of this file.
struct ClientEnvironment {
  std::function<StatusOr<std::unique_ptr<Fabric>>()> open_fabric;  // to the LTCs
  std::function<std::unique_ptr<ControlChannel>()> open_channel;   // to the coordinators
};

}  // namespace nova
