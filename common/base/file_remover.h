// FileRemover: deletes files that nobody needs any more. A file that the disk refuses to delete is tried
// again with the next one, so that a disk that failed for a while keeps nothing. While too many are left over
// no new files are to be made.
//
//   NOVA_RETURN_IF_ERROR(remover.CheckRoom());   // before a file is made
//   remover.Delete(path);                        // when nobody needs it
//
// Thread safety: all; Delete and CheckRoom wait for the disk.
// Ownership: the disk outlives it.
// Errors: of CheckRoom only: Unavailable.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "common/base/disk.h"
#include "common/base/mutex.h"

namespace nova {

class FileRemover {
 public:
  static constexpr size_t kMostLeft = 32;  // files left over beyond which CheckRoom refuses

  explicit FileRemover(Disk* disk) : disk_(disk) {}

  // Deletes the file, and those left over. A failure is not told.
  void Delete(std::string path) {
    std::vector<std::string> paths = TakeLeft();
    paths.push_back(std::move(path));
    DeleteAll(std::move(paths));
  }
  // Call before a file is made. Tries the files left over again. Unavailable: too many are still there.
  Status CheckRoom() {
    if (left() <= kMostLeft) return OkStatus();
    DeleteAll(TakeLeft());
    const size_t n = left();
    return n <= kMostLeft ? OkStatus()
                          : absl::UnavailableError(StrCat(n, " files cannot be deleted: no more are made"));
  }
  // Files that could not be deleted so far.
  size_t left() const {
    MutexLock lock(&mu_);
    return left_.size();
  }

 private:
  // Takes all of left_.
  std::vector<std::string> TakeLeft() {
    MutexLock lock(&mu_);
    return std::exchange(left_, {});
  }
  // Deletes until one fails; puts the rest back into left_.
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
  std::vector<std::string> left_ ABSL_GUARDED_BY(mu_);  // paths to try again
};

}  // namespace nova
