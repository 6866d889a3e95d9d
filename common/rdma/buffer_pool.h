// BufferPool: registered memory in pieces of a power of two, bounded and counted.
//
// Memory is registered in slabs, and a slab is cut into pieces of one size. When no piece of a slab has a
// user, the slab serves the size that is asked for next, or makes room for a larger slab. A piece that has a
// user stays where it is, and its slab as it is cut.
//
// Thread safety: all.
// Ownership: a Buffer returns its piece when destroyed. The pool outlives its buffers. Destroy a Buffer only
//   when no posted request names it and no peer may reach it any more (exposed memory, F4): its memory has
//   other users from then on.
// Errors: Allocate returns an empty Buffer when the bound is reached or the system gives no more memory; the
//   caller answers Busy or waits.
#pragma once

#include <memory>
#include <vector>

#include "common/base/mutex.h"
#include "common/rdma/fabric.h"

namespace nova {

class BufferPool;
struct BufferSlab;  // one registration, cut into pieces of one size

// A piece of a BufferPool; empty by default. Moving passes the piece on.
class Buffer {
 public:
  Buffer() = default;
  Buffer(Buffer&& other) noexcept { *this = std::move(other); }
  Buffer& operator=(Buffer&& other) noexcept;
  ~Buffer() { Reset(); }
  explicit operator bool() const { return data_ != nullptr; }
  std::byte* data() const { return data_; }
  size_t capacity() const { return capacity_; }  // bytes; at least as many as were asked for
  uint32_t lkey() const { return lkey_; }        // names the piece's slab in our own requests
  uint32_t rkey() const { return rkey_; }        // names it in a peer's
  // The piece as a peer addresses it.
  RemoteBuffer remote() const { return {reinterpret_cast<uint64_t>(data_), capacity_, rkey_, 0}; }
  void Reset();  // returns the piece; then it is empty

 private:
  friend class BufferPool;
  BufferPool* pool_ = nullptr;  // null: it is empty, and so are all others
  BufferSlab* slab_ = nullptr;  // that it was cut from
  std::byte* data_ = nullptr;
  size_t capacity_ = 0;
  uint32_t lkey_ = 0;  // of the slab
  uint32_t rkey_ = 0;  // likewise
};

// See the head of this file.
class BufferPool {
 public:
  // Slabs of slab_bytes (a power of two) are mapped and registered as needed, up to max_bytes together.
  // `access`: the rights of peers.
  BufferPool(Fabric* fabric, Access access, size_t max_bytes, size_t slab_bytes = size_t{1} << 20);
  ~BufferPool();  // REQUIRES: every Buffer is back

  // A piece of at least `bytes`, rounded up to a power of two of 256 and more. One larger than slab_bytes has
  // a slab of its own. May register memory, which takes milliseconds.
  Buffer Allocate(size_t bytes) { return Take(bytes, /*beyond=*/false); }
  // Likewise beyond max_bytes, for what must go on, and is bounded by other means. What is beyond it goes
  // back to the system once it has no users and others need room.
  Buffer AllocateBeyond(size_t bytes) { return Take(bytes, /*beyond=*/true); }
  size_t bytes_in_use() const;      // of pieces with users; for tests
  size_t bytes_registered() const;  // of all slabs; for tests

 private:
  friend class Buffer;
  // Empty: the bound is reached (`beyond`: the system gives nothing), or memory cannot be registered.
  Buffer Take(size_t bytes, bool beyond);
  void Free(BufferSlab* slab, const std::byte* data);  // of Buffer::Reset
  struct Rep;
  std::unique_ptr<Rep> rep_;
};

}  // namespace nova
