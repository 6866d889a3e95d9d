// VerbsRegions: the memory of a fabric that is registered with its device: by key, and with what libibverbs
// needs to deregister it. Internal to the verbs fabric.
//
// Thread safety: all.
// Ownership: owns the registrations it holds, and ends them with itself; the memory is the caller's.
// Errors: none.
#pragma once

#include <infiniband/verbs.h>

#include <atomic>

#include "absl/container/flat_hash_map.h"
#include "common/base/mutex.h"
#include "common/rdma/key_table.h"

namespace nova {

class VerbsRegions {
 public:
  ~VerbsRegions() {
    MutexLock lock(&mu_);
    for (const auto& [lkey, mr] : registered_) ibv_dereg_mr(mr);
  }

  void Add(const MemoryRegion& region, ibv_mr* mr) {
    MutexLock lock(&mu_);
    registered_.emplace(mr->lkey, mr);
    by_key_.Add(region);
    version_.fetch_add(1, std::memory_order_release);
  }
  // The caller deregisters it. Null: it is not registered.
  ibv_mr* Take(uint32_t lkey) {
    MutexLock lock(&mu_);
    const auto it = registered_.find(lkey);
    if (it == registered_.end()) return nullptr;
    ibv_mr* const mr = it->second;
    registered_.erase(it);
    by_key_.Remove(lkey);
    version_.fetch_add(1, std::memory_order_release);
    return mr;
  }
  // Copies what is registered to *regions, unless that is of the present version. No lock if it is.
  void Refresh(uint64_t* version, KeyTable* regions) const {
    if (*version == version_.load(std::memory_order_acquire)) return;
    MutexLock lock(&mu_);
    *version = version_.load(std::memory_order_relaxed);
    *regions = by_key_;
  }
  size_t size() const {
    MutexLock lock(&mu_);
    return by_key_.size();
  }

 private:
  mutable Mutex mu_;
  KeyTable by_key_ ABSL_GUARDED_BY(mu_);
  absl::flat_hash_map<uint32_t, ibv_mr*> registered_ ABSL_GUARDED_BY(mu_);  // by lkey
  std::atomic<uint64_t> version_{1};                                        // rises with each change
};

}  // namespace nova
