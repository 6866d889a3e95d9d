// FileStore: the persistent StoC files, on a Disk.
//
//   LOCK         held while a process uses the directory
//   SUPERBLOCK   text: what this directory is (StoreIdentity)
//   files/<owner uuid>.<part>           a file: header | bytes
//   files/<owner uuid>.<part>.refs      which ranges reference it, once it is shared (file_references.h)
//   files/<owner uuid>.<part>.<n>.tmp   not finished; removed at start
//   journal-0, journal-1                the latest bytes of logs (log_journal.h); put back at start
//
// Header of a file (little-endian, 80 bytes):
//   offset  size
//        0     4  magic 'NVF1'
//        4     4  crc      CRC-32C of bytes 8 .. 80
//        8     2  format   1
//       10     2  kind     1 whole (never changes), 2 appended to, 3 log
//       12     4  part
//       16    16  owner uuid (hi, lo)
//       32    24  creator: range, epoch, job (collection, N4)
//       56     8  size of the bytes; 0 for kinds 2 and 3
//       64     8  wall time of creation, ms
//       72     4  CRC-32C of the bytes; 0 for kinds 2 and 3
//       76     4  zero
//
// Shared table (M4): a file goes when the last range drops its reference. One that was never shared has its
// creator's, by its header. A reference is added, durably, before the manifest edit that names the file, and
// dropped after the edit that drops it; what a crash leaves in between is a reference too many, which its
// range's next owner finds in List and drops (N4).
//
// Durable name (S4): a new file is written under its temporary name, synced, renamed, and the directory
// synced. Bad file (S1): one whose write or sync failed is bad for ever. A file of kind 2 takes appends
// only from the process that created it: after a restart its tail is not known to be what its writer thinks,
// who then goes on in a new file (a torn tail is the reader's to cut). So does a log, whose writer says where
// its bytes go, and when they are to be synced.
// Full disk (S2): below the reserve of free bytes new files are refused, below a quarter of it appends too;
// deletes and reads go on.
//
// Thread safety: all; every call but List, Find and the counts waits for the disk (storage threads).
// Ownership:     the disk outlives it.
// Errors:        NotFound; InvalidArgument: another file of that name, not its end, or not its epoch;
//                ResourceExhausted: full;
//                DataLoss: the disk failed, or the file is bad; Unavailable: closed to appends; Aborted:
//                being written.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "common/base/disk.h"
#include "common/base/metrics.h"
#include "common/base/mutex.h"
#include "common/base/open_files.h"
#include "stoc/file_references.h"
#include "stoc/log_journal.h"
#include "stoc/protocol.h"

namespace nova {

inline constexpr size_t kFileHeaderBytes = 80;
inline constexpr uint32_t kStoreFormat = 1;

// What a store directory is, from its formatting on.
struct StoreIdentity {
  Uuid store;
  Uuid cluster;
  StocId stoc;
  bool operator==(const StoreIdentity&) const = default;
  std::string Encode() const;
  // FailedPrecondition: a later format; DataLoss: malformed.
  static StatusOr<StoreIdentity> Decode(std::string_view text);
};

// Takes the directory's lock and reads what it is; nullopt: empty, to be formatted. InvalidArgument:
// something else's directory.
StatusOr<std::optional<StoreIdentity>> LockStore(Disk* disk);
Status FormatStore(Disk* disk, const StoreIdentity& identity);

struct FileHeader {
  enum class Kind : uint16_t { kWhole = 1, kAppended = 2, kLog = 3 };
  Kind kind = Kind::kWhole;
  StocFileId file;
  Creator creator;
  uint64_t size = 0;
  uint64_t created_ms = 0;
  uint32_t data_crc = 0;
  bool operator==(const FileHeader&) const = default;
  std::string Encode() const;
  static StatusOr<FileHeader> Decode(std::string_view bytes);  // DataLoss
};

struct FileStoreOptions {
  uint64_t reserve_bytes = 64 << 20;  // of free disk
  size_t max_open_files = 512;
  LogJournalOptions journal = {};
};

class FileStore {
 public:
  // Removes unfinished files, reads the headers of the others. The store is locked and formatted.
  static StatusOr<std::unique_ptr<FileStore>> Open(Disk* disk, const FileStoreOptions& options,
                                                   Metrics* metrics);
  ~FileStore();

  // Durable when it returns OK; also when the same file is there already: its bytes are then looked at, and
  // written anew in its place where they are not what they were (repair, S3). `crc` is that of `data`.
  Status WriteFile(const StocFileId& file, const Creator& creator, std::string_view data, uint32_t crc);
  // At `offset`, which must be the end; `create` makes the file, with offset 0.
  Status AppendFile(const StocFileId& file, const Creator& creator, uint64_t offset, bool create,
                    std::string_view data);
  // --- logs: the file {log, 0}
  // Durable and empty; OK also when this process has made it before.
  Status CreateLog(const Uuid& log, const Creator& creator);
  // Bytes, each where it belongs; `sync`: durable when it is OK, with all that was written to that log
  // before.
  struct LogPiece {
    uint64_t offset = 0;
    std::string_view bytes;
  };
  struct LogWrite {
    Uuid log;
    Creator creator;
    std::vector<LogPiece> pieces;
    bool sync = false;
  };
  // Logs, each at most once: those that ask are made durable together. What became of each; Unavailable: not
  // open here.
  std::vector<Status> WriteLogs(std::span<const LogWrite> writes);
  // Revocation (F1): closes the range's logs of epochs below `epoch`; all of them. No WriteLog of theirs is
  // inside, nor will be. Tries again what the start could not do for them: until then their size is
  // kUnknownSize, and reads of them are DataLoss.
  std::vector<SealedLogFile> SealLogs(RangeId range, Epoch epoch);
  Status DeleteLogs(RangeId range, Epoch epoch_below);

