// PortCounters: the FabricCounters of one port, and the sum of several.
//
// Thread safety: the port's thread counts, any thread reads.
// Ownership: plain values.
// Errors: none.
#pragma once

#include <atomic>

#include "common/rdma/fabric.h"

namespace nova {

class PortCounters {
 public:
  void Connected() { Add(connections_, 1); }      // a connection is up
  void Disconnected() { Add(connections_, -1); }  // a connection that was up is gone
  void Posted(size_t requests) { Add(pending_requests_, static_cast<int64_t>(requests)); }
  // A posted request has completed.
  void Completed(Opcode opcode, uint32_t length, CompletionStatus status) {
    Add(pending_requests_, -1);
    if (status != CompletionStatus::kOk) return;
    Add(opcode == Opcode::kSend   ? bytes_sent_
        : opcode == Opcode::kRead ? bytes_read_
                                  : bytes_written_,
        length);
  }
  void ProtocolError() { Add(protocol_errors_, 1); }
  void AccessError() { Add(access_errors_, 1); }

  int64_t connections() const { return connections_.load(std::memory_order_relaxed); }
  FabricCounters Read() const {
    FabricCounters out;
    out.connections = connections();
    out.pending_requests = pending_requests_.load(std::memory_order_relaxed);
    out.bytes_sent = bytes_sent_.load(std::memory_order_relaxed);
    out.bytes_written = bytes_written_.load(std::memory_order_relaxed);
    out.bytes_read = bytes_read_.load(std::memory_order_relaxed);
    out.protocol_errors = protocol_errors_.load(std::memory_order_relaxed);
    out.access_errors = access_errors_.load(std::memory_order_relaxed);
    return out;
  }

 private:
  // There is one writer: no locked instruction is needed.
  template <typename T, typename N>
  static void Add(std::atomic<T>& counter, N n) {
    counter.store(counter.load(std::memory_order_relaxed) + static_cast<T>(n), std::memory_order_relaxed);
  }

  std::atomic<int64_t> connections_{0};
  std::atomic<int64_t> pending_requests_{0};
  std::atomic<uint64_t> bytes_sent_{0};
  std::atomic<uint64_t> bytes_written_{0};
  std::atomic<uint64_t> bytes_read_{0};
  std::atomic<uint64_t> protocol_errors_{0};
  std::atomic<uint64_t> access_errors_{0};
};

// Adds all fields of `c` to *sum.
inline void AddCounters(FabricCounters* sum, const FabricCounters& c) {
  sum->regions += c.regions;
  sum->connections += c.connections;
  sum->pending_requests += c.pending_requests;
  sum->bytes_sent += c.bytes_sent;
  sum->bytes_written += c.bytes_written;
  sum->bytes_read += c.bytes_read;
  sum->protocol_errors += c.protocol_errors;
  sum->access_errors += c.access_errors;
}

}  // namespace nova
