#include "common/base/limited_disk.h"

#include "common/base/log.h"

namespace nova {

DiskBandwidth::DiskBandwidth(const LimitedDiskOptions& options)
    : reads_are_cached_(options.reads_are_cached), bucket_(options.bytes_per_second, options.burst_bytes) {
  NOVA_CHECK(options.bytes_per_second > 0);
}

void DiskBandwidth::Take(size_t bytes) {
  if (!limited_.load(std::memory_order_relaxed)) return;
  Nanos done;
  {
    MutexLock lock(&mu_);
    done = bucket_.Take(bytes, Now());
  }
  if (done > Now()) SleepUntil(done);
}

class LimitedDisk::File : public DiskFile {
 public:
  File(std::unique_ptr<DiskFile> base, std::shared_ptr<DiskBandwidth> bandwidth, bool reads_are_cached)
      : base_(std::move(base)), bandwidth_(std::move(bandwidth)), reads_are_cached_(reads_are_cached) {}
  Status Write(uint64_t offset, std::string_view data) override {
    bandwidth_->Take(data.size());
    return base_->Write(offset, data);
  }
  Status Read(uint64_t offset, size_t n, char* out) override {
    if (!reads_are_cached_) bandwidth_->Take(n);
    return base_->Read(offset, n, out);
  }
  Status Sync() override { return base_->Sync(); }
  StatusOr<uint64_t> Size() override { return base_->Size(); }

 private:
  const std::unique_ptr<DiskFile> base_;
  const std::shared_ptr<DiskBandwidth> bandwidth_;
  const bool reads_are_cached_;
};

LimitedDisk::LimitedDisk(Disk* base, std::shared_ptr<DiskBandwidth> bandwidth)
    : base_(base), bandwidth_(std::move(bandwidth)) {}
LimitedDisk::~LimitedDisk() = default;

StatusOr<std::unique_ptr<DiskFile>> LimitedDisk::Create(const std::string& path) {
  NOVA_ASSIGN_OR_RETURN(auto file, base_->Create(path));
  return std::unique_ptr<DiskFile>(
      std::make_unique<File>(std::move(file), bandwidth_, bandwidth_->reads_are_cached()));
}
StatusOr<std::unique_ptr<DiskFile>> LimitedDisk::Open(const std::string& path, bool writable) {
  NOVA_ASSIGN_OR_RETURN(auto file, base_->Open(path, writable));
  return std::unique_ptr<DiskFile>(
      std::make_unique<File>(std::move(file), bandwidth_, bandwidth_->reads_are_cached()));
}
StatusOr<std::unique_ptr<DiskFile>> LimitedDisk::OpenUncached(const std::string& path) {
  NOVA_ASSIGN_OR_RETURN(auto file, base_->OpenUncached(path));
  return std::unique_ptr<DiskFile>(
      std::make_unique<File>(std::move(file), bandwidth_, /*reads_are_cached=*/false));
}

}  // namespace nova
