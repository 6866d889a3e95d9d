#include "common/base/fault_disk.h"

#include <optional>

namespace nova {

struct FaultDisk::Rules {
  struct Armed {
    FaultRule rule;
    uint64_t seen = 0;
  };

  mutable Mutex mu;
  std::vector<Armed> armed ABSL_GUARDED_BY(mu);
  uint64_t faults ABSL_GUARDED_BY(mu) = 0;

  std::optional<FaultRule> Hit(DiskOp op, const std::string& path, const std::string& other_path) {
    MutexLock lock(&mu);
    std::optional<FaultRule> hit;
    for (Armed& a : armed) {
      if (a.rule.op != op) continue;
      if (path.find(a.rule.path) == std::string::npos && other_path.find(a.rule.path) == std::string::npos)
        continue;
      if (a.rule.where && !a.rule.where(path)) continue;
      ++a.seen;
      if (!hit && a.seen >= a.rule.nth && a.seen - a.rule.nth < a.rule.count) hit = a.rule;
    }
    if (hit) ++faults;
    return hit;
  }

  // Waits where the rule says so; the error of a call that is not to happen. `*special` is set for what only
  // the caller can do.
  Status Before(DiskOp op, const std::string& path, std::optional<FaultAction>* special = nullptr,
                const std::string& other_path = "") {
    const std::optional<FaultRule> hit = Hit(op, path, other_path);
    if (!hit) return OkStatus();
    if (hit->delay_ns > 0) SleepFor(hit->delay_ns);
    switch (hit->action) {
      case FaultAction::kDelay:
        return OkStatus();
      case FaultAction::kNoSpace:
        return absl::ResourceExhaustedError(StrCat(path, ": no space left (injected)"));
      case FaultAction::kReadOnly:
        return absl::PermissionDeniedError(StrCat(path, ": read-only file system (injected)"));
      case FaultAction::kBitFlip:
        if (special != nullptr) *special = hit->action;
        return OkStatus();
      case FaultAction::kTorn:
        if (special == nullptr) break;
        *special = hit->action;
        return OkStatus();
      case FaultAction::kEio:
        break;
    }
    return absl::DataLossError(StrCat(path, ": I/O error (injected)"));
  }
};

class FaultDisk::File : public DiskFile {
 public:
  File(std::unique_ptr<DiskFile> base, std::shared_ptr<Rules> rules, std::string path)
      : base_(std::move(base)), rules_(std::move(rules)), path_(std::move(path)) {}

  Status Write(uint64_t offset, std::string_view data) override {
    std::optional<FaultAction> special;
    NOVA_RETURN_IF_ERROR(rules_->Before(DiskOp::kWrite, path_, &special));
    if (special == FaultAction::kTorn) {
      NOVA_RETURN_IF_ERROR(base_->Write(offset, data.substr(0, data.size() / 2)));
      return absl::DataLossError(StrCat("write ", path_, ": torn (injected)"));
    }
    if (special != FaultAction::kBitFlip || data.empty()) return base_->Write(offset, data);
    std::string damaged(data);
    damaged[damaged.size() / 2] ^= 0x10;
    return base_->Write(offset, damaged);
  }
  Status Read(uint64_t offset, size_t n, char* out) override {
    std::optional<FaultAction> special;
    NOVA_RETURN_IF_ERROR(rules_->Before(DiskOp::kRead, path_, &special));
    if (special == FaultAction::kTorn)
      return absl::DataLossError(StrCat("read ", path_, ": I/O error (injected)"));
    NOVA_RETURN_IF_ERROR(base_->Read(offset, n, out));
    if (special == FaultAction::kBitFlip && n > 0) out[n / 2] ^= 0x10;
    return OkStatus();
  }
  Status Sync() override {
    NOVA_RETURN_IF_ERROR(rules_->Before(DiskOp::kSync, path_));
    return base_->Sync();
  }
  StatusOr<uint64_t> Size() override { return base_->Size(); }

 private:
  const std::unique_ptr<DiskFile> base_;
  const std::shared_ptr<Rules> rules_;
  const std::string path_;
};

FaultDisk::FaultDisk(Disk* base) : base_(base), rules_(std::make_shared<Rules>()) {}
FaultDisk::~FaultDisk() = default;

void FaultDisk::Add(FaultRule rule) {
  MutexLock lock(&rules_->mu);
  rules_->armed.push_back({std::move(rule), 0});
}
void FaultDisk::Clear() {
  MutexLock lock(&rules_->mu);
  rules_->armed.clear();
}
uint64_t FaultDisk::faults() const {
  MutexLock lock(&rules_->mu);
  return rules_->faults;
}

StatusOr<std::unique_ptr<DiskFile>> FaultDisk::Create(const std::string& path) {
  NOVA_RETURN_IF_ERROR(rules_->Before(DiskOp::kCreate, path));
  NOVA_ASSIGN_OR_RETURN(auto file, base_->Create(path));
  return std::unique_ptr<DiskFile>(std::make_unique<File>(std::move(file), rules_, path));
}
StatusOr<std::unique_ptr<DiskFile>> FaultDisk::Open(const std::string& path, bool writable) {
  NOVA_RETURN_IF_ERROR(rules_->Before(DiskOp::kOpen, path));
  NOVA_ASSIGN_OR_RETURN(auto file, base_->Open(path, writable));
  return std::unique_ptr<DiskFile>(std::make_unique<File>(std::move(file), rules_, path));
}
StatusOr<std::unique_ptr<DiskFile>> FaultDisk::OpenUncached(const std::string& path) {
  NOVA_RETURN_IF_ERROR(rules_->Before(DiskOp::kOpen, path));
  NOVA_ASSIGN_OR_RETURN(auto file, base_->OpenUncached(path));
  return std::unique_ptr<DiskFile>(std::make_unique<File>(std::move(file), rules_, path));
}
Status FaultDisk::Delete(const std::string& path) {
  NOVA_RETURN_IF_ERROR(rules_->Before(DiskOp::kDelete, path));
  return base_->Delete(path);
}
Status FaultDisk::Rename(const std::string& from, const std::string& to) {
  NOVA_RETURN_IF_ERROR(rules_->Before(DiskOp::kRename, from, nullptr, to));
  return base_->Rename(from, to);
}
Status FaultDisk::MakeDirectory(const std::string& path) { return base_->MakeDirectory(path); }
Status FaultDisk::SyncDirectory(const std::string& path) {
  NOVA_RETURN_IF_ERROR(rules_->Before(DiskOp::kSyncDirectory, path));
  return base_->SyncDirectory(path);
}
StatusOr<std::vector<std::string>> FaultDisk::List(const std::string& path) {
  NOVA_RETURN_IF_ERROR(rules_->Before(DiskOp::kList, path));
  return base_->List(path);
}
StatusOr<uint64_t> FaultDisk::FreeBytes() {
  const Status s = rules_->Before(DiskOp::kFreeBytes, "");
  if (absl::IsResourceExhausted(s)) return uint64_t{0};
  NOVA_RETURN_IF_ERROR(s);
  return base_->FreeBytes();
}
Status FaultDisk::Lock(const std::string& path) { return base_->Lock(path); }

}  // namespace nova
