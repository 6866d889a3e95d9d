// FileStore: the persistent StoC files, on a Disk.
//
//   LOCK         held while a process uses the directory
//   SUPERBLOCK   text: what this directory is (StoreIdentity)
//   files/<owner uuid>.<part>           a file: header | bytes
//   files/<owner uuid>.<part>.<n>.tmp   not finished; removed at start
//
// Header of a file (little-endian, 80 bytes):
//   offset  size
//        0     4  magic 'NVF1'
//        4     4  crc      CRC-32C of bytes 8 .. 80
//        8     2  format   1
//       10     2  kind     1 whole (never changes), 2 appended to, 3 log
//       12     4  part
//       16    16  owner uuid (hi, lo)
//       32    24  creator: range, epoch, job (N4)
//       56     8  size of the bytes; 0 for kinds 2 and 3
//       64     8  wall time of creation, ms
//       72     4  CRC-32C of the bytes; 0 for kinds 2 and 3
//       76     4  zero
//
// S4: a new file is written under its temporary name, synced, renamed, and the directory synced. S1: a file whose write or sync
// failed is bad for ever. A file of kind 2 takes appends only from the process that created it: after a restart its tail is not
// known to be what its writer thinks, who then goes on in a new file (a torn tail is the reader's to cut). So does a log, whose
// writer says where its bytes go, and when they are to be synced.
// S2: below the reserve of free bytes new files are refused, below a quarter of it appends too; deletes and reads go on.
//
// Thread safety: all; every call but List, Find and the counts waits for the disk (storage threads).
// Ownership:     the disk outlives it.
// Errors:        NotFound; InvalidArgument: another file of that name, not its end, or not its epoch; ResourceExhausted: full;
//                DataLoss: the disk failed, or the file is bad; Unavailable: closed to appends; Aborted: being written.
#pragma once

#include <atomic>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "common/base/disk.h"
#include "common/base/metrics.h"
#include "common/base/mutex.h"
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

// Takes the directory's lock and reads what it is; nullopt: empty, to be formatted. InvalidArgument: something else's directory.
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
};

class FileStore {
 public:
  // Removes unfinished files, reads the headers of the others. The store is locked and formatted.
  static StatusOr<std::unique_ptr<FileStore>> Open(Disk* disk, const FileStoreOptions& options, Metrics* metrics);
  ~FileStore();

  // Durable when it returns OK; also when the same file is there already: its bytes are then looked at, and written anew in its
  // place where they are not what they were (S3). `crc` is that of `data`.
  Status WriteFile(const StocFileId& file, const Creator& creator, std::string_view data, uint32_t crc);
  // At `offset`, which must be the end; `create` makes the file, with offset 0.
  Status AppendFile(const StocFileId& file, const Creator& creator, uint64_t offset, bool create, std::string_view data);
  // --- logs: the file {log, 0}
  // Durable and empty; OK also when this process has made it before.
  Status CreateLog(const Uuid& log, const Creator& creator);
  // Bytes, each where it belongs; `sync`: durable when it returns OK, with all that was written before. Unavailable: not open here.
  struct LogPiece {
    uint64_t offset = 0;
    std::string_view bytes;
  };
  Status WriteLog(const Uuid& log, const Creator& creator, std::span<const LogPiece> pieces, bool sync);
  // F1: closes the range's logs of epochs below `epoch`; all of them. No WriteLog of theirs is inside, nor will be.
  std::vector<SealedLogFile> SealLogs(RangeId range, Epoch epoch);
  Status DeleteLogs(RangeId range, Epoch epoch_below);

  // Fewer bytes than `size` where the file ends.
  StatusOr<std::string> ReadFile(const StocFileId& file, uint64_t offset, uint32_t size);
  // Those that are there; goes on after an error and returns the first.
  Status DeleteFiles(const std::vector<StocFileId>& files);

  std::vector<FileSummary> List(RangeId range, Epoch epoch_below) const;
  std::optional<FileSummary> Find(const StocFileId& file) const;
  uint64_t stored_bytes() const { return stored_bytes_.load(std::memory_order_relaxed); }
  uint64_t free_bytes() const;

 private:
  struct Entry;
  using Handle = std::shared_ptr<DiskFile>;

  FileStore(Disk* disk, const FileStoreOptions& options, Metrics* metrics);
  Status Load();
  Status LoadOne(const std::string& name);
  Status CheckSpace(uint64_t bytes, uint64_t reserve);
  Status Heal(const StocFileId& file, const std::shared_ptr<Entry>& entry, std::string_view data);
  // S4. On error nothing of it is left under its name.
  StatusOr<Handle> CreateDurably(const FileHeader& header, std::string_view data);
  std::shared_ptr<Entry> FindEntry(const StocFileId& file) const;
  Status CreateAppended(FileHeader::Kind kind, const StocFileId& file, const Creator& creator, std::string_view data);
  Status Failed(Entry* entry, const Status& status);
  StatusOr<Handle> OpenHandle(const StocFileId& file);
  void CacheHandle(const StocFileId& file, Handle handle);
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

  std::atomic<uint64_t> stored_bytes_{0};
  std::atomic<uint64_t> writing_bytes_{0};
  std::atomic<uint64_t> next_temporary_{0};

  mutable Mutex mu_;
  std::map<StocFileId, std::shared_ptr<Entry>> entries_ ABSL_GUARDED_BY(mu_);
  std::list<std::pair<StocFileId, Handle>> handles_ ABSL_GUARDED_BY(mu_);  // the latest used first
  std::map<StocFileId, std::list<std::pair<StocFileId, Handle>>::iterator> handle_of_ ABSL_GUARDED_BY(mu_);
};

}  // namespace nova
