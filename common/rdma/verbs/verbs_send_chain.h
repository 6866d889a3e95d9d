// VerbsSendChain: requests as the device takes them, which are posted to a queue pair together, by one
// doorbell. Internal to the verbs fabric.
//
// Thread safety: none.
// Ownership: it owns the work requests; the memory that they name is the poster's (fabric.h).
// Errors: none of its own.
#pragma once

#include <infiniband/verbs.h>

#include <array>
#include <cstddef>
#include <cstdint>

#include "common/rdma/fabric.h"

namespace nova {

class VerbsSendChain {
 public:
  static constexpr size_t kMost = 64;

  void Clear() { size_ = pieces_used_ = 0; }
  bool empty() const { return size_ == 0; }
  bool full() const { return size_ == kMost; }
  // Adds a request whose completion, if it has one, carries `id`; the caller adds flags. The reference is
  // valid until Clear.
  ibv_send_wr& Add(const WorkRequest& request, uint64_t id);
  // The last one asks for a completion. Returns them, linked; call once, if it is not empty.
  ibv_send_wr* Finish();

 private:
  std::array<ibv_send_wr, kMost> requests_;
  std::array<ibv_sge, kMost * kMaxPieces> pieces_;
  size_t size_ = 0;
  size_t pieces_used_ = 0;
};

}  // namespace nova
