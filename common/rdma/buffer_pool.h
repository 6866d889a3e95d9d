// BufferPool: registered memory in power-of-two pieces, bounded and counted.
//
// Memory is registered in slabs; a slab is cut into pieces of one size. When none of its pieces has a user,
// it serves the size that is asked for next, or makes room for a larger slab. A piece that has a user stays
// where it is, and its slab as it is cut.
//
// Thread safety: all.   Ownership: a Buffer returns its piece when destroyed; the pool outlives its buffers.
// A Buffer is destroyed only when no posted request names it and no peer may reach it any more (exposed
// memory, F4): its memory has other users from then on.
// Errors: Allocate gives an empty Buffer when the bound is reached: the caller says Busy or waits.
#pragma once

#include <memory>
#include <vector>

#include "common/base/mutex.h"
#include "common/rdma/fabric.h"

namespace nova {

class BufferPool;
struct BufferSlab;

class Buffer {
 public:
  Buffer() = default;
  Buffer(Buffer&& other) noexcept { *this = std::move(other); }
  Buffer& operator=(Buffer&& other) noexcept;
  ~Buffer() { Reset(); }
  explicit operator bool() const { return data_ != nullptr; }
  std::byte* data() const { return data_; }
  size_t capacity() const { return capacity_; }
  uint32_t lkey() const { return lkey_; }
  uint32_t rkey() const { return rkey_; }
  RemoteBuffer remote() const { return {reinterpret_cast<uint64_t>(data_), capacity_, rkey_, 0}; }
  void Reset();

 private:
  friend class BufferPool;
  BufferPool* pool_ = nullptr;
  BufferSlab* slab_ = nullptr;
  std::byte* data_ = nullptr;
  size_t capacity_ = 0;
  uint32_t lkey_ = 0;
  uint32_t rkey_ = 0;
};

class BufferPool {
 public:
  // Slabs of slab_bytes (a power of two) are mapped and registered as needed, up to max_bytes together.
  BufferPool(Fabric* fabric, Access access, size_t max_bytes, size_t slab_bytes = size_t{1} << 20);
  ~BufferPool();  // REQUIRES: every Buffer is back

  // At least `bytes`, rounded up to a power of two (256 B and more). Larger than a slab: a slab of its own.
  Buffer Allocate(size_t bytes);
  size_t bytes_in_use() const;
  size_t bytes_registered() const;

 private:
  friend class Buffer;
  void Free(BufferSlab* slab, const std::byte* data);
  struct Rep;
  std::unique_ptr<Rep> rep_;
};

}  // namespace nova
