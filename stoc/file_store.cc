#include "stoc/file_store.h"

#include <algorithm>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "common/base/coding.h"
#include "common/base/crc32c.h"
#include "common/base/failpoint.h"
#include "common/base/log.h"

namespace nova {
namespace {

constexpr char kLockPath[] = "LOCK";
constexpr char kSuperblockPath[] = "SUPERBLOCK";
constexpr char kNewSuperblockPath[] = "SUPERBLOCK.new";
constexpr char kFilesDirectory[] = "files";
constexpr char kTemporarySuffix[] = ".tmp";
constexpr char kReferencesSuffix[] = ".refs";
constexpr uint32_t kFileMagic = 0x3146564e;  // 'NVF1'
constexpr uint16_t kFileFormat = 1;
constexpr size_t kMaxSuperblockBytes = 4096;
constexpr size_t kMaxReferencesBytes = 1 << 20;
constexpr uint64_t kReferencesReserveBytes = 4096;  // of a list, on the disk

std::string PathOf(const StocFileId& file) { return StrCat(kFilesDirectory, "/", file.ToString()); }
std::string ReferencesPathOf(const StocFileId& file) { return StrCat(PathOf(file), kReferencesSuffix); }

Status UnreadableReferences(const StocFileId& file) {
  return absl::DataLossError(StrCat("the references of ", file.ToString(), " cannot be read"));
}

bool ParseName(std::string_view name, StocFileId* file) {
  if (name.size() < 34 || name[32] != '.') return false;
  const std::string_view part = name.substr(33);
  return Uuid::Parse(name.substr(0, 32), &file->owner) &&
         absl::SimpleAtoi(absl::string_view(part.data(), part.size()), &file->part) &&
         file->ToString() == name;
}

uint64_t WallNow() { return static_cast<uint64_t>(std::max<int64_t>(0, WallNowMs())); }

StatusOr<std::string> ReadWhole(Disk* disk, const std::string& path, size_t most) {
  NOVA_ASSIGN_OR_RETURN(const auto file, disk->Open(path, /*writable=*/false));
  NOVA_ASSIGN_OR_RETURN(const uint64_t size, file->Size());
  if (size > most) return absl::DataLossError(StrCat(path, ": ", size, " bytes"));
  std::string bytes(size, '\0');
  NOVA_RETURN_IF_ERROR(file->Read(0, bytes.size(), bytes.data()));
  return bytes;
}

}  // namespace

// --- the store as a whole

std::string StoreIdentity::Encode() const {
  std::string text = StrCat("nova stoc store\nformat=", kStoreFormat, "\nstore=", store.ToString(),
                            "\ncluster=", cluster.ToString(), "\nstoc=", stoc.value(), "\n");
  return StrCat(text, "crc=", absl::Hex(Crc32c(text), absl::kZeroPad8), "\n");
}

StatusOr<StoreIdentity> StoreIdentity::Decode(std::string_view text) {
  const std::vector<std::string> lines = absl::StrSplit(absl::string_view(text.data(), text.size()), '\n');
  uint32_t format = 0;
  if (lines.size() < 2 || lines[0] != "nova stoc store" || !lines[1].starts_with("format=") ||
      !absl::SimpleAtoi(lines[1].substr(7), &format)) {
    return absl::DataLossError("SUPERBLOCK is not one of a StoC");
  }
  if (format > kStoreFormat) {
    return absl::FailedPreconditionError(
        StrCat("the store has format ", format, ", this program knows formats up to ", kStoreFormat));
  }
  StoreIdentity id;
  uint32_t stoc = 0;
  if (lines.size() < 5 || !lines[2].starts_with("store=") || !Uuid::Parse(lines[2].substr(6), &id.store) ||
      !lines[3].starts_with("cluster=") || !Uuid::Parse(lines[3].substr(8), &id.cluster) ||
      !lines[4].starts_with("stoc=") || !absl::SimpleAtoi(lines[4].substr(5), &stoc)) {
    return absl::DataLossError("SUPERBLOCK is malformed");
  }
  id.stoc = StocId(stoc);
  if (id.Encode() != text) return absl::DataLossError("SUPERBLOCK fails its checksum");
  return id;
}

namespace {

StatusOr<std::optional<StoreIdentity>> ReadIdentity(Disk* disk) {
  const auto text = ReadWhole(disk, kSuperblockPath, kMaxSuperblockBytes);
  if (text.ok()) {
    NOVA_ASSIGN_OR_RETURN(const StoreIdentity identity, StoreIdentity::Decode(*text));
    return std::optional<StoreIdentity>(identity);
  }
  if (!absl::IsNotFound(text.status())) return text.status();
  NOVA_ASSIGN_OR_RETURN(const std::vector<std::string> names, disk->List(""));
  for (const std::string& name : names) {
    if (name != kLockPath && name != kNewSuperblockPath && name != "lost+found") {
      return absl::InvalidArgumentError(
          StrCat("the directory has no SUPERBLOCK and is not empty (", name, ")"));
    }
  }
  return std::optional<StoreIdentity>();
}

}  // namespace

StatusOr<std::optional<StoreIdentity>> LockStore(Disk* disk) {
  NOVA_RETURN_IF_ERROR(ReadIdentity(disk).status());  // nothing is put into a directory that is not ours
  NOVA_RETURN_IF_ERROR(disk->Lock(kLockPath));
  return ReadIdentity(disk);
}

Status FormatStore(Disk* disk, const StoreIdentity& identity) {
  const Status removed = disk->Delete(kNewSuperblockPath);
  if (!removed.ok() && !absl::IsNotFound(removed)) return removed;
  {
    NOVA_ASSIGN_OR_RETURN(const auto file, disk->Create(kNewSuperblockPath));
    NOVA_RETURN_IF_ERROR(file->Write(0, identity.Encode()));
    NOVA_RETURN_IF_ERROR(file->Sync());
  }
  NOVA_RETURN_IF_ERROR(disk->Rename(kNewSuperblockPath, kSuperblockPath));
  return disk->SyncDirectory("");
}

// --- headers

std::string FileHeader::Encode() const {
  std::string body;
  PutFixed16(&body, kFileFormat);
  PutFixed16(&body, static_cast<uint16_t>(kind));
  PutFixed32(&body, file.part);
  PutFixed64(&body, file.owner.hi);
  PutFixed64(&body, file.owner.lo);
  PutFixed64(&body, creator.range.value());
  PutFixed64(&body, creator.epoch.value());
  PutFixed64(&body, creator.job);
  PutFixed64(&body, size);
  PutFixed64(&body, created_ms);
  PutFixed32(&body, data_crc);
  PutFixed32(&body, 0);
  std::string bytes;
  PutFixed32(&bytes, kFileMagic);
  PutFixed32(&bytes, Crc32c(body));
  bytes += body;
  NOVA_CHECK(bytes.size() == kFileHeaderBytes);
  return bytes;
}

StatusOr<FileHeader> FileHeader::Decode(std::string_view bytes) {
  if (bytes.size() != kFileHeaderBytes) return absl::DataLossError("file header cut short");
  const char* p = bytes.data();
  if (DecodeFixed32(p) != kFileMagic || DecodeFixed32(p + 4) != Crc32c(bytes.substr(8))) {
    return absl::DataLossError("file header fails its checksum");
  }
  const uint16_t format = DecodeFixed16(p + 8);
  const uint16_t kind = DecodeFixed16(p + 10);
  if (format != kFileFormat || kind < 1 || kind > 3) {
    return absl::DataLossError(StrCat("file header of format ", format, ", kind ", kind));
  }
  FileHeader h;
  h.kind = static_cast<Kind>(kind);
  h.file.part = DecodeFixed32(p + 12);
  h.file.owner = {DecodeFixed64(p + 16), DecodeFixed64(p + 24)};
  h.creator = {RangeId(DecodeFixed64(p + 32)), Epoch(DecodeFixed64(p + 40)), DecodeFixed64(p + 48)};
  h.size = DecodeFixed64(p + 56);
  h.created_ms = DecodeFixed64(p + 64);
  h.data_crc = DecodeFixed32(p + 72);
  return h;
}

// --- files

struct FileStore::Entry {
  FileHeader header;
  std::atomic<uint64_t> size{0};    // of the bytes that are durable
  std::atomic<bool> writing{true};  // being created
  std::atomic<bool> bad{false};     // bad file (S1)

