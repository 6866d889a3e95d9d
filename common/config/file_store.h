// FileConfig: a ConfigStore kept in a directory, for one machine without ZooKeeper and for tools.
//
// One process at a time (a lock on <directory>/LOCK); inside it any number of sessions. Every change rewrites
// <directory>/config: temporary file, fsync, rename, fsync of the directory (durable name, S4); it is
// answered after that, so what was answered survives a crash at any moment. Ephemeral nodes end with their
// session and are not written.
//
// Thread safety: all methods from any thread.   Ownership: a FileConfig outlives its sessions.
// Errors: FailedPrecondition: another process has the directory; DataLoss: the file fails its checksum;
//         Internal: an I/O error.
#pragma once

#include <memory>
#include <string>

#include "common/config/memory_store.h"

namespace nova {

class FileConfig {
 public:
  static StatusOr<std::unique_ptr<FileConfig>> Open(const std::string& directory);  // made when absent
  ~FileConfig();

  std::unique_ptr<ConfigStore> NewSession() { return config_->NewSession(); }

 private:
  FileConfig(std::string directory, int lock_fd) : directory_(std::move(directory)), lock_fd_(lock_fd) {}
  Status Write(const ConfigTree& tree) const;

  const std::string directory_;
  const int lock_fd_;
  std::unique_ptr<MemoryConfig> config_;
};

}  // namespace nova
