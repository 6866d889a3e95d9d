#include "ltc/engine/arena.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "common/base/log.h"

namespace nova {
namespace {

constexpr size_t kPageBytes = 4096;

size_t RoundUp(size_t bytes) { return (bytes + 7) & ~size_t{7}; }

}  // namespace

ArenaPool::~ArenaPool() {
  MutexLock lock(&mu_);
  for (const auto& [slab, chunks] : slabs_) Unmap(slab);
}

// Twice the bytes hold an aligned slab; the rest is given back.
ArenaPool::Slab ArenaPool::NewSlab() const {
  void* const mapped =
      mmap(nullptr, 2 * slab_bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  NOVA_CHECK(mapped != MAP_FAILED) << "no memory for memtables";
  char* const begin = static_cast<char*>(mapped);
  char* const slab = SlabOf(begin + slab_bytes_ - 1);
  if (slab > begin) munmap(begin, static_cast<size_t>(slab - begin));
  munmap(slab + slab_bytes_, static_cast<size_t>(begin + slab_bytes_ - slab));
  if (slab_bytes_ == kHugeSlabBytes) madvise(slab, slab_bytes_, MADV_HUGEPAGE);  // it works without as well
  return slab;
}

void ArenaPool::Unmap(Slab slab) const { munmap(slab, slab_bytes_); }

void ArenaPool::AddSlabLocked(Slab slab) {
  std::vector<char*>& chunks = slabs_[slab];
  for (size_t i = chunks_per_slab(); i > 0; --i) chunks.push_back(slab + (i - 1) * kChunkBytes);
  free_.push_back(slab);
  CountFreeLocked(static_cast<ptrdiff_t>(chunks_per_slab()));
}

template <typename Wanted>
void ArenaPool::UnmapFreeLocked(const Wanted& wanted) {
  while (!free_.empty() && wanted()) {
    Unmap(free_.back());
    slabs_.erase(free_.back());
    free_.pop_back();
    CountFreeLocked(-static_cast<ptrdiff_t>(chunks_per_slab()));
  }
}

char* ArenaPool::Take() {
  char* chunk = nullptr;
  bool wanting;  // more that are ready
  {
    MutexLock lock(&mu_);
    if (partly_free_.empty()) {
      if (free_.empty()) AddSlabLocked(NewSlab());
      partly_free_.insert(free_.back());
      free_.pop_back();
    }
    const auto slab = partly_free_.begin();
    std::vector<char*>& chunks = slabs_[*slab];
    chunk = chunks.back();
    chunks.pop_back();
    if (chunks.empty()) partly_free_.erase(slab);
    ++taken_;
    CountFreeLocked(-1);
    used_.fetch_add(kChunkBytes, std::memory_order_relaxed);
    wanting = bytes_ready() < ahead_bytes_ && IsKeptLocked(slab_bytes_);
  }
  if (wanting && !refill_due_.exchange(true)) refill_();
  return chunk;
}

void ArenaPool::Give(char* chunk) {
  MutexLock lock(&mu_);
  used_.fetch_sub(kChunkBytes, std::memory_order_relaxed);
  CountFreeLocked(1);
  const Slab slab = SlabOf(chunk);
  std::vector<char*>& chunks = slabs_[slab];
  chunks.push_back(chunk);
  if (chunks.size() < chunks_per_slab()) {
    partly_free_.insert(slab);
  } else {
    partly_free_.erase(slab);
    free_.push_back(slab);
  }
  UnmapFreeLocked([this]() ABSL_NO_THREAD_SAFETY_ANALYSIS { return !IsKeptLocked(0); });
}

void ArenaPool::AddLarge(ptrdiff_t bytes) {
  MutexLock lock(&mu_);
  used_.fetch_add(static_cast<size_t>(bytes), std::memory_order_relaxed);
  UnmapFreeLocked([this]() ABSL_NO_THREAD_SAFETY_ANALYSIS { return !IsKeptLocked(0); });
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
      if (bytes_ready() >= ahead_bytes_ || !IsKeptLocked(slab_bytes_)) return;
    }
    const Slab slab = NewSlab();
    for (size_t at = 0; at < slab_bytes_; at += kPageBytes) *static_cast<volatile char*>(slab + at) = 0;
    MutexLock lock(&mu_);
    AddSlabLocked(slab);
  }
}

void ArenaPool::TrimIfIdle() {
  MutexLock lock(&mu_);
  if (std::exchange(taken_before_, taken_) != taken_) return;
  UnmapFreeLocked([this] { return bytes_ready() >= ahead_bytes_ + slab_bytes_; });
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
    AddLarge(-static_cast<ptrdiff_t>(bytes));
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
  return TakeChunkLocked(ArenaPool::kChunkBytes)->memory;
}

Arena::Chunk* Arena::TakeChunkLocked(size_t used) {
  chunks_.push_back(new Chunk{pool_->Take(), used});
  held_.fetch_add(ArenaPool::kChunkBytes, std::memory_order_relaxed);
  return chunks_.back();
}

void Arena::AddLarge(ptrdiff_t bytes) {
  pool_->AddLarge(bytes);
  held_.fetch_add(static_cast<size_t>(bytes), std::memory_order_relaxed);
}

char* Arena::AllocateSlow(size_t bytes) {
  MutexLock lock(&mu_);
  if (bytes > ArenaPool::kChunkBytes / 4) {
    char* memory = static_cast<char*>(std::malloc(bytes));
    large_.emplace_back(memory, bytes);
    AddLarge(static_cast<ptrdiff_t>(bytes));
    return memory;
  }
  for (;;) {
    // somebody else may have brought a new one
    if (Chunk* chunk = current_.load(std::memory_order_relaxed)) {
      if (char* memory = AllocateFrom(chunk, bytes)) return memory;
    }
    current_.store(TakeChunkLocked(0), std::memory_order_release);
  }
}

}  // namespace nova
