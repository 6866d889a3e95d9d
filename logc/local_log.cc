#include "logc/local_log.h"

#include <algorithm>
#include <atomic>
#include <map>
#include <span>

#include "common/base/coding.h"
#include "common/base/crc32c.h"
#include "common/base/failpoint.h"
#include "common/base/file_remover.h"
#include "common/base/log.h"
#include "common/base/log_throttle.h"
#include "common/base/mutex.h"
#include "common/base/refusals.h"
#include "logc/group_commit.h"

namespace nova {
namespace {

constexpr std::string_view kPrefix = "log-";
constexpr std::string_view kMagic = "novalog1";
constexpr size_t kHeaderBytes = 64;
constexpr size_t kHeaderCrcAt = 32;
constexpr size_t kBootAt = 36;

std::string HeaderOf(const Uuid& uuid, Epoch epoch, const Uuid& boot) {
  std::string h(kMagic);
  PutFixed64(&h, uuid.hi);
  PutFixed64(&h, uuid.lo);
  PutFixed64(&h, epoch.value());
  PutFixed32(&h, ExtendCrc32c(0, h.data(), h.size()));
  PutFixed64(&h, boot.hi);
  PutFixed64(&h, boot.lo);
  h.resize(kHeaderBytes, '\0');
  return h;
}

Uuid UuidAt(std::string_view bytes, size_t at) {
  return {DecodeFixed64(bytes.data() + at), DecodeFixed64(bytes.data() + at + 8)};
}

// The boot is not in the checksum: a wrong one is not the present one, and then less is asked of the file.
bool ParseHeader(std::string_view bytes, Uuid* uuid, Uuid* boot) {
  if (bytes.size() < kHeaderBytes || bytes.substr(0, kMagic.size()) != kMagic) return false;
  if (DecodeFixed32(bytes.data() + kHeaderCrcAt) != ExtendCrc32c(0, bytes.data(), kHeaderCrcAt)) return false;
  *uuid = UuidAt(bytes, 8);
  *boot = UuidAt(bytes, kBootAt);
  return true;
}

std::string PathOf(Epoch epoch, uint64_t number) { return StrCat("log-", epoch.value(), "-", number); }

// False: not a log file's name.
bool ParsePath(std::string_view name, Epoch* epoch) {
  if (name.substr(0, kPrefix.size()) != kPrefix) return false;
  uint64_t value = 0;
  for (const char c : name.substr(kPrefix.size())) {
    if (c == '-') {
      *epoch = Epoch(value);
      return true;
    }
    if (c < '0' || c > '9') return false;
    value = value * 10 + static_cast<uint64_t>(c - '0');
  }
  return false;
}

struct LogFile {
  explicit LogFile(std::string p) : path(std::move(p)) {}
  const std::string path;
  Uuid uuid;
  uint64_t lsn = 0;                      // of the last record that was written
  uint64_t end = 0;                      // of it
  uint64_t allocated = 0;                // of the file: zeros, or an older log's records
  std::atomic<uint64_t> written{0};      // lsn up to which a sync that begins now finds everything
  std::atomic<uint64_t> synced{0};       // and up to which one has ended
  std::atomic<bool> good{true};          // bad file (S1)
  Mutex sync_mu;                         // held while it is synced
  std::atomic<bool> sync_failed{false};  // no later sync covers it
  // Guarded by LocalLog::mu_, but for reads of `file` by its writer.
  std::shared_ptr<DiskFile> file;  // null: it was closed; it is bad, or nothing of it is left to sync
  bool left = false;               // no writer appends to it any more
  bool name_synced = false;
};

class LocalLog : public RangeLog {
 public:
  LocalLog(Disk* disk, Epoch epoch, const LocalLogOptions& options)
      : disk_(disk),
        epoch_(epoch),
        options_(options),
        remover_(disk),
        lanes_(options.lanes),
        synced_group_(options.max_group) {}

