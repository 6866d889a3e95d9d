#include "stoc/file_check.h"

#include <algorithm>
#include <utility>

#include "stoc/record_walk.h"

namespace nova {

using Kind = FileHeader::Kind;

namespace {

// Of what was read. No disk says so.
Status OtherBytes(std::string_view what) { return absl::InvalidArgumentError(std::string(what)); }

// Gone from its directory, shorter than it was, other bytes, or a disk that cannot read them.
bool IsDamage(const Status& s) {
  return absl::IsNotFound(s) || absl::IsOutOfRange(s) || absl::IsInvalidArgument(s) || absl::IsDataLoss(s);
}

}  // namespace

FileCheck::Result FileCheck::Check(const StoredFiles::File& file) {
  for (bool second = false;; second = true) {
    const StoredFiles::Look look = files_->LookAt(file);
    const Status s = LookAt(file, look.header);
    if (!s.ok() && !IsDamage(s)) return {Verdict::kUnknown, s};
    if (!s.ok() && !second) continue;
    if (!files_->SetDamaged(file, look.rewrites, !s.ok()))
      return {Verdict::kUnknown, absl::AbortedError("another file by now")};
    return {s.ok() ? Verdict::kWhole : Verdict::kDamaged, s};
  }
}

Status FileCheck::LookAt(const StoredFiles::File& file, const FileHeader& header) {
  const bool whole = file->is(Kind::kWhole);
  if (whole && file->bad) return absl::UnavailableError("a bad file: nobody knows what it should be");
  NOVA_ASSIGN_OR_RETURN(const auto on_disk, directory_->OpenUncached(file->id()));
  return whole ? LookAtWhole(header, on_disk.get()) : LookAtAppended(file, header, on_disk.get());
}

Status FileCheck::ReadThrough(DiskFile* on_disk, const FileHeader& header, uint64_t bytes,
                              absl::FunctionRef<void(std::string_view)> take) {
  const uint64_t end = kFileHeaderBytes + bytes;
  std::string buffer;
  for (uint64_t at = 0; at < end; at += buffer.size()) {
    buffer.resize(std::min(kPieceBytes, end - at));
    if (!may_read_(buffer.size())) return absl::CancelledError("given up");
    NOVA_RETURN_IF_ERROR(on_disk->Read(at, buffer.size(), buffer.data()));
    std::string_view piece = buffer;
    if (at == 0) {
      if (piece.substr(0, kFileHeaderBytes) != header.Encode()) return OtherBytes("another header");
      piece.remove_prefix(kFileHeaderBytes);
    }
    take(piece);
  }
  return OkStatus();
}

Status FileCheck::LookAtWhole(const FileHeader& header, DiskFile* on_disk) {
  NOVA_ASSIGN_OR_RETURN(const uint64_t size, on_disk->Size());
  if (size != kFileHeaderBytes + header.size)
    return OtherBytes(StrCat(size, " bytes instead of ", kFileHeaderBytes + header.size));
  WrittenPrefix found;
  NOVA_RETURN_IF_ERROR(ReadThrough(on_disk, header, header.size,
                                   [&found](std::string_view piece) { found.Note(found.end, piece); }));
  return found.crc == header.data_crc ? OkStatus() : OtherBytes("its bytes fail their checksum");
}

Status FileCheck::LookAtAppended(const StoredFiles::File& file, const FileHeader& header, DiskFile* on_disk) {
  WrittenPrefix written;
  uint64_t size = 0;
  bool open = false;
  {
    MutexLock appending(&file->append_mu);
    written = file->written;
    size = file->size;
    open = file->append_handle != nullptr;
  }
  if (written.end == 0 && !open) return WalkRecords(file, header, size, on_disk);
  WrittenPrefix found;
  NOVA_RETURN_IF_ERROR(ReadThrough(on_disk, header, written.end,
                                   [&found](std::string_view piece) { found.Note(found.end, piece); }));
  return found.crc == written.crc ? OkStatus() : OtherBytes("what was appended to it fails its checksum");
}

Status FileCheck::WalkRecords(const StoredFiles::File& file, const FileHeader& header, uint64_t size,
                              DiskFile* on_disk) {
  RecordWalk walk(header.kind, header.file.owner);
  NOVA_RETURN_IF_ERROR(
      ReadThrough(on_disk, header, size, [&walk](std::string_view piece) { walk.Take(piece); }));
  if (walk.damaged()) return OtherBytes("a record of it fails its checksum");
  MutexLock appending(&file->append_mu);
  if (file->written.end == 0) file->written = walk.whole();
  return OkStatus();
}

}  // namespace nova
