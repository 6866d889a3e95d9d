// The tcp fabric: the Fabric over sockets and epoll, for several processes or hosts without an RDMA NIC.
//
// A port is one epoll set; its thread does the NIC's work in Poll. The listening socket lies in the first
// port's set; a connection whose Hello names another index is handed to that port. Bytes on the wire:
// handshake.h, then frame.h.
//
// When requests complete: SEND, WRITE and READ alike when the peer's port has executed them. A SEND then lies
// in its receive queue, a WRITE in its memory, a READ in ours. Requests of a connection complete in the order
// they were posted. A READ is ordered after the requests posted before it, but may return the bytes of a
// WRITE posted behind it wrote (as with verbs without a fence). A peer that stands still completes nothing;
// deadlines (L5) are the caller's. A peer that died, so that its host says so, breaks the connection at once;
// one whose host is silent does after kernel keep-alives, about 90 s. By the handshake (F3) a newer
// connection replaces an older one if the Hello carries an incarnation; clients and tools (0) may share a
// name.
//
// Thread safety: as fabric.h.
// Ownership: ports are destroyed before their Fabric.
// Errors: as fabric.h.
#pragma once

#include <memory>

#include "common/rdma/fabric.h"

namespace nova {

struct TcpFabricOptions {
  Nanos handshake_timeout_ns = 2 * kSecond;  // of an accepted connection, until its hello has come
  size_t max_handshakes = 256;  // accepted connections not yet up; more wait in the kernel's queue
};

std::unique_ptr<Fabric> NewTcpFabric(const TcpFabricOptions& options = {});

}  // namespace nova
