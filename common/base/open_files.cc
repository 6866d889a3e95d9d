#include "common/base/open_files.h"

namespace nova {

StatusOr<std::shared_ptr<DiskFile>> OpenFiles::Open(const std::string& path) {
  uint64_t changes;
  {
    MutexLock lock(&mu_);
    if (const auto it = at_.find(path); it != at_.end()) {
      kept_.splice(kept_.begin(), kept_, it->second);
      return kept_.front().second;
    }
    changes = changes_;
  }
  NOVA_ASSIGN_OR_RETURN(std::shared_ptr<DiskFile> file, disk_->Open(path, /*writable=*/false));
  Kept closing;
  MutexLock lock(&mu_);
  if (changes == changes_ && !at_.contains(path)) KeepLocked(path, file, &closing);
  return file;
}

void OpenFiles::Put(const std::string& path, std::shared_ptr<DiskFile> file) {
  Change(path, std::move(file));
}

void OpenFiles::Drop(const std::string& path) { Change(path, nullptr); }

void OpenFiles::Change(const std::string& path, std::shared_ptr<DiskFile> file) {
  Kept closing;
  MutexLock lock(&mu_);
  ++changes_;
  if (const auto it = at_.find(path); it != at_.end()) {
    const Kept::iterator old = it->second;
    at_.erase(it);
    closing.splice(closing.begin(), kept_, old);
  }
  if (file != nullptr) KeepLocked(path, std::move(file), &closing);
}

// `closing`: what has no room any more; closed when the lock is let go.
void OpenFiles::KeepLocked(const std::string& path, std::shared_ptr<DiskFile> file, Kept* closing) {
  kept_.emplace_front(path, std::move(file));
  at_[kept_.front().first] = kept_.begin();
  if (kept_.size() <= most_) return;
  at_.erase(kept_.back().first);
  closing->splice(closing->begin(), kept_, std::prev(kept_.end()));
}

}  // namespace nova
