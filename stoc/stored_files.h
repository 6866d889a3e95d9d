// StoredFiles: which files a store has, which ranges reference the shared ones (shared table, M4), and how a
// file begins and ends: entered before it is written, usable when it is durable.
//
// A file that was never shared is its creator's, by its header; once it is shared its list says whose it is.
// Bad file (S1): one whose write or sync failed is bad for ever. Damaged (scrub, S6): what lies on the disk
// is not what was written; until the file is written anew.
//
// Thread safety: all; CreateAppended, Delete, FinishCreation and Load wait for the disk.
// Locks:         of a log its sync_mu, of a file its append_mu, the list's, in this order.
// Ownership:     the StoreDirectory outlives it. A StoredFile that was unlisted lives on with whoever has it.
// Errors:        as FileStore.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <vector>

#include "common/base/clock.h"
#include "common/base/metrics.h"
#include "common/base/mutex.h"
#include "stoc/file_references.h"
#include "stoc/store_directory.h"
#include "stoc/written_prefix.h"

namespace nova {

uint64_t WallMs();  // of files' making; for people

// What LogFiles keeps of a log.
struct LogFileState {
  std::atomic<uint64_t> unsynced_writes{0};  // that asked for no sync, and are not in the journal
  std::atomic<uint64_t> synced_writes{0};    // of them, since: those before a sync
  std::atomic<bool> incomplete{false};       // what the journal has of it was not put back
  // One sync at a time, so that none misses another's failure (bad file, S1); before append_mu.
  Mutex sync_mu;
  // What was written before may never become durable, whatever a later sync says.
  bool sync_failed ABSL_GUARDED_BY(sync_mu) = false;
};

// A file of the store, from when it is entered until nobody has it any more.
struct StoredFile {
  explicit StoredFile(const FileHeader& h) : header(h) {}
  const StocFileId& id() const { return header.file; }
  bool is(FileHeader::Kind kind) const { return header.kind == kind; }

  // Never changes but for epoch, job and age of a whole file, which StoredFiles::Recreated sets.
  FileHeader header;
  std::atomic<uint64_t> size{0};            // of the bytes that are durable
  std::atomic<Nanos> since_ns{Now()};       // when this process came to know it, as it is: of its age
  std::atomic<bool> writing{true};          // being created
  std::atomic<bool> counted{false};         // StoreDirectory::stored_bytes has it: it was created, or loaded
  std::atomic<bool> left_to_writer{false};  // unlisted while it was being created: its writer deletes it
  std::atomic<bool> bad{false};             // bad file (S1)
  std::atomic<bool> damaged{false};         // scrub (S6); set by StoredFiles
  std::atomic<uint64_t> rewrites{0};        // how often it was written anew in its place
  LogFileState log_state;                   // of kind kLog

  Mutex append_mu;  // one append at a time; one healing
  // null: closed to appends
  StoreDirectory::Handle append_handle ABSL_GUARDED_BY(append_mu);
  // Of a file that is appended to: what this process has written, or has found to be whole.
  WrittenPrefix written ABSL_GUARDED_BY(append_mu);
};

class StoredFiles {
 public:
  using File = std::shared_ptr<StoredFile>;

  StoredFiles(StoreDirectory* directory, Metrics* metrics);

  // --- at start
  // Enters a file that the disk has, by its header. An error: it cannot be read, and is not entered.
  Status Load(const StocFileId& file);
  // What the list beside a file says.
  void LoadReferences(const StocFileId& file, FileReferences references);

  // --- which there are
  File Find(const StocFileId& file) const;  // null: none
  bool IsListed(const File& file) const;    // it was not unlisted since
  std::vector<File> Logs() const;           // all files of kind kLog
  // The range's of epochs below, but those that are being created. Takes no longer where there are more files
  // of others.
  std::vector<File> LogsOf(RangeId range, Epoch epoch_below) const;
  bool HasLogsOf(RangeId range, Epoch epoch_below) const;  // those that are being created too
  // Of one file; nullopt: it is not there.
  std::optional<FileSummary> Summary(const StocFileId& file) const;
  // As FileStore::List.
  std::vector<FileSummary> List(RangeId range, Epoch epoch_below, const StocFileId& after,
                                size_t limit) const;

