#include "ltc/fsck/checked_stoc.h"

#include <algorithm>

#include "common/base/clock.h"
#include "stoc/log_journal.h"

namespace nova {
namespace {

constexpr Nanos kRequestDeadline = 5 * kSecond;
constexpr size_t kMaxSuperblockBytes = 4096;
constexpr size_t kMaxOpenFiles = 16;
const Epoch kAboveAll(UINT64_MAX);

}  // namespace

// --- one that runs

StatusOr<std::vector<FileSummary>> LivingStoc::List(RangeId range) {
  std::vector<FileSummary> files;
  for (StocFileId after;;) {
    NOVA_ASSIGN_OR_RETURN(const auto page, client_->ListFiles(info_.stoc_id, range, kAboveAll, after,
                                                              Now() + kRequestDeadline));
    files.insert(files.end(), page.begin(), page.end());
    if (page.size() < kMaxListedFiles) return files;
    after = page.back().file;
  }
}

StatusOr<std::string> LivingStoc::Read(const StocFileId& file, uint64_t offset, uint32_t size) {
  return client_->ReadFileBlocking(info_.stoc_id, file, offset, size, Now() + kRequestDeadline);
}

// --- a directory

StoredStoc::StoredStoc(Disk* disk, std::string name, const StoreIdentity& identity)
    : disk_(disk),
      name_(std::move(name)),
      identity_(identity),
      directory_(disk, /*reserve_bytes=*/0, kMaxOpenFiles, &metrics_),
      files_(&directory_, &metrics_) {}

StatusOr<std::unique_ptr<StoredStoc>> StoredStoc::Open(Disk* disk, std::string name) {
  NOVA_ASSIGN_OR_RETURN(const std::string superblock, ReadSmallFile(disk, "SUPERBLOCK", kMaxSuperblockBytes));
  NOVA_ASSIGN_OR_RETURN(const StoreIdentity identity, StoreIdentity::Decode(superblock));
  std::unique_ptr<StoredStoc> store(new StoredStoc(disk, std::move(name), identity));
  NOVA_ASSIGN_OR_RETURN(const std::vector<std::string> names, disk->List("files"));
  for (const std::string& file : names) store->Load(file);
  NOVA_RETURN_IF_ERROR(store->LoadJournal());
  return store;
}

void StoredStoc::Load(const std::string& name) {
  if (name.ends_with(".tmp")) return;  // not finished: removed when the StoC starts
  StocFileId file;
  const auto load = [&]() -> Status {
    if (StoreDirectory::ParseReferencesName(name, &file)) {
      shared_.insert(file);
      NOVA_ASSIGN_OR_RETURN(const std::string bytes, directory_.ReadReferences(file));
      NOVA_ASSIGN_OR_RETURN(FileReferences references, FileReferences::Decode(bytes, file));
      files_.LoadReferences(file, std::move(references));
      return OkStatus();
    }
    if (!StoreDirectory::ParseName(name, &file)) return absl::InvalidArgumentError("not the name of a file");
    NOVA_RETURN_IF_ERROR(files_.Load(file));
    creators_[file] = files_.Find(file)->header.creator.range;
    return OkStatus();
  };
  if (const Status s = load(); !s.ok()) unreadable_.push_back({name, file, {}, std::string(s.message())});
}

Status StoredStoc::LoadJournal() {
  return LogJournal::Replay(disk_, [this](const LogJournal::Piece& piece) {
    const StocFileId id{piece.log, 0};
    const StoredFiles::File file = files_.Find(id);
    if (file != nullptr && file->is(FileHeader::Kind::kLog)) journaled_[id][piece.offset] = piece.bytes;
    return OkStatus();
  });
}

StatusOr<std::vector<FileSummary>> StoredStoc::List(RangeId range) {
  return files_.List(range, kAboveAll, {}, SIZE_MAX);
}

StatusOr<std::string> StoredStoc::Read(const StocFileId& id, uint64_t offset, uint32_t size) {
  const StoredFiles::File file = files_.Find(id);
  if (file == nullptr) {
    const auto bad = std::find_if(unreadable_.begin(), unreadable_.end(),
                                  [&](const Strange& s) { return s.name == id.ToString(); });
    return bad != unreadable_.end() ? absl::DataLossError(bad->why)
                                    : absl::NotFoundError(StrCat("no file ", id.ToString()));
  }
  const auto pieces = journaled_.find(id);
  uint64_t end = file->size;
  if (pieces != journaled_.end()) {
    for (const auto& [at, bytes] : pieces->second) end = std::max<uint64_t>(end, at + bytes.size());
  }
  std::string out(offset >= end ? 0 : std::min<uint64_t>(size, end - offset), '\0');
  if (offset < file->size && !out.empty()) {
    NOVA_ASSIGN_OR_RETURN(const auto handle, directory_.OpenToRead(id));
    const size_t stored = std::min<uint64_t>(out.size(), file->size - offset);
    const Status s = handle->Read(kFileHeaderBytes + offset, stored, out.data());
    if (!s.ok()) return absl::IsNotFound(s) ? s : absl::DataLossError(s.message());
  }
  if (pieces == journaled_.end()) return out;
  for (const auto& [at, bytes] : pieces->second) {
    const uint64_t from = std::max(at, offset), to = std::min(at + bytes.size(), offset + out.size());
    if (from < to) out.replace(from - offset, to - from, bytes, from - at, to - from);
  }
  return out;
}

std::vector<CheckedStoc::Strange> StoredStoc::StrangeFiles(const std::set<RangeId>& ranges) {
  std::vector<Strange> strange = unreadable_;
  for (const auto& [file, range] : creators_) {
    if (!ranges.contains(range) && !shared_.contains(file))
      strange.push_back({file.ToString(), file, range, StrCat("there is no range ", range.value())});
  }
  return strange;
}

}  // namespace nova
