// ArenaPool and Arena: memory of memtables, in chunks that are touched once and recycled for ever.
//
// A first touch of a page costs more than a put (docs/performance.md), so chunks go back to the pool, not to the kernel.
//
// Thread safety: ArenaPool: all. Arena: Allocate from any number of threads at once; the destructor alone.
// Ownership:     memory of an Arena lives until the Arena does; the pool outlives its arenas.
#pragma once

#include <atomic>
#include <cstddef>
#include <vector>

#include "common/base/mutex.h"

namespace nova {

class ArenaPool {
 public:
  static constexpr size_t kChunkBytes = 256 * 1024;
  explicit ArenaPool(size_t keep_bytes) : keep_bytes_(keep_bytes) {}  // at most this much is kept unused
  ~ArenaPool();
  char* Take();
  void Give(char* chunk);
  size_t bytes_used() const { return used_.load(std::memory_order_relaxed); }  // by arenas, large pieces included
  void AddLarge(ptrdiff_t bytes) { used_.fetch_add(static_cast<size_t>(bytes), std::memory_order_relaxed); }

 private:
  const size_t keep_bytes_;
  std::atomic<size_t> used_{0};
  Mutex mu_;
  std::vector<char*> free_ ABSL_GUARDED_BY(mu_);
};

class Arena {
 public:
  explicit Arena(ArenaPool* pool) : pool_(pool) {}
  ~Arena();
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  char* Allocate(size_t bytes);  // 8-byte aligned
  char* AllocateChunk();         // ArenaPool::kChunkBytes, recycled as every chunk is
  size_t bytes_used() const { return used_.load(std::memory_order_relaxed); }

 private:
  struct Chunk {
    char* memory;
    std::atomic<size_t> offset;
  };
  char* AllocateSlow(size_t bytes);

  ArenaPool* const pool_;
  std::atomic<size_t> used_{0};
  std::atomic<Chunk*> current_{nullptr};
  Mutex mu_;
  std::vector<Chunk*> chunks_ ABSL_GUARDED_BY(mu_);
  std::vector<std::pair<char*, size_t>> large_ ABSL_GUARDED_BY(mu_);
};

}  // namespace nova
