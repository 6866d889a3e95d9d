// VerbsBuffers: the registered memory of a VerbsPort. It holds receive buffers, into which the port's shared
// receive queue takes messages, and which are handed out where they lie; blocks from which handshakes are
// sent; and a cell that the keep-alives of peers read. Internal to the verbs fabric.
//
// A receive buffer is posted until a message comes into it. Then its owner reads it where it lies (Hold), or
// nobody does any more (Return); PostHeld and PostReturned post it again.
//
// Thread safety: none; the port's thread.
// Ownership: it owns the memory, its regions and the receive queue. Queue pairs that use them are destroyed
// before it, the protection domain after it.
// Errors: ResourceExhausted from Open: the device's or the process's bounds.
#pragma once

#include <infiniband/verbs.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/status.h"

namespace nova {

class VerbsBuffers {
 public:
  static constexpr uint32_t kHandshakeBlocks = 256;
  // In a work request's id: the other bits are a receive buffer.
  static constexpr uint64_t kReceiveTag = uint64_t{1} << 63;

  VerbsBuffers() = default;
  ~VerbsBuffers();
  VerbsBuffers(const VerbsBuffers&) = delete;
  VerbsBuffers& operator=(const VerbsBuffers&) = delete;
  // Makes all of it, and posts `count` receive buffers of `bytes` each. `name` is the port's, for log lines.
  Status Open(ibv_pd* pd, const std::string& name, uint32_t count, uint32_t bytes);

  ibv_srq* receive_queue() const { return srq_; }
  const std::byte* At(uint32_t buffer) const { return memory_ + size_t{buffer} * bytes_; }
  void Hold(uint32_t buffer) { held_.push_back(buffer); }
  void Return(uint32_t buffer) { returned_.push_back(buffer); }
  void PostHeld() { Post(&held_); }
  void PostReturned() { Post(&returned_); }

  // Copies a handshake into a free block, which is the piece to send. False: no block is free.
  bool TakeBlock(std::string_view handshake, uint32_t* block, ibv_sge* piece);
  void ReturnBlock(uint32_t block) { free_blocks_.push_back(block); }

  uint64_t cell_address() const { return reinterpret_cast<uint64_t>(cell_); }
  uint32_t cell_rkey() const { return cell_region_->rkey; }

 private:
  Status Register(ibv_pd* pd);
  // Posts receive buffers, and clears the list.
  void Post(std::vector<uint32_t>* buffers);

  std::string name_;
  uint32_t count_ = 0;  // receive buffers
  uint32_t bytes_ = 0;  // of one
  ibv_srq* srq_ = nullptr;
  ibv_mr* region_ = nullptr;  // of the receive buffers, then the handshake blocks
  ibv_mr* cell_region_ = nullptr;
  std::byte* memory_ = nullptr;  // receive buffers, handshake blocks, cell
  size_t memory_bytes_ = 0;
  std::byte* cell_ = nullptr;
  std::vector<uint32_t> held_;      // completions that the port's owner has point into them
  std::vector<uint32_t> returned_;  // nobody reads them
  std::vector<uint32_t> free_blocks_;
  std::vector<ibv_recv_wr> chain_;  // of Post
  std::vector<ibv_sge> pieces_;     // of chain_
};

}  // namespace nova
