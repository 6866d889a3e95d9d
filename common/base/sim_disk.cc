#include "common/base/sim_disk.h"

#include <algorithm>
#include <map>
#include <utility>

#include "common/base/mutex.h"

namespace nova {
namespace {

constexpr uint64_t kSectorBytes = 512;

std::string ParentOf(const std::string& path) {
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? "" : path.substr(0, slash);
}

}  // namespace

struct SimDisk::Rep : std::enable_shared_from_this<SimDisk::Rep> {
  struct UnsyncedWrite {
    uint64_t offset;
    std::string data;
  };
  struct Inode {
    std::string bytes;    // as a reader sees them
    std::string durable;  // as of the last sync
    std::vector<UnsyncedWrite> unsynced;
  };
  using Entries = std::map<std::string, std::shared_ptr<Inode>>;
  struct Entry {
    std::string path;
    std::shared_ptr<Inode> inode;  // null: the entry goes
  };
  using DirectoryChange = std::vector<Entry>;  // all or nothing

  class File;
  class View;

  explicit Rep(SimDiskOptions o) : options(o) {}

  void Delay() const {
    if (options.latency_ns > 0) SleepFor(options.latency_ns);
  }
  Status Alive(uint64_t since, const std::string& path) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu) {
    if (since == generation) return OkStatus();
    return absl::FailedPreconditionError(StrCat(path, ": opened before the crash"));
  }
  void Apply(const DirectoryChange& change, Entries* entries) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu) {
    for (const Entry& e : change) {
      if (e.inode != nullptr) {
        (*entries)[e.path] = e.inode;
      } else {
        entries->erase(e.path);
      }
    }
  }
  void Change(DirectoryChange change) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu) {
    Apply(change, &entries);
    unsynced_changes.push_back(std::move(change));
  }
  uint64_t UsedBytes() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu) {
    uint64_t used = 0;
    for (const auto& [path, inode] : entries) used += inode->bytes.size();
    return used;
  }

  const SimDiskOptions options;
  mutable Mutex mu;
  uint64_t generation ABSL_GUARDED_BY(mu) = 0;  // counts crashes
  const void* locked_by ABSL_GUARDED_BY(mu) = nullptr;
  Entries entries ABSL_GUARDED_BY(mu);
  Entries durable_entries ABSL_GUARDED_BY(mu);
  std::vector<DirectoryChange> unsynced_changes ABSL_GUARDED_BY(mu);
  std::map<std::string, bool> directories ABSL_GUARDED_BY(mu);
};

class SimDisk::Rep::File : public DiskFile {
 public:
  File(std::shared_ptr<Rep> medium, std::shared_ptr<Inode> inode, std::string path, uint64_t generation,
       bool writable)
      : medium_(std::move(medium)),
        inode_(std::move(inode)),
        path_(std::move(path)),
        generation_(generation),
        writable_(writable) {}

  Status Write(uint64_t offset, std::string_view data) override {
    medium_->Delay();
    MutexLock lock(&medium_->mu);
    NOVA_RETURN_IF_ERROR(medium_->Alive(generation_, path_));
    if (!writable_) return absl::PermissionDeniedError(StrCat("write ", path_, ": opened for reading"));
    std::string& bytes = inode_->bytes;
    const uint64_t end = offset + data.size();
    if (end > bytes.size()) {
      if (medium_->UsedBytes() + (end - bytes.size()) > medium_->options.capacity_bytes) {
        return absl::ResourceExhaustedError(StrCat("write ", path_, ": no space left"));
      }
      bytes.resize(end);
    }
    std::copy(data.begin(), data.end(), bytes.begin() + static_cast<ptrdiff_t>(offset));
    inode_->unsynced.push_back({offset, std::string(data)});
    return OkStatus();
  }

  Status Read(uint64_t offset, size_t n, char* out) override {
    medium_->Delay();
    MutexLock lock(&medium_->mu);
    NOVA_RETURN_IF_ERROR(medium_->Alive(generation_, path_));
    if (offset > inode_->bytes.size() || n > inode_->bytes.size() - offset) {
      return absl::OutOfRangeError(StrCat("read ", path_, ": past the end at ", inode_->bytes.size()));
    }
    std::copy_n(inode_->bytes.begin() + static_cast<ptrdiff_t>(offset), n, out);
    return OkStatus();
  }

