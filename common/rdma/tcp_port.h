// TcpPort: one epoll set and its connections; the NIC of one xchg thread. Internal to the tcp fabric.
//
// Incoming bytes go into a slab shared by all connections, or, of a long payload, straight to where they
// belong. Outgoing frames are built from the posted pieces and never copied: sendmsg takes them from
// registered memory. Both touch registered memory only under memory_mu_, in chunks of at most kMaxChunkBytes,
// so that a revocation waits for one chunk (region_table.h).
//
// Thread safety: the owner thread, but Wake, HandOver, Resolved and counters.
// Ownership:     by the caller of OpenPort.
// Errors:        as fabric.h.
#pragma once

#include <netinet/in.h>
#include <sys/epoll.h>

#include <atomic>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "common/base/mutex.h"
#include "common/rdma/fabric.h"
#include "common/rdma/frame.h"
#include "common/rdma/handshake.h"
#include "common/rdma/record_stream.h"
#include "common/rdma/region_table.h"
#include "common/rdma/ring.h"
#include "common/rdma/tcp_fabric.h"

namespace nova {

class TcpPort;

// What ports of one fabric share.
class TcpPortOwner {
 public:
  virtual ~TcpPortOwner() = default;
  virtual RegionTable* regions() = 0;
  virtual const TcpFabricOptions& options() const = 0;
  // Looks `host` up on another thread; the answer comes back through TcpPort::Resolved.
  virtual void Resolve(const std::string& host, TcpPort* port, ConnectionId connection) = 0;
  // Gives the connection to the port that serves its index; false when that port is `from` or gone.
  virtual bool HandOver(TcpPort* from, std::unique_ptr<RecordStream>& stream, const Handshake& hello) = 0;
  virtual void PortGone(TcpPort* port, const FabricCounters& last) = 0;
};

// What a listening fabric says and asks. Set before the ports' threads run.
struct TcpListener {
  Hello self;
  AcceptCheck check;
  size_t port_count = 1;
};

class TcpPort final : public Port {
 public:
  TcpPort(TcpPortOwner* owner, const PortOptions& options);
  ~TcpPort() override;
  Status Open();

  ConnectionId Connect(const std::string& address, const Hello& hello, Nanos deadline_ns) override;
  Status Post(ConnectionId connection, std::span<const WorkRequest> requests) override;
  size_t Poll(std::span<Completion> out) override;
  void Wait(Nanos deadline_ns) override;
  void Wake() override;
  void Disconnect(ConnectionId connection) override;
  uint32_t max_message_bytes() const override { return options_.max_message_bytes; }

  // Before the port's thread runs. The first port also gets the socket.
  void Serve(const TcpListener* listener, int listen_fd);
  // Any thread.
  void HandOver(std::unique_ptr<RecordStream> stream, const Handshake& hello);
  void Resolved(ConnectionId connection, const StatusOr<in_addr>& host);
  FabricCounters counters() const;

 private:
  enum class State : uint8_t {
    kResolving,
    kConnecting,
    kAwaitWelcome,
    kAwaitHello,
    kUp,
    kFailing,    // a check failed: the NAK is on its way out, nothing is read any more
    kLingering,  // dead for the owner; the peer is left time to read what was sent last
    kDead,
  };
  struct Pending {
    WorkRequest request;
    uint32_t length = 0;
    uint32_t received = 0;  // of a READ
    bool failed = false;    // locally: never sent, completes in its turn
  };
  struct Response {
    uint64_t sequence = 0;  // of the peer's request
    uint64_t address = 0;
    uint32_t rkey = 0;
    uint32_t remaining = 0;
    bool nak = false;
  };
  struct OutFrame {
    enum Source : uint8_t { kControl, kRequest, kReadData };
    FrameHeader header;
    Source source = kControl;
    bool ends_request = false;
    uint32_t payload = 0;   // bytes after the header
    uint32_t rkey = 0;      // of kReadData
    uint64_t position = 0;  // ring index of a request; address of kReadData
    uint64_t offset = 0;    // in the request; number of the READ that kReadData answers
    uint64_t sent = 0;      // header and payload
    uint64_t size() const { return sizeof(FrameHeader) + payload; }
  };
  struct Connection;
  struct Arrival {
    std::unique_ptr<RecordStream> stream;  // handed over, or
    Handshake hello;
    ConnectionId connection;  // resolved
    StatusOr<in_addr> host = in_addr{};
  };
  struct AtomicCounters {
    std::atomic<int64_t> connections{0};
    std::atomic<int64_t> pending_requests{0};
    std::atomic<uint64_t> bytes_sent{0};
    std::atomic<uint64_t> bytes_written{0};
    std::atomic<uint64_t> bytes_read{0};
    std::atomic<uint64_t> protocol_errors{0};
    std::atomic<uint64_t> access_errors{0};
  };
  enum class WakeState : int { kRunning, kSleeping, kWoken };
  enum class SendResult { kDone, kBlocked, kBroken };

  // Connections
  Connection* Add(State state, std::unique_ptr<RecordStream> stream);
  Connection* Find(ConnectionId id) const;
  void Release(Connection* c);
  void SetInterest(Connection* c, bool read, bool write);
  void SetTimer(Connection* c, Nanos when_ns);
  void Break(Connection* c, std::string_view reason, bool linger = false);
  void BreakMalformed(Connection* c, std::string_view reason);

