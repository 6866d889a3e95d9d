// VerbsPort: the queues of one xchg thread and its connections. Internal to the verbs fabric.
//
// A completion queue for all; a shared receive queue of buffers that are handed out where they lie and posted
// again at the next Poll; a channel of connection events, looked at before a sleep and every kSlowNs. Two
// limits keep the completion queue from overflowing: requests in one queue pair, and in all of them together;
// the rest waits in order.
//
// Which request a completion means: its id carries the connection's tag and the request's ring index.
// Requests without a completion of their own end with the next that has one, or the one that failed.
//
// Its parts: verbs_port.cc set-up and a round, verbs_connect.cc connections until they are up,
// verbs_requests.cc the data path.
//
// Thread safety: the owner thread, but Wake, Resolved, Failed and counters.
// Ownership:     by the caller of OpenPort.
// Errors:        as fabric.h.
#pragma once

#include <infiniband/verbs.h>
#include <netinet/in.h>
#include <rdma/rdma_cma.h>
#include <sys/epoll.h>

#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "common/rdma/admission.h"
#include "common/rdma/completion_queue.h"
#include "common/rdma/connection_table.h"
#include "common/rdma/fabric.h"
#include "common/rdma/fabric_ports.h"
#include "common/rdma/key_table.h"
#include "common/rdma/mailbox.h"
#include "common/rdma/port_counters.h"
#include "common/rdma/verbs/connect_data.h"
#include "common/rdma/verbs/verbs_connection.h"
#include "common/rdma/verbs/verbs_fabric.h"
#include "common/rdma/wake_event.h"

namespace nova {

class VerbsPort;

// What ports of one fabric share.
class VerbsPortOwner {
 public:
  virtual ~VerbsPortOwner() = default;
  virtual const VerbsFabricOptions& options() const = 0;
  virtual FabricPorts<VerbsPort>* ports() = 0;
  virtual ibv_context* context() = 0;
  virtual ibv_pd* pd() = 0;
  virtual const ibv_device_attr& limits() const = 0;
  virtual bool IsOurs(const rdma_cm_id* cm) const = 0;  // bound to our device and port
  // The source address to dial from; false: any.
  virtual bool source(sockaddr_in* from) const = 0;
  // Brings a copy of the registered regions up to date; cheap when nothing changed.
  virtual void RefreshRegions(uint64_t* version, KeyTable* regions) = 0;
  virtual ibv_qp* CreateQueuePair(ibv_qp_init_attr* attributes, VerbsPort* port) = 0;
  virtual void DestroyQueuePair(ibv_qp* qp) = 0;
  virtual bool WasBrokenByUs(const ibv_qp* qp) const = 0;
  virtual void DrainAsyncEvents() = 0;
  // Destroys the id on another thread: its disconnection may take the peer's time to answer.
  virtual void Discard(rdma_cm_id* cm) = 0;
  virtual void FinishDiscarding() = 0;  // returns when every id discarded so far is destroyed
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
  void Wake() override { wake_.Wake(); }
  void Disconnect(ConnectionId connection) override;
  uint32_t max_message_bytes() const override { return options_.max_message_bytes; }

  // Before the port's thread runs. The first port gets the listening id, the others null.
  void Serve(const Listener* listener, rdma_cm_id* listening);
  rdma_event_channel* channel() { return channel_; }
  // Any thread.
  void Resolved(ConnectionId connection, const StatusOr<sockaddr_in>& at);
  void Failed(uint32_t qp_number, bool refused_peer, std::string reason);
  FabricCounters counters() const { return counters_.Read(); }

 private:
  using State = VerbsConnection::State;
  struct ConnectRequest {
    rdma_cm_id* cm = nullptr;
    ConnectData data;
    rdma_conn_param param{};
  };
  struct Arrival {
    enum Kind : uint8_t { kRequest, kResolved, kFailed } kind = kResolved;
    ConnectRequest request;
    ConnectionId connection;  // resolved
    StatusOr<sockaddr_in> at = sockaddr_in{};
    uint32_t qp_number = 0;  // failed
    bool refused_peer = false;
    std::string reason;
  };

