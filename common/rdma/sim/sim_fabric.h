// The simulated fabric: the Fabric between the nodes of one Simulation, in virtual time, seeded.
//
// A SimNetwork is the wires: each posted request is transmitted a little later (its bytes are read from local
// memory then, not before), travels with a delay of its own, and lands at the target's memory in 64-byte
// pieces, in any order, over time. One connection keeps its order; connections overtake each other. Keys,
// bounds and rights are checked at every step, so that nothing lands after Revoke(); what was transmitted
// before its connection was destroyed still lands (H3), as long as the target's end stands. A message that is
// lost breaks its connection: both sides learn it later, requests may have been executed although the
// requester sees kFlushed.
//
// A node is one process: a fabric made under its name, until Kill. After Kill the same name may come back
// with another fabric. The network runs as a fiber of its own, from its construction to its destruction.
//
// Thread safety: fibers of one Simulation.   Ownership: ports end before their fabric, fabrics before their
//                network.
// Errors:        as fabric.h.
#pragma once

#include <memory>
#include <string>

#include "common/rdma/fabric.h"

namespace nova {

struct SimNetworkOptions {
  Nanos min_delay_ns = 2 * kMicrosecond;  // of one message, one way
  Nanos max_delay_ns = 60 * kMicrosecond;
  Nanos transmit_delay_ns = 5 * kMicrosecond;  // at most, from Post until the bytes leave
  Nanos tear_gap_ns = 3 * kMicrosecond;        // at most, between two steps of one WRITE's landing
  uint32_t tear_steps = 8;                     // at most; 1: WRITEs land whole
  uint64_t lose_one_in = 0;                    // messages: the connection breaks; 0: never
  Nanos detect_ns = kMillisecond;              // at most, until a live end learns that its connection is gone
  // WRITEs: they come this much later at most, with all that is behind them on their connection, as what is
  // transmitted again does: a late WRITE (H3); 0: never. Their senders have given them up by then.
  uint64_t late_one_in = 0;
  Nanos late_ns = 0;
  bool f3_replace_off = false;  // a control: a peer's older connection stands beside its newer one
};

class SimNetwork {
 public:
  explicit SimNetwork(const SimNetworkOptions& options = {});  // REQUIRES: inside Simulation::Run
  ~SimNetwork();
  SimNetwork(const SimNetwork&) = delete;
  SimNetwork& operator=(const SimNetwork&) = delete;

  void set_options(const SimNetworkOptions& options);

  // The node's process dies: its connections break, some of what it had transmitted is lost, the last WRITE
  // may be torn. Its own ports see everything disconnected, and reach nobody any more: for the test to take
  // it apart.
  void Kill(const std::string& node);
  // The process stands still (SIGSTOP): its ports' Poll and Wait do not return, nothing is executed there,
  // nothing leaves.
  void Pause(const std::string& node);
  void Resume(const std::string& node);
  // Messages from one to the other wait (retransmission) until Heal; nothing is reported (H28).
  void Cut(const std::string& from, const std::string& to);
  void Partition(const std::string& a, const std::string& b);  // both ways
  void Mend(const std::string& from, const std::string& to);   // one cut
  void Heal();                                                 // every cut

  struct Rep;

 private:
  friend std::unique_ptr<Fabric> NewSimFabric(SimNetwork* network, const std::string& node);
  std::unique_ptr<Rep> rep_;
};

// REQUIRES: no live fabric of that name.
std::unique_ptr<Fabric> NewSimFabric(SimNetwork* network, const std::string& node);

}  // namespace nova
