// Fabric: the services of RDMA hardware, as an interface: connections, registered memory, SEND, WRITE, WRITE
// with immediate, READ.
//
// Implementations: verbs (librdmacm, libibverbs), tcp (sockets and epoll; several processes or hosts without
// an RDMA NIC), sim (seeded, virtual time). The subset is reliable connected queue pairs; where they differ
// from a convenience of sockets, the queue pair's rule holds:
// - One connection keeps its order: requests execute at the target in the order they were posted, and
//   complete in it. (One exception, as with verbs without a fence: a READ may return the bytes of a WRITE
//   posted behind it wrote.)
// - A WRITE or READ completes with kOk only when the bytes are in the target's memory, or in ours: delivered,
//   not sent.
// - One-sided operations take no part of the target's application: its port does the work of a NIC.
// - Key, bounds and rights are checked at the target for every piece. A violation fails the request with
//   kRemoteAccess and breaks the connection: everything pending on it completes with kFlushed, and it has to
//   be connected anew.
// - After Revoke() has returned nothing lands in the region and nothing is read from it: not even the rest of
//   a WRITE under way (revocation, F1).
// - A received message has at most max_message_bytes; a longer SEND fails with kLocalError.
//
// Thread safety: Fabric: all methods from any thread. Port: its owner thread only, but Wake().
// Ownership: memory named by a posted request belongs to the fabric until its completion has been polled or
//   the connection was destroyed (exposed memory, F4). Regions are plain memory of the caller; the fabric
//   never frees it.
// Errors: a Completion tells the end of each request; a Status is for set-up.
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
#include <tuple>
#include <vector>

#include "common/base/clock.h"
#include "common/base/ids.h"
#include "common/base/status.h"

namespace nova {

// Memory of another process, as a peer may address it. No other address travels on the wire.
struct RemoteBuffer {
  uint64_t address = 0;   // in the other process
  uint64_t size = 0;      // bytes
  uint32_t rkey = 0;      // of the registration there
  uint32_t reserved = 0;  // 0
  // The part [offset, offset + n). REQUIRES: it lies inside.
  RemoteBuffer Slice(uint64_t offset, uint64_t n) const { return {address + offset, n, rkey, 0}; }
  bool operator==(const RemoteBuffer&) const = default;
  // As common/base/fields.h asks for them.
  static auto Fields(auto& m) { return std::tie(m.address, m.size, m.rkey, m.reserved); }
  bool Valid() const { return reserved == 0; }  // else the message that has it is malformed
};
static_assert(sizeof(RemoteBuffer) == 24);

// What peers may do with registered memory, beside our own requests.
enum class Access : uint8_t { kLocal = 0, kRemoteRead = 1, kRemoteWrite = 2, kRemoteReadWrite = 3 };

// Registered memory of ours.
struct MemoryRegion {
  std::byte* address = nullptr;
  uint64_t size = 0;  // bytes
  uint32_t lkey = 0;  // names it in our own requests
  uint32_t rkey = 0;  // names it in a peer's
  Access access = Access::kLocal;
  // The whole of it, as a peer addresses it.
  RemoteBuffer remote() const { return {reinterpret_cast<uint64_t>(address), size, rkey, 0}; }
};

// Registered memory of ours, the source or destination of a request.
struct LocalBuffer {
  const void* address = nullptr;
  uint32_t length = 0;  // bytes
  uint32_t lkey = 0;    // of the MemoryRegion that it lies in
};

// kSend: bytes for a receive of the peer's. kWrite, kRead: of its memory, without its processor.
// kWriteWithImm: besides tells it of a number once the bytes are there.
enum class Opcode : uint8_t { kSend = 1, kWrite = 2, kWriteWithImm = 3, kRead = 4 };
inline constexpr size_t kMaxPieces = 4;  // LocalBuffers of one request

// One request to post.
struct WorkRequest {
  uint64_t id = 0;  // comes back in the Completion
  Opcode opcode = Opcode::kSend;
  uint8_t piece_count = 0;                       // of `pieces` in use
  uint32_t immediate = 0;                        // of WRITE with immediate
  std::array<LocalBuffer, kMaxPieces> pieces{};  // gathered, or scattered into by a READ, in order
  uint64_t remote_address = 0;                   // of WRITE and READ: in the peer's process
  uint32_t rkey = 0;                             // likewise: of its region
};

// Names a connection of one port, which never uses it again.
using ConnectionId = Id<struct ConnectionTag>;

// The component of a process; a part of its Hello (handshake, F3).
enum class Role : uint8_t { kClient = 1, kLtc = 2, kStoc = 3, kTool = 4 };
using NodeName = std::array<char, 64>;               // a node's name, zero padded
inline NodeName ToNodeName(std::string_view name) {  // cut to its size
  NodeName padded{};
  name.copy(padded.data(), padded.size());
  return padded;
}

// The process that a dialler means to reach. Another may have the address by now: a StoC with other files, or
// the same one started anew, whose memory has nothing of what the keys of its last start named (incarnation,
// N1).
struct PeerIdentity {
  std::optional<Role> role = {};  // none: any
  NodeName name{};                // empty: any
  uint64_t incarnation = 0;       // 0: any
  bool operator==(const PeerIdentity&) const = default;
};

// The first thing that each side tells the other (handshake, F3). A peer of another cluster or version is
// refused with a reason.
struct Hello {
  uint16_t min_version = 1;  // lowest protocol version spoken
  uint16_t max_version = 1;  // highest
  Role role = Role::kClient;
  uint16_t xchg_index = 0;  // number of the sender's xchg thread
  // N1; 0 for clients and tools, of which several may share a name: none replaces another.
  uint64_t incarnation = 0;
  // Counts the sender's connections to this peer; a higher one replaces a lower.
  uint64_t generation = 0;
  uint64_t features = 0;  // reserved; 0
  Uuid cluster;           // nil: any, of tools
  NodeName name{};
  std::array<std::byte, 32> credentials{};  // reserved; not checked
  PeerIdentity meant_for;                   // of a dialler: another process refuses it

