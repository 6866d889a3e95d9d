// Fabric: what RDMA hardware does, as an interface: connections, registered memory, SEND, WRITE, WRITE with
// immediate, READ.
//
// Implementations: tcp (sockets and epoll; several processes or hosts without an RDMA NIC), sim (seeded,
// virtual time); verbs (librdmacm, libibverbs) has its place here. The subset is reliable connected queue
// pairs; where they differ from a convenience of sockets, the queue pair's rule holds:
//   - One connection keeps its order: requests execute at the target in the order they were posted, and
//     complete so. (One exception, as with verbs without a fence: a READ may return what a WRITE posted
//     behind it wrote.)
//   - A WRITE or READ completes with kOk only when the bytes are in the target's memory (resp. ours):
//   delivered, not sent.
//   - One-sided operations take no part of the target's application: its port does what a NIC would.
//   - Key, bounds and rights are checked at the target for every piece; a violation fails the request with
//     kRemoteAccess and breaks the connection: everything pending on it completes with kFlushed, and it has
//     to be connected anew.
//   - After Revoke() has returned nothing lands in, or is read from, the region: not even the rest of a WRITE
//   under way.
//   - A received message is at most max_message_bytes; a longer SEND fails with kLocalError.
//
// Thread safety: Fabric: all methods from any thread. Port: its owner thread only, but Wake().
// Ownership:     memory named by a posted request belongs to the fabric until its completion has been polled,
//                or the connection was destroyed (exposed memory, F4). Regions are plain memory of the
//                caller; the fabric never frees it.
// Errors:        a Completion says what became of each request; a Status is for set-up.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/clock.h"
#include "common/base/ids.h"
#include "common/base/status.h"

namespace nova {

// Memory of another process: the only address that travels on the wire.
struct RemoteBuffer {
  uint64_t address = 0;
  uint64_t size = 0;
  uint32_t rkey = 0;
  uint32_t reserved = 0;
  // The part [offset, offset + n). REQUIRES: inside.
  RemoteBuffer Slice(uint64_t offset, uint64_t n) const { return {address + offset, n, rkey, 0}; }
  bool operator==(const RemoteBuffer&) const = default;
};
static_assert(sizeof(RemoteBuffer) == 24);

enum class Access : uint8_t { kLocal = 0, kRemoteRead = 1, kRemoteWrite = 2, kRemoteReadWrite = 3 };

struct MemoryRegion {
  std::byte* address = nullptr;
  uint64_t size = 0;
  uint32_t lkey = 0;  // names it in our own requests
  uint32_t rkey = 0;  // names it in a peer's
  Access access = Access::kLocal;
  RemoteBuffer remote() const { return {reinterpret_cast<uint64_t>(address), size, rkey, 0}; }
};

// Registered memory of ours, source or destination of a request.
struct LocalBuffer {
  const void* address = nullptr;
  uint32_t length = 0;
  uint32_t lkey = 0;
};

enum class Opcode : uint8_t { kSend = 1, kWrite = 2, kWriteWithImm = 3, kRead = 4 };
inline constexpr size_t kMaxPieces = 4;

struct WorkRequest {
  uint64_t id = 0;  // comes back in the Completion
  Opcode opcode = Opcode::kSend;
  uint8_t piece_count = 0;
  uint32_t immediate = 0;
  std::array<LocalBuffer, kMaxPieces> pieces{};  // gathered (scattered, of a READ) in order
  uint64_t remote_address = 0;                   // of WRITE and READ
  uint32_t rkey = 0;
};

// Names a connection of one port; never reused by it.
using ConnectionId = Id<struct ConnectionTag>;

// Handshake (F3): the first thing each side tells the other. Fixed layout; a peer of another cluster or
// version is refused with a reason.
enum class Role : uint8_t { kClient = 1, kLtc = 2, kStoc = 3, kTool = 4 };
using NodeName = std::array<char, 64>;               // zero padded
inline NodeName ToNodeName(std::string_view name) {  // as much of it as there is room for
  NodeName padded{};
  name.copy(padded.data(), padded.size());
  return padded;
}

// Whom a dialler means to reach: another process may have the address by now, a StoC with other files among
// them, or the same one started anew, whose memory has nothing of what its last start gave out keys of
// (incarnation, N1).
struct PeerIdentity {
  std::optional<Role> role = {};  // none: any
  NodeName name{};                // empty: any
  uint64_t incarnation = 0;       // 0: any
  bool operator==(const PeerIdentity&) const = default;
};

struct Hello {
  uint16_t min_version = 1;
  uint16_t max_version = 1;
  Role role = Role::kClient;
  uint16_t xchg_index = 0;  // which xchg thread of the sender
  // N1; 0 for clients and tools: several may share a name, F3's replacement spares them
  uint64_t incarnation = 0;
  // counts the sender's connections to this peer; a higher one replaces a lower
  uint64_t generation = 0;
  uint64_t features = 0;
  Uuid cluster;  // nil: any (tools)
  NodeName name{};
  std::array<std::byte, 32> credentials{};
  PeerIdentity meant_for;  // of a dialler: who is somebody else refuses it

