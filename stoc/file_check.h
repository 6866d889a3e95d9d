// FileCheck: reads a file of the store past the page cache, and tells whether that is what was written
// (scrub, S6).
//
//   kind            damaged is
//   whole           a header that is not the one known in memory; bytes that fail its checksum; another
//                   length; no file of that name
//   manifest, log   the same of the header and of the name; of the bytes that this process has appended,
//                   those that fail the checksum that was kept of them (written_prefix.h); of a file of an
//                   earlier start, a record that fails its checksum before one that does not (record_walk.h).
//                   What such a file has of whole records is then known to this process, too
//   any             a read that fails for the disk (DataLoss)
//
// A file may grow, be written anew and go while it is read. What was found counts only if the file is still
// the one that was looked at. Damage counts only if a second look finds it too.
//
// Thread safety: one thread.
// Ownership:     the StoreDirectory and the StoredFiles outlive it.
// Errors:        as Result; a disk that is to be read and does not say EIO leaves it unknown.
#pragma once

#include <functional>
#include <string_view>

#include "absl/functional/function_ref.h"
#include "stoc/store_directory.h"
#include "stoc/stored_files.h"

namespace nova {

class FileCheck {
 public:
  static constexpr uint64_t kPieceBytes = 1 << 20;  // of one read, at most

  // Asked before each read, by its bytes; it may wait. False: the check is given up.
  using MayRead = std::function<bool(uint64_t bytes)>;
  FileCheck(StoreDirectory* directory, StoredFiles* files, MayRead may_read)
      : directory_(directory), files_(files), may_read_(std::move(may_read)) {}

  enum class Verdict : uint8_t { kWhole, kDamaged, kUnknown };
  struct Result {
    Verdict verdict = Verdict::kUnknown;
    Status why;  // of what is damaged, or could not be judged; DataLoss: the disk failed to read it
  };
  // Also sets or clears the file's mark: StoredFile::damaged.
  Result Check(const StoredFiles::File& file);

 private:
  // Ok: whole. Cancelled: may_read was false. What IsDamage holds of is damage.
  Status LookAt(const StoredFiles::File& file, const FileHeader& header);
  Status LookAtWhole(const FileHeader& header, DiskFile* on_disk);
  Status LookAtAppended(const StoredFiles::File& file, const FileHeader& header, DiskFile* on_disk);
  // Of a file of an earlier start: the records, as far as they are there.
  Status WalkRecords(const StoredFiles::File& file, const FileHeader& header, uint64_t size,
                     DiskFile* on_disk);
  // Compares the header, and gives the `bytes` behind it to `take`, in pieces.
  Status ReadThrough(DiskFile* on_disk, const FileHeader& header, uint64_t bytes,
                     absl::FunctionRef<void(std::string_view)> take);

  StoreDirectory* const directory_;
  StoredFiles* const files_;
  const MayRead may_read_;
};

}  // namespace nova
