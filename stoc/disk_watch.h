// DiskWatch: a Disk in front of a StoC's that notes how each operation fares, and tells what ails the disk.
//
//   fault   an operation ended with EIO (DataLoss), or was refused as on a read-only disk (PermissionDenied).
//           It stays so: later successes say nothing of the bytes that were lost, or would not be written.
//           Only Forgive ends it, up to a number of faults
//   hung    an operation is inside for `hung_after_ns`, or ended after as long; until none was for
//           `well_after_ns`
//   full    fewer bytes were free than new files need, when somebody last asked; or an operation found the
//           disk full a moment ago. Until a quarter more than that is free
//   times   of reads, and of syncs of files and directories: means over the last seconds, the oldest that has
//           not ended counted in. How slow is slow, who sees other disks can tell (coordinator/disk_pace.h)
//
// Nothing is kept from the caller, and nothing is tried twice.
//
// Thread safety: all. Report and its kin never wait for the disk.
// Ownership:     `base` outlives it; it outlives its files.
// Errors:        the base's.
// Units:         time is Now().
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "common/base/clock.h"
#include "common/base/disk.h"
#include "common/base/mutex.h"
#include "coordinator/coordinator_client.h"

namespace nova {

// When a disk is taken for ill.
struct DiskWatchOptions {
  uint64_t full_below_bytes = 0;       // with fewer free ones new files are refused
  Nanos hung_after_ns = 10 * kSecond;  // of one operation that does not end
  Nanos well_after_ns = 10 * kSecond;  // hung for so long after the last such operation has ended
};

class DiskWatch : public Disk {
 public:
  DiskWatch(Disk* base, const DiskWatchOptions& options);
  ~DiskWatch() override;

  // All that a heartbeat says of the disk. Does not wait for it.
  DiskReport Report();
  DiskState State();       // the worst of what Report says; kOk, too, of a disk that is merely slow
  bool HasFault() const;   // Report().fault is one
  Nanos OldestNs() const;  // for how long the oldest operation that has not ended is inside; 0: none is
  uint64_t FreeBytesKnown() const;  // as FreeBytes last said; 0 before that
  Nanos LastSyncedNs() const;       // when a sync last ended; 0: never
  // Takes the first `faults` of this process for forgiven: where there were no more, there is no fault.
  void Forgive(uint64_t faults);

  StatusOr<std::unique_ptr<DiskFile>> Create(const std::string& path) override;
  StatusOr<std::unique_ptr<DiskFile>> Open(const std::string& path, bool writable) override;
  StatusOr<std::unique_ptr<DiskFile>> OpenUncached(const std::string& path) override;
  Status Delete(const std::string& path) override;
  Status Rename(const std::string& from, const std::string& to) override;
  Status MakeDirectory(const std::string& path) override;
  Status SyncDirectory(const std::string& path) override;
  StatusOr<std::vector<std::string>> List(const std::string& path) override;
  StatusOr<uint64_t> FreeBytes() override;
  std::string NativePath(const std::string& path) const override { return base_->NativePath(path); }
  Status Link(const std::string& native_path, const std::string& path) override;
  Uuid Boot() const override { return base_->Boot(); }
  Status Lock(const std::string& path) override;

 private:
  class File;  // a file of the base; its operations are noted like others
  // Reads and syncs have a mean time each; the others are only watched for errors and hangs.
  enum class Kind { kRead, kSync, kOther };
  // An operation that is inside; a member of the list of all of them, the oldest first.
  struct Operation {
    Kind kind;
    Nanos since_ns;              // when it began
    Operation* older = nullptr;  // its neighbours in the list
    Operation* younger = nullptr;
  };
  // The mean time of an operation. Of each second in which there were some the mean is taken, and counts
  // three times as much as all seconds before it: few operations say as much as many.
  class Mean {
   public:
    void Add(Nanos took_ns, Nanos now);  // an operation has ended
    // With an operation that has been inside for so long; 0: with none. 0: nothing is known.
    Nanos With(Nanos inside_ns, Nanos now) const;

   private:
    // Takes the sums into the mean, if the second that they are of is over.
    void CloseSecond(Nanos now);

    double before_ns_ = 0;  // of the seconds that are over; 0: there was none
    double sum_ns_ = 0;     // of this one
    double count_ = 0;      // operations of this second
    Nanos second_began_ns_ = 0;
    Nanos last_ns_ = 0;  // when an operation last ended
  };

  // Runs an operation of the base and notes how it fared; what it returned.
  template <typename Body>
  auto Noted(Kind kind, const Body& body);
  // Before and after each operation of the base.
  void Enter(Operation* op);
  void Leave(Operation* op, const Status& s);
  // What the end of an operation says of the disk: a fault, no space, nothing.
  void NoteStatusLocked(const Status& s, Nanos now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // An operation that began then has not ended by now, or has ended now.
  void NoteHangLocked(Nanos since_ns, Nanos now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // For how long the oldest operation of the kind has been inside; 0: none is.
  Nanos InsideLocked(Kind kind, Nanos now) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Few bytes are free, or an operation has found no space of late.
  bool IsFullLocked(Nanos now) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  Disk* const base_;
  const DiskWatchOptions options_;
  mutable Mutex mu_;
  Operation* oldest_ ABSL_GUARDED_BY(mu_) = nullptr;  // of those that are inside
  Operation* youngest_ ABSL_GUARDED_BY(mu_) = nullptr;
  Mean reads_ ABSL_GUARDED_BY(mu_);
  Mean syncs_ ABSL_GUARDED_BY(mu_);
  DiskState fault_ ABSL_GUARDED_BY(mu_) = DiskState::kOk;  // the worst that is not forgiven
  uint64_t faults_ ABSL_GUARDED_BY(mu_) = 0;               // of this process, forgiven ones too
  Nanos hung_since_ns_ ABSL_GUARDED_BY(mu_) = 0;   // when the operation began that hung first; 0: none
  Nanos last_hung_ns_ ABSL_GUARDED_BY(mu_) = 0;    // when it was last seen to hang; 0: never
  uint64_t free_bytes_ ABSL_GUARDED_BY(mu_) = 0;   // see FreeBytesKnown
  bool low_ ABSL_GUARDED_BY(mu_) = false;          // too few bytes are free
  Nanos no_space_ns_ ABSL_GUARDED_BY(mu_) = 0;     // when an operation found it full; 0: never
  Nanos last_synced_ns_ ABSL_GUARDED_BY(mu_) = 0;  // see LastSyncedNs
};

}  // namespace nova
