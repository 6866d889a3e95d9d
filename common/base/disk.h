// Disk: the files of one directory tree. Implementations: posix (posix_disk.cc), simulated (sim_disk.h: loses
// bytes that were not synced), and wrappers that inject faults or limit the bandwidth (fault_disk.h,
// limited_disk.h).
//
// Paths are relative to the root: "dir/name". Calls wait for the disk, so they belong on storage, flush and
// compaction threads.
//
// Thread safety: all methods from any thread, of a DiskFile too (positional reads and writes).
// Errors: NotFound; AlreadyExists; ResourceExhausted: full; DataLoss: EIO and its kin (the device or the file
//   system is damaged, or gone); PermissionDenied, also of a read-only disk; Unavailable: the process has
//   no descriptor or no memory left, and may have one later; each names path and cause. After a failed Write
//   or Sync the caller must treat the file as bad (bad file, S1): nothing here hides a second try.
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
  // Writes all bytes or fails; a hole before `offset` reads as zeros.
  virtual Status Write(uint64_t offset, std::string_view data) = 0;
  // Reads all n bytes. OutOfRange: the file ends before.
  virtual Status Read(uint64_t offset, size_t n, char* out) = 0;
  virtual Status Sync() = 0;  // data and size are durable
  virtual StatusOr<uint64_t> Size() = 0;
  // The first `size` bytes, mapped for as long as the result is kept. Empty: this disk maps nothing; use
  // Read. Of bytes that are not in memory only the pages that are touched are read; PrefetchMapped asks for
  // more. A disk that fails under a mapping ends the process (SIGBUS); Read returns an error instead.
  virtual StatusOr<SharedBytes> Map(uint64_t /*size*/) { return SharedBytes(); }
};

class Disk {
 public:
  virtual ~Disk() = default;
  virtual StatusOr<std::unique_ptr<DiskFile>> Create(const std::string& path) = 0;  // must not exist
  // NotFound: it does not exist. `writable`: for Write and Sync too.
  virtual StatusOr<std::unique_ptr<DiskFile>> Open(const std::string& path, bool writable) = 0;
  // For reading what the medium has: Read neither takes bytes from the page cache nor leaves them there.
  // Written bytes that have not reached the medium go there first. A file system that cannot do so (some
  // network file systems), or has no medium (tmpfs), reads through the cache.
  virtual StatusOr<std::unique_ptr<DiskFile>> OpenUncached(const std::string& path) = 0;
  virtual Status Delete(const std::string& path) = 0;  // a file, or an empty directory
  // Replaces `to` if that exists.
  virtual Status Rename(const std::string& from, const std::string& to) = 0;
  virtual Status MakeDirectory(const std::string& path) = 0;  // fine if it exists; parents must
  // Makes creations, renames and deletions in the directory durable (durable name, S4).
  virtual Status SyncDirectory(const std::string& path) = 0;
  virtual StatusOr<std::vector<std::string>> List(const std::string& path) = 0;  // names, sorted
  virtual StatusOr<uint64_t> FreeBytes() = 0;  // as far as this process may use them
  // Its files can be mapped (DiskFile::Map).
  virtual bool Maps() const { return false; }
  // The file's path for other programs of this machine; empty: it has none.
  virtual std::string NativePath(const std::string& /*path*/) const { return {}; }
  // Makes `path` a second name of the file at a native path. Unimplemented: this disk cannot, or not across
  // these file systems: copy the file.
  virtual Status Link(const std::string& /*native_path*/, const std::string& /*path*/) {
    return absl::UnimplementedError("hard links");
  }
  // Identifies the running of the machine: while it is the same, written bytes are there, synced or not. Nil:
  // unknown.
  virtual Uuid Boot() const { return {}; }
  // Takes the tree for this process and this Disk until destruction. Unavailable: another holds it.
  virtual Status Lock(const std::string& path) = 0;
};

// The directory is made if it does not exist.
StatusOr<std::unique_ptr<Disk>> OpenPosixDisk(const std::string& root);

// Begins to read the bytes of a mapping that are not in memory; does not wait. Best effort.
void PrefetchMapped(std::string_view bytes);
// How many of the first bytes of a mapping are in memory. All, where it cannot be told.
size_t ResidentPrefix(std::string_view bytes);
// Waits until the bytes are in memory and maps their pages, so that readers do not fault.
void LoadMapped(std::string_view bytes);
// Lets go of the pages that lie wholly within the bytes of a mapping of a file: they are out of memory, and
// are read once more if they are used again. Best effort.
void ReleaseMapped(std::string_view bytes);

}  // namespace nova
