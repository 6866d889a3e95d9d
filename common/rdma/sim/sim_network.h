// The parts of a simulated network. Internal to the files of this folder: sim_network.cc has what travels,
// sim_port.cc the ports, sim_fabric.cc the fabrics and what a test does to the network.
//
// Thread safety: fibers of one simulation, of which one runs at a time.
// Ownership: Rep owns all but ports, which are their openers'; a connection lives as long as an end or an
// event of it.
// Errors: as fabric.h.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/base/random.h"
#include "common/base/simulation.h"
#include "common/base/thread.h"
#include "common/rdma/admission.h"
#include "common/rdma/key_table.h"
#include "common/rdma/pending_request.h"
#include "common/rdma/sim/sim_fabric.h"

namespace nova {

class SimPort;

// One process.
struct SimNode {
  std::string name;
  bool alive = true;
  bool paused = false;
  std::unique_ptr<KeyTable> keys;
  std::vector<SimPort*> ports;
  FabricCounters counters;
};

// A process that is dialled at an address.
struct SimListener : Listener {
  std::shared_ptr<SimNode> node;
  std::vector<SimPort*> ports;  // null: it was closed
};

struct SimMessage {
  enum class Kind { kRequest, kReadData, kAck, kNak, kWelcome, kRefusal, kClosed };
  static SimMessage Of(Kind kind, std::string_view text = {});

  Kind kind = Kind::kAck;
  WorkRequest request;       // of kRequest
  uint32_t length = 0;       // of kRequest: bytes of its pieces
  std::string data;          // of SEND, WRITE, kReadData; text of kRefusal, kClosed
  Hello hello;               // of kWelcome
  uint32_t max_message = 0;  // of kWelcome
  Nanos due_ns = 0;          // when it arrives
  bool begun = false;        // `steps` are planned
  // Ranges of `data`, as [begin, end), that are still to land; the last one lands next.
  std::vector<std::pair<uint32_t, uint32_t>> steps;
};

// One side of a connection.
struct SimEnd {
  enum class State { kConnecting, kUp, kDown };
  SimPort* port = nullptr;  // null: the port is gone, or was never there
  std::shared_ptr<SimNode> node;
  ConnectionId id;
  State state = State::kConnecting;
  bool accepted = false;
  Hello hello;                         // of the other side
  uint32_t peer_max_message = 0;       // bytes
  std::deque<PendingRequest> pending;  // posted and not completed, oldest first
};

// One direction: from ends[i] to ends[1 - i].
struct SimWire {
  std::deque<WorkRequest> to_transmit;  // posted; their bytes are not read yet
  std::deque<SimMessage> messages;      // on their way, in order
  Nanos last_transmit_ns = 0;           // when the last of to_transmit leaves
  Nanos last_due_ns = 0;                // when the last of messages arrives
  bool closed = false;                  // what is sent now goes nowhere
};

struct SimConnection {
  SimEnd ends[2];  // 0 dialled
  SimWire wires[2];
  std::string address;  // that was dialled
  Hello dialler_hello;
  uint32_t dialler_max_message = 0;  // bytes
  uint64_t number = 0;               // for the trace
};
using SimConnectionPtr = std::shared_ptr<SimConnection>;

// `from` of its methods is the side of a connection that sends, 0 or 1.
struct SimNetwork::Rep {
  explicit Rep(const SimNetworkOptions& o) : options(o), sim(Simulation::Current()), random(RandomSeed()) {}

  SimNetworkOptions options;
  Simulation* const sim;
  Random random;
  std::map<std::string, std::shared_ptr<SimNode>> nodes;
  std::map<std::string, SimListener> listeners;                        // by address
  std::set<std::pair<std::string, std::string>> cuts;                  // from one node to another
  std::map<std::pair<Nanos, uint64_t>, std::function<void()>> events;  // by time, then in the order they came
  std::vector<std::function<void()>> held;                             // until a cut heals or a node goes on
  uint64_t next_event = 0;
  uint64_t next_connection = 1;
  uint64_t next_port = 20000;
  bool stopping = false;
  std::unique_ptr<Thread> thread;  // the network's fiber

  void At(Nanos when_ns, std::function<void()> fn) {
    events.emplace(std::pair(std::max(when_ns, sim->now()), next_event++), std::move(fn));
    sim->WakeAll(this);
  }
  Nanos Delay() { return options.min_delay_ns + UpTo(options.max_delay_ns - options.min_delay_ns); }
  Nanos UpTo(Nanos most_ns) { return static_cast<Nanos>(random.Uniform(static_cast<uint64_t>(most_ns) + 1)); }
  bool IsCut(const SimNode& from, const SimNode& to) const { return cuts.contains({from.name, to.name}); }
  void ReleaseHeld() {
    std::vector<std::function<void()>> all;
    all.swap(held);
    for (auto& fn : all) At(sim->now(), std::move(fn));
  }

