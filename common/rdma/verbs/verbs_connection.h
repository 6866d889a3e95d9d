// VerbsConnection: a queue pair of a VerbsPort, and the requests posted to it. Internal to the verbs fabric.
//
// The states of a connection (State):
//
//   dialled    kResolving -> kAddress -> kRoute -> kConnecting -> kAwaitWelcome -> kUp
//   accepted   kAwaitHello -> kUp, or -> kRefusing -> kDead
//   the end    any -> kDead, which destroys the queue pair before the owner is told (exposed memory, F4)
//
// Thread safety: none; the port's thread.
// Ownership: the port destroys the queue pair and the id. The memory of requests is the poster's.
// Errors: none of its own.
#pragma once

#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>

#include "common/rdma/connection_table.h"
#include "common/rdma/pending_request.h"
#include "common/rdma/ring.h"
#include "common/rdma/verbs/connect_data.h"

namespace nova {

// A posted request.
struct VerbsPending : PendingRequest {
  bool internal = false;  // a sign of life of ours: nobody is told of its end
};

struct VerbsConnection : PortConnection {
  enum class State : uint8_t {
    kResolving,  // the host's name is looked up
    kAddress,    // librdmacm looks up which device leads there
    kRoute,      // and by which route
    kConnecting,
    kAwaitWelcome,  // our hello is sent
    kAwaitHello,    // accepted; the peer's hello has not come
    kUp,
    kRefusing,  // the refusal is on its way out
    kDead,
  };
  static constexpr uint32_t kNoBlock = UINT32_MAX;  // of `block`

  State state = State::kDead;
  uint32_t tag = 0;           // in the ids of its work requests; of its serial
  rdma_cm_id* cm = nullptr;   // librdmacm's id; null: none
  ibv_qp* qp = nullptr;       // null: none
  uint32_t max_inline = 0;    // bytes that the queue pair takes inline
  uint32_t block = kNoBlock;  // the block from which its handshake is sent
  ConnectData peer;           // the acceptor's or dialler's connection data

  // Our requests from posted to completed. Those before next_push are in the queue pair, or failed.
  Ring<VerbsPending> pending;
  uint64_t next_push = 0;      // ring index of the next to hand to the queue pair
  uint32_t in_queue_pair = 0;  // requests in the queue pair
  uint32_t unsignalled = 0;    // posted since the last that asks for a completion
  uint32_t unsignalled_bytes = 0;
  bool starved = false;   // it waits in VerbsPort::room_
  Nanos progress_ns = 0;  // when the oldest request in the queue pair became the oldest
  Nanos heard_ns = 0;     // when the peer last gave a sign of life
};

}  // namespace nova
