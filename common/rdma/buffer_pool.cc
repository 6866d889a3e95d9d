#include "common/rdma/buffer_pool.h"

#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <map>

#include "common/base/log.h"

namespace nova {
namespace {

constexpr size_t kMinPiece = 256;
constexpr size_t kClasses = 64;

size_t ClassOf(size_t capacity) { return static_cast<size_t>(std::countr_zero(capacity)); }

}  // namespace

// A slab is cut into pieces of one size and stays so: no piece is ever split or merged. A free piece's class
// is its capacity's logarithm; which slab (hence which key) it lies in is found by its address.
struct BufferPool::Rep {
  Fabric* fabric;
  Access access;
  size_t max_bytes;
  size_t slab_bytes;

  struct Slab {
    MemoryRegion region;
    size_t piece = 0;
  };
  struct Piece {
    std::byte* data;
    uint32_t lkey, rkey;
  };
  mutable Mutex mu;
  std::map<std::byte*, Slab> slabs ABSL_GUARDED_BY(mu);  // by first byte
  std::array<std::vector<Piece>, kClasses> free ABSL_GUARDED_BY(mu);
  size_t in_use ABSL_GUARDED_BY(mu) = 0;
  size_t registered ABSL_GUARDED_BY(mu) = 0;

  bool AddSlab(size_t capacity) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu);
};

bool BufferPool::Rep::AddSlab(size_t capacity) {
  const size_t bytes = std::max(slab_bytes, capacity);
  if (bytes > max_bytes - registered) return false;
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return false;
  const auto region = fabric->Register(memory, bytes, access);
  if (!region.ok()) {
    munmap(memory, bytes);
    return false;
  }
  auto* base = static_cast<std::byte*>(memory);
  slabs.emplace(base, Slab{*region, capacity});
  registered += bytes;
  // Handed out from the front: the last pushed goes first.
  for (size_t at = bytes; at > 0; at -= capacity) {
    free[ClassOf(capacity)].push_back({base + at - capacity, region->lkey, region->rkey});
  }
  return true;
}

BufferPool::BufferPool(Fabric* fabric, Access access, size_t max_bytes, size_t slab_bytes)
    : rep_(std::make_unique<Rep>()) {
  NOVA_CHECK(std::has_single_bit(slab_bytes) && slab_bytes >= kMinPiece) << "slab_bytes is a power of two";
  rep_->fabric = fabric;
  rep_->access = access;
  rep_->max_bytes = max_bytes;
  rep_->slab_bytes = slab_bytes;
}

BufferPool::~BufferPool() {
  MutexLock lock(&rep_->mu);
  NOVA_CHECK(rep_->in_use == 0) << "buffers outlive their pool";
  for (const auto& [base, slab] : rep_->slabs) {
    rep_->fabric->Revoke(slab.region);
    munmap(base, slab.region.size);
  }
}

Buffer BufferPool::Allocate(size_t bytes) {
  Buffer out;
  if (bytes > rep_->max_bytes) return out;
  const size_t capacity = std::bit_ceil(std::max(bytes, kMinPiece));
  MutexLock lock(&rep_->mu);
  auto& free = rep_->free[ClassOf(capacity)];
  if (free.empty() && !rep_->AddSlab(capacity)) return out;
  const Rep::Piece piece = free.back();
  free.pop_back();
  rep_->in_use += capacity;
  out.pool_ = this;
  out.data_ = piece.data;
  out.capacity_ = capacity;
  out.lkey_ = piece.lkey;
  out.rkey_ = piece.rkey;
  return out;
}

void BufferPool::Free(std::byte* data, size_t capacity) {
  MutexLock lock(&rep_->mu);
  const MemoryRegion& region = std::prev(rep_->slabs.upper_bound(data))->second.region;
  rep_->free[ClassOf(capacity)].push_back({data, region.lkey, region.rkey});
  rep_->in_use -= capacity;
}

size_t BufferPool::bytes_in_use() const {
  MutexLock lock(&rep_->mu);
  return rep_->in_use;
}

size_t BufferPool::bytes_registered() const {
  MutexLock lock(&rep_->mu);
  return rep_->registered;
}

Buffer& Buffer::operator=(Buffer&& other) noexcept {
  if (this == &other) return *this;
  Reset();
  pool_ = std::exchange(other.pool_, nullptr);
  data_ = std::exchange(other.data_, nullptr);
  capacity_ = std::exchange(other.capacity_, 0);
  lkey_ = other.lkey_;
  rkey_ = other.rkey_;
  return *this;
}

void Buffer::Reset() {
  if (data_ != nullptr) pool_->Free(data_, capacity_);
  pool_ = nullptr;
  data_ = nullptr;
  capacity_ = 0;
}

}  // namespace nova
