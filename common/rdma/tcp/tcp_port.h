// TcpPort: one epoll set and its connections; the NIC of one xchg thread. Internal to the tcp fabric.
//
// Incoming bytes go into a slab that all connections share, or, of a long payload, straight to their place.
// Outgoing frames are built from the posted pieces: short pieces are copied, of long ones sendmsg takes the
// bytes from registered memory. Both touch registered memory only under memory_mu_, in chunks of at most
// kMaxChunkBytes, so that a revocation (F1) waits for one chunk (region_table.h).
//
// A connection that alone has traffic is read without asking epoll first, which saves a system call for each
// message; the others are looked at every few turns, and before a sleep.
//
// Its parts: TcpAcceptor, the listening socket; ReceiveMemory, where received bytes lie; GatherList, the
// bytes of one system call; a connection builds its own frames and lands what it receives (tcp_connection.h).
// Its sources: tcp_port.cc, a turn of the port; tcp_connect.cc, connections until they are up; tcp_send.cc
// and tcp_receive.cc, frames.
//
// Thread safety: the owner thread, but for Wake, HandOver, Resolved and counters.
// Locks: memory_mu_, a reader's mutex of the RegionTable; held while keys are looked up and registered memory
//   is touched.
// Ownership: the caller of OpenPort owns it. Buffers of received messages are used again at the next Poll.
// Errors: as fabric.h.
#pragma once

#include <netinet/in.h>
#include <sys/epoll.h>

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/mutex.h"
#include "common/base/random.h"
#include "common/rdma/admission.h"
#include "common/rdma/completion_queue.h"
#include "common/rdma/connection_table.h"
#include "common/rdma/fabric.h"
#include "common/rdma/fabric_ports.h"
#include "common/rdma/mailbox.h"
#include "common/rdma/port_counters.h"
#include "common/rdma/tcp/gather_list.h"
#include "common/rdma/tcp/receive_memory.h"
#include "common/rdma/tcp/region_table.h"
#include "common/rdma/tcp/tcp_acceptor.h"
#include "common/rdma/tcp/tcp_connection.h"
#include "common/rdma/tcp/tcp_fabric.h"
#include "common/rdma/wake_event.h"

namespace nova {

class TcpPort;

// The parts that all ports of one fabric share.
struct TcpShared {
  explicit TcpShared(const TcpFabricOptions& o) : options(o) {}

  const TcpFabricOptions options;
  RegionTable regions{RandomSeed()};
  Listener listener;
  FabricPorts<TcpPort> ports;
};

class TcpPort final : public Port {
 public:
  TcpPort(TcpShared* shared, const PortOptions& options);
  ~TcpPort() override;
  // Makes the epoll set; InvalidArgument, ResourceExhausted.
  Status Open();

  ConnectionId Connect(const std::string& address, const Hello& hello, Nanos deadline_ns) override;
  Status Post(ConnectionId connection, std::span<const WorkRequest> requests) override;
  size_t Poll(std::span<Completion> out) override;
  void Wait(Nanos deadline_ns) override;
  void Wake() override { wake_.Wake(); }
  void Disconnect(ConnectionId connection) override;
  uint32_t max_message_bytes() const override { return options_.max_message_bytes; }

  // Call before the port's thread runs. The first port gets the listening socket, which it owns then, the
  // others -1.
  void Serve(int listen_fd);
  // These two from any thread: another port has read the hello of a connection for this one; the host of a
  // dialled connection was looked up.
  void HandOver(std::unique_ptr<RecordStream> stream, const Handshake& hello);
  void Resolved(ConnectionId connection, const StatusOr<sockaddr_in>& at);
  FabricCounters counters() const { return counters_.Read(); }

 private:
  using State = TcpConnection::State;
  // An item for the port's thread: a connection that was handed over, or an address that was resolved.
  struct Arrival {
    std::unique_ptr<RecordStream> stream;  // handed over; null: resolved
    Handshake hello;                       // of the handed-over connection
    ConnectionId connection;               // whose address was resolved
    StatusOr<sockaddr_in> at = sockaddr_in{};
  };
  // kBlocked: the socket is full; kBroken: the connection is gone.
  enum class SendResult { kDone, kBlocked, kBroken };

  // --- tcp_port.cc

  // Frees the connection's slot and socket; nobody is told.
  void Release(TcpConnection* c);
  // The events for which epoll watches the connection's socket. If the kernel refuses, the connection's timer
  // breaks it.
  void SetInterest(TcpConnection* c, bool read, bool write);
  // Ends a connection: completes its requests (kFlushed), tells the owner, and closes the socket, or with
  // `linger` shuts it down and waits up to a second until the peer has read everything. Fine for one that has
  // ended.
  void Break(TcpConnection* c, std::string_view reason, bool linger = false);
  void BreakMalformed(TcpConnection* c, std::string_view reason);  // Break, counted as a protocol error
  // One turn: arrivals, sockets, timers, answers.
  void Turn();
  // An event of epoll; `id` names a connection or a k...Event.
  void HandleEvent(uint64_t id, uint32_t events);
  // Reads the connection alone_; false: all sockets are to be looked at.
  bool ReadAlone();
  // Breaks connections whose time is over, accepts again.
  void RunTimers();

  // --- tcp_connect.cc