  void Run();  // the body of the fiber: events, when they are due
  void Trace(const SimConnection& c, size_t from, std::string_view what);

  void Send(const SimConnectionPtr& c, size_t from, SimMessage message);
  void ScheduleArrival(const SimConnectionPtr& c, size_t from, Nanos when_ns);
  // The first message of the wire arrives, or a further step of it.
  void Arrive(const SimConnectionPtr& c, size_t from);
  // The first request waiting to leave leaves: its bytes are read now.
  void Transmit(const SimConnectionPtr& c, size_t from);
  // True: the message is done with.
  bool Execute(const SimConnectionPtr& c, size_t from, SimMessage& m);
  // A request is executed, or the data of a READ lands: a step at a time, each step checked (revocation, F1).
  bool LandStep(const SimConnectionPtr& c, size_t from, SimMessage& m);
  void PlanSteps(SimMessage& m);
  // Takes the next step; empty: nothing is to land.
  std::pair<uint32_t, uint32_t> NextStep(SimMessage& m);
  // The request at hand fails its check: its sender is told, and the target's end is gone.
  void Refuse(const SimConnectionPtr& c, size_t from);
  // A message is lost, and with it the connection.
  void Lose(const SimConnectionPtr& c, std::string_view why);
  // Everything behind some point of the wire is lost; the end that listens learns of it later. `tear`: the
  // message that is landing may stay half landed.
  void CutOff(const SimConnectionPtr& c, size_t from, std::string_view why, bool tear);
  // The dialler's hello arrives where it is listened for, or it learns that nobody does.
  void Dial(const SimConnectionPtr& c);
};

class SimPort final : public Port {
 public:
  SimPort(SimNetwork::Rep* network, std::shared_ptr<SimNode> node, const PortOptions& options)
      : network_(network), node_(std::move(node)), options_(options) {
    node_->ports.push_back(this);
  }
  ~SimPort() override;

  ConnectionId Connect(const std::string& address, const Hello& hello, Nanos deadline_ns) override;
  Status Post(ConnectionId connection, std::span<const WorkRequest> requests) override;
  size_t Poll(std::span<Completion> out) override;
  void Wait(Nanos deadline_ns) override;
  void Wake() override {
    woken_ = true;
    network_->sim->WakeAll(this);
  }
  void Disconnect(ConnectionId connection) override;
  uint32_t max_message_bytes() const override { return options_.max_message_bytes; }

  // --- called by the network's fiber

  // A dialler's hello has come; the port judges it in its own turn.
  void Knock(const SimConnectionPtr& c) {
    c->ends[1].node = node_;
    knocking_.push_back(c);
    network_->sim->WakeAll(this);
  }
  void Up(const SimConnectionPtr& c, size_t side);
  // Ends a side of a connection: completes its requests (kFlushed) and tells the owner.
  void Break(const SimConnectionPtr& c, size_t side, std::string_view reason);
  // The oldest request has ended.
  void CompleteHead(SimEnd& end, CompletionStatus status);
  // A message or an immediate has come.
  void Deliver(const SimEnd& end, CompletionKind kind, std::string data, uint32_t immediate);
  void BreakAll(std::string_view reason);
  void Die();  // the process was killed

 private:
  // A completion that its owner has not taken, with what it points to.
  struct Ready {
    Completion completion;
    std::string data;
    std::string reason;
    Hello hello;
  };

  size_t SideOf(const SimConnectionPtr& c, ConnectionId id) const {
    return c->ends[0].port == this && c->ends[0].id == id ? 0 : 1;
  }
  Ready& Push(const SimEnd& end, CompletionKind kind);
  // Judges a hello (handshake, F3), on the port's own fiber.
  void Admit(const SimConnectionPtr& c);
  // SIGSTOP: the owner's thread does not come back from here until it may go on.
  void StandStill();

  SimNetwork::Rep* const network_;
  const std::shared_ptr<SimNode> node_;
  const PortOptions options_;
  uint64_t next_id_ = 1;
  std::map<ConnectionId, SimConnectionPtr> connections_;
  Admission admission_;
  std::vector<SimConnectionPtr> knocking_;      // hellos that were not judged yet
  std::deque<Ready> ready_;                     // completions for the next Poll
  std::vector<std::unique_ptr<Ready>> polled_;  // of the last Poll
  bool woken_ = false;
};

}  // namespace nova
