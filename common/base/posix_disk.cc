#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>

#include "common/base/disk.h"
#include "common/base/mutex.h"

namespace nova {
namespace {

Status ErrnoStatus(int error, std::string_view what, const std::string& path) {
  const std::string text =
      StrCat(absl::string_view(what.data(), what.size()), " ", path, ": ", std::strerror(error));
  switch (error) {
    case ENOENT:
      return absl::NotFoundError(text);
    case EEXIST:
      return absl::AlreadyExistsError(text);
    case ENOSPC:
    case EDQUOT:
      return absl::ResourceExhaustedError(text);
    case EACCES:
    case EPERM:
    case EROFS:
      return absl::PermissionDeniedError(text);
    case EMFILE:
    case ENFILE:
    case ENOMEM:
      return absl::UnavailableError(text);
    case EIO:
    case EBADMSG:  // a checksum of the file system's fails
    case EUCLEAN:  // the file system is damaged
    case ENXIO:    // the device is gone
    case ENODEV:
    case EREMOTEIO:
    case ETIMEDOUT:
      return absl::DataLossError(text);
    default:
      return absl::InternalError(text);
  }
}

class PosixFile : public DiskFile {
 public:
  PosixFile(int fd, std::string path) : fd_(fd), path_(std::move(path)) {}
  ~PosixFile() override { close(fd_); }

  Status Write(uint64_t offset, std::string_view data) override {
    while (!data.empty()) {
      const ssize_t n = pwrite(fd_, data.data(), data.size(), static_cast<off_t>(offset));
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) return ErrnoStatus(errno, "write", path_);
      data.remove_prefix(static_cast<size_t>(n));
      offset += static_cast<uint64_t>(n);
    }
    return OkStatus();
  }

  Status Read(uint64_t offset, size_t size, char* out) override {
    while (size > 0) {
      const ssize_t n = pread(fd_, out, size, static_cast<off_t>(offset));
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) return ErrnoStatus(errno, "read", path_);
      if (n == 0) return absl::OutOfRangeError(StrCat("read ", path_, ": past the end at ", offset));
      out += n;
      size -= static_cast<size_t>(n);
      offset += static_cast<uint64_t>(n);
    }
    return OkStatus();
  }

  Status Sync() override { return fdatasync(fd_) == 0 ? OkStatus() : ErrnoStatus(errno, "sync", path_); }

  StatusOr<SharedBytes> Map(uint64_t size) override {
    void* const at = mmap(nullptr, size, PROT_READ, MAP_SHARED, fd_, 0);
    if (at == MAP_FAILED) return ErrnoStatus(errno, "map", path_);
    // Else a get that misses reads megabytes around its page.
    if (madvise(at, size, MADV_RANDOM) != 0) {
      const Status s = ErrnoStatus(errno, "advise", path_);
      munmap(at, size);
      return s;
    }
    std::shared_ptr<const void> keep(at, [size](const void* p) { munmap(const_cast<void*>(p), size); });
    return SharedBytes{{static_cast<const char*>(at), size}, std::move(keep)};
  }

  StatusOr<uint64_t> Size() override {
    struct stat st;
    if (fstat(fd_, &st) != 0) return ErrnoStatus(errno, "stat", path_);
    return static_cast<uint64_t>(st.st_size);
  }

 protected:
  int fd() const { return fd_; }
  const std::string& path() const { return path_; }

 private:
  const int fd_;
  const std::string path_;
};

// Disk::OpenUncached: O_DIRECT. Places and sizes of its reads are multiples of what devices take; callers'
// are any.
class DirectFile : public PosixFile {
 public:
  DirectFile(int fd, std::string path) : PosixFile(fd, std::move(path)) {}

  Status Read(uint64_t offset, size_t size, char* out) override {
    if (size == 0) return OkStatus();
    const uint64_t begin = offset / kAlignment * kAlignment;
    const uint64_t end = (offset + size + kAlignment - 1) / kAlignment * kAlignment;
    const size_t buffer_bytes = std::min<uint64_t>(end - begin, kBufferBytes);
    const std::unique_ptr<char, decltype(&std::free)> buffer(
        static_cast<char*>(std::aligned_alloc(kAlignment, buffer_bytes)), &std::free);
    if (buffer == nullptr) return ErrnoStatus(ENOMEM, "read", path());
    for (uint64_t at = begin; size > 0; at += buffer_bytes) {
      NOVA_ASSIGN_OR_RETURN(const size_t got,
                            ReadAligned(at, std::min(buffer_bytes, end - at), buffer.get()));
      const size_t before = offset - at;
      const size_t n = std::min(size, buffer_bytes - before);
      if (got < before + n)
        return absl::OutOfRangeError(StrCat("read ", path(), ": past the end at ", at + got));
      std::memcpy(out, buffer.get() + before, n);
      out += n;
      offset += n;
      size -= n;
    }
    return OkStatus();
  }
  StatusOr<SharedBytes> Map(uint64_t /*size*/) override { return SharedBytes(); }

