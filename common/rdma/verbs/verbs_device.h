// VerbsDevice: an open RDMA device, and one of its ports. Internal to files named verbs_*.
//
// Thread safety: a value.
// Ownership: the caller closes the context.
// Errors: one line that names the thing missing and its fix.
#pragma once

#include <infiniband/verbs.h>

#include "common/rdma/verbs/verbs_fabric.h"

namespace nova {

// The device and port that a fabric uses.
struct VerbsDevice {
  ibv_context* context = nullptr;
  uint8_t port = 0;   // number of the port, from 1
  int gid_index = 0;  // of RoCE: a RoCEv2 address, IPv4 if there is one
  ibv_port_attr attributes{};
};

// ResourceExhausted: what could not be had, and errno's reason.
Status NoResources(const char* what);

const char* VerbsStateText(ibv_port_state state);  // "active", "down", ...
inline int VerbsMtuBytes(ibv_mtu mtu) { return 128 << mtu; }

// Opens the device and port that the options name, by name or by address; without either the first port that
// is up.
StatusOr<VerbsDevice> OpenVerbsDevice(const VerbsFabricOptions& options);

// The address of a queue pair, for another one here or on another node.
struct QueuePairAddress {
  uint32_t number = 0;        // of the queue pair
  uint16_t lid = 0;           // of InfiniBand
  ibv_mtu mtu = IBV_MTU_256;  // of its port
  ibv_gid gid{};
};
StatusOr<QueuePairAddress> AddressOfQueuePair(const VerbsDevice& device, const ibv_qp* qp);

// Brings `qp` to RTS, connected to another queue pair without a connection manager: for tests without a
// fabric.
Status ConnectQueuePair(const VerbsDevice& device, ibv_qp* qp, const QueuePairAddress& to);
// The same, with a queue pair of the same device and process.
Status ConnectQueuePair(const VerbsDevice& device, ibv_qp* qp, const ibv_qp* to);

}  // namespace nova
