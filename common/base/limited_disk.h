// LimitedDisk: a Disk in front of another that takes as long as a modelled one: one spindle of
// bytes_per_second, shared by all reads and writes in order of arrival. After an idle time up to burst_bytes
// pass at once. Syncs and operations on names are as fast as the base's. Reads can be modelled as of a
// machine whose page cache holds all that is stored: those cost the disk nothing, but for reads past the page
// cache.
//
// Thread safety: all; calls wait.
// Ownership: `base` outlives it.
// Errors: the base's.
// Units: time is Now(): virtual in a simulation.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "common/base/clock.h"
#include "common/base/disk.h"
#include "common/base/mutex.h"
#include "common/base/token_bucket.h"

namespace nova {

struct LimitedDiskOptions {
  uint64_t bytes_per_second = 100 << 20;  // > 0
  uint64_t burst_bytes = 256 << 10;       // that pass without a wait after an idle time
  bool reads_are_cached = false;          // the page cache holds all that is stored
};

// The modelled disk's time, shared by all that read and write on it.
class DiskBandwidth {
 public:
  explicit DiskBandwidth(const LimitedDiskOptions& options);
  void Take(size_t bytes);  // waits for its turn and for its end
  bool reads_are_cached() const { return reads_are_cached_; }
  // False: as fast as the base; the bytes that pass then are not owed later.
  void SetLimited(bool limited) { limited_.store(limited); }

 private:
  const bool reads_are_cached_;
  std::atomic<bool> limited_{true};
  Mutex mu_;
  TokenBucket bucket_ ABSL_GUARDED_BY(mu_);
};

class LimitedDisk : public Disk {
 public:
  LimitedDisk(Disk* base, const LimitedDiskOptions& options)
      : LimitedDisk(base, std::make_shared<DiskBandwidth>(options)) {}
  LimitedDisk(Disk* base, std::shared_ptr<DiskBandwidth> bandwidth);
  ~LimitedDisk() override;

  StatusOr<std::unique_ptr<DiskFile>> Create(const std::string& path) override;
  StatusOr<std::unique_ptr<DiskFile>> Open(const std::string& path, bool writable) override;
  StatusOr<std::unique_ptr<DiskFile>> OpenUncached(const std::string& path) override;
  Status Delete(const std::string& path) override { return base_->Delete(path); }
  Status Rename(const std::string& from, const std::string& to) override { return base_->Rename(from, to); }
  Status MakeDirectory(const std::string& path) override { return base_->MakeDirectory(path); }
  Status SyncDirectory(const std::string& path) override { return base_->SyncDirectory(path); }
  StatusOr<std::vector<std::string>> List(const std::string& path) override { return base_->List(path); }
  StatusOr<uint64_t> FreeBytes() override { return base_->FreeBytes(); }
  Uuid Boot() const override { return base_->Boot(); }
  Status Lock(const std::string& path) override { return base_->Lock(path); }

 private:
  class File;
  Disk* const base_;
  const std::shared_ptr<DiskBandwidth> bandwidth_;  // shared with open files
};

}  // namespace nova