 private:
  static constexpr uint64_t kAlignment = 4096;
  static constexpr uint64_t kBufferBytes = 1 << 20;

  // Fewer bytes than `size` where the file ends.
  StatusOr<size_t> ReadAligned(uint64_t at, size_t size, char* buffer) {
    size_t got = 0;
    while (got < size) {
      const ssize_t n = pread(fd(), buffer + got, size - got, static_cast<off_t>(at + got));
      if (n < 0 && errno == EINTR) continue;
      // This device wants another alignment, or nothing of the kind: through the cache, then.
      if (n < 0 && errno == EINVAL && fcntl(fd(), F_GETFL) & O_DIRECT && fcntl(fd(), F_SETFL, 0) == 0)
        continue;
      if (n < 0) return ErrnoStatus(errno, "read", path());
      if (n == 0) break;
      got += static_cast<size_t>(n);
      if (got % kAlignment != 0) break;  // the end
    }
    return got;
  }
};

class PosixDisk : public Disk {
 public:
  explicit PosixDisk(std::string root) : root_(std::move(root)), boot_(ReadBoot()) {}
  ~PosixDisk() override {
    if (lock_fd_ >= 0) close(lock_fd_);
  }

  StatusOr<std::unique_ptr<DiskFile>> Create(const std::string& path) override {
    return OpenFile(path, O_RDWR | O_CREAT | O_EXCL, "create");
  }
  StatusOr<std::unique_ptr<DiskFile>> Open(const std::string& path, bool writable) override {
    return OpenFile(path, writable ? O_RDWR : O_RDONLY, "open");
  }
  StatusOr<std::unique_ptr<DiskFile>> OpenUncached(const std::string& path) override {
    const int fd = open(Full(path).c_str(), O_RDONLY | O_DIRECT | O_CLOEXEC);
    if (fd < 0 && errno == EINVAL) return Open(path, /*writable=*/false);
    if (fd < 0) return ErrnoStatus(errno, "open", Full(path));
    return std::unique_ptr<DiskFile>(std::make_unique<DirectFile>(fd, Full(path)));
  }
  Status Delete(const std::string& path) override {
    return remove(Full(path).c_str()) == 0 ? OkStatus() : ErrnoStatus(errno, "delete", Full(path));
  }
  Status Rename(const std::string& from, const std::string& to) override {
    return rename(Full(from).c_str(), Full(to).c_str()) == 0 ? OkStatus()
                                                             : ErrnoStatus(errno, "rename", Full(from));
  }
  Status MakeDirectory(const std::string& path) override {
    if (mkdir(Full(path).c_str(), 0755) == 0 || errno == EEXIST) return OkStatus();
    return ErrnoStatus(errno, "make directory", Full(path));
  }
  Status SyncDirectory(const std::string& path) override {
    const int fd = open(Full(path).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) return ErrnoStatus(errno, "open directory", Full(path));
    const int rc = fsync(fd);
    const int error = errno;
    close(fd);
    return rc == 0 ? OkStatus() : ErrnoStatus(error, "sync directory", Full(path));
  }
  StatusOr<std::vector<std::string>> List(const std::string& path) override {
    DIR* dir = opendir(Full(path).c_str());
    if (dir == nullptr) return ErrnoStatus(errno, "list", Full(path));
    std::vector<std::string> names;
    while (const dirent* entry = readdir(dir)) {
      const std::string name = entry->d_name;
      if (name != "." && name != "..") names.push_back(name);
    }
    closedir(dir);
    std::sort(names.begin(), names.end());
    return names;
  }
  StatusOr<uint64_t> FreeBytes() override {
    struct statvfs st;
    if (statvfs(root_.c_str(), &st) != 0) return ErrnoStatus(errno, "statvfs", root_);
    return static_cast<uint64_t>(st.f_bavail) * st.f_frsize;
  }
  bool Maps() const override { return true; }
  std::string NativePath(const std::string& path) const override { return Full(path); }
  Status Link(const std::string& native_path, const std::string& path) override {
    if (link(native_path.c_str(), Full(path).c_str()) == 0) return OkStatus();
    // Another file system; one without links; too many of them; a file that we may read and not link
    // (protected_hardlinks).
    if (errno == EXDEV || errno == EPERM || errno == EOPNOTSUPP || errno == EMLINK || errno == ENOSYS) {
      return absl::UnimplementedError(StrCat("no hard link to ", native_path));
    }
    return ErrnoStatus(errno, "link", Full(path));
  }
  Uuid Boot() const override { return boot_; }
  Status Lock(const std::string& path) override {
    const int fd = open(Full(path).c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
    if (fd < 0) return ErrnoStatus(errno, "open lock file", Full(path));
    struct stat locked, named;
    // Whoever held it may have deleted or renamed the file while it was opened here: then this lock keeps
    // nobody out.
    const bool ours = flock(fd, LOCK_EX | LOCK_NB) == 0 && fstat(fd, &locked) == 0 &&
                      stat(Full(path).c_str(), &named) == 0 && locked.st_ino == named.st_ino &&
                      locked.st_dev == named.st_dev;
    if (!ours) {
      close(fd);
      return absl::UnavailableError(StrCat(root_, " is in use by another process"));
    }
    MutexLock lock(&mu_);
    lock_fd_ = fd;
    return OkStatus();
  }

 private:
  std::string Full(const std::string& path) const { return path.empty() ? root_ : root_ + "/" + path; }
  StatusOr<std::unique_ptr<DiskFile>> OpenFile(const std::string& path, int flags, std::string_view what) {
    const int fd = open(Full(path).c_str(), flags | O_CLOEXEC, 0644);
    if (fd < 0) return ErrnoStatus(errno, what, Full(path));
    return std::unique_ptr<DiskFile>(std::make_unique<PosixFile>(fd, Full(path)));
  }

  static Uuid ReadBoot() {
    std::ifstream in("/proc/sys/kernel/random/boot_id");
    std::string text;
    Uuid boot;
    if (!std::getline(in, text)) return boot;
    std::erase(text, '-');
    return Uuid::Parse(text, &boot) ? boot : Uuid();
  }

  const std::string root_;
  const Uuid boot_;
  Mutex mu_;
  int lock_fd_ = -1;
};

}  // namespace

