// The verbs fabric: the Fabric over librdmacm and libibverbs, with reliable connected queue pairs:
// InfiniBand, RoCEv2, Soft-RoCE.
//
// A fabric has one device and one of its ports. A Port (fabric.h) is one completion queue, one shared receive
// queue, and one channel of connection events; its thread polls, and sleeps on them all. Connections are made
// by librdmacm, which chooses the GID or the LID path; the first SEND of each side is the handshake
// (handshake.h), as over tcp.
//
// Small payloads are posted inline. Requests posted together ring one doorbell and ask for one completion, at
// most sixteen requests or 64 KiB apart. A queue pair holds few requests; requests beyond that wait in the
// port, in order.
//
// A broken peer may produce no completion at all (H28). So a connection whose oldest request has made no
// progress within request_timeout_ns is destroyed, and its requests are flushed. (Operations have deadlines
// (L5) of the caller's; this one is for requests without any.) A connection without traffic is asked for a
// sign of life by a READ of no bytes, which takes nothing of the peer's CPU.
//
// Register pins memory: RLIMIT_MEMLOCK. Revoke is ibv_dereg_mr; if the device refuses that, every queue pair
// of the fabric is broken first, so that nothing can land (revocation, F1). Relaxed ordering is never asked
// for.
//
// Thread safety: as fabric.h.
// Ownership: ports are destroyed before their Fabric.
// Errors: NewVerbsFabric: one line that names the thing missing and its fix. Else as fabric.h.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "common/rdma/fabric.h"

namespace nova {

struct VerbsFabricOptions {
  // "mlx5_0" or "mlx5_0:1". Empty: the device that has `address`, else the first that is up.
  std::string device;
  std::string address;                       // host of --address; empty or 0.0.0.0: any
  Nanos request_timeout_ns = 5 * kSecond;    // without progress of a connection's oldest request
  Nanos keepalive_ns = 10 * kSecond;         // without traffic, until a sign of life is asked for
  Nanos handshake_timeout_ns = 2 * kSecond;  // of an accepted connection, until its hello has come
  // Of the transport: 4.096 us * 2^14, seven retries: about half a second.
  uint8_t ack_timeout = 14;
  uint32_t send_queue = 128;         // requests in one queue pair
  uint32_t receive_buffers = 256;    // of one port, max_message_bytes each
  uint32_t completion_queue = 8192;  // entries, of one port
};

// Opens the device; registers nothing yet.
StatusOr<std::unique_ptr<Fabric>> NewVerbsFabric(const VerbsFabricOptions& options);
// "mlx5_0:1 (RoCEv2, active, MTU 4096)", of a fabric made by NewVerbsFabric.
std::string VerbsFabricText(const Fabric& fabric);
// Moves every queue pair of the fabric to its error state without telling the ports: the fault of H28, for
// tests.
void BreakQueuePairs(Fabric* fabric);
// Queue pairs that exist now: of connections that are up, under way, or half gone; for tests.
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
  std::string state;         // "active", "down", "init" ...
  std::string link;          // "InfiniBand", "Ethernet"
  int active_mtu = 0;        // bytes
  int max_mtu = 0;           // bytes
  std::string speed;         // "100 Gb/s"; empty: unknown
  uint64_t max_regions = 0;  // memory regions that the device can hold
  uint64_t max_queue_pairs = 0;
  std::vector<Gid> gids;
};
// All ports of all RDMA devices; empty: none, or no libibverbs devices.
std::vector<RdmaPort> ListRdmaPorts();
// Empty; or why this process may pin less memory than `bytes`, and the setting to change.
std::string MemlockProblem(uint64_t bytes);

}  // namespace nova