  // M4: the range references these files of kind 1, from now on and durably; again is no error. NotFound: of
  // one that is not there.
  Status AddReferences(RangeId range, Epoch epoch, const std::vector<StocFileId>& files);
  // The range does not, if it did by its epoch `epoch` or an earlier one; what nobody references any more is
  // deleted. Goes on after an error and returns the first. A crash may bring back a reference, but no file
  // that was deleted.
  Status DropReferences(RangeId range, Epoch epoch, const std::vector<StocFileId>& files);
  // Fewer bytes than `size` where the file ends.
  StatusOr<std::string> ReadFile(const StocFileId& file, uint64_t offset, uint32_t size);
  // Those that are there; goes on after an error and returns the first.
  Status DeleteFiles(const std::vector<StocFileId>& files);

  // What the range references by epochs below `epoch_below`: what it created, unless others share it, and
  // what it shares; of that the creator and age are the reference's, and the size is 0 where the file itself
  // is gone. At most `limit`, in order, from behind `after`.
  std::vector<FileSummary> List(RangeId range, Epoch epoch_below, const StocFileId& after = {},
                                size_t limit = SIZE_MAX) const;
  // Files whose headers could not be read at start, and which may be logs by their names.
  const std::vector<Uuid>& UnreadableLogs() const { return unreadable_logs_; }
  std::optional<FileSummary> Find(const StocFileId& file) const;
  uint64_t stored_bytes() const { return stored_bytes_.load(std::memory_order_relaxed); }
  uint64_t free_bytes() const;

 private:
  struct Entry;
  using Handle = std::shared_ptr<DiskFile>;

  FileStore(Disk* disk, const FileStoreOptions& options, Metrics* metrics);
  Status Load();
  Status LoadOne(const std::string& name);
  Status LoadReferences(const std::string& name);
  void NoteUnreadable(const std::string& name);
  Status WriteReferences(const StocFileId& file, const FileReferences& references)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(references_mu_);
  Status DropReference(RangeId range, Epoch epoch, const StocFileId& file);
  Status DropSharedReference(RangeId range, Epoch epoch, const StocFileId& file);
  bool ReferencesLocked(const StocFileId& file, const FileHeader& header, const Creator& who) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  std::shared_ptr<Entry> UnlistLocked(const StocFileId& file) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  Status CheckSpace(uint64_t bytes, uint64_t reserve);
  Status Heal(const StocFileId& file, const std::shared_ptr<Entry>& entry, std::string_view data);
  // S4. On error nothing of it is left under its name.
  StatusOr<Handle> CreateDurably(const FileHeader& header, std::string_view data);
  std::shared_ptr<Entry> FindEntry(const StocFileId& file) const;
  Status OpenJournal();
  Status PutJournalBack();
  void PutJournalBackLate();
  StatusOr<std::shared_ptr<Entry>> WriteLog(const LogWrite& write);
  Status SyncLog(const StocFileId& file, const std::shared_ptr<Entry>& entry);
  Status CreateAppended(FileHeader::Kind kind, const StocFileId& file, const Creator& creator,
                        std::string_view data);
  Status Failed(Entry* entry, const Status& status);
  Status FinishCreation(const StocFileId& file, const std::shared_ptr<Entry>& entry, const Status& status);
  Status DropFromDisk(const StocFileId& file, const Entry& entry);
  static FileSummary Summarize(const StocFileId& file, const Entry& entry);

  Disk* const disk_;
  const FileStoreOptions options_;
  Counter* const bytes_written_;
  Counter* const bytes_read_;
  Counter* const no_space_;
  Counter* const bad_files_;
  Counter* const healed_;
  Gauge* const files_;

  std::vector<Uuid> unreadable_logs_;  // set at start
  std::atomic<uint64_t> stored_bytes_{0};
  std::atomic<uint64_t> writing_bytes_{0};
  std::atomic<uint64_t> next_temporary_{0};

  Mutex journal_mu_;     // one batch at a time
  Mutex references_mu_;  // one change of shared files' references at a time; held over the disk's work
  mutable Mutex mu_;
  std::map<StocFileId, std::shared_ptr<Entry>> entries_ ABSL_GUARDED_BY(mu_);
  std::map<StocFileId, FileReferences> references_ ABSL_GUARDED_BY(mu_);  // of shared files
  OpenFiles open_files_;
  Mutex put_back_mu_;  // before mu_; held over the disk's work
  // the start could not put it back, nor anybody since
  bool journal_waits_ ABSL_GUARDED_BY(put_back_mu_) = false;
  Nanos next_put_back_ns_ ABSL_GUARDED_BY(put_back_mu_) = 0;
  // null: the one there is could not be put back, and is left as it is. The first to go: it calls back
  std::unique_ptr<LogJournal> journal_;
};

}  // namespace nova
