// ArenaPool and Arena: memory of memtables, in chunks that are touched once and recycled for ever.
//
// A first touch of a page costs more than a put (docs/performance.md), so chunks go back to the pool, not to
// the kernel, and a thread in the background touches new ones before writers want them (KeepAhead).
//
// Thread safety: ArenaPool: all. Arena: Allocate from any number of threads at once; the destructor alone.
// Ownership:     memory of an Arena lives until the Arena does; the pool outlives its arenas.
#pragma once

#include <atomic>
#include <cstddef>
#include <functional>
#include <vector>

#include "common/base/mutex.h"

namespace nova {

class ArenaPool {
 public:
  static constexpr size_t kChunkBytes = 256 * 1024;
  // `keep_bytes`: used and unused chunks together stay below, as long as those used do.
  explicit ArenaPool(size_t keep_bytes) : keep_bytes_(keep_bytes) {}
  ~ArenaPool();
  char* Take();
  void Give(char* chunk);
  // From now on `bytes` of unused chunks are kept ready, within keep_bytes. `refill` has Refill run on
  // another thread, soon; it is called by a thread that took a chunk, never while Refill is due already.
  // Before others use the pool.
  void KeepAhead(size_t bytes, std::function<void()> refill);
  void Refill();
  // by arenas, large pieces included
  size_t bytes_used() const { return used_.load(std::memory_order_relaxed); }
  size_t bytes_ready() const { return ready_.load(std::memory_order_relaxed); }  // in no use, kept for it
  void AddLarge(ptrdiff_t bytes);

 private:
  bool IsKeptLocked(size_t more) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    return bytes_used() + free_.size() * kChunkBytes + more <= keep_bytes_;
  }
  void SetReadyLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    ready_.store(free_.size() * kChunkBytes, std::memory_order_relaxed);
  }

  const size_t keep_bytes_;
  size_t ahead_bytes_ = 0;
  std::function<void()> refill_;
  std::atomic<bool> refill_due_{false};
  std::atomic<size_t> used_{0};
  std::atomic<size_t> ready_{0};
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
  // Takes back a piece that Allocate gave and nobody has seen, if nothing was allocated behind it; else it is
  // lost until the end.
  void GiveBack(char* memory, size_t bytes);
  char* AllocateChunk();  // ArenaPool::kChunkBytes, recycled as every chunk is
  // with what is wasted at the ends of chunks
  size_t bytes_used() const { return used_.load(std::memory_order_relaxed); }

 private:
  struct Chunk {
    char* memory;
    std::atomic<size_t> offset;
  };
  char* AllocateFrom(Chunk* chunk, size_t bytes);
  char* AllocateSlow(size_t bytes);

  ArenaPool* const pool_;
  std::atomic<size_t> used_{0};
  std::atomic<Chunk*> current_{nullptr};
  Mutex mu_;
  std::vector<Chunk*> chunks_ ABSL_GUARDED_BY(mu_);
  std::vector<std::pair<char*, size_t>> large_ ABSL_GUARDED_BY(mu_);
};

}  // namespace nova
