#include "common/rdma/buffer_pool.h"

#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <bit>
#include <utility>

#include "common/base/log.h"

namespace nova {
namespace {

constexpr size_t kMinPiece = 256;
constexpr size_t kClasses = 64;

size_t ClassOf(size_t capacity) { return static_cast<size_t>(std::countr_zero(capacity)); }

}  // namespace

// One registration, cut into pieces of one size. All but its region is guarded by the pool's lock.
struct BufferSlab {
  MemoryRegion region;
  size_t piece = 0;            // bytes of each
  uint32_t count = 0;          // pieces
  uint32_t used = 0;           // of them, with users
  uint32_t touched = 0;        // those from here on have had no user since the slab was cut
  std::vector<uint32_t> free;  // those before that are free; the warmest last
  BufferSlab* prev = nullptr;
  BufferSlab* next = nullptr;

  // REQUIRES: none is used. Costs no walk over the pieces.
  void Cut(size_t bytes) {
    if (piece == bytes) return;
    piece = bytes;
    count = static_cast<uint32_t>(region.size / bytes);
    touched = 0;
    free.clear();
    free.reserve(count);
  }
  // REQUIRES: used < count.
  std::byte* Take() {
    ++used;
    uint32_t index = touched;
    if (free.empty()) {
      ++touched;
    } else {
      index = free.back();
      free.pop_back();
    }
    return region.address + index * piece;
  }
  void Return(const std::byte* data) {
    --used;
    free.push_back(static_cast<uint32_t>(static_cast<size_t>(data - region.address) / piece));
  }
};

namespace {

// Slabs linked in place; a slab is in one list at most.
class SlabList {
 public:
  SlabList() { head_.prev = head_.next = &head_; }
  SlabList(const SlabList&) = delete;
  SlabList& operator=(const SlabList&) = delete;
  BufferSlab* front() const { return head_.next == &head_ ? nullptr : head_.next; }
  BufferSlab* after(const BufferSlab* slab) const { return slab->next == &head_ ? nullptr : slab->next; }
  void PushFront(BufferSlab* slab) { Link(slab, &head_); }
  void PushBack(BufferSlab* slab) { Link(slab, head_.prev); }
  static void Remove(BufferSlab* slab) {
    slab->prev->next = slab->next;
    slab->next->prev = slab->prev;
    slab->prev = slab->next = nullptr;
  }

 private:
  static void Link(BufferSlab* slab, BufferSlab* behind) {
    slab->prev = behind;
    slab->next = behind->next;
    behind->next->prev = slab;
    behind->next = slab;
  }

  BufferSlab head_;
};

}  // namespace

// A slab is in `partial` of its class while some of its pieces are used and some are not, in `empty` while
// none is, in no list while all are. Pieces come from the front of `partial`, so that the slabs behind it
// drain. Only an empty slab is cut anew or given back.
struct BufferPool::Rep {
  Fabric* fabric;
  Access access;
  size_t max_bytes;
  size_t slab_bytes;

  mutable Mutex mu;
  std::vector<std::unique_ptr<BufferSlab>> slabs ABSL_GUARDED_BY(mu);
  std::array<SlabList, kClasses> partial ABSL_GUARDED_BY(mu);
  SlabList empty ABSL_GUARDED_BY(mu);  // the warmest first
  size_t empty_bytes ABSL_GUARDED_BY(mu) = 0;
  size_t in_use ABSL_GUARDED_BY(mu) = 0;
  size_t registered ABSL_GUARDED_BY(mu) = 0;

  BufferSlab* EmptySlab(size_t capacity, bool beyond) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu);
  BufferSlab* Map(size_t bytes) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu);
  void Unmap(BufferSlab* slab) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu);
  void UnmapEmpty(size_t bytes) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu);
};

