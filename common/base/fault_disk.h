// FaultDisk: a Disk in front of another that fails where it was told to (faults rows 20-26).
//
// A rule names a part of a path, an operation, and which of the matching calls it hits: from the `nth` (1 =
// the first) on, `count` of them. The first rule that hits decides. It waits delay_ns first.
//
//   kEio       the call fails with DataLoss and does nothing
//   kNoSpace   the call fails with ResourceExhausted and does nothing; FreeBytes answers 0
//   kReadOnly  the call fails with PermissionDenied and does nothing
//   kDelay     does what was asked
//   kTorn      Write: the first half lands, then DataLoss; another call: as kEio
//   kBitFlip   Write, Read: one bit in the middle is inverted and nobody is told; another call: nothing
//
// Thread safety: all.   Ownership: `base` outlives it.   Errors: those of the rules, and the base's.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "common/base/clock.h"
#include "common/base/disk.h"
#include "common/base/mutex.h"

namespace nova {

enum class DiskOp : uint8_t {
  kCreate,
  kOpen,
  kWrite,
  kRead,
  kSync,
  kDelete,
  kRename,
  kSyncDirectory,
  kList,
  kFreeBytes
};
enum class FaultAction : uint8_t { kEio, kNoSpace, kReadOnly, kDelay, kTorn, kBitFlip };

struct FaultRule {
  std::string path = {};  // part of it; empty: any. Of Rename: of the old or the new one
  DiskOp op = DiskOp::kWrite;
  FaultAction action = FaultAction::kEio;
  uint64_t nth = 1;
  uint64_t count = UINT64_MAX;
  Nanos delay_ns = 0;
  // Asked of each call that the rule would hit; null: all are hit. It takes no time and calls no FaultDisk.
  std::function<bool(const std::string& path)> where = {};
};

class FaultDisk : public Disk {
 public:
  explicit FaultDisk(Disk* base);
  ~FaultDisk() override;

  void Add(FaultRule rule);
  void Clear();
  uint64_t faults() const;  // calls that were hit

  StatusOr<std::unique_ptr<DiskFile>> Create(const std::string& path) override;
  StatusOr<std::unique_ptr<DiskFile>> Open(const std::string& path, bool writable) override;
  Status Delete(const std::string& path) override;
  Status Rename(const std::string& from, const std::string& to) override;
  Status MakeDirectory(const std::string& path) override;
  Status SyncDirectory(const std::string& path) override;
  StatusOr<std::vector<std::string>> List(const std::string& path) override;
  StatusOr<uint64_t> FreeBytes() override;
  Uuid Boot() const override { return base_->Boot(); }
  Status Lock(const std::string& path) override;

 private:
  class File;
  struct Rules;
  Disk* const base_;
  const std::shared_ptr<Rules> rules_;  // shared with open files
};

}  // namespace nova
