#include "common/base/limited_disk.h"

#include <algorithm>

#include "common/base/log.h"
#include "common/base/mutex.h"

namespace nova {

class LimitedDisk::Bucket {
 public:
  explicit Bucket(const LimitedDiskOptions& options)
      : ns_per_byte_(static_cast<double>(kSecond) / static_cast<double>(options.bytes_per_second)),
        burst_ns_(TimeOf(options.burst_bytes)) {}

  // Waits for the turn of n bytes.
  void Take(size_t n) {
    Nanos done;
    {
      MutexLock lock(&mu_);
      free_at_ns_ = std::max(free_at_ns_, Now() - burst_ns_) + TimeOf(n);
      done = free_at_ns_;
    }
    if (done > Now()) SleepUntil(done);
  }

 private:
  Nanos TimeOf(uint64_t bytes) const { return static_cast<Nanos>(static_cast<double>(bytes) * ns_per_byte_); }

  const double ns_per_byte_;
  const Nanos burst_ns_;
  Mutex mu_;
  Nanos free_at_ns_ ABSL_GUARDED_BY(mu_) = 0;  // when the disk has done all it was given
};

class LimitedDisk::File : public DiskFile {
 public:
  File(std::unique_ptr<DiskFile> base, std::shared_ptr<Bucket> bucket) : base_(std::move(base)), bucket_(std::move(bucket)) {}
  Status Write(uint64_t offset, std::string_view data) override {
    bucket_->Take(data.size());
    return base_->Write(offset, data);
  }
  Status Read(uint64_t offset, size_t n, char* out) override {
    bucket_->Take(n);
    return base_->Read(offset, n, out);
  }
  Status Sync() override { return base_->Sync(); }
  StatusOr<uint64_t> Size() override { return base_->Size(); }

 private:
  const std::unique_ptr<DiskFile> base_;
  const std::shared_ptr<Bucket> bucket_;
};

LimitedDisk::LimitedDisk(Disk* base, LimitedDiskOptions options) : base_(base), bucket_(std::make_shared<Bucket>(options)) {
  NOVA_CHECK(options.bytes_per_second > 0);
}
LimitedDisk::~LimitedDisk() = default;

StatusOr<std::unique_ptr<DiskFile>> LimitedDisk::Create(const std::string& path) {
  NOVA_ASSIGN_OR_RETURN(auto file, base_->Create(path));
  return std::unique_ptr<DiskFile>(std::make_unique<File>(std::move(file), bucket_));
}
StatusOr<std::unique_ptr<DiskFile>> LimitedDisk::Open(const std::string& path, bool writable) {
  NOVA_ASSIGN_OR_RETURN(auto file, base_->Open(path, writable));
  return std::unique_ptr<DiskFile>(std::make_unique<File>(std::move(file), bucket_));
}

}  // namespace nova