  Status Sync() override {
    medium_->Delay();
    MutexLock lock(&medium_->mu);
    NOVA_RETURN_IF_ERROR(medium_->Alive(generation_, path_));
    // The two differ in what was written since. A journal of megabytes is synced after each few records.
    std::string& durable = inode_->durable;
    durable.resize(inode_->bytes.size());
    for (const UnsyncedWrite& write : inode_->unsynced)
      durable.replace(write.offset, write.data.size(), write.data);
    inode_->unsynced.clear();
    return OkStatus();
  }

  StatusOr<uint64_t> Size() override {
    MutexLock lock(&medium_->mu);
    NOVA_RETURN_IF_ERROR(medium_->Alive(generation_, path_));
    return inode_->bytes.size();
  }

 private:
  const std::shared_ptr<Rep> medium_;
  const std::shared_ptr<Inode> inode_;
  const std::string path_;
  const uint64_t generation_;
  const bool writable_;
};

class SimDisk::Rep::View : public Disk {
 public:
  View(std::shared_ptr<Rep> medium, uint64_t generation)
      : medium_(std::move(medium)), generation_(generation) {}
  ~View() override {
    MutexLock lock(&medium_->mu);
    if (medium_->locked_by == this) medium_->locked_by = nullptr;
  }

  StatusOr<std::unique_ptr<DiskFile>> Create(const std::string& path) override {
    MutexLock lock(&medium_->mu);
    NOVA_RETURN_IF_ERROR(CheckParent(path));
    if (medium_->entries.contains(path)) return absl::AlreadyExistsError(StrCat("create ", path, ": exists"));
    auto inode = std::make_shared<Inode>();
    medium_->Change({{path, inode}});
    return Handle(path, inode, true);
  }
  StatusOr<std::unique_ptr<DiskFile>> Open(const std::string& path, bool writable) override {
    MutexLock lock(&medium_->mu);
    NOVA_RETURN_IF_ERROR(CheckEntry("open", path));
    return Handle(path, medium_->entries.at(path), writable);
  }
  StatusOr<std::unique_ptr<DiskFile>> OpenUncached(const std::string& path) override {
    return Open(path, /*writable=*/false);  // the medium is all there is
  }
  Status Delete(const std::string& path) override {
    MutexLock lock(&medium_->mu);
    NOVA_RETURN_IF_ERROR(medium_->Alive(generation_, path));
    if (medium_->directories.contains(path)) {
      const auto inside = medium_->entries.lower_bound(path + "/");
      if (inside != medium_->entries.end() && inside->first.starts_with(path + "/")) {
        return absl::FailedPreconditionError(StrCat("delete ", path, ": the directory is not empty"));
      }
      medium_->directories.erase(path);
      return OkStatus();
    }
    NOVA_RETURN_IF_ERROR(CheckEntry("delete", path));
    medium_->Change({{path, nullptr}});
    return OkStatus();
  }
  Status Rename(const std::string& from, const std::string& to) override {
    MutexLock lock(&medium_->mu);
    NOVA_RETURN_IF_ERROR(CheckEntry("rename", from));
    NOVA_RETURN_IF_ERROR(CheckParent(to));
    const std::shared_ptr<Inode> inode = medium_->entries.at(from);
    medium_->Change({{from, nullptr}, {to, inode}});
    return OkStatus();
  }
  Status MakeDirectory(const std::string& path) override {
    MutexLock lock(&medium_->mu);
    NOVA_RETURN_IF_ERROR(CheckParent(path));
    medium_->directories[path] = true;
    return OkStatus();
  }
  Status SyncDirectory(const std::string& path) override {
    medium_->Delay();
    MutexLock lock(&medium_->mu);
    NOVA_RETURN_IF_ERROR(CheckParent(path + "/"));
    std::vector<DirectoryChange> rest;
    for (DirectoryChange& change : medium_->unsynced_changes) {
      const bool here =
          std::any_of(change.begin(), change.end(), [&](const Entry& e) { return ParentOf(e.path) == path; });
      if (here) {
        medium_->Apply(change, &medium_->durable_entries);
      } else {
        rest.push_back(std::move(change));
      }
    }
    medium_->unsynced_changes = std::move(rest);
    return OkStatus();
  }
  StatusOr<std::vector<std::string>> List(const std::string& path) override {
    MutexLock lock(&medium_->mu);
    NOVA_RETURN_IF_ERROR(CheckParent(path + "/"));
    const std::string prefix = path.empty() ? "" : path + "/";
    std::vector<std::string> names;
    const auto add = [&](const std::string& full) {
      if (full.starts_with(prefix) && full.find('/', prefix.size()) == std::string::npos)
        names.push_back(full.substr(prefix.size()));
    };
    for (const auto& [full, inode] : medium_->entries) add(full);
    for (const auto& [full, there] : medium_->directories) add(full);
    std::sort(names.begin(), names.end());
    return names;
  }
  StatusOr<uint64_t> FreeBytes() override {
    MutexLock lock(&medium_->mu);
    NOVA_RETURN_IF_ERROR(medium_->Alive(generation_, "/"));
    return medium_->options.capacity_bytes - std::min(medium_->options.capacity_bytes, medium_->UsedBytes());
  }
  Uuid Boot() const override { return {1, generation_ + 1}; }
  Status Lock(const std::string& path) override {
    MutexLock lock(&medium_->mu);
    NOVA_RETURN_IF_ERROR(CheckParent(path));
    if (medium_->locked_by != nullptr && medium_->locked_by != this) {
      return absl::UnavailableError("the disk is in use by another process");
    }
    medium_->locked_by = this;
    if (!medium_->entries.contains(path)) medium_->Change({{path, std::make_shared<Inode>()}});
    return OkStatus();
  }

