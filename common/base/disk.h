// Disk: files of one directory tree. posix (posix_disk.cc), simulated (loses what was not synced),
// fault-injecting and bandwidth-limited wrappers (sim_disk.h, fault_disk.h, limited_disk.h).
//
// Paths are relative to the root, "dir/name". Calls wait for the disk: storage and compaction threads only.
//
// Thread safety: all methods from any thread; a DiskFile too (positional reads and writes).
// Errors: NotFound; AlreadyExists; ResourceExhausted: full; DataLoss: EIO; PermissionDenied; each names path
//         and cause. After a failed write or Sync the caller must take it for a bad file (S1): this layer
//         does not hide a second try.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/ids.h"
#include "common/base/shared_bytes.h"
#include "common/base/status.h"

namespace nova {

class DiskFile {
 public:
  virtual ~DiskFile() = default;  // closes
  virtual Status Write(uint64_t offset, std::string_view data) = 0;
  // all n bytes, or OutOfRange at the end of the file
  virtual Status Read(uint64_t offset, size_t n, char* out) = 0;
  virtual Status Sync() = 0;  // data and size are durable
  virtual StatusOr<uint64_t> Size() = 0;
  // The first `size` bytes, in memory for as long as they are kept. Empty: this disk maps nothing, Read. Of
  // what is not in memory the pages that are touched are read, and no others: who goes on from there says so
  // (PrefetchMapped). A disk that fails under a mapping ends the process (SIGBUS): for those who would rather
  // have an error there is Read.
  virtual StatusOr<SharedBytes> Map(uint64_t /*size*/) { return SharedBytes(); }
};

class Disk {
 public:
  virtual ~Disk() = default;
  virtual StatusOr<std::unique_ptr<DiskFile>> Create(const std::string& path) = 0;  // must not exist
  virtual StatusOr<std::unique_ptr<DiskFile>> Open(const std::string& path, bool writable) = 0;
  virtual Status Delete(const std::string& path) = 0;  // a file, or a directory that is empty
  virtual Status Rename(const std::string& from, const std::string& to) = 0;
  virtual Status MakeDirectory(const std::string& path) = 0;  // fine if it exists
  // Durable name (S4): makes creates, renames and deletes durable
  virtual Status SyncDirectory(const std::string& path) = 0;
  virtual StatusOr<std::vector<std::string>> List(const std::string& path) = 0;  // names, sorted
  virtual StatusOr<uint64_t> FreeBytes() = 0;
  // Where the file is for other programs of this machine; empty: nowhere.
  virtual std::string NativePath(const std::string& /*path*/) const { return {}; }
  // A second name, here, of the file at a native path. Unimplemented: not by this disk, or not across these
  // file systems: copy it.
  virtual Status Link(const std::string& /*native_path*/, const std::string& /*path*/) {
    return absl::UnimplementedError("hard links");
  }
  // The running of the machine under it: while this is the same, what was written is there, synced or not.
  // Nil: not known.
  virtual Uuid Boot() const { return {}; }
  // One process per tree, and one Disk. Unavailable when another holds it. Released at destruction.
  virtual Status Lock(const std::string& path) = 0;
};

StatusOr<std::unique_ptr<Disk>> OpenPosixDisk(const std::string& root);  // made when absent

// Some bytes of a mapping are wanted soon: begins to read those that are not in memory, and does not wait.
// Best effort.
void PrefetchMapped(std::string_view bytes);
// Waits until they are in memory, and maps their pages: whoever reads them from then on does not fault.
void LoadMapped(std::string_view bytes);

}  // namespace nova
