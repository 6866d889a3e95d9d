// VerbsPort: the queues of one xchg thread and its connections. Internal to the verbs fabric.
//
// A completion queue for all; a shared receive queue of buffers that are handed out where they lie and posted again at the
// next Poll; a channel of connection events, looked at before a sleep and every kSlowNs. Two limits keep
// the completion queue from overflowing: requests in one queue pair, and in all of them together; the rest waits in order.
//
// Which request a completion means: its id carries the connection's tag and the request's ring index. Requests without a
// completion of their own end with the next that has one, or the one that failed.
//
// Thread safety: the owner thread, but Wake, TakeOver, Resolved, Failed and counters.
// Ownership:     by the caller of OpenPort.
// Errors:        as fabric.h.
#pragma once

#include <infiniband/verbs.h>
#include <netinet/in.h>
#include <rdma/rdma_cma.h>
#include <sys/epoll.h>

#include <atomic>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "common/base/mutex.h"
#include "common/rdma/connect_data.h"
#include "common/rdma/fabric.h"
#include "common/rdma/handshake.h"
#include "common/rdma/ring.h"
#include "common/rdma/verbs_fabric.h"

namespace nova {

class VerbsPort;
using VerbsRegions = absl::flat_hash_map<uint32_t, MemoryRegion>;  // by lkey

// What ports of one fabric share.
class VerbsPortOwner {
 public:
  virtual ~VerbsPortOwner() = default;
  virtual const VerbsFabricOptions& options() const = 0;
  virtual ibv_context* context() = 0;
  virtual ibv_pd* pd() = 0;
  virtual const ibv_device_attr& limits() const = 0;
  virtual bool IsOurs(const rdma_cm_id* cm) const = 0;  // bound to our device and port
  // The source address to dial from; false: any.
  virtual bool source(sockaddr_in* from) const = 0;
  // Brings a copy of the registered regions up to date; cheap when nothing changed.
  virtual void RefreshRegions(uint64_t* version, VerbsRegions* regions) = 0;
  virtual ibv_qp* CreateQueuePair(ibv_qp_init_attr* attributes, VerbsPort* port) = 0;
  virtual void DestroyQueuePair(ibv_qp* qp) = 0;
  virtual bool WasBrokenByUs(const ibv_qp* qp) const = 0;
  virtual void DrainAsyncEvents() = 0;
  virtual void Resolve(const std::string& host, VerbsPort* port, ConnectionId connection) = 0;
  // Gives a connection request to the port that serves its index; false when that port is gone.
  virtual bool HandOver(rdma_cm_id* cm, const ConnectData& data, const rdma_conn_param& param) = 0;
  // Destroys the id on another thread: its disconnection may take the peer's time to answer.
  virtual void Discard(rdma_cm_id* cm) = 0;
  virtual void FinishDiscarding() = 0;  // returns when every id discarded so far is destroyed
  virtual void PortGone(VerbsPort* port, const FabricCounters& last) = 0;
};

// What a listening fabric says and asks. Set before the ports' threads run.
struct VerbsListener {
  Hello self;
  AcceptCheck check;
  size_t port_count = 1;
};

class VerbsPort final : public Port {
 public:
  VerbsPort(VerbsPortOwner* owner, const PortOptions& options);
  ~VerbsPort() override;
  Status Open();

  ConnectionId Connect(const std::string& address, const Hello& hello, Nanos deadline_ns) override;
  Status Post(ConnectionId connection, std::span<const WorkRequest> requests) override;
  size_t Poll(std::span<Completion> out) override;
  void Wait(Nanos deadline_ns) override;
  void Wake() override;
  void Disconnect(ConnectionId connection) override;
  uint32_t max_message_bytes() const override { return options_.max_message_bytes; }

  rdma_event_channel* channel() { return channel_; }
  // Before the port's thread runs. The first port also gets the listening id.
  void Serve(const VerbsListener* listener, rdma_cm_id* listening);
  // Any thread.
  void TakeOver(rdma_cm_id* cm, const ConnectData& data, const rdma_conn_param& param);
  void Resolved(ConnectionId connection, const StatusOr<in_addr>& host);
  void Failed(uint32_t qp_number, bool refused_peer, std::string reason);
  FabricCounters counters() const;

 private:
  enum class State : uint8_t {
    kResolving,     // the host's name
    kAddress,       // which device leads there
    kRoute,
    kConnecting,
    kAwaitWelcome,
    kAwaitHello,
    kUp,
    kRefusing,      // the refusal is on its way out
    kDead,
  };
  struct Pending {
    WorkRequest request;
    uint32_t length = 0;
    bool failed = false;    // locally: never handed to the queue pair, completes in its turn
    bool internal = false;  // a sign of life: nobody is told
  };
  struct Connection;
  struct Arrival {
    enum Kind : uint8_t { kRequest, kResolved, kFailed } kind = kResolved;
    rdma_cm_id* cm = nullptr;
    ConnectData data;
    rdma_conn_param param{};
    ConnectionId connection;
    StatusOr<in_addr> host = in_addr{};
    uint32_t qp_number = 0;
    bool refused_peer = false;
    std::string reason;
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

