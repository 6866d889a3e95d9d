#include "common/rdma/tcp/region_table.h"

#include <algorithm>

#include "common/base/log.h"

namespace nova {

template <typename Fn>
void RegionTable::Change(Fn fn) ABSL_NO_THREAD_SAFETY_ANALYSIS {
  writers_.fetch_add(1);
  {
    MutexLock lock(&mu_);
    for (Mutex* reader : readers_) reader->Lock();
    fn();
    for (Mutex* reader : readers_) reader->Unlock();
  }
  writers_.fetch_sub(1);
}

StatusOr<MemoryRegion> RegionTable::Register(void* address, uint64_t size, Access access) {
  if (address == nullptr || size == 0) return absl::InvalidArgumentError("registering no memory");
  MemoryRegion region;
  Change([&] { region = keys_.Add(address, size, access); });
  regions_.fetch_add(1, std::memory_order_relaxed);
  return region;
}

void RegionTable::Revoke(const MemoryRegion& region) {
  bool removed = false;
  Change([&] {
    removed = keys_.Remove(region.lkey);
    ++version_;
  });
  if (removed) regions_.fetch_sub(1, std::memory_order_relaxed);
}

void RegionTable::AddReader(Mutex* reader) {
  MutexLock lock(&mu_);
  readers_.push_back(reader);
}

void RegionTable::RemoveReader(Mutex* reader) {
  MutexLock lock(&mu_);
  readers_.erase(std::find(readers_.begin(), readers_.end(), reader));
}

}  // namespace nova
