// SendMemory: where the messages of an Xchg lie from when they are encoded until the fabric has sent them, in
// pieces that a port takes.
//
// Thread safety: none; of the exchange thread.
// Ownership: owns the pieces' memory; the fabric outlives it. A piece is freed only when no posted request
//   names it any more (exposed memory, F4).
// Errors: Encode returns false where there is no memory left.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "common/rdma/buffer_pool.h"
#include "common/rdma/fabric.h"
#include "common/rdma/message.h"

namespace nova {

class SendMemory {
 public:
  SendMemory(Fabric* fabric, size_t max_bytes);

  struct Piece {
    uint32_t index = 0;  // for Free
    LocalBuffer local;   // what is sent, its header included
    size_t taken = 0;    // bytes of memory
  };
  // Puts a message with the body `parts`, `total` bytes together, into pieces of at most `most_bytes`, with
  // their headers, whose flags tell that it goes on. False: no memory is left, and none was taken. Else
  // message() has the pieces until the next Encode.
  bool Encode(MessageHeader header, std::span<const std::string_view> parts, size_t total, size_t most_bytes);
  const std::vector<Piece>& message() const { return message_; }
  // Returns the bytes of memory that the piece has taken.
  size_t Free(uint32_t index);
  void FreeAll();
  size_t bytes() const { return bytes_; }  // of memory, taken

 private:
  uint32_t Keep(Buffer buffer);

  BufferPool pool_;
  std::vector<Buffer> pieces_;  // by index; empty: free
  std::vector<uint32_t> free_;  // indexes
  std::vector<Piece> message_;
  size_t bytes_ = 0;  // see bytes()
};

}  // namespace nova