  // --- the beginning and end of a file
  // Enters it. If there is one of that name, that one instead; null: one is going, try again.
  File AddOrFind(const File& file);
  // The end of a creation: the file becomes usable; or goes, when the disk was merely full; or stays as a bad
  // one (S1).
  Status FinishCreation(const File& file, const Status& status);
  // A file that is appended to, or a log.
  Status CreateAppended(FileHeader::Kind kind, const StocFileId& file, const Creator& creator,
                        std::string_view data);
  // A whole file was written anew with this header, whose creator is the same or a later one of the same
  // range; it is damaged no more. False: it was unlisted meanwhile. The caller holds the file's append_mu.
  bool Recreated(const File& file, const FileHeader& header);
  // A write or sync failed: nobody knows what is there now; what was acknowledged before still is (S1).
  Status Failed(StoredFile* file, const Status& status);
  // Something of the store cannot be used.
  void NoteBad() { bad_files_->Add(); }
  // Those that are there; goes on after an error and returns the first.
  Status Delete(const std::vector<StocFileId>& files);
  // Deletes one that was unlisted, after whoever is healing it; one that is being created is left to its
  // writer. The caller then frees its name, whatever this returns: until then nobody can enter it, for a file
  // that is there later must not be deleted in its place.
  Status DeleteUnlisted(const File& file);
  void FreeName(const File& unlisted);  // a file of that name may be entered again
  // Of a file on the disk that is not entered: none is under its name until it is freed, so it may be
  // deleted. False: one is, or goes, or it has a list of references.
  bool TakeName(const StocFileId& file);
  void FreeTakenName(const StocFileId& file);

  // --- scrub (S6)
  // What is behind `after`, in the order of files, without those that are being created: the first ones, at
  // most `most`, and how much all of them are.
  struct Rest {
    std::vector<File> first;
    uint64_t files = 0;
    uint64_t bytes = 0;
  };
  Rest Behind(const StocFileId& after, size_t most) const;
  // A file as it is now, for who looks at its bytes.
  struct Look {
    FileHeader header;
    uint64_t rewrites = 0;  // StoredFile::rewrites at that moment, for SetDamaged
  };
  Look LookAt(const File& file) const;
  // A look at the file's bytes has told whether it is damaged. False: they are not the file's any more, for
  // it was unlisted or written anew since the look began.
  bool SetDamaged(const File& file, uint64_t rewrites, bool damaged);
  std::vector<StocFileId> Damaged() const;  // those that are marked

  // --- references
  // The range of `who` references the file, by its epoch or an earlier one.
  bool References(const StoredFile& file, const Creator& who) const;
  // The file has a list of references, or belongs to another range than that.
  bool IsOrWillBeShared(const StoredFile& file, RangeId range) const;
  // The list of a shared file; nullopt: it is not shared.
  std::optional<FileReferences> ReferencesOf(const StocFileId& file) const;
  // The list with that reference, to be written. NotFound: no such file of kind kWhole.
  StatusOr<FileReferences> AddReference(RangeId range, Epoch epoch, const StocFileId& file);
  // What DropUnshared did. kIsShared: nothing, for the file has a list: DropShared is the way.
  enum class Dropped { kNothing, kFile, kIsShared };
  // Of a file that was never shared. kFile: it was the range's, and is unlisted. `ended_below` as of
  // SharedReferences::DropReferences.
  Dropped DropUnshared(RangeId range, Epoch epoch, uint64_t ended_below, const StocFileId& file,
                       File* unlisted);
  // The list without the reference of an epoch up to `upto`, to be written; nullopt: it had none. When nobody
  // is left the file is unlisted.
  StatusOr<std::optional<FileReferences>> DropShared(RangeId range, Epoch upto, const StocFileId& file,
                                                     File* unlisted);

 private:
  struct LogKey {  // a log by whose it is; the creator of a log never changes
    RangeId range;
    Epoch epoch;
    StocFileId id;
    auto operator<=>(const LogKey&) const = default;
  };
  using Files = std::map<StocFileId, File>;

  static LogKey KeyOf(const StoredFile& log);
  // Into files_, unless the name is taken, and out of it: logs_ follows.
  File EnterLocked(const File& file) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);  // who has the name
  void EraseLocked(Files::iterator file) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // References, under the lock.
  bool ReferencesLocked(const StoredFile& file, const Creator& who) const ABSL_SHARED_LOCKS_REQUIRED(mu_);
  // Sets the file's flag, and counts.
  void SetDamagedLocked(StoredFile* file, bool damaged) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Its name stays taken until FreeName. Null: there is none.
  File UnlistLocked(const StocFileId& file) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  StoreDirectory* const directory_;
  Counter* const bad_files_;
  Gauge* const count_;    // of files_
  Gauge* const damaged_;  // of those that are marked

  mutable Mutex mu_;
  Files files_ ABSL_GUARDED_BY(mu_);
  std::map<LogKey, File> logs_ ABSL_GUARDED_BY(mu_);  // those of files_ that are of kind kLog
  std::set<StocFileId> going_ ABSL_GUARDED_BY(mu_);   // unlisted, perhaps still on the disk
  std::map<StocFileId, FileReferences> references_ ABSL_GUARDED_BY(mu_);  // of shared files
};

}  // namespace nova