  // Of a log:
  std::atomic<uint64_t> unsynced_writes{0};  // that asked for no sync, and are not in the journal
  std::atomic<uint64_t> synced_writes{0};    // of them, since: those before a sync
  std::atomic<bool> incomplete{false};       // what the journal has of it was not put back
  // one sync at a time, so that none misses another's failure (S1); before append_mu
  Mutex sync_mu;
  // what was written before may never become durable, whatever a later sync says
  bool sync_failed ABSL_GUARDED_BY(sync_mu) = false;

  Mutex append_mu;                                  // one append at a time; one healing
  Handle append_handle ABSL_GUARDED_BY(append_mu);  // null: closed to appends
};

FileStore::FileStore(Disk* disk, const FileStoreOptions& options, Metrics* metrics)
    : disk_(disk),
      options_(options),
      bytes_written_(metrics->counter("nova_stoc_disk_bytes_total{op=\"write\"}")),
      bytes_read_(metrics->counter("nova_stoc_disk_bytes_total{op=\"read\"}")),
      no_space_(metrics->counter("nova_stoc_no_space_total")),
      bad_files_(metrics->counter("nova_stoc_bad_files_total")),
      healed_(metrics->counter("nova_stoc_files_healed_total")),
      files_(metrics->gauge("nova_stoc_files")),
      open_files_(disk, options.max_open_files) {}

FileStore::~FileStore() = default;

StatusOr<std::unique_ptr<FileStore>> FileStore::Open(Disk* disk, const FileStoreOptions& options,
                                                     Metrics* metrics) {
  std::unique_ptr<FileStore> store(new FileStore(disk, options, metrics));
  NOVA_RETURN_IF_ERROR(store->Load());
  return store;
}

Status FileStore::Load() {
  NOVA_RETURN_IF_ERROR(disk_->MakeDirectory(kFilesDirectory));
  NOVA_RETURN_IF_ERROR(disk_->SyncDirectory(""));
  NOVA_ASSIGN_OR_RETURN(const std::vector<std::string> names, disk_->List(kFilesDirectory));
  for (const std::string& name : names) {
    if (name.ends_with(kTemporarySuffix)) {
      NOVA_RETURN_IF_ERROR(disk_->Delete(StrCat(kFilesDirectory, "/", name)));
      continue;
    }
    const Status s = name.ends_with(kReferencesSuffix) ? LoadReferences(name) : LoadOne(name);
    if (s.ok()) continue;
    // Left where it is: perhaps a person can still make something of it.
    bad_files_->Add();
    NoteUnreadable(name);
    NOVA_LOG(ERROR) << kFilesDirectory << "/" << name << " is not used: " << s.message();
  }
  if (const Status s = OpenJournal(); !s.ok()) {
    // What is left of a log must not pass for all of it: other copies have to serve, until a seal of it
    // succeeds.
    bad_files_->Add();
    {
      MutexLock lock(&put_back_mu_);
      journal_waits_ = true;
    }
    NOVA_LOG(ERROR) << "the journal cannot be put back, the logs that are here are not read: " << s;
    MutexLock lock(&mu_);
    for (const auto& [file, entry] : entries_)
      entry->incomplete = entry->header.kind == FileHeader::Kind::kLog;
  }
  MutexLock lock(&mu_);
  files_->Set(static_cast<int64_t>(entries_.size()));
  return OkStatus();
}

// Fence (R2): where whose log it is cannot be read, its range must not take it for one that never was.
void FileStore::NoteUnreadable(const std::string& name) {
  StocFileId file;
  if (ParseName(name, &file) && file.part == 0) unreadable_logs_.push_back(file.owner);
}

Status FileStore::LoadOne(const std::string& name) {
  StocFileId file;
  if (!ParseName(name, &file)) return absl::InvalidArgumentError("not the name of a StoC file");
  NOVA_ASSIGN_OR_RETURN(const auto handle, disk_->Open(PathOf(file), /*writable=*/false));
  NOVA_ASSIGN_OR_RETURN(const uint64_t size, handle->Size());
  if (size < kFileHeaderBytes) return absl::DataLossError("shorter than a header");
  char bytes[kFileHeaderBytes];
  NOVA_RETURN_IF_ERROR(handle->Read(0, sizeof(bytes), bytes));
  NOVA_ASSIGN_OR_RETURN(const FileHeader header, FileHeader::Decode({bytes, sizeof(bytes)}));
  if (header.file != file) return absl::DataLossError("the header is of another file");
  if (header.kind == FileHeader::Kind::kWhole && size != header.size + kFileHeaderBytes) {
    return absl::DataLossError(StrCat(size, " bytes instead of ", header.size + kFileHeaderBytes));
  }
  auto entry = std::make_shared<Entry>();
  entry->header = header;
  entry->size = size - kFileHeaderBytes;
  entry->writing = false;
  stored_bytes_ += size;
  MutexLock lock(&mu_);
  entries_[file] = std::move(entry);
  return OkStatus();
}

uint64_t FileStore::free_bytes() const {
  const auto free = disk_->FreeBytes();
  return free.ok() ? *free : 0;
}

Status FileStore::CheckSpace(uint64_t bytes, uint64_t reserve) {
  NOVA_ASSIGN_OR_RETURN(const uint64_t free, disk_->FreeBytes());
  const uint64_t needed = bytes + writing_bytes_.load() + reserve;
  if (free >= needed) return OkStatus();
  no_space_->Add();
  return absl::ResourceExhaustedError(StrCat("the disk is full: ", free, " bytes free, ", needed, " needed"));
}

std::shared_ptr<FileStore::Entry> FileStore::FindEntry(const StocFileId& file) const {
  MutexLock lock(&mu_);
  const auto it = entries_.find(file);
  return it == entries_.end() ? nullptr : it->second;
}

StatusOr<FileStore::Handle> FileStore::CreateDurably(const FileHeader& header, std::string_view data) {
  const std::string path = PathOf(header.file);
  const std::string temporary = StrCat(path, ".", next_temporary_.fetch_add(1), kTemporarySuffix);
  writing_bytes_ += data.size() + kFileHeaderBytes;
  Handle handle;
  bool renamed = false;
  const Status status = [&]() -> Status {
    NOVA_ASSIGN_OR_RETURN(handle, disk_->Create(temporary));
    NOVA_RETURN_IF_ERROR(handle->Write(0, header.Encode()));
    NOVA_RETURN_IF_ERROR(handle->Write(kFileHeaderBytes, data));
    NOVA_FP("stoc.file_written");
    NOVA_RETURN_IF_ERROR(handle->Sync());
    NOVA_FP("stoc.file_synced");
    NOVA_RETURN_IF_ERROR(disk_->Rename(temporary, path));
    renamed = true;
    NOVA_FP("stoc.file_renamed");
    return disk_->SyncDirectory(kFilesDirectory);
  }();
  writing_bytes_ -= data.size() + kFileHeaderBytes;
  if (!status.ok()) {
    if (handle != nullptr) disk_->Delete(renamed ? path : temporary).IgnoreError();
    if (renamed) open_files_.Drop(path);
    if (absl::IsResourceExhausted(status)) no_space_->Add();
    return status;
  }
  bytes_written_->Add(data.size() + kFileHeaderBytes);
  stored_bytes_ += data.size() + kFileHeaderBytes;
  return handle;
}

// The end of a creation: the entry becomes usable; or goes, when the disk was merely full; or stays as a bad
// one (S1).
Status FileStore::FinishCreation(const StocFileId& file, const std::shared_ptr<Entry>& entry,
                                 const Status& status) {
  const bool bad = !status.ok() && !absl::IsResourceExhausted(status);
  bool deleted = false;
  {
    MutexLock lock(&mu_);
    const auto it = entries_.find(file);
    deleted = it == entries_.end() || it->second != entry;
    if (!deleted && !status.ok() && !bad) entries_.erase(it);
    entry->bad = bad;
    entry->writing = false;
    files_->Set(static_cast<int64_t>(entries_.size()));
  }
  if (bad) bad_files_->Add();
  if (!deleted || !status.ok()) return status;
  DropFromDisk(file, *entry).IgnoreError();
  return absl::NotFoundError(StrCat(file.ToString(), " was deleted while it was written"));
}

Status FileStore::WriteFile(const StocFileId& file, const Creator& creator, std::string_view data,
                            uint32_t crc) {
  auto entry = std::make_shared<Entry>();
  entry->header = {FileHeader::Kind::kWhole, file, creator, data.size(), WallNow(), crc};
  std::shared_ptr<Entry> same;
  {
    MutexLock lock(&mu_);
    const auto [it, inserted] = entries_.emplace(file, entry);
    if (!inserted) {
      const Entry& there = *it->second;
      if (there.writing) return absl::AbortedError(StrCat(file.ToString(), " is being written"));
      if (there.bad) return absl::DataLossError(StrCat(file.ToString(), " is bad"));
      const FileHeader& h = there.header;
      // Of a later epoch of the range too, and of another one that shares it: whoever reads it may heal it.
      if (h.kind != FileHeader::Kind::kWhole || !ReferencesLocked(file, h, creator) ||
          h.size != data.size() || h.data_crc != crc) {
        return absl::InvalidArgumentError(StrCat(file.ToString(), " is there already, with other content"));
      }
      same = it->second;
    }
  }
  if (same != nullptr) return Heal(file, same, data);
  Status status = CheckSpace(data.size(), options_.reserve_bytes);
  if (status.ok()) {
    auto handle = CreateDurably(entry->header, data);
    status = handle.status();
    if (status.ok()) {
      entry->size = data.size();
      open_files_.Put(PathOf(file), *std::move(handle));
    }
  }
  return FinishCreation(file, entry, status);
}

Status FileStore::Heal(const StocFileId& file, const std::shared_ptr<Entry>& entry, std::string_view data) {
  MutexLock one(&entry->append_mu);
  const FileHeader& header = entry->header;
  const std::string path = PathOf(file);
  const auto intact = [&]() -> Status {
    NOVA_ASSIGN_OR_RETURN(const Handle handle, open_files_.Open(path));
    std::string bytes(kFileHeaderBytes + data.size(), '\0');
    NOVA_RETURN_IF_ERROR(handle->Read(0, bytes.size(), bytes.data()));
    return bytes.substr(0, kFileHeaderBytes) == header.Encode() &&
                   std::string_view(bytes).substr(kFileHeaderBytes) == data
               ? OkStatus()
               : absl::DataLossError("changed");
  };
  if (intact().ok()) return OkStatus();
  NOVA_RETURN_IF_ERROR(CheckSpace(data.size(), options_.reserve_bytes));
  // Renamed over the old one: whoever is reading that goes on with it.
  NOVA_ASSIGN_OR_RETURN(Handle handle, CreateDurably(header, data));
  stored_bytes_ -= data.size() + kFileHeaderBytes;
  healed_->Add();
  bool deleted = false;
  {
    MutexLock lock(&mu_);
    const auto it = entries_.find(file);
    deleted = it == entries_.end() || it->second != entry;
  }
  if (deleted) {
    disk_->Delete(path).IgnoreError();
    open_files_.Drop(path);
    return absl::NotFoundError(StrCat(file.ToString(), " was deleted while it was written"));
  }
  open_files_.Put(path, std::move(handle));
  return OkStatus();
}

Status FileStore::CreateAppended(FileHeader::Kind kind, const StocFileId& file, const Creator& creator,
                                 std::string_view data) {
  auto entry = std::make_shared<Entry>();
  entry->header = {kind, file, creator, 0, WallNow(), 0};
  MutexLock appending(&entry->append_mu);
  {
    MutexLock lock(&mu_);
    if (!entries_.emplace(file, entry).second)
      return absl::InvalidArgumentError(StrCat(file.ToString(), " is there already"));
  }
  Status status = CheckSpace(data.size(), options_.reserve_bytes / 4);
  if (status.ok()) {
    auto handle = CreateDurably(entry->header, data);
    status = handle.status();
    if (status.ok()) {
      entry->size = data.size();
      entry->append_handle = *std::move(handle);
    }
  }
  return FinishCreation(file, entry, status);
}

Status FileStore::AppendFile(const StocFileId& file, const Creator& creator, uint64_t offset, bool create,
                             std::string_view data) {
  if (create) {
    if (offset != 0) return absl::InvalidArgumentError("a new file starts at 0");
    return CreateAppended(FileHeader::Kind::kAppended, file, creator, data);
  }
  const std::shared_ptr<Entry> entry = FindEntry(file);
  if (entry == nullptr) return absl::NotFoundError(StrCat("no file ", file.ToString()));
  MutexLock appending(&entry->append_mu);
  if (entry->bad) return absl::DataLossError(StrCat(file.ToString(), " is bad"));
  if (entry->append_handle == nullptr)
    return absl::UnavailableError(StrCat(file.ToString(), " is closed to appends"));
  // Manifest (M1): an epoch appends to its own files only.
  if (entry->header.creator.range != creator.range || entry->header.creator.epoch != creator.epoch) {
    return absl::InvalidArgumentError(StrCat(file.ToString(), " belongs to range ",
                                             entry->header.creator.range.value(), ", epoch ",
                                             entry->header.creator.epoch.value()));
  }
  if (entry->size != offset) {
    return absl::InvalidArgumentError(
        StrCat(file.ToString(), " ends at ", entry->size.load(), ", not at ", offset));
  }
  NOVA_RETURN_IF_ERROR(CheckSpace(data.size(), options_.reserve_bytes / 4));
  writing_bytes_ += data.size();
  Status status = entry->append_handle->Write(kFileHeaderBytes + offset, data);
  if (status.ok()) status = NOVA_FP_STATUS("stoc.append_written");
  if (status.ok()) status = entry->append_handle->Sync();
  if (status.ok()) status = NOVA_FP_STATUS("stoc.append_synced");
  writing_bytes_ -= data.size();
  if (!status.ok()) return Failed(entry.get(), status);
  entry->size += data.size();
  stored_bytes_ += data.size();
  bytes_written_->Add(data.size());
  return OkStatus();
}

// S1: nobody knows what is there now; what was acknowledged before still is.
Status FileStore::Failed(Entry* entry, const Status& status) {
  entry->bad = true;
  bad_files_->Add();
  if (absl::IsResourceExhausted(status)) no_space_->Add();
  return status;
}

// --- logs

Status FileStore::CreateLog(const Uuid& log, const Creator& creator) {
  const StocFileId file{log, 0};
  const std::shared_ptr<Entry> there = FindEntry(file);
  if (there == nullptr) {
    NOVA_RETURN_IF_ERROR(CreateAppended(FileHeader::Kind::kLog, file, creator, ""));
    NOVA_FP("stoc.log_created");
    return OkStatus();
  }
  MutexLock appending(&there->append_mu);
  const bool open = there->append_handle != nullptr && there->header.kind == FileHeader::Kind::kLog;
  return open && there->header.creator == creator
             ? OkStatus()
             : absl::UnavailableError(StrCat("log ", log.ToString(), " is closed"));
}

Status FileStore::OpenJournal() {
  NOVA_RETURN_IF_ERROR(PutJournalBack());
  journal_ = std::make_unique<LogJournal>(disk_, options_.journal, [this](const Uuid& log) {
    const std::shared_ptr<Entry> entry = FindEntry({log, 0});
    const Status s = entry == nullptr ? OkStatus() : SyncLog({log, 0}, entry);
    return absl::IsNotFound(s) ? OkStatus() : s;
  });
  return OkStatus();
}

Status FileStore::PutJournalBack() {
  std::map<Uuid, Handle> logs;  // that something was put back into; null: deleted since
  NOVA_RETURN_IF_ERROR(LogJournal::Replay(disk_, [&](const LogJournal::Piece& piece) -> Status {
    const StocFileId file{piece.log, 0};
    const std::shared_ptr<Entry> entry = FindEntry(file);
    if (entry != nullptr && entry->header.kind != FileHeader::Kind::kLog) return OkStatus();
    const auto [log, first] = logs.try_emplace(piece.log);
    if (first) {
      auto handle = disk_->Open(PathOf(file), /*writable=*/true);
      if (!absl::IsNotFound(handle.status())) NOVA_RETURN_IF_ERROR(handle.status());
      if (handle.ok()) log->second = *std::move(handle);
    }
    if (log->second == nullptr) return OkStatus();
    NOVA_RETURN_IF_ERROR(log->second->Write(kFileHeaderBytes + piece.offset, piece.bytes));
    // could not be read now: a later start may, and the journal is forgotten by then
    if (entry == nullptr) return OkStatus();
    const uint64_t end = std::max(entry->size.load(), piece.offset + piece.bytes.size());
    stored_bytes_ += end - entry->size;
    entry->size = end;
    return OkStatus();
  }));
  for (const auto& [log, handle] : logs) {
    if (handle != nullptr) NOVA_RETURN_IF_ERROR(handle->Sync());
  }
  NOVA_FP("stoc.journal_replayed");
  if (const Status s = LogJournal::Forget(disk_); !s.ok())
    NOVA_LOG(WARNING) << "the next start puts the journal back once more: " << s;
  return OkStatus();
}

// The disk may have been full at the start, and have room now. This process goes on without a journal.
void FileStore::PutJournalBackLate() {
  constexpr Nanos kPause = kSecond;
  MutexLock lock(&put_back_mu_);
  if (!journal_waits_ || Now() < next_put_back_ns_) return;
  const Status s = PutJournalBack();
  next_put_back_ns_ = Now() + kPause;
  if (!s.ok()) return;
  journal_waits_ = false;
  NOVA_LOG(INFO) << "the journal is put back";
  MutexLock entries_lock(&mu_);
  for (const auto& [file, entry] : entries_) entry->incomplete = false;
}

// Written, not synced.
StatusOr<std::shared_ptr<FileStore::Entry>> FileStore::WriteLog(const LogWrite& write) {
  const std::shared_ptr<Entry> entry = FindEntry({write.log, 0});
  if (entry == nullptr) return absl::UnavailableError(StrCat("no log ", write.log.ToString()));
  MutexLock appending(&entry->append_mu);
  if (entry->bad) return absl::DataLossError(StrCat("log ", write.log.ToString(), " is bad"));
  const FileHeader& header = entry->header;
  if (entry->append_handle == nullptr || header.kind != FileHeader::Kind::kLog ||
      header.creator != write.creator) {
    return absl::UnavailableError(StrCat("log ", write.log.ToString(), " is closed"));
  }
  uint64_t end = entry->size, bytes = 0;
  for (const LogPiece& p : write.pieces) {
    end = std::max(end, p.offset + p.bytes.size());
    bytes += p.bytes.size();
  }
  NOVA_RETURN_IF_ERROR(CheckSpace(bytes, options_.reserve_bytes / 4));
  Status status;
  for (const LogPiece& p : write.pieces) {
    if (status.ok()) status = entry->append_handle->Write(kFileHeaderBytes + p.offset, p.bytes);
  }
  if (status.ok()) status = NOVA_FP_STATUS("stoc.log_written");
  if (!status.ok()) return Failed(entry.get(), status);
  if (!write.sync) ++entry->unsynced_writes;
  stored_bytes_ += end - entry->size;
  entry->size = end;
  bytes_written_->Add(bytes);
  return entry;
}

// All that was written to the log before, in its own file. It is appended to meanwhile.
Status FileStore::SyncLog(const StocFileId& file, const std::shared_ptr<Entry>& entry) {
  MutexLock syncing(&entry->sync_mu);
  if (entry->sync_failed)
    return absl::DataLossError(StrCat("log ", file.owner.ToString(), " could not be synced before"));
  const uint64_t writes = entry->unsynced_writes;
  Handle handle;
  {
    MutexLock appending(&entry->append_mu);
    handle = entry->append_handle;
  }
  if (handle == nullptr) {
    NOVA_ASSIGN_OR_RETURN(handle, open_files_.Open(PathOf(file)));
  }
  const Status status = handle->Sync();
  if (!status.ok()) {
    entry->sync_failed = true;
    return Failed(entry.get(), status);
  }
  entry->synced_writes = writes;
  return OkStatus();
}

std::vector<Status> FileStore::WriteLogs(std::span<const LogWrite> writes) {
  std::vector<Status> outcomes;
  std::vector<std::shared_ptr<Entry>> entries;
  std::vector<LogJournal::Piece> together;
  std::vector<size_t> alone, journaled;  // of `writes`
  size_t bytes = 0;
  for (size_t i = 0; i < writes.size(); ++i) {
    const LogWrite& w = writes[i];
    auto entry = WriteLog(w);
    outcomes.push_back(entry.status());
    entries.push_back(entry.ok() ? *std::move(entry) : nullptr);
    if (!outcomes.back().ok() || !w.sync) continue;
    size_t records = 0;
    for (const LogPiece& p : w.pieces) records += LogJournal::RecordBytes({w.log, p.offset, p.bytes});
    if (journal_ == nullptr || entries.back()->unsynced_writes > entries.back()->synced_writes ||
        bytes + records > options_.journal.batch_bytes) {
      alone.push_back(i);
      continue;
    }
    bytes += records;
    journaled.push_back(i);
    for (const LogPiece& p : w.pieces) together.push_back({w.log, p.offset, p.bytes});
  }
  if (!together.empty()) {
    MutexLock lock(&journal_mu_);
    if (!journal_->Append(together).ok()) alone.insert(alone.end(), journaled.begin(), journaled.end());
  }
  for (const size_t i : alone) outcomes[i] = SyncLog({writes[i].log, 0}, entries[i]);
  for (size_t i = 0; i < writes.size(); ++i) {
    if (!outcomes[i].ok() || !writes[i].sync) continue;
    if (const Status s = NOVA_FP_STATUS("stoc.log_synced"); !s.ok())
      outcomes[i] = Failed(entries[i].get(), s);
  }
  return outcomes;
}

std::vector<SealedLogFile> FileStore::SealLogs(RangeId range, Epoch epoch) {
  std::vector<SealedLogFile> sealed;
  std::vector<std::shared_ptr<Entry>> logs;
  PutJournalBackLate();
  {
    MutexLock lock(&mu_);
    for (const auto& [file, entry] : entries_) {
      const FileHeader& h = entry->header;
      if (h.kind == FileHeader::Kind::kLog && h.creator.range == range && h.creator.epoch < epoch &&
          !entry->writing)
        logs.push_back(entry);
    }
  }
  for (const auto& entry : logs) {
    MutexLock appending(&entry->append_mu);
    entry->append_handle = nullptr;
    // In this order: by the time a log is complete its size is what the journal made it.
    const bool incomplete = entry->incomplete;
    sealed.push_back(
        {entry->header.file.owner, incomplete ? SealedLogFile::kUnknownSize : entry->size.load()});
  }
  if (!sealed.empty()) NOVA_FP_VOID("stoc.logs_sealed");
  return sealed;
}

Status FileStore::DeleteLogs(RangeId range, Epoch epoch_below) {
  std::vector<StocFileId> files;
  for (const SealedLogFile& f : SealLogs(range, epoch_below)) files.push_back({f.log, 0});
  return DeleteFiles(files);
}

StatusOr<std::string> FileStore::ReadFile(const StocFileId& file, uint64_t offset, uint32_t size) {
  const std::shared_ptr<Entry> entry = FindEntry(file);
  if (entry == nullptr || entry->writing) return absl::NotFoundError(StrCat("no file ", file.ToString()));
  const bool whole = entry->header.kind == FileHeader::Kind::kWhole;
  if (whole && entry->bad) return absl::DataLossError(StrCat(file.ToString(), " is bad"));
  if (entry->incomplete)
    return absl::DataLossError(StrCat("log ", file.owner.ToString(), " lacks what the journal has of it"));
  const uint64_t end = entry->size;
  std::string bytes(offset >= end ? 0 : std::min<uint64_t>(size, end - offset), '\0');
  if (bytes.empty()) return bytes;
  NOVA_FP("stoc.file_read");
  NOVA_ASSIGN_OR_RETURN(const Handle handle, open_files_.Open(PathOf(file)));
  const Status status = handle->Read(kFileHeaderBytes + offset, bytes.size(), bytes.data());
  // it was longer once
  if (absl::IsOutOfRange(status)) return absl::DataLossError(std::string(status.message()));
  NOVA_RETURN_IF_ERROR(status);
  bytes_read_->Add(bytes.size());
  return bytes;
}

Status FileStore::DropFromDisk(const StocFileId& file, const Entry& entry) {
  const std::string path = PathOf(file);
  const Status deleted = disk_->Delete(path);
  open_files_.Drop(path);
  NOVA_RETURN_IF_ERROR(deleted);
  stored_bytes_ -= entry.size + kFileHeaderBytes;
  return OkStatus();
}

std::shared_ptr<FileStore::Entry> FileStore::UnlistLocked(const StocFileId& file) {
  const auto it = entries_.find(file);
  if (it == entries_.end()) return nullptr;
  std::shared_ptr<Entry> entry = std::move(it->second);
  entries_.erase(it);
  files_->Set(static_cast<int64_t>(entries_.size()));
  return entry;
}

Status FileStore::DeleteFiles(const std::vector<StocFileId>& files) {
  Status first;
  for (const StocFileId& file : files) {
    std::shared_ptr<Entry> entry;
    {
      MutexLock lock(&mu_);
      entry = UnlistLocked(file);
    }
    if (entry == nullptr || entry->writing) continue;  // its writer finds that it is gone
    const Status status = DropFromDisk(file, *entry);
    if (entry->header.kind == FileHeader::Kind::kLog) NOVA_FP_VOID("stoc.log_deleted");
    if (first.ok() && !absl::IsNotFound(status)) first = status;
  }
  return first;
}

// --- references (shared table, M4)

bool FileStore::ReferencesLocked(const StocFileId& file, const FileHeader& header, const Creator& who) const {
  const auto shared = references_.find(file);
  if (shared != references_.end()) return shared->second.Has(who.range, who.epoch);
  return header.creator.range == who.range && header.creator.epoch <= who.epoch;
}

Status FileStore::LoadReferences(const std::string& name) {
  StocFileId file;
  if (!ParseName(std::string_view(name).substr(0, name.size() - (sizeof(kReferencesSuffix) - 1)), &file)) {
    return absl::InvalidArgumentError("not the name of a StoC file's references");
  }
  const auto references = [&]() -> StatusOr<FileReferences> {
    NOVA_ASSIGN_OR_RETURN(const std::string bytes,
                          ReadWhole(disk_, StrCat(kFilesDirectory, "/", name), kMaxReferencesBytes));
    return FileReferences::Decode(bytes, file);
  }();
  MutexLock lock(&mu_);
  references_[file] = references.ok() ? *references : FileReferences{.all = {}, .unreadable = true};
  return references.status();
}

// The caller syncs the directory where it matters.
Status FileStore::WriteReferences(const StocFileId& file, const FileReferences& references) {
  const std::string path = ReferencesPathOf(file);
  const std::string temporary = StrCat(path, ".", next_temporary_.fetch_add(1), kTemporarySuffix);
  const Status status = [&]() -> Status {
    NOVA_ASSIGN_OR_RETURN(const auto handle, disk_->Create(temporary));
    NOVA_RETURN_IF_ERROR(handle->Write(0, references.Encode(file)));
    NOVA_RETURN_IF_ERROR(handle->Sync());
    NOVA_FP("refs.list_written");
    return disk_->Rename(temporary, path);
  }();
  if (!status.ok()) {
    disk_->Delete(temporary).IgnoreError();
    return status;
  }
  NOVA_FP("refs.list_renamed");
  return OkStatus();
}

// In memory first: whoever drops the creator's reference from then on finds the list, and waits for us. What
// fails leaves a reference too many there, never one too few.
Status FileStore::AddReferences(RangeId range, Epoch epoch, const std::vector<StocFileId>& files) {
  MutexLock one(&references_mu_);
  NOVA_RETURN_IF_ERROR(CheckSpace(files.size() * kReferencesReserveBytes, options_.reserve_bytes / 4));
  for (const StocFileId& file : files) {
    FileReferences references;
    {
      MutexLock lock(&mu_);
      const auto it = entries_.find(file);
      if (it == entries_.end() || it->second->writing ||
          it->second->header.kind != FileHeader::Kind::kWhole) {
        return absl::NotFoundError(StrCat("no file ", file.ToString(), " to be referenced"));
      }
      const FileHeader& header = it->second->header;
      const auto [shared, first] = references_.try_emplace(file);
      if (shared->second.unreadable) return UnreadableReferences(file);
      if (first) shared->second.Add(header.creator.range, header.creator.epoch, header.created_ms);
      shared->second.Add(range, epoch, WallNow());
      references = shared->second;
    }
    NOVA_RETURN_IF_ERROR(WriteReferences(file, references));
  }
  return disk_->SyncDirectory(kFilesDirectory);
}

Status FileStore::DropReferences(RangeId range, Epoch epoch, const std::vector<StocFileId>& files) {
  Status first;
  for (const StocFileId& file : files) {
    const Status s = DropReference(range, epoch, file);
    if (first.ok() && !absl::IsNotFound(s)) first = s;
  }
  return first;
}

Status FileStore::DropReference(RangeId range, Epoch epoch, const StocFileId& file) {
  std::shared_ptr<Entry> entry;
  {
    MutexLock lock(&mu_);
    if (!references_.contains(file)) {
      const auto it = entries_.find(file);
      if (it == entries_.end() || !ReferencesLocked(file, it->second->header, {range, epoch, 0}))
        return OkStatus();
      entry = UnlistLocked(file);
    }
  }
  if (entry == nullptr) return DropSharedReference(range, epoch, file);
  return entry->writing ? OkStatus() : DropFromDisk(file, *entry);  // its writer finds that it is gone
}

Status FileStore::DropSharedReference(RangeId range, Epoch epoch, const StocFileId& file) {
  MutexLock one(&references_mu_);
  std::shared_ptr<Entry> entry;
  FileReferences left;
  {
    MutexLock lock(&mu_);
    const auto shared = references_.find(file);
    if (shared == references_.end()) return OkStatus();
    if (shared->second.unreadable) return UnreadableReferences(file);
    if (!shared->second.Drop(range, epoch)) return OkStatus();
    left = shared->second;
    if (left.all.empty()) {
      references_.erase(shared);
      entry = UnlistLocked(file);
    }
  }
  if (!left.all.empty()) return WriteReferences(file, left);
  // The list goes last: without it the file would be its creator's again.
  if (entry != nullptr && !entry->writing) NOVA_RETURN_IF_ERROR(DropFromDisk(file, *entry));
  NOVA_FP("refs.file_deleted");
  NOVA_RETURN_IF_ERROR(disk_->SyncDirectory(kFilesDirectory));
  NOVA_RETURN_IF_ERROR(disk_->Delete(ReferencesPathOf(file)));
  return disk_->SyncDirectory(kFilesDirectory);
}

// --- what there is

FileSummary FileStore::Summarize(const StocFileId& file, const Entry& entry) {
  const uint64_t now = WallNow();
  const uint64_t age = now > entry.header.created_ms ? now - entry.header.created_ms : 0;
  return {file, entry.header.creator, entry.size, age};
}

std::vector<FileSummary> FileStore::List(RangeId range, Epoch epoch_below, const StocFileId& after,
                                         size_t limit) const {
  std::vector<FileSummary> files;
  const uint64_t now = WallNow();
  MutexLock lock(&mu_);
  auto entry = entries_.upper_bound(after);
  auto shared = references_.upper_bound(after);
  while (files.size() < limit && (entry != entries_.end() || shared != references_.end())) {
    const bool has_entry =
        entry != entries_.end() && (shared == references_.end() || entry->first <= shared->first);
    const bool is_shared =
        shared != references_.end() && (entry == entries_.end() || shared->first <= entry->first);
    if (is_shared) {
      const uint64_t size = has_entry ? entry->second->size.load() : 0;
      for (const FileReferences::Reference& r : shared->second.all) {  // one of a range
        if (r.range != range || r.epoch >= epoch_below) continue;
        files.push_back(
            {shared->first, {r.range, r.epoch, 0}, size, now > r.added_ms ? now - r.added_ms : 0});
      }
      ++shared;
    } else if (const Creator& creator = entry->second->header.creator;
               creator.range == range && creator.epoch < epoch_below && !entry->second->writing) {
      files.push_back(Summarize(entry->first, *entry->second));
    }
    if (has_entry) ++entry;
  }
  return files;
}

std::optional<FileSummary> FileStore::Find(const StocFileId& file) const {
  const std::shared_ptr<Entry> entry = FindEntry(file);
  if (entry == nullptr || entry->writing) return std::nullopt;
  return Summarize(file, *entry);
}

}  // namespace nova