  // Connections
  Connection* Add(State state);
  Connection* Find(ConnectionId id) const;
  void SetTimer(Connection* c, Nanos when_ns);
  void Break(Connection* c, std::string_view reason);
  void BreakMalformed(Connection* c, std::string_view reason);

  // Connecting
  void StartConnect(Connection* c, in_addr host);
  bool MakeQueuePair(Connection* c);
  bool ReadyToReceiveAndSend(Connection* c, uint8_t responder_resources, uint8_t initiator_depth);
  void AcceptRequest(rdma_cm_id* cm, const ConnectData& data, const rdma_conn_param& param);
  bool SendHandshake(Connection* c, const std::string& bytes);
  void HandleHandshake(Connection* c, std::string_view bytes);
  void FinishAccept(Connection* c, const Handshake& h);
  void Refuse(Connection* c, std::string_view reason);
  void Up(Connection* c);
  void HandleConnectionEvents();
  void HandleConnectionEvent(const rdma_cm_event& event, std::string_view private_data);
  void Disconnected(Connection* c);

  // Requests
  bool PiecesAllowed(const WorkRequest& request) const;
  void Append(Connection* c, const WorkRequest& request);
  void Push(Connection* c);
  size_t BuildChain(Connection* c);
  void CompleteHead(Connection* c, CompletionStatus status);
  void DropFailedHeads(Connection* c);

  // Completions
  bool FetchCompletions();
  void HandleCompletions();
  void DrainCompletions();
  void HandleCompletion(const ibv_wc& wc);
  void HandleReceive(const ibv_wc& wc);
  void RequestFailed(Connection* c, ibv_wc_status status);
  void PostReceives(std::vector<uint32_t>* buffers);

  // A round
  void Recycle();
  void Round(bool before_sleep);
  void SlowRound(Nanos now_ns);
  void TakeArrivals();
  void Scan(Nanos now_ns);
  void RunTimers(Nanos now_ns);
  bool HaveArrivals() const { return have_arrivals_.load(std::memory_order_acquire); }
  std::byte* BufferOf(uint32_t index) const { return memory_ + size_t{index} * options_.max_message_bytes; }
  std::byte* HandshakeBlock(uint32_t index) const;

  VerbsPortOwner* const owner_;
  const PortOptions options_;
  const VerbsListener* listener_ = nullptr;
  rdma_cm_id* listening_ = nullptr;
  rdma_event_channel* channel_ = nullptr;
  ibv_comp_channel* completion_channel_ = nullptr;
  ibv_cq* cq_ = nullptr;
  ibv_srq* srq_ = nullptr;
  ibv_mr* memory_region_ = nullptr;  // receive buffers, then handshake blocks
  ibv_mr* cell_region_ = nullptr;    // what the peers' keep-alives read
  std::byte* memory_ = nullptr;
  size_t memory_bytes_ = 0;
  std::byte* cell_ = nullptr;
  int epoll_fd_ = -1;
  int wake_fd_ = -1;
  uint32_t receive_buffers_ = 0;
  uint32_t send_queue_ = 0;
  uint32_t max_inline_ = 0;
  uint32_t completion_room_ = 0;  // requests in queue pairs, all together
  uint32_t in_queue_pairs_ = 0;
  uint32_t events_to_acknowledge_ = 0;
  bool armed_ = false;  // the completion queue will ring
  size_t handshakes_ = 0;

  std::vector<std::unique_ptr<Connection>> slots_;
  std::vector<uint32_t> free_slots_;
  uint64_t next_serial_ = 1;
  std::vector<std::unique_ptr<Connection>> graveyard_;  // completions still point into them
  absl::flat_hash_map<uint32_t, Connection*> by_queue_pair_;
  using PeerKey = std::tuple<Role, std::string, uint16_t>;
  std::map<PeerKey, ConnectionId> accepted_;  // F3
  std::multimap<Nanos, ConnectionId> timers_;
  std::vector<Arrival> waiting_;       // connection requests beyond kMaxHandshakes
  std::vector<ConnectionId> starved_;  // have requests to hand over, and the completion queue had no room

  uint64_t regions_version_ = 0;
  VerbsRegions regions_;

  std::vector<Completion> queue_;
  size_t queue_head_ = 0;
  std::vector<ibv_wc> fetched_;
  size_t fetched_head_ = 0;
  size_t fetched_tail_ = 0;
  std::vector<uint32_t> held_;    // receive buffers that completions point into
  std::vector<uint32_t> repost_;
  std::vector<uint32_t> free_handshake_blocks_;
  std::vector<ibv_send_wr> chain_;
  std::vector<ibv_sge> chain_pieces_;
  std::vector<ibv_recv_wr> receive_chain_;
  std::vector<ibv_sge> receive_pieces_;
  Nanos round_ns_ = 0;  // when this round began
  Nanos slow_ns_ = 0;
  Nanos scan_ns_ = 0;

  std::atomic<WakeState> wake_{WakeState::kRunning};
  std::atomic<bool> have_arrivals_{false};
  Mutex arrivals_mu_;
  std::vector<Arrival> arrivals_ ABSL_GUARDED_BY(arrivals_mu_);
  AtomicCounters counters_;
};

}  // namespace nova
