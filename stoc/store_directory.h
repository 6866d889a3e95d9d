// StoreDirectory: the files of a StoC's store on its disk: where they lie, the space they take, and how they
// come and go durably.
//
//   files/<owner uuid>.<part>           a file: header (file_header.h) | bytes
//   files/<owner uuid>.<part>.refs      which ranges reference it, once it is shared (file_references.h)
//   files/<owner uuid>.<part>.<n>.tmp   not finished; removed at start
//
// Durable name (S4): a new file is written under its temporary name, synced, renamed, and the directory
// synced. Full disk (S2): below the reserve of free bytes new files are refused, below a quarter of it
// appends too; deletes and reads go on.
//
// Thread safety: all; every call but the counts and paths waits for the disk.
// Ownership:     the disk outlives it; a file is open for as long as somebody has its Handle.
// Errors:        ResourceExhausted: full; else the disk's.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/disk.h"
#include "common/base/metrics.h"
#include "common/base/open_files.h"
#include "stoc/file_header.h"

namespace nova {

// All of a file of at most `most` bytes. DataLoss: it is longer.
StatusOr<std::string> ReadSmallFile(Disk* disk, const std::string& path, size_t most);
// The same, past the page cache.
StatusOr<std::string> ReadSmallFileUncached(Disk* disk, const std::string& path, size_t most);
// Makes a file of the root hold these bytes, durably (durable name, S4). `temporary` is a name for nothing
// else.
Status ReplaceSmallFile(Disk* disk, const std::string& path, const std::string& temporary,
                        std::string_view bytes);

class StoreDirectory {
 public:
  using Handle = std::shared_ptr<DiskFile>;
  // What space is wanted for: appends go on longer on a disk that fills up (full disk, S2).
  enum class Use { kNewFile, kAppend };

  StoreDirectory(Disk* disk, uint64_t reserve_bytes, size_t max_open_files, Metrics* metrics);

  // At start: makes the directory, removes what is not finished. The names of the rest: of files, and of
  // lists of references.
  StatusOr<std::vector<std::string>> Clean();
  // What a name in the directory is; false: something else.
  static bool ParseName(std::string_view name, StocFileId* file);
  static bool ParseReferencesName(std::string_view name, StocFileId* file);
  static bool IsReferencesName(std::string_view name);

  // --- space
  // ResourceExhausted: so many bytes would leave less than the reserve for that use.
  Status CheckSpace(uint64_t bytes, Use use);
  // Of all files, with their headers, as NoteGrowth and NoteGone count them.
  uint64_t stored_bytes() const { return stored_bytes_.load(std::memory_order_relaxed); }
  uint64_t free_bytes() const;  // of the disk
  // Files are so much longer than before, and so many bytes were written for it.
  void NoteGrowth(uint64_t growth, uint64_t written);
  // The disk itself was full.
  void NoteNoSpace() { no_space_->Add(); }
  // While it lives these bytes are about to be written, and are as good as taken.
  class Writing {
   public:
    Writing(StoreDirectory* directory, uint64_t bytes) : directory_(directory), bytes_(bytes) {
      directory_->writing_bytes_ += bytes_;
    }
    ~Writing() { directory_->writing_bytes_ -= bytes_; }
    Writing(const Writing&) = delete;
    Writing& operator=(const Writing&) = delete;

   private:
    StoreDirectory* const directory_;
    const uint64_t bytes_;
  };

  // --- files
  // S4. On error nothing of it is left under its name.
  StatusOr<Handle> CreateDurably(const FileHeader& header, std::string_view data);
  StatusOr<Handle> OpenToRead(const StocFileId& file) { return open_files_.Open(PathOf(file)); }
  // Not from among the files that are kept open.
  StatusOr<Handle> OpenApart(const StocFileId& file, bool writable);
  StatusOr<Handle> OpenUncached(const StocFileId& file);  // reads go past the page cache (scrub, S6)
  // What OpenToRead gives from now on: the file was created, or replaced.
  void KeepOpen(const StocFileId& file, Handle handle) { open_files_.Put(PathOf(file), std::move(handle)); }
  // Deletes the name alone; nothing is counted, nothing synced.
  Status Remove(const StocFileId& file);
  // The file, of so many bytes, goes. NotFound: it was gone, and its bytes count no more.
  Status Delete(const StocFileId& file, uint64_t bytes);
  // A file of so many bytes is gone: it was deleted, or replaced.
  void NoteGone(uint64_t bytes) { stored_bytes_ -= bytes + kFileHeaderBytes; }
  Status Sync();  // creations, renames and deletions

  // --- lists of references. The caller syncs the directory where it matters.
  StatusOr<std::string> ReadReferences(const StocFileId& file);
  StatusOr<std::string> ReadReferencesUncached(const StocFileId& file);
  Status WriteReferences(const StocFileId& file, std::string_view bytes);
  Status DeleteReferences(const StocFileId& file);

 private:
  // Where a file and its list of references lie, within the disk.
  static std::string PathOf(const StocFileId& file);
  static std::string ReferencesPathOf(const StocFileId& file);
  // A name beside `path` that nobody else has.
  std::string TemporaryFor(const std::string& path);

  Disk* const disk_;
  const uint64_t reserve_bytes_;  // of free space (S2)
  Counter* const bytes_written_;
  Counter* const no_space_;
  std::atomic<uint64_t> stored_bytes_{0};    // see stored_bytes()
  std::atomic<uint64_t> writing_bytes_{0};   // of all Writings that live
  std::atomic<uint64_t> next_temporary_{0};  // number in the next temporary name
  OpenFiles open_files_;                     // for reads: those used last
};

}  // namespace nova
