// FabricPorts: the ports of one fabric: which of them serve which peers, their counters, and host names
// looked up for them.
//
// Thread safety: all methods from any thread. A port cannot go while a function given to a method runs.
// Locks: mu_, held while such a function runs.
// Ownership: ports are their openers'; the last one is closed before this ends. A port removes itself in its
//   destructor.
// Errors: as fabric.h.
#pragma once

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/base/log.h"
#include "common/base/mutex.h"
#include "common/rdma/fabric.h"
#include "common/rdma/port_counters.h"
#include "common/rdma/resolver.h"

namespace nova {

// P: a Port with Status Open(), counters() and Resolved(ConnectionId, StatusOr<sockaddr_in>).
template <typename P>
class FabricPorts {
 public:
  ~FabricPorts() { Close(); }
  // REQUIRES: no port is left, and none is opened any more.
  void Close() {
    resolver_.Stop();
    MutexLock lock(&mu_);
    NOVA_CHECK(ports_.empty()) << "a port outlives its fabric";
  }

  // Opens a port; it is known here from then on.
  StatusOr<std::unique_ptr<Port>> Open(std::unique_ptr<P> port) {
    {
      MutexLock lock(&mu_);
      ports_.push_back(port.get());
    }
    NOVA_RETURN_IF_ERROR(port->Open());
    return port;
  }
  // Forgets a port that has no connections any more, and keeps its counters.
  void Remove(P* port) {
    MutexLock lock(&mu_);
    AddCounters(&gone_, port->counters());
    std::erase(ports_, port);
    std::replace(listening_.begin(), listening_.end(), port, static_cast<P*>(nullptr));
  }

  // Calls serve(port, first) for each of `ports`, which serve peers from now on. REQUIRES: called once, with
  // at least one port.
  template <typename Fn>
  void Serve(const std::vector<Port*>& ports, Fn serve) {
    MutexLock lock(&mu_);
    NOVA_CHECK(listening_.empty() && !ports.empty()) << "Listen is called once, with ports";
    for (Port* port : ports) {
      listening_.push_back(static_cast<P*>(port));
      serve(listening_.back(), listening_.size() == 1);
    }
  }
  // Calls hand_over(port) for the port that serves peers of this index, and returns its result; false if that
  // port is gone.
  template <typename Fn>
  bool HandOver(uint16_t xchg_index, Fn hand_over) {
    MutexLock lock(&mu_);
    P* to = listening_[xchg_index % listening_.size()];
    return to != nullptr && hand_over(to);
  }
  // Finds where to dial `address`. True: *at is the answer. False: the answer comes through P::Resolved,
  // unless the port is gone by then.
  bool Resolve(const std::string& address, P* port, ConnectionId connection, StatusOr<sockaddr_in>* at) {
    if (KnownAddress(address, at)) return true;
    resolver_.Resolve(address, [this, port, connection](const StatusOr<sockaddr_in>& found) {
      MutexLock lock(&mu_);
      if (std::find(ports_.begin(), ports_.end(), port) != ports_.end()) port->Resolved(connection, found);
    });
    return false;
  }
  // The sum of all but the regions.
  FabricCounters counters() const {
    MutexLock lock(&mu_);
    FabricCounters sum = gone_;
    for (const P* port : ports_) AddCounters(&sum, port->counters());
    return sum;
  }

 private:
  mutable Mutex mu_;
  std::vector<P*> ports_ ABSL_GUARDED_BY(mu_);
  std::vector<P*> listening_ ABSL_GUARDED_BY(mu_);  // by index; null: gone
  FabricCounters gone_ ABSL_GUARDED_BY(mu_);        // counters of ports that are gone
  Resolver resolver_;
};

}  // namespace nova
