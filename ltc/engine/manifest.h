// Manifest (M1): the log of a range's version edits: a snapshot record, then edits; one file for each epoch,
// and a new one when the file is rolled or renewed.
//
//   record   u32 crc | u32 length | payload (a VersionEdit)
//            crc = CRC-32C of (file uuid | u32 length | payload)
//
// Bytes behind the last acknowledged record. Appends go out one at a time, the next when every member has
// acknowledged the one before. So behind the valid prefix lies at most one record, never acknowledged, and
// torn if its StoC died over it. A torn record is cut short, or holds zeros where sectors were not written;
// its other bytes are right. The following are therefore no torn tails but damage to acknowledged edits, and
// recovery says so instead of losing edits in silence:
// - a valid record further on, in any copy: it was sent after the missing one was acknowledged;
// - in every copy that answers: a record that is whole (its length fits, or its payload parses to the end),
//   has no zeros that may be unwritten sectors, and fails its crc; or bytes behind it.
//
// Storage is a seam: StoCs (every append goes to all M members, which check the epoch; the range's record
// names the file), or local files (CURRENT names the file).
//
// After a failed append the file goes on only if a new one cannot be made either. The next record then goes
// to the same offset. A member that has the one that failed refuses it, for its file is longer, and the
// manifest rolls once more: no member ever has two records at one place.
//
// Thread safety: none; VersionSet calls it under its lock.
// Ownership: the storage outlives it.
// Errors: FailedPrecondition: the epoch is fenced, the range is lost. After any other error of Append the
//   edit does not count, and may be found all the same until a later one counts.
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

// The place where manifests lie. All methods wait, but for MayInstall and Delete.
class ManifestStorage {
 public:
  virtual ~ManifestStorage() = default;
  // Creates the file on fresh members and writes the first record to all of them, synced. After an error
  // some members may have the file, which nothing references (collection, N4).
  virtual StatusOr<ManifestGroup> Create(std::string_view first_record, const Uuid& file) = 0;
  // Writes a record at the file's end, synced on all members. After an error some members may have it.
  virtual Status Append(const ManifestGroup& group, uint64_t offset, std::string_view record) = 0;
  // Makes `group` the manifest that recovery reads (compare-and-set). No edit in it counts before this
  // returns. Cancelled: it is not installed, and never will be by this call. After any other error it may be;
  // to ask again is harmless.
  virtual Status Install(const ManifestGroup& group) = 0;
  // False: the store of records does not answer now, so a new file that can wait is not begun.
  virtual bool MayInstall() const { return true; }
  virtual void Delete(const ManifestGroup& group) = 0;  // best effort; on StoCs in the background
};

class Manifest {
 public:
  explicit Manifest(ManifestStorage* storage) : storage_(storage) {}

  // Starts the first file of this epoch with `snapshot`. It is not installed: the caller does that together
  // with OPEN.
  Status Start(const VersionEdit& snapshot);
  const ManifestGroup& group() const { return file_.group; }  // the file in use, and its members
  uint64_t bytes() const { return file_.offset; }             // of it, which each member has

  // Makes `edit` durable on all members. If a member fails or the file has grown (roll), `snapshot`, which
  // has the edit applied, is written to a new file on other members instead; nothing is acknowledged in the
  // old file after that.
  Status Append(const VersionEdit& edit, const std::function<VersionEdit()>& snapshot);

  // M1 (renewal): a new file is written to fresh members while edits go on in the old one.
  //   BeginRenewal   `snapshot` holds every edit acknowledged so far. From now on those that are acknowledged
  //                  are kept for the new file too. Unavailable: a file is in doubt.
  //   (the caller writes first_record by ManifestStorage::Create; Append may be called meanwhile)
  //   EndRenewal     the kept edits are written to the new file, which then is installed. After an error the
  //                  old file goes on, but where the installing is in doubt: then as after a roll in doubt.
  //                  Aborted: a roll was first.
  //   DropRenewal    the new file could not be made.
  // A new file that is to be created.
  struct Renewal {
    Uuid file;                 // its uuid, drawn for it
    std::string first_record;  // the snapshot, encoded for that file
  };
  StatusOr<Renewal> BeginRenewal(const VersionEdit& snapshot);
  Status EndRenewal(const ManifestGroup& group);
  void DropRenewal() { renewal_.reset(); }

  // One member's file. `where` names it in errors: "stoc 3 (name)".
  struct Copy {
    std::string where;
    std::string bytes;  // all that it has
  };
  // The edits of a file, the snapshot first. At each offset the record comes from any copy that has it whole;
  // the edits end where none has. DataLoss: not even the snapshot is whole, or the bytes behind the last
  // record are no torn tail; the text names file, offset and copies.
  static StatusOr<std::vector<VersionEdit>> Recover(const Uuid& file, const std::vector<Copy>& copies);
  // The bytes of a record; the file's uuid is part of the checksum.
  static std::string EncodeRecord(const Uuid& file, const VersionEdit& edit);

 private:
  static constexpr uint64_t kRollBytes = 4 << 20;  // edits behind the snapshot after which a file rolls
  // A file, and where the next record goes.
  struct File {
    ManifestGroup group;
    uint64_t offset = 0;              // of its end
    uint64_t first_record_bytes = 0;  // a file rolls by its edits, however large its snapshot is
  };
  // Edits acknowledged since a renewal has begun, for its file.
  struct Kept {
    Uuid file;                        // the new one
    uint64_t first_record_bytes = 0;  // of it
    std::string edits;                // encoded records
  };
  // Creates a file that begins with `snapshot`.
  StatusOr<File> NewFile(const VersionEdit& snapshot);
  // Installs `next`, which holds every acknowledged edit. Afterwards it is the file, or the old one goes on,
  // or it is in doubt.
  Status Switch(File next);
  // Ok: no file is in doubt any more; else nothing may be written.
  Status SettleDoubt();

  ManifestStorage* const storage_;
  File file_;               // the one that is installed, as far as is known
  bool roll_next_ = false;  // the file may hold an edit whose failure was reported: the next Append rolls
  std::optional<Kept> renewal_;  // of a renewal that has begun
  // A file that is perhaps installed, so nothing may be acknowledged in file_ (M1).
  std::optional<ManifestGroup> in_doubt_;
  LogThrottle rolls_;  // lines about rolls
};

}  // namespace nova