  Outcome Append(Executor* on, const LogRecord& record, absl::AnyInvocable<void(Outcome)> done) override {
    NOVA_DCHECK(on->IsCurrentThread());
    if (fenced_.load(std::memory_order_acquire)) {
      done(Outcome::kNotOwner);
    } else {
      done(record.sync ? synced_group_.Commit(record, [this](auto records) { return WriteGroup(records); })
                       : AppendUnsynced(&lanes_[on->index()], record));
    }
    return Outcome::kOk;
  }

  void DeleteRound(RoundNumber round) override {
    std::vector<std::shared_ptr<LogFile>> files;
    std::vector<std::string> retired;
    {
      MutexLock lock(&mu_);
      const auto it = files_.find(round);
      if (it == files_.end()) return;
      files = std::move(it->second);
      files_.erase(it);
      for (const auto& f : files)
        (free_.size() < options_.keep_files && f->good.load() ? free_ : retired).push_back(f->path);
    }
    NOVA_FP_VOID("log.round_deleted");
    // a leftover holds done memtables (M3) only
    for (std::string& path : retired) remover_.Delete(std::move(path));
  }

  Status Sync() override {
    NOVA_RETURN_IF_ERROR(SyncAll());
    MutexLock lock(&mu_);
    for (const auto& [round, files] : files_) {
      for (const auto& f : files) {
        if (f->sync_failed.load() && f->written.load() > f->synced.load())
          return absl::DataLossError(StrCat(f->path, ": an earlier sync failed"));
      }
    }
    return OkStatus();
  }
  void Fence() override { fenced_.store(true, std::memory_order_release); }
  size_t bytes_in_flight() const override { return 0; }
  bool sync_matters() const override { return true; }

 private:
  static constexpr size_t kKeptBuffer = 64 << 10;  // bytes that a writer keeps for its next record
  // Where one writer at a time appends.
  struct alignas(64) Writer {
    RoundNumber round = 0;
    std::shared_ptr<LogFile> log;  // null: it needs one
    std::string buffer;
  };
  Outcome AppendUnsynced(Writer* lane, const LogRecord& record) {
    if (const Status s = OpenFor(lane, record.round); !s.ok()) return Failed(lane, s, Outcome::kUnavailable);
    const LogRecord* const records[] = {&record};
    if (const Status s = WriteRecords(lane, records); !s.ok()) return Failed(lane, s, Outcome::kUnavailable);
    if (const Status s = NOVA_FP_STATUS("log.written"); !s.ok()) return Failed(lane, s, Outcome::kUnknown);
    lane->log->written.store(lane->log->lsn, std::memory_order_release);
    return Outcome::kOk;
  }

  // Writes and syncs records of one round; one thread at a time.
  Outcome WriteGroup(std::span<const LogRecord* const> records) {
    Writer* w = &synced_;
    // Each sync that fails ends the file of every lane (S1).
    if (const Outcome why = sync_refusals_.Why(); why != Outcome::kOk) return why;
    size_t size = 0;
    for (const LogRecord* r : records) size += LogRecordBytes(*r);
    Status s = OpenFor(w, records[0]->round);
    if (s.ok()) s = ZeroAhead(w->log.get(), size);
    if (!s.ok()) return Failed(w, s, Outcome::kUnavailable);
    // A write that fails in the middle may have left whole records behind.
    s = WriteRecords(w, records);
    if (!s.ok()) return Failed(w, s, records.size() == 1 ? Outcome::kUnavailable : Outcome::kUnknown);
    w->log->written.store(w->log->lsn, std::memory_order_release);
    s = NOVA_FP_STATUS("log.group_written");
    if (s.ok()) s = SyncAll();
    if (s.ok()) s = NOVA_FP_STATUS("log.group_synced");
    s.ok() ? sync_refusals_.OnTaken() : sync_refusals_.OnRefused(Outcome::kUnavailable);
    return s.ok() ? Outcome::kOk : Failed(w, s, Outcome::kUnknown);
  }

