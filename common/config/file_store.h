// FileConfig: a ConfigStore kept in a directory, for one machine without ZooKeeper and for tools.
//
// One process at a time has it (a lock on <directory>/LOCK), with any number of sessions. Every change
// rewrites <directory>/config: temporary file, fsync, rename, fsync of the directory (durable name, S4). It
// is answered after that, so an answered change survives a crash at any moment. Ephemeral nodes end with
// their session and are not written.
//
// Thread safety: all methods from any thread.
// Ownership: a FileConfig outlives its sessions.
// Errors: FailedPrecondition: another process has the directory. DataLoss: the file fails its checksum.
//   Internal: an I/O error.
#pragma once

#include <memory>
#include <string>

#include "common/config/memory_store.h"

namespace nova {

class FileConfig {
 public:
  // The directory is made if it is absent.
  static StatusOr<std::unique_ptr<FileConfig>> Open(const std::string& directory);
  ~FileConfig();

  std::unique_ptr<ConfigStore> NewSession() { return config_->NewSession(); }

 private:
  FileConfig(std::string directory, int lock_fd) : directory_(std::move(directory)), lock_fd_(lock_fd) {}
  // Rewrites the file; durable when it returns.
  Status Write(const ConfigTree& tree) const;

  const std::string directory_;
  const int lock_fd_;  // an open descriptor
  std::unique_ptr<MemoryConfig> config_;
};

}  // namespace nova
