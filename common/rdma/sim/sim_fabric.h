// The simulated fabric: the Fabric between the nodes of one Simulation, in virtual time, seeded.
//
// A SimNetwork is the wires. Each posted request is transmitted a little later, when its bytes are read from
// local memory; it travels with a delay of its own, and lands in the target's memory in 64-byte pieces, in
// any order, over time. One connection keeps its order; connections overtake each other. Keys, bounds and
// rights are checked at every step, so that nothing lands after Revoke(). Bytes that were transmitted before
// their connection was destroyed still land (H3), as long as the target's end stands. A message that is lost
// breaks its connection: both sides learn it later, and requests may have been executed although the
// requester sees kFlushed.
//
// A node is one process: a fabric made under its name, until Kill. After Kill another fabric may be made
// under the same name. The network runs as a fiber of its own, from its construction to its destruction.
//
// Thread safety: fibers of one Simulation.
// Ownership: ports end before their fabric, fabrics before their network.
// Errors: as fabric.h.
#pragma once

#include <memory>
#include <string>

#include "common/rdma/fabric.h"

namespace nova {

// How slow and how faulty the wires are. Times are virtual.
struct SimNetworkOptions {
  Nanos min_delay_ns = 2 * kMicrosecond;  // of one message, one way
  Nanos max_delay_ns = 60 * kMicrosecond;
  Nanos transmit_delay_ns = 5 * kMicrosecond;  // at most, from Post until the bytes leave
  Nanos tear_gap_ns = 3 * kMicrosecond;        // at most, between two steps of one WRITE's landing
  uint32_t tear_steps = 8;                     // at most; 1: WRITEs land whole
  uint64_t lose_one_in = 0;                    // messages: the connection breaks; 0: never
  Nanos detect_ns = kMillisecond;              // at most, until a live end learns that its connection is gone
  // WRITEs that come late, one in so many; 0: never. Such a WRITE comes up to late_ns later, with everything
  // behind it on its connection, as if it were transmitted again (H3: a late WRITE). Its sender has given it
  // up by then.
  uint64_t late_one_in = 0;
  Nanos late_ns = 0;
  bool f3_replace_off = false;  // a control of tests: a peer's older connection stays beside its newer one
};

class SimNetwork {
 public:
  explicit SimNetwork(const SimNetworkOptions& options = {});  // REQUIRES: inside Simulation::Run
  ~SimNetwork();
  SimNetwork(const SimNetwork&) = delete;
  SimNetwork& operator=(const SimNetwork&) = delete;

  // For messages from now on.
  void set_options(const SimNetworkOptions& options);

  // The node's process dies. Its connections break, some of the bytes it had transmitted are lost, the last
  // WRITE may be torn. Its own ports see everything disconnected and reach nobody any more; the test takes
  // them apart.
  void Kill(const std::string& node);
  // The node's process stands still (SIGSTOP), until Resume: Poll and Wait of its ports do not return,
  // nothing is executed there, nothing leaves.
  void Pause(const std::string& node);
  void Resume(const std::string& node);
  // Messages from one node to the other wait, as if transmitted again and again, until Mend or Heal; nothing
  // is reported (H28).
  void Cut(const std::string& from, const std::string& to);
  void Partition(const std::string& a, const std::string& b);  // cuts both ways
  void Mend(const std::string& from, const std::string& to);   // ends one cut
  void Heal();                                                 // ends every cut

  struct Rep;

 private:
  friend std::unique_ptr<Fabric> NewSimFabric(SimNetwork* network, const std::string& node);
  std::unique_ptr<Rep> rep_;
};

// The fabric of a node's process. REQUIRES: no live fabric has that name.
std::unique_ptr<Fabric> NewSimFabric(SimNetwork* network, const std::string& node);

}  // namespace nova
