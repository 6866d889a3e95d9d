#include "stoc/stored_files.h"

#include <algorithm>
#include <utility>

#include "common/base/clock.h"
#include "common/base/failpoint.h"

namespace nova {
namespace {

Status UnreadableReferences(const StocFileId& file) {
  return absl::DataLossError(StrCat("the references of ", file.ToString(), " cannot be read"));
}

// By a clock that does not jump: by the wall clock an orphan stayed for as long as that had gone back, and
// one that was made a moment ago was old (collection, N4).
uint64_t AgeMs(Nanos since_ns) {
  return static_cast<uint64_t>(std::max<Nanos>(0, Now() - since_ns) / kMillisecond);
}

FileSummary Summarize(const StoredFile& file) {
  return {file.id(), file.header.creator, file.size, AgeMs(file.since_ns), file.damaged};
}

}  // namespace

uint64_t WallMs() { return static_cast<uint64_t>(std::max<int64_t>(0, WallNowMs())); }

StoredFiles::StoredFiles(StoreDirectory* directory, Metrics* metrics)
    : directory_(directory),
      bad_files_(metrics->counter("nova_stoc_bad_files_total")),
      count_(metrics->gauge("nova_stoc_files")),
      damaged_(metrics->gauge("nova_stoc_damaged_files")) {}

// --- at start

Status StoredFiles::Load(const StocFileId& id) {
  NOVA_ASSIGN_OR_RETURN(const auto handle, directory_->OpenApart(id, /*writable=*/false));
  NOVA_ASSIGN_OR_RETURN(const uint64_t size, handle->Size());
  if (size < kFileHeaderBytes) return absl::DataLossError("shorter than a header");
  char bytes[kFileHeaderBytes];
  NOVA_RETURN_IF_ERROR(handle->Read(0, sizeof(bytes), bytes));
  NOVA_ASSIGN_OR_RETURN(const FileHeader header, FileHeader::Decode({bytes, sizeof(bytes)}));
  if (header.file != id) return absl::DataLossError("the header is of another file");
  if (header.kind == FileHeader::Kind::kWhole && size != header.size + kFileHeaderBytes) {
    return absl::DataLossError(StrCat(size, " bytes instead of ", header.size + kFileHeaderBytes));
  }
  auto file = std::make_shared<StoredFile>(header);
  file->size = size - kFileHeaderBytes;
  file->writing = false;
  file->counted = true;
  directory_->NoteGrowth(size, 0);
  MutexLock lock(&mu_);
  EnterLocked(file);
  count_->Set(static_cast<int64_t>(files_.size()));
  return OkStatus();
}

void StoredFiles::LoadReferences(const StocFileId& file, FileReferences references) {
  MutexLock lock(&mu_);
  references_[file] = std::move(references);
}

// --- which there are

StoredFiles::File StoredFiles::Find(const StocFileId& file) const {
  MutexLock lock(&mu_);
  const auto it = files_.find(file);
  return it == files_.end() ? nullptr : it->second;
}

bool StoredFiles::IsListed(const File& file) const {
  MutexLock lock(&mu_);
  const auto it = files_.find(file->id());
  return it != files_.end() && it->second == file;
}

std::vector<StoredFiles::File> StoredFiles::Logs() const {
  std::vector<File> logs;
  MutexLock lock(&mu_);
  for (const auto& [key, log] : logs_) logs.push_back(log);
  return logs;
}

std::vector<StoredFiles::File> StoredFiles::LogsOf(RangeId range, Epoch epoch_below) const {
  std::vector<File> logs;
  MutexLock lock(&mu_);
  const auto end = logs_.lower_bound({range, epoch_below, {}});
  for (auto it = logs_.lower_bound({range, Epoch(), {}}); it != end; ++it) {
    if (!it->second->writing) logs.push_back(it->second);
  }
  return logs;
}

bool StoredFiles::HasLogsOf(RangeId range, Epoch epoch_below) const {
  MutexLock lock(&mu_);
  const auto it = logs_.lower_bound({range, Epoch(), {}});
  return it != logs_.end() && it->first < LogKey{range, epoch_below, {}};
}

std::optional<FileSummary> StoredFiles::Summary(const StocFileId& id) const {
  MutexLock lock(&mu_);
  const auto it = files_.find(id);
  if (it == files_.end() || it->second->writing) return std::nullopt;
  return Summarize(*it->second);
}

std::vector<FileSummary> StoredFiles::List(RangeId range, Epoch epoch_below, const StocFileId& after,
                                           size_t limit) const {
  std::vector<FileSummary> files;
  MutexLock lock(&mu_);
  auto file = files_.upper_bound(after);
  auto shared = references_.upper_bound(after);
  while (files.size() < limit && (file != files_.end() || shared != references_.end())) {
    const bool has_file =
        file != files_.end() && (shared == references_.end() || file->first <= shared->first);
    const bool is_shared =
        shared != references_.end() && (file == files_.end() || shared->first <= file->first);
    if (is_shared) {
      const uint64_t size = has_file ? file->second->size.load() : 0;
      const bool damaged = has_file && file->second->damaged;
      for (const FileReferences::Reference& r : shared->second.all) {  // one of a range
        if (r.range != range || r.epoch >= epoch_below) continue;
        files.push_back({shared->first, {r.range, r.epoch, 0}, size, AgeMs(r.since_ns), damaged});
      }
      ++shared;
    } else if (const Creator& creator = file->second->header.creator;
               creator.range == range && creator.epoch < epoch_below && !file->second->writing) {
      files.push_back(Summarize(*file->second));
    }
    if (has_file) ++file;
  }
  return files;
}

// --- the beginning and end of a file

StoredFiles::LogKey StoredFiles::KeyOf(const StoredFile& log) {
  return {log.header.creator.range, log.header.creator.epoch, log.id()};
}

StoredFiles::File StoredFiles::EnterLocked(const File& file) {
  const auto [it, first] = files_.emplace(file->id(), file);
  if (first && file->is(FileHeader::Kind::kLog)) logs_.emplace(KeyOf(*file), file);
  return it->second;
}

void StoredFiles::EraseLocked(Files::iterator file) {
  if (file->second->is(FileHeader::Kind::kLog)) logs_.erase(KeyOf(*file->second));
  files_.erase(file);
}

StoredFiles::File StoredFiles::AddOrFind(const File& file) {
  MutexLock lock(&mu_);
  if (going_.contains(file->id())) return nullptr;
  return EnterLocked(file);
}

Status StoredFiles::FinishCreation(const File& file, const Status& status) {
  const bool bad = !status.ok() && !absl::IsResourceExhausted(status);
  bool deleted = false;
  {
    MutexLock lock(&mu_);
    const auto it = files_.find(file->id());
    deleted = it == files_.end() || it->second != file;
    if (!deleted && !status.ok() && !bad) EraseLocked(it);
    file->bad = bad;
    file->counted = status.ok();
    file->writing = false;
    count_->Set(static_cast<int64_t>(files_.size()));
  }
  if (bad) bad_files_->Add();
  if (!deleted) return status;
  if (status.ok()) directory_->Delete(file->id(), file->size).IgnoreError();
  MutexLock lock(&mu_);
  going_.erase(file->id());
  if (!status.ok()) return status;
  return absl::NotFoundError(StrCat(file->id().ToString(), " was deleted while it was written"));
}

Status StoredFiles::CreateAppended(FileHeader::Kind kind, const StocFileId& id, const Creator& creator,
                                   std::string_view data) {
  const auto file = std::make_shared<StoredFile>(FileHeader{kind, id, creator, 0, WallMs(), 0});
  MutexLock appending(&file->append_mu);
  if (AddOrFind(file) != file) return absl::InvalidArgumentError(StrCat(id.ToString(), " is there already"));
  Status status = directory_->CheckSpace(data.size(), StoreDirectory::Use::kAppend);
  if (status.ok()) {
    auto handle = directory_->CreateDurably(file->header, data);
    status = handle.status();
    if (status.ok()) {
      file->size = data.size();
      file->written.Note(0, data);
      file->append_handle = *std::move(handle);
    }
  }
  return FinishCreation(file, status);
}

bool StoredFiles::Recreated(const File& file, const FileHeader& header) {
  MutexLock lock(&mu_);
  const auto it = files_.find(file->id());
  if (it == files_.end() || it->second != file) return false;
  file->header.creator.epoch = header.creator.epoch;
  file->header.creator.job = header.creator.job;
  file->header.created_ms = header.created_ms;
  file->since_ns = Now();
  ++file->rewrites;
  SetDamagedLocked(file.get(), false);
  return true;
}

Status StoredFiles::Failed(StoredFile* file, const Status& status) {
  file->bad = true;
  bad_files_->Add();
  if (absl::IsResourceExhausted(status)) directory_->NoteNoSpace();
  return status;
}

StoredFiles::File StoredFiles::UnlistLocked(const StocFileId& id) {
  const auto it = files_.find(id);
  if (it == files_.end()) return nullptr;
  File file = it->second;
  EraseLocked(it);
  going_.insert(id);
  file->left_to_writer = file->writing.load();
  SetDamagedLocked(file.get(), false);
  count_->Set(static_cast<int64_t>(files_.size()));
  return file;
}

Status StoredFiles::DeleteUnlisted(const File& file) {
  if (file->left_to_writer) return OkStatus();
  if (!file->counted) return directory_->Remove(file->id());  // its creation failed
  if (!file->is(FileHeader::Kind::kWhole)) return directory_->Delete(file->id(), file->size);
  MutexLock healed(&file->append_mu);
  return directory_->Delete(file->id(), file->size);
}

void StoredFiles::FreeName(const File& unlisted) {
  if (unlisted->left_to_writer) return;  // it frees it, too
  MutexLock lock(&mu_);
  going_.erase(unlisted->id());
}

bool StoredFiles::TakeName(const StocFileId& file) {
  MutexLock lock(&mu_);
  return !files_.contains(file) && !references_.contains(file) && going_.insert(file).second;
}

void StoredFiles::FreeTakenName(const StocFileId& file) {
  MutexLock lock(&mu_);
  going_.erase(file);
}

Status StoredFiles::Delete(const std::vector<StocFileId>& ids) {
  Status first;
  for (const StocFileId& id : ids) {
    File file;
    {
      MutexLock lock(&mu_);
      file = UnlistLocked(id);
    }
    if (file == nullptr) continue;
    const Status status = DeleteUnlisted(file);
    FreeName(file);
    if (file->is(FileHeader::Kind::kLog)) NOVA_FP_VOID("stoc.log_deleted");
    if (first.ok() && !absl::IsNotFound(status)) first = status;
  }
  return first;
}

// --- scrub (S6)

StoredFiles::Rest StoredFiles::Behind(const StocFileId& after, size_t most) const {
  Rest rest;
  MutexLock lock(&mu_);
  for (auto it = files_.upper_bound(after); it != files_.end(); ++it) {
    if (it->second->writing) continue;
    if (rest.first.size() < most) rest.first.push_back(it->second);
    ++rest.files;
    rest.bytes += it->second->size;
  }
  return rest;
}

StoredFiles::Look StoredFiles::LookAt(const File& file) const {
  MutexLock lock(&mu_);
  return {file->header, file->rewrites};
}

bool StoredFiles::SetDamaged(const File& file, uint64_t rewrites, bool damaged) {
  MutexLock lock(&mu_);
  const auto it = files_.find(file->id());
  if (it == files_.end() || it->second != file || file->rewrites != rewrites) return false;
  SetDamagedLocked(file.get(), damaged);
  return true;
}

void StoredFiles::SetDamagedLocked(StoredFile* file, bool damaged) {
  if (file->damaged.exchange(damaged) != damaged) damaged_->Add(damaged ? 1 : -1);
}

std::vector<StocFileId> StoredFiles::Damaged() const {
  std::vector<StocFileId> damaged;
  MutexLock lock(&mu_);
  for (const auto& [id, file] : files_) {
    if (file->damaged) damaged.push_back(id);
  }
  return damaged;
}

// --- references (shared table, M4)

bool StoredFiles::ReferencesLocked(const StoredFile& file, const Creator& who) const {
  const auto shared = references_.find(file.id());
  if (shared != references_.end()) return shared->second.Has(who.range, who.epoch);
  const Creator& creator = file.header.creator;
  return creator.range == who.range && creator.epoch <= who.epoch;
}

bool StoredFiles::References(const StoredFile& file, const Creator& who) const {
  MutexLock lock(&mu_);
  return ReferencesLocked(file, who);
}

bool StoredFiles::IsOrWillBeShared(const StoredFile& file, RangeId range) const {
  MutexLock lock(&mu_);
  return references_.contains(file.id()) || file.header.creator.range != range;
}

std::optional<FileReferences> StoredFiles::ReferencesOf(const StocFileId& file) const {
  MutexLock lock(&mu_);
  const auto it = references_.find(file);
  return it == references_.end() ? std::nullopt : std::optional(it->second);
}

StatusOr<FileReferences> StoredFiles::AddReference(RangeId range, Epoch epoch, const StocFileId& id) {
  MutexLock lock(&mu_);
  const auto it = files_.find(id);
  if (it == files_.end() || it->second->writing || !it->second->is(FileHeader::Kind::kWhole)) {
    return absl::NotFoundError(StrCat("no file ", id.ToString(), " to be referenced"));
  }
  const FileHeader& header = it->second->header;
  const auto [shared, first] = references_.try_emplace(id);
  if (shared->second.unreadable) return UnreadableReferences(id);
  if (first) shared->second.Add(header.creator.range, header.creator.epoch, header.created_ms);
  shared->second.Add(range, epoch, WallMs());
  return shared->second;
}

StoredFiles::Dropped StoredFiles::DropUnshared(RangeId range, Epoch epoch, uint64_t ended_below,
                                               const StocFileId& id, File* unlisted) {
  MutexLock lock(&mu_);
  if (references_.contains(id)) return Dropped::kIsShared;
  const auto it = files_.find(id);
  if (it == files_.end() || !ReferencesLocked(*it->second, {range, epoch, 0})) return Dropped::kNothing;
  const Creator& creator = it->second->header.creator;
  const bool may_be_named = creator.epoch == epoch && (creator.job == 0 || creator.job >= ended_below);
  if (ended_below > 0 && may_be_named) return Dropped::kNothing;
  *unlisted = UnlistLocked(id);
  return Dropped::kFile;
}

StatusOr<std::optional<FileReferences>> StoredFiles::DropShared(RangeId range, Epoch upto,
                                                                const StocFileId& id, File* unlisted) {
  MutexLock lock(&mu_);
  const auto shared = references_.find(id);
  if (shared == references_.end()) return std::optional<FileReferences>();
  if (shared->second.unreadable) return UnreadableReferences(id);
  if (!shared->second.Drop(range, upto)) return std::optional<FileReferences>();
  std::optional<FileReferences> left = shared->second;
  if (left->all.empty()) {
    references_.erase(shared);
    *unlisted = UnlistLocked(id);
  }
  return left;
}

}  // namespace nova
