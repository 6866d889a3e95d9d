#include "stoc/disk_watch.h"

#include <algorithm>
#include <utility>

#include "common/base/failpoint.h"
#include "common/base/log.h"

namespace nova {
namespace {

constexpr Nanos kForgotten = 20 * kSecond;  // after that the times of operations say nothing any more
constexpr Nanos kFullFor = 10 * kSecond;    // after an operation that found the disk full

const Status& StatusOf(const Status& s) { return s; }
template <typename T>
const Status& StatusOf(const StatusOr<T>& s) {
  return s.status();
}

// A mean to which the latest second counts three times as much as all before it; `before` 0: there was none.
double WithLatest(double before, double latest) { return before == 0 ? latest : (before + 3 * latest) / 4; }

}  // namespace

void DiskWatch::Mean::CloseSecond(Nanos now) {
  if (count_ == 0 || now < second_began_ns_ + kSecond) return;
  before_ns_ = WithLatest(before_ns_, std::max(1.0, sum_ns_ / count_));
  sum_ns_ = count_ = 0;
}

void DiskWatch::Mean::Add(Nanos took_ns, Nanos now) {
  CloseSecond(now);
  if (count_ == 0) second_began_ns_ = now;
  sum_ns_ += static_cast<double>(took_ns);
  count_ += 1;
  last_ns_ = now;
}

// One that is inside for less than the others took says nothing yet.
Nanos DiskWatch::Mean::With(Nanos inside_ns, Nanos now) const {
  Mean mean = *this;
  mean.CloseSecond(now);
  if (now > last_ns_ + kForgotten) mean = Mean();
  double known_ns = mean.before_ns_;
  if (mean.count_ > 0) known_ns = WithLatest(known_ns, std::max(1.0, mean.sum_ns_ / mean.count_));
  const auto inside = static_cast<double>(inside_ns);
  if (inside > known_ns) known_ns = WithLatest(known_ns, inside);
  return static_cast<Nanos>(known_ns);
}

DiskWatch::DiskWatch(Disk* base, const DiskWatchOptions& options) : base_(base), options_(options) {}
DiskWatch::~DiskWatch() = default;

// --- what is noted

template <typename Body>
auto DiskWatch::Noted(Kind kind, const Body& body) {
  Operation op{kind, Now()};
  Enter(&op);
  auto result = body();
  Leave(&op, StatusOf(result));
  return result;
}

void DiskWatch::Enter(Operation* op) {
  MutexLock lock(&mu_);
  op->older = youngest_;
  (youngest_ != nullptr ? youngest_->younger : oldest_) = op;
  youngest_ = op;
}

void DiskWatch::Leave(Operation* op, const Status& s) {
  const Nanos now = Now();
  MutexLock lock(&mu_);
  (op->older != nullptr ? op->older->younger : oldest_) = op->younger;
  (op->younger != nullptr ? op->younger->older : youngest_) = op->older;
  NoteHangLocked(op->since_ns, now);
  if (op->kind == Kind::kRead) reads_.Add(now - op->since_ns, now);
  if (op->kind == Kind::kSync) {
    syncs_.Add(now - op->since_ns, now);
    last_synced_ns_ = now;
  }
  NoteStatusLocked(s, now);
}

void DiskWatch::NoteStatusLocked(const Status& s, Nanos now) {
  if (absl::IsResourceExhausted(s)) no_space_ns_ = now;
  const DiskState fault = absl::IsDataLoss(s)           ? DiskState::kFailing
                          : absl::IsPermissionDenied(s) ? DiskState::kReadOnly
                                                        : DiskState::kOk;
  if (fault == DiskState::kOk) return;
  ++faults_;
  if (fault <= fault_) return;
  fault_ = fault;
  NOVA_LOG(ERROR) << "the disk is " << DiskStateName(fault) << ": " << s.message();
}

void DiskWatch::NoteHangLocked(Nanos since_ns, Nanos now) {
  if (now - since_ns < options_.hung_after_ns) return;
  if (last_hung_ns_ == 0 || since_ns >= last_hung_ns_ + options_.well_after_ns) hung_since_ns_ = since_ns;
  last_hung_ns_ = now;
}

void DiskWatch::Forgive(uint64_t faults) {
  MutexLock lock(&mu_);
  if (faults_ <= faults) fault_ = DiskState::kOk;
}

// --- what is told

Nanos DiskWatch::InsideLocked(Kind kind, Nanos now) const {
  for (const Operation* op = oldest_; op != nullptr; op = op->younger) {
    if (op->kind == kind) return now - op->since_ns;
  }
  return 0;
}

bool DiskWatch::IsFullLocked(Nanos now) const {
  return low_ || (no_space_ns_ != 0 && now < no_space_ns_ + kFullFor);
}

DiskReport DiskWatch::Report() {
  const Nanos now = Now();
  MutexLock lock(&mu_);
  if (oldest_ != nullptr) NoteHangLocked(oldest_->since_ns, now);
  DiskReport report;
  report.fault = fault_;
  report.faults = faults_;
  report.full = IsFullLocked(now);
  if (last_hung_ns_ != 0 && now < last_hung_ns_ + options_.well_after_ns)
    report.hung_ns = std::max<Nanos>(1, now - hung_since_ns_);
  report.read_ns = reads_.With(InsideLocked(Kind::kRead, now), now);
  report.sync_ns = syncs_.With(InsideLocked(Kind::kSync, now), now);
  return report;
}

DiskState DiskWatch::State() {
  const DiskReport report = Report();
  return std::max({report.fault, report.full ? DiskState::kFull : DiskState::kOk,
                   report.hung_ns > 0 ? DiskState::kHung : DiskState::kOk});
}

bool DiskWatch::HasFault() const {
  MutexLock lock(&mu_);
  return IsDiskFault(fault_);
}

Nanos DiskWatch::OldestNs() const {
  const Nanos now = Now();
  MutexLock lock(&mu_);
  return oldest_ == nullptr ? 0 : now - oldest_->since_ns;
}

uint64_t DiskWatch::FreeBytesKnown() const {
  MutexLock lock(&mu_);
  return free_bytes_;
}

Nanos DiskWatch::LastSyncedNs() const {
  MutexLock lock(&mu_);
  return last_synced_ns_;
}

// --- the disk

class DiskWatch::File : public DiskFile {
 public:
  File(DiskWatch* watch, std::unique_ptr<DiskFile> base) : watch_(watch), base_(std::move(base)) {}
  Status Write(uint64_t offset, std::string_view data) override {
    return watch_->Noted(Kind::kOther, [&]() -> Status {
      NOVA_FP("stoc.disk_write");
      return base_->Write(offset, data);
    });
  }
  Status Read(uint64_t offset, size_t n, char* out) override {
    return watch_->Noted(Kind::kRead, [&]() -> Status {
      NOVA_FP("stoc.disk_read");
      return base_->Read(offset, n, out);
    });
  }
  Status Sync() override {
    return watch_->Noted(Kind::kSync, [&]() -> Status {
      NOVA_FP("stoc.disk_sync");
      return base_->Sync();
    });
  }
  StatusOr<uint64_t> Size() override {
    return watch_->Noted(Kind::kOther, [&] { return base_->Size(); });
  }
  StatusOr<SharedBytes> Map(uint64_t size) override {
    return watch_->Noted(Kind::kOther, [&] { return base_->Map(size); });
  }