  // Every record that was acknowledged before is durable too: what is synced is a prefix of the history.
  Status SyncAll() {
    std::vector<std::pair<std::shared_ptr<LogFile>, std::shared_ptr<DiskFile>>> unsynced;
    std::vector<std::shared_ptr<LogFile>> unnamed;
    {
      MutexLock lock(&mu_);
      for (const auto& [round, files] : files_) {
        for (const auto& f : files) {
          const uint64_t written = f->written.load(std::memory_order_relaxed);
          if (f->sync_failed.load() || written == 0) continue;
          if (f->file != nullptr && written > f->synced.load(std::memory_order_relaxed))
            unsynced.emplace_back(f, f->file);
          if (!f->name_synced) unnamed.push_back(f);
        }
      }
    }
    for (const auto& [log, file] : unsynced) NOVA_RETURN_IF_ERROR(SyncFile(log.get(), file.get()));
    if (unnamed.empty()) return OkStatus();
    NOVA_RETURN_IF_ERROR(disk_->SyncDirectory(""));
    MutexLock lock(&mu_);
    for (const auto& f : unnamed) f->name_synced = true;
    return OkStatus();
  }

  // One at a time, and never again once it failed: of two syncs of a file only one hears of an error (S1).
  static Status SyncFile(LogFile* log, DiskFile* file) {
    MutexLock one(&log->sync_mu);
    if (log->sync_failed.load()) return absl::DataLossError(StrCat(log->path, ": an earlier sync failed"));
    const uint64_t written = log->written.load(std::memory_order_acquire);
    const Status s = file->Sync();
    if (s.ok()) {
      log->synced.store(written, std::memory_order_release);
      return s;
    }
    log->good.store(false);
    log->sync_failed.store(true);
    return s;
  }

  Status OpenFor(Writer* w, RoundNumber round) {
    if (w->log != nullptr && w->round == round && w->log->good.load(std::memory_order_relaxed))
      return OkStatus();
    Detach(w);
    CloseOldest();
    NOVA_RETURN_IF_ERROR(remover_.CheckRoom());
    std::shared_ptr<LogFile> f;
    std::string recycled;
    {
      MutexLock lock(&mu_);
      f = std::make_shared<LogFile>(PathOf(epoch_, next_++));
      if (!free_.empty()) {
        recycled = std::move(free_.back());
        free_.pop_back();
      }
    }
    if (const Status s = MakeFile(recycled, f.get()); !s.ok()) {
      f->file = nullptr;
      remover_.Delete(f->path);  // half a header would be taken for a damaged one
      if (!recycled.empty()) remover_.Delete(std::move(recycled));
      return s;
    }
    w->round = round;
    w->log = f;
    MutexLock lock(&mu_);
    files_[round].push_back(std::move(f));
    return OkStatus();
  }

  // With a header, and no record.
  Status MakeFile(const std::string& recycled, LogFile* f) {
    if (!recycled.empty()) {
      NOVA_RETURN_IF_ERROR(disk_->Rename(recycled, f->path));
      NOVA_FP("log.recycled");
      NOVA_ASSIGN_OR_RETURN(f->file, disk_->Open(f->path, /*writable=*/true));
      NOVA_ASSIGN_OR_RETURN(f->allocated, f->file->Size());
    } else {
      NOVA_ASSIGN_OR_RETURN(f->file, disk_->Create(f->path));
      NOVA_FP("log.created");
    }
    f->uuid = Uuid::Generate();  // what an older log left behind is no record of this one (H5)
    f->end = kHeaderBytes;
    return f->file->Write(0, HeaderOf(f->uuid, epoch_, disk_->Boot()));
  }