  // `who` may mean the sender of this Hello.
  bool Is(const PeerIdentity& who) const {
    return (!who.role || *who.role == role) && (who.name == NodeName{} || who.name == name) &&
           (who.incarnation == 0 || who.incarnation == incarnation);
  }
};

// What a Completion tells of.
enum class CompletionKind : uint8_t {
  kRequest,    // a posted request ended: `id`, `status`
  kReceive,    // a SEND arrived: `data`
  kImmediate,  // a WRITE with immediate arrived (its bytes are in place): `immediate`
  // Connect() succeeded, or a peer's connection was accepted (`accepted`). `hello` is the peer's.
  kConnected,
  // The connection is gone: refused, broken or closed by the peer, for `reason`. Its requests were completed
  // before.
  kDisconnected,
};
// Of a request. kFlushed: the connection ended first, and it may have been executed or not. kRemoteAccess:
// the target refused it: key, bounds or rights. kLocalError: too long, or its memory is not registered; it
// was never sent.
enum class CompletionStatus : uint8_t { kOk, kFlushed, kRemoteAccess, kLocalError };

// Something that a port tells its owner; `kind` says which fields hold.
struct Completion {
  CompletionKind kind = CompletionKind::kRequest;
  CompletionStatus status = CompletionStatus::kOk;  // of kRequest
  bool accepted = false;                            // of kConnected, kDisconnected: the peer had dialled
  uint32_t immediate = 0;                           // of kImmediate
  ConnectionId connection;
  uint64_t id = 0;                  // of kRequest: WorkRequest::id
  std::span<const std::byte> data;  // of kReceive; valid until the next Poll of this port
  const Hello* hello = nullptr;     // valid until the next Poll
  const char* reason = nullptr;     // static, or valid until the next Poll
};

// Bounds of a port; the same for all its connections.
struct PortOptions {
  std::string name;                        // of the owner thread, for logs: "stoc.xchg.0"
  uint16_t index = 0;                      // Hello::xchg_index of connections that it dials
  uint32_t max_message_bytes = 64 * 1024;  // of a SEND
  uint32_t max_pending_requests = 1024;    // per connection; Post refuses more
};

// The NIC of one thread: its connections, and the completions on them.
class Port {
 public:
  // Destroys its connections; after it nothing of theirs lands or is read.
  virtual ~Port() = default;

