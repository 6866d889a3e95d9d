// VerbsConnection: a queue pair of a VerbsPort, and the requests posted to it. Internal to the verbs fabric.
//
// Thread safety: none; the port's thread.   Ownership: the port destroys the queue pair and the id; requests'
//                memory is the poster's.   Errors: none of its own.
#pragma once

#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>

#include "common/rdma/connection_table.h"
#include "common/rdma/pending_request.h"
#include "common/rdma/ring.h"
#include "common/rdma/verbs/connect_data.h"

namespace nova {

struct VerbsPending : PendingRequest {
  bool internal = false;  // a sign of life: nobody is told
};

struct VerbsConnection : PortConnection {
  enum class State : uint8_t {
    kResolving,  // the host's name
    kAddress,    // which device leads there
    kRoute,
    kConnecting,
    kAwaitWelcome,
    kAwaitHello,
    kUp,
    kRefusing,  // the refusal is on its way out
    kDead,
  };
  static constexpr uint32_t kNoBlock = UINT32_MAX;

  State state = State::kDead;
  uint32_t tag = 0;  // in the ids of its work requests
  rdma_cm_id* cm = nullptr;
  ibv_qp* qp = nullptr;
  uint32_t block = kNoBlock;  // that its handshake is sent from
  ConnectData peer;

  // From posted to completed; those before next_push are in the queue pair, or failed.
  Ring<VerbsPending> pending;
  uint64_t next_push = 0;
  uint32_t in_queue_pair = 0;
  uint32_t unsignalled = 0;
  uint32_t unsignalled_bytes = 0;
  bool starved = false;
  Nanos progress_ns = 0;  // when the oldest request in the queue pair became the oldest
  Nanos heard_ns = 0;     // of the peer, last
};

}  // namespace nova