  // The writer is through with its file. One that is bad is closed, and is deleted if it holds nothing
  // acknowledged: a disk that refuses writes for long leaves neither descriptors nor files behind.
  void Detach(Writer* w) {
    if (w->log == nullptr) return;
    const std::shared_ptr<LogFile> f = std::move(w->log);
    w->log = nullptr;
    if (f->good.load()) {
      MutexLock lock(&mu_);
      f->left = true;
      return;
    }
    const bool acknowledged = (w == &synced_ ? f->synced : f->written).load() > 0;
    if (acknowledged) SyncFile(f.get(), f->file.get()).IgnoreError();  // what a later sync finds closed
    std::shared_ptr<DiskFile> closing;
    {
      MutexLock lock(&mu_);
      closing = std::move(f->file);
      if (acknowledged) return;
      const auto round = files_.find(w->round);
      if (round == files_.end()) return;  // it was flushed meanwhile, and its files are deleted
      std::erase(round->second, f);
      if (round->second.empty()) files_.erase(round);
    }
    remover_.Delete(f->path);
  }

  // Makes room for one more descriptor. One that cannot be synced is bad from then on.
  void CloseOldest() {
    std::vector<std::pair<std::shared_ptr<LogFile>, std::shared_ptr<DiskFile>>> left;  // oldest first
    size_t open = 0;
    {
      MutexLock lock(&mu_);
      for (const auto& [round, files] : files_) {
        for (const auto& f : files) open += f->file != nullptr;
      }
      if (open < options_.most_open_files) return;
      for (const auto& [round, files] : files_) {
        for (const auto& f : files) {
          if (f->file != nullptr && f->left) left.emplace_back(f, f->file);
        }
      }
    }
    for (auto it = left.begin(); it != left.end() && open >= options_.most_open_files; ++it, --open) {
      auto& [log, file] = *it;
      if (log->written.load() > log->synced.load()) SyncFile(log.get(), file.get()).IgnoreError();
      MutexLock lock(&mu_);
      log->file = nullptr;
    }
  }

  static Status WriteRecords(Writer* w, std::span<const LogRecord* const> records) {
    LogFile* f = w->log.get();
    size_t size = 0;
    for (const LogRecord* r : records) size += LogRecordBytes(*r);
    if (w->buffer.size() < size) w->buffer.resize(size);
    size_t at = 0;
    // every record that is written was acknowledged: S1
    const LogMarks marks{f->lsn, f->synced.load(std::memory_order_acquire)};
    uint64_t lsn = f->lsn;
    for (const LogRecord* r : records) {
      EncodeLogRecord(f->uuid, ++lsn, marks, *r, reinterpret_cast<std::byte*>(w->buffer.data()) + at);
      at += LogRecordBytes(*r);
    }
    const Status s = f->file->Write(f->end, {w->buffer.data(), size});
    if (size > kKeptBuffer) std::string().swap(w->buffer);
    NOVA_RETURN_IF_ERROR(s);
    f->lsn = lsn;
    f->end += size;
    return OkStatus();
  }

  Status ZeroAhead(LogFile* f, size_t size) const {
    if (f->end + size <= f->allocated) return OkStatus();
    const std::string zeros(std::max<size_t>(options_.zero_ahead_bytes, kKeptBuffer), '\0');
    const uint64_t wanted = std::max(f->end, f->allocated) + size + options_.zero_ahead_bytes;
    for (uint64_t at = std::max(f->end, f->allocated); at < wanted; at = f->allocated) {
      const uint64_t n = std::min<uint64_t>(zeros.size(), wanted - at);
      NOVA_RETURN_IF_ERROR(f->file->Write(at, std::string_view(zeros).substr(0, n)));
      f->allocated = at + n;
    }
    return OkStatus();
  }

  // S1: nothing more goes to this file.
  Outcome Failed(Writer* w, const Status& s, Outcome otherwise) {
    if (const uint64_t met = errors_.Due()) NOVA_LOG(ERROR) << "log (" << met << " errors so far): " << s;
    if (w->log != nullptr) w->log->good.store(false);
    Detach(w);
    return absl::IsResourceExhausted(s) && otherwise != Outcome::kUnknown ? Outcome::kNoSpace : otherwise;
  }

