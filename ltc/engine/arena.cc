#include "ltc/engine/arena.h"

#include <algorithm>
#include <cstdint>
#include <cstdlib>

#include "common/base/log.h"

namespace nova {
namespace {

constexpr size_t kPageBytes = 4096;

size_t RoundUp(size_t bytes) { return (bytes + 7) & ~size_t{7}; }

}  // namespace

ArenaPool::~ArenaPool() {
  MutexLock lock(&mu_);
  for (char* chunk : free_) std::free(chunk);
}

char* ArenaPool::Take() {
  char* chunk = nullptr;
  bool wanting;  // more that are ready
  {
    MutexLock lock(&mu_);
    if (!free_.empty()) {
      chunk = free_.back();
      free_.pop_back();
    }
    SetReadyLocked();
    used_.fetch_add(kChunkBytes, std::memory_order_relaxed);
    wanting = free_.size() * kChunkBytes < ahead_bytes_ && IsKeptLocked(kChunkBytes);
  }
  if (wanting && !refill_due_.exchange(true)) refill_();
  return chunk != nullptr ? chunk : static_cast<char*>(std::aligned_alloc(64, kChunkBytes));
}

void ArenaPool::Give(char* chunk) {
  {
    MutexLock lock(&mu_);
    used_.fetch_sub(kChunkBytes, std::memory_order_relaxed);
    if (IsKeptLocked(kChunkBytes)) {
      free_.push_back(chunk);
      return SetReadyLocked();
    }
  }
  std::free(chunk);
}

void ArenaPool::AddLarge(ptrdiff_t bytes) {
  MutexLock lock(&mu_);
  used_.fetch_add(static_cast<size_t>(bytes), std::memory_order_relaxed);
  for (; !free_.empty() && !IsKeptLocked(0); free_.pop_back()) std::free(free_.back());
  SetReadyLocked();
}

void ArenaPool::KeepAhead(size_t bytes, std::function<void()> refill) {
  ahead_bytes_ = bytes;
  refill_ = std::move(refill);
  if (!refill_due_.exchange(true)) refill_();
}

void ArenaPool::Refill() {
  refill_due_.store(false);
  for (;;) {
    {
      MutexLock lock(&mu_);
      if (free_.size() * kChunkBytes >= ahead_bytes_ || !IsKeptLocked(kChunkBytes)) return;
    }
    char* chunk = static_cast<char*>(std::aligned_alloc(64, kChunkBytes));
    for (size_t at = 0; at < kChunkBytes; at += kPageBytes) *static_cast<volatile char*>(chunk + at) = 0;
    MutexLock lock(&mu_);
    // warm ones first: what was just given back may still be in the processor's cache
    free_.insert(free_.begin(), chunk);
    SetReadyLocked();
  }
}

Arena::~Arena() {
  MutexLock lock(&mu_);
  for (Chunk* chunk : chunks_) {
    pool_->Give(chunk->memory);
    delete chunk;
  }
  for (const auto& [memory, bytes] : large_) {
    pool_->AddLarge(-static_cast<ptrdiff_t>(bytes));
    std::free(memory);
  }
}

// Null: the chunk has no room. Whose piece would reach over its end counts what is wasted there.
// Acquire, with the release in GiveBack: whoever had this piece before is done with it.
char* Arena::AllocateFrom(Chunk* chunk, size_t bytes) {
  const size_t offset = chunk->offset.fetch_add(bytes, std::memory_order_acquire);
  if (offset + bytes <= ArenaPool::kChunkBytes) return chunk->memory + offset;
  if (offset < ArenaPool::kChunkBytes)
    used_.fetch_add(ArenaPool::kChunkBytes - offset, std::memory_order_relaxed);
  return nullptr;
}

char* Arena::Allocate(size_t bytes) {
  bytes = RoundUp(bytes);
  used_.fetch_add(bytes, std::memory_order_relaxed);
  Chunk* chunk = current_.load(std::memory_order_acquire);
  if (chunk != nullptr && bytes <= ArenaPool::kChunkBytes / 4) {
    if (char* memory = AllocateFrom(chunk, bytes)) return memory;
  }
  return AllocateSlow(bytes);
}

void Arena::GiveBack(char* memory, size_t bytes) {
  bytes = RoundUp(bytes);
  if (bytes > ArenaPool::kChunkBytes / 4) {
    MutexLock lock(&mu_);
    const auto piece =
        std::find_if(large_.begin(), large_.end(), [memory](const auto& p) { return p.first == memory; });
    NOVA_CHECK(piece != large_.end()) << "memory that is not of this arena";
    large_.erase(piece);
    pool_->AddLarge(-static_cast<ptrdiff_t>(bytes));
    std::free(memory);
  } else {
    Chunk* const chunk = current_.load(std::memory_order_acquire);
    // beyond it: an older chunk's
    const size_t at = reinterpret_cast<uintptr_t>(memory) - reinterpret_cast<uintptr_t>(chunk->memory);
    size_t end = at + bytes;
    if (at >= ArenaPool::kChunkBytes ||
        !chunk->offset.compare_exchange_strong(end, at, std::memory_order_release, std::memory_order_relaxed))
      return;
  }
  used_.fetch_sub(bytes, std::memory_order_relaxed);
}

char* Arena::AllocateChunk() {
  used_.fetch_add(ArenaPool::kChunkBytes, std::memory_order_relaxed);
  MutexLock lock(&mu_);
  chunks_.push_back(new Chunk{pool_->Take(), ArenaPool::kChunkBytes});
  return chunks_.back()->memory;
}

char* Arena::AllocateSlow(size_t bytes) {
  MutexLock lock(&mu_);
  if (bytes > ArenaPool::kChunkBytes / 4) {
    char* memory = static_cast<char*>(std::malloc(bytes));
    large_.emplace_back(memory, bytes);
    pool_->AddLarge(static_cast<ptrdiff_t>(bytes));
    return memory;
  }
  for (;;) {
    // somebody else may have brought a new one
    if (Chunk* chunk = current_.load(std::memory_order_relaxed)) {
      if (char* memory = AllocateFrom(chunk, bytes)) return memory;
    }
    auto* chunk = new Chunk{pool_->Take(), 0};
    chunks_.push_back(chunk);
    current_.store(chunk, std::memory_order_release);
  }
}

}  // namespace nova