  // Begins to connect to "host:port"; kConnected or kDisconnected follows by the deadline.
  virtual ConnectionId Connect(const std::string& address, const Hello& hello, Nanos deadline_ns) = 0;
  // Posts all requests or none, in order, as one doorbell. Unavailable: there is no such connection, or it is
  // not up. ResourceExhausted: too many are pending. Requests posted to a connection that breaks complete
  // with kFlushed.
  virtual Status Post(ConnectionId connection, std::span<const WorkRequest> requests) = 0;
  // Takes completions that have arrived and does the NIC's work for peers. Never waits. Returns how many it
  // put into `out`.
  virtual size_t Poll(std::span<Completion> out) = 0;
  // Waits until Poll may have something, Wake() is called, or the deadline has come.
  virtual void Wait(Nanos deadline_ns) = 0;
  // Ends a Wait, the next one if none is under way; any thread.
  virtual void Wake() = 0;
  // Destroys the connection. Its pending requests complete with kFlushed at the next Poll, then comes
  // kDisconnected. After it returns nothing posted on the connection is read or written any more, and nothing
  // of the peer's lands through it.
  virtual void Disconnect(ConnectionId connection) = 0;
  // The longest SEND that this port takes.
  virtual uint32_t max_message_bytes() const = 0;
};

// Asked on the port's thread for each peer that connects. An error refuses the peer, which is told its text.
using AcceptCheck = std::function<Status(const Hello& peer)>;

// Counts of one port or fabric; those without "now" since it was opened.
struct FabricCounters {
  int64_t regions = 0;           // registered now
  int64_t connections = 0;       // up now
  int64_t pending_requests = 0;  // posted and not completed
  uint64_t bytes_sent = 0;       // SEND
  uint64_t bytes_written = 0;    // WRITE
  uint64_t bytes_read = 0;       // READ
  uint64_t protocol_errors = 0;  // malformed bytes from a peer: the connection was closed
  uint64_t access_errors = 0;    // requests refused for key, bounds or rights, of peers or by them
};

// The device, or what stands for it: memory that peers may reach, and ports.
class Fabric {
 public:
  virtual ~Fabric() = default;
  virtual std::string_view name() const = 0;  // "tcp", "sim", "verbs"

  // Registers memory. May take milliseconds, so not on the write path. Keys are not reused soon, and are no
  // identity (salt, L1). ResourceExhausted: the device or RLIMIT_MEMLOCK.
  virtual StatusOr<MemoryRegion> Register(void* address, uint64_t size, Access access) = 0;
  // Revocation (F1): returns only when nothing more can land in the region or be read from it. Requests under
  // its rkey fail from then on.
  virtual void Revoke(const MemoryRegion& region) = 0;

  // A port for the calling component's thread. Errors: ResourceExhausted: descriptors, lockable memory.
  virtual StatusOr<std::unique_ptr<Port>> OpenPort(const PortOptions& options) = 0;
  // Accepts connections at `address` ("host:port"; port 0 picks one); each goes to ports[hello.xchg_index %
  // size]. The answer to a peer's Hello is `self`. A connection of the same (role, name, xchg_index) and a
  // lower (incarnation, generation) is destroyed before the new one is up; a Hello with a lower one than a
  // live connection's is refused (F3). Returns the bound address. Call once, before the ports' threads run.
  virtual StatusOr<std::string> Listen(const std::string& address, const Hello& self,
                                       std::vector<Port*> ports, AcceptCheck check) = 0;
  // Sums over all ports, those that are gone included.
  virtual FabricCounters counters() const = 0;
};

}  // namespace nova
