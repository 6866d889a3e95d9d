// VerbsPort: the queues of one xchg thread and its connections. Internal to the verbs fabric.
//
// It has a completion queue for all connections (VerbsCompletions); a shared receive queue of buffers, which
// are handed out where they lie and posted again at the next Poll (VerbsBuffers); and a channel of connection
// events, looked at before a sleep and every kSlowNs. Two limits keep the completion queue from overflowing:
// requests in one queue pair, and in all of them together; requests beyond that wait in order.
//
// The id of a completion carries the connection's tag and the request's ring index. Requests without a
// completion of their own end with the next one that has one, or that failed.
//
// Its sources: verbs_port.cc, set-up and a turn of the port; verbs_connect.cc, connections until they are up;
// verbs_requests.cc, the data path.
//
// Thread safety: the owner thread, but for Wake, Resolved, Failed, TakeOver and counters.
// Ownership: the caller of OpenPort owns it. It owns its queues and buffers.
// Errors: as fabric.h.
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
#include "common/rdma/verbs/verbs_buffers.h"
#include "common/rdma/verbs/verbs_completions.h"
#include "common/rdma/verbs/verbs_connection.h"
#include "common/rdma/verbs/verbs_fabric.h"
#include "common/rdma/verbs/verbs_send_chain.h"
#include "common/rdma/wake_event.h"

namespace nova {

class VerbsPort;

// The parts that all ports of one fabric share. All methods from any thread.
class VerbsPortOwner {
 public:
  virtual ~VerbsPortOwner() = default;
  virtual const VerbsFabricOptions& options() const = 0;
  virtual FabricPorts<VerbsPort>* ports() = 0;
  virtual ibv_context* context() = 0;                   // the open device
  virtual ibv_pd* pd() = 0;                             // protection domain of all regions
  virtual const ibv_device_attr& limits() const = 0;    // of the device
  virtual bool IsOurs(const rdma_cm_id* cm) const = 0;  // it is bound to our device and port
  // The source address to dial from; false: any.
  virtual bool source(sockaddr_in* from) const = 0;
  // Brings a copy of the registered regions up to date; cheap if nothing changed since *version.
  virtual void RefreshRegions(uint64_t* version, KeyTable* regions) = 0;
  // Null: errno says why. `port` is told of its asynchronous errors (Failed).
  virtual ibv_qp* CreateQueuePair(ibv_qp_init_attr* attributes, VerbsPort* port) = 0;
  // Waits until nothing of it is under way.
  virtual void DestroyQueuePair(ibv_qp* qp) = 0;
  // The fabric itself moved it to its error state.
  virtual bool WasBrokenByUs(const ibv_qp* qp) const = 0;
  // Hands asynchronous events of the device to the ports they concern.
  virtual void DrainAsyncEvents() = 0;
  // Destroys the id on another thread, for its disconnection may take as long as the peer takes to answer.
  virtual void Discard(rdma_cm_id* cm) = 0;
  // Returns when every id discarded so far is destroyed.
  virtual void FinishDiscarding() = 0;
};

class VerbsPort final : public Port {
 public:
  VerbsPort(VerbsPortOwner* owner, const PortOptions& options);
  ~VerbsPort() override;
  // Makes queues and buffers; ResourceExhausted: the device's or the process's bounds.
  Status Open();

  ConnectionId Connect(const std::string& address, const Hello& hello, Nanos deadline_ns) override;
  Status Post(ConnectionId connection, std::span<const WorkRequest> requests) override;
  size_t Poll(std::span<Completion> out) override;
  void Wait(Nanos deadline_ns) override;
  void Wake() override { wake_.Wake(); }
  void Disconnect(ConnectionId connection) override;
  uint32_t max_message_bytes() const override { return options_.max_message_bytes; }

  // Call before the port's thread runs. The first port gets the listening id, which it owns then, the others
  // null.
  void Serve(const Listener* listener, rdma_cm_id* listening);
  rdma_event_channel* channel() { return channel_; }  // of connection events
  // These two from any thread: the host of a dialled connection was looked up; a queue pair got an
  // asynchronous error.
  void Resolved(ConnectionId connection, const StatusOr<sockaddr_in>& at);
  void Failed(uint32_t qp_number, bool refused_peer, std::string reason);
  FabricCounters counters() const { return counters_.Read(); }

 private:
  using State = VerbsConnection::State;
  // A peer's connection request.
  struct ConnectRequest {
    rdma_cm_id* cm = nullptr;
    ConnectData data;
    rdma_conn_param param{};
  };
  // An item for the port's thread; `kind` says which fields hold.
  struct Arrival {
    enum Kind : uint8_t { kRequest, kResolved, kFailed } kind = kResolved;
    ConnectRequest request;
    ConnectionId connection;  // of kResolved
    StatusOr<sockaddr_in> at = sockaddr_in{};
    uint32_t qp_number = 0;  // of kFailed
    bool refused_peer = false;
    std::string reason;
  };

  // How many requests fit into queue pairs.
  struct SendRoom {
    uint32_t of_queue_pair = 0;         // requests in one queue pair, at most
    uint32_t of_all = 0;                // in all of them together, at most
    uint32_t taken = 0;                 // requests in queue pairs
    std::vector<ConnectionId> starved;  // connections with requests to hand over when all was taken
    bool none() const { return taken >= of_all; }
  };

  // --- verbs_port.cc

