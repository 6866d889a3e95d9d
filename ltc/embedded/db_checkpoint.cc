#include "ltc/embedded/db_checkpoint.h"

#include <algorithm>

#include "ltc/embedded/db_identity.h"
#include "ltc/embedded/local_storage.h"
#include "ltc/engine/manifest.h"

namespace nova {
namespace {

constexpr size_t kCopyBytes = 1 << 20;

Status WriteSynced(Disk* disk, const std::string& path, std::string_view bytes) {
  NOVA_ASSIGN_OR_RETURN(const auto file, disk->Create(path));
  NOVA_RETURN_IF_ERROR(file->Write(0, bytes));
  return file->Sync();
}

// Shared table (M4): a table never changes once it is written, so that one file may be two databases': a link
// is a reference, and the last one to go takes the file along.
Status LinkOrCopy(Disk* from, const std::string& path, Disk* to, const std::string& to_path) {
  if (const std::string native = from->NativePath(path); !native.empty()) {
    const Status s = to->Link(native, to_path);
    if (!absl::IsUnimplemented(s)) return s;
  }
  NOVA_ASSIGN_OR_RETURN(const auto in, from->Open(path, /*writable=*/false));
  NOVA_ASSIGN_OR_RETURN(const uint64_t size, in->Size());
  NOVA_ASSIGN_OR_RETURN(const auto out, to->Create(to_path));
  std::string piece;
  for (uint64_t at = 0; at < size; at += piece.size()) {
    piece.resize(std::min<uint64_t>(kCopyBytes, size - at));
    NOVA_RETURN_IF_ERROR(in->Read(at, piece.size(), piece.data()));
    NOVA_RETURN_IF_ERROR(out->Write(at, piece));
  }
  return out->Sync();
}

bool MayBeOurs(const std::string& name) {
  Uuid uuid;
  return name == kUnfinishedCheckpoint || name == "CURRENT" || name == "IDENTITY" || name == "LOCK" ||
         LocalFileUuid(name, &uuid);
}

// What a call left that did not end, but for the mark. A database has an IDENTITY and no mark.
Status RemoveUnfinished(Disk* disk, const std::string& directory, bool only_look = false) {
  const auto names = disk->List(directory);
  if (!names.ok()) return absl::IsNotFound(names.status()) ? OkStatus() : names.status();
  for (const std::string& name : *names) {
    if (!MayBeOurs(name))
      return absl::AlreadyExistsError(StrCat(directory, " is in the way, and holds ", name));
  }
  const auto has = [&](const char* name) {
    return std::find(names->begin(), names->end(), name) != names->end();
  };
  if (has("IDENTITY") && !has(kUnfinishedCheckpoint))
    return absl::AlreadyExistsError(StrCat(directory, " is in the way, and is a database"));
  for (const std::string& name : *names) {
    if (name != kUnfinishedCheckpoint && !only_look)
      NOVA_RETURN_IF_ERROR(disk->Delete(StrCat(directory, "/", name)));
  }
  return OkStatus();
}

// Who makes a checkpoint of that name holds its mark for as long. Null: the disk is nobody's but ours.
StatusOr<std::unique_ptr<Disk>> LockUnfinished(Disk* to, const std::string& directory) {
  const std::string native = to->NativePath(directory);
  if (native.empty()) return nullptr;
  NOVA_ASSIGN_OR_RETURN(auto held, OpenPosixDisk(native));
  const Status s = held->Lock(kUnfinishedCheckpoint);
  if (absl::IsUnavailable(s) || absl::IsNotFound(s))
    return absl::UnavailableError(StrCat("another checkpoint of that name is being made: ", s.message()));
  NOVA_RETURN_IF_ERROR(s);
  return held;
}

Status MarkUnfinished(Disk* to, const std::string& directory) {
  const std::string path = StrCat(directory, "/", kUnfinishedCheckpoint);
  const Status s = to->Open(path, /*writable=*/false).status();
  return absl::IsNotFound(s) ? to->Create(path).status() : s;
}

Status CheckFree(Disk* to, const std::string& name) {
  const Status there = to->List(name).status();
  return absl::IsNotFound(there) ? OkStatus()
         : there.ok()            ? absl::AlreadyExistsError("the directory is there already")
                                 : there;
}

Status Fill(const VersionEdit& cut, Disk* from, Disk* to, const std::string& directory) {
  const Uuid manifest = Uuid::Generate();
  NOVA_RETURN_IF_ERROR(WriteSynced(to, StrCat(directory, "/", LocalManifestName(manifest)),
                                   Manifest::EncodeRecord(manifest, cut)));
  for (const VersionEdit::Add& add : cut.adds) {
    const std::string table = LocalTableName(add.table.uuid);
    NOVA_RETURN_IF_ERROR(LinkOrCopy(from, table, to, StrCat(directory, "/", table)));
  }
  NOVA_RETURN_IF_ERROR(WriteSynced(to, StrCat(directory, "/CURRENT"), manifest.ToString()));
  NOVA_RETURN_IF_ERROR(to->SyncDirectory(directory));
  NOVA_RETURN_IF_ERROR(WriteDbIdentity(to, StrCat(directory, "/IDENTITY"), Epoch(0)));
  return to->SyncDirectory(directory);
}

}  // namespace

Status WriteDbCheckpoint(const VersionEdit& cut, Disk* from, Disk* to, const std::string& name) {
  NOVA_RETURN_IF_ERROR(CheckFree(to, name));
  const std::string unfinished = name + ".unfinished", mark = StrCat("/", kUnfinishedCheckpoint);
  NOVA_RETURN_IF_ERROR(RemoveUnfinished(to, unfinished, /*only_look=*/true));
  NOVA_RETURN_IF_ERROR(to->MakeDirectory(unfinished));
  NOVA_ASSIGN_OR_RETURN(const auto held, LockUnfinished(to, unfinished));
  Status s = CheckFree(to, name);  // once more: who held the lock until now may have made it
  if (s.ok()) s = RemoveUnfinished(to, unfinished);
  if (s.ok()) s = MarkUnfinished(to, unfinished);
  if (s.ok()) s = Fill(cut, from, to, unfinished);
  if (s.ok()) s = to->Rename(unfinished, name);
  if (!s.ok()) {
    RemoveUnfinished(to, unfinished).IgnoreError();  // a full disk wants its space back
    to->Delete(unfinished + mark).IgnoreError();
    to->Delete(unfinished).IgnoreError();
    return s;
  }
  to->Delete(name + mark).IgnoreError();  // or the first opening will
  return to->SyncDirectory("");
}

}  // namespace nova