  Disk* const disk_;
  const Epoch epoch_;
  const LocalLogOptions options_;
  FileRemover remover_;
  LogThrottle errors_;
  Refusals sync_refusals_{500 * kMillisecond};
  std::vector<Writer> lanes_;  // [i] belongs to executor i
  Writer synced_;              // belongs to who leads
  std::atomic<bool> fenced_{false};
  GroupCommit synced_group_;
  Mutex mu_;
  uint64_t next_ ABSL_GUARDED_BY(mu_) = 1;
  std::map<RoundNumber, std::vector<std::shared_ptr<LogFile>>> files_ ABSL_GUARDED_BY(mu_);
  std::vector<std::string> free_ ABSL_GUARDED_BY(mu_);
};

// Of a file without a valid header. One that power or the process went away from when it was made is short or
// begins with zeros: a header is in one sector, and in a recycled file the one before is valid.
Status CheckNeverWritten(const std::string& name, std::string_view bytes) {
  const auto zeros = [](std::string_view s) {
    return std::all_of(s.begin(), s.end(), [](char c) { return c == 0; });
  };
  if (bytes.size() < kHeaderBytes || zeros(bytes)) return OkStatus();
  if (zeros(bytes.substr(0, kHeaderBytes))) {
    NOVA_LOG(WARNING) << name << " has no header, which was not known to be durable; its " << bytes.size()
                      << " bytes are left out";
    return OkStatus();
  }
  return absl::DataLossError(StrCat(name, " is damaged: its header of ", kHeaderBytes,
                                    " bytes; to open without what is lost, all its records: truncate -s 0 ",
                                    name));
}

}  // namespace

std::unique_ptr<RangeLog> NewLocalLog(Disk* disk, Epoch epoch, const LocalLogOptions& options) {
  return std::make_unique<LocalLog>(disk, epoch, options);
}

StatusOr<RecoveredLogs> ReadLocalLogs(Disk* disk, const MemTableDone& done) {
  RecoveredLogs records;
  NOVA_ASSIGN_OR_RETURN(const std::vector<std::string> names, disk->List(""));
  Epoch epoch;
  for (const std::string& name : names) {
    if (!ParsePath(name, &epoch)) continue;
    NOVA_ASSIGN_OR_RETURN(const auto file, disk->Open(name, /*writable=*/false));
    NOVA_ASSIGN_OR_RETURN(const uint64_t size, file->Size());
    std::string bytes(size, '\0');
    NOVA_RETURN_IF_ERROR(file->Read(0, size, bytes.data()));
    Uuid uuid, boot;
    if (!ParseHeader(bytes, &uuid, &boot)) {
      NOVA_RETURN_IF_ERROR(CheckNeverWritten(name, bytes));
      continue;
    }
    const bool same_boot = !boot.IsNil() && boot == disk->Boot();
    LogCopies log(uuid, done);
    log.Add(same_boot ? LogCopies::Keeps::kWritten : LogCopies::Keeps::kSynced,
            {{name, std::move(bytes), kHeaderBytes}});
    const Status s = log.Read(&records);
    if (log.damaged()) {
      return absl::DataLossError(
          StrCat(s.message(), "; to open without what is lost: truncate -s ", log.end_of_first(), " ", name));
    }
    if (!s.ok()) return Annotate(s, name);
  }
  return records;
}

Status DeleteLocalLogs(Disk* disk, Epoch epoch) {
  NOVA_ASSIGN_OR_RETURN(const std::vector<std::string> names, disk->List(""));
  Epoch of;
  for (const std::string& name : names) {
    if (!ParsePath(name, &of) || of >= epoch) continue;
    NOVA_RETURN_IF_ERROR(disk->Delete(name));
    NOVA_FP("log.epoch_deleted");
  }
  return OkStatus();
}

}  // namespace nova
