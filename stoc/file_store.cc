#include "stoc/file_store.h"

#include <algorithm>
#include <utility>

#include "common/base/crc32c.h"
#include "common/base/failpoint.h"
#include "common/base/log.h"

namespace nova {

using Use = StoreDirectory::Use;
using Kind = FileHeader::Kind;

namespace {

// A collection takes the files of `a` later than those of `b`, of the same range (collection, N4). Files
// without a job are left to the next epoch.
bool IsLater(const Creator& a, const Creator& b) {
  if (a.epoch != b.epoch) return a.epoch > b.epoch;
  return b.job != 0 && (a.job == 0 || a.job > b.job);
}

}  // namespace

FileStore::FileStore(Disk* disk, const FileStoreOptions& options, Metrics* metrics)
    : bytes_read_(metrics->counter("nova_stoc_disk_bytes_total{op=\"read\"}")),
      healed_(metrics->counter("nova_stoc_files_healed_total")),
      disk_has_fault_(options.disk_has_fault),
      directory_(disk, options.reserve_bytes, options.max_open_files, metrics),
      files_(&directory_, metrics),
      unreadable_(&files_),
      references_(&directory_, &files_),
      logs_(disk, options.journal, &directory_, &files_) {}

StatusOr<std::unique_ptr<FileStore>> FileStore::Open(Disk* disk, const FileStoreOptions& options,
                                                     Metrics* metrics) {
  std::unique_ptr<FileStore> store(new FileStore(disk, options, metrics));
  NOVA_RETURN_IF_ERROR(store->Load());
  return store;
}

Status FileStore::Load() {
  NOVA_ASSIGN_OR_RETURN(const std::vector<std::string> names, directory_.Clean());
  for (const std::string& name : names) {
    const Status s = LoadOne(name);
    if (s.ok()) continue;
    // Left where it is: what is under no file's name perhaps a person can still make something of.
    files_.NoteBad();
    if (StocFileId file; StoreDirectory::ParseName(name, &file)) unreadable_.Add(file);
    NOVA_LOG(ERROR) << name << ", among the files, is not used: " << s.message();
  }
  logs_.OpenJournal();
  return OkStatus();
}

Status FileStore::LoadOne(const std::string& name) {
  if (StoreDirectory::IsReferencesName(name)) return references_.Load(name);
  StocFileId file;
  if (!StoreDirectory::ParseName(name, &file))
    return absl::InvalidArgumentError("not the name of a StoC file");
  return files_.Load(file);
}

// --- whole files

Status FileStore::WriteFile(const StocFileId& id, const Creator& creator, std::string_view data,
                            uint32_t crc) {
  return Write(id, creator, data, crc, /*take=*/false);
}

Status FileStore::WriteCopy(const StocFileId& id, const Creator& creator, std::string_view data,
                            uint32_t crc) {
  const StoredFiles::File there = files_.Find(id);
  if (there != nullptr && !there->writing && there->is(Kind::kWhole) && !there->bad &&
      there->header.size == data.size() && there->header.data_crc == crc &&
      files_.IsOrWillBeShared(*there, creator.range)) {
    NOVA_RETURN_IF_ERROR(references_.AddReferences(creator.range, creator.epoch, {id}));
  }
  return Write(id, creator, data, crc, /*take=*/true);
}

StatusOr<FileStore::WholeFile> FileStore::FindWhole(const StocFileId& id) const {
  const StoredFiles::File file = files_.Find(id);
  if (file == nullptr || file->writing) return absl::NotFoundError(StrCat("no file ", id.ToString()));
  if (!file->is(Kind::kWhole)) return absl::InvalidArgumentError(StrCat(id.ToString(), " may change"));
  if (file->bad) return absl::DataLossError(StrCat(id.ToString(), " is bad"));
  return WholeFile{file->header.size, file->header.data_crc};
}

Status FileStore::Write(const StocFileId& id, const Creator& creator, std::string_view data, uint32_t crc,
                        bool take) {
  const auto file =
      std::make_shared<StoredFile>(FileHeader{Kind::kWhole, id, creator, data.size(), WallMs(), crc});
  const StoredFiles::File there = files_.AddOrFind(file);
  if (there == nullptr) return absl::AbortedError(StrCat(id.ToString(), " is being deleted"));
  if (there != file) {
    if (there->writing) return absl::AbortedError(StrCat(id.ToString(), " is being written"));
    if (there->bad) return absl::DataLossError(StrCat(id.ToString(), " is bad"));
    const FileHeader& h = there->header;
    // Of a later epoch of the range too, and of another one that shares it: whoever reads it may heal it.
    const bool is_same = h.kind == Kind::kWhole && h.size == data.size() && h.data_crc == crc;
    const bool own = take && !files_.IsOrWillBeShared(*there, creator.range);
    if (is_same && take && !own && !files_.References(*there, creator))  // or WriteCopy had referenced it
      return absl::AbortedError(StrCat(id.ToString(), " was made by another range meanwhile"));
    if (!is_same || !files_.References(*there, creator))
      return absl::InvalidArgumentError(StrCat(id.ToString(), " is there already, with other content"));
    return Heal(there, data, own ? &creator : nullptr);
  }
  Status status = directory_.CheckSpace(data.size(), Use::kNewFile);
  if (status.ok()) {
    auto handle = directory_.CreateDurably(file->header, data);
    status = handle.status();
    if (status.ok()) {
      file->size = data.size();
      unreadable_.Forget(id);  // it is written anew
      directory_.KeepOpen(id, *std::move(handle));
    }
  }
  return files_.FinishCreation(file, status);
}

Status FileStore::Heal(const StoredFiles::File& file, std::string_view data, const Creator* as) {
  MutexLock one(&file->append_mu);
  const auto deleted = [&] {
    return absl::NotFoundError(StrCat(file->id().ToString(), " was deleted while it was written"));
  };
  if (!files_.IsListed(file)) return deleted();
  FileHeader header = file->header;
  const auto intact = [&]() -> Status {
    NOVA_ASSIGN_OR_RETURN(const auto handle, directory_.OpenToRead(file->id()));
    std::string bytes(kFileHeaderBytes + data.size(), '\0');
    NOVA_RETURN_IF_ERROR(handle->Read(0, bytes.size(), bytes.data()));
    return bytes.substr(0, kFileHeaderBytes) == header.Encode() &&
                   std::string_view(bytes).substr(kFileHeaderBytes) == data
               ? OkStatus()
               : absl::DataLossError("changed");
  };
  const bool whole = !file->damaged && intact().ok();
  if (!whole && disk_has_fault_ && disk_has_fault_()) {
    return absl::DataLossError(
        StrCat(file->id().ToString(), " is damaged, and not healed on a disk that gave errors"));
  }
  if (as != nullptr && IsLater(*as, header.creator)) {
    header.creator = *as;
    header.created_ms = WallMs();
  } else if (whole) {
    return OkStatus();
  }
  NOVA_RETURN_IF_ERROR(directory_.CheckSpace(data.size(), Use::kNewFile));
  // Renamed over the old one: whoever is reading that goes on with it.
  NOVA_ASSIGN_OR_RETURN(auto handle, directory_.CreateDurably(header, data));
  if (!whole) healed_->Add();
  directory_.NoteGone(data.size());
  if (!files_.Recreated(file, header)) return deleted();  // who unlisted it waits for us, and deletes it
  directory_.KeepOpen(file->id(), std::move(handle));
  return OkStatus();
}

Status FileStore::HealFromCache(const StoredFiles::File& file) {
  NOVA_ASSIGN_OR_RETURN(const auto handle, directory_.OpenToRead(file->id()));
  std::string data(file->header.size, '\0');
  const Status read = handle->Read(kFileHeaderBytes, data.size(), data.data());
  if (absl::IsOutOfRange(read) || (read.ok() && Crc32c(data) != file->header.data_crc))
    return absl::DataLossError(StrCat("the page cache has no good copy of ", file->id().ToString()));
  NOVA_RETURN_IF_ERROR(read);
  return Heal(file, data, /*as=*/nullptr);
}

// --- files that are appended to

Status FileStore::AppendFile(const StocFileId& id, const Creator& creator, uint64_t offset, bool create,
                             std::string_view data) {
  if (create) {
    if (offset != 0) return absl::InvalidArgumentError("a new file starts at 0");
    return files_.CreateAppended(Kind::kAppended, id, creator, data);
  }
  const StoredFiles::File file = files_.Find(id);
  if (file == nullptr) return absl::NotFoundError(StrCat("no file ", id.ToString()));
  MutexLock appending(&file->append_mu);
  if (file->bad) return absl::DataLossError(StrCat(id.ToString(), " is bad"));
  if (file->append_handle == nullptr)
    return absl::UnavailableError(StrCat(id.ToString(), " is closed to appends"));
  // Manifest (M1): an epoch appends to its own files only.
  const Creator& owner = file->header.creator;
  if (owner.range != creator.range || owner.epoch != creator.epoch) {
    return absl::InvalidArgumentError(
        StrCat(id.ToString(), " belongs to range ", owner.range.value(), ", epoch ", owner.epoch.value()));
  }
  if (file->size != offset) {
    return absl::InvalidArgumentError(
        StrCat(id.ToString(), " ends at ", file->size.load(), ", not at ", offset));
  }
  NOVA_RETURN_IF_ERROR(directory_.CheckSpace(data.size(), Use::kAppend));
  Status status;
  {
    const StoreDirectory::Writing writing(&directory_, data.size());
    status = file->append_handle->Write(kFileHeaderBytes + offset, data);
    if (status.ok()) status = NOVA_FP_STATUS("stoc.append_written");
    if (status.ok()) status = file->append_handle->Sync();
    if (status.ok()) status = NOVA_FP_STATUS("stoc.append_synced");
  }
  if (!status.ok()) return files_.Failed(file.get(), status);
  file->size += data.size();
  file->written.Note(offset, data);
  directory_.NoteGrowth(data.size(), data.size());
  return OkStatus();
}

// --- all of them

void FileStore::DeleteUnreadable(const std::vector<RangeId>& ranges) {
  for (const StocFileId& file : unreadable_.DroppedByAll(ranges)) {
    if (!files_.TakeName(file)) continue;
    const Status s = directory_.Remove(file);
    files_.FreeTakenName(file);
    if (s.ok() || absl::IsNotFound(s)) unreadable_.Forget(file);
    NOVA_LOG(WARNING) << file.ToString() << ", whose header cannot be read, is needed by no range: "
                      << (s.ok() ? "deleted" : s.ToString());
  }
}

StatusOr<std::string> FileStore::ReadFile(const StocFileId& id, uint64_t offset, uint32_t size) {
  const StoredFiles::File file = files_.Find(id);
  if (file == nullptr || file->writing) return absl::NotFoundError(StrCat("no file ", id.ToString()));
  if (file->is(Kind::kWhole) && file->bad) return absl::DataLossError(StrCat(id.ToString(), " is bad"));
  if (file->log_state.incomplete)
    return absl::DataLossError(StrCat("log ", id.owner.ToString(), " lacks what the journal has of it"));
  const uint64_t end = file->size;
  std::string bytes(offset >= end ? 0 : std::min<uint64_t>(size, end - offset), '\0');
  if (bytes.empty()) return bytes;
  NOVA_FP("stoc.file_read");
  NOVA_ASSIGN_OR_RETURN(const auto handle, file->damaged && file->is(Kind::kWhole)
                                               ? directory_.OpenUncached(id)
                                               : directory_.OpenToRead(id));
  const Status status = handle->Read(kFileHeaderBytes + offset, bytes.size(), bytes.data());
  // it was longer once
  if (absl::IsOutOfRange(status)) return absl::DataLossError(std::string(status.message()));
  NOVA_RETURN_IF_ERROR(status);
  bytes_read_->Add(bytes.size());
  return bytes;
}

}  // namespace nova
