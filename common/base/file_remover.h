// FileRemover: deletes files that nobody needs any more. What the disk refuses to delete is tried again with
// the next file, so that a disk that failed for a while keeps nothing; and while too many are left, no more
// are made.
//
// Thread safety: all.   Ownership: the disk outlives it.   Errors: of CheckRoom only: Unavailable.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "common/base/disk.h"
#include "common/base/mutex.h"

namespace nova {

class FileRemover {
 public:
  static constexpr size_t kMostLeft = 32;

  explicit FileRemover(Disk* disk) : disk_(disk) {}

  void Delete(std::string path) {
    std::vector<std::string> paths = TakeLeft();
    paths.push_back(std::move(path));
    DeleteAll(std::move(paths));
  }
  // Before a file is made: the disk deletes as well as it creates.
  Status CheckRoom() {
    if (left() <= kMostLeft) return OkStatus();
    DeleteAll(TakeLeft());
    const size_t n = left();
    return n <= kMostLeft ? OkStatus()
                          : absl::UnavailableError(StrCat(n, " files cannot be deleted: no more are made"));
  }
  size_t left() const {
    MutexLock lock(&mu_);
    return left_.size();
  }

 private:
  std::vector<std::string> TakeLeft() {
    MutexLock lock(&mu_);
    return std::exchange(left_, {});
  }
  void DeleteAll(std::vector<std::string> paths) {
    while (!paths.empty()) {
      const Status s = disk_->Delete(paths.back());
      if (!s.ok() && !absl::IsNotFound(s)) break;  // a disk that fails now fails the others too
      paths.pop_back();
    }
    MutexLock lock(&mu_);
    left_.insert(left_.end(), paths.begin(), paths.end());
  }

  Disk* const disk_;
  mutable Mutex mu_;
  std::vector<std::string> left_ ABSL_GUARDED_BY(mu_);
};

}  // namespace nova
