// Manifest (M1): the log of a range's version edits: a snapshot record, then edits; one file per epoch and
// roll.
//
//   record   u32 crc | u32 length | payload (a VersionEdit)
//            crc = CRC-32C of (file uuid | u32 length | payload)
//
// What may lie behind the last acknowledged record. Appends go out one at a time, the next only when every
// member has acknowledged the one before; so behind the valid prefix there is at most one record, never
// acknowledged, and torn if its StoC died over it. A torn record is cut short, or holds zeros where sectors
// were not written; its other bytes are right. So these are no torn tails, but damage to what was
// acknowledged, and recovery says so rather than to lose edits in silence:
//   - a valid record further on, in any copy: it was sent after the one that is missing was acknowledged;
//   - in every copy that answers: a record that is whole (its length fits, or its payload parses to the end),
//     has nothing that is zero for want of writing, and fails its crc; or bytes behind it.
//
// Storage is a seam: over StoCs (write-all to M members, epoch checked there, the pointer in the range's
// record) and local (a file and a CURRENT pointer).
//
// Thread safety: none; the range serialises (manifest_mu_).   Errors: FailedPrecondition: the epoch is
//                fenced, the range is lost.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/ids.h"
#include "common/base/log_throttle.h"
#include "ltc/engine/version.h"

namespace nova {

class ManifestStorage {
 public:
  virtual ~ManifestStorage() = default;
  // Creates the file on fresh members and writes the first record to all of them, synced. After an error it
  // leaves no file behind.
  virtual StatusOr<ManifestGroup> Create(std::string_view first_record, const Uuid& file) = 0;
  // synced on all members
  virtual Status Append(const ManifestGroup& group, uint64_t offset, std::string_view record) = 0;
  // Makes `group` the one that recovery reads (compare-and-set). Until it returned, no edit in it counts.
  // Cancelled: this call did not, and never will. After any other error it may be that all the same; to ask
  // again is harmless.
  virtual Status Install(const ManifestGroup& group) = 0;
  // False: whoever installs does not answer now. A new file that may wait is not begun then.
  virtual bool MayInstall() const { return true; }
  virtual void Delete(const ManifestGroup& group) = 0;  // best effort, and not waited for
};

class Manifest {
 public:
  explicit Manifest(ManifestStorage* storage) : storage_(storage) {}

  // Starts the first file of this epoch with `snapshot`; not installed yet: the caller does that with its
  // OPEN (wait, R5).
  Status Start(const VersionEdit& snapshot);
  const ManifestGroup& group() const { return file_.group; }

  // Makes `edit` durable on all members. `snapshot` (with the edit applied) is written instead, to a new file
  // on other members, when a member fails or the file has grown (roll): nothing is acknowledged in the old
  // file after that.
  Status Append(const VersionEdit& edit, const std::function<VersionEdit()>& snapshot);

  // M1 (renewal): a new file is written to fresh members while edits go on in the old one.
  //   BeginRenewal   `snapshot` holds every edit acknowledged so far. From now on those that are acknowledged
  //                  are kept for the new file too. Unavailable: a file is in doubt.
  //   (the caller writes first_record by ManifestStorage::Create; Append may be called meanwhile)
  //   EndRenewal     what was kept is written to the new file, which then is installed. After an error the
  //                  old file goes on, but where the installing is in doubt: then as after a roll in doubt.
  //                  Aborted: a roll was first.
  //   DropRenewal    the new file could not be made.
  struct Renewal {
    Uuid file;
    std::string first_record;
  };
  StatusOr<Renewal> BeginRenewal(const VersionEdit& snapshot);
  Status EndRenewal(const ManifestGroup& group);
  void DropRenewal() { renewal_.reset(); }

  // One member's file, and how to call it in an error: "stoc 3 (name)".
  struct Copy {
    std::string where;
    std::string bytes;
  };
  // The edits of a file, the snapshot first: at each offset the record of whichever copy holds it whole, to
  // where no copy does.
  // DataLoss: not even the snapshot is whole; or what lies behind is no torn tail: the text names file,
  // offset and places.
  static StatusOr<std::vector<VersionEdit>> Recover(const Uuid& file, const std::vector<Copy>& copies);
  static std::string EncodeRecord(const Uuid& file, const VersionEdit& edit);

 private:
  static constexpr uint64_t kRollBytes = 4 << 20;
  struct File {
    ManifestGroup group;
    uint64_t offset = 0;              // its end
    uint64_t first_record_bytes = 0;  // a file rolls when its edits have grown, however large the snapshot is
  };
  struct Kept {  // for the file of a renewal that has begun
    Uuid file;
    uint64_t first_record_bytes = 0;
    std::string edits;  // records
  };
  StatusOr<File> NewFile(const VersionEdit& snapshot);
  Status Switch(File next);
  Status SettleDoubt();

  ManifestStorage* const storage_;
  File file_;
  bool roll_next_ = false;
  std::optional<Kept> renewal_;
  // M1: perhaps it is installed, so nothing may be acknowledged in `file_`
  std::optional<ManifestGroup> in_doubt_;
  LogThrottle rolls_;
};

}  // namespace nova
