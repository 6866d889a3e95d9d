#include "stoc/log_files.h"

#include <algorithm>
#include <map>
#include <utility>

#include "common/base/failpoint.h"
#include "common/base/log.h"

namespace nova {
namespace {

constexpr Nanos kPutBackPause = kSecond;

Status IsClosed(const Uuid& log) {
  return absl::UnavailableError(StrCat("log ", log.ToString(), " is closed"));
}

}  // namespace

LogFiles::LogFiles(Disk* disk, const LogJournalOptions& options, StoreDirectory* directory,
                   StoredFiles* files)
    : disk_(disk), options_(options), directory_(directory), files_(files) {}

LogFiles::~LogFiles() = default;

// --- at start

void LogFiles::OpenJournal() {
  Status put_back;
  {
    MutexLock lock(&journal_mu_);
    put_back = PutJournalBack();
  }
  if (put_back.ok()) {
    journal_ = std::make_unique<LogJournal>(disk_, options_, [this](const Uuid& log) {
      const StoredFiles::File file = files_->Find({log, 0});
      const Status s = file == nullptr ? OkStatus() : SyncLog(file.get());
      return absl::IsNotFound(s) ? OkStatus() : s;
    });
    return;
  }
  files_->NoteBad();
  journal_waits_ = true;
  NOVA_LOG(ERROR) << "the journal cannot be put back, the logs that are here are not read: " << put_back;
  for (const StoredFiles::File& log : files_->Logs()) log->log_state.incomplete = true;
}

Status LogFiles::PutJournalBack() {
  std::map<Uuid, StoreDirectory::Handle> logs;  // that something was put back into; null: deleted since
  NOVA_RETURN_IF_ERROR(LogJournal::Replay(disk_, [&](const LogJournal::Piece& piece) -> Status {
    const StocFileId id{piece.log, 0};
    const StoredFiles::File file = files_->Find(id);
    if (file != nullptr && !file->is(FileHeader::Kind::kLog)) return OkStatus();
    const auto [log, first] = logs.try_emplace(piece.log);
    if (first) {
      auto handle = directory_->OpenApart(id, /*writable=*/true);
      if (!absl::IsNotFound(handle.status())) NOVA_RETURN_IF_ERROR(handle.status());
      if (handle.ok()) log->second = *std::move(handle);
    }
    if (log->second == nullptr) return OkStatus();
    NOVA_RETURN_IF_ERROR(log->second->Write(kFileHeaderBytes + piece.offset, piece.bytes));
    // could not be read now: a later start may, and the journal is forgotten by then
    if (file == nullptr) return OkStatus();
    const uint64_t end = std::max(file->size.load(), piece.offset + piece.bytes.size());
    directory_->NoteGrowth(end - file->size, 0);
    file->size = end;
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

// This process goes on without a journal.
void LogFiles::PutJournalBackLate() {
  if (!journal_waits_) return;
  MutexLock lock(&journal_mu_);
  if (!journal_waits_ || Now() < next_put_back_ns_) return;
  const Status s = PutJournalBack();
  next_put_back_ns_ = Now() + kPutBackPause;
  if (!s.ok()) return;
  for (const StoredFiles::File& log : files_->Logs()) log->log_state.incomplete = false;
  journal_waits_ = false;  // a seal that sees this finds the logs complete
  NOVA_LOG(INFO) << "the journal is put back";
}

// --- writing

Status LogFiles::CreateLog(const Uuid& log, const Creator& creator) {
  const StocFileId id{log, 0};
  const StoredFiles::File there = files_->Find(id);
  if (there == nullptr) {
    NOVA_RETURN_IF_ERROR(files_->CreateAppended(FileHeader::Kind::kLog, id, creator, ""));
    NOVA_FP("stoc.log_created");
    return OkStatus();
  }
  MutexLock appending(&there->append_mu);
  const bool open = there->append_handle != nullptr && there->is(FileHeader::Kind::kLog);
  return open && there->header.creator == creator ? OkStatus() : IsClosed(log);
}

StatusOr<StoredFiles::File> LogFiles::WriteLog(const LogWrite& write) {
  const StoredFiles::File file = files_->Find({write.log, 0});
  if (file == nullptr) return absl::UnavailableError(StrCat("no log ", write.log.ToString()));
  MutexLock appending(&file->append_mu);
  if (file->bad) return absl::DataLossError(StrCat("log ", write.log.ToString(), " is bad"));
  if (file->append_handle == nullptr || !file->is(FileHeader::Kind::kLog) ||
      file->header.creator != write.creator)
    return IsClosed(write.log);
  uint64_t end = file->size, bytes = 0;
  for (const LogPiece& p : write.pieces) {
    end = std::max(end, p.offset + p.bytes.size());
    bytes += p.bytes.size();
  }
  NOVA_RETURN_IF_ERROR(directory_->CheckSpace(bytes, StoreDirectory::Use::kAppend));
  Status status;
  for (const LogPiece& p : write.pieces) {
    if (status.ok()) status = file->append_handle->Write(kFileHeaderBytes + p.offset, p.bytes);
  }
  if (status.ok()) status = NOVA_FP_STATUS("stoc.log_written");
  if (!status.ok()) return files_->Failed(file.get(), status);
  for (const LogPiece& p : write.pieces) file->written.Note(p.offset, p.bytes);
  if (!write.sync) ++file->log_state.unsynced_writes;
  directory_->NoteGrowth(end - file->size, bytes);
  file->size = end;
  return file;
}

Status LogFiles::SyncLog(StoredFile* log) {
  MutexLock syncing(&log->log_state.sync_mu);
  if (log->log_state.sync_failed)
    return absl::DataLossError(StrCat("log ", log->id().owner.ToString(), " could not be synced before"));
  const uint64_t writes = log->log_state.unsynced_writes;
  StoreDirectory::Handle handle;
  {
    MutexLock appending(&log->append_mu);
    handle = log->append_handle;
  }
  if (handle == nullptr) {
    NOVA_ASSIGN_OR_RETURN(handle, directory_->OpenToRead(log->id()));
  }
  const Status status = handle->Sync();
  if (!status.ok()) {
    log->log_state.sync_failed = true;
    return files_->Failed(log, status);
  }
  log->log_state.synced_writes = writes;
  return OkStatus();
}

std::vector<Status> LogFiles::WriteLogs(std::span<const LogWrite> writes) {
  std::vector<Status> outcomes;
  std::vector<StoredFiles::File> logs;
  std::vector<LogJournal::Piece> together;
  std::vector<size_t> alone, journaled;  // of `writes`
  size_t bytes = 0;
  for (size_t i = 0; i < writes.size(); ++i) {
    const LogWrite& w = writes[i];
    auto log = WriteLog(w);
    outcomes.push_back(log.status());
    logs.push_back(log.ok() ? *std::move(log) : nullptr);
    if (!outcomes.back().ok() || !w.sync) continue;
    size_t records = 0;
    for (const LogPiece& p : w.pieces) records += LogJournal::RecordBytes({w.log, p.offset, p.bytes});
    const LogFileState& state = logs.back()->log_state;
    if (journal_ == nullptr || state.unsynced_writes > state.synced_writes ||
        bytes + records > options_.batch_bytes) {
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
  for (const size_t i : alone) outcomes[i] = SyncLog(logs[i].get());
  for (size_t i = 0; i < writes.size(); ++i) {
    if (!outcomes[i].ok() || !writes[i].sync) continue;
    if (const Status s = NOVA_FP_STATUS("stoc.log_synced"); !s.ok())
      outcomes[i] = files_->Failed(logs[i].get(), s);
  }
  return outcomes;
}

// --- the end of logs

std::vector<SealedLogFile> LogFiles::SealLogs(RangeId range, Epoch epoch) {
  std::vector<SealedLogFile> sealed;
  PutJournalBackLate();
  for (const StoredFiles::File& log : files_->LogsOf(range, epoch)) {
    MutexLock appending(&log->append_mu);
    log->append_handle = nullptr;
    // In this order: by the time a log is complete its size is what the journal made it.
    const bool incomplete = log->log_state.incomplete;
    sealed.push_back({log->id().owner, incomplete ? SealedLogFile::kUnknownSize : log->size.load()});
  }
  if (!sealed.empty()) NOVA_FP_VOID("stoc.logs_sealed");
  return sealed;
}

Status LogFiles::DeleteLogs(RangeId range, Epoch epoch_below) {
  std::vector<StocFileId> files;
  for (const SealedLogFile& f : SealLogs(range, epoch_below)) files.push_back({f.log, 0});
  return files_->Delete(files);
}

}  // namespace nova
