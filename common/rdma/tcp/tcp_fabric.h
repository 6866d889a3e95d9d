// The tcp fabric: the Fabric over sockets and epoll, for several processes or hosts without an RDMA NIC.
//
// A port is one epoll set; its thread does the NIC's work in Poll. The listening socket lies in the first
// port's set; a connection whose Hello names another index is handed to that port. Bytes on the wire:
// handshake.h, then frame.h.
//
// What completes when: SEND, WRITE and READ alike when the peer's port has executed them: a SEND lies in its
// receive queue, a WRITE in its memory, a READ in ours. Requests of a connection complete in the order they
// were posted. A READ is ordered after what was posted before it, but may return what a WRITE posted behind
// it wrote (as with verbs without a fence). A peer that is stopped completes nothing (deadlines, L5, are
// the caller's); one that died, or its host said so, breaks the connection at once; one whose host
// is silent, after kernel keep-alives, about 90 s.
// Handshake (F3): the newer connection replaces the older where the Hello carries an incarnation; clients and
// tools (0) may share a name.
//
// Thread safety: as fabric.h.   Ownership: ports are destroyed before their Fabric.   Errors: as fabric.h.
#pragma once

#include <memory>

#include "common/rdma/fabric.h"

namespace nova {

struct TcpFabricOptions {
  Nanos handshake_timeout_ns = 2 * kSecond;  // of an accepted connection that has not said who it is
  size_t max_handshakes = 256;               // accepted and not yet up; more wait in the kernel's queue
};

std::unique_ptr<Fabric> NewTcpFabric(const TcpFabricOptions& options = {});

}  // namespace nova