  bool Is(const PeerIdentity& who) const {
    return (!who.role || *who.role == role) && (who.name == NodeName{} || who.name == name) &&
           (who.incarnation == 0 || who.incarnation == incarnation);
  }
};

enum class CompletionKind : uint8_t {
  kRequest,    // a posted request ended: `id`, `status`
  kReceive,    // a SEND arrived: `data`
  kImmediate,  // a WRITE with immediate arrived (its bytes are in place): `immediate`
  // Connect() succeeded, or a peer's connection was accepted (`accepted`): `hello` is the peer's
  kConnected,
  // the connection is gone (refused, broken, closed by the peer); requests were completed before: `reason`
  kDisconnected,
};
enum class CompletionStatus : uint8_t { kOk, kFlushed, kRemoteAccess, kLocalError };

struct Completion {
  CompletionKind kind = CompletionKind::kRequest;
  CompletionStatus status = CompletionStatus::kOk;
  bool accepted = false;
  uint32_t immediate = 0;
  ConnectionId connection;
  uint64_t id = 0;
  std::span<const std::byte> data;  // valid until the next Poll of this port
  const Hello* hello = nullptr;     // valid until the next Poll
  const char* reason = nullptr;     // static or valid until the next Poll
};

struct PortOptions {
  std::string name;                        // of the owner thread: "stoc.xchg.0"
  uint16_t index = 0;                      // Hello::xchg_index of what it connects
  uint32_t max_message_bytes = 64 * 1024;  // of a SEND
  uint32_t max_pending_requests = 1024;    // per connection; Post refuses more
};

class Port {
 public:
  virtual ~Port() = default;  // destroys its connections; after it nothing of theirs lands or is read

  // Begins to connect; kConnected or kDisconnected follows within the deadline.
  virtual ConnectionId Connect(const std::string& address, const Hello& hello, Nanos deadline_ns) = 0;
  // Posts all or nothing, in order, as one doorbell. Unavailable: no such connection, or not up.
  // ResourceExhausted: too many pending. Requests posted to a connection that breaks complete with kFlushed.
  virtual Status Post(ConnectionId connection, std::span<const WorkRequest> requests) = 0;
  // Takes what has arrived; does the NIC's work for peers. Never waits.
  virtual size_t Poll(std::span<Completion> out) = 0;
  // Waits until Poll may have something, Wake() was called, or the deadline.
  virtual void Wait(Nanos deadline_ns) = 0;
  virtual void Wake() = 0;  // any thread
  // Destroys the connection: its pending requests complete with kFlushed (at the next Poll), then
  // kDisconnected. After it returns nothing posted on it is read or written any more, and nothing of the
  // peer's lands through it.
  virtual void Disconnect(ConnectionId connection) = 0;
  virtual uint32_t max_message_bytes() const = 0;
};

// Asked on the port's thread for each peer that connects; an error refuses it, with the text as the reason it
// is told.
using AcceptCheck = std::function<Status(const Hello& peer)>;

struct FabricCounters {
  int64_t regions = 0;           // registered now
  int64_t connections = 0;       // up now
  int64_t pending_requests = 0;  // posted and not completed
  uint64_t bytes_sent = 0;       // SEND
  uint64_t bytes_written = 0;    // WRITE
  uint64_t bytes_read = 0;       // READ
  uint64_t protocol_errors = 0;  // malformed bytes from a peer: the connection was closed
  uint64_t access_errors = 0;    // key, bounds or rights
};

class Fabric {
 public:
  virtual ~Fabric() = default;
  virtual std::string_view name() const = 0;  // "tcp", "sim", "verbs"

  // Off the write path: may take milliseconds. Keys are not reused soon, and are no identity (salt, L1).
  virtual StatusOr<MemoryRegion> Register(void* address, uint64_t size, Access access) = 0;
  // Revocation (F1): returns only when nothing more can land. Peers' requests under the old rkey fail.
  virtual void Revoke(const MemoryRegion& region) = 0;

  virtual StatusOr<std::unique_ptr<Port>> OpenPort(const PortOptions& options) = 0;
  // Accepts at `address` ("host:port", port 0 picks one); connections go to ports[hello.xchg_index % size].
  // The answer to a peer's Hello is `self`. A connection of the same (role, name, xchg_index) and a lower
  // (incarnation, generation) is destroyed before the new one is up; a Hello with a lower one than a live
  // connection's is refused (F3). Returns the bound address. Call once, before the ports' threads run.
  virtual StatusOr<std::string> Listen(const std::string& address, const Hello& self,
                                       std::vector<Port*> ports, AcceptCheck check) = 0;
  virtual FabricCounters counters() const = 0;
};

}  // namespace nova
