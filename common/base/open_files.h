// OpenFiles: the latest used files of a disk, kept open for reading: a block is read by one call of the
// system, not by three.
//
// Thread safety: all.   Ownership: the disk outlives it; a file is open for as long as somebody has it.
//                Errors: the disk's.
#pragma once

#include <list>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "common/base/disk.h"
#include "common/base/mutex.h"

namespace nova {

class OpenFiles {
 public:
  OpenFiles(Disk* disk, size_t most) : disk_(disk), most_(most) {}

  StatusOr<std::shared_ptr<DiskFile>> Open(const std::string& path);
  // What has that name from now on: it was created, or renamed to it.
  void Put(const std::string& path, std::shared_ptr<DiskFile> file);
  // Nothing has that name any more. The disk has its space back when those who read it are done.
  void Drop(const std::string& path);

 private:
  using Kept = std::list<std::pair<std::string, std::shared_ptr<DiskFile>>>;
  void Change(const std::string& path, std::shared_ptr<DiskFile> file);
  void KeepLocked(const std::string& path, std::shared_ptr<DiskFile> file, Kept* closing)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  Disk* const disk_;
  const size_t most_;
  Mutex mu_;
  Kept kept_ ABSL_GUARDED_BY(mu_);                                                // the latest used first
  std::unordered_map<std::string_view, Kept::iterator> at_ ABSL_GUARDED_BY(mu_);  // by the names in kept_
  // Put and Drop: what was opened before one is perhaps not what has its name after it
  uint64_t changes_ ABSL_GUARDED_BY(mu_) = 0;
};

}  // namespace nova
