// ArenaPool and Arena: memory of memtables, in chunks that are touched once and used again for ever.
//
// The first touch of a page costs more than a put (docs/performance.md). So chunks go back to the pool and
// not to the kernel, and a background thread touches new ones before writers want them (KeepAhead).
//
// Thread safety: ArenaPool: all. Arena: all from any threads at a time; the destructor alone.
// Ownership: memory of an Arena lives until the Arena does. The pool outlives its arenas.
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
  // `keep_bytes`: unused chunks go back to the kernel where used and unused ones together exceed it.
  explicit ArenaPool(size_t keep_bytes) : keep_bytes_(keep_bytes) {}
  ~ArenaPool();
  // A chunk of kChunkBytes, 64-byte aligned; allocates one if none is free.
  char* Take();
  void Give(char* chunk);  // takes a chunk back
  // From now on `bytes` of unused chunks are kept ready, within keep_bytes. `refill` must have Refill run on
  // another thread, soon; it is called on threads that take chunks, and not while a Refill is due already.
  // Call before others use the pool.
  void KeepAhead(size_t bytes, std::function<void()> refill);
  // Touches new chunks until as many are ready; takes long.
  void Refill();
  // Bytes in arenas, large pieces included.
  size_t bytes_used() const { return used_.load(std::memory_order_relaxed); }
  size_t bytes_ready() const { return ready_.load(std::memory_order_relaxed); }  // unused chunks
  // Counts a large piece; negative: one less.
  void AddLarge(ptrdiff_t bytes);

 private:
  // With `more` bytes the pool stays within keep_bytes_.
  bool IsKeptLocked(size_t more) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    return bytes_used() + free_.size() * kChunkBytes + more <= keep_bytes_;
  }
  // Publishes the bytes of free_ for bytes_ready.
  void SetReadyLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    ready_.store(free_.size() * kChunkBytes, std::memory_order_relaxed);
  }

  const size_t keep_bytes_;  // see the constructor
  size_t ahead_bytes_ = 0;   // see KeepAhead; 0: nothing is kept ready
  std::function<void()> refill_;
  std::atomic<bool> refill_due_{false};  // refill_ was called, and Refill has not begun
  std::atomic<size_t> used_{0};          // see bytes_used; changed under mu_
  std::atomic<size_t> ready_{0};         // see bytes_ready; changed under mu_
  Mutex mu_;
  std::vector<char*> free_ ABSL_GUARDED_BY(mu_);
};

class Arena {
 public:
  explicit Arena(ArenaPool* pool) : pool_(pool) {}
  ~Arena();
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  char* Allocate(size_t bytes);  // 8-byte aligned; from any thread
  // Takes back a piece that Allocate gave and nobody has seen, if nothing was allocated behind it. Else it
  // stays lost until the arena goes.
  void GiveBack(char* memory, size_t bytes);
  // A whole chunk, for the caller's own use.
  char* AllocateChunk();
  // Bytes allocated, with those wasted at the ends of chunks.
  size_t bytes_used() const { return used_.load(std::memory_order_relaxed); }

 private:
  struct Chunk {
    char* memory;
    std::atomic<size_t> offset;
  };
  // Null: the chunk has no room; counts the bytes wasted at its end.
  char* AllocateFrom(Chunk* chunk, size_t bytes);
  // Takes a new chunk, or allocates a large piece.
  char* AllocateSlow(size_t bytes);

  ArenaPool* const pool_;
  std::atomic<size_t> used_{0};           // see bytes_used
  std::atomic<Chunk*> current_{nullptr};  // small pieces come from it; null: none yet
  Mutex mu_;
  std::vector<Chunk*> chunks_ ABSL_GUARDED_BY(mu_);  // all, also full ones
  // Pieces over a quarter of a chunk, and their sizes.
  std::vector<std::pair<char*, size_t>> large_ ABSL_GUARDED_BY(mu_);
};

}  // namespace nova
