// KeyTable: the registered memory of one fabric by key, and the check that every remote and local access
// passes.
//
// Keys have 32 bits, look random, and come back only after 2^32 registrations; a device brings its own keys.
// A key is protection, not identity (salt, L1).
//
// Thread safety: none; RegionTable adds it, and a simulation needs none.
// Ownership: regions stay the caller's memory.
// Errors: none; Allows says no.
#pragma once

#include <cstdint>

#include "absl/container/flat_hash_map.h"
#include "common/rdma/fabric.h"

namespace nova {

class KeyTable {
 public:
  explicit KeyTable(uint64_t seed = 0);  // equal seeds give equal keys

  // Registers memory under a new key, as lkey and, if peers may reach it, as rkey.
  MemoryRegion Add(void* address, uint64_t size, Access access);
  // Adds a region under the key that a device gave it.
  void Add(const MemoryRegion& region) { regions_.emplace(region.lkey, region); }
  bool Remove(uint32_t key);  // false: there is no such key
  // The key is live, [address, address + length) lies inside its region, and the region grants `need`.
  bool Allows(uint32_t key, uint64_t address, uint64_t length, Access need) const;
  // The pieces of a request of ours lie in registered memory, writable by it if it is a READ.
  bool AllowsPieces(const WorkRequest& request) const;
  size_t size() const { return regions_.size(); }

 private:
  // The next key that is not in use, never 0.
  uint32_t NextKey();

  uint32_t multiplier_;  // odd, so that count_ gives each key once
  uint32_t offset_;
  uint32_t count_ = 0;
  absl::flat_hash_map<uint32_t, MemoryRegion> regions_;
};

}  // namespace nova
