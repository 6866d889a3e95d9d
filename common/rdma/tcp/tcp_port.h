// TcpPort: one epoll set and its connections; the NIC of one xchg thread. Internal to the tcp fabric.
//
// Incoming bytes go into a slab shared by all connections, or, of a long payload, straight to where they
// belong. Outgoing frames are built from the posted pieces: short ones are copied, of long ones sendmsg takes
// the bytes from registered memory. Both touch registered memory only under memory_mu_, in chunks of at most
// kMaxChunkBytes, so that a revocation waits for one chunk (region_table.h).
//
// A connection that alone has traffic is read without asking epoll first, which saves a system call a
// message; the others are looked at every few rounds, and before a sleep.
//
// Its parts: tcp_port.cc a round of the port, tcp_connect.cc connections until they are up, tcp_send.cc and
// tcp_receive.cc frames.
//
// Thread safety: the owner thread, but Wake, HandOver, Resolved and counters.
// Ownership:     by the caller of OpenPort.
// Errors:        as fabric.h.
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
#include "common/rdma/tcp/region_table.h"
#include "common/rdma/tcp/tcp_connection.h"
#include "common/rdma/tcp/tcp_fabric.h"
#include "common/rdma/wake_event.h"

namespace nova {

class TcpPort;

// What ports of one fabric share.
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
  Status Open();

  ConnectionId Connect(const std::string& address, const Hello& hello, Nanos deadline_ns) override;
  Status Post(ConnectionId connection, std::span<const WorkRequest> requests) override;
  size_t Poll(std::span<Completion> out) override;
  void Wait(Nanos deadline_ns) override;
  void Wake() override { wake_.Wake(); }
  void Disconnect(ConnectionId connection) override;
  uint32_t max_message_bytes() const override { return options_.max_message_bytes; }

  // Before the port's thread runs. The first port gets the socket, the others -1.
  void Serve(int listen_fd);
  // Any thread.
  void HandOver(std::unique_ptr<RecordStream> stream, const Handshake& hello);
  void Resolved(ConnectionId connection, const StatusOr<sockaddr_in>& at);
  FabricCounters counters() const { return counters_.Read(); }

 private:
  using State = TcpConnection::State;
  struct Arrival {
    std::unique_ptr<RecordStream> stream;  // handed over, or
    Handshake hello;
    ConnectionId connection;  // resolved
    StatusOr<sockaddr_in> at = sockaddr_in{};
  };
  enum class SendResult { kDone, kBlocked, kBroken };

  // tcp_port.cc
  void Release(TcpConnection* c);
  void SetInterest(TcpConnection* c, bool read, bool write);
  void Break(TcpConnection* c, std::string_view reason, bool linger = false);
  void BreakMalformed(TcpConnection* c, std::string_view reason);
  void Recycle();
  void Round();
  void HandleEvent(uint64_t id, uint32_t events);
  bool ReadAlone();
  void DropInput(TcpConnection* c);
  void RunTimers();

  // tcp_connect.cc
  void TakeArrivals();
  void StartConnect(TcpConnection* c, const StatusOr<sockaddr_in>& at);
  void Connected(TcpConnection* c);
  bool SendHandshake(TcpConnection* c, const std::string& bytes);
  void ReadHandshake(TcpConnection* c);
  void HandleHandshake(TcpConnection* c, const Handshake& h);
  void FinishAccept(TcpConnection* c, const Handshake& h);
  void Refuse(TcpConnection* c, std::string_view reason);
  void Up(TcpConnection* c);
  TcpConnection* AddAccepted(std::unique_ptr<RecordStream> stream);
  void Accept();
  void PauseAccepting(Nanos until_ns);
  void ResumeAccepting();