  // verbs_port.cc
  void Break(VerbsConnection* c, std::string_view reason);
  void BreakMalformed(VerbsConnection* c, std::string_view reason);
  void Recycle();
  void Round(bool before_sleep);
  void SlowRound(Nanos now_ns);
  void Scan(Nanos now_ns);
  void RunTimers(Nanos now_ns);
  std::byte* BufferOf(uint32_t index) const { return memory_ + size_t{index} * options_.max_message_bytes; }
  std::byte* HandshakeBlock(uint32_t index) const {
    return BufferOf(receive_buffers_) + size_t{index} * kMaxHandshakeBytes;
  }

  // verbs_connect.cc
  bool TakeOver(const ConnectRequest& request);  // any thread
  void TakeArrivals();
  VerbsConnection* AddConnection(State state);
  void StartConnect(VerbsConnection* c, const StatusOr<sockaddr_in>& at);
  bool MakeQueuePair(VerbsConnection* c);
  bool ReadyToReceiveAndSend(VerbsConnection* c, uint8_t responder_resources, uint8_t initiator_depth);
  std::string OurConnectData() const;
  void AcceptRequest(const ConnectRequest& request);
  bool SendHandshake(VerbsConnection* c, const std::string& bytes);
  void HandleHandshake(VerbsConnection* c, std::string_view bytes);
  void FinishAccept(VerbsConnection* c, const Handshake& h);
  void Refuse(VerbsConnection* c, std::string_view reason);
  void Up(VerbsConnection* c);
  void HandleConnectionEvents();
  void HandleConnectionEvent(const rdma_cm_event& event, std::string_view private_data);
  void Disconnected(VerbsConnection* c);

  // verbs_requests.cc
  void Push(VerbsConnection* c);
  size_t BuildChain(VerbsConnection* c);
  void CompleteHead(VerbsConnection* c, CompletionStatus status);
  void DropFailedHeads(VerbsConnection* c);
  bool FetchCompletions();
  void HandleCompletions();
  void DrainCompletions();
  void HandleCompletion(const ibv_wc& wc);
  void HandleReceive(const ibv_wc& wc);
  void RequestFailed(VerbsConnection* c, ibv_wc_status status);
  void PostReceives(std::vector<uint32_t>* buffers);

  static constexpr uint64_t kReceiveTag = uint64_t{1} << 63;  // of a work request id: a receive buffer
  // a handshake block; else tag << 32 | ring index
  static constexpr uint64_t kHandshakeTag = uint64_t{1} << 62;
  static constexpr uint32_t kTagMask = (1u << 30) - 1;
  static constexpr size_t kChain = 64;  // requests under one doorbell
  static constexpr uint32_t kHandshakeBlocks = 256;
  // accepted and not yet up; the dialler's need blocks too
  static constexpr size_t kMaxHandshakes = kHandshakeBlocks / 2;
  static constexpr uint32_t kNoBlock = VerbsConnection::kNoBlock;

  VerbsPortOwner* const owner_;
  const PortOptions options_;
  const Listener* listener_ = nullptr;
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
  uint32_t receive_buffers_ = 0;
  uint32_t send_queue_ = 0;
  uint32_t max_inline_ = 0;
  uint32_t completion_room_ = 0;  // requests in queue pairs, all together
  uint32_t in_queue_pairs_ = 0;
  uint32_t events_to_acknowledge_ = 0;
  bool armed_ = false;  // the completion queue will ring
  size_t handshakes_ = 0;

  ConnectionTable<VerbsConnection> connections_;
  absl::flat_hash_map<uint32_t, VerbsConnection*> by_queue_pair_;
  Admission admission_;
  CompletionQueue queue_;
  PortCounters counters_;
  Mailbox<Arrival> arrivals_;
  WakeEvent wake_;
  std::vector<ConnectRequest> waiting_;  // beyond kMaxHandshakes
  std::vector<ConnectionId> starved_;    // have requests to hand over, and the completion queue had no room

  uint64_t regions_version_ = 0;
  KeyTable regions_;

  std::vector<ibv_wc> fetched_;
  size_t fetched_head_ = 0;
  size_t fetched_tail_ = 0;
  std::vector<uint32_t> held_;  // receive buffers that completions point into
  std::vector<uint32_t> repost_;
  std::vector<uint32_t> free_handshake_blocks_;
  std::vector<ibv_send_wr> chain_;
  std::vector<ibv_sge> chain_pieces_;
  std::vector<ibv_recv_wr> receive_chain_;
  std::vector<ibv_sge> receive_pieces_;
  Nanos round_ns_ = 0;  // when this round began
  Nanos slow_ns_ = 0;
  Nanos scan_ns_ = 0;
};

}  // namespace nova