  // Takes the items that HandOver and Resolved left.
  void TakeArrivals();
  // Dials the address, or breaks the connection with the lookup's error.
  void StartConnect(TcpConnection* c, const StatusOr<sockaddr_in>& at);
  // The socket's connect() has ended: sends the hello, or breaks.
  void Connected(TcpConnection* c);
  // Reads on until the peer's handshake is whole.
  void ReadHandshake(TcpConnection* c);
  // The peer's handshake is whole: a welcome brings the connection up, a hello goes on here or at another
  // port.
  void HandleHandshake(TcpConnection* c, const Handshake& h);
  // Judges a hello (Admission), and brings it up or refuses.
  void FinishAccept(TcpConnection* c, const Handshake& h);
  // The connection is usable; tells the owner.
  void Up(TcpConnection* c);
  // A connection that waits for its hello.
  TcpConnection* AddAccepted(std::unique_ptr<RecordStream> stream);
  // Takes connections from the kernel's queue, a few each turn.
  void Accept();

  // --- tcp_send.cc

  // Builds frames and sends them until nothing is left or the socket is full; then epoll tells when to go on.
  void Flush(TcpConnection* c);
  SendResult SendFrames(TcpConnection* c);  // sends frames by one system call
  // Fills gather_ with at most a chunk of the frames; *bytes is its size. False: the connection is gone.
  bool Gather(TcpConnection* c, size_t* bytes) ABSL_EXCLUSIVE_LOCKS_REQUIRED(memory_mu_);
  // The region of a peer's READ was revoked since it was asked for: replaces frame `index` by a NAK. False:
  // its data has begun to go out, so the connection is gone.
  bool RefuseRead(TcpConnection* c, uint64_t index) ABSL_EXCLUSIVE_LOCKS_REQUIRED(memory_mu_);
  void CompleteHead(TcpConnection* c, CompletionStatus status);  // the oldest request has ended
  // Completes requests at the front that were never sent.
  void DropFailedHeads(TcpConnection* c);
  // Completes the requests that the peer has executed. False: the count is not possible, or a READ lacks
  // data.
  bool HandleAcknowledgement(TcpConnection* c, uint64_t acknowledged);
  void WantFlush(TcpConnection* c);  // Flush at the end of this turn
  // Sends acknowledgements that found nothing to ride on.
  void FlushOwed();

  // --- tcp_receive.cc

  // Reads the bytes that the socket has, a few times. True: there was something, or the connection is gone.
  bool ReadFrames(TcpConnection* c);
  // Takes the bytes [p, end) of a slab as frames. False: the connection failed or is gone.
  bool Consume(TcpConnection* c, const std::byte* p, const std::byte* end)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(memory_mu_);
  // A header is whole: checks it, and where its payload goes. False: as Consume.
  bool BeginFrame(TcpConnection* c) ABSL_EXCLUSIVE_LOCKS_REQUIRED(memory_mu_);
  // The payload is in place: counts and tells the owner.
  void EndFrame(TcpConnection* c) ABSL_EXCLUSIVE_LOCKS_REQUIRED(memory_mu_);
  // After a revocation looks again at the memory in which the frame lands. False: as Consume.
  bool CheckLanding(TcpConnection* c) ABSL_EXCLUSIVE_LOCKS_REQUIRED(memory_mu_);
  // A SEND is whole; its acknowledgement may ride on an answer.
  void Received(TcpConnection* c, std::span<const std::byte> message);
  // A peer's request is not allowed: it is told (NAK), and nothing more of it is read.
  void FailCheck(TcpConnection* c);

  static constexpr size_t kMaxChunkBytes = 512 * 1024;     // of registered memory touched under one lock
  static constexpr int kReadsPerTurn = 8;                  // system calls for one connection
  static constexpr Nanos kFailingNs = 500 * kMillisecond;  // time for a NAK to go out
  static constexpr uint64_t kWakeEvent = 0;                // events' names; ids of connections are larger
  static constexpr uint64_t kListenEvent = 1;

  TcpShared* const shared_;
  RegionTable* const regions_;
  const PortOptions options_;
  int epoll_fd_ = -1;  // -1: not open
  TcpAcceptor acceptor_;
  size_t lingering_ = 0;  // connections in kLingering; bounded

  Mutex memory_mu_;  // registered in *regions_; see the head of this file

  ConnectionTable<TcpConnection> connections_;
  Admission admission_;
  CompletionQueue queue_;
  PortCounters counters_;
  Mailbox<Arrival> arrivals_;
  WakeEvent wake_;

  // Connections with acknowledgements or answers due at the end of the turn.
  std::vector<ConnectionId> flush_;
  std::vector<ConnectionId> owed_;   // connections with acknowledgements that may wait for a frame to ride on
  std::vector<epoll_event> events_;  // of the last epoll_wait
  int ready_events_ = 0;             // of events_, from a Wait: not handled yet
  uint32_t turns_ = 0;               // with several events
  ConnectionId alone_;  // the only connection that had something when all were looked at; 0: none, or several
  uint32_t turns_alone_ = 0;  // turns since then
  GatherList gather_;         // the bytes that SendFrames sends
  ReceiveMemory memory_;
  bool slab_referenced_ = false;  // the last bytes that were read hold a message that was handed out in place
};

}  // namespace nova