  // tcp_send.cc
  void Flush(TcpConnection* c);
  void BuildFrames(TcpConnection* c);
  bool BuildResponseFrame(TcpConnection* c);
  bool BuildRequestFrame(TcpConnection* c);
  OutFrame& PushFrame(TcpConnection* c, FrameType type, OutFrame::Source source);
  SendResult SendFrames(TcpConnection* c);
  bool CheckOutgoing(TcpConnection* c) ABSL_EXCLUSIVE_LOCKS_REQUIRED(memory_mu_);
  bool Gather(TcpConnection* c, size_t* bytes) ABSL_EXCLUSIVE_LOCKS_REQUIRED(memory_mu_);
  void GatherFrame(TcpConnection* c, const OutFrame& frame, size_t* budget)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(memory_mu_);
  bool RefuseRead(TcpConnection* c, uint64_t index) ABSL_EXCLUSIVE_LOCKS_REQUIRED(memory_mu_);
  void FrameGone(TcpConnection* c);
  void CompleteHead(TcpConnection* c, CompletionStatus status);
  void DropFailedHeads(TcpConnection* c);
  bool HandleAcknowledgement(TcpConnection* c, uint64_t acknowledged);
  void WantFlush(TcpConnection* c);
  void FlushOwed();

  // tcp_receive.cc
  bool ReadFrames(TcpConnection* c);
  bool Consume(TcpConnection* c, const std::byte* p, const std::byte* end)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(memory_mu_);
  bool BeginFrame(TcpConnection* c) ABSL_EXCLUSIVE_LOCKS_REQUIRED(memory_mu_);
  void Land(TcpConnection* c, const std::byte* p, size_t n) ABSL_EXCLUSIVE_LOCKS_REQUIRED(memory_mu_);
  void EndFrame(TcpConnection* c) ABSL_EXCLUSIVE_LOCKS_REQUIRED(memory_mu_);
  bool CheckLanding(TcpConnection* c) ABSL_EXCLUSIVE_LOCKS_REQUIRED(memory_mu_);
  std::span<std::byte> DirectTarget(TcpConnection* c) ABSL_EXCLUSIVE_LOCKS_REQUIRED(memory_mu_);
  void Advance(TcpConnection* c, size_t n);
  void Received(TcpConnection* c, std::span<const std::byte> message);
  void FailCheck(TcpConnection* c);
  std::unique_ptr<std::byte[]> TakeBlock();

  static constexpr size_t kMaxChunkBytes = 512 * 1024;
  static constexpr int kReadsPerRound = 8;
  static constexpr Nanos kFailingNs = 500 * kMillisecond;
  static constexpr uint64_t kWakeEvent = 0;  // connections' ids are larger
  static constexpr uint64_t kListenEvent = 1;

  TcpShared* const shared_;
  RegionTable* const regions_;
  const PortOptions options_;
  int epoll_fd_ = -1;
  int listen_fd_ = -1;
  bool accepting_ = false;
  Nanos accept_again_ns_ = kNever;
  size_t handshakes_ = 0;
  size_t lingering_ = 0;

  Mutex memory_mu_;  // registered in *regions_

  ConnectionTable<TcpConnection> connections_;
  Admission admission_;
  CompletionQueue queue_;
  PortCounters counters_;
  Mailbox<Arrival> arrivals_;
  WakeEvent wake_;

  std::vector<ConnectionId> flush_;  // acknowledgements and answers due at the end of the round
  std::vector<ConnectionId> owed_;   // acknowledgements that may wait for something to ride on
  std::vector<epoll_event> events_;
  int ready_events_ = 0;
  ConnectionId alone_;  // the only one that had something when all were looked at; 0: none, or several
  uint32_t rounds_alone_ = 0;
  std::vector<iovec> iov_;
  std::vector<std::byte> inlined_;  // what iov_ names of headers and short payloads; never grows

  std::vector<std::unique_ptr<std::byte[]>> slabs_;
  size_t slab_ = 0;
  size_t slab_used_ = 0;
  bool slab_referenced_ = false;
  std::vector<std::unique_ptr<std::byte[]>> free_blocks_;
  std::vector<std::unique_ptr<std::byte[]>> used_blocks_;
};

}  // namespace nova
