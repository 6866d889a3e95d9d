// ConnectionTable: the connections of a port by id, and one timer for each.
//
// An id is serial << kSlotBits | slot. Serials are never used again, so the id of a connection that is gone
// finds nothing. A buried connection stays readable until the next Recycle, for completions still point into
// it.
//
// Thread safety: none; the port's thread.
// Ownership: owns its connections.
// Errors: none.
#pragma once

#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "common/base/log.h"
#include "common/rdma/fabric.h"

namespace nova {

// The part of a connection that all fabrics have.
struct PortConnection {
  ConnectionId id;
  bool accepted = false;          // the peer dialled
  Hello hello;                    // of a dialler ours until the connection is up; else the peer's
  uint32_t peer_max_message = 0;  // the longest SEND that the peer takes
  std::string reason;             // why it ended
  Nanos timer_ns = kNever;        // see SetTimer; kNever: none
};

template <typename C>  // derived from PortConnection
class ConnectionTable {
 public:
  // A new connection with an id of its own. At most 2^20 at a time.
  C* Add() {
    if (free_.empty()) {
      NOVA_CHECK(slots_.size() < (size_t{1} << kSlotBits)) << "connections";
      free_.push_back(slots_.size());
      slots_.emplace_back();
    }
    const uint64_t slot = free_.back();
    free_.pop_back();
    slots_[slot] = std::make_unique<C>();
    slots_[slot]->id = ConnectionId(next_serial_++ << kSlotBits | slot);
    return slots_[slot].get();
  }
  C* Find(ConnectionId id) const {  // null: it is gone or never was
    const uint64_t slot = SlotOf(id);
    if (slot >= slots_.size()) return nullptr;
    C* c = slots_[slot].get();
    return c != nullptr && c->id == id ? c : nullptr;
  }
  // The connection is gone; `c` stays readable until Recycle.
  void Bury(C* c) {
    SetTimer(c, kNever);
    const uint64_t slot = SlotOf(c->id);
    graveyard_.push_back(std::move(slots_[slot]));
    free_.push_back(slot);
  }
  void Recycle() { graveyard_.clear(); }  // frees the buried ones
  // Calls fn(C*) for each connection; it may bury, and must not add.
  template <typename Fn>
  void ForEach(Fn fn) {
    for (auto& c : slots_) {
      if (c != nullptr) fn(c.get());
    }
  }
  // Differs between connections that live at the same time or soon after one another.
  static uint64_t SerialOf(ConnectionId id) { return id.value() >> kSlotBits; }

  // Replaces the connection's timer; kNever: none.
  void SetTimer(C* c, Nanos when_ns) {
    if (c->timer_ns != kNever) timers_.erase({c->timer_ns, c->id});
    c->timer_ns = when_ns;
    if (when_ns != kNever) timers_.emplace(when_ns, c->id);
  }
  Nanos next_timer_ns() const { return timers_.empty() ? kNever : timers_.begin()->first; }
  // The connection whose timer comes first, if that is due; else null. It is returned again until its timer
  // is set anew or it is buried.
  C* Due(Nanos now_ns) const { return next_timer_ns() <= now_ns ? Find(timers_.begin()->second) : nullptr; }

 private:
  static constexpr int kSlotBits = 20;
  static uint64_t SlotOf(ConnectionId id) { return id.value() & ((uint64_t{1} << kSlotBits) - 1); }

  std::vector<std::unique_ptr<C>> slots_;  // by slot; null: free
  std::vector<uint64_t> free_;
  uint64_t next_serial_ = 1;                         // rises with each connection; at least 1, so no id is 0
  std::vector<std::unique_ptr<C>> graveyard_;        // buried since the last Recycle
  std::set<std::pair<Nanos, ConnectionId>> timers_;  // connections with a timer, by time
};

}  // namespace nova
