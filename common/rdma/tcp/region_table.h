// RegionTable: the KeyTable of a fabric whose ports run in different threads, with the lock for revocation
// (F1).
//
// Each reader (a port) registers a mutex of its own here, and holds it while it looks up keys and while it
// touches registered memory, in bounded chunks. A change of the table holds all of them. So readers never
// contend with each other, and when Revoke has returned no reader is in the middle of a chunk that it checked
// before.
//
// Thread safety: Register, Revoke, AddReader, RemoveReader from any thread that holds no reader's mutex;
//   keys() and version() under a reader's mutex; regions() from any.
// Locks: mu_, then the readers' mutexes in order.
// Ownership: readers' mutexes outlive their registration.
// Errors: InvalidArgument: empty memory.
#pragma once

#include <atomic>
#include <vector>

#include "common/base/mutex.h"
#include "common/rdma/key_table.h"

namespace nova {

class RegionTable {
 public:
  explicit RegionTable(uint64_t seed) : keys_(seed) {}

  StatusOr<MemoryRegion> Register(void* address, uint64_t size, Access access);  // waits for chunks under way
  // Likewise; fine if the region is gone already.
  void Revoke(const MemoryRegion& region);

  void AddReader(Mutex* reader);  // before the reader uses keys()
  void RemoveReader(Mutex* reader);

  const KeyTable& keys() const { return keys_; }  // under a reader's mutex
  // Changes with every revocation: memory checked at the same version needs no second look.
  uint64_t version() const { return version_; }
  int64_t regions() const { return regions_.load(std::memory_order_relaxed); }  // registered now

 private:
  friend class RegionLock;
  // Runs `fn` with mu_ and all readers' mutexes held.
  template <typename Fn>
  void Change(Fn fn);

  Mutex mu_;  // taken before any reader's
  std::vector<Mutex*> readers_ ABSL_GUARDED_BY(mu_);
  std::atomic<int> writers_{0};  // changes under way or waiting
  std::atomic<int64_t> regions_{0};
  KeyTable keys_;         // changed under mu_ and all readers' mutexes, read under any of them
  uint64_t version_ = 1;  // under mu_ and all readers' mutexes, read under any of them
};

// Holds a reader's mutex. Lets a waiting change of the table go first, so that a busy port cannot starve it.
class ABSL_SCOPED_LOCKABLE RegionLock {
 public:
  RegionLock(RegionTable* table, Mutex* reader) ABSL_EXCLUSIVE_LOCK_FUNCTION(reader) : reader_(reader) {
    if (table->writers_.load(std::memory_order_relaxed) > 0) {
      MutexLock behind_the_writer(&table->mu_);
    }
    reader_->Lock();
  }
  ~RegionLock() ABSL_UNLOCK_FUNCTION() { reader_->Unlock(); }
  RegionLock(const RegionLock&) = delete;
  RegionLock& operator=(const RegionLock&) = delete;

 private:
  Mutex* const reader_;
};

}  // namespace nova
