// FlushedLoad: the load of a range over its keys, as its flushes have seen it, and the Dranges for it. Load
// is bytes that reach Level0: that is what fills a column, what its compactions read, and what a table of it
// weighs. Versions that a flush leaves out are not counted, for they cost Level0 nothing.
//
// A flush counts on its sorted walk, into a histogram of its own; a put counts nothing. When it has written
// its tables the Dranges are reorganised, if the load asks for it. The new map travels in the edit of that
// flush, so it costs none of its own.
//
// Thread safety: all.
// Locks: one, a leaf.
// Ownership: none taken.
// Errors: none.
#pragma once

#include <atomic>
#include <memory>

#include "common/base/mutex.h"
#include "ltc/engine/compaction_options.h"
#include "ltc/engine/reorganisation.h"

namespace nova {

class FlushedLoad {
 public:
  explicit FlushedLoad(const CompactionOptions& options);
  // The map that recovery found, null: none; and maps of the manifest that it could not read.
  void Start(DrangeMapRef recovered, uint64_t damaged);

  // From the next flush on Level0 is cut into at most so many Dranges.
  void SetDranges(int dranges);
  // Level0 is cut, or is to be. Else nothing is counted and the methods below are not called.
  bool enabled() const { return dranges_.load() > 1 || cut_.load(); }
  // What one flush counts into.
  std::unique_ptr<WriteHistogram> NewPass() const;
  // A flush has written its tables: `pass` is their bytes. Returns the Dranges from now on, if they change;
  // null: they do not.
  DrangeMapRef Add(const WriteHistogram& pass);
  // The latest map; null: one Drange.
  DrangeMapRef map() const;

  uint64_t reorganisations() const { return reorganisations_.load(); }  // major ones
  uint64_t damaged() const { return damaged_.load(); }                  // see Start
  // The standard deviation of the Dranges' shares of the load, by the latest flush.
  double imbalance() const { return imbalance_.load(); }

 private:
  // Sets map_ and what follows from it.
  void SetMapLocked(DrangeMapRef map) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  std::atomic<int> dranges_;      // see SetDranges
  std::atomic<bool> cut_{false};  // map_ has more than one Drange
  std::atomic<uint64_t> reorganisations_{0};
  std::atomic<uint64_t> damaged_{0};
  std::atomic<double> imbalance_{0};
  mutable Mutex mu_;
  ReorganisationOptions options_ ABSL_GUARDED_BY(mu_);
  WriteHistogram seen_ ABSL_GUARDED_BY(mu_);     // of all flushes, the latest counts most
  double flush_bytes_ ABSL_GUARDED_BY(mu_) = 0;  // of a flush, a running mean
  DrangeMapRef map_ ABSL_GUARDED_BY(mu_);        // see map
};

}  // namespace nova
