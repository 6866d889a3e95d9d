// ArenaPool and Arena: memory of memtables, in chunks that are touched once and used again for ever.
//
// The first touch of a page costs more than a put (docs/engine.md). So chunks go back to the pool and
// not to the kernel, and a background thread touches new ones before writers want them (KeepAhead). What
// nobody has wanted for a while does go back to the kernel (TrimIfIdle).
//
// Chunks are cut from slabs, which a large pool asks the kernel to back with huge pages: keys and values of
// memtables lie in random order, so with small pages each access would miss the TLB too.
//
// Thread safety: ArenaPool: all. Arena: all from any threads at a time; the destructor alone.
// Locks: an Arena's; under it the pool's, a leaf. `refill` is called under neither. New memory that the pool
//   lacks is mapped under its lock, and touched without: other takers do not wait for page faults.
// Ownership: memory of an Arena lives until the Arena does. The pool outlives its arenas.
// Errors: none; memory that cannot be had ends the process.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <vector>

#include "common/base/mutex.h"

namespace nova {

class ArenaPool {
 public:
  static constexpr size_t kChunkBytes = 256 * 1024;
  // Of a pool that keeps at least kHugeFrom bytes; others have slabs of one chunk.
  static constexpr size_t kHugeSlabBytes = 2 << 20;
  static constexpr size_t kHugeFrom = 64 << 20;

  // `keep_bytes`: unused slabs go back to the kernel where used and unused chunks together exceed it.
  explicit ArenaPool(size_t keep_bytes)
      : keep_bytes_(keep_bytes), slab_bytes_(keep_bytes >= kHugeFrom ? kHugeSlabBytes : kChunkBytes) {}
  ~ArenaPool();
  ArenaPool(const ArenaPool&) = delete;
  ArenaPool& operator=(const ArenaPool&) = delete;

  // A chunk of kChunkBytes, 64-byte aligned; allocates a slab if none is free.
  char* Take();
  void Give(char* chunk);  // takes a chunk back
  // From now on `bytes` of unused chunks are kept ready, within keep_bytes. `refill` must have Refill run on
  // another thread, soon; it is called on threads that take chunks, and not while a Refill is due already.
  // Call before others use the pool.
  void KeepAhead(size_t bytes, std::function<void()> refill);
  // Touches new chunks until as many are ready; takes long.
  void Refill();
  // If no chunk was taken since the last call: gives unused slabs back to the kernel, but for what is kept
  // ahead.
  void TrimIfIdle();
  // Bytes in arenas, large pieces included.
  size_t bytes_used() const { return used_.load(std::memory_order_relaxed); }
  size_t bytes_ready() const { return ready_.load(std::memory_order_relaxed); }  // unused chunks
  // Those of bytes_used that are used again at once if they are given back: of empty active rounds, and of
  // lookup indexes. No flush makes them fewer.
  size_t bytes_fixed() const { return fixed_.load(std::memory_order_relaxed); }
  // Of bytes_used: what flushes under way have still to write. It comes back when they end, all at once.
  double bytes_to_write() const { return to_write_.load(std::memory_order_relaxed); }
  // Counts a large piece; negative: one less.
  void AddLarge(ptrdiff_t bytes);
  // A flush has so many bytes more to write; negative: less.
  void AddToWrite(double bytes) { to_write_.fetch_add(bytes, std::memory_order_relaxed); }
  // Counts bytes as fixed; negative: so many less.
  void AddFixed(ptrdiff_t bytes) { fixed_.fetch_add(static_cast<size_t>(bytes), std::memory_order_relaxed); }

 private:
  using Slab = char*;  // aligned to slab_bytes_

  Slab SlabOf(char* chunk) const {
    return reinterpret_cast<Slab>(reinterpret_cast<uintptr_t>(chunk) & ~(slab_bytes_ - 1));
  }
  size_t chunks_per_slab() const { return slab_bytes_ / kChunkBytes; }
  Slab NewSlab() const;         // mapped, and not touched
  void Unmap(Slab slab) const;  // gives it back to the kernel
  // Adds the chunks of a new slab.
  void AddSlabLocked(Slab slab) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Unmaps slabs of which no chunk is used, while `wanted` says so.
  template <typename Wanted>
  void UnmapFreeLocked(const Wanted& wanted) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // With `more` bytes the pool stays within keep_bytes_.
  bool IsKeptLocked(size_t more) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    return bytes_used() + bytes_ready() + more <= keep_bytes_;
  }
  // One chunk more, or less, is free.
  void CountFreeLocked(ptrdiff_t chunks) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    ready_.fetch_add(static_cast<size_t>(chunks) * kChunkBytes, std::memory_order_relaxed);
  }

  const size_t keep_bytes_;              // see the constructor
  const size_t slab_bytes_;              // a power of two
  size_t ahead_bytes_ = 0;               // see KeepAhead; 0: nothing is kept ready
  std::function<void()> refill_;         // the same
  std::atomic<bool> refill_due_{false};  // refill_ was called, and Refill has not begun
  std::atomic<size_t> used_{0};          // see bytes_used; changed under mu_
  std::atomic<size_t> ready_{0};         // see bytes_ready; changed under mu_
  std::atomic<size_t> fixed_{0};         // see bytes_fixed
  std::atomic<double> to_write_{0};      // see bytes_to_write
  Mutex mu_;
  // The free chunks of each slab. Chunks are taken from slabs that are used in part, where there are any, so
  // that whole ones can be given back.
  std::map<Slab, std::vector<char*>> slabs_ ABSL_GUARDED_BY(mu_);
  std::set<Slab> partly_free_ ABSL_GUARDED_BY(mu_);  // of which some chunks are free, and not all
  std::vector<Slab> free_ ABSL_GUARDED_BY(mu_);      // the whole of them
  uint64_t taken_ ABSL_GUARDED_BY(mu_) = 0;          // chunks, ever
  uint64_t taken_before_ ABSL_GUARDED_BY(mu_) = 0;   // by the last TrimIfIdle
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
  // Bytes of the pool that it holds: whole chunks, and large pieces.
  size_t bytes_held() const { return held_.load(std::memory_order_relaxed); }

 private:
  struct Chunk {
    char* memory;                // kChunkBytes
    std::atomic<size_t> offset;  // of what is not allocated yet
  };
  // Null: the chunk has no room; counts the bytes wasted at its end.
  char* AllocateFrom(Chunk* chunk, size_t bytes);
  // Takes a new chunk, or allocates a large piece.
  char* AllocateSlow(size_t bytes);
  // Takes a chunk whose first `used` bytes are allocated.
  Chunk* TakeChunkLocked(size_t used) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Counts a large piece; negative: one less.
  void AddLarge(ptrdiff_t bytes);

  ArenaPool* const pool_;
  std::atomic<size_t> used_{0};           // see bytes_used
  std::atomic<size_t> held_{0};           // see bytes_held
  std::atomic<Chunk*> current_{nullptr};  // small pieces come from it; null: none yet
  Mutex mu_;
  std::vector<Chunk*> chunks_ ABSL_GUARDED_BY(mu_);  // all, also full ones
  // Pieces over a quarter of a chunk, and their sizes.
  std::vector<std::pair<char*, size_t>> large_ ABSL_GUARDED_BY(mu_);
};

}  // namespace nova
