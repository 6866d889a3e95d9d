// VerbsDevice: an RDMA device that is open, and which of its ports; internal to files named verbs_*.
//
// Thread safety: a value.   Ownership: the caller closes the context.   Errors: one line that names what is
//                missing and its fix.
#pragma once

#include <infiniband/verbs.h>

#include "common/rdma/verbs/verbs_fabric.h"

namespace nova {

struct VerbsDevice {
  ibv_context* context = nullptr;
  uint8_t port = 0;
  int gid_index = 0;  // RoCE: of a RoCEv2 address, an IPv4 one where there is one
  ibv_port_attr attributes{};
};

const char* VerbsStateText(ibv_port_state state);
inline int VerbsMtuBytes(ibv_mtu mtu) { return 128 << mtu; }

// The device and port that the options name, by name or by address; else the first port that is up.
StatusOr<VerbsDevice> OpenVerbsDevice(const VerbsFabricOptions& options);

// Where a queue pair is reached, here or from another node.
struct QueuePairAddress {
  uint32_t number = 0;
  uint16_t lid = 0;
  ibv_mtu mtu = IBV_MTU_256;  // of its port
  ibv_gid gid{};
};
StatusOr<QueuePairAddress> AddressOfQueuePair(const VerbsDevice& device, const ibv_qp* qp);

// Brings `qp` to RTS, connected to another queue pair without a connection manager: for loops without a
// fabric.
Status ConnectQueuePair(const VerbsDevice& device, ibv_qp* qp, const QueuePairAddress& to);
// The same, to a queue pair of the same device and process.
Status ConnectQueuePair(const VerbsDevice& device, ibv_qp* qp, const ibv_qp* to);

}  // namespace nova