 private:
  DiskWatch* const watch_;
  const std::unique_ptr<DiskFile> base_;
};

StatusOr<std::unique_ptr<DiskFile>> DiskWatch::Create(const std::string& path) {
  NOVA_ASSIGN_OR_RETURN(auto file, Noted(Kind::kOther, [&] { return base_->Create(path); }));
  return std::unique_ptr<DiskFile>(std::make_unique<File>(this, std::move(file)));
}
StatusOr<std::unique_ptr<DiskFile>> DiskWatch::Open(const std::string& path, bool writable) {
  NOVA_ASSIGN_OR_RETURN(auto file, Noted(Kind::kOther, [&] { return base_->Open(path, writable); }));
  return std::unique_ptr<DiskFile>(std::make_unique<File>(this, std::move(file)));
}
StatusOr<std::unique_ptr<DiskFile>> DiskWatch::OpenUncached(const std::string& path) {
  NOVA_ASSIGN_OR_RETURN(auto file, Noted(Kind::kOther, [&] { return base_->OpenUncached(path); }));
  return std::unique_ptr<DiskFile>(std::make_unique<File>(this, std::move(file)));
}
Status DiskWatch::Delete(const std::string& path) {
  return Noted(Kind::kOther, [&] { return base_->Delete(path); });
}
Status DiskWatch::Rename(const std::string& from, const std::string& to) {
  return Noted(Kind::kOther, [&] { return base_->Rename(from, to); });
}
Status DiskWatch::MakeDirectory(const std::string& path) {
  return Noted(Kind::kOther, [&] { return base_->MakeDirectory(path); });
}
Status DiskWatch::SyncDirectory(const std::string& path) {
  return Noted(Kind::kSync, [&] { return base_->SyncDirectory(path); });
}
StatusOr<std::vector<std::string>> DiskWatch::List(const std::string& path) {
  return Noted(Kind::kOther, [&] { return base_->List(path); });
}
StatusOr<uint64_t> DiskWatch::FreeBytes() {
  auto free = Noted(Kind::kOther, [&] { return base_->FreeBytes(); });
  if (!free.ok()) return free;
  MutexLock lock(&mu_);
  free_bytes_ = *free;
  const uint64_t enough = options_.full_below_bytes + (low_ ? options_.full_below_bytes / 4 : 0);
  low_ = *free < enough;
  return free;
}
Status DiskWatch::Link(const std::string& native_path, const std::string& path) {
  return Noted(Kind::kOther, [&] { return base_->Link(native_path, path); });
}
Status DiskWatch::Lock(const std::string& path) {
  return Noted(Kind::kOther, [&] { return base_->Lock(path); });
}

}  // namespace nova