 private:
  Status CheckParent(const std::string& path) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(medium_->mu) {
    NOVA_RETURN_IF_ERROR(medium_->Alive(generation_, path));
    const std::string parent = ParentOf(path);
    if (parent.empty() || medium_->directories.contains(parent)) return OkStatus();
    return absl::NotFoundError(StrCat(parent, ": no such directory"));
  }
  Status CheckEntry(const char* what, const std::string& path) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(medium_->mu) {
    NOVA_RETURN_IF_ERROR(medium_->Alive(generation_, path));
    if (medium_->entries.contains(path)) return OkStatus();
    return absl::NotFoundError(StrCat(what, " ", path, ": no such file"));
  }
  std::unique_ptr<DiskFile> Handle(const std::string& path, const std::shared_ptr<Inode>& inode,
                                   bool writable) const {
    return std::make_unique<File>(medium_, inode, path, generation_, writable);
  }

  const std::shared_ptr<Rep> medium_;
  const uint64_t generation_;
};

SimDisk::SimDisk(SimDiskOptions options) : rep_(std::make_shared<Rep>(options)) {}
SimDisk::~SimDisk() = default;

std::unique_ptr<Disk> SimDisk::Mount() {
  MutexLock lock(&rep_->mu);
  return std::make_unique<Rep::View>(rep_, rep_->generation);
}

std::unique_ptr<SimDisk> SimDisk::Copy() const {
  auto copy = std::make_unique<SimDisk>();
  MutexLock lock(&rep_->mu);
  MutexLock theirs(&copy->rep_->mu);
  copy->rep_->directories = rep_->directories;
  for (const auto& [path, inode] : rep_->entries) {
    auto mine = std::make_shared<Rep::Inode>();
    mine->bytes = mine->durable = inode->bytes;
    copy->rep_->entries[path] = copy->rep_->durable_entries[path] = mine;
  }
  return copy;
}

std::optional<std::string> SimDisk::Contents(const std::string& path) const {
  MutexLock lock(&rep_->mu);
  const auto it = rep_->entries.find(path);
  if (it == rep_->entries.end()) return std::nullopt;
  return it->second->bytes;
}

void SimDisk::Crash(Random* torn) {
  MutexLock lock(&rep_->mu);
  ++rep_->generation;
  rep_->locked_by = nullptr;
  size_t kept = torn == nullptr ? 0 : torn->Uniform(rep_->unsynced_changes.size() + 1);
  for (const auto& change : rep_->unsynced_changes) {
    if (kept-- == 0) break;
    rep_->Apply(change, &rep_->durable_entries);
  }
  rep_->unsynced_changes.clear();
  rep_->entries = rep_->durable_entries;
  for (auto& [path, inode] : rep_->entries) {
    std::string bytes = inode->durable;
    for (const auto& write : inode->unsynced) {
      for (uint64_t at = 0; torn != nullptr && at < write.data.size(); at += kSectorBytes) {
        if (torn->OneIn(2)) continue;
        const uint64_t n = std::min<uint64_t>(kSectorBytes, write.data.size() - at);
        if (bytes.size() < write.offset + at + n) bytes.resize(write.offset + at + n);
        bytes.replace(write.offset + at, n, write.data, at, n);
      }
    }
    inode->bytes = inode->durable = std::move(bytes);
    inode->unsynced.clear();
  }
}

}  // namespace nova
