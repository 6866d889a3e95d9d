// OpenFiles: the most recently used files of a disk, kept open for reading, so that a block is read by one
// system call, not by three.
//
// Thread safety: all; Open waits for the disk.
// Ownership: the disk outlives it. A file stays open as long as somebody has it.
// Errors: the disk's.
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
  // `most`: files kept open, beside those in use.
  OpenFiles(Disk* disk, size_t most) : disk_(disk), most_(most) {}

  // The file of that name, opened or kept.
  StatusOr<std::shared_ptr<DiskFile>> Open(const std::string& path);
  // `file` has that name from now on: it was created, or renamed to it.
  void Put(const std::string& path, std::shared_ptr<DiskFile> file);
  // Nothing has that name any more. The disk has its space back when readers of it are done.
  void Drop(const std::string& path);

 private:
  using Kept = std::list<std::pair<std::string, std::shared_ptr<DiskFile>>>;
  // Puts `file` (null: none) in the place of the kept file of that name.
  void Change(const std::string& path, std::shared_ptr<DiskFile> file);
  // Keeps a file as the latest; *closing gets those that go, to be closed without the lock.
  void KeepLocked(const std::string& path, std::shared_ptr<DiskFile> file, Kept* closing)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  Disk* const disk_;
  const size_t most_;
  Mutex mu_;
  Kept kept_ ABSL_GUARDED_BY(mu_);  // by name, the most recently used first
  std::unordered_map<std::string_view, Kept::iterator> at_ ABSL_GUARDED_BY(mu_);  // into kept_, by its names
  // Counts Put and Drop: a file that was opened before one of them is perhaps not the file of its name after
  // it.
  uint64_t changes_ ABSL_GUARDED_BY(mu_) = 0;
};

}  // namespace nova