  // Handshake
  void StartConnect(Connection* c, in_addr host);
  void Connected(Connection* c);
  bool SendHandshake(Connection* c, const std::string& bytes);
  void ReadHandshake(Connection* c);
  void HandleHandshake(Connection* c, const Handshake& h);
  void FinishAccept(Connection* c, const Handshake& h);
  void Refuse(Connection* c, std::string_view reason);
  void Up(Connection* c);
  void Accept();
  void PauseAccepting(Nanos until_ns);
  void ResumeAccepting();

  // Sending
  void Append(Connection* c, const WorkRequest& request) ABSL_EXCLUSIVE_LOCKS_REQUIRED(memory_mu_);
  bool PiecesAllowed(const WorkRequest& request) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(memory_mu_);
  void Flush(Connection* c);
  void BuildFrames(Connection* c);
  bool BuildResponseFrame(Connection* c);
  bool BuildRequestFrame(Connection* c);
  OutFrame& PushFrame(Connection* c, FrameType type, OutFrame::Source source);
  SendResult SendFrames(Connection* c);
  bool CheckOutgoing(Connection* c) ABSL_EXCLUSIVE_LOCKS_REQUIRED(memory_mu_);
  bool Gather(Connection* c, size_t* bytes) ABSL_EXCLUSIVE_LOCKS_REQUIRED(memory_mu_);
  void GatherFrame(Connection* c, const OutFrame& frame, size_t* budget)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(memory_mu_);
  bool RefuseRead(Connection* c, uint64_t index) ABSL_EXCLUSIVE_LOCKS_REQUIRED(memory_mu_);
  void FrameGone(Connection* c);
  uint64_t Acknowledgement(const Connection* c) const;
  void WantFlush(Connection* c);
  void FlushOwed();

  // Receiving
  void ReadFrames(Connection* c);
  bool Consume(Connection* c, const std::byte* p, const std::byte* end)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(memory_mu_);
  bool BeginFrame(Connection* c) ABSL_EXCLUSIVE_LOCKS_REQUIRED(memory_mu_);
  void Land(Connection* c, const std::byte* p, size_t n) ABSL_EXCLUSIVE_LOCKS_REQUIRED(memory_mu_);
  void EndFrame(Connection* c) ABSL_EXCLUSIVE_LOCKS_REQUIRED(memory_mu_);
  bool CheckLanding(Connection* c) ABSL_EXCLUSIVE_LOCKS_REQUIRED(memory_mu_);
  std::span<std::byte> DirectTarget(Connection* c) ABSL_EXCLUSIVE_LOCKS_REQUIRED(memory_mu_);
  void Advance(Connection* c, size_t n);
  bool HandleAcknowledgement(Connection* c, uint64_t acknowledged);
  void CompleteHead(Connection* c, CompletionStatus status);
  void DropFailedHeads(Connection* c);
  void FailCheck(Connection* c);
  std::unique_ptr<std::byte[]> TakeBlock();

  // A round
  void Recycle();
  void Round();
  void TakeArrivals();
  void HandleEvent(uint64_t id, uint32_t events);
  void RunTimers();
  void DrainWakeFd();
  bool HaveArrivals() const { return have_arrivals_.load(std::memory_order_acquire); }

  TcpPortOwner* const owner_;
  RegionTable* const regions_;
  const PortOptions options_;
  const TcpListener* listener_ = nullptr;
  int epoll_fd_ = -1;
  int wake_fd_ = -1;
  int listen_fd_ = -1;
  bool accepting_ = false;
  Nanos accept_again_ns_ = kNever;
  size_t handshakes_ = 0;
  size_t lingering_ = 0;

  Mutex memory_mu_;  // registered in *regions_

  std::vector<std::unique_ptr<Connection>> slots_;
  std::vector<uint32_t> free_slots_;
  uint64_t next_serial_ = 1;
  std::vector<std::unique_ptr<Connection>> graveyard_;  // completions still point into them
  using PeerKey = std::tuple<Role, std::string, uint16_t>;
  std::map<PeerKey, ConnectionId> accepted_;  // F3
  std::multimap<Nanos, ConnectionId> timers_;

  std::vector<Completion> queue_;
  size_t queue_head_ = 0;
  std::vector<ConnectionId> flush_;  // acknowledgements and answers due at the end of the round
  std::vector<ConnectionId> owed_;   // acknowledgements that may wait for something to ride on
  std::vector<epoll_event> events_;
  int ready_events_ = 0;
  std::vector<iovec> iov_;

  std::vector<std::unique_ptr<std::byte[]>> slabs_;
  size_t slab_ = 0;
  size_t slab_used_ = 0;
  bool slab_referenced_ = false;
  std::vector<std::unique_ptr<std::byte[]>> free_blocks_;
  std::vector<std::unique_ptr<std::byte[]>> used_blocks_;

  std::atomic<WakeState> wake_{WakeState::kRunning};
  std::atomic<bool> have_arrivals_{false};
  Mutex arrivals_mu_;
  std::vector<Arrival> arrivals_ ABSL_GUARDED_BY(arrivals_mu_);
  AtomicCounters counters_;
};

}  // namespace nova
