#include "ltc/arena.h"

#include <cstdlib>

namespace nova {

ArenaPool::~ArenaPool() {
  MutexLock lock(&mu_);
  for (char* chunk : free_) std::free(chunk);
}

char* ArenaPool::Take() {
  used_.fetch_add(kChunkBytes, std::memory_order_relaxed);
  {
    MutexLock lock(&mu_);
    if (!free_.empty()) {
      char* chunk = free_.back();
      free_.pop_back();
      return chunk;
    }
  }
  return static_cast<char*>(std::aligned_alloc(64, kChunkBytes));
}

void ArenaPool::Give(char* chunk) {
  used_.fetch_sub(kChunkBytes, std::memory_order_relaxed);
  {
    MutexLock lock(&mu_);
    if ((free_.size() + 1) * kChunkBytes <= keep_bytes_) {
      free_.push_back(chunk);
      return;
    }
  }
  std::free(chunk);
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

char* Arena::Allocate(size_t bytes) {
  bytes = (bytes + 7) & ~size_t{7};
  used_.fetch_add(bytes, std::memory_order_relaxed);
  Chunk* chunk = current_.load(std::memory_order_acquire);
  if (chunk != nullptr && bytes <= ArenaPool::kChunkBytes / 4) {
    const size_t offset = chunk->offset.fetch_add(bytes, std::memory_order_relaxed);
    if (offset + bytes <= ArenaPool::kChunkBytes) return chunk->memory + offset;
  }
  return AllocateSlow(bytes);
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
    if (Chunk* chunk = current_.load(std::memory_order_relaxed)) {  // somebody else may have brought a new one
      const size_t offset = chunk->offset.fetch_add(bytes, std::memory_order_relaxed);
      if (offset + bytes <= ArenaPool::kChunkBytes) return chunk->memory + offset;
    }
    auto* chunk = new Chunk{pool_->Take(), 0};
    chunks_.push_back(chunk);
    current_.store(chunk, std::memory_order_release);
  }
}

}  // namespace nova