// A slab without users, in no list, cut for `capacity`: one that is there, or a new one, for which others may
// have to go. Null: the bound is reached, or the system gives no more.
BufferSlab* BufferPool::Rep::EmptySlab(size_t capacity, bool beyond) {
  const size_t bytes = std::max(slab_bytes, capacity);
  if (!beyond && registered - empty_bytes + bytes > max_bytes) return nullptr;
  BufferSlab* slab = empty.front();
  while (slab != nullptr && slab->region.size != bytes) slab = empty.after(slab);
  if (slab != nullptr) {
    SlabList::Remove(slab);
    empty_bytes -= bytes;
  } else {
    if (registered + bytes > max_bytes) UnmapEmpty(registered + bytes - max_bytes);
    slab = Map(bytes);
    if (slab == nullptr && empty_bytes > 0) {  // the system's own bound, of lockable memory perhaps
      UnmapEmpty(empty_bytes);
      slab = Map(bytes);
    }
    if (slab == nullptr) return nullptr;
  }
  slab->Cut(capacity);
  return slab;
}

BufferSlab* BufferPool::Rep::Map(size_t bytes) {
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return nullptr;
  const auto region = fabric->Register(memory, bytes, access);
  if (!region.ok()) {
    munmap(memory, bytes);
    return nullptr;
  }
  slabs.push_back(std::make_unique<BufferSlab>());
  slabs.back()->region = *region;
  registered += bytes;
  return slabs.back().get();
}

void BufferPool::Rep::Unmap(BufferSlab* slab) {
  fabric->Revoke(slab->region);
  munmap(slab->region.address, slab->region.size);
  registered -= slab->region.size;
  std::erase_if(slabs, [slab](const auto& s) { return s.get() == slab; });
}

// Gives back empty slabs of `bytes` together, or all.
void BufferPool::Rep::UnmapEmpty(size_t bytes) {
  for (size_t unmapped = 0; unmapped < bytes && empty.front() != nullptr;) {
    BufferSlab* slab = empty.front();
    unmapped += slab->region.size;
    empty_bytes -= slab->region.size;
    SlabList::Remove(slab);
    Unmap(slab);
  }
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
  while (!rep_->slabs.empty()) rep_->Unmap(rep_->slabs.back().get());
}

Buffer BufferPool::Take(size_t bytes, bool beyond) {
  Buffer out;
  if (bytes > rep_->max_bytes) return out;
  const size_t capacity = std::bit_ceil(std::max(bytes, kMinPiece));
  MutexLock lock(&rep_->mu);
  SlabList& partial = rep_->partial[ClassOf(capacity)];
  BufferSlab* slab = partial.front();
  const bool fresh = slab == nullptr;
  if (fresh) slab = rep_->EmptySlab(capacity, beyond);
  if (slab == nullptr) return out;
  out.data_ = slab->Take();
  const bool full = slab->used == slab->count;
  if (fresh && !full) partial.PushFront(slab);
  if (!fresh && full) SlabList::Remove(slab);
  rep_->in_use += capacity;
  out.pool_ = this;
  out.slab_ = slab;
  out.capacity_ = capacity;
  out.lkey_ = slab->region.lkey;
  out.rkey_ = slab->region.rkey;
  return out;
}

void BufferPool::Free(BufferSlab* slab, const std::byte* data) {
  MutexLock lock(&rep_->mu);
  const bool was_full = slab->used == slab->count;
  slab->Return(data);
  rep_->in_use -= slab->piece;
  if (slab->used == 0) {
    if (!was_full) SlabList::Remove(slab);
    rep_->empty.PushFront(slab);
    rep_->empty_bytes += slab->region.size;
  } else if (was_full) {
    rep_->partial[ClassOf(slab->piece)].PushBack(slab);
  }
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
  slab_ = other.slab_;
  capacity_ = std::exchange(other.capacity_, 0);
  lkey_ = other.lkey_;
  rkey_ = other.rkey_;
  return *this;
}

void Buffer::Reset() {
  if (data_ != nullptr) pool_->Free(slab_, data_);
  pool_ = nullptr;
  data_ = nullptr;
  capacity_ = 0;
}

}  // namespace nova
