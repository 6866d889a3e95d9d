// The verbs fabric: the Fabric over librdmacm and libibverbs, reliable connected queue pairs: InfiniBand,
// RoCEv2, Soft-RoCE.
//
// One device and port a fabric. A port (fabric.h) is one completion queue, one shared receive queue, one
// channel of connection events; its thread polls, and sleeps on them all. Connections are made by librdmacm
// (which chooses the GID, or the LID path); the first SEND of each side is the handshake (handshake.h), as
// over tcp.
//
// Small payloads are posted inline; what is posted together rings one doorbell and asks for one completion,
// sixteen requests or 64 KiB apart at most. A queue pair holds few requests; what is posted beyond waits in
// the port, in order.
//
// A broken peer may produce no completion at all (H28): a connection whose oldest request has made no
// progress within request_timeout_ns is destroyed, its requests flushed. (The deadlines of operations are the
// caller's: deadline, L5. This one is for requests without any.) A connection without traffic is asked for a
// sign of life by a READ of no bytes, which takes none of the peer's CPU.
//
// Register pins memory: RLIMIT_MEMLOCK. Revoke is ibv_dereg_mr; where the device refuses it, every queue pair
// of the fabric is broken first, so that nothing can land. Relaxed ordering is never asked for.
//
// Thread safety: as fabric.h.   Ownership: ports are destroyed before their Fabric.
// Errors:        NewVerbsFabric: one line that names what is missing and its fix. Else as fabric.h.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "common/rdma/fabric.h"

namespace nova {

struct VerbsFabricOptions {
  std::string device;  // "mlx5_0" or "mlx5_0:1"; empty: the one that has `address`, else the first that is up
  std::string address;  // host of --address; empty, 0.0.0.0: any
  Nanos request_timeout_ns = 5 * kSecond;
  Nanos keepalive_ns = 10 * kSecond;
  Nanos handshake_timeout_ns = 2 * kSecond;
  // of the transport: 4.096 us * 2^14, seven retries: about half a second
  uint8_t ack_timeout = 14;
  uint32_t send_queue = 128;         // requests in a queue pair
  uint32_t receive_buffers = 256;    // of a port, max_message_bytes each
  uint32_t completion_queue = 8192;  // of a port
};

StatusOr<std::unique_ptr<Fabric>> NewVerbsFabric(const VerbsFabricOptions& options);
// "mlx5_0:1 (RoCEv2, active, MTU 4096)" of a fabric that NewVerbsFabric made.
std::string VerbsFabricText(const Fabric& fabric);
// Moves every queue pair of the fabric to its error state without telling the ports: the fault of H28, for
// tests.
void BreakQueuePairs(Fabric* fabric);
// Queue pairs that exist now: connections up, under way, and half gone.
int64_t QueuePairs(const Fabric& fabric);

// A port of an RDMA device of this machine, as `nova doctor` shows it.
struct RdmaPort {
  struct Gid {
    int index = 0;
    std::string text;  // IPv4 where it is one
    std::string type;  // "InfiniBand", "RoCEv1", "RoCEv2"
    std::string netdev;
  };
  std::string device;
  int port = 0;
  bool active = false;
  std::string state;  // "active", "down", "init" ...
  std::string link;   // "InfiniBand", "Ethernet"
  int active_mtu = 0;
  int max_mtu = 0;
  std::string speed;  // "100 Gb/s"; empty: unknown
  uint64_t max_regions = 0;
  uint64_t max_queue_pairs = 0;
  std::vector<Gid> gids;
};
std::vector<RdmaPort> ListRdmaPorts();
// Empty, or why the memory this process may pin is less than `bytes`, and what to change.
std::string MemlockProblem(uint64_t bytes);

}  // namespace nova
