#include "stoc/log_journal.h"

#include <algorithm>
#include <utility>

#include "common/base/coding.h"
#include "common/base/crc32c.h"
#include "common/base/failpoint.h"
#include "common/base/log.h"

namespace nova {
namespace {

constexpr std::string_view kMagic = "novajrn1";
constexpr size_t kHeaderBytes = 64;
constexpr size_t kHeaderCrcAt = 24;
constexpr size_t kRecordHeaderBytes = 32;

std::string PathOf(size_t half) { return StrCat("journal-", half); }

std::string EncodeUuid(const Uuid& uuid) {
  std::string bytes;
  PutFixed64(&bytes, uuid.hi);
  PutFixed64(&bytes, uuid.lo);
  return bytes;
}

std::string HeaderOf(const Uuid& uuid) {
  std::string h = std::string(kMagic) + EncodeUuid(uuid);
  PutFixed32(&h, Crc32c(h));
  h.resize(kHeaderBytes, '\0');
  return h;
}

// At `dst`, which has RecordBytes of room, zeroed.
void EncodeRecord(uint32_t seed, const LogJournal::Piece& piece, char* dst) {
  EncodeFixed32(dst + 4, static_cast<uint32_t>(piece.bytes.size()));
  EncodeFixed64(dst + 8, piece.log.hi);
  EncodeFixed64(dst + 16, piece.log.lo);
  EncodeFixed64(dst + 24, piece.offset);
  const uint32_t crc = ExtendCrc32c(seed, dst + 4, kRecordHeaderBytes - 4);
  EncodeFixed32(dst, Crc32cCopy(dst + kRecordHeaderBytes, piece.bytes.data(), piece.bytes.size(), crc));
}

// The piece at the front of `bytes`; false: there is none.
bool ParseRecord(uint32_t seed, std::string_view bytes, LogJournal::Piece* piece) {
  if (bytes.size() < kRecordHeaderBytes) return false;
  const char* p = bytes.data();
  const uint32_t size = DecodeFixed32(p + 4);
  if (size == 0 || size > bytes.size() - kRecordHeaderBytes) return false;
  *piece = {{DecodeFixed64(p + 8), DecodeFixed64(p + 16)},
            DecodeFixed64(p + 24),
            bytes.substr(kRecordHeaderBytes, size)};
  return DecodeFixed32(p) == ExtendCrc32c(seed, p + 4, kRecordHeaderBytes - 4 + size);
}

}  // namespace

size_t LogJournal::RecordBytes(const Piece& piece) {
  return (kRecordHeaderBytes + piece.bytes.size() + 7) / 8 * 8;
}

Status LogJournal::Replay(Disk* disk, const std::function<Status(const Piece&)>& put) {
  for (size_t half = 0; half < 2; ++half) {
    const auto file = disk->Open(PathOf(half), /*writable=*/false);
    if (absl::IsNotFound(file.status())) continue;
    NOVA_RETURN_IF_ERROR(file.status());
    NOVA_ASSIGN_OR_RETURN(const uint64_t size, (*file)->Size());
    std::string bytes(size, '\0');
    NOVA_RETURN_IF_ERROR((*file)->Read(0, size, bytes.data()));
    const std::string_view all = bytes;
    if (size < kHeaderBytes || !all.starts_with(kMagic) ||
        DecodeFixed32(all.data() + kHeaderCrcAt) != Crc32c(all.substr(0, kHeaderCrcAt))) {
      continue;  // torn when it was begun: nothing in it was acknowledged
    }
    const uint32_t seed = Crc32c(all.substr(kMagic.size(), sizeof(Uuid)));
    Piece piece;
    for (size_t at = kHeaderBytes; at < size && ParseRecord(seed, all.substr(at), &piece);
         at += RecordBytes(piece)) {
      NOVA_RETURN_IF_ERROR(put(piece));
    }
  }
  return OkStatus();
}

Status LogJournal::Forget(Disk* disk) {
  for (size_t half = 0; half < 2; ++half) {
    const Status s = disk->Delete(PathOf(half));
    if (!absl::IsNotFound(s)) NOVA_RETURN_IF_ERROR(s);
  }
  return disk->SyncDirectory("");
}

LogJournal::LogJournal(Disk* disk, const LogJournalOptions& options, std::function<Status(const Uuid&)> sync)
    : disk_(disk), options_(options), sync_(std::move(sync)) {
  cleaner_ = std::make_unique<Thread>("stoc.journal.0", [this] { Clean(); });
}

LogJournal::~LogJournal() {
  {
    MutexLock lock(&mu_);
    stopping_ = true;
    changed_.SignalAll();
  }
  cleaner_->Join();
}

Status LogJournal::Append(std::span<const Piece> pieces) {
  if (broken_.load()) return absl::UnavailableError("the journal takes no more");
  size_t size = 0;
  for (const Piece& p : pieces) size += RecordBytes(p);
  NOVA_RETURN_IF_ERROR(MakeRoom(size));
  buffer_.assign(size, '\0');
  const uint32_t seed = Crc32c(EncodeUuid(uuid_));
  char* dst = buffer_.data();
  for (const Piece& p : pieces) {
    EncodeRecord(seed, p, dst);
    dst += RecordBytes(p);
  }
  {
    MutexLock lock(&mu_);
    for (const Piece& p : pieces) halves_[filling_].logs.insert(p.log);
  }
  Status s = file_->Write(end_, buffer_);
  if (s.ok()) s = NOVA_FP_STATUS("stoc.journal_written");
  if (s.ok()) s = file_->Sync();
  if (s.ok()) s = NOVA_FP_STATUS("stoc.journal_synced");
  if (!s.ok()) {
    broken_.store(true);
    NOVA_LOG(ERROR) << "the journal takes no more, logs are synced one by one: " << s;
    return s;
  }
  end_ += size;
  return OkStatus();
}

// For `size` bytes more in the half that is being filled, or in the other one. What fails here has harmed
// nothing.
Status LogJournal::MakeRoom(size_t size) {
  if (file_ == nullptr || end_ + size > options_.half_bytes) NOVA_RETURN_IF_ERROR(Begin());
  if (end_ + size <= allocated_) return OkStatus();
  const uint64_t to =
      std::max(end_ + size, std::min(end_ + size + options_.zero_ahead_bytes, options_.half_bytes));
  const uint64_t from = std::max(end_, allocated_);
  NOVA_RETURN_IF_ERROR(file_->Write(from, std::string(to - from, '\0')));
  allocated_ = to;
  return OkStatus();
}

// The other half, once it is clean. Its name is synced here, its header with its first records.
Status LogJournal::Begin() {
  size_t half;
  {
    MutexLock lock(&mu_);
    half = 1 - filling_;
    while (!halves_[half].clean && !broken_.load()) changed_.Wait(&mu_);
    if (broken_.load()) return absl::UnavailableError("the journal takes no more");
  }
  const std::string path = PathOf(half);
  auto file = disk_->Open(path, /*writable=*/true);
  if (absl::IsNotFound(file.status())) {
    file = disk_->Create(path);
    if (file.ok()) NOVA_RETURN_IF_ERROR(disk_->SyncDirectory(""));
  }
  NOVA_RETURN_IF_ERROR(file.status());
  NOVA_ASSIGN_OR_RETURN(const uint64_t size, (*file)->Size());
  const Uuid uuid = Uuid::Generate();
  NOVA_RETURN_IF_ERROR((*file)->Write(0, HeaderOf(uuid)));
  NOVA_FP("stoc.journal_begun");
  const bool first = file_ == nullptr;
  file_ = *std::move(file);
  uuid_ = uuid;
  end_ = kHeaderBytes;
  allocated_ = std::max<uint64_t>(size, kHeaderBytes);
  MutexLock lock(&mu_);
  halves_[half].clean = false;
  if (!first) to_clean_ = filling_;
  filling_ = half;
  changed_.SignalAll();
  return OkStatus();
}

void LogJournal::Clean() {
  MutexLock lock(&mu_);
  for (;;) {
    while (!to_clean_ && !stopping_) changed_.Wait(&mu_);
    if (stopping_) return;
    const size_t half = *to_clean_;
    to_clean_.reset();
    const std::set<Uuid> logs = std::exchange(halves_[half].logs, {});
    mu_.Unlock();
    Status s;
    for (const Uuid& log : logs) {
      if (s.ok()) s = sync_(log);
    }
    if (s.ok()) s = NOVA_FP_STATUS("stoc.journal_cleaned");
    mu_.Lock();
    if (s.ok()) {
      halves_[half].clean = true;
    } else {
      broken_.store(true);  // it alone holds what a log's own file does not: it is kept as it is
      NOVA_LOG(ERROR) << "a half of the journal cannot be used again, logs are synced one by one: " << s;
    }
    changed_.SignalAll();
  }
}

}  // namespace nova