namespace {

// Whole pages. False: the kernel does not know the advice.
bool Advise(std::string_view bytes, int advice) {
  static const auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  if (bytes.empty()) return true;
  const auto begin = reinterpret_cast<uintptr_t>(bytes.data()) & ~(page - 1);
  return madvise(reinterpret_cast<void*>(begin),
                 reinterpret_cast<uintptr_t>(bytes.data()) + bytes.size() - begin, advice) == 0 ||
         errno != EINVAL;
}

}  // namespace

void PrefetchMapped(std::string_view bytes) { Advise(bytes, MADV_WILLNEED); }

size_t ResidentPrefix(std::string_view bytes) {
  constexpr size_t kMostPages = 256;  // asked for at once
  static const auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  const auto first = reinterpret_cast<uintptr_t>(bytes.data());
  const uintptr_t end = first + bytes.size();
  for (uintptr_t at = first & ~(page - 1); at < end;) {
    unsigned char in_memory[kMostPages];
    const size_t pages = std::min<size_t>(kMostPages, (end - at + page - 1) / page);
    if (mincore(reinterpret_cast<void*>(at), pages * page, in_memory) != 0) return bytes.size();
    for (size_t i = 0; i < pages; ++i, at += page) {
      if ((in_memory[i] & 1) == 0) return at <= first ? 0 : at - first;
    }
  }
  return bytes.size();
}

void LoadMapped(std::string_view bytes) {
  if (Advise(bytes, MADV_POPULATE_READ)) return;  // since Linux 5.14
  static_cast<void>(*static_cast<const volatile char*>(&bytes.back()));
}

void ReleaseMapped(std::string_view bytes) {
  static const auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  const uintptr_t begin = (reinterpret_cast<uintptr_t>(bytes.data()) + page - 1) & ~(page - 1);
  const uintptr_t end = (reinterpret_cast<uintptr_t>(bytes.data()) + bytes.size()) & ~(page - 1);
  if (begin < end)
    Advise({reinterpret_cast<const char*>(begin), end - begin}, MADV_PAGEOUT);  // since Linux 5.4
}

StatusOr<std::unique_ptr<Disk>> OpenPosixDisk(const std::string& root) {
  // Each missing parent, as `mkdir -p` does.
  for (size_t slash = root.find('/', 1);; slash = root.find('/', slash + 1)) {
    const std::string part = root.substr(0, slash);
    if (mkdir(part.c_str(), 0755) != 0 && errno != EEXIST) return ErrnoStatus(errno, "make directory", part);
    if (slash == std::string::npos) break;
  }
  struct stat st;
  if (stat(root.c_str(), &st) != 0) return ErrnoStatus(errno, "stat", root);
  if (!S_ISDIR(st.st_mode)) return absl::InvalidArgumentError(root + " is not a directory");
  return std::unique_ptr<Disk>(std::make_unique<PosixDisk>(root));
}

}  // namespace nova
