// FileStore: the persistent StoC files, on a Disk: whole ones, which never change, and those that are
// appended to; with its parts, the logs among them and what ranges share.
//
//   LOCK, SUPERBLOCK       what the directory is (store_identity.h)
//   files/...              the files, and who shares them (store_directory.h)
//   journal-0, journal-1   the latest bytes of logs (log_journal.h); put back at start
//
// Parts, each of which asks those before it: StoreDirectory (the disk, and the space on it), StoredFiles
// (which files there are, and whose they are), UnreadableFiles, SharedReferences, LogFiles.
//
// Bad file (S1): one whose write or sync failed is bad for ever. A file that is appended to takes appends
// only from the process that created it: after a restart its tail is not known to be what its writer thinks,
// who then goes on in a new file (a torn tail is the reader's to cut).
//
// Thread safety: all; every call but List, Find and the counts waits for the disk (storage threads).
// Ownership:     the disk outlives it.
// Errors:        NotFound; InvalidArgument: another file of that name, not its end, or not its epoch;
//                ResourceExhausted: full (full disk, S2);
//                DataLoss: the disk failed, or the file is bad; Unavailable: closed to appends; Aborted:
//                being written.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/disk.h"
#include "common/base/metrics.h"
#include "stoc/log_files.h"
#include "stoc/shared_references.h"
#include "stoc/store_directory.h"
#include "stoc/stored_files.h"
#include "stoc/unreadable_files.h"

namespace nova {

struct FileStoreOptions {
  uint64_t reserve_bytes = 64 << 20;  // of free disk
  size_t max_open_files = 512;        // kept open for reads
  LogJournalOptions journal = {};
  // The disk has given an error: nothing that is damaged there is healed in its place (repair, S3). Null: it
  // never has.
  std::function<bool()> disk_has_fault = {};
};

class FileStore {
 public:
  // Removes unfinished files, reads the headers of the others. The store is locked and formatted.
  static StatusOr<std::unique_ptr<FileStore>> Open(Disk* disk, const FileStoreOptions& options,
                                                   Metrics* metrics);

  // The parts.
  LogFiles* logs() { return &logs_; }
  SharedReferences* references() { return &references_; }
  UnreadableFiles* unreadable() { return &unreadable_; }
  // These two for scrubs (S6).
  StoredFiles* stored() { return &files_; }
  StoreDirectory* directory() { return &directory_; }

  // Durable when it returns OK; also when the same file is there already: its bytes are then looked at, and
  // written anew in its place where they are not what they were (repair, S3). `crc` is that of `data`.
  Status WriteFile(const StocFileId& file, const Creator& creator, std::string_view data, uint32_t crc);
  // At `offset`, which must be the end; `create` makes the file, with offset 0.
  Status AppendFile(const StocFileId& file, const Creator& creator, uint64_t offset, bool create,
                    std::string_view data);
  // A copy of another StoC's file, which `creator`'s range references from now on, by its epoch and job:
  // durable when it returns OK. The same file may be there already, of an earlier job or of another range
  // that shares it (shared table, M4); it is healed as by WriteFile. So a collection that listed the earlier
  // job's file does not drop this one (collection, N4). Aborted, NotFound: it came or went meanwhile; try
  // again.
  Status WriteCopy(const StocFileId& file, const Creator& creator, std::string_view data, uint32_t crc);
  // What a whole file is, as its header says. NotFound; InvalidArgument: it is appended to; DataLoss: bad.
  struct WholeFile {
    uint64_t size = 0;
    uint32_t crc = 0;
  };
  StatusOr<WholeFile> FindWhole(const StocFileId& file) const;
  // ResourceExhausted: a new file of so many bytes would be refused.
  Status CheckRoom(uint64_t bytes) { return directory_.CheckSpace(bytes, StoreDirectory::Use::kNewFile); }
  // Fewer bytes than `size` where the file ends. Of a whole file that is damaged (scrub, S6) the bytes come
  // off the disk, not out of the page cache: whoever repairs it has to see what there is.
  StatusOr<std::string> ReadFile(const StocFileId& file, uint64_t offset, uint32_t size);
  // Writes a damaged whole file anew if the page cache still has its bytes: those that its checksum is of.
  // DataLoss: it has not.
  Status HealFromCache(const StoredFiles::File& file);
  // Those that are there; goes on after an error and returns the first.
  Status DeleteFiles(const std::vector<StocFileId>& files) { return files_.Delete(files); }

  // Deletes the unreadable files that each of `ranges`, all there are, has dropped (collection, N4).
  void DeleteUnreadable(const std::vector<RangeId>& ranges);

  // What the range references by epochs below `epoch_below`: what it created, unless others share it, and
  // what it shares; of that the creator and age are the reference's, and the size is 0 where the file itself
  // is gone. At most `limit`, in order, from behind `after`.
  std::vector<FileSummary> List(RangeId range, Epoch epoch_below, const StocFileId& after = {},
                                size_t limit = SIZE_MAX) const {
    return files_.List(range, epoch_below, after, limit);
  }
  std::optional<FileSummary> Find(const StocFileId& file) const { return files_.Summary(file); }
  uint64_t stored_bytes() const { return directory_.stored_bytes(); }
  uint64_t free_bytes() const { return directory_.free_bytes(); }

 private:
  FileStore(Disk* disk, const FileStoreOptions& options, Metrics* metrics);
  // Enters all files that the directory has.
  Status Load();
  // A file, or a list of references, by its name in the directory.
  Status LoadOne(const std::string& name);
  // As WriteFile. A file that is there and is the range's own becomes `creator`'s if `take` says so.
  Status Write(const StocFileId& file, const Creator& creator, std::string_view data, uint32_t crc,
               bool take);
  // Looks at the bytes of a file that is there, and writes it anew where they are not `data`, where it is
  // damaged, or where its creator is an earlier one than `as` (null: it stays whose it is).
  Status Heal(const StoredFiles::File& file, std::string_view data, const Creator* as);

  Counter* const bytes_read_;
  Counter* const healed_;
  const std::function<bool()> disk_has_fault_;
  StoreDirectory directory_;
  StoredFiles files_;
  UnreadableFiles unreadable_;
  SharedReferences references_;
  LogFiles logs_;
};

}  // namespace nova