  // Ends a connection: destroys its queue pair, completes its requests (kFlushed) and tells the owner. Fine
  // for one that has ended.
  void Break(VerbsConnection* c, std::string_view reason);
  void BreakMalformed(VerbsConnection* c, std::string_view reason);  // Break, counted as a protocol error
  // The owner took all completions: buffers they pointed into are posted again.
  void Recycle();
  // One turn: completions, arrivals, now and then the rest, waiting requests.
  void Turn(bool before_sleep);
  // Everything but the completion queue: events, scan, timers.
  void SlowTurn(Nanos now_ns);
  // Breaks connections without progress (H28), asks idle ones for a sign of life.
  void Scan(Nanos now_ns);
  // Breaks connections whose time is over.
  void RunTimers(Nanos now_ns);

  // --- verbs_connect.cc

  // Takes a connection request that another port got. Any thread.
  bool TakeOver(const ConnectRequest& request);
  // Takes the items that TakeOver, Resolved and Failed left.
  void TakeArrivals();
  VerbsConnection* AddConnection(State state);  // a connection with an id and a tag
  // Dials the address, or breaks the connection with the lookup's error.
  void StartConnect(VerbsConnection* c, const StatusOr<sockaddr_in>& at);
  // Makes a queue pair in INIT; librdmacm only carries its number. False: the connection is broken.
  bool MakeQueuePair(VerbsConnection* c);
  // Brings the queue pair to RTS, with so many READs under way in each direction. False: the connection is
  // broken.
  bool ReadyToReceiveAndSend(VerbsConnection* c, uint8_t responder_resources, uint8_t initiator_depth);
  // The private data of our requests and answers.
  std::string OurConnectData() const;
  // Accepts a peer's request, or has it wait; takes over its id.
  void AcceptRequest(const ConnectRequest& request);
  // Sends a handshake from a block of its own; false: none is free, or not taken.
  bool SendHandshake(VerbsConnection* c, const std::string& bytes);
  // The peer's handshake is whole: a welcome brings the connection up, a hello goes on with FinishAccept.
  void HandleHandshake(VerbsConnection* c, std::string_view bytes);
  // Judges a hello (Admission), and brings it up or refuses.
  void FinishAccept(VerbsConnection* c, const Handshake& h);
  void Refuse(VerbsConnection* c, std::string_view reason);  // sends the reason, then breaks
  // The connection is usable; tells the owner.
  void Up(VerbsConnection* c);
  void HandleConnectionEvents();  // takes all events of librdmacm
  // The next step of a connection, or its end. `of`: the one that the event's id was made for.
  void HandleConnectionEvent(const rdma_cm_event& event, ConnectionId of, std::string_view private_data);
  // The peer is gone; takes the messages that it sent before.
  void Disconnected(VerbsConnection* c);

  // --- verbs_requests.cc

  // Hands requests to the queue pair, as far as there is room; completions make more.
  void Push(VerbsConnection* c);
  // Puts the next requests into chain_, as many as there is room for; none: there are none, or no room.
  void BuildChain(VerbsConnection* c);
  void CompleteHead(VerbsConnection* c, CompletionStatus status);  // the oldest request has ended
  // Completes requests at the front that were never sent.
  void DropFailedHeads(VerbsConnection* c);
  void HandleCompletions();  // handles those that were fetched
  // Fetches and handles until there is none.
  void DrainCompletions();
  // Ends requests up to the one it names.
  void HandleCompletion(const ibv_wc& wc);
  // A message, an immediate, or a handshake.
  void HandleReceive(const ibv_wc& wc);
  // The oldest request failed: completes it and breaks the connection.
  void RequestFailed(VerbsConnection* c, ibv_wc_status status);

  // In a work request's id: it is a handshake block. Ids without such a bit are a connection's
  // tag << 32 | ring index.
  static constexpr uint64_t kHandshakeTag = uint64_t{1} << 62;
  static constexpr uint32_t kTagMask = (1u << 30) - 1;
  // Accepted connections not yet up; diallers' handshakes need blocks too.
  static constexpr size_t kMaxHandshakes = VerbsBuffers::kHandshakeBlocks / 2;
  static constexpr uint32_t kNoBlock = VerbsConnection::kNoBlock;

  VerbsPortOwner* const owner_;
  const PortOptions options_;
  const Listener* listener_ = nullptr;  // null: nobody listens
  rdma_cm_id* listening_ = nullptr;     // of the first port; else null
  rdma_event_channel* channel_ = nullptr;
  int epoll_fd_ = -1;
  // Destroyed after all queue pairs.
  VerbsBuffers buffers_;
  VerbsCompletions completions_;
  SendRoom room_;
  VerbsSendChain chain_;
  size_t handshakes_ = 0;  // accepted connections that are not up

  ConnectionTable<VerbsConnection> connections_;
  absl::flat_hash_map<uint32_t, VerbsConnection*> by_queue_pair_;  // by the queue pair's number
  Admission admission_;
  CompletionQueue queue_;
  PortCounters counters_;
  Mailbox<Arrival> arrivals_;
  WakeEvent wake_;
  std::vector<ConnectRequest> waiting_;  // connection requests beyond kMaxHandshakes

  uint64_t regions_version_ = 0;  // of regions_
  KeyTable regions_;              // a copy of the fabric's regions

  Nanos turn_ns_ = 0;  // when this turn began
  Nanos slow_ns_ = 0;  // when the last SlowTurn was
  Nanos scan_ns_ = 0;  // when the next Scan is due
};

}  // namespace nova
