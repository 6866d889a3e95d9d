// FaultDisk: a Disk in front of another that fails where it was told to.
//
// A rule names a part of a path, an operation, and which of the matching calls it hits: `count` calls from
// the `nth` on (1 = the first). The first rule that hits decides. It waits delay_ns first.
//
//   kEio       the call fails with DataLoss and does nothing
//   kNoSpace   the call fails with ResourceExhausted and does nothing; FreeBytes answers 0
//   kReadOnly  the call fails with PermissionDenied and does nothing
//   kDelay     the call is carried out, delay_ns later
//   kTorn      Write: the first half lands, then DataLoss; other calls: as kEio
//   kBitFlip   Write, Read: one bit in the middle is inverted, without an error; other calls: no effect
//
// Thread safety: all.
// Ownership: `base` outlives it.
// Errors: those of the rules, and the base's.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "common/base/clock.h"
#include "common/base/disk.h"
#include "common/base/mutex.h"

namespace nova {

// The operations that a rule may hit.
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
// What happens instead: an error, a delay, a write that is cut short, a read with a flipped bit.
enum class FaultAction : uint8_t { kEio, kNoSpace, kReadOnly, kDelay, kTorn, kBitFlip };

// Which calls are hit, and how.
struct FaultRule {
  std::string path = {};  // a part of the path; empty: any. Of Rename: of either path
  DiskOp op = DiskOp::kWrite;
  FaultAction action = FaultAction::kEio;  // see the head of this file
  uint64_t nth = 1;                        // of the calls that match, the first that is hit; from 1
  uint64_t count = UINT64_MAX;             // how many calls are hit
  Nanos delay_ns = 0;                      // waited before the action, by each call that is hit
  // Asked of each call that the rule would hit; null: all are hit. It must take no time and call no
  // FaultDisk.
  std::function<bool(const std::string& path)> where = {};
};

class FaultDisk : public Disk {
 public:
  explicit FaultDisk(Disk* base);
  ~FaultDisk() override;

  // Rules are asked in the order they were added; also by files that are open already.
  void Add(FaultRule rule);
  void Clear();             // removes all rules
  uint64_t faults() const;  // calls that were hit, ever

  StatusOr<std::unique_ptr<DiskFile>> Create(const std::string& path) override;
  StatusOr<std::unique_ptr<DiskFile>> Open(const std::string& path, bool writable) override;
  StatusOr<std::unique_ptr<DiskFile>> OpenUncached(const std::string& path) override;  // kOpen, kRead
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
