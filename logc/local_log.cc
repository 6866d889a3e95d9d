#include "logc/local_log.h"

#include <map>

#include "common/base/coding.h"
#include "common/base/crc32c.h"
#include "common/base/log.h"
#include "common/base/mutex.h"

namespace nova {
namespace {

constexpr std::string_view kPrefix = "log-";
constexpr std::string_view kMagic = "novalog1";
constexpr size_t kHeaderBytes = 64;
constexpr size_t kHeaderCrcAt = 32;

std::string HeaderOf(const Uuid& uuid, Epoch epoch) {
  std::string h(kMagic);
  PutFixed64(&h, uuid.hi);
  PutFixed64(&h, uuid.lo);
  PutFixed64(&h, epoch.value());
  PutFixed32(&h, ExtendCrc32c(0, h.data(), h.size()));
  h.resize(kHeaderBytes, '\0');
  return h;
}

bool ParseHeader(std::string_view bytes, Uuid* uuid) {
  if (bytes.size() < kHeaderBytes || bytes.substr(0, kMagic.size()) != kMagic) return false;
  if (DecodeFixed32(bytes.data() + kHeaderCrcAt) != ExtendCrc32c(0, bytes.data(), kHeaderCrcAt)) return false;
  uuid->hi = DecodeFixed64(bytes.data() + 8);
  uuid->lo = DecodeFixed64(bytes.data() + 16);
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

class LocalLog : public RangeLog {
 public:
  LocalLog(Disk* disk, Epoch epoch, const LocalLogOptions& options)
      : disk_(disk), epoch_(epoch), options_(options), lanes_(options.lanes) {}

  bool Append(Executor* on, const LogRecord& record, absl::AnyInvocable<void(Outcome)> done) override {
    NOVA_DCHECK(on->IsCurrentThread());
    if (fenced_.load(std::memory_order_acquire)) {
      done(Outcome::kNotOwner);
      return true;
    }
    done(AppendNow(&lanes_[on->index()], record));
    return true;
  }

  void DeleteRound(RoundNumber round) override {
    std::vector<Retired> retired;
    {
      MutexLock lock(&mu_);
      const auto it = files_.find(round);
      if (it == files_.end()) return;
      for (Retired& file : it->second) {
        (free_.size() < options_.keep_files && file.good ? free_ : retired).push_back(std::move(file));
      }
      files_.erase(it);
    }
    for (const Retired& file : retired) disk_->Delete(file.path).IgnoreError();  // a leftover holds done memtables only (M3)
  }

  void Fence() override { fenced_.store(true, std::memory_order_release); }
  std::vector<GroupId> UnusedGroups() const override { return {}; }
  std::vector<ExposedRound> ExposedRounds() const override { return {}; }
  void RequestGroupChange() override {}
  size_t bytes_in_flight() const override { return 0; }

 private:
  struct Retired {
    std::string path;
    bool good = true;
  };
  struct alignas(64) Lane {
    RoundNumber round = 0;
    std::string path;
    std::unique_ptr<DiskFile> file;  // null: the next record opens one
    Uuid uuid;
    uint64_t lsn = 0;
    uint64_t end = 0;        // of what is written
    uint64_t allocated = 0;  // of the file: zeros, or an older log's records
    bool name_synced = false;
    std::vector<std::byte> buffer;
  };

  Outcome AppendNow(Lane* lane, const LogRecord& record) {
    if (lane->file == nullptr || lane->round != record.round) {
      if (const Status s = OpenFile(lane, record.round); !s.ok()) return Failed(lane, s, Outcome::kUnavailable);
    }
    const size_t size = LogRecordBytes(record);
    if (lane->buffer.size() < size) lane->buffer.resize(size);
    EncodeLogRecord(lane->uuid, lane->lsn + 1, record, lane->buffer.data());
    Status s = OkStatus();
    if (record.sync) s = ZeroAhead(lane, size);
    if (s.ok()) s = lane->file->Write(lane->end, {reinterpret_cast<const char*>(lane->buffer.data()), size});
    if (!s.ok()) return Failed(lane, s, Outcome::kUnavailable);
    ++lane->lsn;
    lane->end += size;
    if (!record.sync) return Outcome::kOk;
    s = lane->file->Sync();
    if (s.ok() && !lane->name_synced) s = disk_->SyncDirectory("");
    if (!s.ok()) return Failed(lane, s, Outcome::kUnknown);
    lane->name_synced = true;
    return Outcome::kOk;
  }

  Status OpenFile(Lane* lane, RoundNumber round) {
    lane->file = nullptr;
    std::string recycled;
    {
      MutexLock lock(&mu_);
      lane->path = PathOf(epoch_, next_++);
      if (!free_.empty()) {
        recycled = std::move(free_.back().path);
        free_.pop_back();
      }
      files_[round].push_back({lane->path});
    }
    lane->allocated = 0;
    if (!recycled.empty()) {
      NOVA_RETURN_IF_ERROR(disk_->Rename(recycled, lane->path));
      NOVA_ASSIGN_OR_RETURN(lane->file, disk_->Open(lane->path, /*writable=*/true));
      NOVA_ASSIGN_OR_RETURN(lane->allocated, lane->file->Size());
    } else {
      NOVA_ASSIGN_OR_RETURN(lane->file, disk_->Create(lane->path));
    }
    lane->round = round;
    lane->uuid = Uuid::Generate();  // what an older log left behind is no record of this one (H5)
    lane->lsn = 0;
    lane->end = kHeaderBytes;
    lane->name_synced = false;
    return lane->file->Write(0, HeaderOf(lane->uuid, epoch_));
  }

  Status ZeroAhead(Lane* lane, size_t size) {
    if (lane->end + size <= lane->allocated) return OkStatus();
    const uint64_t from = std::max(lane->end, lane->allocated);
    const std::string zeros(size + options_.zero_ahead_bytes, '\0');
    NOVA_RETURN_IF_ERROR(lane->file->Write(from, zeros));
    lane->allocated = from + zeros.size();
    return OkStatus();
  }

  // S1: nothing more goes to this file.
  Outcome Failed(Lane* lane, const Status& s, Outcome otherwise) {
    NOVA_LOG(ERROR) << "log " << lane->path << ": " << s;
    lane->file = nullptr;
    MutexLock lock(&mu_);
    for (auto& [round, files] : files_) {
      for (Retired& file : files) file.good = file.good && file.path != lane->path;
    }
    return absl::IsResourceExhausted(s) && otherwise != Outcome::kUnknown ? Outcome::kNoSpace : otherwise;
  }

  Disk* const disk_;
  const Epoch epoch_;
  const LocalLogOptions options_;
  std::vector<Lane> lanes_;  // [i] belongs to executor i
  std::atomic<bool> fenced_{false};
  Mutex mu_;
  uint64_t next_ ABSL_GUARDED_BY(mu_) = 1;
  std::map<RoundNumber, std::vector<Retired>> files_ ABSL_GUARDED_BY(mu_);
  std::vector<Retired> free_ ABSL_GUARDED_BY(mu_);
};

}  // namespace

std::unique_ptr<RangeLog> NewLocalLog(Disk* disk, Epoch epoch, const LocalLogOptions& options) {
  return std::make_unique<LocalLog>(disk, epoch, options);
}

StatusOr<std::vector<RecoveredRecord>> ReadLocalLogs(Disk* disk) {
  std::vector<RecoveredRecord> records;
  NOVA_ASSIGN_OR_RETURN(const std::vector<std::string> names, disk->List(""));
  Epoch epoch;
  for (const std::string& name : names) {
    if (!ParsePath(name, &epoch)) continue;
    NOVA_ASSIGN_OR_RETURN(const auto file, disk->Open(name, /*writable=*/false));
    NOVA_ASSIGN_OR_RETURN(const uint64_t size, file->Size());
    std::string bytes(size, '\0');
    NOVA_RETURN_IF_ERROR(file->Read(0, size, bytes.data()));
    Uuid uuid;
    if (!ParseHeader(bytes, &uuid)) continue;  // torn when it was made: it never held a record
    uint64_t next_lsn = 1;
    const Status s = ParseLogSegment(uuid, std::string_view(bytes).substr(kHeaderBytes), &next_lsn, [&](const ParsedLogEntry& e) {
      records.push_back({e.sequence, e.entry.memtable, e.entry.type, std::string(e.entry.key), std::string(e.entry.value)});
    });
    if (!s.ok()) return Annotate(s, name);
  }
  return records;
}

Status DeleteLocalLogs(Disk* disk, Epoch epoch) {
  NOVA_ASSIGN_OR_RETURN(const std::vector<std::string> names, disk->List(""));
  Epoch of;
  for (const std::string& name : names) {
    if (ParsePath(name, &of) && of < epoch) NOVA_RETURN_IF_ERROR(disk->Delete(name));
  }
  return OkStatus();
}

}  // namespace nova
