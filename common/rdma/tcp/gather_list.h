// GatherList: the bytes of frames for one sendmsg: headers and short payloads, copied side by side, and
// pieces of registered memory. Internal to the tcp fabric.
//
// Thread safety: none; the port's thread.
// Ownership: the pieces' memory is the frames'; valid until the next Clear.
// Errors: none.
#pragma once

#include <sys/uio.h>

#include <span>
#include <vector>

#include "common/rdma/tcp/tcp_connection.h"

namespace nova {

class GatherList {
 public:
  GatherList() {
    pieces_.reserve(kMaxPiecesOfAll);
    inlined_.reserve(kInlinedBytes);
  }
  void Clear() {
    pieces_.clear();
    inlined_.clear();
  }
  // Adds what is left of a frame of `out`, as far as *budget goes, which it lowers. REQUIRES: !IsFull().
  void Add(const TcpOutgoing& out, const OutFrame& frame, size_t* budget);
  bool IsFull() const { return pieces_.size() + kMaxPieces + 1 > kMaxPiecesOfAll; }
  std::span<iovec> pieces() { return pieces_; }

 private:
  static constexpr size_t kMaxPiecesOfAll = 512;
  static constexpr size_t kInlinedBytes = 64 * 1024;

  std::vector<iovec> pieces_;
  std::vector<std::byte> inlined_;  // what pieces_ points to; never grows
};

}  // namespace nova
